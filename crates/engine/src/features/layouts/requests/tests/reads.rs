mod hedged;

use helenus_catalogue::LEASE;
use std::time::Duration;

use helenus_wire::{
    ErrorBody, ExecuteView, Opcode, QueryView, RowsView, Version, code, query_flags, write,
};

use super::STATE;
use crate::config::Config;
use crate::features::layouts::plan::Plan;
use crate::features::layouts::plan_of;
use crate::features::layouts::read::{identity, unwrap, wrap};
use crate::stats::Global;
use crate::testing::bench::{
    Asking, BIGINT, Bench, LAYOUT, Spec, TABLE, VARCHAR, metadata_id, orders, rows,
};

const READ: &str =
    "SELECT day, total FROM app.orders WHERE customer = ? AND status = ? ALLOW FILTERING";
const MARKERS: [Spec; 2] = [("customer", BIGINT), ("status", VARCHAR)];
const COLUMNS: [Spec; 2] = [("day", BIGINT), ("total", BIGINT)];
const VALUES: [&[u8]; 2] = [&[0, 0, 0, 0, 0, 0, 0, 7], b"open"];
const CELLS: [&[u8]; 2] = [&[1; 8], &[2; 8]];
pub(super) const VERSIONS: [(Version, Version); 4] = [
    (Version::V3, Version::V5),
    (Version::V4, Version::V4),
    (Version::V4, Version::V5),
    (Version::V5, Version::V5),
];

pub(super) fn count(bench: &Bench, counter: &str) -> u64 {
    let global: &Global = &bench.common.stats.global;
    let mut list = global.list().into_iter();
    list.find(|(name, _)| *name == counter).expect(counter).1
}

fn asking<'a>() -> Asking<'a> {
    Asking {
        values: &VALUES,
        page_size: Some(100),
        ..Asking::default()
    }
}

/// A bench whose node has the read of the layout prepared.
fn prepared(versions: (Version, Version)) -> Bench {
    let mut bench = Bench::new(versions.0, versions.1);
    bench.prepare(READ, b"own", &MARKERS, &COLUMNS);
    let execute = asking().execute(versions.0, b"own");
    bench.ask(Opcode::Execute, 2, &execute);
    // Until the node has prepared it for the layout, the table is read.
    for (opcode, stream, body) in bench.at_node() {
        if opcode == Opcode::Prepare {
            let text = "SELECT day, total FROM app.orders__layout_a WHERE customer = ? AND status = ? ALLOW FILTERING";
            assert_eq!(body[4..4 + text.len()], *text.as_bytes());
            let answer = bench.prepared(b"derived", LAYOUT, &MARKERS, &COLUMNS);
            bench.say(Opcode::Result, stream, &answer);
        } else {
            let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
            assert_eq!((opcode, view.id), (Opcode::Execute, &b"own"[..]));
            bench.say(Opcode::Result, stream, &rows(TABLE, &COLUMNS, None, &CELLS));
        }
    }
    assert_eq!(
        bench.answer(),
        (Opcode::Result, rows(TABLE, &COLUMNS, None, &CELLS))
    );
    bench.is_done();
    bench
}

/// The node answers from the layout, and the client hears of the table.
fn becomes_the_tables(bench: &mut Bench, stream: i16) {
    let of_layout = rows(LAYOUT, &COLUMNS, None, &CELLS);
    bench.say(Opcode::Result, stream, &of_layout);
    let of_table = rows(TABLE, &COLUMNS, None, &CELLS);
    assert_eq!(bench.answer(), (Opcode::Result, of_table));
}

/// The client executes its read; what the node is asked.
fn execute(bench: &mut Bench, asking: Asking<'_>) -> (i16, Vec<u8>) {
    let body = asking.execute(bench.versions.0, b"own");
    bench.ask(Opcode::Execute, 3, &body);
    let (opcode, stream, body) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Execute);
    (stream, body)
}

