//! Layouts in keyspaces of their own.

mod written;

use std::sync::Arc;
use std::time::Duration;

use helenus_layout::Layout;
use helenus_layout::plan::LogicalTable;
use helenus_policy::ring::{NodeSpec, Replication, Ring};
use helenus_policy::route::{Locality, NodeTable};
use helenus_policy::token::{Partitioner, Token};
use helenus_wire::{Consistency, Opcode, QueryView, Version, code, write};

use crate::config::Config;
use crate::features::layouts::Output as OfLayouts;
use crate::features::{self};
use crate::output::{LinkEnd, Output};
use crate::support::tick::TICK;
use crate::testing::bench::{
    Asking, BIGINT, Bench, DERIVED, LAYOUT, Spec, TABLE, error_body, orders, rows, rows_in,
};

pub(super) const VOID: [u8; 4] = 1_i32.to_be_bytes();
const VERSIONS: [(Version, Version); 4] = [
    (Version::V3, Version::V4),
    (Version::V3, Version::V5),
    (Version::V4, Version::V5),
    (Version::V5, Version::V5),
];

pub(super) fn news(bench: &mut Bench) -> Vec<OfLayouts> {
    let outputs = std::iter::from_fn(|| bench.engine.poll_output());
    let news = outputs.filter_map(|output| match output {
        Output::Feature(features::Output::Layouts(news)) => Some(news),
        _ => None,
    });
    news.collect()
}

pub(super) const READ: &str =
    "SELECT day, total FROM app.orders WHERE customer = 7 AND status = 'open' ALLOW FILTERING";
const COLUMNS: [Spec; 2] = [("day", BIGINT), ("total", BIGINT)];
const CELLS: [&[u8]; 2] = [&[1; 8], &[2; 8]];

/// A read at this level: what the node is asked, and its stream.
pub(super) fn read(bench: &mut Bench, level: u16) -> (String, i16) {
    let asking = Asking {
        level: Some(level),
        page_size: Some(100),
        ..Asking::default()
    };
    let body = asking.query(bench.versions.0, READ);
    bench.ask(Opcode::Query, 2, &body);
    let (_, stream, body) = bench.one_at_node();
    let view = QueryView::parse(&body, bench.versions.1).expect("a QUERY");
    assert_eq!(view.options.consistency, Consistency(level));
    (view.text.to_owned(), stream)
}

#[test]
fn derived_layouts_are_read_at_one_and_local_one_only() {
    for versions in VERSIONS {
        for level in [1_u16, 2, 4, 5, 6, 10] {
            let mut bench = Bench::derived(versions.0, versions.1);
            let (text, stream) = read(&mut bench, level);
            let is_weak = matches!(level, 1 | 10);
            assert_eq!(
                text.contains("app__layouts.orders__layout_a"),
                is_weak,
                "{text}"
            );
            let of_node = match is_weak {
                true => rows_in(DERIVED, LAYOUT, &COLUMNS, None, &CELLS),
                false => rows(TABLE, &COLUMNS, None, &CELLS),
            };
            bench.say(Opcode::Result, stream, &of_node);
            let of_table = rows(TABLE, &COLUMNS, None, &CELLS);
            assert_eq!(bench.answer(), (Opcode::Result, of_table));
            bench.is_done();
        }
    }
}

#[test]
fn the_table_answers_while_the_layouts_replicas_are_away() {
    let mut bench = Bench::derived(Version::V5, Version::V5);
    let (_, stream) = read(&mut bench, 1);
    let mut fields = Vec::new();
    write::u16(&mut fields, 1);
    write::i32(&mut fields, 1);
    write::i32(&mut fields, 0);
    let refusal = error_body(
        code::UNAVAILABLE,
        "Cannot achieve consistency level ONE",
        &fields,
    );
    bench.say(Opcode::Error, stream, &refusal);
    let (_, stream, body) = bench.one_at_node();
    let view = QueryView::parse(&body, Version::V5).expect("a QUERY");
    assert_eq!(view.text, READ);
    let of_table = rows(TABLE, &COLUMNS, None, &CELLS);
    bench.say(Opcode::Result, stream, &of_table);
    assert_eq!(bench.answer(), (Opcode::Result, of_table));
    bench.is_done();
}

/// Rows that say whether a conditional write was applied.
fn applied(is_applied: bool) -> Vec<u8> {
    const BOOLEAN: u16 = 4;
    rows(
        TABLE,
        &[("[applied]", BOOLEAN)],
        None,
        &[&[u8::from(is_applied)]],
    )
}

