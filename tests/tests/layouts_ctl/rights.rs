//! Roles and their rights, on a node that checks them.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use helenus_cluster::{Cluster, Connection, Consistency};
use helenus_tests::proxy::{Proxy, helenus};
use helenus_tests::raw::{Client, ONE};
use tempfile::NamedTempFile;

use crate::{Outcome, eventually, second};

fn layouts(cluster: &Cluster, login: Option<(&str, &str)>, arguments: &[&str]) -> Outcome {
    let (mut command, _file) = command(cluster, login, arguments);
    Outcome::of(&mut command)
}

/// With the file of its password.
fn command(
    cluster: &Cluster,
    login: Option<(&str, &str)>,
    arguments: &[&str],
) -> (Command, NamedTempFile) {
    let contact = cluster.address(1).expect("an address").to_string();
    let mut file = NamedTempFile::new().expect("a file");
    let mut command = helenus(&["layouts"]).expect("a program");
    command.args(arguments).args(["--contact", &contact]);
    if let Some((user, password)) = login {
        writeln!(file, "{password}").expect("written");
        let path = file.path().to_str().expect("a path");
        command.args(["--user", user, "--password-file", path]);
    }
    (command, file)
}

fn run(node: &mut Connection, cql: &str) {
    node.query(cql, Consistency::One)
        .unwrap_or_else(|e| panic!("{cql}: {e}"));
}

/// Resource and permission.
fn rights_on_catalogue(node: &mut Connection, role: &str) -> Vec<String> {
    let select = "SELECT resource, permissions FROM system_auth.role_permissions WHERE role = '";
    let rows = node.query(&format!("{select}{role}'"), Consistency::One);
    let rows = rows.expect("rows of rights");
    let mut rights = Vec::new();
    for row in rows {
        let resource = String::from_utf8(row[0].clone().expect("a name")).expect("a text");
        let set = row[1].clone().expect("a set");
        // One item, of which the length comes first: all of these have one.
        assert_eq!(set[..4], 1i32.to_be_bytes());
        let permission = String::from_utf8(set[8..].to_vec()).expect("a text");
        if resource.starts_with("data/helenus") {
            rights.push(format!("{resource} {permission}"));
        }
    }
    rights.sort();
    rights
}

