//! Hostile bytes, very many clients, and the end of the proxy.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use helenus_cluster::{Cluster, Consistency};
use helenus_tests::proxy::{Proxy, raise_open_files_limit};
use helenus_tests::raw::{Client, ONE, PATIENCE, envelope, frame, op};
use helenus_tests::scenes;
use helenus_tests::scenes::Scenes;

use crate::node::shared;
use crate::{directly, eventually, serves, turn};

const PROTOCOL_ERROR: i32 = 0x000A;

scenes!(
    hostile_bytes_many_clients_and_the_end;
    garbage_is_refused,
    other_versions_are_refused_as_by_a_node,
    what_is_said_last_is_read_although_more_was_sent,
    wrong_envelopes_are_refused,
    wrong_frames_are_refused,
    bytes_may_come_slowly,
    unfinished_handshakes_are_closed,
    the_proxy_has_not_grown,
    idle_clients,
    clients_max,
    a_crowd_shares_links,
    what_is_in_flight_is_answered_before_the_end,
);

fn hostile_bytes_many_clients_and_the_end(scenes: &mut Scenes) {
    let _turn = turn("hostile", Duration::from_secs(240));
    raise_open_files_limit().expect("open files");
    let mut cluster = shared();
    directly(
        &mut cluster.connect(),
        &[
            "CREATE KEYSPACE h WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE h.t (k int PRIMARY KEY, v text)",
            "INSERT INTO h.t (k, v) VALUES (1, 'one')",
        ],
    );
    let settings = [
        "limits.clients_max=1200",
        "limits.handshake_timeout_ms=5000",
    ];
    let mut proxy = Proxy::start(&cluster.contact_points(), &settings).expect("proxy");
    let address = proxy.address;
    assert!(serves(address));

    let before = proxy.resident_kib().expect("memory");
    let mut serving = |name, act: &dyn Fn()| {
        scenes.scene(name, || {
            act();
            assert!(serves(address), "others are served no longer");
        });
    };
    serving("garbage_is_refused", &|| garbage(address));
    serving("other_versions_are_refused_as_by_a_node", &|| {
        other_versions_are_refused_as_by_a_node(address, cluster.contact_points()[0]);
    });
    serving("what_is_said_last_is_read_although_more_was_sent", &|| {
        what_is_said_last_is_read_although_more_was_sent(address);
    });
    serving("wrong_envelopes_are_refused", &|| wrong_envelopes(address));
    serving("wrong_frames_are_refused", &|| wrong_frames(address));
    serving("bytes_may_come_slowly", &|| slow_drip(address));
    serving("unfinished_handshakes_are_closed", &|| {
        unfinished_handshake(address)
    });
    scenes.scene("the_proxy_has_not_grown", || {
        assert!(proxy.is_running());
        let grown = proxy.resident_kib().expect("memory").saturating_sub(before);
        println!("hostile bytes: the proxy grew by {grown} KiB");
        assert!(grown < 64 * 1024, "{grown} KiB");
    });

    scenes.scene("idle_clients", || idle_clients(&proxy));
    scenes.scene("clients_max", || clients_max(&proxy, 1200));
    scenes.scene("a_crowd_shares_links", || crowd(&cluster));
    scenes.scene("what_is_in_flight_is_answered_before_the_end", || {
        what_is_in_flight_is_answered_before_the_end(&cluster, &mut proxy);
    });
}

fn what_is_in_flight_is_answered_before_the_end(cluster: &Cluster, proxy: &mut Proxy) {
    // A frozen node keeps the request in flight until SIGTERM has come.
    let mut client = Client::ready(proxy.address, 5).expect("client");
    client.query("SELECT v FROM h.t WHERE k = 1").expect("rows");
    cluster.pause(1).expect("paused");
    let body = client.query_body("SELECT v FROM h.t WHERE k = 1", ONE);
    client.send(7, op::QUERY, &body).expect("sent");
    thread::sleep(Duration::from_millis(500));
    let begin = Instant::now();
    proxy.terminate().expect("SIGTERM");
    thread::sleep(Duration::from_millis(500));
    assert!(proxy.is_running(), "a request was in flight");
    cluster.resume(1).expect("resumed");
    let answer = client.receive().expect("the request in flight is answered");
    let rows = answer.judged().expect("answer").expect("no error").rows();
    assert_eq!(rows.expect("rows"), [[Some(b"one".to_vec())]]);
    let status = proxy.wait(Duration::from_secs(12)).expect("it ends");
    println!("drained in {:?}", begin.elapsed());
    assert!(status.success(), "{status}");
}

