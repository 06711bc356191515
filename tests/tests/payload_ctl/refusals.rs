//! Columns that cannot be encoded are refused, with the reason and the way out, before anything is changed.

use helenus_catalogue::SELECT_FLAGS;
use helenus_tests::catalogue::change_by;
use helenus_tests::proxy::Proxy;

use crate::moves::until_gone;
use crate::{Node, alone, shared};

#[test]
fn what_cannot_be_encoded_is_refused_with_the_way_out() {
    let cluster = shared();
    let mut node = Node::of(&cluster);
    node.keyspace("wrong");
    for table in [
        "CREATE TABLE wrong.t (k text, c text, shared text static, n int, letters ascii, doc text, found text, \
         PRIMARY KEY (k, c))",
        "CREATE INDEX by_found ON wrong.t (found)",
        "CREATE TABLE wrong.forgetful (k int PRIMARY KEY, doc text) WITH gc_grace_seconds = 0",
        "CREATE TABLE wrong.empty (k int PRIMARY KEY, doc text)",
    ] {
        node.run(table);
    }
    let enable = |table: &str, column: &str, codec: &str| {
        node.payload(&[
            "enable",
            table,
            column,
            "--codec",
            codec,
            "--yes",
            "--no-proxies",
        ])
    };
    enable("wrong.t", "k", "cbor").failed("primary key");
    enable("wrong.t", "c", "cbor").failed("primary key");
    enable("wrong.t", "shared", "cbor").failed("is static");
    enable("wrong.t", "n", "cbor").failed("of type int");
    enable("wrong.t", "letters", "cbor").failed("of type ascii");
    enable("wrong.t", "found", "cbor").failed("drop the index first");
    enable("wrong.t", "dco", "cbor").failed("doc, found");
    enable("wrong.missing", "doc", "cbor").failed("there is no table wrong.missing");
    enable("wrong.forgetful", "doc", "cbor").failed("Set gc_grace_seconds");
    enable("system_auth.roles", "member_of", "cbor").failed("belongs to Cassandra");
    enable("wrong.t", "doc", "brotli").usage("possible values: smile");
    enable("t", "doc", "cbor").usage("KEYSPACE.TABLE");
    enable("wrong.empty", "doc", "shape").failed("has 0 documents");
    let asked = [
        "enable",
        "wrong.t",
        "doc",
        "--codec",
        "cbor",
        "--no-proxies",
    ];
    node.payload(&asked).failed("give --yes");
    node.payload(&["disable", "wrong.t", "doc"])
        .failed("is not encoded");
    node.payload(&["status", "wrong.missing"])
        .failed("there is no table");
    let columns = "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'wrong' AND table_name = 't'";
    assert_eq!(node.run(columns).len(), 7, "nothing was changed");
}

#[test]
fn an_empty_table_learns_from_a_file() {
    let cluster = shared();
    let mut node = Node::of(&cluster);
    node.keyspace("fresh");
    node.run("CREATE TABLE fresh.t (k int PRIMARY KEY, \"Doc\" text)");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("documents");
    let lines: String = (0..300)
        .map(|n| format!("{{\"name\":\"n{n}\",\"age\":{}}}\n", n % 90))
        .collect();
    std::fs::write(&file, lines).expect("written");
    let file = file.to_str().expect("a path");
    let enable = [
        "enable",
        "fresh.t",
        "\"Doc\"",
        "--codec",
        "shape",
        "--documents",
        file,
        "--json",
    ];
    let dry = node
        .payload(&[&enable[..], &["--dry-run", "--no-proxies"]].concat())
        .succeeded()
        .json();
    assert_eq!(dry["sample_documents"], 300);
    assert!(dry["sample_bytes_after"].as_u64() < dry["sample_bytes_before"].as_u64());
    let done = node
        .payload(&[&enable[..], &["--yes", "--no-proxies"]].concat())
        .succeeded()
        .json();
    assert_eq!(
        (&done["state"], &done["dictionary"]),
        (&"encoded_only".into(), &1.into())
    );
    assert_eq!(done["hidden"], "Doc__encoded");
    // Another codec, then learned anew.
    let other = [
        "enable",
        "fresh.t",
        "\"Doc\"",
        "--codec",
        "cbor",
        "--yes",
        "--no-proxies",
        "--json",
    ];
    assert_eq!(node.payload(&other).succeeded().json()["codec"], "cbor");
    let anew = [&enable[..], &["--relearn", "--yes", "--no-proxies"]].concat();
    assert_eq!(node.payload(&anew).succeeded().json()["dictionary"], 2);
    let status = node
        .payload(&["status", "fresh.t", "--json"])
        .succeeded()
        .json();
    let column = &status["tables"][0]["columns"][0];
    assert_eq!(
        (&column["codec"], &column["dictionary"]),
        (&"shape".into(), &2.into())
    );
    assert_eq!(column["dictionaries"], serde_json::json!([1, 2]));
    // A table that is gone is told of, and taken out.
    node.run("DROP TABLE fresh.t");
    node.payload(&["status", "fresh.t"])
        .failed("not as it should be");
    node.payload(&["disable", "fresh.t", "\"Doc\""]).succeeded();
    assert_eq!(node.state("fresh", "t", "Doc"), None);
}

