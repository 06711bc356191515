//! Very many logins, right and wrong ones.

use std::time::Duration;

use helenus_tests::proxy::raise_open_files_limit;
use helenus_tests::raw::{op, value};
use helenus_tests::scripted::{self, Verdict};

use crate::{asked, asked_from, client, eventually, metric, proxy, served_as};

const OVERLOADED: i32 = 0x1001;
const APP: &[u8] = b"\0app\0pw";

#[test]
fn a_thousand_logins_at_once_are_judged_a_few_at_a_time() {
    raise_open_files_limit().expect("open files");
    let nodes = scripted::start(1).expect("a node");
    let proxy = proxy(&nodes, &[]);
    let mut first = client(&proxy, "app");
    served_as(&mut first).expect("served");
    nodes[0].set_delay(Duration::from_millis(5));
    let mut clients: Vec<_> = (0..1_000).map(|_| asked(&proxy)).collect();
    nodes[0].judging_max();
    for client in &mut clients {
        client
            .send(1, op::AUTH_RESPONSE, &value(APP))
            .expect("sent");
    }
    for client in &mut clients {
        let answer = client.receive().expect("an answer");
        assert_eq!(answer.opcode, op::AUTH_SUCCESS, "{answer:?}");
    }
    // limits.logins_per_address_max, and perhaps a link of the other worker.
    let most = nodes[0].judging_max();
    assert!((2..=8 + 1).contains(&most), "{most} at a time");
    for client in clients.iter_mut().step_by(100) {
        served_as(client).expect("served");
    }
}

#[test]
fn many_logins_of_one_address_do_not_keep_another_one_waiting() {
    let nodes = scripted::start(1).expect("a node");
    let settings = ["limits.logins_max=4", "limits.logins_per_address_max=4"];
    let proxy = proxy(&nodes, &settings);
    nodes[0].set_delay(Duration::from_millis(200));
    let mut crowd: Vec<_> = (0..300).map(|_| asked(&proxy)).collect();
    let mut other = asked_from([127, 0, 0, 2], &proxy);
    for client in &mut crowd {
        client
            .send(1, op::AUTH_RESPONSE, &value(APP))
            .expect("sent");
    }
    eventually("the crowd waits", || {
        metric(&proxy, "helenus_logins_waiting") > 200
    });
    let answer = other.log_in(b"\0other\0pw").expect("an answer");
    assert_eq!(answer.opcode, op::AUTH_SUCCESS);
    let judged = nodes[0].logins().len();
    assert!(judged < 200, "after {judged} others");
}

#[test]
fn wrong_passwords_of_one_address_are_judged_one_at_a_time() {
    let nodes = scripted::start(1).expect("a node");
    nodes[0].set_judge(|token| match token {
        b"\0app\0wrong" => Verdict::incorrect(),
        _ => Verdict::Accept,
    });
    let proxy = proxy(&nodes, &["log.filter=info,helenus_engine=debug"]);
    nodes[0].set_delay(Duration::from_millis(5));
    let wrong = || {
        let mut client = asked(&proxy);
        let body = value(b"\0app\0wrong");
        client.send(1, op::AUTH_RESPONSE, &body).expect("sent");
        client
    };
    let refused = |mut client: helenus_tests::raw::Client<_>| {
        assert_eq!(client.receive().expect("an answer").opcode, op::ERROR);
    };
    let first: Vec<_> = (0..30).map(|_| wrong()).collect();
    first.into_iter().for_each(refused);
    nodes[0].judging_max();
    let flood: Vec<_> = (0..200).map(|_| wrong()).collect();
    // Meanwhile others log in, and so does who comes from there and knows the password.
    let mut other = asked_from([127, 0, 0, 2], &proxy);
    let answer = other.log_in(b"\0other\0pw").expect("an answer");
    assert_eq!(answer.opcode, op::AUTH_SUCCESS);
    let mut right = asked(&proxy);
    let answer = right.log_in(APP).expect("an answer");
    assert_eq!(answer.opcode, op::AUTH_SUCCESS);
    flood.into_iter().for_each(refused);
    // One of each address, and links.
    let most = nodes[0].judging_max();
    assert!(most <= 1 + 1 + 2, "{most} at a time");
    // Each is in the log, with its address and nothing of what was sent.
    let refused = || {
        let log = proxy.log();
        let lines = log
            .lines()
            .filter(|line| line.contains("a login is refused"));
        let from = lines.filter(|line| line.contains("peer=127.0.0.1:"));
        from.count()
    };
    eventually("refusals are in the log", || refused() == 30 + 200);
    assert!(!proxy.log().contains("wrong"));
}

#[test]
fn a_login_that_waits_for_too_long_is_told_so() {
    let nodes = scripted::start(1).expect("a node");
    let settings = ["limits.logins_max=1", "limits.handshake_timeout_ms=2000"];
    let proxy = proxy(&nodes, &settings);
    nodes[0].set_delay(Duration::from_millis(700));
    let mut clients: Vec<_> = (0..10).map(|_| asked(&proxy)).collect();
    for client in &mut clients {
        client
            .send(1, op::AUTH_RESPONSE, &value(APP))
            .expect("sent");
    }
    let mut accepted = 0;
    for client in &mut clients {
        let answer = client.receive().expect("an answer");
        if answer.opcode == op::AUTH_SUCCESS {
            accepted += 1;
            continue;
        }
        let fault = answer.fault().expect("an error");
        assert_eq!(fault.code, OVERLOADED, "{fault:?}");
        assert!(fault.message.contains("limits.logins_max"), "{fault:?}");
    }
    assert!((1..10).contains(&accepted), "{accepted}");
    assert!(metric(&proxy, "helenus_auth_overloaded_total") > 0);
}

#[test]
fn past_the_bound_of_identities_nobody_new_comes_in_until_one_is_free() {
    let nodes = scripted::start(1).expect("a node");
    let proxy = proxy(&nodes, &["limits.identities_max=4"]);
    let mut clients: Vec<_> = (0..4)
        .map(|n| client(&proxy, &format!("role{n}")))
        .collect();
    let refusal = |token: &[u8]| {
        let answer = asked(&proxy).log_in(token).expect("an answer");
        (answer.opcode == op::ERROR).then(|| answer.fault().expect("an error"))
    };
    let fault = refusal(b"\0role4\0pw").expect("full");
    assert_eq!(fault.code, OVERLOADED, "{fault:?}");
    assert!(fault.message.contains("limits.identities_max"), "{fault:?}");
    // Who is there already may come again, also by another token for the same.
    assert_eq!(refusal(b"noise\0role0\0pw"), None);
    let fault = refusal(b"\0role0\0other").expect("a quarter is one");
    assert!(fault.message.contains("one role"), "{fault:?}");
    for client in &mut clients {
        served_as(client).expect("served");
    }
    clients.remove(2);
    eventually("one has made way", || refusal(b"\0role4\0pw").is_none());
    assert!(refusal(b"\0role2\0pw").is_some() || metric(&proxy, "helenus_identities") <= 4);
    for client in &mut clients {
        served_as(client).expect("still served");
    }
}