#[test]
fn a_prepared_read_goes_to_the_layout_once_the_node_has_it_and_its_answer_is_the_tables() {
    for versions in VERSIONS {
        let mut bench = prepared(versions);
        let (stream, body) = execute(&mut bench, asking());
        let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
        assert_eq!(view.id, b"derived");
        let values: Vec<_> = view.options.values.iter().map(|(_, value)| value).collect();
        assert_eq!(values, VALUES.map(helenus_wire::ValueRef::Set));
        assert_eq!(view.options.page_size, Some(100));
        assert_eq!(view.options.consistency, helenus_wire::Consistency(6));
        if versions.1 == Version::V5 {
            assert_eq!(view.result_metadata_id, Some(&metadata_id(LAYOUT)[..]));
        }
        becomes_the_tables(&mut bench, stream);
        bench.is_done();
        assert_eq!(count(&bench, "layout_reads"), 1);
        assert_eq!(count(&bench, "layout_reads_of_table"), 1);
    }
}

#[test]
fn a_page_of_a_layout_is_continued_on_the_layout() {
    for versions in VERSIONS {
        let mut bench = prepared(versions);
        let (stream, _) = execute(&mut bench, asking());
        bench.say(
            Opcode::Result,
            stream,
            &rows(LAYOUT, &COLUMNS, Some(STATE), &CELLS),
        );
        let (_, body) = bench.answer();
        let page = RowsView::parse(&body).expect("rows");
        let state = page.paging_state.expect("a paging state");
        assert_eq!(unwrap(state), Some((identity(&orders(true), 0), STATE)));
        let next = Asking {
            state: Some(state),
            timestamp: Some(5),
            ..asking()
        };
        let (stream, body) = execute(&mut bench, next);
        let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
        assert_eq!(view.id, b"derived");
        assert_eq!(view.options.paging_state, Some(STATE));
        assert_eq!(view.options.timestamp, Some(5), "what is behind the state");
        becomes_the_tables(&mut bench, stream);
        bench.is_done();
    }
}

/// A page of a layout goes on at a proxy that has nothing prepared: the stream and body of its QUERY.
fn continued_by_text(bench: &mut Bench, text: &str) -> (i16, Vec<u8>) {
    bench.prepare(text, b"own", &MARKERS, &COLUMNS);
    let state = wrap(identity(&orders(true), 0), STATE);
    let next = Asking {
        state: Some(&state),
        skip_metadata: true,
        ..asking()
    };
    bench.ask(Opcode::Execute, 3, &next.execute(bench.versions.0, b"own"));
    let mut asked = bench.at_node();
    asked.retain(|(opcode, ..)| *opcode != Opcode::Prepare);
    let (opcode, stream, body) = asked.remove(0);
    assert_eq!(opcode, Opcode::Query);
    (stream, body)
}

#[test]
fn a_page_of_a_layout_is_continued_by_a_proxy_that_has_nothing_prepared() {
    for versions in VERSIONS {
        let mut bench = Bench::new(versions.0, versions.1);
        let (stream, body) = continued_by_text(&mut bench, READ);
        let view = QueryView::parse(&body, versions.1).expect("a QUERY");
        assert!(view.text.contains("app.orders__layout_a"), "{}", view.text);
        assert_eq!(view.options.paging_state, Some(STATE));
        assert_eq!(view.options.values.count, 2);
        assert_ne!(view.options.flags & query_flags::SKIP_METADATA, 0);
        becomes_the_tables(&mut bench, stream);
    }
}

/// They may be others by now than those that the client was told of when it prepared.
#[test]
fn a_page_of_all_columns_that_goes_on_by_the_text_names_them() {
    const ALL: &str = "SELECT * FROM app.orders WHERE customer = ? AND status = ? ALLOW FILTERING";
    for versions in VERSIONS {
        let mut bench = Bench::new(versions.0, versions.1);
        let (_, body) = continued_by_text(&mut bench, ALL);
        let view = QueryView::parse(&body, versions.1).expect("a QUERY");
        let columns = "customer, day, status, total";
        assert!(view.text.contains(columns), "{}", view.text);
        assert_eq!(view.options.flags & query_flags::SKIP_METADATA, 0);
        assert_eq!(view.options.paging_state, Some(STATE));
    }
}

