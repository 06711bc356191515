//! TLS on both sides of the proxy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use helenus_cluster::ClientTls;
use helenus_tests::proxy::{Proxy, helenus};
use helenus_tests::raw::{Client, ONE, PATIENCE, Prepared, envelope, op};
use helenus_tests::scenes;
use helenus_tests::scenes::Scenes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

mod certificate_logins;

use crate::tunnel::Tunnel;
use crate::{directly, eventually, metric, one_node, serves, turn};

type Encrypted = Client<StreamOwned<ClientConnection, TcpStream>>;

scenes!(
    tls_towards_nodes_and_clients;
    what_is_wrong_is_said,
    all_versions_are_served,
    load_is_encrypted_and_compressed,
    bytes_behind_the_end_of_a_stream_stop_no_worker,
    flights_of_equal_inserts_are_answered,
    flights_of_mixed_sizes_are_answered_with_the_right_rows,
    a_client_that_does_not_read_holds_up_nobody,
    the_proxy_ends,
    clients_in_their_handshake_count_until_it_ends,
    certificates_are_renewed,
);

fn tls_towards_nodes_and_clients(scenes: &mut Scenes) {
    let _turn = turn("tls", Duration::from_secs(300));
    let spec = helenus_tests::ephemeral().tls(ClientTls::Mutual);
    // Room for all that one client has in flight here.
    let cluster = one_node(
        spec.yaml("native_transport_max_request_data_in_flight", "256MiB")
            .yaml(
                "native_transport_max_request_data_in_flight_per_ip",
                "256MiB",
            ),
    );
    directly(
        &mut cluster.connect(1).expect("node"),
        &[
            "CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE s.t (k int PRIMARY KEY, v blob)",
        ],
    );
    let files = cluster.tls_files().expect("certificates");
    let points = cluster.contact_points();
    let path = |key: &str, path: &Path| format!("{key}=\"{}\"", path.display());
    let own = tempfile::tempdir().expect("a folder");
    let (good, other) = (Authority::new(), Authority::new());
    let (cert, key) = (own.path().join("cert.pem"), own.path().join("key.pem"));
    std::fs::write(&cert, &good.cert_pem).expect("written");
    std::fs::write(&key, &good.key_pem).expect("written");
    let foreign = own.path().join("foreign.pem");
    std::fs::write(&foreign, &other.cert_pem).expect("written");

    let ca = path("cluster.tls.ca", &files.ca_pem);
    let shown = [
        path("cluster.tls.certificate", &files.client_cert_pem),
        path("cluster.tls.key", &files.client_key_pem),
    ];
    // Each error is said in the log; the proxy goes on trying, as it does with a cluster that is only starting.
    let refused = |what: &str, settings: &[&str], word: &str| {
        let mut proxy = Proxy::spawn(&points, settings).expect("spawned");
        eventually(what, PATIENCE, || {
            proxy.log().contains("no control connection") || !proxy.is_running()
        });
        let log = proxy.log();
        assert!(log.to_lowercase().contains(word), "{what}: {log}");
        assert!(!log.contains("ready for clients"), "{what}: {log}");
        let line = log
            .lines()
            .find(|line| line.contains("no control connection"));
        println!("{what}: {}", line.unwrap_or_default());
    };
    scenes.scene("what_is_wrong_is_said", || {
        let wrong_ca = path("cluster.tls.ca", &foreign);
        refused(
            "wrong CA",
            &[&wrong_ca, &shown[0], &shown[1]],
            "certificate",
        );
        refused(
            "no certificate shown",
            &[&ca],
            "set cluster.tls.certificate and cluster.tls.key",
        );
        refused("plain text to TLS nodes", &[], "set cluster.tls.ca");
    });

    let listen = [
        path("listen.tls.certificate", &cert),
        path("listen.tls.key", &key),
    ];
    let settings = [&ca, &shown[0], &shown[1], &listen[0], &listen[1]].map(String::as_str);
    let any_name = [&settings[..], &["cluster.tls.verify_names=false"]].concat();
    scenes.scene("all_versions_are_served", || {
        for settings in [&settings[..], &any_name] {
            let proxy = Proxy::start_patient(&points, settings).expect("proxy");
            for version in [3, 4, 5] {
                let mut client = connect(proxy.address, &good, version);
                client.startup(None).expect("handshake").expect("ready");
                let rows = client.query("SELECT key FROM system.local");
                assert_eq!(rows.expect("rows").len(), 1);
                // More than one TLS record and one frame.
                let many = "SELECT column_name FROM system_schema.columns";
                assert!(client.query(many).expect("rows").len() > 100);
            }
            let mut stranger = connect(proxy.address, &other, 4);
            let error = stranger.startup(None).expect_err("a wrong authority");
            assert!(error.to_string().contains("certificate"), "{error}");
            // Plain text on the TLS port is closed, not awaited for ever.
            let mut plain = TcpStream::connect(proxy.address).expect("connect");
            plain.set_read_timeout(Some(PATIENCE)).expect("set");
            plain
                .write_all(&envelope(4, 1, op::OPTIONS, &[]))
                .expect("write");
            let mut answer = Vec::new();
            if let Err(e) = plain.read_to_end(&mut answer) {
                assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset);
            }
            let mut client = connect(proxy.address, &good, 4);
            client.startup(None).expect("still serving").expect("ready");
        }
    });
    let [node, own_ca] = [&files.ca_pem, &cert].map(|path| path.display().to_string());
    let shown = [&files.client_cert_pem, &files.client_key_pem];
    let [client_cert, client_key] = shown.map(|path| path.display().to_string());
    let mutual = ["--tls-cert", &client_cert, "--tls-key", &client_key];
    scenes.scene("load_is_encrypted_and_compressed", || {
        load_is_encrypted_and_compressed(points[0], &node, "lz4", &mutual);
        let proxy = Proxy::start_patient(&points, settings.as_slice()).expect("proxy");
        // The authority's own certificate is what this proxy shows, for localhost.
        let name = ["--tls-server-name", "localhost"];
        load_is_encrypted_and_compressed(proxy.address, &own_ca, "snappy", &name);
    });

    let under_load = [
        &settings[..],
        &["aggregation.share_reads=false", "listen.workers=1"],
    ]
    .concat();
    let mut proxy = Proxy::start_patient(&points, &under_load).expect("proxy");
    let tunnel = Tunnel::to(proxy.address, good.client_config()).expect("a tunnel");
    scenes.scene("bytes_behind_the_end_of_a_stream_stop_no_worker", || {
        bytes_behind_the_end_of_a_stream_stop_no_worker(&proxy, &tunnel, &good);
    });
    scenes.scene("flights_of_equal_inserts_are_answered", || {
        flights_of_equal_inserts_are_answered(&tunnel);
    });
    scenes.scene(
        "flights_of_mixed_sizes_are_answered_with_the_right_rows",
        || {
            flights_of_mixed_sizes_are_answered_with_the_right_rows(&tunnel);
        },
    );
    scenes.scene("a_client_that_does_not_read_holds_up_nobody", || {
        a_client_that_does_not_read_holds_up_nobody(&proxy, &tunnel);
    });
    scenes.scene("the_proxy_ends", || {
        proxy.terminate().expect("SIGTERM");
        let status = proxy.wait(Duration::from_secs(20)).expect("it ends");
        assert!(status.success(), "{status}");
    });

    let few = [
        &settings[..],
        &["limits.clients_max=4", "limits.handshake_timeout_ms=3000"],
    ]
    .concat();
    let proxy = Proxy::start_patient(&points, &few).expect("proxy");
    let tunnel = Tunnel::to(proxy.address, good.client_config()).expect("a tunnel");
    scenes.scene("clients_in_their_handshake_count_until_it_ends", || {
        clients_in_their_handshake_count_until_it_ends(&proxy, &tunnel);
    });

    let proxy = Proxy::start_patient(&points, settings.as_slice()).expect("proxy");
    scenes.scene("certificates_are_renewed", || {
        renewal(&proxy, &good, &cert, &key)
    });
}

