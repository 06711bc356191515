//! The bytes of a connection, encrypted or not.

use crate::tls::{Tls, explain};
use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(super) async fn connect(address: &str, tls: Option<&Tls>) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(match tls {
            Some(tls) => Self::Encrypted(Box::new(tls.handshake(stream, address).await?)),
            None => Self::Plain(stream),
        })
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