#[test]
fn a_state_of_the_table_is_continued_on_the_table() {
    let mut bench = prepared((Version::V4, Version::V4));
    let next = Asking {
        state: Some(STATE),
        ..asking()
    };
    let (_, body) = execute(&mut bench, next);
    let view = ExecuteView::parse(&body, Version::V4).expect("an EXECUTE");
    assert_eq!(
        (view.id, view.options.paging_state),
        (&b"own"[..], Some(STATE))
    );
}

/// The client executes its read from a state on, which no node gets to see.
fn is_refused(bench: &mut Bench, state: &[u8]) {
    let next = Asking {
        state: Some(state),
        ..asking()
    };
    let body = next.execute(bench.versions.0, b"own");
    bench.ask(Opcode::Execute, 3, &body);
    assert_eq!(bench.at_node(), []);
    let text = "Invalid value for the paging state";
    assert_eq!(bench.error(), (code::PROTOCOL, text.to_owned()));
}

#[test]
fn a_forged_state_of_a_layout_reaches_no_node() {
    let mut bench = prepared((Version::V4, Version::V4));
    let within = wrap(identity(&orders(true), 0), b"forged");
    for forged in [&within[..], &wrap(1, STATE), &[0xff, 1]] {
        is_refused(&mut bench, forged);
    }
    bench.is_done();
}

#[test]
fn a_state_of_a_layout_that_is_being_built_again_reaches_no_node() {
    let mut bench = prepared((Version::V4, Version::V4));
    bench.adopt(orders(false));
    is_refused(&mut bench, &wrap(identity(&orders(true), 0), STATE));
    bench.is_done();
}

#[test]
fn a_layout_that_cannot_be_read_is_not_noticed() {
    for error in [
        code::INVALID,
        code::UNAUTHORIZED,
        code::SYNTAX,
        code::CONFIG,
    ] {
        for versions in VERSIONS {
            let mut bench = prepared(versions);
            let (stream, _) = execute(&mut bench, asking());
            bench.say_error(stream, error, "table orders__layout_a does not exist", &[]);
            let (opcode, stream, body) = bench.one_at_node();
            let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
            assert_eq!((opcode, view.id), (Opcode::Execute, &b"own"[..]));
            bench.say(Opcode::Result, stream, &rows(TABLE, &COLUMNS, None, &CELLS));
            assert_eq!(
                bench.answer(),
                (Opcode::Result, rows(TABLE, &COLUMNS, None, &CELLS))
            );
            bench.is_done();
            assert_eq!(count(&bench, "layout_reads_fallen_back"), 1);
        }
    }
}

/// The id that the only request at the node executes.
fn executed(bench: &mut Bench, error: Option<i32>) -> Vec<u8> {
    let version = bench.versions.1;
    let (_, stream, body) = bench.one_at_node();
    let view = ExecuteView::parse(&body, version).expect("an EXECUTE");
    match error {
        Some(error) => bench.say_error(stream, error, "no", &[]),
        None => bench.say(Opcode::Result, stream, &rows(TABLE, &COLUMNS, None, &CELLS)),
    }
    view.id.to_vec()
}

#[test]
fn a_client_whose_own_request_is_at_fault_takes_the_layout_from_nobody() {
    for error in [code::INVALID, code::SYNTAX, code::CONFIG, code::PROTOCOL] {
        for versions in VERSIONS {
            let mut bench = prepared(versions);
            let body = asking().execute(versions.0, b"own");
            bench.ask(Opcode::Execute, 3, &body);
            for id in [&b"derived"[..], b"own"] {
                assert_eq!(executed(&mut bench, Some(error)), id);
            }
            assert_eq!(bench.error(), (error, "no".to_owned()), "the table's error");
            let (_, body) = execute(&mut bench, asking());
            let view = ExecuteView::parse(&body, versions.1).expect("an EXECUTE");
            assert_eq!(view.id, b"derived");
        }
    }
}

