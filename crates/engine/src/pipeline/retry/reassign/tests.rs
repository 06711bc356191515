use std::time::Duration;

use helenus_wire::{Opcode, Version};

use crate::config::Config;
use crate::testing::bench::{Asking, BIGINT, Bench, TABLE, no_rows};

const VOID: [u8; 4] = [0, 0, 0, 1];
const MS: fn(u64) -> Duration = Duration::from_millis;

/// Two nodes that have everything, and take one scan at a time.
fn bench() -> Bench {
    let mut config = Config::default();
    config.scheduling.scan_slots = 1;
    config.scheduling.scan_slots_idle = 1;
    config.scheduling.scan_slots_max = 1;
    // A node that says nothing is slow, and not suspected of being gone.
    config.links.silence_ms = 600_000;
    let mut bench = Bench::with_nodes(2, config, (Version::V5, Version::V5));
    // Of neither anything is known.
    bench.wait(MS(5_000));
    bench
}

fn scan(bench: &mut Bench, stream: i16) {
    let asking = Asking {
        page_size: Some(100),
        ..Asking::default()
    };
    let text = format!("SELECT total FROM app.orders LIMIT {stream}");
    bench.ask(Opcode::Query, stream, &asking.query(Version::V5, &text));
}

fn say_nothing_found(bench: &mut Bench, node: usize, stream: i16) {
    let nothing = no_rows(TABLE, &[("total", BIGINT)]);
    bench.say_as(node, Opcode::Result, stream, &nothing);
}

/// Of four scans, each node has one, and one more waits for it. Node 1 answers both of its own, node 0 says
/// nothing. Returns what node 1 is asked next, and after how long.
fn until_moved(bench: &mut Bench) -> (i16, Duration) {
    (1..=4).for_each(|stream| scan(bench, stream));
    let begun = bench.now;
    assert_eq!(bench.at(0).len(), 1);
    for _ in 0..2 {
        let sent = bench.at(1);
        let [(_, stream, _)] = sent[..] else {
            panic!("{sent:?}");
        };
        bench.wait(MS(10));
        say_nothing_found(bench, 1, stream);
    }
    assert_eq!(bench.answers().len(), 2);
    while bench.now < begun + MS(2_000) {
        if let Some((_, stream, _)) = bench.at(1).pop() {
            return (stream, bench.now - begun);
        }
        bench.wait(MS(50));
    }
    panic!("the scan that waits for node 0 stays there");
}

#[test]
fn what_waits_for_a_node_that_says_nothing_goes_to_another_owner() {
    let mut bench = bench();
    let (stream, after) = until_moved(&mut bench);
    assert!(after < MS(1_000), "{after:?}");
    say_nothing_found(&mut bench, 1, stream);
    assert_eq!(bench.answers().len(), 1);
    let moved = &bench.common.stats.global.scans_moved;
    assert_eq!(moved.load(std::sync::atomic::Ordering::Relaxed), 1);
    // The scan that the silent node has already stays there.
    assert!(bench.at(0).is_empty() && bench.at(1).is_empty());
}

#[test]
fn its_wait_is_no_time_at_the_node_that_takes_it() {
    let mut bench = bench();
    let (stream, after) = until_moved(&mut bench);
    assert!(after >= MS(200), "{after:?}");
    // Just less than nodes have for it, but more than that since it was asked.
    bench.wait(MS(11_900));
    say_nothing_found(&mut bench, 1, stream);
    let answers = bench.answers();
    let results = answers.iter().filter(|answer| answer.0 == Opcode::Result);
    assert_eq!(results.count(), 1, "{answers:?}");
}

/// Which of the nodes was asked, answered at once.
fn answered(bench: &mut Bench, nodes: usize) -> usize {
    let sent = (0..nodes).filter_map(|node| Some((node, bench.at(node).pop()?.1)));
    let sent: Vec<(usize, i16)> = sent.collect();
    let [(node, stream)] = sent[..] else {
        panic!("{sent:?}");
    };
    bench.say_as(node, Opcode::Result, stream, &VOID);
    assert_eq!(bench.answers().len(), 1);
    node
}

#[test]
fn a_slow_node_does_not_get_its_full_share_of_what_any_node_could_coordinate() {
    let mut config = Config::default();
    config.links.silence_ms = 600_000;
    let mut bench = Bench::with_nodes(3, config, (Version::V5, Version::V5));
    let text = r#"INSERT INTO app.orders JSON '{"customer": 1}'"#;
    let write = Asking::default().query(Version::V5, text);
    let mut asked = [0; 3];
    for _ in 0..60 {
        bench.ask(Opcode::Query, 1, &write);
        asked[answered(&mut bench, 3)] += 1;
        bench.wait(MS(10));
    }
    assert!(asked.iter().all(|asked| *asked > 5), "{asked:?}");
    // One of them keeps one of these to itself.
    bench.ask(Opcode::Query, 2, &write);
    let is_asked = |node: &usize| !bench.at(*node).is_empty();
    let slow = (0..3).find(is_asked).expect("one is asked");
    bench.wait(MS(1_000));
    for _ in 0..60 {
        bench.ask(Opcode::Query, 1, &write);
        assert_ne!(answered(&mut bench, 3), slow);
        bench.wait(MS(10));
    }
}

#[test]
fn equal_nodes_take_turns_with_scans_whose_beginning_is_not_known() {
    let mut bench = bench();
    let asking = Asking {
        page_size: Some(100),
        ..Asking::default()
    };
    let text = "SELECT total FROM app.orders WHERE token(customer) >= token(5)";
    let query = asking.query(Version::V5, text);
    let mut asked = [0; 2];
    for _ in 0..24 {
        bench.ask(Opcode::Query, 1, &query);
        let sent = (0..2).filter_map(|node| Some((node, bench.at(node).pop()?.1)));
        let sent: Vec<(usize, i16)> = sent.collect();
        let [(node, stream)] = sent[..] else {
            panic!("{sent:?}");
        };
        asked[node] += 1;
        say_nothing_found(&mut bench, node, stream);
        assert_eq!(bench.answers().len(), 1);
        // Until nothing is known of it any more.
        bench.wait(MS(5_000));
    }
    assert!(asked[0] > 2 && asked[1] > 2, "{asked:?}");
}
