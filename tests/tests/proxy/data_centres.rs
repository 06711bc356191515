//! Two data centres, of which clients say which one is to answer.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use helenus_cluster::Cluster;
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, Fault, ONE, PATIENCE, QUORUM, op};
use helenus_tests::scenes;
use helenus_tests::scenes::Scenes;

use crate::{directly, eventually, turn};

const UNAVAILABLE: i32 = 0x1000;
const LOCAL_QUORUM: u16 = 6;
const LOCAL_SERIAL: u16 = 9;
const LOCAL_ONE: u16 = 10;

const WRITE: &str = "INSERT INTO d.t (k, v) VALUES (1, 1)";
const READ_FAR: &str = "SELECT v FROM far.t WHERE k = 1";
const READ: &str = "SELECT v FROM d.t WHERE k = 1";

// Node 1 is in dc1, where the proxies are; node 2 is in dc2.
scenes!(
    requests_and_logins_stay_in_the_local_data_centre;
    nothing_goes_to_a_remote_node,
    a_local_node_answers_every_level,
    what_no_local_node_owns_is_read_from_its_owner,
    a_remote_node_answers_if_it_may,
    levels_of_the_local_data_centre_do_not_leave_it,
    a_remote_node_answers_every_level_if_it_may,
    without_remote_nodes_nobody_answers,
    a_roles_first_query_waits_for_the_node_that_is_up,
);

fn requests_and_logins_stay_in_the_local_data_centre(scenes: &mut Scenes) {
    let _turn = turn("data centres", Duration::from_secs(300));
    let spec = helenus_tests::ephemeral().nodes(2).auth(true);
    let spec = spec.place("dc1", "rack1").place("dc2", "rack1");
    let mut cluster = Cluster::up(spec).expect("two nodes");
    let both = "{'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 1}";
    directly(
        &mut cluster.connect(1).expect("node"),
        &[
            // The roles are in both as well.
            &format!("ALTER KEYSPACE system_auth WITH replication = {both}"),
            "CREATE ROLE app WITH PASSWORD = 'app' AND LOGIN = true AND SUPERUSER = true",
            "CREATE ROLE late WITH PASSWORD = 'late' AND LOGIN = true AND SUPERUSER = true",
            &format!("CREATE KEYSPACE d WITH replication = {both}"),
            "CREATE TABLE d.t (k int PRIMARY KEY, v int)",
            WRITE,
            "CREATE KEYSPACE far WITH replication = {'class': 'NetworkTopologyStrategy', 'dc2': 1}",
            "CREATE TABLE far.t (k int PRIMARY KEY, v int)",
        ],
    );
    let start = |settings: &[&str]| {
        let login = ["cluster.username=app", "cluster.password=app"];
        let settings = [&login, settings].concat();
        Proxy::start(&cluster.contact_points(), &settings).expect("proxy")
    };

    scenes.scene("nothing_goes_to_a_remote_node", || {
        nothing_goes_to_a_remote_node(&cluster, &start(&[]));
    });

    let only_local = start(&[]);
    let also_remote = start(&["cluster.allow_remote_dc=true"]);
    let wherever = start(&[
        "cluster.allow_remote_dc=true",
        "cluster.allow_remote_dc_for_local_levels=true",
    ]);
    let mut clients =
        [&only_local, &also_remote, &wherever].map(|proxy| login(proxy, "app").expect("let in"));
    scenes.scene("a_local_node_answers_every_level", || {
        for client in &mut clients {
            for level in [ONE, QUORUM, LOCAL_ONE, LOCAL_QUORUM, LOCAL_SERIAL] {
                let outcome = client.try_query(READ, level).expect("an answer");
                outcome.unwrap_or_else(|fault| panic!("level {level}: {fault:?}"));
            }
        }
    });
    let remote = cluster.address(2).expect("node");
    scenes.scene("what_no_local_node_owns_is_read_from_its_owner", || {
        reads_of_what_is_elsewhere(&mut clients[0], &only_local, remote, false);
        reads_of_what_is_elsewhere(&mut clients[1], &also_remote, remote, true);
        let outcome = clients[1].try_query(READ_FAR, LOCAL_ONE);
        let fault = outcome.expect("an answer").expect_err("no local replica");
        assert_eq!(fault.code, UNAVAILABLE, "{fault:?}");
    });
    cluster.kill(1).expect("killed");
    let [only_local_client, also_remote_client, wherever_client] = &mut clients;
    scenes.scene("a_remote_node_answers_if_it_may", || {
        eventually("the remote node answers", PATIENCE, || {
            let outcome = also_remote_client.try_query(READ, ONE);
            outcome.expect("an answer").is_ok()
        });
    });
    scenes.scene("levels_of_the_local_data_centre_do_not_leave_it", || {
        levels_of_the_local_data_centre_do_not_leave_it(also_remote_client);
    });
    scenes.scene("a_remote_node_answers_every_level_if_it_may", || {
        eventually("it answers every level", PATIENCE, || {
            let outcome = wherever_client.try_query(READ, LOCAL_QUORUM);
            outcome.expect("an answer").is_ok()
        });
    });
    scenes.scene("without_remote_nodes_nobody_answers", || {
        for level in [ONE, LOCAL_ONE] {
            let outcome = only_local_client.try_query(READ, level);
            is_unavailable(outcome.expect("an answer"), "without remote nodes");
        }
        assert!(login(&only_local, "app").is_err());
    });
    scenes.scene("a_roles_first_query_waits_for_the_node_that_is_up", || {
        a_roles_first_query_waits_for_the_node_that_is_up(&wherever);
    });
}

