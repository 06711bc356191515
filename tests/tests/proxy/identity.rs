//! Roles: who is let in, and what each may do over links that others use too.

use std::time::Duration;

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, Fault, ONE, PATIENCE};

use crate::{directly, eventually, one_node, turn};

const BAD_CREDENTIALS: i32 = 0x0100;
const UNAUTHORIZED: i32 = 0x2100;

#[test]
fn roles() {
    let _turn = turn("identity", Duration::from_secs(240));
    let cluster = one_node(helenus_tests::ephemeral().auth(true));
    directly(
        &mut cluster.connect(1).expect("node"),
        &[
            "CREATE KEYSPACE r WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE r.t (k int PRIMARY KEY, v text)",
            "CREATE ROLE reader WITH PASSWORD = 'read' AND LOGIN = true",
            "CREATE ROLE writer WITH PASSWORD = 'write' AND LOGIN = true",
            "GRANT SELECT ON r.t TO reader",
            "GRANT MODIFY ON r.t TO writer",
        ],
    );
    let points = cluster.contact_points();

    let mut nameless = Proxy::spawn(&points, &[]).expect("spawned");
    let status = nameless.wait(PATIENCE).expect("it ends");
    assert_eq!(status.code(), Some(1), "{}", nameless.log());
    assert!(
        nameless
            .log()
            .contains("set cluster.username and cluster.password")
    );
    let wrong = ["cluster.username=cassandra", "cluster.password=wrong"];
    let mut wrong = Proxy::spawn(&points, &wrong).expect("spawned");
    let status = wrong.wait(PATIENCE).expect("it ends");
    assert_eq!(status.code(), Some(1), "{}", wrong.log());
    assert!(
        wrong
            .log()
            .contains("refuse cluster.username and cluster.password")
    );

    let settings = [
        "cluster.username=cassandra",
        "cluster.password=cassandra",
        "links.check_credentials_ms=1000",
    ];
    let proxy = Proxy::start(&points, &settings).expect("proxy");
    let login = |name: &str, password: &str, version: u8| {
        let mut client = Client::connect(proxy.address, version).expect("connect");
        let outcome = client.startup(Some((name, password))).expect("answer");
        outcome.map(|()| client)
    };
    for version in [3, 4, 5] {
        for (name, password) in [("reader", "write"), ("nobody", "read"), ("reader", "")] {
            match login(name, password, version) {
                Ok(_) => panic!("{name} with {password:?} was let in"),
                Err(fault) => assert_eq!(fault.code, BAD_CREDENTIALS, "{fault:?}"),
            }
        }
    }
    // A client that never says who it is gets nothing, not even over a role's open links.
    let mut silent = Client::connect(proxy.address, 4).expect("connect");
    assert!(silent.query("SELECT v FROM r.t WHERE k = 1").is_err());

    let insert = "INSERT INTO r.t (k, v) VALUES (1, 'x')";
    let select = "SELECT v FROM r.t WHERE k = 1";
    let refused = |outcome: Result<_, Fault>, what: &str| match outcome {
        Ok(_) => panic!("{what} was allowed"),
        Err(fault) => assert_eq!(fault.code, UNAUTHORIZED, "{what}: {fault:?}"),
    };
    let mut reader = login("reader", "read", 5).expect("reader");
    let mut writer = login("writer", "write", 4).expect("writer");
    let mut admin = login("cassandra", "cassandra", 5).expect("superuser");
    // A statement has one id for all, also when only one role may execute it.
    let prepared = admin.prepare(select).expect("prepared");
    for round in 0..50 {
        writer.query(insert).expect("the writer writes");
        refused(reader.try_query(insert, ONE).expect("answer"), "writing");
        refused(writer.try_query(select, ONE).expect("answer"), "reading");
        assert_eq!(reader.query(select).expect("the reader reads").len(), 1);
        let rows = reader.execute(&prepared, &[], ONE).expect("answer");
        assert_eq!(rows.expect("may").rows().expect("rows").len(), 1, "{round}");
        let mut id = prepared.clone();
        id.result_id = None;
        refused(writer.execute(&id, &[], ONE).expect("answer"), "executing");
    }
    refused(
        reader.try_query("CREATE ROLE x", ONE).expect("answer"),
        "CREATE ROLE",
    );
    admin.query("CREATE ROLE x").expect("the superuser may");
    // The old password opens nothing once it is changed, though links opened with it still stand.
    admin
        .query("ALTER ROLE reader WITH PASSWORD = 'new'")
        .expect("altered");
    let begin = std::time::Instant::now();
    loop {
        match login("reader", "read", 4) {
            Err(fault) => break assert_eq!(fault.code, BAD_CREDENTIALS),
            // Cassandra remembers credentials for 2 s by default.
            Ok(_) => assert!(begin.elapsed() < PATIENCE, "the old password still works"),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    // Nor does it keep open what it has opened.
    ends("of a changed password", begin, || {
        reader.try_query(select, ONE).is_err()
    });
    let mut reader = login("reader", "new", 4).expect("the new password");
    assert_eq!(reader.query(select).expect("rows").len(), 1);

    admin.query("DROP ROLE writer").expect("dropped");
    let begin = std::time::Instant::now();
    ends("of a dropped role", begin, || {
        writer.try_query(insert, ONE).is_err()
    });
    // Nobody else has noticed anything.
    assert_eq!(reader.query(select).expect("rows").len(), 1);
    admin
        .query("SELECT role FROM system_auth.roles")
        .expect("rows");
}

/// The access ends within `links.check_credentials_ms` (1 s here) after Cassandra itself has noticed
/// (2 s by default); the rest is for a slow machine.
fn ends(what: &str, begin: std::time::Instant, ask: impl FnMut() -> bool) {
    eventually("the connection ends", PATIENCE, ask);
    let took = begin.elapsed();
    println!("the access {what} ended after {took:?}");
    assert!(took < Duration::from_secs(8), "{took:?}");
}
