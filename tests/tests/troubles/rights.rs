//! Nodes that check rights: roles may use the copies as they may use the table, however they have come by that, and proxies
//! have no more rights than `create` gives them. And columns with masks.

use std::io::Write;
use std::process::Stdio;
use std::time::Instant;

use helenus_cluster::{Cluster, Connection, Consistency};
use helenus_tests::proxy::{Proxy, helenus};
use helenus_tests::raw::{Client, QUORUM};

use crate::{ON, PATIENCE, eventually};

const UNAUTHORIZED: i32 = 0x2100;

fn run(node: &mut Connection, cql: &str) {
    let answer = node.query(cql, Consistency::Quorum);
    answer.unwrap_or_else(|e| panic!("{cql}: {e}"));
}

/// `helenus layouts` by a superuser: whether it has succeeded, and what it has said. Again while nodes that look up what
/// he may do have too much to do to answer each other.
fn layouts(cluster: &Cluster, arguments: &[&str]) -> (bool, String) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "cassandra").expect("written");
    let path = file.path().to_str().expect("a path");
    let contact = cluster.address(1).expect("an address").to_string();
    let begun = Instant::now();
    loop {
        let mut command = helenus(&["layouts"]).expect("a program");
        command.args(arguments).args(["--contact", &contact]);
        command.args(["--user", "cassandra", "--password-file", path]);
        let output = command.stdin(Stdio::null()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        println!("  {arguments:?}: {} {said}", output.status);
        let is_to_be_repeated = said.contains("Operation timed out") && begun.elapsed() < PATIENCE;
        if output.status.success() || !is_to_be_repeated {
            return (output.status.success(), said);
        }
    }
}

pub(crate) fn roles_keep_their_rights() {
    let spec = helenus_tests::ephemeral()
        .nodes(2)
        .place("dc1", "r1")
        .place("dc2", "r1")
        .auth(true)
        .yaml("permissions_validity", "100ms")
        .yaml("roles_validity", "100ms")
        .yaml("dynamic_data_masking_enabled", "true")
        .yaml("native_transport_timeout", "1s")
        .yaml("truncate_request_timeout", "10s")
        .yaml("auto_snapshot", "false")
        .jvm_arg("-Dcassandra.test.flush_local_schema_changes=false");
    let cluster = Cluster::up(spec).expect("two nodes");
    let mut node = cluster.connect(1).expect("a connection");
    let everywhere = "{'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 1}";
    let roles = format!("ALTER KEYSPACE system_auth WITH replication = {everywhere}");
    let keyspace = format!("CREATE KEYSPACE shop WITH replication = {everywhere}");
    for cql in [
        &*roles,
        &keyspace,
        "CREATE TABLE shop.t (k int, a int, b int, v int, PRIMARY KEY (k, a, b))",
        "CREATE ROLE team",
        "CREATE ROLE inherits WITH PASSWORD = 'x' AND LOGIN = true",
        "CREATE ROLE all_tables WITH PASSWORD = 'x' AND LOGIN = true",
        "CREATE ROLE of_keyspace WITH PASSWORD = 'x' AND LOGIN = true",
        "CREATE ROLE reader WITH PASSWORD = 'x' AND LOGIN = true",
        "CREATE ROLE proxies WITH PASSWORD = 'p' AND LOGIN = true",
        "GRANT SELECT ON shop.t TO team",
        "GRANT MODIFY ON shop.t TO team",
        "GRANT team TO inherits",
        "GRANT SELECT ON ALL TABLES IN KEYSPACE shop TO all_tables",
        "GRANT MODIFY ON ALL TABLES IN KEYSPACE shop TO all_tables",
        "GRANT SELECT ON KEYSPACE shop TO of_keyspace",
        "GRANT MODIFY ON KEYSPACE shop TO of_keyspace",
        "GRANT SELECT ON shop.t TO reader",
        "ALTER TABLE shop.t ALTER v MASKED WITH DEFAULT",
    ] {
        run(&mut node, cql);
    }
    let layouts_of = ["--layout", "x=b,a@dc1", "--layout", "y=a,b@dc2"];
    let begin = ["create", "shop.t", "--mode", "replace"];
    let create = [&begin[..], &layouts_of, &["--proxy-role", "proxies"]].concat();
    let drop_all = ["drop", "shop.t", "--all"];
    let (succeeded, why) = layouts(&cluster, &create);
    assert!(!succeeded && why.contains("masked"), "{why}");
    run(&mut node, "ALTER TABLE shop.t ALTER v DROP MASKED");
    let points = cluster.contact_points();
    let login = ["cluster.username=proxies", "cluster.password=p"];
    let settings: Vec<&str> = ON.iter().chain(&login).copied().collect();
    let proxy = Proxy::start(&points, &settings).expect("a proxy");
    let mut clients = Vec::new();
    for name in ["inherits", "all_tables", "of_keyspace", "reader"] {
        let mut client = Client::connect(proxy.address, 5).expect("a client");
        let answer = client.startup(Some((name, "x"))).expect("an answer");
        answer.expect("logged in");
        clients.push((name, client));
    }
    let mut use_it = |when: &str, value: i32| {
        for (name, client) in &mut clients {
            let insert = format!("INSERT INTO shop.t (k, a, b, v) VALUES (1, 2, 3, {value})");
            let mut answer = None;
            eventually(when, || {
                answer = Some(client.try_query(&insert, QUORUM).expect("an answer"));
                let code = answer.as_ref().and_then(|of| of.as_ref().err());
                code.is_none_or(|fault| fault.code == UNAUTHORIZED)
            });
            let written = answer.is_some_and(|answer| answer.is_ok());
            assert_eq!(written, *name != "reader", "{name} writes, {when}");
            let select = "SELECT v FROM shop.t WHERE k = 1 AND b = 3 ALLOW FILTERING";
            eventually(&format!("{name} reads, {when}"), || {
                let answer = client.try_query(select, QUORUM).expect("an answer");
                let rows = answer.map(|answer| answer.rows().expect("rows"));
                rows.is_ok_and(|rows| rows == [vec![Some(value.to_be_bytes().to_vec())]])
            });
        }
    };
    use_it("before", 1);
    let (succeeded, why) = layouts(&cluster, &create);
    assert!(succeeded, "{why}{}", proxy.log());
    use_it("in use", 2);
    // Past the proxies, on the table alone, which is told, and on a copy alone, which would be lacking.
    run(&mut node, "GRANT ALTER ON shop.t TO reader");
    run(&mut node, "GRANT ALTER ON shop__t__x.t TO team");
    let (succeeded, why) = layouts(&cluster, &drop_all);
    assert!(
        !succeeded && why.contains("ON TABLE shop.t TO team"),
        "{why}"
    );
    assert!(!why.contains("reader"), "{why}");
    run(&mut node, "REVOKE ALTER ON shop__t__x.t FROM team");
    run(&mut node, "REVOKE ALTER ON shop.t FROM reader");
    run(
        &mut node,
        "ALTER TABLE shop__t__y.t ALTER v MASKED WITH DEFAULT",
    );
    let (succeeded, why) = layouts(&cluster, &drop_all);
    assert!(!succeeded && why.contains("ALTER v DROP MASKED"), "{why}");
    run(&mut node, "ALTER TABLE shop__t__y.t ALTER v DROP MASKED");
    let (succeeded, why) = layouts(&cluster, &drop_all);
    assert!(succeeded, "{why}{}", proxy.log());
    use_it("after", 3);
}
