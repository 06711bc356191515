use helenus_catalogue::LEASE;
use std::time::Duration;

use helenus_layout::plan::Column;
use helenus_wire::{Opcode, QueryView, Version, code, write};

use crate::output::{Agreement, Output};
use crate::testing::bench::{Asking, BIGINT, Bench, VARCHAR, orders};
use crate::testing::{batch_of, open_links};

pub(super) const INSERT: &str =
    "INSERT INTO app.orders (customer, day, status) VALUES (1, 2, 'open')";

pub(super) fn ask(bench: &mut Bench, text: &str) {
    let body = Asking::default().query(bench.versions.0, text);
    bench.ask(Opcode::Query, 2, &body);
}

#[test]
fn what_layouts_cannot_follow_is_refused() {
    for text in [
        "INSERT INTO app.orders (customer, day, status) VALUES (1, 2, 'a') IF NOT EXISTS",
        "INSERT INTO app.orders (customer, day, status, total) VALUES (1, 2, uuid(), 4)",
        "DELETE FROM app.orders WHERE customer = 1 AND day = 2",
        "DELETE FROM app.orders WHERE customer = 1 AND day > 2",
        "BEGIN BATCH DELETE FROM app.orders WHERE customer = 1 AND day = 2 APPLY BATCH",
        "ALTER TABLE app.orders ADD other list<int>",
        "ALTER TABLE app.orders ADD other timestamp",
        "ALTER TABLE app.orders DROP COMPACT STORAGE",
        "ALTER TABLE app.orders RENAME day TO date",
        "ALTER TABLE app.orders WITH default_time_to_live = 60",
        "ALTER TABLE app.orders__layout_a WITH comment = 'x'",
        "/* a comment */ DROP TABLE app.orders",
        "DROP KEYSPACE app",
        "DROP COLUMNFAMILY app.orders",
        "DROP SCHEMA IF EXISTS app",
        "INSERT INTO app.orders__layout_a (customer, day, status) VALUES (1, 2, 'a')",
        "BEGIN BATCH DELETE FROM app.orders__layout_a WHERE customer = 1 APPLY BATCH",
        "TRUNCATE app.orders__layout_a",
        "TRUNCATE app.orders",
        "TRUNCATE TABLE app.orders",
        "ALTER TABLE app.orders__layout_a ADD other int",
        "DROP TABLE IF EXISTS app.orders__layout_a",
        "CREATE INDEX ON app.orders__layout_a (total)",
    ] {
        let mut bench = Bench::new(Version::V4, Version::V4);
        ask(&mut bench, text);
        let (code, why) = bench.error();
        assert!(
            code == code::INVALID && why.contains("layout"),
            "{text}: {why}"
        );
        assert!(
            why.contains("app.orders") || why.contains("keyspace app"),
            "{text}: {why}"
        );
        bench.is_done();
    }
}

#[test]
fn what_has_nothing_to_do_with_layouts_goes_as_it_came() {
    for text in [
        "SELECT * FROM app.orders",
        "SELECT * FROM app.orders WHERE customer = 1 AND day = 2",
        "INSERT INTO app.others (customer) VALUES (1) IF NOT EXISTS",
        "CREATE INDEX ON app.orders (total)",
        "SELECT * FROM app.orders__layout_a WHERE customer = 1",
        "GRANT SELECT ON app.orders__layout_a TO clerk",
        "ALTER TABLE app.others ADD a int",
        "DROP KEYSPACE other",
        "GRANT SELECT ON KEYSPACE app TO orders",
        "GRANT SELECT ON app.others TO orders",
        "REVOKE orders FROM role",
        "LIST ALL PERMISSIONS ON app.orders",
        "TRUNCATE app.others",
    ] {
        let mut bench = Bench::new(Version::V4, Version::V4);
        ask(&mut bench, text);
        let sent = Asking::default().query(Version::V4, text);
        let found = bench.at_node();
        let plain = found
            .iter()
            .any(|(_, _, body)| body.starts_with(&sent[..text.len() + 4]));
        assert!(found.len() == 1 && plain, "{text}: {found:?}");
    }
}