#[test]
fn what_layouts_cannot_be_told_is_the_tables_and_the_partition_is_doubted() {
    for (text, answer, is_doubted) in [
        (
            "DELETE FROM app.orders WHERE customer = 7 AND day > 3",
            VOID.to_vec(),
            true,
        ),
        (
            "INSERT INTO app.orders (customer, day, status) VALUES (7, 1, 'x') IF NOT EXISTS",
            applied(true),
            true,
        ),
        (
            "INSERT INTO app.orders (customer, day, status) VALUES (7, 1, 'x') IF NOT EXISTS",
            // Its first round may have completed an earlier one.
            applied(false),
            true,
        ),
        (
            "BEGIN BATCH INSERT INTO app.orders (customer, day, status) VALUES (7, 1, 'x'); \
             UPDATE app.orders SET total = 5 WHERE customer = 7 AND day = 1 AND status = 'y' IF EXISTS \
             APPLY BATCH",
            applied(true),
            true,
        ),
    ] {
        let mut bench = Bench::derived(Version::V5, Version::V5);
        let body = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 2, &body);
        let (opcode, stream, body) = bench.one_at_node();
        assert_eq!(opcode, Opcode::Query, "{text}");
        let view = QueryView::parse(&body, Version::V5).expect("a QUERY");
        assert_eq!(view.text, text);
        bench.say(Opcode::Result, stream, &answer);
        assert_eq!(bench.answer(), (Opcode::Result, answer), "{text}");
        assert_eq!(bench.at_node(), [], "nothing follows");
        let told = news(&mut bench);
        assert_eq!(told.len(), usize::from(is_doubted), "{text}: {told:?}");
        // The partition is read from the table from now on.
        let (read, stream) = read(&mut bench, 1);
        assert_eq!(read.contains(LAYOUT), !is_doubted, "{read}");
        bench.say(Opcode::Result, stream, &rows(TABLE, &COLUMNS, None, &CELLS));
        bench.answer();
        bench.is_done();
    }
}

#[test]
fn a_read_at_serial_may_complete_a_write_and_is_doubted() {
    let mut bench = Bench::derived(Version::V5, Version::V5);
    let (text, stream) = read(&mut bench, 8);
    assert_eq!(text, READ);
    bench.say(Opcode::Result, stream, &rows(TABLE, &COLUMNS, None, &CELLS));
    bench.answer();
    assert!(matches!(news(&mut bench)[..], [OfLayouts::Doubted(_)]));
    let (text, _) = read(&mut bench, 1);
    assert_eq!(text, READ);
}

#[test]
fn what_holds_layouts_is_neither_written_nor_dropped() {
    for text in [
        "DROP KEYSPACE app__layouts",
        "DROP TABLE app__layouts.orders__layout_a",
        "INSERT INTO app__layouts.orders__layout_a (customer, day, status) VALUES (1, 2, 'x')",
        "TRUNCATE app__layouts.orders__layout_a",
    ] {
        let mut bench = Bench::derived(Version::V5, Version::V5);
        let body = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 2, &body);
        let (code, why) = bench.error();
        assert_eq!(code, code::INVALID, "{text}");
        assert!(
            why.contains("app.orders") || why.contains("helenus layouts"),
            "{why}"
        );
        bench.is_done();
    }
}

#[test]
fn what_is_compared_must_be_about_partitions_that_are_known() {
    for text in [
        "DELETE FROM app.orders WHERE customer IN (7, 8) AND day > 3",
        "BEGIN BATCH DELETE FROM app.orders WHERE customer = 7 AND day > 3; DELETE FROM app.orders WHERE customer \
         IN (1, 2) APPLY BATCH",
    ] {
        let mut bench = Bench::derived(Version::V5, Version::V5);
        let body = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 2, &body);
        let (code, why) = bench.error();
        assert_eq!(code, code::INVALID, "{text}");
        assert!(why.contains("which partition"), "{why}");
        assert!(news(&mut bench).is_empty());
        bench.is_done();
    }
}

#[test]
fn rights_on_a_keyspace_are_rights_on_the_keyspaces_of_its_derived_layouts() {
    for (own, copy) in [
        (
            "GRANT SELECT ON KEYSPACE app TO reader",
            "GRANT SELECT ON KEYSPACE app__layouts TO reader",
        ),
        (
            "revoke SELECT on keyspace \"app\" from reader",
            "revoke SELECT on keyspace app__layouts from reader",
        ),
        (
            "GRANT MODIFY ON ALL TABLES IN KEYSPACE app TO writer",
            "GRANT MODIFY ON ALL TABLES IN KEYSPACE app__layouts TO writer",
        ),
    ] {
        let mut bench = Bench::derived(Version::V5, Version::V5);
        let body = Asking::default().query(Version::V5, own);
        bench.ask(Opcode::Query, 2, &body);
        for text in [copy, own] {
            assert_eq!(bench.answers(), []);
            let (_, stream, body) = bench.one_at_node();
            let view = QueryView::parse(&body, Version::V5).expect("a QUERY");
            assert_eq!(view.text, text);
            bench.say(Opcode::Result, stream, &VOID);
        }
        assert_eq!(bench.answer().0, Opcode::Result);
        bench.is_done();
    }
    for text in [
        "GRANT SELECT ON KEYSPACE other TO reader",
        "GRANT SELECT ON ALL KEYSPACES TO reader",
    ] {
        let mut bench = Bench::derived(Version::V5, Version::V5);
        let body = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 2, &body);
        let (_, _, body) = bench.one_at_node();
        let view = QueryView::parse(&body, Version::V5).expect("a QUERY");
        assert_eq!(view.text, text);
    }
}

