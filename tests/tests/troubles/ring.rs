//! A node joins while copies join, and leaves while the table comes back.

use std::time::Instant;

use crate::clients::Clients;
use crate::{LAYOUTS, Site, eventually, say};

pub(crate) fn a_node_joins_and_leaves(site: &mut Site, seed: u64) {
    site.tables("ring");
    let clients = Clients::begin(site.addresses(), ("shop.ring", "plain.ring"), seed);
    eventually("there are rows", || clients.writes() > 150);
    let create = [&["create", "shop.ring", "--mode", "replace"][..], &LAYOUTS].concat();
    let drop_all = ["drop", "shop.ring", "--all"];
    let job = site.begin(&create);
    site.until("ring", "replace", "joining");
    say("up to joining", &clients.seen());
    let begun = Instant::now();
    let number = site.cluster.add_node().expect("a node joins");
    println!("node {number} has joined after {:.1?}", begun.elapsed());
    say("a node joins in joining", &clients.seen());
    let times = site.finish(job, &create);
    println!("created in {times} attempts");
    say("up to in use", &clients.seen());
    assert_eq!(
        site.stage("ring"),
        Some(("replace".to_owned(), "in use".to_owned()))
    );
    eventually("all copies are in sync", || {
        site.members("ring", "in sync").1 > 0
            && site.members("ring", "out").1 + site.members("ring", "joining").1 == 0
    });
    println!("{} copies are in sync", site.members("ring", "in sync").1);
    let job = site.begin(&drop_all);
    site.until("ring", "replace", "returning");
    let begun = Instant::now();
    site.cluster.remove_node(number).expect("it leaves");
    println!("node {number} has left after {:.1?}", begun.elapsed());
    say("a node leaves in returning", &clients.seen());
    let times = site.finish(job, &drop_all);
    println!("dropped in {times} attempts");
    let before = clients.writes();
    eventually("clients go on", || clients.writes() > before + 100);
    let seen = clients.end();
    say("the table by itself", &seen);
    site.check("ring", &["shop.ring"]);
}
