//! Roles: who is let in, and what each may do over links that others use too.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use helenus_cluster::{Cluster, Consistency};
use helenus_tests::dashboard::{Shown, check};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, Fault, ONE, PATIENCE, op};
use helenus_tests::scenes;
use helenus_tests::scenes::Scenes;

use crate::roles::{has_ended, together};
use crate::{directly, eventually, metric, one_node, turn};

const PROTOCOL: i32 = 0x000A;
pub(crate) const BAD_CREDENTIALS: i32 = 0x0100;
pub(crate) const UNAUTHORIZED: i32 = 0x2100;

scenes!(
    roles;
    the_proxy_needs_a_role_that_nodes_accept,
    who_does_not_prove_who_he_is_gets_nothing,
    each_role_has_its_own_rights,
    roles_that_ask_at_the_same_time_keep_their_rights,
    guardrails_on_page_sizes_hold_as_before_a_node,
    tokens_are_judged_as_by_a_node,
    a_changed_password_ends_sessions,
    a_dropped_role_ends_sessions,
    others_notice_nothing,
    the_dashboard_shows_roles,
);

fn roles(scenes: &mut Scenes) {
    let _turn = turn("identity", Duration::from_secs(240));
    // Guardrails are for those who are no superusers.
    let spec = helenus_tests::ephemeral().auth(true);
    let spec = spec.yaml("page_size_warn_threshold", "300");
    let cluster = one_node(spec.yaml("page_size_fail_threshold", "1000"));
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

    scenes.scene("the_proxy_needs_a_role_that_nodes_accept", || {
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
    });

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
    scenes.scene("who_does_not_prove_who_he_is_gets_nothing", || {
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
        match silent.try_query("SELECT v FROM r.t WHERE k = 1", ONE) {
            Ok(Err(fault)) => assert_eq!(fault.code, PROTOCOL, "{fault:?}"),
            Ok(Ok(_)) => panic!("it was answered"),
            Err(e) => panic!("no answer: {e}"),
        }
    });

    let insert = "INSERT INTO r.t (k, v) VALUES (1, 'x')";
    let select = "SELECT v FROM r.t WHERE k = 1";
    let refused = |outcome: Result<_, Fault>, what: &str| match outcome {
        Ok(_) => panic!("{what} was allowed"),
        Err(fault) => assert_eq!(fault.code, UNAUTHORIZED, "{what}: {fault:?}"),
    };
    let mut reader = login("reader", "read", 5).expect("reader");
    let mut writer = login("writer", "write", 4).expect("writer");
    let mut admin = login("cassandra", "cassandra", 5).expect("superuser");
    scenes.scene("each_role_has_its_own_rights", || {
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
    });
    scenes.scene("roles_that_ask_at_the_same_time_keep_their_rights", || {
        together(login);
    });
    scenes.scene("guardrails_on_page_sizes_hold_as_before_a_node", || {
        eventually("the node has told of its guardrails", PATIENCE, || {
            proxy.log().contains("a node has told of itself")
        });
        let mut direct = Client::connect(points[0], 5).expect("connect");
        let outcome = direct.startup(Some(("reader", "read"))).expect("answer");
        outcome.expect("the reader");
        guardrails(&mut direct, &mut reader);
    });
    scenes.scene("tokens_are_judged_as_by_a_node", || {
        tokens(&cluster, &proxy)
    });
    scenes.scene("a_changed_password_ends_sessions", || {
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
        ends("of a changed password", begin, &mut reader, select);
    });
    scenes.scene("a_dropped_role_ends_sessions", || {
        admin.query("DROP ROLE writer").expect("dropped");
        let begin = std::time::Instant::now();
        ends("of a dropped role", begin, &mut writer, insert);
    });
    scenes.scene("others_notice_nothing", || {
        let mut reader = login("reader", "new", 4).expect("the new password");
        assert_eq!(reader.query(select).expect("rows").len(), 1);
        admin
            .query("SELECT role FROM system_auth.roles")
            .expect("rows");
    });
    drop(proxy);
    scenes.scene("the_dashboard_shows_roles", || dashboard(&cluster));
}