#[test]
fn rights_on_a_keyspace_are_not_given_on_tables_that_are_no_layouts_of_it() {
    let mut bench = Bench::derived(Version::V5, Version::V5);
    let next = bench.common.snapshot.load().successor();
    bench
        .common
        .store(next.table(DERIVED, "mine", Vec::new()).build());
    let text = "GRANT SELECT ON KEYSPACE app TO reader";
    let body = Asking::default().query(Version::V5, text);
    bench.ask(Opcode::Query, 2, &body);
    let (code, why) = bench.error();
    assert_eq!(code, code::INVALID);
    assert!(why.contains("one by one"), "{why}");
    bench.is_done();
}

#[test]
fn a_table_is_not_defined_otherwise_while_a_layout_of_it_is_behind() {
    for text in [
        "ALTER TABLE app.orders ADD more int",
        "DROP TABLE app.orders",
        "REVOKE SELECT ON app.orders FROM reader",
        "GRANT SELECT ON app.orders TO reader",
        "GRANT SELECT ON KEYSPACE app TO reader",
    ] {
        let mut bench = Bench::derived(Version::V5, Version::V5);
        let mut table = crate::testing::bench::orders(true);
        table.copies.clear();
        bench.set_aside(table);
        let body = Asking::default().query(Version::V5, text);
        bench.ask(Opcode::Query, 2, &body);
        let (code, why) = bench.error();
        assert_eq!(code, code::INVALID, "{text}");
        assert!(why.contains("sweep"), "{why}");
    }
}

const FAR_LAYOUT: &str = "orders__layout_far";
const IN_SHOP: &str = "SELECT day, total FROM app.orders WHERE customer = 7 AND status = 'open' AND shop = 'x' ALLOW \
                       FILTERING";

/// A table with two layouts; for [`IN_SHOP`] the first is far better.
fn in_shops() -> LogicalTable {
    let mut table = orders(true);
    let mut shop = table.clustering[1].clone();
    shop.name = "shop".to_owned();
    table.clustering.push(shop);
    table.distinct.insert("shop".to_owned(), 500.0);
    let mut second = table.copies[0].clone();
    second.layout = Layout::new(&[1, 0, 2]).expect("a permutation");
    table.copies.push(second);
    table.copies[0].physical = FAR_LAYOUT.to_owned();
    table.copies[0].layout = Layout::new(&[1, 2, 0]).expect("a permutation");
    table
}

/// That table is held by two nodes, one of them in another data centre, which has the better layout.
fn near_and_far(allow_remote_dc: bool, is_near_readable: bool) -> Bench {
    const FAR: &str = "app__far";
    let mut config = Config::default();
    config.layouts.enabled = true;
    config.cluster.allow_remote_dc = allow_remote_dc;
    let bench = Bench::with_nodes(2, config, (Version::V5, Version::V5));
    let mut table = in_shops();
    table.copies[0].keyspace = Some(FAR.to_owned());
    table.copies[1].keyspace = Some(DERIVED.to_owned());
    table.copies[1].readable = is_near_readable;
    bench.adopt(table);
    let data_centers = ["here", "there"];
    let specs: Vec<NodeSpec> = (0..2)
        .map(|node| NodeSpec {
            dc: data_centers[node].to_owned(),
            rack: String::new(),
            tokens: vec![Token::Murmur3(node as i64)],
        })
        .collect();
    let ring = Ring::new(Partitioner::Murmur3, &specs);
    let of = |data_centers: &[&str]| {
        let replicas = data_centers.iter().map(|name| ((*name).to_owned(), 1));
        let replicas = Replication::NetworkTopology(replicas.collect());
        Arc::new(ring.replica_sets(&replicas))
    };
    let next = bench.common.snapshot.load().successor();
    let next = next
        .places(NodeTable::from_localities([
            Locality::LocalDc,
            Locality::Remote,
        ]))
        .keyspace("app", of(&data_centers))
        .keyspace(DERIVED, of(&["here"]))
        .keyspace(FAR, of(&["there"]));
    bench.common.store(next.build());
    bench.renew();
    bench
}