/// A bench whose link takes one request at a time, and in which everything may wait for long.
fn narrow() -> Bench {
    let mut config = crate::config::Config::default();
    config.layouts.enabled = true;
    config.links.in_flight_max = 1;
    config.scheduling.write_wait_max_ms = 60_000;
    config.scheduling.point_wait_max_ms = 60_000;
    config.limits.request_timeout_ms = Some(60_000);
    config.links.probe_timeout_ms = 600_000;
    let bench = Bench::with(config, (Version::V4, Version::V4));
    bench.renew();
    bench
}

#[test]
fn a_write_that_has_waited_for_longer_than_the_lease_is_not_sent() {
    let mut bench = narrow();
    ask(&mut bench, INSERT);
    let (_, stream, _) = bench.one_at_node();
    ask(&mut bench, INSERT);
    assert_eq!(bench.at_node(), []);
    bench.wait(LEASE);
    bench.say(Opcode::Result, stream, &1_i32.to_be_bytes());
    let answers = bench.answers();
    let codes: Vec<Opcode> = answers.iter().map(|(opcode, ..)| *opcode).collect();
    assert_eq!(codes, [Opcode::Result, Opcode::Error]);
    let (_, _, body) = &answers[1];
    let error = helenus_wire::ErrorBody::parse(body).expect("an error");
    assert_eq!(error.code, code::OVERLOADED, "{}", error.message);
    bench.is_done();
}

#[test]
fn what_is_only_known_to_the_nodes_is_prepared_again() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let body = Asking::default().execute(Version::V4, b"strange");
    bench.ask(Opcode::Execute, 2, &body);
    let (code, why) = bench.error();
    assert_eq!(code, code::UNPREPARED, "{why}");
    bench.wait(Duration::from_millis(100));
    assert_eq!(bench.at_node(), []);
}

#[test]
fn a_read_of_a_layout_that_has_waited_for_longer_than_the_lease_goes_to_the_table() {
    let mut bench = narrow();
    ask(&mut bench, INSERT);
    let (_, stream, _) = bench.one_at_node();
    let read = "SELECT day FROM app.orders WHERE customer = 7 AND status = 'open' ALLOW FILTERING";
    ask(&mut bench, read);
    assert_eq!(bench.at_node(), []);
    bench.wait(LEASE);
    bench.say(Opcode::Result, stream, &1_i32.to_be_bytes());
    assert_eq!(bench.answer().0, Opcode::Result);
    let (opcode, stream, body) = bench.one_at_node();
    let sent = Asking::default().query(Version::V4, read);
    assert_eq!((opcode, body), (Opcode::Query, sent));
    bench.say(Opcode::Result, stream, &1_i32.to_be_bytes());
    assert_eq!(bench.answer().0, Opcode::Result);
    bench.is_done();
}

#[test]
fn a_batch_that_begins_with_a_table_of_the_system_is_fenced() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let system = "INSERT INTO system_auth.roles (role) VALUES (?)";
    bench.prepare_of(
        ("system_auth", "roles"),
        system,
        b"roles",
        &[("role", VARCHAR)],
    );
    let text = format!("BEGIN BATCH {system}; {INSERT} APPLY BATCH");
    bench.prepare_of(
        ("system_auth", "roles"),
        &text,
        b"text",
        &[("role", VARCHAR)],
    );
    bench.wait(LEASE);
    let mut body = vec![0, 0, 2, 1];
    write::short_bytes(&mut body, b"roles");
    write::u16(&mut body, 1);
    write::bytes(&mut body, Some(b"clerk"));
    body.push(0);
    write::long_string(&mut body, INSERT);
    write::u16(&mut body, 0);
    write::u16(&mut body, 6);
    body.push(0);
    bench.ask(Opcode::Batch, 2, &body);
    assert_eq!(bench.error().0, code::OVERLOADED);
    let asking = Asking {
        values: &[b"clerk"],
        ..Asking::default()
    };
    let body = asking.execute(Version::V4, b"text");
    bench.ask(Opcode::Execute, 2, &body);
    assert_eq!(bench.error().0, code::OVERLOADED);
    bench.is_done();
}

