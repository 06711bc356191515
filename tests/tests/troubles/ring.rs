//! A node joins while copies join, and leaves while the table comes back.

use std::time::Instant;

use crate::clients::Clients;
use crate::{LAYOUTS, Site, Used, eventually, say};

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
    site.finish(job, &create);
    say("up to in use", &clients.seen());
    site.copies_alone("ring");
    println!("{} copies are in sync", site.states("ring")[1].len());
    let job = site.begin(&drop_all);
    site.until("ring", "replace", "returning");
    let begun = Instant::now();
    site.cluster.remove_node(number).expect("it leaves");
    println!("node {number} has left after {:.1?}", begun.elapsed());
    say("a node leaves in returning", &clients.seen());
    site.finish(job, &drop_all);
    site.end(clients, "ring", Used::Table);
}