/// Through a node of this data centre or, if it may be asked, without that detour.
fn reads_of_what_is_elsewhere(
    client: &mut Client<std::net::TcpStream>,
    proxy: &Proxy,
    remote: SocketAddr,
    is_direct: bool,
) {
    let name = format!("helenus_node_read_requests_total{{node=\"{remote}\"");
    let reads = || {
        let (_, page) = proxy.admin_get("/metrics", None).expect("metrics");
        let line = page.lines().find(|line| line.starts_with(&name));
        let count = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        count.unwrap_or(0_u64)
    };
    let mut ask = || {
        let outcome = client.try_query(READ_FAR, ONE).expect("an answer");
        outcome.unwrap_or_else(|fault| panic!("{fault:?}"));
    };
    // Not before the proxy is connected with it, nor while it stands still.
    eventually("all reads go to the owner", PATIENCE, || {
        let before = reads();
        (0..8).for_each(|_| ask());
        reads() - before == 8 || !is_direct
    });
    assert!(is_direct || reads() == 0);
}

/// The remote node takes connections, but says nothing.
fn nothing_goes_to_a_remote_node(cluster: &Cluster, proxy: &Proxy) {
    cluster.pause(2).expect("paused");
    let remote = cluster.address(2).expect("node");
    for _ in 0..8 {
        let mut client = login(proxy, "app").expect("let in");
        for level in [ONE, LOCAL_ONE, LOCAL_QUORUM] {
            let outcome = client.try_query(READ, level).expect("an answer");
            outcome.unwrap_or_else(|fault| panic!("level {level}: {fault:?}"));
        }
    }
    assert_eq!(connections_to(remote), 0);
    cluster.resume(2).expect("resumed");
}

fn levels_of_the_local_data_centre_do_not_leave_it(client: &mut Client<std::net::TcpStream>) {
    for (cql, level) in [
        (READ, LOCAL_ONE),
        (READ, LOCAL_QUORUM),
        (READ, LOCAL_SERIAL),
        (WRITE, LOCAL_QUORUM),
    ] {
        let outcome = client.try_query(cql, level).expect("an answer");
        is_unavailable(outcome, &format!("{cql} at {level}"));
    }
    // At ONE, but with Paxos in the local data centre only.
    let mut body = client.query_body("UPDATE d.t SET v = 2 WHERE k = 1 IF v = 1", ONE);
    let flags = body.len() - 1;
    body[flags] = 0x10;
    body.extend(LOCAL_SERIAL.to_be_bytes());
    let answer = client.call(op::QUERY, &body).expect("an answer");
    is_unavailable(answer.judged().expect("judged"), "LOCAL_SERIAL");
}

/// The link to the node that is down fails long before the other one is open.
fn a_roles_first_query_waits_for_the_node_that_is_up(proxy: &Proxy) {
    let mut client = login(proxy, "late").expect("let in");
    let outcome = client.try_query(READ, LOCAL_ONE).expect("an answer");
    outcome.expect("a row");
}

fn login(proxy: &Proxy, role: &str) -> Result<Client<std::net::TcpStream>, Fault> {
    let mut client = Client::connect(proxy.address, 4).expect("connect");
    let outcome = client.startup(Some((role, role))).expect("an answer");
    outcome.map(|()| client)
}

fn is_unavailable<T>(outcome: Result<T, Fault>, what: &str) {
    match outcome {
        Ok(_) => panic!("answered: {what}"),
        Err(fault) => {
            assert_eq!(fault.code, UNAVAILABLE, "{what}: {fault:?}");
            assert!(fault.message.starts_with("Helenus: "), "{what}: {fault:?}");
        }
    }
}

/// Connections to an address, in the kernel's own account: also those that its owner has not taken yet.
fn connections_to(address: SocketAddr) -> usize {
    const LISTENING: &str = "0A";
    let IpAddr::V4(ip) = address.ip() else {
        panic!("{address}");
    };
    let ip = u32::from_ne_bytes(ip.octets());
    let wanted = format!("{ip:08X}:{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    table
        .lines()
        .filter(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            fields.next() == Some(&wanted) && fields.nth(1) != Some(LISTENING)
        })
        .count()
}
