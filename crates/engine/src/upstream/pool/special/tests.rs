use helenus_wire::{Opcode, Version, code, write};

use crate::config::Config;
use crate::shared::WorkerMessage;
use crate::testing::bench::{Asking, Bench};
use crate::testing::{bytes_of, open_links, take_sent};
use crate::upstream::connect::kind::LinkKind;

const VERSION: Version = Version::V4;

/// Opens the links that are wanted, those of keyspaces among them.
fn open(bench: &mut Bench) {
    let mut named = 3_i32.to_be_bytes().to_vec();
    write::string(&mut named, "ks");
    for (_, link) in open_links(&mut bench.engine, bench.now, VERSION) {
        take_sent(&mut bench.engine, link);
        let named = bytes_of((VERSION, false), 3, Opcode::Result, &named);
        bench.engine.on_link_bytes(bench.now, link, &named);
    }
    let links: Vec<_> = bench.engine.links().open.keys().collect();
    for link in links {
        take_sent(&mut bench.engine, link);
    }
}

/// The client asks something that only a link of this keyspace can carry.
fn ask_in(bench: &mut Bench, keyspace: &str, stream: i16) {
    bench.be_in(keyspace);
    let body = Asking::default().query(VERSION, "SELECT a FROM t WHERE k = 1");
    bench.ask(Opcode::Query, stream, &body);
    open(bench);
}

/// Links of keyspaces that are not about to be closed.
fn special_links(bench: &Bench) -> usize {
    let links = bench.engine.links().open.values();
    let special = links.filter(|link| matches!(link.kind, LinkKind::Keyspace(_)));
    special.filter(|link| link.closing.is_none()).count()
}

#[test]
fn links_that_have_been_replaced_count_until_they_have_answered() {
    let mut config = Config::default();
    config.limits.special_links_max = 2;
    let mut bench = Bench::with(config, (VERSION, VERSION));
    ask_in(&mut bench, "first", 1);
    assert_eq!(special_links(&bench), 1);
    // All are replaced, one after the other.
    let renew = WorkerMessage::Renew(None);
    bench.engine.on_message(bench.now, renew);
    for _ in 0..2 {
        open(&mut bench);
        bench.wait(crate::support::tick::TICK);
    }
    assert_eq!(special_links(&bench), 2, "the old one has not answered");
    // The new one has its place, and is idle: it goes.
    ask_in(&mut bench, "second", 2);
    assert_eq!(special_links(&bench), 2);
    ask_in(&mut bench, "third", 3);
    assert_eq!(special_links(&bench), 2);
    let (refused, why) = bench.error();
    assert_eq!(refused, code::OVERLOADED);
    assert!(why.contains("too many keyspaces"), "{why}");
    assert_eq!(bench.engine.contradictions(), Vec::<String>::new());
}
