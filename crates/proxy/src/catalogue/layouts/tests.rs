use helenus_catalogue::{Catalogue, LayoutState as State, Layouts, OfTable, TableKey};
use helenus_layout::Layout;

use super::Known;
use crate::catalogue::schema::Schema;
use crate::catalogue::testing::{rows, schema};

const ORDERS: &str =
    "orders: region key int, day < date, clerk < text, id > int, total - double, boss static text";

/// A layout of a table in the keyspace `shop`.
#[derive(Clone, Debug)]
struct Entry {
    table: &'static str,
    layout: helenus_catalogue::Layout,
}

fn entry(layout: &str, clustering: &[&str]) -> Entry {
    Entry {
        table: "orders",
        layout: helenus_catalogue::Layout {
            name: layout.to_owned(),
            keyspace: None,
            physical: format!("orders__layout_{layout}"),
            clustering: clustering.iter().map(|c| (*c).to_owned()).collect(),
            state: State::Ready.name().to_owned(),
            created: 0,
        },
    }
}

/// These layouts of one table, as known.
fn known(entries: &[Entry], schema: &Schema) -> Known {
    let layouts = Layouts {
        flag: 1,
        rows: Some(1_000),
        distinct: vec![("day".to_owned(), 365)],
        layouts: entries.iter().map(|entry| entry.layout.clone()).collect(),
    };
    let of = OfTable {
        layouts: Some(layouts),
        encodings: None,
    };
    let table = entries.first().map_or("orders", |entry| entry.table);
    let catalogue = Catalogue {
        version: 1,
        tables: [(TableKey::new("shop", table), of)].into_iter().collect(),
    };
    super::known(&catalogue, schema)
}

fn copy_of(name: &str, columns: &str) -> String {
    format!("orders__layout_{name}: {columns}")
}

/// Name and order of each copy, with `!` behind those that are not read.
fn copies(known: &Known) -> Vec<String> {
    let tables = known
        .layouts
        .tables
        .values()
        .flat_map(|tables| tables.values());
    let copies = tables.flat_map(|table| table.copies.iter());
    copies
        .map(|copy| {
            let order: Vec<String> = copy.layout.columns().map(|c| c.to_string()).collect();
            let end = if copy.readable { "" } else { "!" };
            format!("{} {}{end}", copy.physical, order.join(""))
        })
        .collect()
}

#[test]
fn what_fits_is_known_with_the_tables_own_columns() {
    let a = copy_of(
        "a",
        "region key int, clerk < text, day < date, id > int, total - double, boss static text",
    );
    let schema = schema(&[ORDERS, &a]);
    let known = known(&[entry("a", &["clerk", "day", "id"])], &schema);
    assert_eq!(known.problems, [""; 0]);
    assert_eq!((known.readable, known.written), (1, 0));
    let table = known.layouts.table("shop", "orders").expect("a table");
    assert_eq!(table.partition_key, ["region"]);
    let clustering: Vec<_> = table
        .clustering
        .iter()
        .map(|c| (&*c.name, c.descending))
        .collect();
    assert_eq!(clustering, [("day", false), ("clerk", false), ("id", true)]);
    let others: Vec<_> = table
        .columns
        .iter()
        .map(|c| (&*c.name, &*c.cql_type, c.is_static))
        .collect();
    assert_eq!(others, [("boss", "text", true), ("total", "double", false)]);
    assert_eq!(
        Some(&table.copies[0].layout),
        Layout::new(&[1, 0, 2]).as_ref()
    );
    assert_eq!(table.distinct["day"], 365.0);
    assert_eq!(table.rows, Some(1_000.0));
    assert!(!table.indexed);
}

