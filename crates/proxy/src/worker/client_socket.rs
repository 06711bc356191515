//! How the sockets of clients behave, whether they were accepted here or taken over from another process.

use std::mem::MaybeUninit;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Bytes that a socket takes before it has sent those it has: enough to keep it busy until the worker runs again,
/// and no more, because small answers cannot go before them any more.
const UNSENT_MAX: u32 = 128 * 1024;
/// From this silence on the kernel asks whether the other machine is still there, again and again.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// A machine that has acknowledged nothing for so long, neither data nor such a question, is gone. The kernel takes a
/// client that has had no room for what waits for it for so long for the same, although it lives (tcp(7),
/// TCP_USER_TIMEOUT).
const VANISHED: Duration = Duration::from_secs(120);

/// Sets a client's socket up.
pub(crate) fn set_up(socket: &TcpStream) {
    // Without any of these a client is served all the same, less well, and better with the others than without them.
    let _ = socket.set_nodelay(true);
    let socket = SockRef::from(socket);
    let _ = socket.set_tcp_notsent_lowat(UNSENT_MAX);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL);
    let _ = socket.set_tcp_keepalive(&keepalive);
    let _ = socket.set_tcp_user_timeout(Some(VANISHED));
}

/// True if a client's first bytes are there, or its end, without waiting for them.
pub(crate) fn has_sent(socket: &TcpStream) -> bool {
    let peeked = SockRef::from(socket).peek(&mut [MaybeUninit::uninit()]);
    peeked.is_ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_client_has_sent_something_once_that_has_come() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("bound");
        let mut client = TcpStream::connect(address).await.expect("connected");
        let (accepted, _) = listener.accept().await.expect("accepted");
        set_up(&accepted);
        assert!(testing::is_watched(&accepted));
        assert!(!has_sent(&accepted));
        client.write_all(b"hello").await.expect("sent");
        accepted.readable().await.expect("readable");
        assert!(
            has_sent(&accepted) && has_sent(&accepted),
            "nothing is taken"
        );
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// True if clients that vanish are noticed.
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
