//! A non-blocking byte stream: plain TCP or TLS over it, without a task or a buffer of its own.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

/// One end of a connection.
#[derive(Debug)]
pub enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsTransport>),
}

/// TLS state beside its socket.
#[derive(Debug)]
pub struct TlsTransport {
    tcp: TcpStream,
    tls: rustls::Connection,
    /// The peer has closed; what was decrypted before may still be read.
    eof: bool,
}

impl Transport {
    /// Wraps an accepted connection.
    pub fn server(
        tcp: TcpStream,
        tls: Option<&Arc<rustls::ServerConfig>>,
    ) -> io::Result<Transport> {
        let Some(config) = tls else {
            return Ok(Transport::Plain(tcp));
        };
        let tls = rustls::ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        Ok(Transport::Tls(Box::new(TlsTransport {
            tcp,
            tls: tls.into(),
            eof: false,
        })))
    }

    /// Wraps a connection that we opened.
    pub fn client(
        tcp: TcpStream,
        tls: Option<(&Arc<rustls::ClientConfig>, ServerName<'static>)>,
    ) -> io::Result<Transport> {
        let Some((config, name)) = tls else {
            return Ok(Transport::Plain(tcp));
        };
        let tls = rustls::ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
        Ok(Transport::Tls(Box::new(TlsTransport {
            tcp,
            tls: tls.into(),
            eof: false,
        })))
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Transport::Plain(tcp) => tcp,
            Transport::Tls(tls) => &tls.tcp,
        }
    }

    /// Reads what has come; 0 bytes mean that the peer has closed.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(tcp) => poll_read_tcp(tcp, cx, buf),
            Transport::Tls(tls) => tls.poll_read(cx, buf),
        }
    }

    /// Writes what the socket takes now; `WouldBlock` if nothing.
    pub fn try_write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(tcp) => tcp.try_write(buf),
            Transport::Tls(tls) => {
                let n = tls.tls.writer().write(buf)?;
                match tls.try_write_tls() {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock && n > 0 => Ok(n),
                    Err(e) => Err(e),
                    // rustls takes a bounded amount of plain text; nothing taken means it is full.
                    Ok(()) if n == 0 && !buf.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
                    Ok(()) => Ok(n),
                }
            }
        }
    }

    /// Whether bytes are left that only TLS knows of (handshake, encrypted records).
    pub fn wants_write(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(tls) => tls.tls.wants_write(),
        }
    }

    /// Writes the bytes that only TLS knows of.
    pub fn try_flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(_) => Ok(()),
            Transport::Tls(tls) => tls.try_write_tls(),
        }
    }

    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp().poll_write_ready(cx)
    }
}

fn poll_read_tcp(
    tcp: &mut TcpStream,
    cx: &mut Context<'_>,
    buf: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut buf = ReadBuf::new(buf);
    ready!(Pin::new(tcp).poll_read(cx, &mut buf))?;
    Poll::Ready(Ok(buf.filled().len()))
}

impl TlsTransport {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.tls.reader().read(buf) {
                Ok(n) => return Poll::Ready(Ok(n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
            if self.eof {
                return Poll::Ready(Ok(0));
            }
            let mut wire = [0; 16 * 1024];
            let n = ready!(poll_read_tcp(&mut self.tcp, cx, &mut wire))?;
            self.eof = n == 0;
            let mut wire = &wire[..n];
            while !wire.is_empty() {
                self.tls.read_tls(&mut wire)?;
                let processed = self.tls.process_new_packets();
                if let Err(e) = processed {
                    // Tell the peer why, if the socket takes it.
                    let _ = self.try_write_tls();
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, e)));
                }
            }
            match self.try_write_tls() {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }

    fn try_write_tls(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut TryWrite(&self.tcp))?;
        }
        Ok(())
    }
}

struct TryWrite<'a>(&'a TcpStream);

impl Write for TryWrite<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.try_write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
