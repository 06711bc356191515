//! One request to a proxy's admin server, over a connection of its own.

use anyhow::{Result, bail};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Proxies answer with 1 MiB of texts at most, which JSON may make longer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Status and body of the answer.
pub(crate) async fn exchange<S>(
    stream: S,
    host: &str,
    method: Method,
    path: &str,
    token: Option<&str>,
) -> Result<(StatusCode, Bytes)>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the answer, or with this request.
    let connection = tokio::spawn(connection);
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, host);
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let answer = sender.send_request(request.body(Empty::<Bytes>::new())?);
    let (head, body) = answer.await?.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    connection.abort();
    match body {
        Ok(body) => Ok((head.status, body.to_bytes())),
        Err(e) => bail!("the answer cannot be read: {e}"),
    }
}