const ODD: &str = "INSERT INTO orders (customer) SOMEHOW";

#[test]
fn a_statement_of_a_batch_that_is_not_understood_is_refused() {
    let mut bench = Bench::new(Version::V5, Version::V5);
    bench.prepare_in("app", ODD, b"odd", &[]);
    let qualified = ODD.replace("orders", "app.orders");
    for odd in [Ok(&*qualified), Err(&b"odd"[..])] {
        let known = Ok("INSERT INTO app.others (customer) VALUES (1)");
        let body = batch_of(Version::V5, 0, &[known, odd]);
        bench.ask(Opcode::Batch, 2, &body);
        let (code, why) = bench.error();
        assert!(code == code::INVALID && why.contains("app.orders"), "{why}");
    }
    bench.is_done();
}

#[test]
fn what_was_prepared_is_about_the_keyspace_of_then() {
    let mut bench = Bench::new(Version::V5, Version::V5);
    bench.prepare_in("app", ODD, b"odd", &[]);
    bench.prepare_in("other", ODD, b"others", &[]);
    let execute = |bench: &mut Bench, id: &[u8]| {
        let body = Asking::default().execute(Version::V5, id);
        bench.ask(Opcode::Execute, 2, &body);
    };
    execute(&mut bench, b"odd");
    let (code, why) = bench.error();
    assert!(code == code::INVALID && why.contains("app.orders"), "{why}");
    execute(&mut bench, b"others");
    assert_eq!(bench.at_node().len(), 1);
}

#[test]
fn an_odd_name_is_found_in_a_text_that_is_not_understood() {
    let mut table = orders(true);
    table.name = "my\"Orders".to_owned();
    let mut bench = Bench::new(Version::V4, Version::V4);
    bench.adopt(table);
    ask(
        &mut bench,
        "INSERT INTO app.\"my\"\"Orders\" (customer) SOMEHOW",
    );
    assert_eq!(bench.error().0, code::INVALID);
    ask(
        &mut bench,
        "INSERT INTO app.\"my\"\"Other\" (customer) SOMEHOW",
    );
    assert_eq!(bench.at_node().len(), 1);
}

#[test]
fn what_only_the_nodes_know_is_fenced_while_there_are_no_layouts() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    bench.adopt_none();
    bench.renew();
    let body = Asking::default().execute(Version::V4, b"strange");
    bench.ask(Opcode::Execute, 3, &body);
    bench.now += LEASE;
    // It has waited for a connection of its own.
    open_links(&mut bench.engine, bench.now, Version::V4);
    let (code, why) = bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("has become too old"),
        "{why}"
    );
    bench.ask(Opcode::Execute, 3, &body);
    assert_eq!(bench.error().0, code::UNPREPARED, "the lease has run out");
}

