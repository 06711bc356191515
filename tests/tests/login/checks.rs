//! Credentials that are checked again, and nodes that cannot check them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use helenus_tests::raw::{Client, PATIENCE, op};
use helenus_tests::scripted::{self, Node, Verdict};

use crate::{client, eventually, proxy, served_as, spawned};

const OFTEN: [&str; 3] = [
    "links.check_credentials_ms=200",
    "links.backoff_min_ms=20",
    "links.backoff_max_ms=200",
];

/// How often this role's credentials have been sent to any of the nodes.
fn checks(nodes: &[Node], role: &str) -> usize {
    let token = format!("\0{role}\0pw").into_bytes();
    let of = |node: &Node| node.logins().iter().filter(|t| **t == token).count();
    nodes.iter().map(of).sum()
}

fn judge_all(nodes: &[Node], verdict: &Verdict) {
    for node in nodes {
        let verdict = verdict.clone();
        // The control connection's own role is not what is judged here.
        node.set_judge(move |token| match token {
            b"\0control\0control" => Verdict::Accept,
            _ => verdict.clone(),
        });
    }
}

#[test]
fn checks_that_no_node_can_make_end_no_session() {
    let nodes = scripted::start(2).expect("nodes");
    let proxy = proxy(&nodes, &OFTEN);
    let mut client = client(&proxy, "app");
    assert_eq!(served_as(&mut client).expect("served"), "\0app\0pw");
    for verdict in [
        Verdict::unable(),
        Verdict::Refuse("Error during authentication of user app : timed out".to_owned()),
        Verdict::Close,
        Verdict::Challenge,
    ] {
        let before = checks(&nodes, "app");
        judge_all(&nodes, &verdict);
        eventually("more checks, none of which could be made", || {
            checks(&nodes, "app") > before + 5
        });
        let served = served_as(&mut client);
        assert_eq!(
            served.unwrap_or_else(|e| panic!("{verdict:?}: {e}")),
            "\0app\0pw"
        );
    }
    // A real refusal still ends it.
    judge_all(&nodes, &Verdict::incorrect());
    eventually("the session ends", || served_as(&mut client).is_err());
}

#[test]
fn links_that_no_node_could_judge_are_opened_later_for_the_same_session() {
    let nodes = scripted::start(2).expect("nodes");
    let proxy = proxy(&nodes, &OFTEN);
    let mut client = client(&proxy, "app");
    served_as(&mut client).expect("served");
    judge_all(&nodes, &Verdict::unable());
    let before = checks(&nodes, "app");
    for node in &nodes {
        node.close_all();
    }
    eventually("links are tried again", || {
        checks(&nodes, "app") > before + 5
    });
    judge_all(&nodes, &Verdict::Accept);
    let mut other = crate::client(&proxy, "other");
    eventually("the same session is served again", || {
        served_as(&mut client).is_ok_and(|token| token == "\0app\0pw")
    });
    served_as(&mut other).expect("served");
}

#[test]
fn one_node_that_refuses_what_others_accept_ends_no_session() {
    let nodes = scripted::start(2).expect("nodes");
    let proxy = proxy(&nodes, &OFTEN);
    let mut before = client(&proxy, "app");
    served_as(&mut before).expect("served");
    judge_all(&nodes[1..], &Verdict::incorrect());
    let known = checks(&nodes[1..], "app");
    nodes[1].close_all();
    eventually("it is asked for links again and again", || {
        served_as(&mut before).expect("still served");
        checks(&nodes[1..], "app") > known + 5
    });
    // A role that has no links yet is served, too, though the refusal comes first.
    nodes[0].set_delay(Duration::from_millis(100));
    let mut fresh = None;
    eventually("the other node judges a login", || {
        let mut client = Client::connect(proxy.address, 4).expect("connect");
        let outcome = client.startup(Some(("fresh", "pw"))).expect("an answer");
        fresh = outcome.is_ok().then_some(client);
        fresh.is_some()
    });
    let mut fresh = fresh.expect("logged in");
    served_as(&mut fresh).expect("served");
    served_as(&mut before).expect("still served");
    // A refusal by all still ends them.
    judge_all(&nodes, &Verdict::incorrect());
    eventually("the sessions end", || {
        served_as(&mut before).is_err() && served_as(&mut fresh).is_err()
    });
}

/// The address of a node that takes every connection and has no tables to read.
fn node_without_tables() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bound");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            thread::spawn(move || -> std::io::Result<()> {
                loop {
                    let mut header = [0; 9];
                    client.read_exact(&mut header)?;
                    let mut body = vec![0; usize::from(header[8]) + 256 * usize::from(header[7])];
                    client.read_exact(&mut body)?;
                    let (opcode, body) = match (header[0], header[4]) {
                        (4, op::OPTIONS) => (op::SUPPORTED, &[0, 0][..]),
                        (4, op::STARTUP | op::REGISTER) => (op::READY, &[][..]),
                        (4, _) => (op::ERROR, &[0, 0, 0, 0, 0, 0][..]),
                        // No version but the fourth.
                        _ => (op::ERROR, &[0, 0, 0, 0x0A, 0, 0][..]),
                    };
                    let head = [0x84, 0, header[2], header[3], opcode, 0, 0, 0];
                    client.write_all(&[&head, &[body.len() as u8][..], body].concat())?;
                }
            });
        }
    });
    address
}