#[test]
fn a_layout_that_is_near_is_read_before_a_better_one_that_is_not() {
    for (allow_remote_dc, is_near_readable, level, expected) in [
        (false, true, 1_u16, LAYOUT),
        (true, true, 1, LAYOUT),
        (true, true, 10, LAYOUT),
        (true, false, 1, FAR_LAYOUT),
        (true, false, 10, "app.orders "),
    ] {
        let mut bench = near_and_far(allow_remote_dc, is_near_readable);
        bench.wait(TICK);
        let asking = Asking {
            level: Some(level),
            ..Asking::default()
        };
        let body = asking.query(Version::V5, IN_SHOP);
        bench.ask(Opcode::Query, 2, &body);
        let [here, there] = [0, 1].map(|node| texts_at(&mut bench, node));
        let case = (allow_remote_dc, is_near_readable, level);
        // What no node here owns is asked of its owner, without a detour.
        let (asked, others) = match expected == FAR_LAYOUT {
            true => (there, here),
            false => (here, there),
        };
        assert_eq!((asked.len(), others.len()), (1, 0), "{case:?}: {asked:?}");
        assert!(asked[0].contains(expected), "{case:?}: {asked:?}");
    }
}

#[test]
fn the_table_is_read_once_the_only_owner_of_a_layout_is_silent() {
    // Asked once it is lost, and once it has said nothing for a while.
    for is_lost in [false, true] {
        let mut bench = near_and_far(true, false);
        bench.wait(TICK);
        let asking = Asking {
            level: Some(1),
            ..Asking::default()
        };
        let body = asking.query(Version::V5, IN_SHOP);
        bench.ask(Opcode::Query, 2, &body);
        assert!(texts_at(&mut bench, 1)[0].contains(FAR_LAYOUT));
        let patience = match is_lost {
            true => {
                bench.end_link(1, LinkEnd::ByNode);
                Duration::ZERO
            }
            false => Duration::from_millis(1_200),
        };
        let until = bench.now + patience;
        let asked = loop {
            let asked = texts_at(&mut bench, 0);
            if !asked.is_empty() {
                break asked;
            }
            assert!(bench.now < until, "nobody else is asked");
            bench.wait(TICK);
        };
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert!(asked[0].contains("app.orders "), "{asked:?}");
    }
}

fn texts_at(bench: &mut Bench, node: usize) -> Vec<String> {
    let asked = bench.at(node).into_iter();
    let texts = asked.map(|(_, _, body)| {
        let view = QueryView::parse(&body, Version::V5).expect("a QUERY");
        view.text.to_owned()
    });
    texts.collect()
}

#[test]
fn a_write_of_what_another_data_centre_owns_goes_through_a_node_of_this_one() {
    let mut bench = near_and_far(true, true);
    bench.wait(TICK);
    let insert =
        "INSERT INTO app.orders (customer, day, status, shop, total) VALUES (7, 1, 'open', 2, 3)";
    let body = Asking::default().query(Version::V5, insert);
    bench.ask(Opcode::Query, 2, &body);
    let [here, there] = [0, 1].map(|node| texts_at(&mut bench, node));
    assert_eq!((here.len(), there.len()), (3, 0), "{here:?}, {there:?}");
    assert!(here.iter().any(|text| text.contains(FAR_LAYOUT)));
}

#[test]
fn the_next_best_layout_is_read_where_the_role_may_not_read_the_best() {
    let mut bench = Bench::new(Version::V5, Version::V5);
    let mut table = in_shops();
    table.copies.swap(0, 1);
    bench.adopt(table);
    bench.renew();
    bench.wait(TICK);
    let of_table = rows(TABLE, &COLUMNS, None, &CELLS);
    for (stream, asked) in [
        (2, &[FAR_LAYOUT, "app.orders "][..]),
        (3, &["orders__layout_a "]),
    ] {
        let body = Asking::default().query(Version::V5, IN_SHOP);
        bench.ask(Opcode::Query, stream, &body);
        for (at, expected) in asked.iter().enumerate() {
            let (_, stream, body) = bench.one_at_node();
            let view = QueryView::parse(&body, Version::V5).expect("a QUERY");
            assert!(view.text.contains(expected), "{} of {asked:?}", view.text);
            match at + 1 == asked.len() {
                false => bench.say_error(stream, code::UNAUTHORIZED, "no SELECT permission", &[]),
                true => bench.say(Opcode::Result, stream, &of_table),
            }
        }
        assert_eq!(bench.answer().0, Opcode::Result);
    }
    bench.is_done();
}