#[test]
fn reads_at_serial_are_refused_and_fenced() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let read = |table: &str, consistency: u16| {
        let mut body = Vec::new();
        let text = format!("SELECT day FROM app.{table} WHERE customer = 1");
        write::long_string(&mut body, &text);
        write::u16(&mut body, consistency);
        body.push(0);
        body
    };
    for serial in [8, 9] {
        bench.ask(Opcode::Query, 2, &read("orders", serial));
        let (code, why) = bench.error();
        assert!(code == code::INVALID && why.contains("QUORUM"), "{why}");
        bench.ask(Opcode::Query, 2, &read("others", serial));
        let (_, stream, _) = bench.one_at_node();
        bench.say(Opcode::Result, stream, &1_i32.to_be_bytes());
        assert_eq!(bench.answer().0, Opcode::Result);
    }
    bench.prepare(
        "SELECT day FROM app.orders WHERE customer = ?",
        b"own",
        &[("customer", BIGINT)],
        &[("day", BIGINT)],
    );
    let mut body = Asking::default().execute(Version::V4, b"own");
    let consistency = body.len() - 3;
    body[consistency..consistency + 2].copy_from_slice(&8_u16.to_be_bytes());
    bench.ask(Opcode::Execute, 2, &body);
    assert_eq!(bench.error().0, code::INVALID);
    bench.wait(LEASE);
    bench.ask(Opcode::Query, 2, &read("others", 8));
    assert_eq!(bench.error().0, code::OVERLOADED);
    bench.ask(Opcode::Query, 2, &read("others", 6));
    assert_eq!(bench.at_node().len(), 1);
}

#[test]
fn a_prepared_grant_is_about_the_keyspace_of_then() {
    let mut bench = Bench::new(Version::V5, Version::V5);
    let own = "GRANT SELECT ON orders TO clerk";
    bench.prepare_in("app", own, b"own", &[]);
    bench.prepare_in("other", own, b"others", &[]);
    for (id, is_copied) in [(&b"own"[..], true), (b"others", false)] {
        let body = Asking::default().execute(Version::V5, id);
        bench.ask(Opcode::Execute, 2, &body);
        bench.wait(Duration::from_millis(100));
        let asked = bench.at_node();
        let copied = asked.iter().any(|(opcode, _, body)| {
            let view = QueryView::parse(body, Version::V5);
            *opcode == Opcode::Query
                && view.is_ok_and(|view| view.text.contains("app.orders__layout_a"))
        });
        assert_eq!(copied, is_copied, "{asked:?}");
    }
}

#[test]
fn a_prepared_truncate_is_refused_too() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    bench.prepare("TRUNCATE app.orders", b"own", &[], &[]);
    let body = Asking::default().execute(Version::V4, b"own");
    bench.ask(Opcode::Execute, 2, &body);
    let (code, why) = bench.error();
    assert_eq!(code, code::INVALID);
    assert!(why.contains("helenus layouts truncate app.orders"), "{why}");
    bench.is_done();
}

#[test]
fn a_right_that_a_layout_does_not_get_is_not_given_on_the_table() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    ask(&mut bench, "GRANT SELECT ON app.orders TO clerk");
    let (_, stream, _) = bench.one_at_node();
    bench.say_error(stream, code::UNAUTHORIZED, "no", &[]);
    assert_eq!(bench.error(), (code::UNAUTHORIZED, "no".to_owned()));
    bench.is_done();
}

#[test]
fn rights_on_a_table_are_rights_on_its_layouts() {
    for (own, copy) in [
        (
            "GRANT SELECT ON TABLE app.orders TO clerk",
            "GRANT SELECT ON TABLE app.orders__layout_a TO clerk",
        ),
        (
            "revoke all permissions on \"app\" . orders from \"orders\"",
            "revoke all permissions on app.orders__layout_a from \"orders\"",
        ),
    ] {
        let mut bench = Bench::new(Version::V4, Version::V4);
        ask(&mut bench, own);
        for text in [copy, own] {
            assert_eq!(bench.answers(), []);
            let (opcode, stream, body) = bench.one_at_node();
            let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
            assert_eq!((opcode, view.text), (Opcode::Query, text));
            bench.say(Opcode::Result, stream, &1_i32.to_be_bytes());
        }
        assert_eq!(bench.answer().0, Opcode::Result);
        bench.is_done();
    }
}

/// The RESULT of a schema change.
pub(super) fn altered(table: &str) -> Vec<u8> {
    let mut body = 5_i32.to_be_bytes().to_vec();
    for text in ["UPDATED", "TABLE", "app", table] {
        write::string(&mut body, text);
    }
    body
}