/// Scans of one row, directly and through the proxy, with pages that the node takes, warns of and refuses. After the
/// first few the proxy knows how small rows are, and would ask for very many at a time.
fn guardrails(direct: &mut Client<TcpStream>, through: &mut Client<TcpStream>) {
    const HAS_PAGE_SIZE: u8 = 4;
    let statements = [
        "SELECT k, v FROM r.t",
        "SELECT k, v FROM r.t LIMIT 2000",
        "SELECT k, v FROM r.t WHERE v = 'y' ALLOW FILTERING",
        "SELECT count(*) FROM r.t",
    ];
    let sizes = [
        None,
        Some(100),
        Some(300),
        Some(301),
        Some(1000),
        Some(1001),
        Some(5000),
    ];
    let mut said = [0; 3];
    for cql in statements {
        for size in sizes {
            let mut body = direct.query_body(cql, ONE);
            if let Some(size) = size {
                *body.last_mut().expect("flags") |= HAS_PAGE_SIZE;
                body.extend(i32::to_be_bytes(size));
            }
            for round in 0..4 {
                let [expected, found] = [&mut *direct, &mut *through].map(|client| {
                    let answer = client.call(op::QUERY, &body).expect("an answer");
                    let text = String::from_utf8_lossy(&answer.body).into_owned();
                    (answer.opcode, answer.flags, text)
                });
                assert_eq!(found, expected, "{cql}, {size:?}, {round}");
                let is_refused = expected.0 == op::ERROR;
                said[usize::from(is_refused) * 2 + usize::from(!is_refused && expected.1 != 0)] +=
                    1;
            }
        }
    }
    assert!(
        said.iter().all(|count| *count > 8),
        "the node says nothing: {said:?}"
    );
}

/// Of a proxy that wants a token, before nodes that want a password.
fn dashboard(cluster: &Cluster) {
    let settings = [
        "cluster.username=cassandra",
        "cluster.password=cassandra",
        "admin.token=everything",
        "admin.read_token=only-read",
    ];
    let proxy = Proxy::start(&cluster.contact_points(), &settings).expect("proxy");
    let mut client = Client::connect(proxy.address, 5).expect("connect");
    let accepted = client.startup(Some(("reader", "new"))).expect("an answer");
    accepted.expect("the reader is let in");
    for _ in 0..40 {
        client.query("SELECT v FROM r.t WHERE k = 1").expect("rows");
    }
    let mut rows = client
        .query("SELECT cluster_name FROM system.local")
        .expect("rows");
    let name = rows[0][0].take().expect("a name");
    let shown = Shown {
        tokens: ["everything", "only-read"],
        cluster: &String::from_utf8(name).expect("text"),
        nodes: 1,
        role: "reader",
        requests: 40,
    };
    check(&proxy, &shown);
}

/// Tokens are accepted and refused as on a direct connection, and those that mean the same role and
/// password share its links.
fn tokens(cluster: &Cluster, proxy: &Proxy) {
    let point = cluster.contact_points()[0];
    let outcome = |address: SocketAddr, token: &[u8]| {
        let mut client = Client::connect(address, 4).expect("connect");
        client.hello(&[]).expect("an answer");
        let answer = client.log_in(token).expect("an answer");
        (answer.opcode, answer.body, client)
    };
    let mut accepted = Vec::new();
    for token in [
        &b"\0reader\0read"[..],
        b"x\0reader\0read",
        b"reader\0reader\0read",
        b"writer\0reader\0read",
        b"\xFF\xC3\0reader\0read",
        b"",
        b"\0",
        b"\0\0",
        b"\0\0\0",
        b"reader",
        b"reader\0read",
        b"\0reader\0",
        b"\0\0read",
        b"\0reader\0read\0",
        b"\0reader\0read\0more",
        b"\0reader\0reader\0read",
        b"\0reader\0read\xFF",
        b"\0rea\xFFder\0read",
    ] {
        let direct = outcome(point, token);
        let (opcode, body, mut client) = outcome(proxy.address, token);
        let shown = String::from_utf8_lossy(token);
        assert_eq!((opcode, body), (direct.0, direct.1), "{shown:?}");
        if opcode == op::AUTH_SUCCESS {
            client.query("SELECT v FROM r.t WHERE k = 1").expect("rows");
            accepted.push(client);
        }
    }
    assert_eq!(accepted.len(), 5);
    let mut node = cluster.connect(1).expect("node");
    let cql = "SELECT username, driver_name FROM system_views.clients";
    let rows = node.query(cql, Consistency::One).expect(cql);
    let link = [Some(b"reader".to_vec()), Some(b"Helenus".to_vec())];
    let links = rows.iter().filter(|row| ***row == link).count();
    let cql = "SELECT driver_name, client_options FROM system_views.clients";
    let rows = node.query(cql, Consistency::One).expect(cql);
    let own = proxy.address.to_string();
    let of_proxy = |row: &&Vec<Option<Vec<u8>>>| row[0].as_deref() == Some(b"Helenus");
    for row in rows.iter().filter(of_proxy) {
        let options = String::from_utf8_lossy(row[1].as_deref().unwrap_or_default()).into_owned();
        assert!(
            options.contains("CLIENT_ID") && options.contains(&own),
            "{options:?}"
        );
    }
    // One for each worker; this machine's processors bound those.
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(links <= workers.max(2) + 1, "{links} links of one role");
}

