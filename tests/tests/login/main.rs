//! Logins before scripted nodes: what real ones cannot be made to say at the right moment.
//!
//! Needs no cluster, only `cargo build -p helenus` in the same profile.

mod authenticators;
mod checks;
mod dashboard;
mod flood;
mod handover;
mod limits;
mod names;
mod noise;
mod reconnect;

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use helenus_tests::proxy::{Options, Proxy, free_addresses};
use helenus_tests::raw::{Client, PATIENCE, op};
use helenus_tests::scripted::Node;
use socket2::{Domain, Socket, Type};

/// The first settings of every proxy here.
const SETTINGS: [&str; 4] = [
    "cluster.username=control",
    "cluster.password=control",
    "listen.workers=2",
    "links.per_node=2",
];

/// A proxy before these nodes, when it is ready.
fn proxy(nodes: &[Node], settings: &[&str]) -> Proxy {
    let mut proxy = spawned(nodes, settings);
    proxy.wait_ready().expect("ready");
    proxy
}

fn spawned(nodes: &[Node], settings: &[&str]) -> Proxy {
    let points: Vec<_> = nodes.iter().map(|node| node.address).collect();
    spawned_at(&points, settings)
}

fn spawned_at(points: &[SocketAddr], settings: &[&str]) -> Proxy {
    // On an address of its own, where no other test's connection can take its port meanwhile.
    static PROXIES: AtomicU16 = AtomicU16::new(0);
    let [high, low] = PROXIES.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let addresses = free_addresses(&format!("127.77.{high}.{low}")).expect("ports");
    let options = Options {
        contact_points: points,
        settings: &[&SETTINGS[..], settings].concat(),
        addresses: Some(addresses),
        ..Options::default()
    };
    Proxy::launch(&options).expect("spawned")
}

/// A client that has logged in.
fn client(proxy: &Proxy, role: &str) -> Client<TcpStream> {
    let mut client = Client::connect(proxy.address, 4).expect("connect");
    let outcome = client.startup(Some((role, "pw"))).expect("an answer");
    outcome.unwrap_or_else(|fault| panic!("{role}: {fault:?}"));
    client
}

/// A client that has been asked who it is, and comes from this address.
fn asked_from(ip: [u8; 4], proxy: &Proxy) -> Client<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket
        .bind(&SocketAddr::from((ip, 0)).into())
        .expect("bound");
    socket.connect(&proxy.address.into()).expect("connect");
    let mut client = Client::of(socket.into(), 4).expect("a client");
    let answer = client.hello(&[]).expect("an answer");
    assert_eq!(answer.opcode, op::AUTHENTICATE);
    client
}

fn asked(proxy: &Proxy) -> Client<TcpStream> {
    asked_from([127, 0, 0, 1], proxy)
}

/// The value of a metric without labels.
fn metric(proxy: &Proxy, name: &str) -> u64 {
    let (_, page) = proxy.admin_get("/metrics", None).expect("metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|rest| rest.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no metric {name}:\n{page}"))
}

/// By which token the link was logged in over which this client is served.
fn served_as(client: &mut Client<TcpStream>) -> std::io::Result<String> {
    let rows = client.query("SELECT token FROM k.t WHERE k = 1")?;
    let cell = rows.first().and_then(|row| row[0].clone());
    Ok(String::from_utf8_lossy(&cell.unwrap_or_default()).into_owned())
}

fn eventually(what: &str, mut ask: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !ask() {
        assert!(begin.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
    begin.elapsed()
}
