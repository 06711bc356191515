//! Clients and nodes that do not log in as the book says.

use std::io::ErrorKind;
use std::time::Duration;

use helenus_tests::raw::{Answer, Client, Fault, op, value};
use helenus_tests::scripted::{self, Verdict};

use crate::{asked, client, eventually, metric, proxy, served_as};

const SERVER_ERROR: i32 = 0x0000;
const PROTOCOL_ERROR: i32 = 0x000A;
const BAD_CREDENTIALS: i32 = 0x0100;
const APP: &[u8] = b"\0app\0pw";
/// That of the control connection, which opens others now and then.
const CONTROL: &[u8] = b"\0control\0control";

#[track_caller]
fn fault(answer: &Answer, code: i32) -> Fault {
    assert_eq!(answer.opcode, op::ERROR, "{answer:?}");
    let fault = answer.fault().expect("an error");
    assert_eq!(fault.code, code, "{fault:?}");
    fault
}

#[test]
fn noise_before_the_name_opens_no_links_of_its_own() {
    let nodes = scripted::start(2).expect("nodes");
    let proxy = proxy(&nodes, &[]);
    let mut clients = Vec::new();
    for n in 0..100 {
        let mut client = asked(&proxy);
        let token = format!("noise {n}\0app\0pw");
        let answer = client.log_in(token.as_bytes()).expect("an answer");
        assert_eq!(answer.opcode, op::AUTH_SUCCESS);
        assert_eq!(served_as(&mut client).expect("served"), "\0app\0pw");
        clients.push(client);
    }
    let all: Vec<_> = nodes.iter().flat_map(|node| node.logins()).collect();
    let noisy = all.iter().filter(|token| token.starts_with(b"noise"));
    assert_eq!(
        noisy.count(),
        100,
        "each client is judged by its own token, once"
    );
    // Two workers, two nodes, one link each.
    let links = all.iter().filter(|token| **token == APP).count();
    assert!(links <= 4, "{links} links");
    assert_eq!(metric(&proxy, "helenus_identities"), 1);
}

#[test]
fn tokens_of_other_authenticators_are_taken_as_they_are() {
    let nodes = scripted::start(1).expect("a node");
    nodes[0].set_authenticator(Some("com.example.Own"));
    let proxy = proxy(&nodes, &["cluster.authenticators=[\"com.example.Own\"]"]);
    for token in ["\0app\0pw", "proxy\0app\0pw", "\0app\0pw\0", "a token", ""] {
        let mut client = asked(&proxy);
        client.log_in(token.as_bytes()).expect("an answer");
        assert_eq!(served_as(&mut client).expect("served"), token);
    }
}

#[test]
fn a_token_is_judged_anew_each_time() {
    let nodes = scripted::start(1).expect("a node");
    let proxy = proxy(&nodes, &[]);
    let mut before = client(&proxy, "app");
    served_as(&mut before).expect("served");
    nodes[0].set_judge(|_| Verdict::incorrect());
    for _ in 0..5 {
        let answer = asked(&proxy).log_in(APP).expect("an answer");
        let fault = fault(&answer, BAD_CREDENTIALS);
        // In the node's own words.
        assert_eq!(
            fault.message,
            "Provided username x and/or password are incorrect"
        );
    }
    served_as(&mut before).expect("still served");
}

#[test]
fn what_is_no_token_is_refused_or_left_to_the_node() {
    let nodes = scripted::start(1).expect("a node");
    nodes[0].set_judge(|token| match token {
        APP | CONTROL => Verdict::Accept,
        _ => Verdict::Refuse("Password must not be null".to_owned()),
    });
    let proxy = proxy(&nodes, &[]);
    for token in [
        &b""[..],
        b"\0",
        b"\0\0",
        b"app",
        b"\0app\0",
        b"\0app\0pw\0more",
    ] {
        let answer = asked(&proxy).log_in(token).expect("an answer");
        fault(&answer, BAD_CREDENTIALS);
        assert!(nodes[0].logins().iter().any(|seen| seen == token));
    }
    let seen = nodes[0].logins().len();
    // None at all, half of one, and one that is said to be longer than its message.
    for body in [&[0xFF; 4][..], &[0, 0], &[0, 0, 0, 9, 1], &[]] {
        let mut client = asked(&proxy);
        let answer = client.call(op::AUTH_RESPONSE, body).expect("an answer");
        fault(&answer, PROTOCOL_ERROR);
        // It may still do it right.
        let answer = client.log_in(APP).expect("an answer");
        assert_eq!(answer.opcode, op::AUTH_SUCCESS);
    }
    // Bytes behind the token are nobody's.
    let mut client = asked(&proxy);
    let body = [&value(APP), &b"more"[..]].concat();
    let answer = client.call(op::AUTH_RESPONSE, &body).expect("an answer");
    assert_eq!(answer.opcode, op::AUTH_SUCCESS);
    served_as(&mut client).expect("served");
    let logins = nodes[0].logins();
    let known = |token: &Vec<u8>| [APP, CONTROL].contains(&&**token);
    assert!(logins[seen..].iter().all(known));
}

