use std::time::Duration;

use helenus_wire::{Opcode, Version, code, write};

use crate::config::Config;
use crate::features;
use crate::features::pause::operator_pause::Paused;
use crate::shared::WorkerMessage;
use crate::testing::bench::{Asking, BIGINT, Bench, Spec, rows};
use crate::worker_status::{ClientOrder, Report, Wanted};

const V5: (Version, Version) = (Version::V5, Version::V5);
const READ: &str = "SELECT total FROM app.others WHERE customer = 1";
const INSERT: &str = "INSERT INTO app.others (customer) VALUES (?)";
const MARKERS: [Spec; 1] = [("customer", BIGINT)];
const MINUTE: Duration = Duration::from_secs(60);

fn alone() -> Config {
    let mut config = Config::default();
    config.aggregation.share_reads = false;
    config
}

fn pause(bench: &mut Bench, keyspace: &str) {
    let paused = Paused::Keyspace(keyspace.into());
    let holds = &bench.common.features.pause;
    let begun = holds.begin(paused, bench.now, MINUTE, 10_000);
    begun.expect("a pause");
    bench.engine.on_message(
        bench.now,
        WorkerMessage::Feature(features::Message::Pause(features::pause::Changed)),
    );
}

fn resume(bench: &mut Bench) {
    bench.common.features.pause.end(None, bench.now);
    bench.engine.on_message(
        bench.now,
        WorkerMessage::Feature(features::Message::Pause(features::pause::Changed)),
    );
}

fn ask(bench: &mut Bench, stream: i16, text: &str) {
    let body = Asking::default().query(bench.versions.0, text);
    bench.ask(Opcode::Query, stream, &body);
}

