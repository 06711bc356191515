//! Statements that clients have prepared, for the other process.

use helenus_wire::{Compression, Opcode, Version};

use super::{COLUMNS, Client, adopt, begin, bench, next};
use crate::config::Config;
use crate::features::handover::keep_client;
use crate::output::Output;
use crate::session::login::credentials::Credentials;
use crate::statement::prepared::PassedStatement;
use crate::testing::bench::{Asking, BIGINT, Bench, VARCHAR};

#[test]
fn prepared_statements_are_known_to_the_other_as_they_were() {
    let (mut from, mut to) = (bench(Version::V5), bench(Version::V5));
    let text = "SELECT total FROM app.orders WHERE customer = ?";
    from.prepare(text, &[7; 16], &[("customer", BIGINT)], &COLUMNS);
    let named = "SELECT total FROM app.orders WHERE customer = 5 AND day = ?";
    from.prepare(named, &[8; 16], &[("day", BIGINT)], &COLUMNS);
    let in_keyspace = "INSERT INTO orders (customer, status) VALUES (?, ?)";
    let markers = [("customer", BIGINT), ("status", VARCHAR)];
    from.prepare_in("app", in_keyspace, &[9; 16], &markers);
    let passed: Vec<_> = from.common.statements_to_pass().collect();
    assert_eq!(passed.len(), 3);
    for statement in passed {
        to.common.adopt_statement(statement);
    }
    for statement in from.common.statements_to_pass() {
        let id = statement.id().to_vec();
        let here = from.engine.prepared(&id).expect("known");
        let there = to.engine.prepared(&id).expect("known");
        // Its counters and what it has learned do not move.
        let shown = |of: &dyn std::fmt::Debug| {
            let text = format!("{of:?}");
            text.split(", asked: ").next().map(str::to_owned)
        };
        assert_eq!(shown(&there), shown(&here));
    }
    knows_other_columns_than_some_clients(&from, &mut to);
    // It is neither looked up nor sent just anywhere.
    let token_aware = || {
        let stats = &to.common.stats.global;
        stats
            .requests_token_aware
            .load(std::sync::atomic::Ordering::Relaxed)
    };
    let before = token_aware();
    let asking = Asking {
        values: &[&1i64.to_be_bytes()],
        ..Asking::default()
    };
    to.ask(Opcode::Execute, 1, &asking.execute(Version::V5, &[7; 16]));
    assert_eq!(to.one_at_node().0, Opcode::Execute);
    assert!(
        !std::iter::from_fn(|| to.engine.poll_output()).any(|of| matches!(of, Output::Recall(_)))
    );
    let stats = &to.common.stats.global;
    let after = stats
        .requests_token_aware
        .load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(after, before + 1);
}

/// A client of the other may have a statement with the columns that it had there.
fn knows_other_columns_than_some_clients(from: &Bench, to: &mut Bench) {
    let same = from.common.statements_to_pass();
    same.for_each(|statement| to.common.adopt_statement(statement));
    let may_have_changed =
        |to: &mut Bench, id: &[u8]| to.engine.prepared(id).expect("known").may_have_changed();
    assert!(!may_have_changed(to, &[8; 16]), "nothing is new");
    let mut other = bench(Version::V5);
    let named = "SELECT total FROM app.orders WHERE customer = 5 AND day = ?";
    let more = [COLUMNS[0], ("status", VARCHAR)];
    other.prepare(named, &[8; 16], &[("day", BIGINT)], &more);
    let of_others = other.common.statements_to_pass();
    of_others.for_each(|statement| to.common.adopt_statement(statement));
    assert!(may_have_changed(to, &[8; 16]));
    assert!(!may_have_changed(to, &[7; 16]));
}

/// Bytes are neither written two for each nor one by one.
#[test]
fn bytes_are_written_as_they_are() {
    let mut from = bench(Version::V5);
    let text = "SELECT * FROM app.orders WHERE customer = ?";
    let (id, column) = ([0xEE; 16], "größe_in_äöü_über_alles_ÄÖÜ");
    from.prepare(text, &id, &[("customer", BIGINT)], &[(column, BIGINT)]);
    let statement = from.common.statements_to_pass().next().expect("one");
    let written = rmp_serde::to_vec_named(&statement).expect("written");
    for bytes in [&id[..], column.as_bytes()] {
        assert!(written.windows(bytes.len()).any(|of| of == bytes));
    }
    let read: PassedStatement = rmp_serde::from_slice(&written).expect("read");
    assert_eq!(read.id(), id);
    assert_eq!(rmp_serde::to_vec_named(&read).expect("written"), written);

    let token = Credentials::of_token(&id);
    let written = rmp_serde::to_vec_named(&token).expect("written");
    assert!(written.windows(id.len()).any(|of| of == id));
    let read: Credentials = rmp_serde::from_slice(&written).expect("read");
    assert!(read == token);

    // Part of a message that a client has sent.
    let mut client = Client::connect(&mut from, Version::V4, Compression::None);
    let query = client.query(1, &format!("SELECT '{column}'"));
    client.send(&mut from, &query[..query.len() - 1]);
    begin(&mut from, &client);
    let passed = next(&mut from).expect("it is quiet");
    let written = rmp_serde::to_vec_named(&passed).expect("written");
    let sent = &query[9..query.len() - 1];
    assert!(written.windows(sent.len()).any(|of| of == sent));
    let passed = rmp_serde::from_slice(&written).expect("read");
    keep_client(&mut from.engine, from.now, client.key);
    let mut to = bench(Version::V4);
    to.now = from.now;
    client.key = adopt(&mut to, passed).expect("taken over");
    client.send(&mut to, &query[query.len() - 1..]);
    let (opcode, _, body) = to.one_at_node();
    assert_eq!(opcode, Opcode::Query);
    assert!(body.windows(column.len()).any(|of| of == column.as_bytes()));
}

#[test]
fn what_was_used_lately_goes_first_and_is_kept_where_there_is_less_room() {
    let with_room = |bytes| {
        let mut config = Config::default();
        config.limits.prepared_bytes_max = bytes;
        Bench::with(config, (Version::V5, Version::V5))
    };
    let (mut from, to) = (with_room(1 << 20), with_room(1 << 18));
    let text =
        |number: u16| format!("SELECT total FROM app.orders WHERE customer = ? AND day = {number}");
    let mut last: u16 = 0;
    // Until some have been forgotten.
    while from.common.prepared_count() == usize::from(last) {
        last += 1;
        let id = [last.to_be_bytes(); 8].concat();
        from.prepare(&text(last), &id, &[("customer", BIGINT)], &COLUMNS);
    }
    let passed: Vec<_> = from.common.statements_to_pass().collect();
    let number =
        |statement: &PassedStatement| u16::from_be_bytes([statement.id()[0], statement.id()[1]]);
    let numbers: Vec<u16> = passed.iter().map(number).collect();
    let place = |wanted| numbers.iter().position(|number| *number == wanted);
    let oldest = *numbers.iter().min().expect("some");
    assert!(place(last) < place(oldest), "{numbers:?}");
    let first = number(&passed[0]);
    passed
        .into_iter()
        .for_each(|statement| to.common.adopt_statement(statement));
    let kept: Vec<u16> = to
        .common
        .statements_to_pass()
        .map(|of| number(&of))
        .collect();
    assert!(kept.len() < numbers.len() && kept.contains(&first));
    assert_eq!(
        kept.len(),
        numbers[..kept.len()]
            .iter()
            .filter(|of| kept.contains(of))
            .count()
    );
}