/// `helenus load` creates its table, fills it, and reads and writes.
fn load_is_encrypted_and_compressed(
    contact: SocketAddr,
    ca: &str,
    compression: &str,
    more: &[&str],
) {
    let contact = contact.to_string();
    let arguments = [
        "load",
        "--contact",
        &contact,
        "--client",
        "raw",
        "--tls-ca",
        ca,
        "--compression",
        compression,
        "--keys",
        "50",
        "--value-bytes",
        "1000",
        "--mix",
        "read=1,write=1,range=1",
        "--clients",
        "4",
        "--operations",
        "200",
        "--warmup",
        "0s",
        "--quiet",
    ];
    let command = helenus(&[&arguments[..], more].concat());
    let ran = command.expect("the program").output().expect("it runs");
    let (out, errors) = (ran.stdout, ran.stderr);
    let (out, errors) = (
        String::from_utf8_lossy(&out),
        String::from_utf8_lossy(&errors),
    );
    assert!(ran.status.success(), "{out}{errors}");
    assert!(out.contains("200 queries"), "{out}");
    assert!(out.contains(", 0 failed"), "{out}");
}

/// A record that nobody can decrypt.
const RECORD: &[u8] = b"\x17\x03\x03\x00\x10 sixteen bytes!!";

/// The connection stays open meanwhile; the proxy has one worker.
fn bytes_behind_the_end_of_a_stream_stop_no_worker(
    proxy: &Proxy,
    tunnel: &Tunnel,
    trusted: &Authority,
) {
    let mut before_login = connect(proxy.address, trusted, 4);
    let answer = before_login.call(op::OPTIONS, &[]).expect("an answer");
    assert_eq!(answer.opcode, op::SUPPORTED);
    let StreamOwned { conn, sock } = &mut before_login.stream;
    conn.send_close_notify();
    let mut sent = Vec::new();
    conn.write_tls(&mut sent).expect("a close_notify");
    // In one packet, as far as it can be.
    sent.extend(RECORD.repeat(700));
    sock.write_all(&sent).expect("sent");
    assert!(serves(tunnel.address));
}