/// Sends bytes and reads until the proxy closes: whatever it said before.
fn told(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    // The proxy may close before everything is written.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::ConnectionReset => {}
        Err(e) => panic!("neither closed nor answered after {PATIENCE:?}: {e}"),
    }
    answer
}

fn garbage(address: SocketAddr) {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    for len in [1, 8, 9, 10, 64, 300, 5_000, 200_000] {
        // Every version byte is wrong: 0x46 is version 70.
        let mut bytes: Vec<u8> = (0..len).map(|_| next()).collect();
        bytes[0] = 0x46;
        let answer = told(address, &bytes);
        assert!(answer.len() < 1000, "{} bytes said", answer.len());
        // The proxy must not mind that nobody reads it.
        let mut stream = TcpStream::connect(address).expect("connect");
        stream.write_all(&bytes).expect("write");
        stream.shutdown(Shutdown::Both).expect("shutdown");
    }
    told(address, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    told(
        address,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS on a plain port",
    );
}

/// The refusal of a version, from its first byte on: that chooses the length of the header.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    version: u8,
    stream: i16,
    code: i32,
    message: String,
}

/// Sends the bytes of a client of another version, behind a handshake or at once, and reads the answer.
fn refusal(address: SocketAddr, ready: Option<u8>, bytes: &[u8]) -> Refusal {
    let mut client = match ready {
        Some(version) => Client::ready(address, version),
        None => Client::connect(address, 4),
    }
    .expect("client");
    client.stream.write_all(bytes).expect("write");
    let mut read = |len: usize| {
        let mut bytes = vec![0; len];
        let read = client.stream.read_exact(&mut bytes);
        read.unwrap_or_else(|e| panic!("version {}: {e}", bytes[0]));
        bytes
    };
    let version = read(1)[0];
    let stream = match version {
        0x81 | 0x82 => i16::from(read(2)[1]),
        _ => i16::from_be_bytes(*read(3).last_chunk().expect("two bytes")),
    };
    assert_eq!(read(1), [op::ERROR]);
    let len = u32::from_be_bytes(read(4).try_into().expect("a length"));
    let body = read(len as usize);
    let (code, message) = body.split_first_chunk().expect("a code");
    Refusal {
        version,
        stream,
        code: i32::from_be_bytes(*code),
        message: String::from_utf8_lossy(&message[2..]).into_owned(),
    }
}

fn other_versions_are_refused_as_by_a_node(address: SocketAddr, node: SocketAddr) {
    // The old header is a byte shorter, and some clients wait for the answer behind one byte.
    let old = |version: u8| vec![version, 0, 7, op::OPTIONS, 0, 0, 0, 0];
    let cases = [1, 2]
        .map(old)
        .into_iter()
        .chain([0, 1, 2, 7, 66, 0x7F, 0x81].map(|version| vec![version]))
        .chain([envelope(66, 3, op::OPTIONS, &[]), b"GET / HTTP".to_vec()]);
    for bytes in cases {
        for ready in [None, Some(3), Some(4)] {
            let mut by_node = refusal(node, ready, &bytes);
            // The proxy does not speak the version that is still being made.
            by_node.message = by_node.message.replace(", 6/v6-beta", "");
            assert_eq!(by_node.code, PROTOCOL_ERROR);
            assert_eq!(refusal(address, ready, &bytes), by_node, "{bytes:?}");
        }
    }
    for bytes in [vec![6], envelope(6, 3, op::OPTIONS, &[])] {
        let refused = refusal(address, None, &bytes);
        assert_eq!((refused.version, refused.stream), (0x85, 0));
        let text = "Invalid or unsupported protocol version (6); supported versions are (3/v3, ";
        assert!(refused.message.starts_with(text), "{refused:?}");
    }
}

fn what_is_said_last_is_read_although_more_was_sent(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(&[66; 100_000]).expect("write");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("no reset");
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("unsupported protocol version (66)"), "{text}");
}

