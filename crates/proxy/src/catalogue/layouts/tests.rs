use helenus_layout::Layout;

use super::{Known, known};
use crate::catalogue::layout_rows::{Entry, State, entries};
use crate::catalogue::testing::{rows, schema};

const ORDERS: &str =
    "orders: region key int, day < date, clerk < text, id > int, total - double, boss static text";

fn entry(layout: &str, clustering: &[&str]) -> Entry {
    Entry {
        keyspace: "shop".to_owned(),
        table: "orders".to_owned(),
        layout: layout.to_owned(),
        physical: format!("orders__layout_{layout}"),
        clustering: clustering.iter().map(|c| (*c).to_owned()).collect(),
        state: State::Ready,
        unknown_mode: None,
        distinct: vec![("day".to_owned(), 365.0)],
        rows: Some(1_000.0),
    }
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
    let with = |layout: &str, clustering: &[&str], state: State| Entry {
        state,
        ..entry(layout, clustering)
    };
    let strange = State::Other("reday".to_owned());
    for (entry, reason) in [
        (with("a", &["day", "clerk", "id"], State::Ready), "sorts by"),
        (with("a", &["clerk", "day"], State::Ready), "sorts by"),
        (
            with("a", &["clerk", "day", "nothing"], State::Ready),
            "sorts by",
        ),
        (with("a", &[], State::Ready), "sorts by"),
        (with("a", &["clerk", "day", "id"], strange), "unknown"),
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
        assert_eq!(copies(&known), [format!("{} 102!", entry.physical)]);
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
    itself.physical = "orders".to_owned();
    let mut of_nothing = entry("a", &["day"]);
    of_nothing.table = "gone".to_owned();
    let mut nameless = entry("a", &["day"]);
    nameless.physical = String::new();
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
    second.physical.clone_from(&first.physical);
    let known = known(&[first, second], &schema);
    assert_eq!(copies(&known), ["orders__layout_a 102"]);
    assert!(known.problems[0].contains("another layout"));
}

#[test]
fn rows_of_the_catalogue_are_read_as_far_as_they_can_be() {
    let names = [
        "keyspace_name",
        "table_name",
        "layout",
        "physical",
        "clustering",
        "state",
        "distinct_values",
        "rows",
    ];
    let mut found = rows(
        &names,
        &[
            &[
                "shop",
                "orders",
                "a",
                "orders__layout_a",
                "",
                "ready",
                "",
                "",
            ],
            &[
                "shop", "orders", "b", "null", "null", "null", "null", "null",
            ],
            // Only the partition is left.
            &[
                "shop", "old", "null", "null", "null", "null", "null", "null",
            ],
            &[
                "shop",
                "orders",
                "c",
                "p",
                "not a list",
                "writing",
                "not a map",
                "not a number",
            ],
        ],
    );
    let list = |items: &[&[u8]]| {
        let mut bytes = (items.len() as i32).to_be_bytes().to_vec();
        for item in items {
            bytes.extend((item.len() as i32).to_be_bytes());
            bytes.extend(*item);
        }
        bytes
    };
    found.rows[0][4] = Some(list(&[b"clerk", b"day"]));
    let mut counts = list(&[b"day", &365i64.to_be_bytes()]);
    counts[3] = 1;
    found.rows[0][6] = Some(counts);
    found.rows[0][7] = Some(730i64.to_be_bytes().to_vec());
    let read = entries(&found);
    let layouts: Vec<&str> = read.iter().map(|e| e.layout.as_str()).collect();
    assert_eq!(layouts, ["a", "b", "c"]);
    assert_eq!(read[0].clustering, ["clerk", "day"]);
    assert_eq!(read[0].distinct, [("day".to_owned(), 365.0)]);
    let counted: Vec<Option<f64>> = read.iter().map(|entry| entry.rows).collect();
    assert_eq!(counted, [Some(730.0), None, None]);
    assert_eq!(read[0].state, State::Ready);
    assert_eq!(read[1].state, State::Other(String::new()));
    assert!(read[1].physical.is_empty());
    assert_eq!(read[2].state, State::Writing);
    // Lengths that are not there, and a count that is far too large.
    for cell in [
        &b"\x00\x00\x00\x02\x00\x00\x00\x01a"[..],
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"",
    ] {
        found.rows[0][4] = Some(cell.to_vec());
        found.rows[0][6] = Some(cell.to_vec());
        assert!(entries(&found)[0].clustering.len() <= 1);
    }
}

#[test]
fn a_table_whose_layouts_are_in_a_mode_that_is_not_known_is_refused() {
    let names = ["keyspace_name", "table_name", "layout", "physical", "mode"];
    let a = copy_of(
        "a",
        "region key int, clerk < text, day < date, id > int, total - double, boss static text",
    );
    let schema = schema(&[ORDERS, &a]);
    let row = |layout, mode| ["shop", "orders", layout, "orders__layout_a", mode];
    for mode in ["replace", "replacing", "other"] {
        let found = rows(&names, &[&row("a", mode), &row("b", mode)]);
        let known = known(&entries(&found), &schema);
        let told = (known.readable, known.written, known.rejected);
        assert_eq!(told, (0, 0, 0), "{mode}: no node lags behind");
        assert!(known.layouts.tables.is_empty(), "{mode}");
        let why = &known.layouts.refused["shop"]["orders"];
        assert!(
            why.contains("requests for shop.orders are refused"),
            "{why}"
        );
        assert!(why.contains(&format!("in mode {mode}, ")), "{why}");
        assert!(
            why.contains("`helenus layouts drop shop.orders --all`"),
            "{why}"
        );
        assert_eq!(known.problems, std::slice::from_ref(why), "said once");
    }
    for mode in ["add", "", "null"] {
        let found = rows(&names, &[&row("a", mode)]);
        let known = known(&entries(&found), &schema);
        assert!(known.layouts.refused.is_empty(), "{mode}");
        assert_eq!(known.written, 1, "{mode}");
    }
}
