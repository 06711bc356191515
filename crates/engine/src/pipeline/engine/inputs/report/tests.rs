use std::sync::atomic::Ordering;
use std::time::Duration;

use helenus_wire::{Opcode, Version, code};

use crate::config::Config;
use crate::features;
use crate::features::pause::operator_pause::Paused;
use crate::session::connection::Next;
use crate::shared::WorkerMessage;
use crate::testing::bench::{Asking, BIGINT, Bench, Spec, rows};
use crate::worker_status::{ClientOrder, ClientRow, Report, Wanted};

const READ: &str = "SELECT total FROM app.others WHERE customer = 'secret'";
const COLUMNS: [Spec; 1] = [("total", BIGINT)];
const VERSIONS: [(Version, Version); 2] = [(Version::V4, Version::V5), (Version::V5, Version::V5)];

fn ask(bench: &mut Bench, stream: i16, text: &str) {
    let body = Asking::default().query(bench.versions.0, text);
    bench.ask(Opcode::Query, stream, &body);
}

/// The node answers what it has been asked, after this time.
fn answer_after(bench: &mut Bench, time: Duration) {
    let (opcode, stream, _) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Query);
    bench.now += time;
    let page = rows("others", &COLUMNS, None, &[&[0; 8], &[1; 8]]);
    bench.say(Opcode::Result, stream, &page);
    assert_eq!(bench.answer().0, Opcode::Result);
}

