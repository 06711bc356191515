//! One request to a proxy's admin server, over a connection of its own.

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

/// Proxies answer with 1 MiB of texts at most, which JSON may make longer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// An answer whose body comes as time passes. It ends with this value.
pub struct Coming {
    pub status: StatusCode,
    body: Incoming,
    connection: JoinHandle<hyper::Result<()>>,
}

impl Coming {
    /// The next bytes; None at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(bytes) = frame.context("the answer breaks off")?.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// All of the body.
    pub async fn whole(&mut self) -> Result<Bytes> {
        let body = Limited::new(&mut self.body, ANSWER_BYTES_MAX)
            .collect()
            .await;
        match body {
            Ok(body) => Ok(body.to_bytes()),
            Err(e) => bail!("the answer cannot be read: {e}"),
        }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Status and body of the answer.
pub(super) async fn exchange<S>(
    stream: S,
    host: &str,
    method: Method,
    path: &str,
    token: Option<&str>,
) -> Result<(StatusCode, Bytes)>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut coming = begin(stream, host, method, path, token).await?;
    Ok((coming.status, coming.whole().await?))
}

/// [`exchange`] with a body that is read as it comes.
pub(super) async fn begin<S>(
    stream: S,
    host: &str,
    method: Method,
    path: &str,
    token: Option<&str>,
) -> Result<Coming>
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
    Ok(Coming {
        status: head.status,
        body,
        connection,
    })
}
