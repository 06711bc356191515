//! The bytes of a connection, encrypted or not.

use crate::client::tls::{Tls, explain};
use anyhow::Result;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

#[derive(Debug)]
pub(in crate::client) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

/// One direction of a connection that is read.
pub(in crate::client) type Reading = Box<dyn AsyncRead + Send + Unpin>;
/// The other one.
pub(in crate::client) type Writing = Box<dyn AsyncWrite + Send + Unpin>;

impl Stream {
    pub(in crate::client) async fn connect(address: &str, tls: Option<&Tls>) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(match tls {
            Some(tls) => Self::Encrypted(Box::new(tls.handshake(stream, address).await?)),
            None => Self::Plain(stream),
        })
    }

    /// For tasks of their own. Whoever writes must flush.
    pub(in crate::client) fn into_split(self) -> (Reading, Writing) {
        match self {
            Self::Plain(stream) => {
                let (reading, writing) = stream.into_split();
                (Box::new(reading), Box::new(writing))
            }
            Self::Encrypted(stream) => {
                let (reading, writing) = split(stream);
                (Box::new(reading), Box::new(writing))
            }
        }
    }

    pub(super) async fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Plain(stream) => Ok(stream.write_all(bytes).await?),
            Self::Encrypted(stream) => {
                stream.write_all(bytes).await.map_err(explain)?;
                stream.flush().await.map_err(explain)
            }
        }
    }

    /// 0 at the end. In TLS 1.3 it is here that a server says it wants a certificate.
    pub(super) async fn read_buf(&mut self, into: &mut Vec<u8>) -> Result<usize> {
        match self {
            Self::Plain(stream) => Ok(stream.read_buf(into).await?),
            Self::Encrypted(stream) => stream.read_buf(into).await.map_err(explain),
        }
    }
}
