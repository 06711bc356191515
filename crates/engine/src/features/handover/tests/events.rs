//! Events that come while a client is on its way.

use helenus_wire::{Compression, Opcode, Version, write};

use super::{Client, SECOND, adopt, begin, bench, next, pass, timetable};
use crate::features::handover::{end_passing, is_passing, keep_client};
use crate::output::Output;
use crate::session::connection::Next;
use crate::shared::{EventKind, WorkerMessage};
use crate::testing::bench::Bench;

/// A client that wants to hear of changes of the schema.
fn register(bench: &mut Bench, client: &mut Client) {
    let mut kinds = Vec::new();
    write::string_list(&mut kinds, &["SCHEMA_CHANGE"]);
    client.send(bench, &client.request(1, Opcode::Register, &kinds));
    assert_eq!(client.read(bench).len(), 1);
}

/// A process with such a client, and the one that the client is to come to.
fn two_processes() -> (Bench, Bench, Client) {
    let mut from = bench(Version::V5);
    let mut client = Client::connect(&mut from, Version::V5, Compression::None);
    register(&mut from, &mut client);
    (from, bench(Version::V5), client)
}

/// Of one kind or another, with the same words.
fn event(kind: EventKind) -> WorkerMessage {
    let mut body = Vec::new();
    for word in ["SCHEMA_CHANGE", "UPDATED", "KEYSPACE", "app"] {
        write::string(&mut body, word);
    }
    WorkerMessage::Event {
        kind,
        body: body.into(),
    }
}

#[test]
fn who_is_not_taken_over_is_served_again_and_hears_what_it_has_missed() {
    let mut from = bench(Version::V4);
    let mut client = Client::connect(&mut from, Version::V4, Compression::None);
    register(&mut from, &mut client);
    begin(&mut from, &client);
    let _passed = next(&mut from).expect("it is quiet");
    from.engine.on_message(from.now, event(EventKind::Schema));
    assert_eq!(client.read(&mut from), []);
    let outputs = |bench: &mut Bench| {
        std::iter::from_fn(|| bench.engine.poll_output())
            .filter(|output| matches!(output, Output::Client(key) if *key == client.key))
            .count()
    };
    outputs(&mut from);
    end_passing(&mut from.engine, from.now);
    assert!(outputs(&mut from) > 0, "its connection is looked at again");
    assert!(!is_passing(&from.engine));
    assert_eq!(client.next(&mut from), Some(Next::Read { leaving: false }));
    let events = client.read(&mut from);
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].0, events[0].1), (Opcode::Event, -1));
    // Now it leaves as any other.
    let timetable = timetable(&from);
    from.now += 9 * SECOND;
    from.engine.close_quiet_sessions(from.now, &timetable);
    assert_eq!(client.next(&mut from), Some(Next::Read { leaving: true }));
}

#[test]
fn a_client_hears_of_what_came_while_it_was_with_neither() {
    let (mut from, mut to, mut client) = two_processes();
    to.engine.on_message(to.now, event(EventKind::Schema));
    to.engine.on_message(to.now, event(EventKind::Topology));
    pass(&mut client, &mut from, &mut to);
    assert_eq!(client.read(&mut to).len(), 1, "what it has registered for");
    to.engine.on_message(to.now, event(EventKind::Schema));
    assert_eq!(client.read(&mut to).len(), 1, "and what comes later");
    assert_eq!(from.engine.bytes_held(), 0);
}

#[test]
fn a_client_is_not_told_again_what_it_has_been_told() {
    let (mut from, mut to, mut client) = two_processes();
    // Both hear of it, one a little later.
    from.engine.on_message(from.now, event(EventKind::Schema));
    assert_eq!(client.read(&mut from).len(), 1);
    from.now += SECOND / 10;
    to.now = from.now;
    to.engine.on_message(to.now, event(EventKind::Schema));
    pass(&mut client, &mut from, &mut to);
    assert_eq!(client.read(&mut to), []);
    // The event comes once more, when it is on its way back.
    begin(&mut to, &client);
    let passed = next(&mut to).expect("it is quiet");
    to.now += SECOND / 10;
    from.now = to.now;
    from.engine.on_message(from.now, event(EventKind::Schema));
    to.engine.on_message(to.now, event(EventKind::Schema));
    let key = adopt(&mut from, passed).expect("taken over");
    client.key = key;
    assert_eq!(client.read(&mut from).len(), 1, "what came in between");
}

/// The process that it comes to is the later one to hear of it.
#[test]
fn a_client_is_not_told_again_what_only_the_process_before_had_heard_of() {
    let (mut from, mut to, mut client) = two_processes();
    from.engine.on_message(from.now, event(EventKind::Schema));
    assert_eq!(client.read(&mut from).len(), 1);
    from.now += SECOND / 10;
    to.now = from.now;
    pass(&mut client, &mut from, &mut to);
    to.now += SECOND / 10;
    to.engine.on_message(to.now, event(EventKind::Schema));
    assert_eq!(client.read(&mut to), [], "it has had that");
    to.engine.on_message(to.now, event(EventKind::Schema));
    assert_eq!(client.read(&mut to).len(), 1, "another one");
    // Long after it came it is news in any case.
    begin(&mut to, &client);
    let passed = next(&mut to).expect("it is quiet");
    from.now = to.now;
    client.key = adopt(&mut from, passed).expect("taken over");
    from.now += 2 * SECOND;
    from.engine.on_message(from.now, event(EventKind::Schema));
    assert_eq!(client.read(&mut from).len(), 1);
}

#[test]
fn who_comes_back_hears_only_what_it_has_missed() {
    let mut from = bench(Version::V4);
    let mut client = Client::connect(&mut from, Version::V4, Compression::None);
    register(&mut from, &mut client);
    from.engine.on_message(from.now, event(EventKind::Schema));
    assert_eq!(client.read(&mut from).len(), 1);
    from.now += SECOND / 10;
    begin(&mut from, &client);
    let _passed = next(&mut from).expect("it is quiet");
    keep_client(&mut from.engine, from.now, client.key);
    assert_eq!(client.read(&mut from), [], "it has had that before");
}
