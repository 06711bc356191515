//! A non-blocking byte stream over TCP, plain or encrypted. TLS handshakes are completed before a
//! [`Transport`] is created, so it is always an established stream.
//!
//! A socket keeps one waker per direction: all calls for one connection must pass the waker of the
//! task that owns it, even if another task (the flusher) makes them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use helenus_engine::output::Outgoing;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// How long a peer may keep sending after it was told that the connection ends.
pub(crate) const LINGER_MAX: Duration = Duration::from_secs(1);

/// Bytes written to one connection before others get their turn.
const SLICE: usize = 256 * 1024;

/// One end of an established connection.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(TcpStream),
    Tls(Box<Encrypted>),
}

/// An encrypted stream that sends close_notify, if the socket accepts it, so that its end is
/// explicit.
#[derive(Debug)]
pub(crate) struct Encrypted(TlsStream<TcpStream>);

impl Drop for Encrypted {
    fn drop(&mut self) {
        let cx = &mut Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut self.0).poll_shutdown(cx);
    }
}

impl Transport {
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Transport::Tls(_))
    }

    /// The socket once more; an error if it is encrypted.
    pub(crate) fn try_clone_plain(&self) -> io::Result<OwnedFd> {
        match self {
            Transport::Plain(tcp) => tcp.as_fd().try_clone_to_owned(),
            Transport::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Performs the server side of a TLS handshake. If it fails, the peer receives the reason.
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

    /// Performs the client side of a TLS handshake.
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

    /// Reads available bytes; 0 means that the peer has closed.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        ready!(AsyncRead::poll_read(Pin::new(self), cx, &mut buf))?;
        Poll::Ready(Ok(buf.filled().len()))
    }

    /// Accepts some of these bytes. With TLS they may stay buffered until
    /// [`Transport::poll_flush`].
    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Transport::Tls(tls) => Pin::new(&mut tls.0).poll_write(cx, buf),
        }
    }

    /// Writes bytes that were accepted but are not in the socket yet.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(_) => Poll::Ready(Ok(())),
            Transport::Tls(tls) => Pin::new(&mut tls.0).poll_flush(cx),
        }
    }

    /// Writes everything and flushes. `on_write` is called with the number of bytes of each write; with
    /// 0 if one has failed of which some may have been sent. After [`SLICE`] bytes the rest waits until
    /// the task, which is woken at once, runs again.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        outgoing: &mut impl Outgoing,
        mut on_write: impl FnMut(usize),
    ) -> Poll<io::Result<()>> {
        let mut written = 0;
        loop {
            let pending = outgoing.pending();
            if pending.is_empty() {
                return self.poll_flush(cx);
            }
            if written >= SLICE {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let taken = match ready!(self.poll_write(cx, pending)) {
                // Earlier records of the same call may have been sent.
                Err(e) if matches!(self, Transport::Tls(_)) => {
                    on_write(0);
                    Err(e)
                }
                taken => taken,
            };
            let n = taken?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            outgoing.advance(n);
            on_write(n);
            written += n;
        }
    }

    /// Tells the peer that nothing more will be sent. Its bytes can still be read.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Transport::Tls(tls) => Pin::new(&mut tls.0).poll_shutdown(cx),
        }
    }
}

/// For code that reads and writes one stream and nothing else.
impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Transport::Tls(tls) => Pin::new(&mut tls.0).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Transport::poll_write(self.get_mut(), cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Transport::poll_flush(self.get_mut(), cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Transport::poll_shutdown(self.get_mut(), cx)
    }
}

/// Waits briefly for the peer to close: closing a socket with unread bytes resets the connection,
/// and the peer may then lose the last message sent to it.
async fn linger(mut tcp: TcpStream) {
    let end = async {
        tcp.shutdown().await?;
        let mut rest = [0; 4096];
        while tcp.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    // Whatever the outcome, the connection is closed now.
    let _ = tokio::time::timeout(LINGER_MAX, end).await;
}

#[cfg(test)]
mod tests;