/// Rows of the test table: their values differ, and so do the parts of each.
fn value(key: i32, len: usize) -> Vec<u8> {
    let byte = |at: usize| (at ^ at >> 8 ^ at >> 16 ^ (key as usize * 31)) as u8;
    (0..len).map(byte).collect()
}

fn insert_and_select(client: &mut Client<TcpStream>) -> (Prepared, Prepared) {
    let mut prepare = |cql| client.prepare(cql).expect(cql);
    (
        prepare("INSERT INTO s.t (k, v) VALUES (?, ?)"),
        prepare("SELECT v FROM s.t WHERE k = ?"),
    )
}

/// Sends these EXECUTEs all at once, each on the stream of its place, and gives `check` the answers
/// as they come.
fn fly(
    client: &mut Client<TcpStream>,
    bodies: Vec<Vec<u8>>,
    mut check: impl FnMut(usize, Option<Vec<u8>>),
) {
    let count = bodies.len();
    let mut waiting = vec![true; count];
    let mut sender = client.sender().expect("a handle");
    let sending = thread::spawn(move || {
        for (stream, body) in bodies.iter().enumerate() {
            sender.send(stream as i16, op::EXECUTE, body).expect("sent");
        }
    });
    for answered in 0..count {
        let answer = client.receive();
        let answer = answer.unwrap_or_else(|e| panic!("{answered} of {count} answered: {e}"));
        let at = answer.stream as usize;
        assert!(std::mem::take(&mut waiting[at]), "a second answer for {at}");
        let answer = answer.judged().expect("RESULT or ERROR");
        let rows = answer.expect("no error").rows().expect("rows");
        check(
            at,
            rows.into_iter().next().and_then(|mut row| row.remove(0)),
        );
    }
    sending.join().expect("everything sent");
}

