//! Two commands at one table: one ends before its next write, and says so.

use std::thread;
use std::time::Duration;

use crate::clients::Clients;
use crate::{LAYOUTS, Site, Used, eventually, say};

const OTHER: &str = "another command";

/// The first has been overtaken by the second, which has come to its end.
fn overtaken(first: crate::Job, second: crate::Job) {
    let (succeeded, out, err) = second.end();
    assert!(succeeded, "{out}{err}");
    let (succeeded, out, err) = first.end();
    assert!(!succeeded && err.contains(OTHER), "{out}{err}");
}

pub(crate) fn two_commands(site: &mut Site, seed: u64) {
    site.tables("two");
    let clients = Clients::begin(site.addresses(), ("shop.two", "plain.two"), seed);
    eventually("there are rows", || clients.writes() > 150);
    let create = [&["create", "shop.two", "--mode", "replace"][..], &LAYOUTS].concat();
    let drop_all = ["drop", "shop.two", "--all"];
    let undo = ["drop", "shop.two", "--undo"];

    // Given up by a second command, before and after proxies go by the lists.
    for (mode, stage) in [("replacing", "filling"), ("replace", "joining")] {
        let first = site.begin(&create);
        site.until("two", mode, stage);
        thread::sleep(Duration::from_secs(2));
        overtaken(first, site.begin(&drop_all));
        say(&format!("create, and drop in {stage}"), &clients.seen());
        assert_eq!(site.stage("two"), Some((String::new(), String::new())));
    }
    // Two of the same.
    let first = site.begin(&create);
    site.until("two", "replace", "joining");
    let second = site.begin(&create);
    thread::sleep(Duration::from_secs(3));
    overtaken(first, second);
    say("create twice", &clients.seen());
    assert_eq!(
        site.stage("two"),
        Some(("replace".to_owned(), "in use".to_owned()))
    );

    // Given up while rows come back, by a second command.
    let first = site.begin(&drop_all);
    site.until("two", "replace", "returning");
    thread::sleep(Duration::from_secs(2));
    overtaken(first, site.begin(&undo));
    say("drop, and its undoing", &clients.seen());
    assert_eq!(
        site.stage("two"),
        Some(("replace".to_owned(), "in use".to_owned()))
    );
    let first = site.begin(&drop_all);
    site.until("two", "replace", "returning");
    let (succeeded, _, err) = site.begin(&create).end();
    assert!(!succeeded && err.contains("is being dropped"), "{err}");
    let second = site.begin(&drop_all);
    overtaken(first, second);
    say("drop twice", &clients.seen());
    site.end(clients, "two", Used::Table);
}