#[test]
fn a_token_of_15_mib_is_refused_before_it_has_come() {
    let nodes = scripted::start(1).expect("a node");
    let proxy = proxy(&nodes, &[]);
    let before = proxy.resident_kib().expect("memory");
    let token = value(&vec![b'x'; 15 << 20]);
    let mut clients: Vec<_> = (0..20).map(|_| asked(&proxy)).collect();
    for client in &mut clients {
        // The proxy may close before everything is written.
        let sent = client.send(1, op::AUTH_RESPONSE, &token);
        let told = client.receive();
        assert!(sent.is_err() || told.is_ok_and(|answer| answer.opcode == op::ERROR));
    }
    let grown = proxy.resident_kib().expect("memory").saturating_sub(before);
    assert!(grown < 16 * 1024, "{grown} KiB");
    assert!(nodes[0].logins().iter().all(|token| token.len() < 100));
    // A request as long as one may be passes once the client is known.
    let mut known = client(&proxy, "app");
    let text = format!("SELECT token FROM k.t WHERE k = '{}'", "x".repeat(1 << 20));
    known.query(&text).expect("served");
}

#[test]
fn messages_out_of_turn_are_refused_and_change_nothing() {
    let nodes = scripted::start(1).expect("a node");
    nodes[0].set_delay(Duration::from_millis(200));
    let proxy = proxy(&nodes, &[]);
    let mut client = asked(&proxy);
    let query = client.query_body("SELECT token FROM k.t WHERE k = 1", 1);
    fault(
        &client.call(op::QUERY, &query).expect("an answer"),
        PROTOCOL_ERROR,
    );
    fault(
        &client.call(op::STARTUP, &[0, 0]).expect("an answer"),
        PROTOCOL_ERROR,
    );
    // Twice at once, with something else between.
    client
        .send(7, op::AUTH_RESPONSE, &value(APP))
        .expect("sent");
    client.send(8, op::QUERY, &query).expect("sent");
    client
        .send(9, op::AUTH_RESPONSE, &value(b"\0other\0pw"))
        .expect("sent");
    let mut answers: Vec<_> = (0..3)
        .map(|_| client.receive().expect("an answer"))
        .collect();
    answers.sort_by_key(|answer| answer.stream);
    assert_eq!(answers[0].opcode, op::AUTH_SUCCESS);
    fault(&answers[1], PROTOCOL_ERROR);
    fault(&answers[2], PROTOCOL_ERROR);
    assert_eq!(served_as(&mut client).expect("served"), "\0app\0pw");
    // And when it is ready.
    let answer = client.log_in(b"\0other\0pw").expect("an answer");
    fault(&answer, PROTOCOL_ERROR);
    assert_eq!(served_as(&mut client).expect("served"), "\0app\0pw");
    assert!(
        nodes[0]
            .logins()
            .iter()
            .all(|token| token != b"\0other\0pw")
    );
}

#[test]
fn before_it_is_ready_a_client_may_send_some_messages_and_no_more() {
    let nodes = scripted::start(1).expect("a node");
    let proxy = proxy(&nodes, &[]);
    let options = |client: &mut Client<_>| client.call(op::OPTIONS, &[]).expect("an answer");
    let mut fresh = Client::connect(proxy.address, 4).expect("connect");
    let mut asked = asked(&proxy);
    for _ in 0..63 {
        assert_eq!(options(&mut fresh).opcode, op::SUPPORTED);
        assert_eq!(options(&mut asked).opcode, op::SUPPORTED);
    }
    assert_eq!(options(&mut fresh).opcode, op::SUPPORTED);
    for mut client in [fresh, asked] {
        let fault = fault(&options(&mut client), PROTOCOL_ERROR);
        assert!(fault.message.contains("64 messages"), "{fault:?}");
        client.receive().expect_err("the end");
    }
    let mut ready = client(&proxy, "app");
    for _ in 0..200 {
        assert_eq!(options(&mut ready).opcode, op::SUPPORTED);
    }
    served_as(&mut ready).expect("served");
}