#[test]
fn no_column_is_encoded_while_a_proxy_would_not_understand_it() {
    let cluster = alone();
    let mut node = Node::of(&cluster);
    node.keyspace("blind");
    node.run("CREATE TABLE blind.t (k int PRIMARY KEY, doc text)");
    let enable = ["enable", "blind.t", "doc", "--codec", "cbor", "--yes"];
    let blind = Proxy::start(&cluster.contact_points(), &[]).expect("a proxy");
    node.payload(&enable).failed("payload.enabled");
    drop(blind);
    until_gone(&mut node);
    let dry = [&enable[..], &["--dry-run"]].concat();
    let seeing =
        Proxy::start(&cluster.contact_points(), &["payload.enabled=true"]).expect("a proxy");
    node.run("INSERT INTO blind.t (k, doc) VALUES (1, '{}')");
    node.payload(&dry).succeeded();
    drop(seeing);
    until_gone(&mut node);
}

#[test]
fn a_table_that_the_catalogue_has_lost_is_told() {
    let cluster = shared();
    let mut node = Node::of(&cluster);
    node.keyspace("lost");
    node.run("CREATE TABLE lost.t (k int PRIMARY KEY, doc text)");
    let enable = ["enable", "lost.t", "doc", "--codec", "cbor", "--yes"];
    let no_proxies = "--no-proxies";
    node.payload(&[&enable[..], &[no_proxies]].concat())
        .succeeded();
    let of_table = "part = 'all' AND keyspace_name = 'lost' AND table_name = 't'";
    let delete = format!("DELETE FROM helenus.catalogue WHERE {of_table}");
    change_by(|text: &str| node.run(text), &delete);
    let advice = "run `nodetool repair -full helenus` on all nodes";
    let status = node.payload(&["status", "lost.t"]).failed("1 of what");
    assert!(status.out.contains(advice), "{status:?}");
    let disable = ["disable", "lost.t", "doc", no_proxies];
    // Its values cannot be read without what the catalogue said.
    node.payload(&disable).failed(advice);
    node.run("DROP TABLE lost.t");
    let forgotten = node.payload(&disable).succeeded();
    assert!(forgotten.out.contains("is forgotten"), "{forgotten:?}");
    let flags = node.run(SELECT_FLAGS);
    let names = flags.into_iter().filter_map(|row| row.into_iter().next()?);
    let mut names = names.map(|name| String::from_utf8(name).expect("a text"));
    assert!(names.all(|name| !name.contains("lost.t")));
}

#[test]
fn no_dictionary_takes_the_number_of_one_that_is_lost() {
    let cluster = shared();
    let mut node = Node::of(&cluster);
    node.keyspace("lost");
    node.run("CREATE TABLE lost.t (k int PRIMARY KEY, a text, b text)");
    for k in 0..50 {
        let document = format!("{{\"name\": \"n{k}\", \"age\": {k}}}");
        node.run(&format!(
            "INSERT INTO lost.t (k, a, b) VALUES ({k}, '{document}', '{document}')"
        ));
    }
    let enable = |node: &Node, column: &str| {
        let shape = ["--codec", "shape", "--yes", "--no-proxies", "--json"];
        node.payload(&[&["enable", "lost.t", column][..], &shape].concat())
    };
    enable(&node, "a").succeeded();
    let place = "keyspace_name = 'lost' AND table_name = 't'";
    let rows = node.run(&format!(
        "SELECT learned FROM helenus.dictionaries WHERE {place}"
    ));
    let learned = rows[0][0].as_deref().expect("it was learned");
    let digits: String = learned.iter().map(|byte| format!("{byte:02x}")).collect();
    node.run(&format!(
        "DELETE FROM helenus.dictionaries WHERE {place} AND id = 1"
    ));
    enable(&node, "b").failed("has lost dictionary 1 of lost.t");
    // It was repaired.
    node.run(&format!(
        "INSERT INTO helenus.dictionaries (keyspace_name, table_name, id, learned) VALUES ('lost', 't', 1, 0x{digits})"
    ));
    assert_eq!(enable(&node, "b").succeeded().json()["dictionary"], 2);
}