#[test]
fn roles_have_on_a_layout_what_they_have_on_the_table() {
    let _second = second();
    let spec = helenus_tests::ephemeral().nodes(1).auth(true);
    let spec = spec
        .yaml("permissions_validity", "100ms")
        .yaml("native_transport_timeout", "2s");
    let cluster = Cluster::up(spec).expect("a node");
    let mut node = cluster.connect(1).expect("a connection");
    for cql in [
        "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE app.t (k int, a int, b int, v int, PRIMARY KEY (k, a, b))",
        "INSERT INTO app.t (k, a, b, v) VALUES (1, 2, 3, 4)",
        "CREATE ROLE \"Reader\" WITH PASSWORD = 'r' AND LOGIN = true",
        "CREATE ROLE writer WITH PASSWORD = 'w' AND LOGIN = true",
        "CREATE ROLE other WITH PASSWORD = 'o' AND LOGIN = true",
        "CREATE ROLE proxies WITH PASSWORD = 'p' AND LOGIN = true",
        "GRANT SELECT ON app.t TO \"Reader\"",
        "GRANT SELECT ON app.t TO writer",
        "GRANT MODIFY ON app.t TO writer",
    ] {
        run(&mut node, cql);
    }
    let superuser = Some(("cassandra", "cassandra"));
    layouts(&cluster, Some(("other", "o")), &["calibrate"]).failed("may not create a keyspace");
    let create = [
        "create",
        "app.t",
        "--no-proxies",
        "--layout",
        "x=b,a",
        "--proxy-role",
        "proxies",
    ];
    layouts(&cluster, None, &create).failed("--user");
    layouts(&cluster, Some(("cassandra", "wrong")), &create).failed("");
    layouts(&cluster, Some(("other", "o")), &create).failed("");
    layouts(&cluster, superuser, &create).succeeded();
    layouts(&cluster, superuser, &["status", "app.t"]).succeeded();
    assert_eq!(
        rights_on_catalogue(&mut node, "proxies"),
        ["data/helenus SELECT"]
    );
    check_derived(&cluster, superuser);
    let proxy = Proxy::start(
        &[cluster.address(1).expect("an address")],
        &[
            "layouts.enabled=true",
            "listen.workers=1",
            "cluster.username=proxies",
            "cluster.password=p",
        ],
    )
    .expect("a proxy");
    let login = |name: &str, password: &str| {
        let mut client = Client::connect(proxy.address, 5).expect("a client");
        client
            .startup(Some((name, password)))
            .expect("an answer")
            .expect("logged in");
        client
    };
    check_keyspace(&cluster, superuser, login("cassandra", "cassandra"));
    let select = "SELECT v FROM app.t WHERE k = 1 AND b = 3 ALLOW FILTERING";
    let insert = "INSERT INTO app.t (k, a, b, v) VALUES (1, 2, 4, 4)";
    let (mut reader, mut writer) = (login("Reader", "r"), login("writer", "w"));
    assert_eq!(reader.query(select).expect("rows").len(), 1);
    writer.query(insert).expect("written, also to the layout");
    let refused = reader.try_query(insert, ONE).expect("an answer");
    assert_eq!(refused.err().map(|fault| fault.code), Some(0x2100));
    layouts(&cluster, superuser, &["verify", "app.t"]).succeeded();
    // Granted later: it is missing on the layout, and status says so.
    run(&mut node, "GRANT SELECT ON app.t TO other");
    let status = layouts(&cluster, superuser, &["status", "app.t", "--json"])
        .failed("not as they should be");
    let layout = &status.json()["tables"][0]["layouts"][0];
    assert_eq!(layout["grants_missing"]["other"][0], "SELECT", "{layout}");
    run(&mut node, "GRANT SELECT ON app.t__layout_x TO other");
    layouts(&cluster, superuser, &["status", "app.t"]).succeeded();
    // Revoked past the proxies: the layout still shows what the table does not.
    run(&mut node, "REVOKE SELECT ON app.t FROM other");
    let status = layouts(&cluster, superuser, &["status", "app.t", "--json"])
        .failed("not as they should be");
    let layout = &status.json()["tables"][0]["layouts"][0];
    assert_eq!(layout["grants_excess"]["other"][0], "SELECT", "{layout}");
    run(&mut node, "REVOKE SELECT ON app.t__layout_x FROM other");
    layouts(&cluster, superuser, &["status", "app.t"]).succeeded();
    // Rights that cannot be copied: clients could not write the table any more.
    for cql in [
        "CREATE ROLE maker WITH PASSWORD = 'm' AND LOGIN = true",
        "GRANT ALL PERMISSIONS ON KEYSPACE app TO maker",
        "GRANT ALL PERMISSIONS ON KEYSPACE helenus TO maker",
        "CREATE TABLE app.u (k int, a int, b int, v int, PRIMARY KEY (k, a, b))",
        "GRANT MODIFY ON app.u TO writer",
    ] {
        run(&mut node, cql);
    }
    let create = ["create", "app.u", "--no-proxies", "--layout", "x=b,a"];
    layouts(&cluster, Some(("maker", "m")), &create).failed("superuser");
    let status =
        layouts(&cluster, superuser, &["status", "app.u", "--json"]).failed("in no catalogue");
    assert_eq!(status.json()["tables"][0]["layouts"], serde_json::json!([]));
    // Rights on a table that an interrupted `create` has left, which roles lack on the table, are revoked.
    run(&mut node, "GRANT SELECT ON app.u__layout_x TO other");
    layouts(&cluster, superuser, &create).succeeded();
    layouts(&cluster, superuser, &["status", "app.u"]).succeeded();
    // Whoever may not copy rights learns it before anything is emptied.
    let rebuild = ["rebuild", "app.u", "--no-proxies"];
    layouts(&cluster, Some(("maker", "m")), &rebuild).failed("superuser");
    let status = layouts(&cluster, superuser, &["status", "app.u", "--json"]).succeeded();
    assert_eq!(status.json()["tables"][0]["layouts"][0]["state"], "ready");
    // A proxy that may no longer read the catalogue refuses writes, and says why.
    run(&mut node, "REVOKE SELECT ON KEYSPACE helenus FROM proxies");
    eventually("writes are refused", Duration::from_secs(30), || {
        let outcome = writer.try_query(insert, ONE).expect("an answer");
        outcome.is_err_and(|fault| fault.message.contains("catalogue"))
    });
    assert_eq!(reader.query(select).expect("the table is read").len(), 1);
    proxy.expect_logged("needs SELECT on the keyspace helenus");
    run(&mut node, "GRANT SELECT ON KEYSPACE helenus TO proxies");
    eventually("writes work again", Duration::from_secs(20), || {
        let outcome = writer.try_query(insert, ONE).expect("an answer");
        outcome.is_ok()
    });
    // Tables that an interrupted `drop` leaves cannot be read with the rights from before.
    let (mut drop, _file) = command(&cluster, superuser, &["drop", "app.t", "--all"]);
    drop.stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut dropping = drop.spawn().expect("it starts");
    let mut direct = Client::connect(cluster.address(1).expect("an address"), 5).expect("a client");
    direct
        .startup(Some(("Reader", "r")))
        .expect("an answer")
        .expect("logged in");
    let select = "SELECT v FROM app.t__layout_x WHERE k = 1";
    eventually("the layout cannot be read", Duration::from_secs(60), || {
        let outcome = direct.try_query(select, ONE).expect("an answer");
        outcome.is_err_and(|fault| fault.code == 0x2100)
    });
    let entries = "SELECT item FROM helenus.catalogue WHERE part = 'all' AND keyspace_name = 'app' AND table_name = 't' \
                   AND kind = 'layout'";
    eventually("it is in no catalogue", Duration::from_secs(10), || {
        let rows = node.query(entries, Consistency::One);
        rows.expect("rows").is_empty()
    });
    dropping.kill().expect("it runs");
    dropping.wait().expect("it ends");
    layouts(&cluster, superuser, &["status", "app.t"])
        .failed("1 tables of layouts are in no catalogue");
    assert_eq!(
        reader
            .query("SELECT v FROM app.t WHERE k = 1")
            .expect("rows")
            .len(),
        2
    );
    layouts(
        &cluster,
        superuser,
        &["drop", "app.t", "--no-proxies", "--all"],
    )
    .succeeded();
}