#[test]
fn options_of_storage_and_new_columns_are_carried_to_layouts_before_the_table() {
    for (own, copy) in [
        (
            "ALTER TABLE app.orders ADD other int",
            "ALTER TABLE app.orders__layout_a ADD other int",
        ),
        (
            "ALTER TABLE app.orders WITH comment = 'orders' AND gc_grace_seconds = 86400",
            "ALTER TABLE app.orders__layout_a WITH comment = 'orders' AND gc_grace_seconds = 86400",
        ),
        (
            "alter columnfamily if exists \"app\".orders with caching = {'keys': 'NONE'};",
            "alter columnfamily if exists app.orders__layout_a with caching = {'keys': 'NONE'};",
        ),
    ] {
        for fails in [false, true] {
            let mut bench = Bench::new(Version::V4, Version::V4);
            ask(&mut bench, own);
            let (opcode, stream, body) = bench.one_at_node();
            let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
            assert_eq!((opcode, view.text), (Opcode::Query, copy));
            if fails {
                bench.say_error(stream, code::CONFIG, "no", &[]);
                assert_eq!(bench.error(), (code::CONFIG, "no".to_owned()));
                bench.is_done();
                continue;
            }
            bench.say(Opcode::Result, stream, &altered("orders__layout_a"));
            assert_eq!(bench.answers(), [], "the client hears of its table only");
            let (_, stream, body) = bench.one_at_node();
            let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
            assert_eq!(view.text, own);
            bench.say(Opcode::Result, stream, &altered("orders"));
            let mut outputs = std::iter::from_fn(|| bench.engine.poll_output());
            let held = outputs.find_map(|output| match output {
                Output::Agree(held) => Some(held),
                _ => None,
            });
            let held = held.expect("a wait");
            bench
                .engine
                .on_agreed(bench.now, &held, &Agreement::Reached);
            assert_eq!(bench.answer(), (Opcode::Result, altered("orders")));
            bench.is_done();
        }
    }
}

#[test]
fn a_sequence_that_takes_longer_than_a_lease_goes_on_under_the_next() {
    const ADD: &str = "ALTER TABLE app.orders ADD other int";
    // The lease is renewed meanwhile; the table has the same layouts then.
    for (renewed, is_still) in [(true, true), (false, true), (true, false)] {
        let mut bench = Bench::new(Version::V4, Version::V4);
        bench.wait(LEASE - Duration::from_secs(1));
        ask(&mut bench, ADD);
        let (_, stream, _) = bench.one_at_node();
        for _ in 0..2 {
            bench.wait(Duration::from_millis(900));
            if renewed {
                bench.renew();
            }
        }
        if !is_still {
            let mut table = orders(true);
            let mut another = table.copies[0].clone();
            another.physical = "orders__layout_b".to_owned();
            table.copies.push(another);
            bench.adopt(table);
        }
        bench.say(Opcode::Result, stream, &altered("orders__layout_a"));
        if renewed && is_still {
            let (_, _, body) = bench.one_at_node();
            let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
            assert_eq!(view.text, ADD);
        } else {
            assert_eq!(bench.error().0, code::OVERLOADED);
        }
    }
}

#[test]
fn a_layout_that_has_a_column_already_does_not_keep_the_table_from_it() {
    const ADD: &str = "ALTER TABLE app.orders ADD other int";
    let mut bench = Bench::new(Version::V4, Version::V4);
    let mut table = orders(true);
    table.copies[0].readable = false;
    table.copies[0].further.push(Column {
        name: "other".to_owned(),
        cql_type: "int".to_owned(),
        is_static: false,
    });
    bench.adopt(table);
    ask(&mut bench, ADD);
    let (_, _, body) = bench.one_at_node();
    let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
    assert_eq!(view.text, ADD, "on the table at once");
}