#[test]
fn a_layout_in_which_rows_live_longer_or_masks_do_not_hold_is_written_and_not_read() {
    let a = copy_of(
        "a",
        "region key int, clerk < text, day < date, id > int, total - double, boss static text",
    );
    let names = ["keyspace_name", "table_name", "default_time_to_live"];
    let options = |ttl_s: i32| {
        let mut options = rows(&names, &[&["shop", "orders", "?"]]);
        options.rows[0][2] = Some(ttl_s.to_be_bytes().to_vec());
        options
    };
    let masked = |table: &str| rows(&names[..2], &[&["shop", table]]);
    for (ttl_s, masks, why) in [
        (0, None, None),
        (60, None, Some("default_time_to_live = 0, and the table 60")),
        (0, Some("orders"), Some("masked")),
        (0, Some("orders__layout_a"), Some("masked")),
        (0, Some("other"), None),
    ] {
        let mut schema = schema(&[ORDERS, &a]);
        let nothing = rows(&names, &[]);
        schema.add_options(&options(ttl_s), &nothing, masks.map(masked).as_ref());
        let known = known(&[entry("a", &["clerk", "day", "id"])], &schema);
        let is_read = usize::from(why.is_none());
        assert_eq!((known.readable, known.written), (is_read, 1 - is_read));
        let problems = known.problems.concat();
        assert!(problems.contains(why.unwrap_or_default()), "{problems}");
        assert_eq!(problems.is_empty(), why.is_none());
    }
}

#[test]
fn a_column_that_only_a_layout_has_is_known_unless_the_table_has_had_it() {
    let a = copy_of(
        "a",
        "region key int, clerk < text, day < date, id > int, total - double, boss static text, later - int, gone - int",
    );
    let mut schema = schema(&[ORDERS, &a]);
    let names = ["keyspace_name", "table_name", "column_name"];
    let dropped = rows(&names, &[&["shop", "orders", "gone"]]);
    schema.add_options(&rows(&names, &[]), &dropped, None);
    let known = known(&[entry("a", &["clerk", "day", "id"])], &schema);
    let table = known.layouts.table("shop", "orders").expect("a table");
    let copy = &table.copies[0];
    let further: Vec<&str> = copy.further.iter().map(|of| &*of.name).collect();
    assert_eq!((further, known.readable), (vec!["later"], 0));
    assert_eq!(copy.outlived, ["gone"]);
}

#[test]
fn a_layout_in_which_a_column_that_was_added_again_was_not_dropped_is_written_and_not_read() {
    let a = copy_of(
        "a",
        "region key int, clerk < text, day < date, id > int, total - double, boss static text",
    );
    let names = ["keyspace_name", "table_name", "column_name", "dropped_time"];
    // When the column was dropped of the table and of the layout, and when that was filled.
    for (own, copy, created, is_read) in [
        (None, None, 0, true),
        (Some(500), Some(500), 0, true),
        (Some(500), None, 0, false),
        (Some(500), None, 501, true),
        (Some(500), Some(400), 450, false),
        // The statement was repeated.
        (Some(500), Some(600), 0, true),
        (None, Some(500), 0, false),
        (None, Some(500), 501, true),
    ] {
        let dropped = [("orders", own), ("orders__layout_a", copy)].into_iter();
        let dropped = dropped.filter_map(|(table, at)| Some((table, Option::<i64>::clone(&at)?)));
        let mut of = rows(&names, &[]);
        for (table, at_ms) in dropped {
            let text = |text: &str| Some(text.as_bytes().to_vec());
            let time = Some(at_ms.to_be_bytes().to_vec());
            of.rows
                .push(vec![text("shop"), text(table), text("total"), time]);
        }
        let mut schema = schema(&[ORDERS, &a]);
        schema.add_options(&rows(&names, &[]), &of, None);
        let mut entry = entry("a", &["clerk", "day", "id"]);
        entry.layout.created = created;
        let known = known(&[entry], &schema);
        let counts = (usize::from(is_read), usize::from(!is_read));
        assert_eq!((known.readable, known.written), counts, "{own:?} {copy:?}");
        let problems = known.problems.concat();
        assert_eq!(problems.contains("rebuild"), !is_read, "{problems}");
    }
}

