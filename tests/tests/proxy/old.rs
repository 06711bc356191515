//! Nodes that know protocol version 4 only.

use std::time::Duration;

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, ONE, op};
use helenus_tests::{kinds, pool};

use crate::{directly, turn};

#[test]
fn nodes_of_version_4() {
    let _turn = turn("old", Duration::from_secs(180));
    let cluster = pool::take(kinds::old()).expect("a node");
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    let mut node = cluster.connect(1).expect("node");
    for name in ["one", "two"] {
        directly(
            &mut node,
            &[
                &format!("CREATE KEYSPACE {name} WITH replication = {replication}"),
                &format!("CREATE TABLE {name}.t (k int PRIMARY KEY, v text)"),
                &format!("INSERT INTO {name}.t (k, v) VALUES (1, '{name}')"),
            ],
        );
    }
    let proxy = Proxy::start_patient(&cluster.contact_points(), &[]).expect("proxy");

    // A client that begins with version 5 must learn that it may try 4.
    let points = cluster.contact_points();
    for (address, opcode) in [
        (points[0], op::STARTUP),
        (proxy.address, op::OPTIONS),
        (proxy.address, op::STARTUP),
    ] {
        let mut newer = Client::connect(address, 5).expect("connect");
        newer.send(1, opcode, &[0, 0]).expect("sent");
        // On the first byte, as nodes do: the stream is not known by then.
        let answer = newer.receive().expect("answer");
        assert_eq!(answer.stream, 0);
        let fault = answer.fault().expect("an error");
        assert_eq!(
            (answer.opcode, fault.code),
            (op::ERROR, 0x000A),
            "{fault:?}"
        );
        assert!(fault.message.contains("unsupported protocol version"));
        assert!(fault.message.contains("4/v4") && !fault.message.contains("5/v5"));
        // Drivers take the version they fall back to from the header.
        assert_eq!(answer.version, 4);
    }

    let mut first = Client::ready(proxy.address, 4).expect("client");
    let mut second = Client::ready(proxy.address, 3).expect("client");
    let neither = first.try_query("SELECT v FROM t WHERE k = 1", ONE);
    assert_eq!(
        neither.expect("answer").expect_err("no keyspace").code,
        0x2200
    );
    first.query("USE one").expect("USE");
    second.query("USE two").expect("USE");
    let text = "SELECT v FROM t WHERE k = 1";
    let prepared = (
        first.prepare(text).expect("prepared"),
        second.prepare(text).expect("prepared"),
    );
    let value = |v: &str| vec![vec![Some(v.as_bytes().to_vec())]];
    for _ in 0..100 {
        assert_eq!(first.query(text).expect("rows"), value("one"));
        assert_eq!(second.query(text).expect("rows"), value("two"));
        let rows = first.execute(&prepared.0, &[], ONE).expect("answer");
        assert_eq!(rows.expect("ok").rows().expect("rows"), value("one"));
        let rows = second.execute(&prepared.1, &[], ONE).expect("answer");
        assert_eq!(rows.expect("ok").rows().expect("rows"), value("two"));
    }
    first.query("USE two").expect("USE");
    assert_eq!(first.query(text).expect("rows"), value("two"));
    // Statements prepared in the other keyspace still mean that keyspace.
    let rows = first.execute(&prepared.0, &[], ONE).expect("answer");
    assert_eq!(rows.expect("ok").rows().expect("rows"), value("one"));
    let missing = first.try_query("USE nowhere", ONE).expect("answer");
    assert_eq!(missing.expect_err("no such keyspace").code, 0x2200);
    assert_eq!(first.query(text).expect("rows"), value("two"));
}