#[test]
fn a_write_that_is_not_understood_is_refused_where_it_names_a_table_with_layouts() {
    let odd = "INSERT INTO app.orders (customer) SOMEHOW";
    let mut bench = Bench::new(Version::V4, Version::V4);
    ask(&mut bench, odd);
    let (code, why) = bench.error();
    assert!(code == code::INVALID && why.contains("app.orders"), "{why}");
    ask(&mut bench, &odd.replace("orders", "others"));
    assert_eq!(bench.at_node().len(), 1);
    bench.wait(LEASE);
    bench.answers();
    ask(&mut bench, &odd.replace("orders", "others"));
    assert_eq!(bench.error().0, code::OVERLOADED);
}

#[test]
fn the_catalogue_is_not_changed_by_clients() {
    let key = "keyspace_name = 'app' AND table_name = 'orders'";
    for text in [
        "DROP KEYSPACE helenus".to_owned(),
        "DROP TABLE helenus.layouts".to_owned(),
        "ALTER KEYSPACE helenus WITH durable_writes = false".to_owned(),
        "TRUNCATE helenus.layouts".to_owned(),
        format!("DELETE FROM helenus.layouts WHERE {key}"),
        format!("BEGIN BATCH DELETE FROM helenus.layouts WHERE {key}; APPLY BATCH"),
    ] {
        for has_layouts in [true, false] {
            let mut bench = Bench::new(Version::V4, Version::V4);
            if !has_layouts {
                if text.starts_with("BEGIN") {
                    // There is nothing to lose.
                    continue;
                }
                bench.adopt_none();
            }
            ask(&mut bench, &text);
            let (code, why) = bench.error();
            assert!(
                code == code::INVALID && why.contains("helenus layouts"),
                "{text}: {why}"
            );
            bench.is_done();
        }
    }
    let mut bench = Bench::new(Version::V4, Version::V4);
    ask(&mut bench, "SELECT * FROM helenus.catalogue");
    assert_eq!(bench.at_node().len(), 1);
}

#[test]
fn flags_are_not_changed_by_clients() {
    for text in [
        "DROP TYPE \"layouts app.orders 1\"",
        "CREATE TYPE IF NOT EXISTS \"layouts app.others 1\" (flag int)",
    ] {
        let qualified = text.replacen('"', "helenus.\"", 1);
        let mut bench = Bench::new(Version::V5, Version::V5);
        ask(&mut bench, &qualified);
        assert_eq!(bench.error().0, code::INVALID, "{qualified}");
        bench.prepare_in("helenus", text, b"own", &[]);
        bench.prepare_in("app", text, b"others", &[]);
        let body = Asking::default().execute(Version::V5, b"own");
        bench.ask(Opcode::Execute, 2, &body);
        assert_eq!(bench.error().0, code::INVALID, "{text}");
        bench.is_done();
        let body = Asking::default().execute(Version::V5, b"others");
        bench.ask(Opcode::Execute, 2, &body);
        assert_eq!(bench.at_node().len(), 1, "{text}");
    }
}

#[test]
fn without_a_lease_nothing_is_defined_and_no_right_is_changed() {
    for text in [
        "ALTER TABLE app.others ADD other int",
        "CREATE TABLE app.more (k int PRIMARY KEY)",
        "DROP KEYSPACE other",
        "GRANT SELECT ON app.others TO clerk",
        "REVOKE SELECT ON app.others FROM clerk",
    ] {
        let mut bench = Bench::new(Version::V4, Version::V4);
        bench.adopt_none();
        bench.wait(LEASE + Duration::from_secs(1));
        ask(&mut bench, text);
        let (code, why) = bench.error();
        assert!(
            code == code::OVERLOADED && why.contains("no node has told"),
            "{text}: {why}"
        );
        bench.renew();
        ask(&mut bench, text);
        assert_eq!(bench.at_node().len(), 1, "{text}");
    }
    let mut bench = Bench::new(Version::V4, Version::V4);
    bench.wait(LEASE + Duration::from_secs(1));
    ask(&mut bench, "LIST ROLES");
    assert_eq!(bench.at_node().len(), 1);
}
