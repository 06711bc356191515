//! A proxy that finds the others by a name: what clients see of them, and what they are told.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use helenus_tests::proxy::{Options, Proxy, free_addresses};
use helenus_tests::raw::{Client, PATIENCE, op};
use helenus_wire::Reader;

use crate::nodes::{Nodes, Spec};

/// The other proxies, as clients see them.
fn peers(client: &mut Client<TcpStream>) -> Vec<SocketAddr> {
    let rows = client.query("SELECT native_address, native_port FROM system.peers_v2");
    let address = |row: &Vec<Option<Vec<u8>>>| {
        let cell = |at: usize| row[at].clone().expect("a value");
        let ip: [u8; 4] = cell(0).try_into().expect("IPv4");
        let port: [u8; 4] = cell(1).try_into().expect("an int");
        let port = u16::try_from(i32::from_be_bytes(port)).expect("a port");
        SocketAddr::new(IpAddr::from(ip), port)
    };
    rows.expect("rows").iter().map(address).collect()
}

fn register(client: &mut Client<TcpStream>) {
    let kinds = ["TOPOLOGY_CHANGE", "STATUS_CHANGE"];
    client.register(&kinds).expect("registered");
}

fn next_event(client: &mut Client<TcpStream>) -> (String, SocketAddr) {
    let event = client.receive().expect("an event");
    assert_eq!((event.stream, event.opcode), (-1, op::EVENT));
    let mut reader = Reader::new(&event.body);
    reader.string().expect("a kind");
    let change = reader.string().expect("a change").to_owned();
    (change, reader.inet().expect("an address"))
}

#[test]
fn proxies_found_by_a_name_come_and_go_while_clients_are_served() {
    let nodes = Nodes::start(Spec::default());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("helenus.toml");
    let (address, admin) = free_addresses("127.9.8.1").expect("addresses");
    // localhost, which each machine can resolve: a proxy that serves, and one that never does.
    let other = Proxy::start(&nodes.addresses[..1], &["listen.workers=1"]).expect("proxy");
    let (nobody, _) = free_addresses("127.0.0.1").expect("addresses");
    let settings = |port: u16| {
        format!(
            "[listen]\naddress = '{address}'\nworkers = 2\nproxies_dns = 'localhost:{port}'\n\
             proxies_check_ms = 200\ndrain_grace_ms = 0\n[admin]\naddress = '{admin}'\n\
             [cluster]\ncontact_points = ['{}']\n",
            nodes.addresses[0]
        )
    };
    fs::write(&file, settings(nobody.port())).expect("written");
    let mut proxy = Proxy::launch(&Options {
        config: Some(&file),
        addresses: Some((address, admin)),
        ..Options::default()
    })
    .expect("proxy");
    proxy.wait_ready().expect("ready");
    // The first client of all knows.
    let mut client = Client::ready(proxy.address, 5).expect("client");
    assert_eq!(peers(&mut client), [nobody]);
    let mut listener = Client::ready(proxy.address, 5).expect("client");
    register(&mut listener);

    fs::write(&file, settings(other.address.port())).expect("written");
    proxy.reload().expect("SIGHUP");
    let mut told = Vec::new();
    while told.last() != Some(&("UP".to_owned(), other.address)) {
        told.push(next_event(&mut listener));
    }
    // Two failures may have been told before it was taken out.
    told.retain(|event| *event != ("DOWN".to_owned(), nobody));
    let expected = [
        ("REMOVED_NODE", nobody),
        ("NEW_NODE", other.address),
        ("UP", other.address),
    ];
    let expected = expected.map(|(change, address)| (change.to_owned(), address));
    assert_eq!(told, expected);
    assert_eq!(peers(&mut client), [other.address]);
    let (_, shown) = proxy.admin_get("/api/proxies", None).expect("proxies");
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    let of = |name: &str| shown[1][name].clone();
    assert_eq!(
        (of("address"), of("state")),
        (other.address.to_string().into(), "up".into())
    );

    // A name that nobody has changes nothing.
    let text = settings(1).replace("localhost", "helenus.invalid");
    fs::write(&file, text).expect("written");
    proxy.reload().expect("SIGHUP");
    let begin = Instant::now();
    while !proxy.log().contains("helenus.invalid:1 cannot be used") {
        assert!(
            begin.elapsed() < PATIENCE,
            "the name is not looked up:\n{}",
            proxy.log()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(peers(&mut client), [other.address]);
}
