//! How often statements are asked, whatever becomes of them.

use helenus_wire::{ExecuteView, Opcode, Version};

use super::STATE;
use crate::testing::bench::{Asking, BIGINT, Bench, LAYOUT, Spec, TABLE, VARCHAR, rows};

const READ: &str =
    "SELECT day, total FROM app.orders WHERE customer = ? AND status = ? ALLOW FILTERING";
const OTHER: &str = "SELECT day, total FROM orders WHERE customer = ? AND day = ?";
const MARKERS: [Spec; 2] = [("customer", BIGINT), ("status", VARCHAR)];
const COLUMNS: [Spec; 2] = [("day", BIGINT), ("total", BIGINT)];
const VALUES: [&[u8]; 2] = [&[0, 0, 0, 0, 0, 0, 0, 7], b"open"];
const CELLS: [&[u8]; 2] = [&[1; 8], &[2; 8]];
const VERSIONS: [(Version, Version); 3] = [
    (Version::V3, Version::V5),
    (Version::V4, Version::V4),
    (Version::V5, Version::V5),
];

/// The client asks; the node answers whatever comes of that. The number of reads of the layout.
fn read(bench: &mut Bench, opcode: Opcode, body: &[u8]) -> u64 {
    let mut of_layout = 0;
    bench.ask(opcode, 3, body);
    for (opcode, stream, body) in bench.at_node() {
        if opcode == Opcode::Prepare {
            let answer = bench.prepared(b"derived", LAYOUT, &MARKERS, &COLUMNS);
            bench.say(Opcode::Result, stream, &answer);
            continue;
        }
        let view = ExecuteView::parse(&body, bench.versions.1);
        let is_derived = view.is_ok_and(|view| view.id == b"derived");
        of_layout += u64::from(is_derived);
        let from = if is_derived { LAYOUT } else { TABLE };
        bench.say(Opcode::Result, stream, &rows(from, &COLUMNS, None, &CELLS));
    }
    assert_eq!(bench.answer().0, Opcode::Result);
    of_layout
}

/// Texts, and how often they are said to be asked.
fn counted(bench: &Bench) -> Vec<(String, f64)> {
    let asked = bench.common.asked_of("app", TABLE, bench.now);
    let one = |of: &crate::statement::prepared::asked::AskedStatement| {
        (of.text.to_string(), of.count.asked.round())
    };
    asked.iter().map(one).collect()
}

#[test]
fn a_read_of_a_layout_counts_for_what_the_client_prepared() {
    for versions in VERSIONS {
        let mut bench = Bench::new(versions.0, versions.1);
        bench.prepare(READ, b"own", &MARKERS, &COLUMNS);
        bench.prepare(OTHER, b"other", &MARKERS, &COLUMNS);
        let asking = Asking {
            values: &VALUES,
            page_size: Some(100),
            ..Asking::default()
        };
        let mut of_layout = 0;
        for n in 0..480 {
            let id: &[u8] = if n % 3 == 0 { b"other" } else { b"own" };
            of_layout += read(&mut bench, Opcode::Execute, &asking.execute(versions.0, id));
        }
        assert!(of_layout > 300, "{of_layout}");
        bench.is_done();
        let counted = counted(&bench);
        let texts: Vec<&str> = counted.iter().map(|(text, _)| &**text).collect();
        assert_eq!(texts, [READ, OTHER], "and not the statements of layouts");
        for ((_, asked), expected) in counted.iter().zip([320.0, 160.0]) {
            assert!((asked - expected).abs() <= 32.0, "{asked} of {expected}");
        }
        assert!(bench.common.asked_of("app", LAYOUT, bench.now).is_empty());
        assert!(bench.common.asked_of("other", TABLE, bench.now).is_empty());
    }
}

#[test]
fn further_pages_and_texts_are_not_counted_and_columns_may_change() {
    for versions in VERSIONS {
        let mut bench = Bench::new(versions.0, versions.1);
        bench.prepare(OTHER, b"other", &MARKERS, &COLUMNS);
        let asking = Asking {
            values: &VALUES,
            ..Asking::default()
        };
        let next = Asking {
            state: Some(STATE),
            ..asking
        };
        for round in 0..320 {
            if round == 160 {
                // The table has another column: what is known of the statement is replaced.
                let more = [COLUMNS[0], COLUMNS[1], ("note", VARCHAR)];
                bench.prepare(OTHER, b"other", &MARKERS, &more);
            }
            read(
                &mut bench,
                Opcode::Execute,
                &asking.execute(versions.0, b"other"),
            );
            for _ in 0..2 {
                let body = next.execute(versions.0, b"other");
                read(&mut bench, Opcode::Execute, &body);
            }
            let text = Asking::default().query(versions.0, "SELECT * FROM app.orders");
            read(&mut bench, Opcode::Query, &text);
        }
        let counted = counted(&bench);
        assert_eq!(counted.len(), 1, "{counted:?}");
        let asked = counted[0].1;
        assert!((asked - 320.0).abs() <= 48.0, "{asked}");
    }
}