fn wrong_envelopes(address: SocketAddr) {
    let refused = |what: &str, bytes: &[u8]| {
        let mut client = Client::connect(address, 4).expect("connect");
        client.stream.write_all(bytes).expect("write");
        let answer = client.receive().unwrap_or_else(|e| panic!("{what}: {e}"));
        let fault = answer.fault().expect("an error");
        assert_eq!(
            (answer.opcode, fault.code),
            (op::ERROR, PROTOCOL_ERROR),
            "{what}: {fault:?}"
        );
        fault.message
    };
    refused("opcode", &envelope(4, 3, 0x55, &[]));
    refused("an answer's opcode", &envelope(4, 3, op::RESULT, &[]));
    refused("before STARTUP", &envelope(4, 3, op::QUERY, &[0; 20]));
    refused(
        "STARTUP of rubbish",
        &envelope(4, 3, op::STARTUP, &[0xFF; 7]),
    );
    let response = [&[0x84_u8][..], &envelope(4, 3, op::OPTIONS, &[])[1..]].concat();
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(&response).expect("write");
    // An ERROR or a close: a hang would be a time-out here.
    let answer = stream.read(&mut [0; 64]);
    assert!(answer.is_ok_and(|n| n == 0 || n > 9), "response direction");

    // A header that announces 2 GiB, and one that announces more than any int.
    for len in [0x7FFF_FFFF_u32, 0xFFFF_FFFF] {
        let mut bytes = envelope(4, 3, op::STARTUP, &[]);
        bytes[5..9].copy_from_slice(&len.to_be_bytes());
        bytes.extend([0; 1000]);
        let answer = told(address, &bytes);
        assert!(answer.first().is_none_or(|first| first & 0x80 != 0));
    }
}

fn wrong_frames(address: SocketAddr) {
    let good = frame(&envelope(5, 1, op::OPTIONS, &[]));
    let mut cases = Vec::new();
    for at in [3, 10, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        cases.push(bad);
    }
    // A frame with an envelope that is longer than the frame says.
    let mut lying = envelope(5, 1, op::QUERY, &[0; 30]);
    lying[8] = 200;
    cases.push(frame(&lying));
    cases.push(envelope(5, 1, op::OPTIONS, &[]));
    for (number, bad) in cases.iter().enumerate() {
        let mut client = Client::ready(address, 5).expect("client");
        client.stream.write_all(bad).expect("write");
        client.stream.shutdown(Shutdown::Write).expect("shutdown");
        let mut rest = Vec::new();
        match client.stream.read_to_end(&mut rest) {
            Ok(_) => assert!(rest.len() < 1000),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => {}
            Err(e) => panic!("frame {number}: {e}"),
        }
    }
    // Each frame again, with the client waiting: the connection must not just hang.
    for bad in &cases[..3] {
        let mut client = Client::ready(address, 5).expect("client");
        client.stream.write_all(bad).expect("write");
        let mut rest = Vec::new();
        match client.stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionReset => {}
            Err(e) => panic!("a wrong CRC is neither answered nor closed: {e}"),
        }
    }
}

/// A whole handshake and a query, one byte at a time.
fn slow_drip(address: SocketAddr) {
    let mut client = Client::connect(address, 5).expect("connect");
    let startup = b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0";
    for byte in envelope(5, 1, op::STARTUP, startup) {
        client.stream.write_all(&[byte]).expect("write");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.receive().expect("answer").opcode, op::READY);
    let body = client.query_body("SELECT v FROM h.t WHERE k = 1", ONE);
    for byte in frame(&envelope(5, 2, op::QUERY, &body)) {
        client.stream.write_all(&[byte]).expect("write");
        thread::sleep(Duration::from_millis(1));
    }
    let mut header = [0; 6];
    client.stream.read_exact(&mut header).expect("a frame");
    assert!(serves(address));
}

/// Who does not finish the handshake is disconnected after the time that is set (5 s here).
fn unfinished_handshake(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(&[4, 0, 0]).expect("write");
    let begin = Instant::now();
    let end = stream.read(&mut [0; 64]);
    assert!(
        end.is_ok_and(|n| n == 0) || begin.elapsed() < PATIENCE,
        "kept"
    );
    println!(
        "an unfinished handshake was closed after {:?}",
        begin.elapsed()
    );
}

fn idle_clients(proxy: &Proxy) {
    let count = 1000_u16;
    let before = proxy.resident_kib().expect("memory");
    let clients: Vec<_> = (0..count)
        .map(|n| Client::ready(proxy.address, if n % 2 == 0 { 4 } else { 5 }).expect("client"))
        .collect();
    let grown = proxy.resident_kib().expect("memory").saturating_sub(before);
    let each = grown as f64 / f64::from(count);
    println!("idle clients: {each:.1} KiB each");
    assert!(each < 64.0, "{each} KiB for each idle client");
    assert!(serves(proxy.address));
    drop(clients);
}

