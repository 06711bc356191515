use socket2::SockFilter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Leaves bytes as they are.
#[derive(Clone)]
struct Nothing;

impl Encrypt for Nothing {
    type Stream = TcpStream;

    async fn encrypt(&self, tcp: TcpStream, _: SocketAddr) -> Option<TcpStream> {
        Some(tcp)
    }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

fn tunnels(silence_max: Duration) -> Tunnels<Nothing> {
    let limits = Limits {
        connect_timeout: Duration::from_secs(20),
        silence_max,
    };
    Tunnels::new(Nothing, limits)
}

/// A driver's connection through a tunnel, and the node's end of it.
async fn through<E: Encrypt>(tunnels: &Tunnels<E>) -> (TcpStream, TcpStream) {
    let (node, address) = listener().await;
    let port = tunnels.entrance(address).expect("a port");
    let driver = TcpStream::connect(port).await.expect("a connection");
    let (node, _) = node.accept().await.expect("the node's end");
    (driver, node)
}

/// From now on the kernel drops what comes for it, as if its machine was gone.
fn vanish(node: &TcpStream) {
    /// `BPF_RET | BPF_K`: keep so many bytes.
    const KEEP: u16 = 0x06;
    let drop_all = [SockFilter::new(KEEP, 0, 0, 0)];
    let attached = SockRef::from(node).attach_filter(&drop_all);
    attached.expect("a filter");
}

#[tokio::test]
async fn a_node_whose_machine_is_gone_ends_the_connection_whether_or_not_something_was_sent() {
    for sent in [&b""[..], b"a request"] {
        let tunnels = tunnels(Duration::from_secs(2));
        let (mut driver, node) = through(&tunnels).await;
        vanish(&node);
        driver.write_all(sent).await.expect("sent");
        let end = timeout(Duration::from_secs(60), driver.read_u8()).await;
        end.expect("noticed").expect_err("closed");
    }
}

/// Its machine still acknowledges what comes.
#[tokio::test]
async fn a_node_that_takes_long_to_answer_is_waited_for() {
    let silence_max = Duration::from_secs(2);
    let tunnels = tunnels(silence_max);
    let (mut driver, mut node) = through(&tunnels).await;
    driver.write_all(b"a long read").await.expect("sent");
    node.read_exact(&mut [0; 11]).await.expect("read");
    tokio::time::sleep(silence_max * 2).await;
    node.write_all(b"!").await.expect("written");
    assert_eq!(driver.read_u8().await.expect("an answer"), b'!');
}

#[tokio::test]
async fn a_node_has_one_port_and_is_named_by_its_own() {
    let tunnels = tunnels(SILENCE_MAX);
    let (_node, address) = listener().await;
    let port = tunnels.entrance(address).expect("a port");
    assert!(port != address && port.ip().is_loopback(), "{port}");
    assert_eq!(tunnels.entrance(address).expect("the same"), port);
    // A driver knows one port only.
    let at = |port| SocketAddr::from(([127, 0, 0, 7], port));
    let other = at(address.port());
    assert_eq!(tunnels.node(at(port.port())), other);
    assert_eq!(tunnels.node(at(1)), at(1));
    let entrance = tunnels.entrance_heard(at(port.port()));
    let same = tunnels.entrance(other);
    assert_eq!(entrance.expect("a port"), same.expect("a port"));
}

#[tokio::test]
async fn connections_end_with_the_tunnels_and_with_either_end() {
    let tunnels = tunnels(SILENCE_MAX);
    let (mut driver, node) = through(&tunnels).await;
    drop(node);
    driver.read_u8().await.expect_err("closed by the node");
    let (driver, mut node) = through(&tunnels).await;
    drop(driver);
    node.read_u8().await.expect_err("closed by the driver");
    let (mut driver, _node) = through(&tunnels).await;
    drop(tunnels);
    driver.read_u8().await.expect_err("closed with the tunnels");
}