/// Rights on a keyspace, given through a proxy, are rights on that of its derived layouts.
fn check_keyspace(
    cluster: &Cluster,
    superuser: Option<(&str, &str)>,
    mut client: Client<TcpStream>,
) {
    let mut node = cluster.connect(1).expect("a connection");
    let mut rights = |resource: &str| {
        let select = "SELECT permissions FROM system_auth.role_permissions WHERE role = 'other' AND resource = '";
        let rows = node.query(&format!("{select}{resource}'"), Consistency::One);
        rows.expect("rows of rights").len()
    };
    let mut give = |cql: &str| {
        eventually(
            "the proxy knows the layouts",
            Duration::from_secs(30),
            || client.try_query(cql, ONE).expect("an answer").is_ok(),
        );
    };
    for (on, behind) in [("KEYSPACE", ""), ("ALL TABLES IN KEYSPACE", "/*")] {
        for (verb, expected) in [("GRANT SELECT ON", 1), ("REVOKE SELECT ON", 0)] {
            let preposition = if expected == 1 { "TO" } else { "FROM" };
            give(&format!("{verb} {on} apart {preposition} other"));
            for keyspace in ["apart", "apart__layouts"] {
                let resource = format!("data/{keyspace}{behind}");
                assert_eq!(rights(&resource), expected, "{verb} {resource}");
            }
        }
    }
    layouts(cluster, superuser, &["status", "apart.t"]).succeeded();
    let mut node = cluster.connect(1).expect("a connection");
    run(
        &mut node,
        "CREATE TABLE apart__layouts.mine (k int PRIMARY KEY)",
    );
    let grant = "GRANT SELECT ON KEYSPACE apart TO other";
    eventually(
        "it would reach another table",
        Duration::from_secs(30),
        || {
            let answer = client.try_query(grant, ONE).expect("an answer");
            answer.is_err_and(|fault| fault.message.contains("one by one"))
        },
    );
    run(&mut node, "DROP TABLE apart__layouts.mine");
}

/// A role's rights on all tables of a keyspace are rights on derived layouts of them, which are elsewhere.
fn check_derived(cluster: &Cluster, superuser: Option<(&str, &str)>) {
    let mut node = cluster.connect(1).expect("a connection");
    for cql in [
        "CREATE KEYSPACE apart WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE apart.t (k int, a int, b int, v int, PRIMARY KEY (k, a, b))",
        "GRANT MODIFY ON KEYSPACE apart TO writer",
        "GRANT SELECT ON apart.t TO \"Reader\"",
    ] {
        run(&mut node, cql);
    }
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    let create = ["create", "apart.t", "--no-proxies", "--layout", "x=b,a"];
    let more = ["--replication", replication, "--proxy-role", "proxies"];
    let create = [&create[..], &more].concat();
    layouts(cluster, superuser, &create).succeeded();
    // They tell what layouts have missed.
    assert_eq!(
        rights_on_catalogue(&mut node, "proxies"),
        [
            "data/helenus SELECT",
            "data/helenus/catalogue MODIFY",
            "data/helenus/layout_doubts MODIFY",
            "data/helenus/layout_sweeps MODIFY"
        ]
    );
    layouts(cluster, superuser, &["status", "apart.t"]).succeeded();
    let insert = "INSERT INTO apart__layouts.t__layout_x (k, a, b, v) VALUES (1, 2, 3, 4)";
    let select = "SELECT v FROM apart__layouts.t__layout_x WHERE k = 1";
    for (role, password, may, may_not) in [
        ("writer", "w", insert, select),
        ("Reader", "r", select, insert),
    ] {
        let address = cluster.address(1).expect("an address");
        let mut client = Client::connect(address, 5).expect("a client");
        client
            .startup(Some((role, password)))
            .expect("an answer")
            .expect("logged in");
        client.try_query(may, ONE).expect("an answer").expect(may);
        let refused = client.try_query(may_not, ONE).expect("an answer");
        assert_eq!(
            refused.err().map(|fault| fault.code),
            Some(0x2100),
            "{may_not}"
        );
    }
}
