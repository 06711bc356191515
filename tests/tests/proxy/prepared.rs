//! Prepared statements that nodes forget, or that change under the clients who hold them.

use std::net::SocketAddr;
use std::time::Duration;

use helenus_client::{BatchChild, Options, Statement, ValueRef};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, ONE, Prepared, envelope, op};

use crate::node::{Shared, shared};
use crate::{directly, eventually, metric, turn};

const UNPREPARED: i32 = 0x2500;
const PROTOCOL: i32 = 0x000A;
const TEXT: &str = "SELECT * FROM pre.t WHERE k = ?";
const KEY: [&[u8]; 1] = [&[0, 0, 0, 1]];

/// A client as drivers are: it leaves metadata out, and prepares again when it is told to.
struct Driver {
    client: Client<std::net::TcpStream>,
    known: Prepared,
    told: usize,
}

impl Driver {
    fn new(address: SocketAddr, version: u8) -> Self {
        let mut client = Client::ready(address, version).expect("client");
        let known = client.prepare(TEXT).expect("prepared");
        Driver {
            client,
            known,
            told: 0,
        }
    }

    /// The columns of the rows as the driver takes them to be, and as they are.
    fn read(&mut self) -> (usize, usize) {
        let answer = match self
            .client
            .execute_known(&self.known, &KEY)
            .expect("answer")
        {
            Ok(answer) => answer,
            Err(fault) => {
                assert_eq!(fault.code, UNPREPARED, "{fault:?}");
                self.told += 1;
                self.known = self.client.prepare(TEXT).expect("prepared");
                let again = self.client.execute_known(&self.known, &KEY);
                again.expect("answer").expect("rows")
            }
        };
        let (columns, said) = answer.columns().expect("rows");
        match said {
            true => (columns, columns),
            false => (self.known.columns, columns),
        }
    }
}

/// The table, with two columns again.
fn table(node: &mut Shared) {
    node.keyspace(
        "pre",
        &[
            "CREATE TABLE pre.t (k int PRIMARY KEY, a int)",
            "INSERT INTO pre.t (k, a) VALUES (1, 2)",
        ],
    );
}

/// On a direct connection and through the proxy, to nodes of v5 and v4: who holds a statement whose
/// table was altered hears UNPREPARED, learns the new columns, and never takes them for the old.
#[test]
fn an_altered_table_is_told_to_clients_as_by_a_node() {
    let _turn = turn("altered", Duration::from_secs(180));
    let mut node = shared();
    let points = node.cluster().contact_points();
    let newest = Proxy::start_patient(&points, &[]).expect("proxy");
    let older = Proxy::start_patient(&points, &["links.protocol_max=4"]).expect("proxy");
    let proxied = [(newest.address, 3..=5), (older.address, 3..=4)];
    let direct = [(points[0], 3..=5)];
    for (address, versions) in direct.into_iter().chain(proxied) {
        for version in versions {
            table(&mut node);
            let mut first = Driver::new(address, version);
            let mut second = Driver::new(address, version);
            assert_eq!((first.read(), second.read()), ((2, 2), (2, 2)));
            let mut other = Client::ready(address, version).expect("client");
            other.query("ALTER TABLE pre.t ADD b int").expect("altered");
            assert_eq!(first.read(), (3, 3), "{address} v{version}");
            assert_eq!(first.told, 1, "{address} v{version}");
            assert_eq!(first.known.columns, 3, "{address} v{version}");
            // Of an old version, and on a direct connection, it may take them for the old.
            let (taken, columns) = second.read();
            assert_eq!(columns, 3);
            if address != points[0] || version >= 5 {
                assert_eq!(taken, 3, "{address} v{version}");
            }
            let columns_of_new = Driver::new(address, version).read();
            assert_eq!(columns_of_new, (3, 3), "{address} v{version}");
        }
    }
}

/// The node calls it by an id of keyspace and text: prepared again without the one it would be another.
#[test]
fn a_statement_is_prepared_again_in_the_keyspace_it_was_prepared_in() {
    let _turn = turn("keyspace of a statement", Duration::from_secs(120));
    let mut node = shared();
    table(&mut node);
    let points = node.cluster().contact_points();
    let proxy = Proxy::start_patient(&points, &[]).expect("proxy");
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let texts = [
        "SELECT a FROM pre.t WHERE k = ?",
        "INSERT INTO pre.t (k) VALUES (?)",
        "CREATE TABLE IF NOT EXISTS pre.u (k int PRIMARY KEY)",
        "ALTER TABLE pre.t ADD IF NOT EXISTS b int",
    ];
    let known = texts.map(|cql| client.prepare_in(cql, Some("system")).expect(cql));
    // Forgotten by the node, but not by the proxy.
    let mut direct = node.connect();
    directly(&mut direct, &["TRUNCATE system.prepared_statements"]);
    node.cluster().kill(1).expect("killed");
    node.cluster().start(1).expect("started");
    // By the worker of this client: each connects again at its own pace.
    eventually("it is served again", Duration::from_secs(30), || {
        let outcome = client.try_query("SELECT k FROM pre.t WHERE k = 1", ONE);
        outcome.expect("an answer").is_ok()
    });
    for (cql, known) in texts.iter().zip(&known) {
        let values: &[&[u8]] = if cql.contains('?') { &KEY } else { &[] };
        let outcome = client.execute(known, values, ONE).expect("answer");
        outcome.unwrap_or_else(|fault| panic!("{cql}: {fault:?}"));
    }
    let taught = metric(&proxy, "helenus_reprepares_total");
    assert!((1.0..=8.0).contains(&taught), "{taught}");
}

