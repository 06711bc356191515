//! Proxies are killed, and nodes are away and come back.

use std::thread;
use std::time::Duration;

use crate::clients::Clients;
use crate::{LAYOUTS, Site, Used, eventually, say};

/// The first proxy is killed; another one takes its place.
fn kill_proxy(site: &mut Site, clients: &Clients, for_s: u64, what: &str) {
    site.proxies[0].kill().expect("killed");
    thread::sleep(Duration::from_secs(for_s));
    say(what, &clients.seen());
    site.proxies.remove(0);
    site.proxy();
    clients.use_proxies(site.addresses());
}

pub(crate) fn while_members_join(site: &mut Site, seed: u64) {
    site.tables("t");
    let clients = Clients::begin(site.addresses(), ("shop.t", "plain.t"), seed);
    eventually("there are rows", || clients.writes() > 150);
    say("before", &clients.seen());

    let create = [&["create", "shop.t", "--mode", "replace"][..], &LAYOUTS].concat();
    let job = site.begin(&create);
    site.until("t", "replace", "joining");
    say("up to joining", &clients.seen());
    kill_proxy(site, &clients, 4, "a proxy killed in joining");
    site.copies_join("t");
    kill_proxy(site, &clients, 2, "a proxy killed while copies join");
    site.cluster.kill(3).expect("killed");
    thread::sleep(Duration::from_secs(15));
    say("a node is away in joining", &clients.seen());
    site.cluster.start(3).expect("it starts");
    say("it has started", &clients.seen());
    site.finish(job, &create);
    site.end(clients, "t", Used::Copies);

    let clients = Clients::begin(site.addresses(), ("shop.t", "plain.t"), seed + 10);
    let drop_all = ["drop", "shop.t", "--all"];
    let job = site.begin(&drop_all);
    site.until("t", "replace", "returning");
    kill_proxy(site, &clients, 4, "a proxy killed in returning");
    let job = site.go_on(job, (&drop_all, "the table joins"), || {
        let [table, _] = site.states("t");
        table.iter().any(|state| state != "out")
    });
    site.cluster.kill(4).expect("killed");
    kill_proxy(
        site,
        &clients,
        15,
        "a proxy and a node killed while the table joins",
    );
    site.cluster.start(4).expect("it starts");
    say("they are back", &clients.seen());
    site.finish(job, &drop_all);
    site.end(clients, "t", Used::Table);
}

/// A node is away when the table is to be emptied.
pub(crate) fn while_the_table_is_emptied(site: &mut Site, seed: u64) {
    site.tables("u");
    let clients = Clients::begin(site.addresses(), ("shop.u", "plain.u"), seed);
    eventually("there are rows", || clients.writes() > 150);
    let create = [&["create", "shop.u", "--mode", "replace"][..], &LAYOUTS].concat();
    let drop_all = ["drop", "shop.u", "--all"];
    let undo = ["drop", "shop.u", "--undo"];
    let job = site.begin(&create);
    site.until("u", "replace", "open");
    say("up to open", &clients.seen());
    site.cluster.kill(2).expect("killed");
    let (succeeded, _, err) = job.end();
    assert!(!succeeded, "{err}");
    say("a node is away in open", &clients.seen());
    assert_eq!(
        site.stage("u"),
        Some(("replace".to_owned(), "open".to_owned()))
    );
    let (succeeded, _, err) = site.begin(&create).end();
    assert!(!succeeded, "{err}");
    let job = site.begin(&drop_all);
    let (succeeded, _, err) = job.end();
    assert!(!succeeded, "{err}");
    site.cluster.start(2).expect("it starts");
    site.finish(site.begin(&create), &create);
    say("up to in use", &clients.seen());
    assert!(site.rows("v", "shop.u").is_empty());

    // Restarted while rows come back, then given up, and a node restarted before the table is empty again.
    site.copies_alone("u");
    let job = site.begin(&drop_all);
    site.until("u", "replace", "returning");
    site.cluster.kill(3).expect("killed");
    say("a node killed in returning", &clients.seen());
    site.cluster.start(3).expect("it starts");
    say("it is back", &clients.seen());
    let job = site.go_on(job, (&drop_all, "the table is in sync"), || {
        let [table, _] = site.states("u");
        table.iter().any(|state| state == "in sync")
    });
    let undoing = site.begin(&undo);
    let (_, _, err) = job.end();
    println!("{err}");
    site.finish(undoing, &undo);
    site.end(clients, "u", Used::Copies);
    site.finish(site.begin(&drop_all), &drop_all);
    site.check_used("u", Used::Table);
}

/// A proxy is killed in `joining`, and another one, with a node, while copies join.
pub(crate) fn briefly(site: &mut Site, seed: u64) {
    site.tables("b");
    let clients = Clients::begin(site.addresses(), ("shop.b", "plain.b"), seed);
    eventually("there are rows", || clients.writes() > 150);
    let create = [&["create", "shop.b", "--mode", "replace"][..], &LAYOUTS].concat();
    let job = site.begin(&create);
    site.until("b", "replace", "joining");
    kill_proxy(site, &clients, 3, "a proxy killed in joining");
    site.copies_join("b");
    site.cluster.kill(3).expect("killed");
    kill_proxy(
        site,
        &clients,
        3,
        "a proxy and a node killed while copies join",
    );
    site.cluster.start(3).expect("it starts");
    site.finish(job, &create);
    site.end(clients, "b", Used::Copies);
}