#[test]
fn what_only_the_layout_refuses_is_prepared_there_again() {
    let mut bench = prepared((Version::V4, Version::V4));
    let body = asking().execute(Version::V4, b"own");
    bench.ask(Opcode::Execute, 3, &body);
    assert_eq!(executed(&mut bench, Some(code::INVALID)), b"derived");
    assert_eq!(executed(&mut bench, None), b"own");
    assert_eq!(bench.answer().0, Opcode::Result);
    bench.ask(Opcode::Execute, 3, &body);
    let asked = bench.at_node();
    let opcodes: Vec<Opcode> = asked.iter().map(|(opcode, ..)| *opcode).collect();
    assert_eq!(opcodes, [Opcode::Prepare, Opcode::Execute]);
}

#[test]
fn a_role_that_may_not_read_a_layout_reads_the_table_for_a_while() {
    let mut bench = prepared((Version::V4, Version::V4));
    let body = asking().execute(Version::V4, b"own");
    bench.ask(Opcode::Execute, 3, &body);
    let denied = Some(code::UNAUTHORIZED);
    assert_eq!(executed(&mut bench, denied), b"derived");
    assert_eq!(executed(&mut bench, None), b"own");
    assert_eq!(bench.answer().0, Opcode::Result);
    for _ in 0..2 {
        bench.ask(Opcode::Execute, 3, &body);
        assert_eq!(
            executed(&mut bench, None),
            b"own",
            "the layout is not tried"
        );
        assert_eq!(bench.answer().0, Opcode::Result);
    }
    bench.now += Duration::from_secs(61);
    bench.renew();
    let (_, body) = execute(&mut bench, asking());
    let view = ExecuteView::parse(&body, Version::V4).expect("an EXECUTE");
    assert_eq!(view.id, b"derived", "others have it prepared as before");
}

#[test]
fn a_page_of_a_layout_fails_as_the_node_says_if_the_layout_is_there() {
    let mut bench = prepared((Version::V4, Version::V4));
    let state = wrap(identity(&orders(true), 0), STATE);
    let next = Asking {
        state: Some(&state),
        ..asking()
    };
    for (error, text) in [
        (code::INVALID, "Expected 8 or 0 byte long (5)"),
        (code::PROTOCOL, "Invalid value for the paging state"),
        (code::UNAUTHORIZED, "no SELECT permission"),
    ] {
        let (stream, _) = execute(&mut bench, next);
        bench.say_error(stream, error, text, &[]);
        assert_eq!(bench.error(), (error, text.to_owned()));
    }
    bench.is_done();
}

#[test]
fn a_layout_that_the_node_has_forgotten_and_that_is_gone_is_not_noticed() {
    let mut bench = prepared((Version::V4, Version::V4));
    let (stream, _) = execute(&mut bench, asking());
    let mut id = Vec::new();
    write::short_bytes(&mut id, b"derived");
    bench.say_error(stream, code::UNPREPARED, "unknown", &id);
    let (opcode, stream, _) = bench.one_at_node();
    assert_eq!(opcode, Opcode::Prepare);
    bench.say_error(
        stream,
        code::INVALID,
        "table orders__layout_a does not exist",
        &[],
    );
    let (opcode, stream, body) = bench.one_at_node();
    let view = ExecuteView::parse(&body, Version::V4).expect("an EXECUTE");
    assert_eq!((opcode, view.id), (Opcode::Execute, &b"own"[..]));
    bench.say(Opcode::Result, stream, &rows(TABLE, &COLUMNS, None, &CELLS));
    assert_eq!(bench.answer().0, Opcode::Result);
    bench.is_done();
}

