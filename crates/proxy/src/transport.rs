//! A non-blocking byte stream over TCP, plain or encrypted. TLS handshakes are done before a
//! [`Transport`] exists, so whoever holds one only ever sees an established stream.
//!
//! A socket keeps one waker for each direction: all calls for one connection must pass the waker of
//! the task that owns it, also when another task (the flusher) makes them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use helenus_engine::output::Outgoing;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// How long a peer that has been told the end may go on sending.
pub(crate) const LINGER_MAX: Duration = Duration::from_secs(1);

/// One end of an established connection.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(TcpStream),
    Tls(Box<Encrypted>),
}

/// An encrypted stream that tells its peer, if the socket takes it, that its end is meant.
#[derive(Debug)]
pub(crate) struct Encrypted(TlsStream<TcpStream>);

impl Drop for Encrypted {
    fn drop(&mut self) {
        let cx = &mut Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut self.0).poll_shutdown(cx);
    }
}

impl Transport {
    /// Does the server's part of a TLS handshake. If it fails, the peer gets to read why.
    pub(crate) async fn accept(
        tcp: TcpStream,
        tls: Arc<rustls::ServerConfig>,
    ) -> io::Result<Transport> {
        match TlsAcceptor::from(tls).accept(tcp).into_fallible().await {
            Ok(stream) => Ok(Transport::encrypted(stream.into())),
            Err((error, tcp)) => {
                linger(tcp).await;
                Err(error)
            }
        }
    }

    /// Does the client's part of a TLS handshake.
    pub(crate) async fn connect(
        tcp: TcpStream,
        tls: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Transport> {
        let stream = TlsConnector::from(tls).connect(name, tcp).await?;
        Ok(Transport::encrypted(stream.into()))
    }

    fn encrypted(stream: TlsStream<TcpStream>) -> Transport {
        Transport::Tls(Box::new(Encrypted(stream)))
    }

    /// Reads what has come; 0 bytes mean that the peer has closed.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        ready!(match self {
            Transport::Plain(tcp) => Pin::new(tcp).poll_read(cx, &mut buf),
            Transport::Tls(tls) => Pin::new(&mut tls.0).poll_read(cx, &mut buf),
        })?;
        Poll::Ready(Ok(buf.filled().len()))
    }

    /// Takes some of these bytes. Those of TLS may stay behind until [`Transport::poll_flush`].
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Transport::Tls(tls) => Pin::new(&mut tls.0).poll_write(cx, buf),
        }
    }

    /// Writes what was taken but is not in the socket yet.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(_) => Poll::Ready(Ok(())),
            Transport::Tls(tls) => Pin::new(&mut tls.0).poll_flush(cx),
        }
    }

    /// Writes all that there is, and flushes. `on_write` hears of each write how many bytes
    /// it took.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        outgoing: &mut impl Outgoing,
        mut on_write: impl FnMut(usize),
    ) -> Poll<io::Result<()>> {
        loop {
            let pending = outgoing.pending();
            if pending.is_empty() {
                return self.poll_flush(cx);
            }
            let n = ready!(self.poll_write(cx, pending))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            outgoing.advance(n);
            on_write(n);
        }
    }

    /// Tells the peer that nothing more will come. Its own bytes can still be read.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Transport::Tls(tls) => Pin::new(&mut tls.0).poll_shutdown(cx),
        }
    }
}

/// Waits a moment for the peer's end: to close a socket with bytes that nobody has read resets the
/// connection, and the peer may then lose what it was told last.
async fn linger(mut tcp: TcpStream) {
    let end = async {
        tcp.shutdown().await?;
        let mut rest = [0; 4096];
        while tcp.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    // Whatever comes of it, the connection is closed now.
    let _ = tokio::time::timeout(LINGER_MAX, end).await;
}

#[cfg(test)]
mod tests;