fn flights_of_equal_inserts_are_answered(tunnel: &Tunnel) {
    for (version, kib) in [(4, 2), (4, 6), (4, 10), (5, 12), (5, 40)] {
        let mut client = Client::ready(tunnel.address, version).expect("client");
        let (insert, _) = insert_and_select(&mut client);
        let value = value(1, kib * 1024);
        let count = if kib > 12 { 500 } else { 2_000 };
        let bodies = (0..count)
            .map(|key: i32| client.execute_body(&insert, &[&key.to_be_bytes(), &value], ONE))
            .collect();
        fly(&mut client, bodies, |_, cell| assert_eq!(cell, None));
    }
}

fn flights_of_mixed_sizes_are_answered_with_the_right_rows(tunnel: &Tunnel) {
    const ROWS: i32 = 64;
    let seed = match std::env::var("HELENUS_SEED") {
        Ok(seed) => seed.parse().expect("HELENUS_SEED is a number"),
        Err(_) => rand::rng().random(),
    };
    println!("seed {seed} (set HELENUS_SEED to replay)");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for version in [3, 4, 5] {
        // From 1 byte to 1 MiB, every order of magnitude as often as the others.
        let values: Vec<Vec<u8>> = (0..ROWS)
            .map(|key| match key {
                0 => value(key, 1),
                1 => value(key, 1 << 20),
                _ => value(
                    key,
                    1 << rng.random_range(0..20) | rng.random_range(0..1 << 10),
                ),
            })
            .collect();
        let mut client = Client::ready(tunnel.address, version).expect("client");
        let (insert, select) = insert_and_select(&mut client);
        let body = |client: &Client<_>, key: usize, writes: bool| {
            let name = (key as i32).to_be_bytes();
            match writes {
                true => client.execute_body(&insert, &[&name, &values[key]], ONE),
                false => client.execute_body(&select, &[&name], ONE),
            }
        };
        let all = (0..values.len()).map(|key| body(&client, key, true));
        let all = all.collect();
        fly(&mut client, all, |_, cell| assert_eq!(cell, None));
        // Each write leaves what was there before.
        let mixed: Vec<(usize, bool)> = (0..200)
            .map(|_| (rng.random_range(0..values.len()), rng.random()))
            .collect();
        let bodies = mixed
            .iter()
            .map(|(key, writes)| body(&client, *key, *writes));
        let bodies = bodies.collect();
        fly(&mut client, bodies, |at, cell| {
            let (key, writes) = mixed[at];
            let wanted = (!writes).then_some(&values[key]);
            assert!(
                cell.as_ref() == wanted,
                "row {key} of {} B",
                values[key].len()
            );
        });
    }
}

fn a_client_that_does_not_read_holds_up_nobody(proxy: &Proxy, tunnel: &Tunnel) {
    const COUNT: usize = 60;
    const LEN: usize = 1 << 20;
    let mut stream = TcpStream::connect(tunnel.address).expect("connect");
    let mut slow = Client::of(stream.try_clone().expect("a handle"), 4).expect("client");
    slow.startup(None).expect("handshake").expect("ready");
    let (insert, select) = insert_and_select(&mut slow);
    let key = 1_000_000_i32;
    let value = value(key, LEN);
    slow.execute(&insert, &[&key.to_be_bytes(), &value], ONE)
        .expect("an answer")
        .expect("written");
    let received = || metric(proxy, "helenus_node_received_bytes_total");
    let before = received();
    // All at once: a client that has not read its answers is not read from.
    let body = slow.execute_body(&select, &[&key.to_be_bytes()], ONE);
    let flight = (0..COUNT).flat_map(|number| envelope(4, number as i16, op::EXECUTE, &body));
    let flight: Vec<u8> = flight.collect();
    stream.write_all(&flight).expect("sent");
    eventually("the node has answered everything", PATIENCE, || {
        received() - before > (COUNT * LEN) as f64
    });
    assert!(serves(tunnel.address), "another client");
    for _ in 0..COUNT {
        let answer = slow.receive().expect("an answer").judged().expect("judged");
        let rows = answer.expect("no error").rows().expect("rows");
        assert!(rows == [[Some(value.clone())]], "the row");
    }
}