#[test]
fn a_description_that_lies_is_written_and_not_read() {
    let a = copy_of(
        "a",
        "region key int, clerk < text, day < date, id > int, total - double, boss static text",
    );
    let upwards = copy_of(
        "u",
        "region key int, clerk < text, day < date, id < int, total - double, boss static text",
    );
    let less = copy_of(
        "less",
        "region key int, clerk < text, day < date, id > int, boss static text",
    );
    let is_static = copy_of(
        "static",
        "region key int, clerk < text, day < date, id > int, total static double, boss static text",
    );
    let other = copy_of(
        "other",
        "region key int, clerk < text, day < date, id > int, total - float, boss static text",
    );
    let more = copy_of(
        "more",
        "region key int, clerk < text, day < date, id > int, total - double, boss static text, note - text",
    );
    let schema = schema(&[ORDERS, &a, &upwards, &less, &is_static, &other, &more]);
    let in_state = |layout: &str, clustering: &[&str], state: &str| {
        let mut entry = entry(layout, clustering);
        entry.layout.state = state.to_owned();
        entry
    };
    let with =
        |layout, clustering: &[&str], state: State| in_state(layout, clustering, state.name());
    let strange = in_state("a", &["clerk", "day", "id"], "reday");
    for (entry, reason) in [
        (with("a", &["day", "clerk", "id"], State::Ready), "sorts by"),
        (with("a", &["clerk", "day"], State::Ready), "sorts by"),
        (
            with("a", &["clerk", "day", "nothing"], State::Ready),
            "sorts by",
        ),
        (with("a", &[], State::Ready), "sorts by"),
        (strange, "unknown"),
        (with("u", &["clerk", "day", "id"], State::Ready), "upwards"),
        (
            with("less", &["clerk", "day", "id"], State::Ready),
            "no column total",
        ),
        (
            with("static", &["clerk", "day", "id"], State::Ready),
            "another column total",
        ),
        (
            with("other", &["clerk", "day", "id"], State::Ready),
            "another column total",
        ),
        (
            with("more", &["clerk", "day", "id"], State::Ready),
            "a column note, which the table has not",
        ),
    ] {
        let known = known(std::slice::from_ref(&entry), &schema);
        assert_eq!(copies(&known), [format!("{} 102!", entry.layout.physical)]);
        assert!(known.problems[0].contains(reason), "{:?}", known.problems);
        assert_eq!(
            (known.readable, known.written, known.problems.len()),
            (0, 1, 1)
        );
    }
    let writing = with("a", &["clerk", "day", "id"], State::Writing);
    let known = known(&[writing], &schema);
    assert_eq!(copies(&known), ["orders__layout_a 102!"]);
    assert_eq!(known.problems, [""; 0], "it is being created");
}

#[test]
fn what_is_no_copy_is_not_even_written() {
    let good =
        "region key int, clerk < text, day < date, id > int, total - double, boss static text";
    let wrong = [
        (
            "key",
            good.replace(
                "region key int, clerk < text",
                "region key int, clerk key text",
            ),
        ),
        ("type", good.replace("region key int", "region key bigint")),
        ("clustering", good.replace("id > int", "id > bigint")),
        ("column", good.replace("id > int", "id - int")),
    ];
    let mut tables = vec![ORDERS.to_owned()];
    tables.extend(wrong.iter().map(|(name, columns)| copy_of(name, columns)));
    let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
    let schema = schema(&tables);
    let names = wrong.iter().map(|(name, _)| *name).chain(["missing"]);
    for name in names {
        let known = known(&[entry(name, &["clerk", "day", "id"])], &schema);
        assert!(known.layouts.is_empty(), "{name}: {:?}", copies(&known));
        assert_eq!(known.problems.len(), 1);
        assert!(
            known.problems[0].contains("not written"),
            "{:?}",
            known.problems
        );
    }
    let mut itself = entry("a", &["day", "clerk", "id"]);
    itself.layout.physical = "orders".to_owned();
    let mut of_nothing = entry("a", &["day"]);
    of_nothing.table = "gone";
    let mut nameless = entry("a", &["day"]);
    nameless.layout.physical = String::new();
    for lie in [itself, of_nothing, nameless] {
        let known = known(std::slice::from_ref(&lie), &schema);
        assert!(
            known.layouts.is_empty() && known.problems.len() == 1,
            "{lie:?}"
        );
    }
}

#[test]
fn two_layouts_never_share_a_table() {
    let a = copy_of(
        "a",
        "region key int, clerk < text, day < date, id > int, total - double, boss static text",
    );
    let schema = schema(&[ORDERS, &a]);
    let first = entry("a", &["clerk", "day", "id"]);
    let mut second = entry("b", &["clerk", "day", "id"]);
    second.layout.physical.clone_from(&first.layout.physical);
    let known = known(&[first, second], &schema);
    assert_eq!(copies(&known), ["orders__layout_a 102"]);
    assert!(known.problems[0].contains("another layout"));
}