/// The access ends, as `links.check_credentials_ms` is 1 s here, soon after Cassandra itself has noticed (2 s by default):
/// with the default of a minute [`PATIENCE`] would not suffice.
fn ends(what: &str, begin: std::time::Instant, client: &mut Client<TcpStream>, cql: &str) {
    eventually("the connection ends", PATIENCE, || has_ended(client, cql));
    println!("the access {what} ended after {:?}", begin.elapsed());
}

/// The role's row has one replica, so while that is frozen no node can check the role's credentials.
/// The nodes then answer with the code of a wrong password.
#[test]
fn a_role_keeps_its_sessions_while_no_node_can_check_it() {
    let _turn = turn("unchecked role", Duration::from_secs(300));
    let spec = helenus_tests::ephemeral()
        .nodes(2)
        .auth(true)
        .yaml("authorizer", "AllowAllAuthorizer")
        .yaml("credentials_validity", "500ms")
        // Without them Cassandra serves nobody's query.
        .yaml("roles_validity", "1h")
        .yaml("read_request_timeout", "1s");
    let cluster = Cluster::up(spec).expect("two nodes");
    let mut node = cluster.connect(1).expect("node");
    directly(
        &mut node,
        &[
            "CREATE KEYSPACE r WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
            "CREATE TABLE r.t (k int PRIMARY KEY, v text)",
            "ALTER KEYSPACE system_auth WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        ],
    );
    let select = "SELECT v FROM r.t WHERE k = 1";
    let mut second = cluster.connect(2).expect("node");
    eventually("the other node has the table", PATIENCE, || {
        second.query(select, Consistency::One).is_ok()
    });
    let insert = "INSERT INTO r.t (k, v) VALUES (1, 'x')";
    node.query(insert, Consistency::All).expect("inserted");
    let mut owned_by = |number: u16| {
        let address = cluster.address(number).expect("a node").ip().to_string();
        let names = (0..).map(|n| format!("role{n}"));
        let owner = |name: &str| {
            let asked = ["getendpoints", "system_auth", "roles", name];
            cluster.nodetool(1, &asked).expect("its owner")
        };
        let mut found = names.filter(|name| owner(name).contains(&address));
        let name = found.next().expect("a name for every node");
        let create = format!("CREATE ROLE {name} WITH PASSWORD = 'pw' AND LOGIN = true");
        directly(&mut node, &[&create]);
        name
    };
    let (control, app) = (owned_by(1), owned_by(2));
    let points = [cluster.address(1).expect("node 1")];
    let settings = |role: &str| {
        [
            format!("cluster.username={role}"),
            "cluster.password=pw".to_owned(),
            "links.check_credentials_ms=500".to_owned(),
            "links.backoff_max_ms=500".to_owned(),
            "links.connect_timeout_ms=700".to_owned(),
        ]
    };
    let start = |role: &str| {
        let settings = settings(role);
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        Proxy::spawn(&points, &settings).expect("spawned")
    };
    let mut proxy = start(&control);
    proxy.wait_ready().expect("ready");
    let mut client = Client::connect(proxy.address, 5).expect("connect");
    let login = |client: &mut Client<_>| client.startup(Some((&app, "pw"))).expect("an answer");
    eventually("the role is known", PATIENCE, || {
        client = Client::connect(proxy.address, 5).expect("connect");
        login(&mut client).is_ok()
    });
    assert_eq!(client.query(select).expect("rows").len(), 1);
    let linked = format!("helenus_node_links_up{{node=\"{}\"", points[0]);
    eventually(
        "the role has a link to the node that stays",
        PATIENCE,
        || metric(&proxy, &linked) >= 1.0,
    );

    cluster.pause(2).expect("paused");
    let first = format!("helenus_node_links_failed_total{{node=\"{}\"", points[0]);
    let failed = metric(&proxy, &first);
    eventually("checks cannot be made", PATIENCE, || {
        metric(&proxy, &first) >= failed + 3.0
    });
    let mut late = start(&app);
    let rows = client.query(select).expect("the same session is served");
    assert_eq!(rows.len(), 1);
    eventually("a proxy that starts now waits", PATIENCE, || {
        let ready = late.admin_get("/ready", None);
        ready.is_ok_and(|(status, text)| {
            status == 503 && text.contains("Unable to perform authentication")
        })
    });
    assert!(late.is_running());

    cluster.resume(2).expect("resumed");
    late.wait_ready().expect("ready");
    let mut other = Client::connect(proxy.address, 5).expect("connect");
    eventually("others can log in again", PATIENCE, || {
        other = Client::connect(proxy.address, 5).expect("connect");
        login(&mut other).is_ok()
    });
    for client in [&mut client, &mut other] {
        assert_eq!(client.query(select).expect("rows").len(), 1);
    }
    // A real refusal is still one.
    let alter = format!("ALTER ROLE {app} WITH PASSWORD = 'new'");
    other.query(&alter).expect("altered");
    eventually("the old password's sessions end", PATIENCE, || {
        has_ended(&mut client, select)
    });
}