/// Four clients at most here, and a second for their handshakes.
fn clients_in_their_handshake_count_until_it_ends(proxy: &Proxy, tunnel: &Tunnel) {
    assert!(serves(tunnel.address));
    eventually("that client has left", PATIENCE, || {
        metric(proxy, "helenus_clients") == 0.0
    });
    let silent: Vec<_> = (0..4)
        .map(|_| TcpStream::connect(proxy.address).expect("connect"))
        .collect();
    // One that came before them would take the place of the last of them.
    eventually("all of them have come", PATIENCE, || {
        metric(proxy, "helenus_clients") == 4.0
    });
    eventually("there is no room for a fifth", PATIENCE, || {
        !serves(tunnel.address) && metric(proxy, "helenus_clients_refused_total") > 0.0
    });
    eventually("handshakes have an end", PATIENCE, || {
        serves(tunnel.address)
    });
    drop(silent);
    for _ in 0..20 {
        let mut failing = TcpStream::connect(proxy.address).expect("connect");
        failing.write_all(b"neither TLS nor CQL").expect("sent");
    }
    eventually("failed handshakes leave room", PATIENCE, || {
        serves(tunnel.address)
    });
    eventually("failed handshakes are told", PATIENCE, || {
        proxy.log().contains("TLS with a client failed")
    });
    // All four places are free again.
    eventually("nothing is counted twice", PATIENCE, || {
        let clients: Vec<_> = (0..4)
            .map_while(|_| Client::ready(tunnel.address, 5).ok())
            .collect();
        clients.len() == 4
    });
}

/// Certificates are renewed by writing two files, one after the other, and telling nobody.
fn renewal(proxy: &Proxy, old: &Authority, cert: &Path, key: &Path) {
    let served = |client: &mut Encrypted| {
        let rows = client.query("SELECT key FROM system.local");
        assert_eq!(rows.expect("rows").len(), 1);
    };
    let accepted = |trusted: &Authority| {
        let mut client = connect(proxy.address, trusted, 5);
        match client.startup(None) {
            Ok(outcome) => {
                outcome.expect("ready");
                served(&mut client);
                true
            }
            Err(e) => {
                assert!(e.to_string().contains("certificate"), "{e}");
                false
            }
        }
    };
    let mut before = connect(proxy.address, old, 5);
    before.startup(None).expect("handshake").expect("ready");
    let new = Authority::new();
    std::fs::write(cert, &new.cert_pem).expect("written");
    // Certificate and key do not fit each other now: the proxy says so and stays as it is.
    eventually("half a renewal is noticed", PATIENCE, || {
        proxy.log().contains("cannot be used (yet)")
    });
    assert!(accepted(old) && !accepted(&new));
    std::fs::write(key, &new.key_pem).expect("written");
    let took = eventually("the renewed certificate is shown", PATIENCE, || {
        accepted(&new)
    });
    println!("a renewed certificate was in use {took:?} after it was written");
    assert!(!accepted(old), "the old certificate is still shown");
    served(&mut before);
    // By hand, too.
    let third = Authority::new();
    std::fs::write(cert, &third.cert_pem).expect("written");
    std::fs::write(key, &third.key_pem).expect("written");
    proxy.reload().expect("SIGHUP");
    eventually("the third certificate is shown", PATIENCE, || {
        accepted(&third)
    });
    served(&mut before);
}

/// A certificate that is its own authority.
struct Authority {
    cert_pem: String,
    key_pem: String,
    der: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        Self {
            cert_pem: made.cert.pem(),
            key_pem: made.signing_key.serialize_pem(),
            der: made.cert.der().clone(),
        }
    }

    /// Of a client that trusts it.
    fn client_config(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(config)
    }
}

fn connect(address: SocketAddr, trusted: &Authority, version: u8) -> Encrypted {
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(trusted.client_config(), name).expect("a session");
    let stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    Client::over(StreamOwned::new(session, stream), version)
}
