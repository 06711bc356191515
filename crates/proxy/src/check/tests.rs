use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeSpec;
use helenus_policy::route::NodeTable;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;

const NODES: usize = 40;

fn node(address: SocketAddr) -> Node {
    Node {
        address,
        host_id: [1; 16],
        dc: "near".to_owned(),
        rack: "rack1".to_owned(),
        release_version: "5.0.6".to_owned(),
        processors: None,
        timeouts: None,
        batches: None,
        pages: None,
        hints: None,
        gone: false,
    }
}

fn snapshot(nodes: Vec<Node>) -> Snapshot {
    let spec = |node: &Node| NodeSpec {
        dc: node.dc.clone(),
        rack: node.rack.clone(),
        tokens: Vec::new(),
    };
    let specs: Vec<NodeSpec> = nodes.iter().map(spec).collect();
    Snapshot {
        places: NodeTable::new(&specs, Some("near"), None),
        nodes,
        ..Snapshot::unknown()
    }
}

/// Connections at the same time: now, and the most there have been.
#[derive(Default)]
struct Open {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Accepts connections and never answers.
async fn silent(listener: TcpListener, open: Arc<Open>) {
    while let Ok((mut socket, _)) = listener.accept().await {
        let now = open.now.fetch_add(1, Ordering::Relaxed) + 1;
        open.most.fetch_max(now, Ordering::Relaxed);
        let open = open.clone();
        tokio::spawn(async move {
            while matches!(socket.read(&mut [0; 512]).await, Ok(1..)) {}
            open.now.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

#[tokio::test]
async fn silent_nodes_are_asked_at_the_same_time_within_a_bound_and_told_in_order() {
    let open = Arc::new(Open::default());
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        nodes.push(node(listener.local_addr().expect("its address")));
        tokio::spawn(silent(listener, open.clone()));
    }
    // A node that refuses connections is told of at once, and yet in its place.
    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    nodes[NODES / 2].address = gone.local_addr().expect("its address");
    drop(gone);
    let wanted: Vec<String> = nodes.iter().map(|node| node.address.to_string()).collect();

    let mut config = Config::default();
    config.links.connect_timeout_ms = 200;
    let config = Arc::new(config);
    let dialer = Dialer::new(&config).expect("a dialer");
    let limit = dialer.connect_timeout * 3;
    let began = Instant::now();
    let checked = check_nodes(&config, &dialer, &snapshot(nodes)).await;

    let found: Vec<&String> = checked.iter().map(|of| &of.node.address).collect();
    assert_eq!(found, wanted.iter().collect::<Vec<_>>());
    for (at, of) in checked.iter().enumerate() {
        assert_eq!(of.node.reachable, at != NODES / 2, "node {at}");
        assert_eq!(of.problems.is_empty(), at != NODES / 2, "node {at}");
    }
    // One after the other they take 23 s at least, 16 at a time two seconds.
    let in_sequence = limit * (NODES as u32 - 1);
    assert!(began.elapsed() < in_sequence / 2, "{:?}", began.elapsed());
    assert!(began.elapsed() >= Duration::from_millis(600));
    // A closed connection may be noticed after the next one.
    let most = open.most.load(Ordering::Relaxed);
    assert!((2..=2 * AT_ONCE_MAX).contains(&most), "{most} at once");
}