fn client(bench: &mut Bench) -> ClientRow {
    let by = ClientOrder::default();
    match bench.report(Wanted::Clients { by, max: 10 }) {
        Report::Clients(mut rows, 1) => rows.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn clients_that_are_idle_for_too_long_are_closed_and_none_that_waits() {
    let mut bench = Bench::with(Config::default(), VERSIONS[0]);
    let closed = |bench: &mut Bench, seconds| match bench
        .report(Wanted::CloseIdle(Duration::from_secs(seconds)))
    {
        Report::IdleClosed(clients) => clients,
        other => panic!("{other:?}"),
    };
    ask(&mut bench, 1, READ);
    bench.now += Duration::from_secs(3);
    let row = client(&mut bench);
    assert_eq!(closed(&mut bench, 2), 0, "it waits for an answer");
    answer_after(&mut bench, Duration::ZERO);
    bench.now += Duration::from_secs(3);
    assert_eq!(closed(&mut bench, 4), 0, "it was answered 3 s ago");
    assert_eq!(closed(&mut bench, 3), 1);
    assert_eq!(closed(&mut bench, 3), 0, "it is leaving");
    let next = bench.engine.next_for_client(bench.now, row.key);
    assert_eq!(next, Some(Next::Read { leaving: true }));
    bench.leave();
}

#[test]
fn a_client_is_shown_and_can_be_killed() {
    let mut bench = Bench::with(Config::default(), VERSIONS[0]);
    ask(&mut bench, 1, READ);
    bench.now += Duration::from_secs(3);
    let row = client(&mut bench);
    assert_eq!((row.numbers.in_flight, row.numbers.requests), (1, 1));
    assert_eq!((row.version, row.is_ready), (Some(Version::V4), true));
    assert!(row.numbers.bytes_in > 0 && row.numbers.bytes_out > 0);
    assert_eq!(
        (row.numbers.age.as_secs(), row.numbers.idle.as_secs()),
        (3, 3)
    );
    answer_after(&mut bench, Duration::ZERO);
    assert_eq!(client(&mut bench).numbers.in_flight, 0);
    let killed = bench.report(Wanted::Kill(row.key));
    assert!(matches!(killed, Report::Killed(true)));
    let next = bench.engine.next_for_client(bench.now, row.key);
    assert_eq!(next, Some(Next::Close));
    bench.leave();
    let again = bench.report(Wanted::Kill(row.key));
    assert!(matches!(again, Report::Killed(false)));
}

#[test]
fn of_many_clients_those_are_listed_that_come_first() {
    let mut bench = Bench::with(Config::default(), VERSIONS[1]);
    for port in 0..20 {
        let permit = bench.common.admit_client().expect("few clients");
        let address = std::net::SocketAddr::from(([127, 0, 0, 2], port));
        let at = bench.now + Duration::from_secs(port.into());
        bench.engine.open_session(at, address, at, permit);
    }
    bench.now += Duration::from_secs(60);
    let mut oldest = |max: usize| {
        let by = ClientOrder::Age;
        match bench.report(Wanted::Clients { by, max }) {
            Report::Clients(rows, all) => {
                assert_eq!(all, 21);
                rows.iter()
                    .map(|row| row.numbers.age.as_secs())
                    .collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(oldest(4), [60, 60, 59, 58]);
    assert!(oldest(0).is_empty());
    assert_eq!((oldest(21).len(), oldest(100).len()), (21, 21));
}

/// Pauses `app`, for so many requests, and tells the engine.
fn pause(bench: &mut Bench, time: Duration, max: u32) {
    let keyspace = Paused::Keyspace("app".into());
    let holds = &bench.common.features.pause;
    holds
        .begin(keyspace, bench.now, time, max)
        .expect("a pause");
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

#[test]
fn paused_requests_wait_and_all_of_them_go_on() {
    for versions in VERSIONS {
        let mut config = Config::default();
        config.aggregation.share_reads = false;
        let mut bench = Bench::with(config, versions);
        pause(&mut bench, Duration::from_secs(60), 1_000);
        for stream in 0..300 {
            ask(&mut bench, stream, READ);
        }
        assert_eq!(bench.at_node(), [], "nothing is sent");
        assert_eq!(client(&mut bench).numbers.in_flight, 300);
        assert!(bench.engine.bytes_held() > 300 * READ.len());
        assert_eq!(bench.engine.contradictions(), Vec::<String>::new());
        ask(&mut bench, 400, "SELECT key FROM system.local");
        let (_, stream, _) = bench.one_at_node();
        bench.say_error(stream, code::SERVER, "drivers may connect", &[]);
        assert_eq!(bench.error().1, "drivers may connect");
        let asked = bench
            .common
            .stats
            .global
            .requests_query
            .load(Ordering::Relaxed);
        resume(&mut bench);
        // The first of them have gone on at once, the others with the next beats.
        bench.wait(Duration::from_millis(200));
        let sent = bench.at_node();
        assert_eq!(sent.len(), 300);
        let page = rows("others", &COLUMNS, None, &[]);
        for (_, stream, _) in sent {
            bench.say(Opcode::Result, stream, &page);
        }
        let mut streams: Vec<i16> = bench
            .answers()
            .iter()
            .map(|(_, stream, _)| *stream)
            .collect();
        streams.sort_unstable();
        assert_eq!(
            streams,
            (0..300).collect::<Vec<i16>>(),
            "each is answered once"
        );
        let counted = bench
            .common
            .stats
            .global
            .requests_query
            .load(Ordering::Relaxed);
        assert_eq!(counted, asked, "and counted once");
        bench.is_done();
    }
}

#[test]
fn a_pause_ends_by_itself_and_what_is_too_much_is_refused_by_its_name() {
    let mut bench = Bench::with(Config::default(), VERSIONS[1]);
    pause(&mut bench, Duration::from_secs(2), 1);
    ask(&mut bench, 1, READ);
    ask(&mut bench, 2, "SELECT total FROM others WHERE customer = 1");
    assert_eq!(bench.at_node().len(), 1, "it is in no keyspace");
    ask(&mut bench, 3, READ);
    let (code, text) = bench.error();
    assert_eq!(code, code::OVERLOADED);
    assert!(text.contains("keyspace app is paused"), "{text}");
    assert!(bench.engine.deadline() <= bench.now + Duration::from_secs(2));
    bench.wait(Duration::from_millis(1_900));
    assert_eq!(bench.at_node(), []);
    bench.wait(Duration::from_millis(200));
    answer_after(&mut bench, Duration::from_millis(1));
    // The next one need not wait.
    ask(&mut bench, 4, READ);
    answer_after(&mut bench, Duration::from_millis(1));
}

#[test]
fn what_a_client_has_asked_goes_with_it_while_it_waits() {
    let mut bench = Bench::with(Config::default(), VERSIONS[1]);
    pause(&mut bench, Duration::from_secs(60), 10);
    ask(&mut bench, 1, READ);
    bench.leave();
    resume(&mut bench);
    assert_eq!(bench.at_node(), []);
    assert_eq!(bench.engine.requests_in_flight(), 0);
    assert_eq!(bench.engine.bytes_held(), 0);
    assert_eq!(bench.engine.contradictions(), Vec::<String>::new());
}

#[test]
fn batches_prepared_statements_and_sessions_belong_to_their_keyspace() {
    let mut bench = Bench::with(Config::default(), VERSIONS[1]);
    const INSERT: &str = "INSERT INTO app.others (customer) VALUES (?)";
    let markers: [Spec; 1] = [("customer", BIGINT)];
    bench.prepare_of(("app", "others"), INSERT, &[7; 16], &markers);
    pause(&mut bench, Duration::from_secs(60), 10);
    let asking = Asking {
        values: &[&[1; 8]],
        ..Asking::default()
    };
    bench.ask(Opcode::Execute, 1, &asking.execute(Version::V5, &[7; 16]));
    assert_eq!(bench.at_node(), []);
    // A statement that is prepared meanwhile does not wait.
    let mut body = Vec::new();
    helenus_wire::write::long_string(&mut body, READ);
    helenus_wire::write::u32(&mut body, 0);
    bench.ask(Opcode::Prepare, 2, &body);
    assert_eq!(bench.one_at_node().0, Opcode::Prepare);
    resume(&mut bench);
    assert_eq!(bench.one_at_node().0, Opcode::Execute);
}
