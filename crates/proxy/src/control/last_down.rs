//! Nodes whose last report was that they are down: while there was no control connection, they may have been reported as
//! up again. Those that answer are up.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_wire::{Opcode, Version};

use crate::conn::{ConnError, Dialer};
use crate::process::Process;

/// For one node.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Asks each of them once.
pub(super) async fn ask(shared: Arc<Process>) {
    let snapshot = shared.snapshot.load_full();
    let last_down = shared.nodes_last_down();
    for node in snapshot.nodes().present() {
        if !last_down.contains(&node.host_id()) {
            continue;
        }
        let dialer = (**shared.dialer.load()).clone();
        match tokio::time::timeout(TIME_MAX, options(&dialer, node.address())).await {
            Ok(Ok(())) => shared.note_last_up(node.host_id()),
            Ok(Err(e)) => tracing::debug!(node = %node.address(), "taken for down still: {e}"),
            Err(_) => tracing::debug!(node = %node.address(), "taken for down still: no answer"),
        }
    }
}

async fn options(dialer: &Dialer, node: SocketAddr) -> Result<(), ConnError> {
    let mut conn = dialer.dial(node, Version::V4).await?;
    conn.call(Opcode::Options, &[]).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use helenus_engine::snapshot::{Node, Snapshot};

    use super::*;
    use crate::config::Config;

    #[tokio::test]
    async fn those_that_answer_are_no_longer_taken_for_down() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let up = listener.local_addr().expect("an address");
        let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
        let down = closed.local_addr().expect("an address");
        drop(closed);
        let answering = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut asked = [0; 9];
            stream.read_exact(&mut asked).expect("OPTIONS");
            // SUPPORTED, of nothing.
            let answer = [0x84, 0, asked[2], asked[3], 6, 0, 0, 0, 2, 0, 0];
            stream.write_all(&answer).expect("sent");
        });
        let shared = crate::testing::process(Config::default());
        let nodes = [(up, 1), (down, 2)];
        let nodes = nodes.map(|(address, number)| Node::new(address, [number; 16], "", ""));
        shared.publish(Snapshot::builder().nodes(nodes).build());
        for address in [up, down] {
            assert!(shared.note_status(address, true));
        }
        // With the control connection the reports are gone, but not that they were the last.
        shared.forget_statuses();
        assert_eq!(shared.nodes_last_down().len(), 2);
        let shared = Arc::new(shared);
        ask(shared.clone()).await;
        answering.join().expect("it was asked");
        let left: Vec<_> = shared.nodes_last_down().into_iter().collect();
        assert_eq!(left, [[2; 16]]);
    }
}