#[test]
fn a_client_that_does_not_go_on_costs_no_node_anything_and_is_disconnected() {
    let nodes = scripted::start(1).expect("a node");
    let proxy = proxy(&nodes, &["limits.handshake_timeout_ms=1000"]);
    eventually("the control connection", || !nodes[0].startups().is_empty());
    let startups = || nodes[0].startups().len();
    let logins = nodes[0].logins().len();
    let mut silent: Vec<_> = (0..50).map(|_| asked(&proxy)).collect();
    for client in &mut silent {
        let end = client.receive().expect_err("the end");
        assert!(matches!(
            end.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
        ));
    }
    // The control connection asks nodes for their processors now and then.
    assert!(startups() < 20, "{} connections", startups());
    assert!(nodes[0].logins().len() < logins + 20);
}

#[test]
fn clients_that_leave_in_the_middle_leave_nothing_behind() {
    let nodes = scripted::start(1).expect("a node");
    let proxy = proxy(&nodes, &[]);
    nodes[0].set_delay(Duration::from_secs(1));
    let mut leaving: Vec<_> = (0..200).map(|_| asked(&proxy)).collect();
    for client in &mut leaving {
        client
            .send(1, op::AUTH_RESPONSE, &value(APP))
            .expect("sent");
    }
    drop(leaving);
    eventually("no login is left", || {
        metric(&proxy, "helenus_logins_under_way") == 0
            && metric(&proxy, "helenus_logins_waiting") == 0
    });
    // Most were not judged at all.
    assert!(nodes[0].logins().len() < 150, "{}", nodes[0].logins().len());
    eventually("they are counted no longer", || {
        metric(&proxy, "helenus_clients") == 0
    });
    nodes[0].set_delay(Duration::ZERO);
    served_as(&mut client(&proxy, "app")).expect("served");
}

#[test]
fn what_the_node_says_beside_its_yes_reaches_the_client() {
    let nodes = scripted::start(1).expect("a node");
    let proxy = proxy(&nodes, &[]);
    nodes[0].set_judge(|_| Verdict::AcceptWith(b"welcome".to_vec()));
    for version in [3, 4] {
        let mut client = Client::connect(proxy.address, version).expect("connect");
        client.hello(&[]).expect("an answer");
        let answer = client.log_in(APP).expect("an answer");
        assert_eq!(answer.opcode, op::AUTH_SUCCESS);
        assert_eq!(answer.body, value(b"welcome"));
        served_as(&mut client).expect("served");
    }
}

#[test]
fn nodes_that_do_not_say_yes_or_no_do_not_let_anybody_in() {
    let nodes = scripted::start(1).expect("a node");
    let proxy = proxy(&nodes, &[]);
    for (verdict, code, word) in [
        (Verdict::Challenge, PROTOCOL_ERROR, "more than one exchange"),
        (Verdict::Close, SERVER_ERROR, "lost the node"),
    ] {
        nodes[0].set_judge(move |_| verdict.clone());
        let mut client = asked(&proxy);
        let answer = client.log_in(APP).expect("an answer");
        let fault = fault(&answer, code);
        assert!(fault.message.contains(word), "{fault:?}");
        client.receive().expect_err("the end");
    }
    assert_eq!(metric(&proxy, "helenus_identities"), 0);
}

#[test]
fn a_node_that_says_yes_and_hangs_up_serves_later() {
    let nodes = scripted::start(1).expect("a node");
    let proxy = proxy(&nodes, &[]);
    nodes[0].set_judge(|_| Verdict::AcceptAndClose);
    let mut client = asked(&proxy);
    let answer = client.log_in(APP).expect("an answer");
    assert_eq!(answer.opcode, op::AUTH_SUCCESS);
    // An answer, whatever it is: the session itself is sound.
    let _ = served_as(&mut client);
    nodes[0].set_judge(|_| Verdict::Accept);
    eventually("the same session is served", || {
        served_as(&mut client).is_ok()
    });
}
