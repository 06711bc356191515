//! Requests while flags or catalogue cannot be read, or have lost what they said of a table.

use helenus_catalogue::LEASE;
use helenus_wire::{Opcode, Version, code};

use super::rules::{INSERT, ask};
use crate::testing::batch_of;
use crate::testing::bench::{Asking, BIGINT, Bench};

#[test]
fn without_a_lease_nothing_is_written() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    bench.wait(LEASE);
    for text in [
        INSERT,
        "INSERT INTO app.others (customer) VALUES (1)",
        "UPDATE app.orders SET total = 1 WHERE customer = 1 AND day = 2 AND status = 'a'",
        "DELETE FROM app.orders WHERE customer = 1",
        "TRUNCATE app.orders",
        "BEGIN BATCH INSERT INTO app.others (customer) VALUES (1) APPLY BATCH",
    ] {
        ask(&mut bench, text);
        let (code, why) = bench.error();
        assert_eq!(code, code::OVERLOADED, "{text}: {why}");
        let unread = match text.contains("app.others") {
            true => "no node has told for 10 s",
            false => "the catalogue could not be read for 10 s",
        };
        assert!(why.contains(unread), "{text}: {why}");
    }
    bench.is_done();
    ask(
        &mut bench,
        "INSERT INTO system_auth.roles (role) VALUES ('a')",
    );
    assert_eq!(bench.at_node().len(), 1);
    bench.renew();
    ask(&mut bench, INSERT);
    let (opcode, ..) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Batch);
}

#[test]
fn tables_without_layouts_are_written_while_the_catalogue_cannot_be_read() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let into_others = "INSERT INTO app.others (customer) VALUES (?)";
    bench.prepare_of(
        ("app", "others"),
        into_others,
        b"others",
        &[("customer", BIGINT)],
    );
    bench.wait(LEASE);
    bench.renew_flags();
    for text in [
        "INSERT INTO app.others (customer) VALUES (1)",
        "TRUNCATE app.others",
        "ALTER TABLE app.others ADD other int",
        "BEGIN BATCH INSERT INTO app.others (customer) VALUES (1) APPLY BATCH",
    ] {
        ask(&mut bench, text);
        assert_eq!(bench.at_node().len(), 1, "{text}");
    }
    let batch = |table: &str| {
        let text = format!("DELETE FROM app.{table} WHERE customer = 1");
        batch_of(Version::V4, 0, &[Ok(&*text)])
    };
    bench.ask(Opcode::Batch, 2, &batch("others"));
    assert_eq!(bench.at_node().len(), 1);
    let unread = "the catalogue could not be read for 10 s";
    bench.ask(Opcode::Batch, 2, &batch("orders"));
    let (code, why) = bench.error();
    assert!(code == code::OVERLOADED && why.contains(unread), "{why}");
    for text in [
        INSERT,
        "ALTER TABLE app.orders ADD other int",
        "BEGIN BATCH INSERT INTO app.others (customer) VALUES (1); DELETE FROM app.orders WHERE customer = 1 APPLY \
         BATCH",
        // Which table it is about is not known.
        "INSERT INTO app.others (customer) SOMEHOW",
    ] {
        ask(&mut bench, text);
        let (code, why) = bench.error();
        assert!(
            code == code::OVERLOADED && why.contains(unread),
            "{text}: {why}"
        );
    }
}

#[test]
fn a_table_that_is_flagged_is_not_written_before_the_catalogue_tells_why() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    bench.adopt_none();
    bench.wait(LEASE);
    bench.renew_flags();
    let insert = "INSERT INTO app.others (customer) VALUES (1)";
    ask(&mut bench, insert);
    assert_eq!(bench.at_node().len(), 1);
    bench.flag(|flagged| flagged.add("app", "others"));
    ask(&mut bench, insert);
    assert_eq!(bench.error().0, code::OVERLOADED);
    ask(&mut bench, "SELECT * FROM app.others WHERE customer = 1");
    assert_eq!(bench.at_node().len(), 1, "the table has all rows");
    bench.renew();
    ask(&mut bench, insert);
    assert_eq!(
        bench.at_node().len(),
        1,
        "the catalogue has no layouts of it"
    );
}

#[test]
fn a_table_whose_layouts_are_lost_is_not_written() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    bench.flag(|flagged| flagged.add_lost("app", "others"));
    ask(&mut bench, "INSERT INTO app.others (customer) VALUES (1)");
    let (code, why) = bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("has lost"),
        "{why}"
    );
    ask(&mut bench, "SELECT * FROM app.others WHERE customer = 1");
    assert_eq!(bench.at_node().len(), 1);
    ask(&mut bench, INSERT);
    assert_eq!(bench.one_at_node().0, Opcode::Batch, "others go on");
}

#[test]
fn a_layout_of_a_table_whose_row_is_lost_is_not_read() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let read = "SELECT day FROM app.orders WHERE customer = 7 AND status = 'open' ALLOW FILTERING";
    // The row is that of an earlier flag, from a backup.
    bench.flag(|flagged| flagged.add_lost("app", "orders"));
    ask(&mut bench, read);
    let (opcode, _, body) = bench.one_at_node();
    let sent = Asking::default().query(Version::V4, read);
    assert_eq!((opcode, body), (Opcode::Query, sent));
}

#[test]
fn what_may_be_about_a_lost_table_is_not_sent() {
    let odd = "INSERT INTO app.others (customer) SOMEHOW";
    let mut bench = Bench::new(Version::V4, Version::V4);
    bench.flag(|flagged| flagged.add_lost("app", "others"));
    ask(&mut bench, odd);
    let (code, why) = bench.error();
    assert!(
        code == code::OVERLOADED && why.contains("has lost"),
        "{why}"
    );
    let body = batch_of(Version::V4, 0, &[Ok(odd)]);
    bench.ask(Opcode::Batch, 2, &body);
    assert_eq!(bench.error().0, code::OVERLOADED);
    bench.is_done();
    // Right is what names another table, which nothing is lost of.
    ask(&mut bench, "GRANT SELECT ON app.more TO clerk");
    assert_eq!(bench.at_node().len(), 1);
}

/// A proxy that has just been started knows none.
#[test]
fn a_batch_with_an_unknown_statement_is_prepared_again_while_the_catalogue_cannot_be_read() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    bench.adopt_none();
    bench.flag(|flagged| flagged.add("app", "orders"));
    bench.wait(LEASE);
    bench.renew_flags();
    let body = batch_of(Version::V4, 0, &[Err(b"strange")]);
    bench.ask(Opcode::Batch, 2, &body);
    let (code, why) = bench.error();
    assert_eq!(code, code::UNPREPARED, "{why}");
    bench.is_done();
}
