//! Two proxies before the same nodes: what clients see of them, and what happens when one goes away.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use helenus_cluster::{Cluster, Consistency};
use helenus_tests::proxy::{Options, Proxy, free_addresses};
use helenus_tests::raw::{Client, PATIENCE, QUORUM, elements, op};

use crate::eventually;

/// On a cluster of three nodes.
pub(crate) fn several_proxies(cluster: &Cluster) {
    // `system.peers` has one row an address, so each proxy has its own.
    let a = free_addresses("127.9.9.1").expect("ports");
    let b = free_addresses("127.9.9.2").expect("ports");
    let points = cluster.contact_points();
    let launch = |own: (SocketAddr, SocketAddr), other: SocketAddr| {
        let others = format!("listen.proxies=[\"{other}\"]");
        let mut proxy = Proxy::launch(&Options {
            contact_points: &points,
            settings: &[&others, "listen.proxies_check_ms=300"],
            addresses: Some(own),
            ..Options::default()
        })
        .expect("a proxy");
        proxy.wait_ready().expect("ready");
        proxy
    };
    let proxy_a = launch(a, b.0);
    let mut proxy_b = launch(b, a.0);
    the_same_ring(cluster, &proxy_a, &proxy_b);
    each_takes_the_others_ids(&proxy_a, &proxy_b);

    let mut client = Client::ready(a.0, 5).expect("client");
    client.register(&["STATUS_CHANGE"]).expect("registered");
    for kill in [false, true] {
        if kill {
            proxy_b.kill().expect("SIGKILL");
        }
        drop(proxy_b);
        let begin = Instant::now();
        assert_eq!(status_change(&mut client), ("DOWN".to_owned(), b.0));
        println!("a proxy that went: announced after {:?}", begin.elapsed());
        proxy_b = launch(b, a.0);
        let begin = Instant::now();
        assert_eq!(status_change(&mut client), ("UP".to_owned(), b.0));
        println!("a proxy that came: announced after {:?}", begin.elapsed());
    }
}

fn status_change(client: &mut Client<std::net::TcpStream>) -> (String, SocketAddr) {
    let event = client.receive().expect("an event");
    assert_eq!((event.stream, event.opcode), (-1, op::EVENT));
    let rest = event.body.strip_prefix(b"\0\x0DSTATUS_CHANGE\0");
    let rest = rest.expect("a STATUS_CHANGE");
    let (word, rest) = rest[1..].split_at(rest[0].into());
    let rest: [u8; 9] = rest.try_into().expect("an IPv4 address and a port");
    assert_eq!((rest[0], rest[5], rest[6]), (4, 0, 0));
    let ip = IpAddr::from([rest[1], rest[2], rest[3], rest[4]]);
    let port = u16::from_be_bytes([rest[7], rest[8]]);
    let word = String::from_utf8(word.to_vec()).expect("a word");
    (word, SocketAddr::new(ip, port))
}

type Tokens = BTreeSet<Vec<u8>>;

/// All proxies as one of them tells of them: tokens and host id by address.
type View = BTreeMap<SocketAddr, (Tokens, Vec<u8>)>;

fn the_same_ring(cluster: &Cluster, a: &Proxy, b: &Proxy) {
    let mut real = Tokens::new();
    for number in cluster.nodes() {
        let mut node = cluster.connect(number).expect("node");
        let cql = "SELECT tokens FROM system.local";
        let rows = node.query(cql, Consistency::One).expect(cql);
        let cell = rows[0][0].as_deref().expect("tokens");
        real.extend(elements(cell).expect("a set"));
    }
    for version in [3, 4, 5] {
        let seen_from_a = view(a, version);
        let seen_from_b = view(b, version);
        assert_eq!(seen_from_a, seen_from_b, "version {version}");
        let addresses: Vec<_> = seen_from_a.keys().copied().collect();
        assert_eq!(addresses, [a.address, b.address]);
        let (one, other) = (&seen_from_a[&a.address], &seen_from_a[&b.address]);
        assert!(one.0.is_disjoint(&other.0), "a token of both");
        assert_eq!(&one.0 | &other.0, real, "tokens that nobody has");
        assert!(one.0.len().abs_diff(other.0.len()) <= 1, "not dealt evenly");
        assert_ne!(one.1, other.1, "one host id for both");
    }
}