#[test]
fn a_page_of_a_layout_that_is_gone_cannot_be_continued() {
    let mut bench = prepared((Version::V4, Version::V4));
    let state = wrap(identity(&orders(true), 0), STATE);
    let next = Asking {
        state: Some(&state),
        ..asking()
    };
    let (stream, _) = execute(&mut bench, next);
    bench.say_error(
        stream,
        code::INVALID,
        "table orders__layout_a does not exist",
        &[],
    );
    let text = "Invalid value for the paging state";
    assert_eq!(bench.error(), (code::PROTOCOL, text.to_owned()));
    bench.is_done();
}

#[test]
fn errors_that_the_table_would_have_too_are_the_clients() {
    let mut bench = prepared((Version::V4, Version::V4));
    let (stream, _) = execute(&mut bench, asking());
    let fields = [0, 6, 0, 0, 0, 1, 0, 0, 0, 2, 1];
    let text = "Operation timed out on orders__layout_a";
    bench.say_error(stream, code::READ_TIMEOUT, text, &fields);
    let text = "Operation timed out on orders".to_owned();
    assert_eq!(bench.error(), (code::READ_TIMEOUT, text));
    bench.is_done();
}

#[test]
fn a_read_by_text_goes_to_the_layout_at_once() {
    for versions in VERSIONS {
        let mut bench = Bench::new(versions.0, versions.1);
        let text =
            "SELECT * FROM app.orders WHERE customer = 7 AND status = 'open' ALLOW FILTERING";
        let body = Asking::default().query(versions.0, text);
        bench.ask(Opcode::Query, 2, &body);
        let (opcode, stream, body) = bench.one_at_node();
        let view = QueryView::parse(&body, versions.1).expect("a QUERY");
        assert_eq!(opcode, Opcode::Query);
        let from =
            "FROM app.orders__layout_a WHERE customer = 7 AND status = 'open' ALLOW FILTERING";
        assert!(view.text.ends_with(from), "{}", view.text);
        let columns: String = view.text["SELECT ".len()..]
            .split(" FROM")
            .take(1)
            .collect();
        let columns: Vec<&str> = columns.split(',').map(str::trim).collect();
        assert_eq!(columns, ["customer", "day", "status", "total"]);
        becomes_the_tables(&mut bench, stream);
        bench.is_done();
    }
}

#[test]
fn identical_reads_of_a_layout_are_shared_as_any_others() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let text = "SELECT day FROM app.orders WHERE customer = 7 AND status = 'open' ALLOW FILTERING";
    let body = Asking::default().query(Version::V4, text);
    bench.ask(Opcode::Query, 2, &body);
    bench.ask(Opcode::Query, 3, &body);
    let (_, stream, _) = bench.one_at_node();
    bench.say(
        Opcode::Result,
        stream,
        &rows(LAYOUT, &COLUMNS, None, &CELLS),
    );
    let expected = rows(TABLE, &COLUMNS, None, &CELLS);
    let mut answers = bench.answers();
    answers.sort_unstable_by_key(|(_, stream, _)| *stream);
    assert_eq!(
        answers,
        [
            (Opcode::Result, 2, expected.clone()),
            (Opcode::Result, 3, expected)
        ]
    );
    bench.is_done();
}

#[test]
fn without_a_lease_the_table_is_read() {
    let mut bench = prepared((Version::V4, Version::V4));
    bench.wait(LEASE);
    let (stream, body) = execute(&mut bench, asking());
    let view = ExecuteView::parse(&body, Version::V4).expect("an EXECUTE");
    assert_eq!(view.id, b"own");
    bench.say(Opcode::Result, stream, &rows(TABLE, &COLUMNS, None, &CELLS));
    assert_eq!(bench.answer().0, Opcode::Result);
    let state = wrap(identity(&orders(true), 0), STATE);
    let next = Asking {
        state: Some(&state),
        ..asking()
    };
    let body = next.execute(Version::V4, b"own");
    bench.ask(Opcode::Execute, 3, &body);
    let (code, text) = bench.error();
    assert_eq!(code, code::OVERLOADED, "{text}");
    bench.renew();
    let (_, body) = execute(&mut bench, asking());
    let view = ExecuteView::parse(&body, Version::V4).expect("an EXECUTE");
    assert_eq!(view.id, b"derived");
}