/// Most clients of an application are idle at any time; those that are not must not pay for them.
fn crowd(cluster: &Cluster) {
    const IDLE: u32 = 9_000;
    const THREADS: i32 = 20;
    const EACH: i32 = 50;
    /// Key of the first busy client.
    const FIRST: i32 = 1_000;
    let settings = ["limits.clients_max=12000"];
    let proxy = Proxy::start(&cluster.contact_points(), &settings).expect("proxy");
    let mut writer = Client::ready(proxy.address, 5).expect("client");
    let first = |thread: i32| FIRST + thread * EACH;
    for key in first(0)..first(THREADS) {
        let cql = format!("INSERT INTO h.t (k, v) VALUES ({key}, 'value {key}')");
        writer.query(&cql).expect("written");
    }
    let before = proxy.resident_kib().expect("memory");
    let begin = Instant::now();
    let mut idle: Vec<_> = (0..IDLE)
        .map(|n| Client::ready(proxy.address, 3 + (n % 3) as u8).expect("client"))
        .collect();
    let grown = proxy.resident_kib().expect("memory").saturating_sub(before);
    let each = f64::from(u32::try_from(grown).expect("KiB")) / f64::from(IDLE);
    println!(
        "{IDLE} idle clients: {each:.1} KiB each, opened in {:?}",
        begin.elapsed()
    );
    assert!(each <= 16.0, "{each} KiB for each idle client");

    // Each busy client has one request in flight at any time, and a row of its own to judge by.
    let address = proxy.address;
    let end = Instant::now() + Duration::from_secs(10);
    let busy: Vec<_> = (0..THREADS)
        .map(|thread| {
            thread::spawn(move || {
                let mut clients: Vec<_> = (0..EACH)
                    .map(|n| Client::ready(address, 3 + (n % 3) as u8).expect("client"))
                    .collect();
                let mut rounds = 0;
                while Instant::now() < end || rounds == 0 {
                    for (key, client) in (first(thread)..).zip(&mut clients) {
                        let cql = format!("SELECT v FROM h.t WHERE k = {key}");
                        let body = client.query_body(&cql, ONE);
                        client.send(1, op::QUERY, &body).expect("sent");
                    }
                    for (key, client) in (first(thread)..).zip(&mut clients) {
                        let answer = client.receive().expect("an answer").judged();
                        let rows = answer.expect("an answer").expect("no error").rows();
                        let value = format!("value {key}").into_bytes();
                        assert_eq!(rows.expect("rows"), [[Some(value)]]);
                    }
                    rounds += 1;
                }
                rounds
            })
        })
        .collect();
    thread::sleep(Duration::from_secs(3));
    let links = links(cluster);
    let rounds: Vec<i32> = busy
        .into_iter()
        .map(|thread| thread.join().expect("right answers"))
        .collect();
    let answers = rounds.iter().sum::<i32>() * EACH;
    println!(
        "{} busy clients beside them: {answers} right answers in 10 s over {links} links, of no client fewer than {}",
        THREADS * EACH,
        rounds.iter().min().expect("rounds")
    );
    assert!((1..=12).contains(&links), "{links} links");
    // The idle ones are still served, the first as well as the last.
    for client in idle.iter_mut().step_by(500) {
        let rows = client
            .query("SELECT v FROM h.t WHERE k = 1007")
            .expect("rows");
        assert_eq!(rows, [[Some(b"value 1007".to_vec())]]);
    }
}

/// Connections of proxies, in the node's own account.
fn links(cluster: &Cluster) -> usize {
    let cql = "SELECT driver_name FROM system_views.clients";
    let mut node = cluster.connect(1).expect("node");
    let rows = node.query(cql, Consistency::One).expect(cql);
    let of_proxy = |row: &&Vec<Option<Vec<u8>>>| row[0].as_deref() == Some(b"Helenus");
    rows.iter().filter(of_proxy).count()
}

fn clients_max(proxy: &Proxy, max: usize) {
    let mut clients = Vec::new();
    let mut refused = None;
    // The clients of the step before are still being closed, so their places may come free late.
    for _ in 0..max + 10 {
        match Client::ready(proxy.address, 4) {
            Ok(client) => clients.push(client),
            Err(e) => {
                refused = Some(e);
                if clients.len() >= max {
                    break;
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
    assert!(refused.is_some(), "{} clients were taken", clients.len());
    assert_eq!(clients.len(), max, "{refused:?}");
    let first = clients[0].query("SELECT v FROM h.t WHERE k = 1");
    assert_eq!(first.expect("served").len(), 1);
    drop(clients);
    eventually("new clients after the crowd has gone", PATIENCE, || {
        serves(proxy.address)
    });
}