/// A statement of a batch.
enum Child {
    Text(&'static str),
    Id([u8; 16]),
}

fn batch(bench: &mut Bench, stream: i16, children: &[Child]) {
    let mut body = vec![1];
    write::u16(&mut body, children.len() as u16);
    for child in children {
        match child {
            Child::Text(text) => {
                body.push(0);
                write::long_string(&mut body, text);
                write::u16(&mut body, 0);
            }
            Child::Id(id) => {
                body.push(1);
                write::short_bytes(&mut body, id);
                write::u16(&mut body, 1);
                write::bytes(&mut body, Some(&[1; 8]));
            }
        }
    }
    write::u16(&mut body, 6);
    write::u32(&mut body, 0);
    bench.ask(Opcode::Batch, stream, &body);
}

/// The client's session is in this keyspace from now on.
fn enter(bench: &mut Bench, keyspace: &str) {
    let by = ClientOrder::default();
    let Report::Clients(rows, _) = bench.report(Wanted::Clients { by, max: 1 }) else {
        panic!("clients were asked for");
    };
    bench
        .engine
        .stations()
        .clients
        .set_keyspace(rows[0].key, keyspace.into());
}

/// How many requests wait for each pause in force.
fn waiting(bench: &Bench) -> Vec<u32> {
    let holds = bench.common.features.pause.list(bench.now);
    holds.iter().map(|hold| hold.waiting()).collect()
}

#[test]
fn no_write_passes_the_pause_of_its_keyspace() {
    let mut bench = Bench::with(alone(), V5);
    bench.prepare_of(("app", "others"), INSERT, &[7; 16], &MARKERS);
    pause(&mut bench, "app");
    for (stream, text) in (1..).zip([
        "BEGIN BATCH INSERT INTO shop.a (k) VALUES (1); INSERT INTO app.others (customer) VALUES (1); APPLY BATCH",
        "DROP KEYSPACE app",
        "DROP INDEX app.i",
        "CREATE TYPE app.u (a int)",
        "TRUNCATE app.others",
        "this may be about any keyspace",
    ]) {
        ask(&mut bench, stream, text);
        assert_eq!(bench.at_node(), [], "{text}");
    }
    let other = || Child::Text("INSERT INTO shop.a (k) VALUES (1)");
    let text = Child::Text("INSERT INTO app.others (customer) VALUES (1)");
    batch(&mut bench, 11, &[text]);
    batch(&mut bench, 12, &[other(), Child::Id([7; 16])]);
    batch(&mut bench, 13, &[other(), Child::Id([9; 16])]);
    let asking = Asking {
        values: &[&[1; 8]],
        ..Asking::default()
    };
    bench.ask(Opcode::Execute, 14, &asking.execute(Version::V5, &[9; 16]));
    assert_eq!(bench.at_node(), []);
    batch(&mut bench, 15, &[other()]);
    assert_eq!(bench.one_at_node().0, Opcode::Batch, "it is on another");
}

#[test]
fn what_is_about_another_keyspace_passes_wherever_its_session_is() {
    let mut bench = Bench::with(alone(), V5);
    enter(&mut bench, "app");
    pause(&mut bench, "app");
    batch(
        &mut bench,
        1,
        &[Child::Text("INSERT INTO shop.a (k) VALUES (1)")],
    );
    assert_eq!(bench.at_node().len(), 1);
    ask(&mut bench, 2, "LIST ROLES");
    ask(&mut bench, 3, "USE shop");
    assert_eq!(waiting(&bench), [0]);
    batch(
        &mut bench,
        4,
        &[Child::Text("INSERT INTO others (customer) VALUES (1)")],
    );
    ask(&mut bench, 5, "CREATE TYPE u (a int)");
    assert_eq!(waiting(&bench), [2]);
}

#[test]
fn new_requests_do_not_overtake_those_that_have_waited() {
    let mut bench = Bench::with(alone(), V5);
    pause(&mut bench, "app");
    for stream in 0..300 {
        ask(&mut bench, stream, READ);
    }
    resume(&mut bench);
    let first = bench.at_node().len();
    assert!((1..300).contains(&first), "{first}");
    assert_eq!(bench.engine.deadline(), bench.now, "the next go on at once");
    ask(
        &mut bench,
        1_000,
        "SELECT total FROM app.others WHERE customer = 2",
    );
    assert_eq!(bench.at_node(), [], "it is the last");
    let mut sent = Vec::new();
    while bench.engine.deadline() <= bench.now {
        bench.engine.on_deadline(bench.now, Duration::ZERO);
        sent.extend(bench.at_node());
    }
    assert_eq!(first + sent.len(), 301);
    let is_new = |body: &[u8]| body.windows(12).any(|part| part == b"customer = 2");
    assert!(sent.last().is_some_and(|(.., body)| is_new(body)));
    // The next one finds nobody there.
    ask(&mut bench, 1_001, READ);
    assert_eq!(bench.at_node().len(), 1);
}

#[test]
fn use_passes_and_what_waits_stays_in_its_keyspace() {
    let mut bench = Bench::with(alone(), V5);
    enter(&mut bench, "app");
    pause(&mut bench, "app");
    ask(&mut bench, 1, "SELECT total FROM others WHERE customer = 1");
    enter(&mut bench, "shop");
    pause(&mut bench, "shop");
    assert_eq!(waiting(&bench), [1, 0]);
    let app = Paused::Keyspace("app".into());
    assert_eq!(
        bench.common.features.pause.end(Some(&app), bench.now).len(),
        1
    );
    bench.engine.on_message(
        bench.now,
        WorkerMessage::Feature(features::Message::Pause(features::pause::Changed)),
    );
    assert_eq!(waiting(&bench), [0], "it is not in the other keyspace");
    assert_eq!(bench.engine.requests_in_flight(), 1);
}

#[test]
fn what_waits_leaves_with_its_client_and_expires_with_the_pauses_name() {
    let mut config = alone();
    config.limits.request_timeout_ms = Some(2_000);
    let mut bench = Bench::with(config, V5);
    pause(&mut bench, "app");
    ask(&mut bench, 1, READ);
    bench.wait(Duration::from_millis(1_900));
    assert_eq!(bench.answers(), []);
    bench.wait(Duration::from_millis(300));
    let (error, text) = bench.error();
    assert_eq!(error, code::OVERLOADED);
    assert!(
        text.contains("keyspace app is paused") && text.contains("2s"),
        "{text}"
    );
    assert_eq!(bench.engine.contradictions(), Vec::<String>::new());
    ask(&mut bench, 2, READ);
    bench.leave();
    bench.wait(Duration::from_millis(200));
    assert_eq!(waiting(&bench), [0], "the pause goes on");
    assert_eq!(bench.engine.bytes_held(), 0);
}

#[test]
fn what_waits_takes_a_part_of_the_memory_and_its_overhead_counts() {
    let mut config = alone();
    config.limits.memory_max = Some(8 << 20);
    let mut bench = Bench::with(config, V5);
    pause(&mut bench, "app");
    let long = format!("{READ} /* {} */", "x".repeat(200_000));
    for stream in 0..5 {
        ask(&mut bench, stream, &long);
    }
    assert_eq!(bench.answers(), []);
    assert!(bench.engine.bytes_held() > 1_000_000);
    ask(&mut bench, 5, &long);
    let (error, text) = bench.error();
    assert_eq!(error, code::OVERLOADED);
    assert!(
        text.contains("keyspace app is paused") && text.contains("limits.memory_max"),
        "{text}"
    );
    resume(&mut bench);
    let sent = bench.at_node();
    assert_eq!(sent.len(), 5);
    let page = rows("others", &[("total", BIGINT)], None, &[]);
    for (_, stream, _) in sent {
        bench.say(Opcode::Result, stream, &page);
    }
    assert_eq!(bench.answers().len(), 5);
    bench.is_done();
}