#[test]
fn another_order_is_found_at_the_first_read_after_the_catalogue_was_read() {
    let mut bench = prepared((Version::V4, Version::V4));
    bench.adopt(orders(false));
    bench.renew();
    let (_, body) = execute(&mut bench, asking());
    let view = ExecuteView::parse(&body, Version::V4).expect("an EXECUTE");
    assert_eq!(view.id, b"own", "no message has told of the new snapshot");
}

#[test]
fn what_is_off_changes_nothing() {
    let versions = (Version::V4, Version::V4);
    let mut bench = Bench::with(Config::default(), versions);
    let reads = "SELECT day FROM app.orders WHERE customer = 7 AND status = 'open' ALLOW FILTERING";
    let writes = "INSERT INTO app.orders (customer, day, status) VALUES (1, 2, 'open')";
    for text in [reads, writes] {
        let sent = Asking::default().query(Version::V4, text);
        bench.ask(Opcode::Query, 2, &sent);
        let (opcode, stream, body) = bench.one_at_node();
        assert_eq!((opcode, body), (Opcode::Query, sent));
        bench.say(Opcode::Result, stream, &1_i32.to_be_bytes());
        assert_eq!(bench.answer().0, Opcode::Result);
    }
    bench.wait(Duration::from_millis(100));
    bench.is_done();
}

#[test]
fn what_is_learned_of_a_layout_is_not_learned_of_the_table() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    let text = "SELECT day FROM app.orders WHERE customer = 7 AND status = 'open' ALLOW FILTERING";
    let body = Asking::default().query(Version::V4, text);
    bench.ask(Opcode::Query, 2, &body);
    let (_, stream, _) = bench.one_at_node();
    bench.now += Duration::from_millis(5);
    bench.say(
        Opcode::Result,
        stream,
        &rows(LAYOUT, &COLUMNS, None, &CELLS),
    );
    assert_eq!(bench.answer().0, Opcode::Result);
    let own = bench.engine.statements_mut().of_text(None, text);
    assert!(!own.learned.has_answers());
    let layouts = bench.common.snapshot.load().features().layouts.clone();
    let planned = plan_of(
        &own,
        layouts.table("app", TABLE).expect("a table with layouts"),
    );
    let Plan::Read(reads) = &*planned.plan else {
        panic!("a read");
    };
    let derived = reads.derived(&planned.table, &own.text, &own.facts, 0);
    assert!(
        derived
            .expect("a statement on the layout")
            .learned
            .has_answers()
    );
}

#[test]
fn a_layout_with_other_columns_is_not_read() {
    let mut bench = Bench::new(Version::V4, Version::V4);
    bench.prepare(READ, b"own", &MARKERS, &COLUMNS);
    for _ in 0..2 {
        let body = asking().execute(Version::V4, b"own");
        bench.ask(Opcode::Execute, 2, &body);
        for (opcode, stream, body) in bench.at_node() {
            if opcode == Opcode::Prepare {
                let answer = bench.prepared(b"derived", LAYOUT, &MARKERS, &COLUMNS[..1]);
                bench.say(Opcode::Result, stream, &answer);
                continue;
            }
            let view = ExecuteView::parse(&body, Version::V4).expect("an EXECUTE");
            assert_eq!(view.id, b"own");
            bench.say(Opcode::Result, stream, &rows(TABLE, &COLUMNS, None, &CELLS));
        }
        assert_eq!(bench.answer().0, Opcode::Result);
    }
    assert_eq!(count(&bench, "layout_reads"), 0);
    bench.is_done();
}