/// `USE` changes the keyspace of the connection that it runs on, whoever else uses that.
#[test]
fn a_prepared_use_moves_its_own_client_only() {
    let _turn = turn("prepared USE", Duration::from_secs(120));
    let mut node = shared();
    table(&mut node);
    let points = node.cluster().contact_points();
    let proxy = Proxy::start_patient(&points, &["listen.workers=1"]).expect("proxy");
    // One that the proxy knows, and one that it has never seen.
    let strange = Client::ready(points[0], 5)
        .and_then(|mut client| client.prepare("USE  pre"))
        .expect("prepared");
    let mut mover = Client::ready(proxy.address, 5).expect("client");
    let known = mover.prepare("USE pre").expect("prepared");
    for (what, prepared) in [("known", known), ("unknown", strange)] {
        for version in [4, 5] {
            let mut mover = Client::ready(proxy.address, version).expect("client");
            let prepared = Prepared {
                result_id: prepared.result_id.clone().filter(|_| version >= 5),
                ..prepared.clone()
            };
            let moved = mover.execute(&prepared, &[], ONE).expect("answer");
            moved.expect("moved");
            let mut others: Vec<_> = (0..8)
                .map(|_| Client::ready(proxy.address, version).expect("client"))
                .collect();
            for other in &mut others {
                let fault = other.try_query("SELECT a FROM t WHERE k = 1", ONE);
                let fault = fault.expect("answer").expect_err(what);
                assert!(fault.message.contains("No keyspace"), "{what}: {fault:?}");
            }
            let rows = mover.query("SELECT a FROM t WHERE k = 1");
            assert_eq!(rows.expect("its own keyspace").len(), 1, "{what}");
        }
    }
}

/// The keyspace that the first statement of a batch names is not what the others need.
#[test]
fn a_batch_runs_in_the_keyspace_of_its_session() {
    let _turn = turn("keyspace of a batch", Duration::from_secs(60));
    let mut node = shared();
    table(&mut node);
    let points = node.cluster().contact_points();
    let newest = Proxy::start_patient(&points, &[]).expect("proxy");
    let older = Proxy::start_patient(&points, &["links.protocol_max=4"]).expect("proxy");
    for (address, version) in [
        (points[0], 4),
        (newest.address, 4),
        (newest.address, 5),
        (older.address, 4),
    ] {
        let mut client = Client::ready(address, version).expect("client");
        client.query("USE pre").expect("used");
        let own = "INSERT INTO pre.t (k, a) VALUES (?, 7)";
        let own = client.prepare(own).expect("prepared");
        let key = 10_i32.to_be_bytes();
        let other = "INSERT INTO t (k, a) VALUES (11, 7)";
        let children = [
            BatchChild {
                statement: Statement::Prepared(own.ids()),
                values: &[ValueRef::Set(&key)],
            },
            BatchChild {
                statement: Statement::Text(other),
                values: &[],
            },
        ];
        let answer = client.batch(0, &children, &Options::at(ONE));
        answer.expect("answer").expect("written");
        let rows = client.query("SELECT a FROM t WHERE k IN (10, 11)");
        assert_eq!(rows.expect("rows").len(), 2, "{address} v{version}");
        client.query("TRUNCATE t").expect("emptied");
    }
}

#[test]
fn a_custom_payload_in_v3_is_refused_as_by_a_node() {
    let _turn = turn("payload in v3", Duration::from_secs(60));
    let mut node = shared();
    let points = node.cluster().contact_points();
    let proxy = Proxy::start_patient(&points, &[]).expect("proxy");
    for address in [points[0], proxy.address] {
        let mut client = Client::ready(address, 3).expect("client");
        // No entries; then what would be a statement of its own.
        let mut body = vec![0, 0];
        body.extend(client.query_body("USE system", ONE));
        let mut bytes = envelope(3, 1, op::QUERY, &body);
        bytes[1] = 0x04;
        std::io::Write::write_all(&mut client.stream, &bytes).expect("sent");
        let fault = client.receive().expect("answer").fault().expect("an error");
        assert_eq!(fault.code, PROTOCOL, "{fault:?}");
        assert!(fault.message.contains("CUSTOM_PAYLOAD"), "{fault:?}");
    }
}