#[test]
fn an_address_that_is_of_no_use_keeps_the_proxy_from_no_other() {
    let nodes = scripted::start(1).expect("a node");
    let points = [node_without_tables(), nodes[0].address];
    let mut proxy = crate::spawned_at(&points, &[]);
    proxy.wait_ready().expect("ready");
    proxy.expect_logged("reading the schema failed");
    served_as(&mut client(&proxy, "app")).expect("served");
}

#[test]
fn a_proxy_that_can_use_no_node_any_more_is_not_ready() {
    let nodes = scripted::start(2).expect("nodes");
    let proxy = proxy(&nodes, &OFTEN);
    let ready = || proxy.admin_get("/ready", None).expect("an answer");
    assert_eq!(ready().0, 200);
    for node in &nodes {
        node.set_judge(|_| Verdict::Close);
        node.close_all();
    }
    eventually("the reason is shown", || {
        let (status, reason) = ready();
        status == 503 && reason.contains("no node can be used any more")
    });
    judge_all(&nodes, &Verdict::Accept);
    eventually("it is ready again", || ready().0 == 200);
}

#[test]
fn credentials_that_cannot_be_checked_for_too_long_serve_no_longer() {
    let nodes = scripted::start(1).expect("a node");
    let settings = [&OFTEN[..], &["links.unchecked_credentials_max_ms=1500"]].concat();
    let proxy = proxy(&nodes, &settings);
    let mut client = client(&proxy, "app");
    served_as(&mut client).expect("served");
    judge_all(&nodes, &Verdict::unable());
    eventually("the session ends", || served_as(&mut client).is_err());
    let log = proxy.expect_logged("links.unchecked_credentials_max_ms");
    assert!(!log.contains("app\0pw") && !log.contains("\\0pw"), "{log}");
}

#[test]
fn at_the_start_only_a_refusal_ends_the_proxy() {
    let nodes = scripted::start(1).expect("a node");
    nodes[0].set_judge(|_| Verdict::unable());
    let mut waits = spawned(&nodes, &[]);
    eventually("the reason is shown", || {
        let ready = waits.admin_get("/ready", None);
        ready.is_ok_and(|(status, text)| status == 503 && text.contains("Unable to perform"))
    });
    assert!(waits.is_running(), "{}", waits.log());
    nodes[0].set_judge(|_| Verdict::Accept);
    waits.wait_ready().expect("ready");

    nodes[0].set_judge(|_| Verdict::incorrect());
    let mut ends = spawned(&nodes, &[]);
    let status = ends.wait(PATIENCE).expect("it ends");
    assert_eq!(status.code(), Some(1), "{}", ends.log());
    ends.expect_logged("refuse cluster.username and cluster.password");
}

#[test]
fn the_first_request_of_a_role_waits_for_the_node_that_can_take_it() {
    let nodes = scripted::start(2).expect("nodes");
    let proxy = proxy(&nodes, &[]);
    // Links to one node fail at once, those to the other take a while.
    nodes[0].set_delay(Duration::from_millis(300));
    nodes[1].set_judge(|_| Verdict::Close);
    let mut logged_in = 0;
    for role in 0..8 {
        let mut client = Client::connect(proxy.address, 4).expect("connect");
        let outcome = client.startup(Some((&format!("role{role}"), "pw")));
        // The login itself may have met the node that hangs up.
        if outcome.expect("an answer").is_ok() {
            served_as(&mut client).expect("served");
            logged_in += 1;
        }
    }
    assert!(logged_in > 0);
}

/// Its address has been given to another cluster, and the own one does not know it yet.
#[test]
fn a_node_of_another_cluster_gets_no_links() {
    let nodes = scripted::start(2).expect("nodes");
    let proxy = proxy(&nodes, &[]);
    served_as(&mut client(&proxy, "app")).expect("served");
    nodes[1].set_cluster("another");
    nodes[1].close_all();
    eventually("its links are refused", || {
        // One that was on its way when all were closed is opened anew for clients only.
        let _ = served_as(&mut client(&proxy, "app"));
        proxy.log().contains("belongs to the cluster \"another\"")
    });
    let linked = format!("helenus_node_links_up{{node=\"{}\"", nodes[1].address);
    let links = || {
        let (_, page) = proxy.admin_get("/metrics", None).expect("metrics");
        let line = page.lines().find(|line| line.starts_with(&linked));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        value.expect("the gauge of its links")
    };
    for _ in 0..6 {
        served_as(&mut client(&proxy, "app")).expect("served");
        assert_eq!(links(), 0);
    }
    nodes[1].set_cluster("scripted");
    eventually("it is used again", || {
        // Links are opened for clients.
        served_as(&mut client(&proxy, "app")).is_ok() && links() > 0
    });
}
