//! How the sockets of clients behave, whether they were accepted here or taken over from another process.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Bytes that a socket takes before it has sent those it has: enough to keep it busy until the worker runs again,
/// and no more, because small answers cannot go before them any more.
const UNSENT_MAX: u32 = 128 * 1024;
/// From this silence on the kernel asks whether the other machine is still there, again and again.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// A machine that has acknowledged nothing for so long, neither data nor such a question, is gone.
const VANISHED: Duration = Duration::from_secs(120);

/// Sets a client's socket up.
pub(crate) fn set_up(socket: &TcpStream) {
    // Without any of this a client is served all the same, less well.
    let _ = socket.set_nodelay(true);
    let _ = watch(&SockRef::from(socket));
}

fn watch(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_notsent_lowat(UNSENT_MAX)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(VANISHED))
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Whether clients that vanish are noticed.
    pub(crate) fn is_watched(socket: &TcpStream) -> bool {
        let socket = SockRef::from(socket);
        socket.keepalive().is_ok_and(|on| on)
            && socket
                .tcp_keepalive_time()
                .is_ok_and(|of| of == KEEPALIVE_IDLE)
            && socket
                .tcp_keepalive_interval()
                .is_ok_and(|of| of == KEEPALIVE_INTERVAL)
            && socket
                .tcp_user_timeout()
                .is_ok_and(|of| of == Some(VANISHED))
    }
}
