//! Asks proxies' admin servers.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Request, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::net::TcpStream;

use super::learned::Asked;
use crate::online::names::TableName;

const PATIENCE: Duration = Duration::from_secs(10);
/// Proxies answer with 1 MiB of texts at most, which JSON may make longer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// A proxy's admin server: `http://HOST:PORT`, or the same without a scheme.
#[derive(Clone, Debug)]
pub(super) struct AdminUrl {
    authority: String,
}

impl std::str::FromStr for AdminUrl {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<AdminUrl> {
        let usage = "write the address of a proxy's admin server: http://HOST:PORT";
        let uri: Uri = text.parse().with_context(|| format!("{text}: {usage}"))?;
        match uri.scheme_str() {
            None | Some("http") => {}
            Some("https") => bail!(
                "{text}: https is not supported here: use the admin server's own address, or a tunnel to it"
            ),
            Some(_) => bail!("{text}: {usage}"),
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            bail!("{text}: {usage}, without a path");
        }
        let authority = uri.authority().filter(|at| at.port_u16().is_some());
        let authority = authority.with_context(|| format!("{text}: {usage}"))?;
        if authority.as_str().contains('@') {
            bail!("{text}: {usage}; a token belongs in the file of --admin-token-file");
        }
        Ok(AdminUrl {
            authority: authority.to_string(),
        })
    }
}

/// The token of a file.
pub(super) fn token_of(path: &Path) -> Result<String> {
    let shown = path.display();
    let token = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    Ok(token.trim().to_owned())
}

impl AdminUrl {
    /// The statements that a proxy has counted of a table.
    pub(super) async fn statements(
        &self,
        table: &TableName,
        token: Option<&str>,
    ) -> Result<Vec<Asked>> {
        let path = format!(
            "/api/statements?table={}",
            utf8_percent_encode(&table.to_cql(), NON_ALPHANUMERIC)
        );
        let at = &self.authority;
        let answer = tokio::time::timeout(PATIENCE, self.get(&path, token)).await;
        let answer = answer.with_context(|| format!("{at} has not answered in {PATIENCE:?}"))?;
        let (status, body) = answer.with_context(|| format!("cannot ask http://{at}{path}"))?;
        let text = String::from_utf8_lossy(&body);
        match status {
            StatusCode::OK => serde_json::from_slice(&body)
                .with_context(|| format!("http://{at} does not answer as a proxy: {text}")),
            StatusCode::UNAUTHORIZED => bail!(
                "{at} needs its token (admin.token): give --admin-token-file. It says: {}",
                text.trim()
            ),
            StatusCode::NOT_FOUND => bail!(
                "{at} does not count statements: is it the admin server of a proxy of this version?"
            ),
            status => bail!("{at} answers {status}: {}", text.trim()),
        }
    }

    async fn get(&self, path: &str, token: Option<&str>) -> Result<(StatusCode, Bytes)> {
        let stream = TcpStream::connect(&self.authority).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the answer, or with this request.
        let connection = tokio::spawn(connection);
        let mut request = Request::get(path).header(header::HOST, &self.authority);
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
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn only_addresses_of_admin_servers_are_taken() {
        for good in [
            "http://127.0.0.1:9180",
            "http://proxy.internal:80/",
            "127.0.0.1:9180",
            "localhost:9180",
            "http://[::1]:9180",
        ] {
            let url: Result<AdminUrl> = good.parse();
            let url = url.unwrap_or_else(|e| panic!("{good}: {e:#}"));
            assert!(good.contains(&url.authority), "{url:?}");
        }
        for (bad, why) in [
            ("https://127.0.0.1:9180", "https is not supported"),
            ("http://127.0.0.1", "HOST:PORT"),
            ("http://127.0.0.1:9180/metrics", "without a path"),
            ("http://token@127.0.0.1:9180", "--admin-token-file"),
            ("ftp://127.0.0.1:21", "HOST:PORT"),
            ("", "HOST:PORT"),
        ] {
            let error = bad.parse::<AdminUrl>().expect_err(bad);
            assert!(format!("{error:#}").contains(why), "{bad}: {error:#}");
        }
    }

    /// What is made of a server's answer, and the request that the server has seen.
    async fn asked(answer: &'static str) -> (Result<Vec<Asked>>, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.expect("a request"));
            }
            stream.write_all(answer.as_bytes()).await.expect("sent");
            String::from_utf8(request).expect("a text")
        });
        let url: AdminUrl = format!("http://{address}").parse().expect("an address");
        let table: TableName = "shop.\"Or&ders\"".parse().expect("a name");
        let found = url.statements(&table, Some("s3cret")).await;
        (found, server.await.expect("it ends"))
    }

    #[tokio::test]
    async fn a_proxy_is_asked_with_the_token_and_the_tables_name() {
        let (found, request) = asked(
            "HTTP/1.1 200 OK\r\nContent-Length: 103\r\n\r\n\
             [{\"text\":\"SELECT * FROM t\",\"keyspace\":\"shop\",\"asked\":32.5,\"mean_us\":null,\
             \"counted_s\":7,\"new\":\"thing\"} ]",
        )
        .await;
        let found = found.expect("an answer");
        assert_eq!((found[0].asked, found[0].mean_us), (32.5, None));
        assert!(
            request.starts_with("GET /api/statements?table=shop%2E%22Or%26ders%22 HTTP/1.1\r\n"),
            "{request}"
        );
        assert!(
            request.contains("authorization: Bearer s3cret\r\n"),
            "{request}"
        );
        assert!(request.contains("host: 127.0.0.1:"), "{request}");
    }

    #[tokio::test]
    async fn other_answers_are_errors_that_say_what_to_do() {
        for (answer, why) in [
            (
                "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno",
                "--admin-token-file",
            ),
            (
                "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
                "of this version",
            ),
            (
                "HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\nhosts",
                "hosts",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
                "as a proxy",
            ),
            ("nonsense\r\n\r\n", "cannot ask"),
        ] {
            let (found, _) = asked(answer).await;
            let error = format!("{:#}", found.expect_err(answer));
            assert!(error.contains(why), "{error}");
        }
    }
}
