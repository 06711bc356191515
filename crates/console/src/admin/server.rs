//! A proxy's admin server, over a socket or over HTTP.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cells::printable_lines;
use anyhow::{Context, Result};
use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};

use super::call::{Coming, begin};
use super::url::AdminUrl;

/// Where the package's unit has it.
const SOCKET: &str = "/run/helenus/admin.sock";
const ADDRESS: &str = "127.0.0.1:9180";

/// Where to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    Socket(PathBuf),
    Tcp(String),
}

/// A proxy's answer.
pub enum Answer {
    Done(Value),
    /// It cannot be done, and why.
    Refused(String),
    /// It wants a token, or another one.
    NotAllowed(String),
    /// It does not know what it was asked for: an older version, or no proxy.
    NotKnown(String),
}

impl Server {
    pub fn of(socket: Option<&Path>, admin: Option<&AdminUrl>) -> Server {
        match (socket, admin) {
            (Some(path), _) => Server::Socket(path.to_owned()),
            (None, Some(url)) => Server::Tcp(url.authority().to_owned()),
            (None, None) if Path::new(SOCKET).exists() => Server::Socket(SOCKET.into()),
            (None, None) => Server::Tcp(ADDRESS.to_owned()),
        }
    }

    /// As people write it.
    pub fn name(&self) -> String {
        match self {
            Server::Socket(path) => path.display().to_string(),
            Server::Tcp(authority) => format!("http://{authority}"),
        }
    }

    /// Asks for something to be shown, or to be done.
    pub async fn ask(
        &self,
        is_action: bool,
        path: &str,
        token: Option<&str>,
        patience: Duration,
    ) -> Result<Answer> {
        let at = self.name();
        let method = if is_action { Method::POST } else { Method::GET };
        let asked = tokio::time::timeout(patience, self.send(method, path, token)).await;
        let (status, body) = asked
            .with_context(|| format!("{at} has not answered in {patience:?}"))?
            .with_context(|| {
                format!("cannot ask {at}: is the proxy running, and this its admin server?")
            })?;
        if status == StatusCode::OK {
            let value = serde_json::from_slice(&body);
            let value = value.with_context(|| format!("{at} does not answer as a proxy"))?;
            return Ok(Answer::Done(value));
        }
        Ok(self.refused(status, &body, path, token))
    }

    /// Asks for something that comes as time passes.
    pub async fn stream(
        &self,
        path: &str,
        token: Option<&str>,
        patience: Duration,
    ) -> Result<Result<Coming, Answer>> {
        let at = self.name();
        let asked = tokio::time::timeout(patience, self.begin(Method::POST, path, token)).await;
        let mut coming = asked
            .with_context(|| format!("{at} has not answered in {patience:?}"))?
            .with_context(|| {
                format!("cannot ask {at}: is the proxy running, and this its admin server?")
            })?;
        if coming.status == StatusCode::OK {
            return Ok(Ok(coming));
        }
        let body = coming.whole().await?;
        Ok(Err(self.refused(coming.status, &body, path, token)))
    }

    fn refused(&self, status: StatusCode, body: &[u8], path: &str, token: Option<&str>) -> Answer {
        let at = self.name();
        // It may quote what clients have named.
        let text = printable_lines(String::from_utf8_lossy(body).trim());
        match status {
            StatusCode::UNAUTHORIZED => Answer::NotAllowed(match token {
                Some(_) => format!("{at} does not accept the token of --admin-token-file: {text}"),
                None => format!(
                    "{at} needs a token: give --admin-token-file, or use its socket. It says: {text}"
                ),
            }),
            StatusCode::FORBIDDEN => Answer::NotAllowed(format!("{at}: {text}")),
            StatusCode::NOT_FOUND if text.starts_with("nothing is served") => Answer::NotKnown(
                format!("{at} does not know {path}: is it a proxy of this version?"),
            ),
            _ => Answer::Refused(text),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
    ) -> Result<(StatusCode, Bytes)> {
        let mut coming = self.begin(method, path, token).await?;
        Ok((coming.status, coming.whole().await?))
    }

    async fn begin(&self, method: Method, path: &str, token: Option<&str>) -> Result<Coming> {
        match self {
            Server::Socket(socket) => {
                let stream = UnixStream::connect(socket).await?;
                begin(stream, "localhost", method, path, token).await
            }
            Server::Tcp(authority) => {
                let stream = TcpStream::connect(authority).await?;
                begin(stream, authority, method, path, token).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_asked() {
        let url: AdminUrl = "http://10.0.0.1:9180".parse().expect("a URL");
        let tcp = Server::of(None, Some(&url));
        assert_eq!(tcp, Server::Tcp("10.0.0.1:9180".to_owned()));
        let socket = Server::of(Some(Path::new("/x")), None);
        assert_eq!(socket, Server::Socket("/x".into()));
    }
}
