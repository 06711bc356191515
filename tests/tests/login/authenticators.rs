//! Nodes whose authenticators judge something else than what clients send, and nodes that change theirs.

use helenus_tests::proxy::check;
use helenus_tests::raw::{Client, ONE, PATIENCE, op};
use helenus_tests::scripted::{self, Node, PASSWORD_AUTHENTICATOR};

use crate::{SETTINGS, client, eventually, proxy, served_as, spawned};

const CERTIFICATE: &str = "org.apache.cassandra.auth.MutualTlsAuthenticator";
const OWN: &str = "com.example.LdapAuthenticator";

fn become_all(nodes: &[Node], class: Option<&str>) {
    for node in nodes {
        node.set_authenticator(class);
        node.close_all();
    }
}

/// The error that a client gets that tries to log in, in whichever step.
fn refusal(address: std::net::SocketAddr) -> Option<String> {
    let mut client = Client::connect(address, 4).ok()?;
    let outcome = client.startup(Some(("app", "pw"))).ok()?;
    outcome.err().map(|fault| fault.message)
}

#[test]
fn a_proxy_does_not_start_before_an_authenticator_that_may_not_judge_the_token() {
    let nodes = scripted::start(1).expect("a node");
    for (class, advice) in [
        (CERTIFICATE, "every client would act as"),
        (OWN, "cluster.authenticators"),
    ] {
        become_all(&nodes, Some(class));
        let report = check(&[nodes[0].address], &SETTINGS).expect("a report");
        assert!(
            report.contains(class) && report.contains(advice),
            "{report}"
        );
        let mut proxy = spawned(&nodes, &[]);
        let status = proxy.wait(PATIENCE).expect("it ends");
        let log = proxy.log();
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains(class) && log.contains(advice), "{log}");
    }
    assert!(
        nodes[0].logins().is_empty(),
        "a token was sent all the same"
    );
    let vouched = format!("cluster.authenticators=[\"{OWN}\"]");
    let proxy = proxy(&nodes, &[&vouched]);
    served_as(&mut client(&proxy, "app")).expect("served");
    // Nobody can vouch for one that is known to look elsewhere.
    let vouched = format!("cluster.authenticators=[\"{CERTIFICATE}\"]");
    let mut proxy = spawned(&nodes, &[&vouched]);
    assert_eq!(proxy.wait(PATIENCE).expect("it ends").code(), Some(1));
    assert!(proxy.log().contains("take those"), "{}", proxy.log());
}

#[test]
fn nobody_logs_in_once_the_nodes_have_such_an_authenticator() {
    let nodes = scripted::start(2).expect("nodes");
    let proxy = proxy(&nodes, &[]);
    let mut before = client(&proxy, "app");
    served_as(&mut before).expect("served");
    become_all(&nodes, Some(CERTIFICATE));
    let logins = |nodes: &[Node]| nodes.iter().map(|node| node.logins().len()).sum::<usize>();
    eventually("links are lost", || served_as(&mut before).is_err());
    let refused = || refusal(proxy.address).is_some_and(|text| text.contains(CERTIFICATE));
    eventually("a login is refused with the reason", refused);
    // The control connection, links, checks and logins have all had their chance.
    let refusals = || {
        let log = proxy.log();
        let of_control = |line: &&str| line.contains("for the control connection");
        let refused = log.lines().filter(of_control);
        refused.filter(|line| line.contains(CERTIFICATE)).count()
    };
    eventually("the control connection is refused too", || refusals() > 0);
    // A token that a node has asked for before may still have come.
    let (known, before) = (logins(&nodes), refusals());
    eventually("all have had their chance again", || {
        refused() && refusals() >= before + 2
    });
    assert_eq!(logins(&nodes), known, "a token was sent to such a node");
    become_all(&nodes, Some(PASSWORD_AUTHENTICATOR));
    eventually("logins work again", || refusal(proxy.address).is_none());
}

#[test]
fn a_node_of_another_mind_is_left_out() {
    let nodes = scripted::start(2).expect("nodes");
    let proxy = proxy(&nodes, &[]);
    for other in [Some(CERTIFICATE), Some(OWN), None] {
        become_all(&nodes[1..], other);
        // As if nothing were: each of these begins at another node.
        for _ in 0..6 {
            served_as(&mut client(&proxy, "app")).expect("served");
        }
        let logins = nodes[1].logins();
        assert!(
            !logins.iter().any(|token| token == b"\0app\0pw"),
            "{other:?}"
        );
    }
}

#[test]
fn clients_begin_anew_when_authentication_is_switched_on_or_off() {
    let nodes = scripted::start(2).expect("nodes");
    become_all(&nodes, None);
    let proxy = proxy(&nodes, &[]);
    let nameless = || {
        let mut client = Client::connect(proxy.address, 4).expect("connect");
        let answer = client.hello(&[]).expect("an answer");
        (client, answer.opcode)
    };
    let (mut before, opcode) = nameless();
    assert_eq!(opcode, op::READY);
    assert_eq!(served_as(&mut before).expect("served"), "");
    // One after the other, as nodes are restarted.
    become_all(&nodes[..1], Some(PASSWORD_AUTHENTICATOR));
    eventually("the other node serves it", || {
        served_as(&mut before).is_ok()
    });
    become_all(&nodes[1..], Some(PASSWORD_AUTHENTICATOR));
    eventually("its session ends", || {
        before
            .try_query("SELECT v FROM k.t WHERE k = 1", ONE)
            .is_err()
    });
    eventually("new ones are asked", || nameless().1 == op::AUTHENTICATE);
    let mut role = client(&proxy, "app");
    assert_eq!(served_as(&mut role).expect("served"), "\0app\0pw");

    become_all(&nodes, None);
    eventually("the role's session ends", || {
        role.try_query("SELECT v FROM k.t WHERE k = 1", ONE)
            .is_err()
    });
    eventually("new ones are not asked", || nameless().1 == op::READY);
    eventually("and served", || served_as(&mut nameless().0).is_ok());
}