fn view(proxy: &Proxy, version: u8) -> View {
    let mut client = Client::ready(proxy.address, version).expect("client");
    let mut ask = |cql: &str| {
        let rows = client.query(cql).expect(cql);
        let mut view = View::new();
        for row in rows {
            let cell = |at: usize| row[at].clone().expect("a value");
            let ip: [u8; 4] = cell(0).try_into().expect("IPv4");
            let port: [u8; 4] = cell(1).try_into().expect("an int");
            let port = u16::try_from(i32::from_be_bytes(port)).expect("a port");
            let tokens = elements(&cell(2)).expect("a set").into_iter().collect();
            view.insert(SocketAddr::from((ip, port)), (tokens, cell(3)));
        }
        view
    };
    let mut all = ask("SELECT rpc_address, rpc_port, tokens, host_id FROM system.local");
    let peers_v2 = ask("SELECT native_address, native_port, tokens, host_id FROM system.peers_v2");
    assert_eq!((all.len(), peers_v2.len()), (1, 1));
    // The older table knows no ports.
    let rows = client.query("SELECT rpc_address, tokens, host_id FROM system.peers");
    let rows = rows.expect("rows");
    assert_eq!(rows.len(), 1);
    for (address, (tokens, host_id)) in &peers_v2 {
        let cells: Vec<_> = rows[0]
            .iter()
            .map(|cell| cell.clone().expect("a value"))
            .collect();
        assert_eq!(
            IpAddr::from(<[u8; 4]>::try_from(&cells[0][..]).expect("IPv4")),
            address.ip()
        );
        let shown: Tokens = elements(&cells[1]).expect("a set").into_iter().collect();
        assert_eq!((&shown, &cells[2]), (tokens, host_id));
    }
    all.extend(peers_v2);
    all
}

fn each_takes_the_others_ids(a: &Proxy, b: &Proxy) {
    for version in [3, 4, 5] {
        let mut at_a = Client::ready(a.address, version).expect("client");
        // A text of its own for each version, so that each is new to B.
        let insert = format!("INSERT INTO f.fixed (v, k) VALUES ({version}, ?)");
        let select = format!("SELECT v, k FROM f.fixed WHERE k = ? LIMIT {version}");
        let insert = at_a.prepare(&insert).expect("prepared");
        let select = at_a.prepare(&select).expect("prepared");
        let mut at_b = Client::ready(b.address, version).expect("client");
        let before = counter(b, "helenus_prepared_recalled_total");
        let key = (1_000_000 + i32::from(version)).to_be_bytes();
        let mut executed = 0;
        let begin = Instant::now();
        // The first of them are new to B, the last it has learned of.
        while executed < 20 || counter(b, "helenus_prepared_recalled_total") < before + 2.0 {
            assert!(begin.elapsed() < PATIENCE, "the texts are not looked up");
            for client in [&mut at_b, &mut at_a] {
                let written = client.execute(&insert, &[&key], QUORUM).expect("an answer");
                written.unwrap_or_else(|fault| panic!("version {version}: {fault:?}"));
                let read = client.execute(&select, &[&key], QUORUM).expect("an answer");
                let rows = read.expect("read").rows().expect("rows");
                assert_eq!(rows[0][0], Some(i32::from(version).to_be_bytes().to_vec()));
                assert_eq!(rows[0][1], Some(key.to_vec()));
            }
            executed += 1;
        }
        // By now B routes by the key, as A does.
        let before = counter(b, "helenus_requests_token_aware_total");
        for _ in 0..50 {
            let read = at_b.execute(&select, &[&key], QUORUM).expect("an answer");
            assert_eq!(read.expect("read").rows().expect("rows").len(), 1);
        }
        eventually("requests routed by key", Duration::from_secs(5), || {
            counter(b, "helenus_requests_token_aware_total") >= before + 50.0
        });
    }
}

fn counter(proxy: &Proxy, name: &str) -> f64 {
    let (_, text) = proxy.admin_get("/metrics", None).expect("metrics");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.expect(name).parse().expect("a number")
}
