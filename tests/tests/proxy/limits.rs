//! Rules before a real node: what drivers meet, and what `helenus check --explain` says of it beforehand.

use std::time::Duration;

use helenus_tests::proxy::{Options, Proxy, free_addresses, helenus};
use helenus_tests::raw::{Client, ONE, PATIENCE};

use crate::node::shared;
use crate::{directly, eventually, turn};

const UNPREPARED: i32 = 0x2500;
const UNAUTHORIZED: i32 = 0x2100;
const OPEN: &str = "INSERT INTO limits.open (k, v) VALUES (1, 'x')";
const CLOSED: &str = "INSERT INTO limits.closed (k, v) VALUES (1, 'x')";

#[test]
fn rules_hold_before_a_real_node_and_are_explained() {
    let _turn = turn("limits", Duration::from_secs(120));
    let mut cluster = shared();
    let table = |name: &str| format!("CREATE TABLE limits.{name} (k int PRIMARY KEY, v text)");
    cluster.keyspace("limits", &[&table("open"), &table("closed")]);
    let points = cluster.cluster().contact_points();
    let own = tempfile::tempdir().expect("a folder");
    let path = own.path().join("helenus.toml");
    let addresses = free_addresses("127.0.0.1").expect("ports");
    let settings = format!(
        "[listen]\naddress = '{}'\n[admin]\naddress = '{}'\n\
         [[rules]]\nname = 'closed'\nkeyspace = 'limits'\ntable = 'closed'\ndeny = 'it is closed'\n\
         [[rules]]\nname = 'no filtering'\nkeyspace = 'limits'\nclass = 'filtering'\ndeny = 'too slow'\n\
         [[rules]]\nname = 'strong writes'\nkeyspace = 'limits'\nclass = 'write'\nconsistency_min = 'QUORUM'\n\
         consistency_rewrite = true\n\
         [[rules]]\nname = 'never'\nkeyspace = 'limits'\ntable = 'closed'\nin_flight = 3\n\
         [[rules]]\nname = 'misspelt'\nkeyspace = 'limit'\nin_flight = 3\n",
        addresses.0, addresses.1
    );
    std::fs::write(&path, settings).expect("a file");
    let mut proxy = Proxy::launch(&Options {
        contact_points: &points,
        config: Some(&path),
        addresses: Some(addresses),
        ..Options::default()
    })
    .expect("spawned");
    proxy.wait_ready().expect("ready");
    let mut client = Client::ready(proxy.address, 5).expect("a client");
    let mut code = |text: &str| {
        let answer = client.try_query(text, ONE).expect("an answer");
        answer.err().map(|fault| (fault.code, fault.message))
    };
    assert_eq!(code(OPEN), None);
    let (refused, text) = code(CLOSED).expect("a refusal");
    assert!(
        refused == UNAUTHORIZED && text.contains("it is closed"),
        "{text}"
    );
    // As in `USE`, with an unqualified name, and in a batch behind another.
    assert_eq!(code("USE limits"), None);
    assert_eq!(
        code("SELECT v FROM closed WHERE k = 1").map(|of| of.0),
        Some(UNAUTHORIZED)
    );
    assert_eq!(code("SELECT v FROM open WHERE k = 1"), None);
    let batch = format!("BEGIN BATCH {OPEN}; {CLOSED}; APPLY BATCH");
    assert_eq!(code(&batch).map(|of| of.0), Some(UNAUTHORIZED));
    let filtering = "SELECT v FROM limits.open WHERE v = 'x' ALLOW FILTERING";
    assert_eq!(code(filtering).map(|of| of.0), Some(UNAUTHORIZED));
    // Statements prepared directly are not known here, until their client prepares them again.
    let mut node = Client::ready(points[0], 5).expect("a node");
    let known = node
        .prepare("SELECT v FROM limits.open WHERE k = 1")
        .expect("prepared");
    let closed = node
        .prepare("SELECT v FROM limits.closed WHERE k = 1")
        .expect("prepared");
    let mut client = Client::ready(proxy.address, 5).expect("a client");
    for (prepared, after) in [(&known, None), (&closed, Some(UNAUTHORIZED))] {
        let answer = client.execute(prepared, &[], ONE).expect("an answer");
        assert_eq!(answer.err().map(|fault| fault.code), Some(UNPREPARED));
        eventually("it is known", PATIENCE, || {
            let answer = client.execute(prepared, &[], ONE).expect("an answer");
            answer.err().map(|fault| fault.code) == after
        });
    }
    let said = |arguments: &[&str]| {
        let points = points[0].to_string();
        let common = [
            "check",
            "-c",
            path.to_str().expect("a path"),
            "--contact-points",
            &points,
        ];
        let output = helenus(&[&common[..], arguments].concat())
            .expect("a command")
            .output();
        let output = output.expect("it runs");
        (
            output.status.code(),
            String::from_utf8(output.stdout).expect("text"),
        )
    };
    let (status, text) = said(&["--explain", filtering, "--client", "10.0.0.1"]);
    assert_eq!(status, Some(0), "{text}");
    for part in [
        "limits.open",
        "filtering",
        "in sequential ranges",
        "too slow",
        "refused with UNAUTHORIZED by rule",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (_, text) = said(&["--explain", OPEN, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        report["explanation"]["route"],
        "to an owner of its partition"
    );
    assert_eq!(
        report["explanation"]["rules"][0]["does"][0],
        "carried out at QUORUM"
    );
    let (status, text) = said(&[]);
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("rule \"never\" may match nothing: rule \"closed\" before it ends"),
        "{text}"
    );
    assert!(
        text.contains("rule \"misspelt\" may match nothing: there is no keyspace limit"),
        "{text}"
    );
    let (status, _) = said(&["--explain", OPEN, "--consistency", "MOST"]);
    assert_eq!(status, Some(2));
    directly(
        &mut cluster.connect(),
        &["SELECT v FROM limits.closed WHERE k = 1"],
    );
}
