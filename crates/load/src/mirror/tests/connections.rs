use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::advance;

use super::server::Server;
use crate::client::endpoint::{Endpoint, Policy};
use crate::mirror::connections::{Connection, Connections};

/// The connection, when it is open.
async fn opened(connections: &Arc<Connections>) -> Arc<Connection> {
    loop {
        if let Some(connection) = connections.get(0) {
            return connection;
        }
        yield_now().await;
    }
}

/// Waits for what may happen on sockets.
async fn let_all_happen() {
    for _ in 0..10_000 {
        yield_now().await;
    }
}

/// An endpoint that takes connections and ends them is not to be asked for new ones all the time.
#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_early_is_opened_again_after_a_pause() {
    // Time jumps ahead where everybody waits, even if it is for bytes.
    let never_waits = tokio::spawn(async {
        loop {
            yield_now().await;
        }
    });
    let server = Server::start(b"").await;
    let address = vec![server.address.clone()];
    let endpoint = Endpoint::new("second", address, Policy::RoundRobin);
    let connections = Connections::open(&endpoint, 1).await.expect("reached");
    let mut expected = 1;
    for (age_ms, pause_ms) in [(0, 100), (4_999, 200), (5_000, 0), (0, 100)] {
        let connection = opened(&connections).await;
        let accepted = server.accepted();
        assert_eq!(accepted, expected);
        expected += 1;
        advance(Duration::from_millis(age_ms)).await;
        server.kill();
        while connection.is_usable() {
            yield_now().await;
        }
        server.restart().await;
        if pause_ms > 0 {
            assert!(connections.get(0).is_none());
            advance(Duration::from_millis(pause_ms - 1)).await;
            assert!(connections.get(0).is_none());
            let_all_happen().await;
            assert_eq!(server.accepted(), accepted, "after {age_ms} ms");
            advance(Duration::from_millis(1)).await;
        }
        assert!(connections.get(0).is_none(), "it is being opened");
    }
    opened(&connections).await;
    assert_eq!(server.accepted(), expected);
    never_waits.abort();
}
