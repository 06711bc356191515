use helenus_catalogue::{Form, Written};
use std::collections::BTreeMap;

use helenus_payload::{Codec, Decoder};

use super::changed::ColumnNumber;
use super::*;
use crate::features::encodings::EncodedColumn;
use crate::features::encodings::shown::{SelectedText, Selection, TextFrom};

/// A statement of which only the text counts.
#[derive(Debug)]
struct OnlyText;

impl OfText for OnlyText {
    fn of_text(_: &str) -> Self {
        OnlyText
    }
}

fn table(written: Written) -> Arc<EncodedTable> {
    let column = |name: &str| EncodedColumn {
        fits: true,
        name: name.to_owned(),
        hidden: format!("{name}__encoded"),
        written,
        first: Form::Text,
        codec: Codec::Raw,
        dictionary: None,
    };
    Arc::new(EncodedTable {
        keyspace: "ks".to_owned(),
        name: "t".to_owned(),
        columns: vec![column("doc"), column("Log")],
        dictionaries: BTreeMap::new(),
    })
}

fn plan(written: Written, text: &str) -> Plan<OnlyText> {
    let facts = helenus_cql::facts(text);
    let mut coding = Coding::default();
    let planned = EncodedPlan::of(&table(written), text, &facts, &mut coding);
    Arc::try_unwrap(planned.plan).expect("no other owner")
}

fn check(written: Written, text: &str, expected: &str, sources: &[Source]) {
    match plan(written, text) {
        Plan::Changed(changed) => {
            assert_eq!(&*changed.text, expected, "{text}");
            assert_eq!(&*changed.sources, sources, "{text}");
            let markers = usize::from(helenus_cql::facts(expected).markers);
            assert_eq!(markers, sources.len(), "{text}");
        }
        other => panic!("{text}: {other:?}"),
    }
}

use Source::{Cleared, Emptied, Json, Own};
use Written::{Announced, Both, Encoded as InBlob, EncodedOnly, Text};

fn encoded(at: u16, column: usize) -> Source {
    Source::Encoded(at, ColumnNumber { table: 0, column })
}

#[test]
fn a_value_goes_to_one_column_and_out_of_the_other() {
    let insert = "INSERT INTO t (k, doc, n) VALUES (?, ?, ?) USING TTL ?";
    check(
        InBlob,
        insert,
        "INSERT INTO ks.t (k, doc__encoded, n, doc) VALUES (?, ?, ?, ?) USING TTL ?",
        &[Own(0), encoded(1, 0), Own(2), Emptied(1), Own(3)],
    );
    check(
        Text,
        insert,
        "INSERT INTO ks.t (k, doc, n, doc__encoded) VALUES (?, ?, ?, ?) USING TTL ?",
        &[Own(0), Own(1), Own(2), Emptied(1), Own(3)],
    );
    check(
        EncodedOnly,
        insert,
        "INSERT INTO ks.t (k, doc__encoded, n, doc) VALUES (?, ?, ?, ?) USING TTL ?",
        &[Own(0), encoded(1, 0), Own(2), Cleared(1), Own(3)],
    );
    check(
        Both,
        insert,
        "INSERT INTO ks.t (k, doc, n, doc__encoded) VALUES (?, ?, ?, ?) USING TTL ?",
        &[Own(0), Own(1), Own(2), encoded(1, 0), Own(3)],
    );
    check(
        Both,
        "UPDATE t SET doc = 'x', \"Log\" = null WHERE k = 1",
        "UPDATE ks.t SET doc = 'x', doc__encoded = 0xff1078, \"Log\" = null, \"Log__encoded\" = null WHERE k = 1",
        &[],
    );
    check(
        InBlob,
        "insert into ks.t(\"Log\",k,DOC)values(:l,:k,null) if not exists;",
        "insert into ks.t(\"Log__encoded\",k,doc__encoded, \"Log\", doc)values(:l,:k,null, ?, null) if not exists",
        &[encoded(0, 1), Own(1), Emptied(0)],
    );
    let update = "UPDATE t USING TTL ? SET m[?] = ?, doc = ?, \"Log\" = ? WHERE k = ? IF n = ?";
    check(
        InBlob,
        update,
        "UPDATE ks.t USING TTL ? SET m[?] = ?, doc__encoded = ?, doc = ?, \"Log__encoded\" = ?, \"Log\" = ? \
         WHERE k = ? IF n = ?",
        &[
            Own(0),
            Own(1),
            Own(2),
            encoded(3, 0),
            Emptied(3),
            encoded(4, 1),
            Emptied(4),
            Own(5),
            Own(6),
        ],
    );
    check(
        Text,
        "UPDATE t SET doc = 'x''y' WHERE k = 1",
        "UPDATE ks.t SET doc = 'x''y', doc__encoded = null WHERE k = 1",
        &[],
    );
    check(
        InBlob,
        "DELETE n, doc, m[?] FROM t WHERE k = ?",
        "DELETE n, doc, doc__encoded, m[?] FROM ks.t WHERE k = ?",
        &[Own(0), Own(1)],
    );
}

#[test]
fn a_column_that_is_only_announced_stays_as_it_is_beside_others() {
    for text in [
        "INSERT INTO t (k, doc) VALUES (1, upper('x'))",
        "DELETE doc FROM t WHERE k = 1",
        "SELECT doc, \"Log\" FROM t",
    ] {
        let plan = plan(Announced, text);
        assert!(matches!(plan, Plan::PassThrough), "{text}: {plan:?}");
    }
    assert!(matches!(plan(Announced, "SELECT * FROM t"), Plan::All));
    let Plan::Refused(why) = plan(Announced, "SELECT doc__encoded FROM t") else {
        panic!("clients do not see the other column");
    };
    assert!(why.contains("doc__encoded"), "{why}");
}

#[test]
fn a_text_in_the_statement_is_encoded_there() {
    let Plan::Changed(changed) = plan(InBlob, "UPDATE t SET doc='{\"a\":''1''}'WHERE k=0") else {
        panic!("it is changed");
    };
    let (before, behind) = changed.text.split_once("0x").expect("a blob");
    let (digits, behind) = behind.split_once(", ").expect("the other column");
    assert_eq!(before, "UPDATE ks.t SET doc__encoded=");
    assert_eq!(behind, "doc = null WHERE k=0");
    let bytes: Vec<u8> = (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hex"))
        .collect();
    let mut text = String::new();
    let decoded = Decoder::default().decode(&bytes, &(), 100, &mut text);
    assert_eq!((decoded, &*text), (Ok(()), "{\"a\":'1'}"));
}

#[test]
fn encoded_values_come_behind_what_is_selected() {
    let text = "SELECT k, doc AS d, n, \"Log\", DOC FROM t WHERE k = ? ORDER BY c LIMIT ?";
    for written in [Text, Both, InBlob] {
        let Plan::Changed(changed) = plan(written, text) else {
            panic!("it is changed");
        };
        let expected = "SELECT k, doc AS d, n, \"Log\", DOC, doc__encoded, \"Log__encoded\" FROM ks.t WHERE k = ? \
                        ORDER BY c LIMIT ?";
        assert_eq!(&*changed.text, expected);
        assert_eq!(&*changed.sources, [Own(0), Own(1)]);
        let texts = [(1, 0), (3, 1), (4, 0)].map(|(at, behind)| SelectedText {
            at,
            from: TextFrom::Behind(behind),
        });
        let texts = texts.into();
        assert_eq!(
            changed.shown,
            Shown::Selected(Selection { behind: 2, texts })
        );
    }
}

/// Columns of the answer that are encoded values in place of texts, and the columns whose names they get.
fn in_place(all: &[(usize, Option<usize>)]) -> Selection {
    let text = |(at, named): &(usize, Option<usize>)| SelectedText {
        at: *at,
        from: TextFrom::InPlace(*named),
    };
    Selection {
        behind: 0,
        texts: all.iter().map(text).collect(),
    }
}

#[test]
fn where_no_row_has_a_text_any_more_encoded_values_take_the_place_of_texts() {
    for (text, expected, texts) in [
        (
            "SELECT k, doc AS d, n, \"Log\", DOC FROM t WHERE k = ? ORDER BY c LIMIT 3",
            "SELECT k, doc__encoded AS d, n, \"Log__encoded\", doc__encoded FROM ks.t WHERE k = ? ORDER BY c LIMIT 3",
            in_place(&[(1, None), (3, Some(1)), (4, Some(0))]),
        ),
        (
            "SELECT\"Log\"FROM t WHERE k = ?",
            "SELECT\"Log__encoded\"FROM ks.t WHERE k = ?",
            in_place(&[(0, Some(1))]),
        ),
        (
            "SELECT\"doc\"FROM t WHERE k = ?",
            "SELECT doc__encoded FROM ks.t WHERE k = ?",
            in_place(&[(0, Some(0))]),
        ),
    ] {
        let Plan::Changed(changed) = plan(EncodedOnly, text) else {
            panic!("{text} is changed");
        };
        assert_eq!(&*changed.text, expected);
        assert_eq!(&*changed.sources, [Own(0)]);
        assert_eq!(changed.shown, Shown::Selected(texts), "{text}");
    }
    let Plan::Changed(changed) = plan(EncodedOnly, "SELECT JSON n, doc AS d, doc, \"Log\" FROM t")
    else {
        panic!("it is changed");
    };
    let expected = "SELECT JSON n, doc__encoded AS d, doc__encoded AS doc, \"Log__encoded\" AS \"Log\" FROM ks.t";
    assert_eq!(&*changed.text, expected);
    let texts = in_place(&[(1, None), (2, None), (3, None)]);
    assert_eq!(changed.shown, Shown::Json(Some(texts)));
}

#[test]
fn columns_in_several_states_are_selected_each_as_it_is() {
    let mut of = table(EncodedOnly);
    Arc::get_mut(&mut of).expect("no other owner").columns[1].written = InBlob;
    let text = "SELECT \"Log\", doc, k FROM t";
    let facts = helenus_cql::facts(text);
    let planned = EncodedPlan::<OnlyText>::of(&of, text, &facts, &mut Coding::default());
    let Plan::Changed(changed) = &*planned.plan else {
        panic!("it is changed");
    };
    assert_eq!(
        &*changed.text,
        "SELECT \"Log\", doc__encoded, k, \"Log__encoded\" FROM ks.t"
    );
    let texts = [
        SelectedText {
            at: 0,
            from: TextFrom::Behind(0),
        },
        SelectedText {
            at: 1,
            from: TextFrom::InPlace(Some(0)),
        },
    ];
    let texts = texts.into();
    assert_eq!(
        changed.shown,
        Shown::Selected(Selection { behind: 1, texts })
    );
}

#[test]
fn rows_as_json_have_their_values_where_they_belong() {
    check(
        InBlob,
        "INSERT INTO t JSON '{\"k\": 1, \"doc\": \"it''s\"}' DEFAULT UNSET",
        "INSERT INTO ks.t JSON '{\"k\": 1, \"\\\"doc__encoded\\\"\": \"0xff1069742773\", \"\\\"doc\\\"\": null}' \
         DEFAULT UNSET",
        &[],
    );
    check(
        Text,
        "INSERT INTO t JSON ? USING TTL ?",
        "INSERT INTO ks.t JSON ? USING TTL ?",
        &[Json(0, 0), Own(1)],
    );
    let Plan::Changed(changed) = plan(InBlob, "SELECT JSON * FROM t") else {
        panic!("its documents are changed");
    };
    assert_eq!(
        (&*changed.text, changed.shown),
        ("SELECT JSON * FROM ks.t", Shown::Json(None))
    );
    let Plan::Changed(changed) = plan(InBlob, "SELECT JSON n, doc AS d FROM t") else {
        panic!("it is changed");
    };
    assert_eq!(
        &*changed.text,
        "SELECT JSON n, doc AS d, doc__encoded FROM ks.t"
    );
    let behind = Selection {
        behind: 1,
        texts: [SelectedText {
            at: 1,
            from: TextFrom::Behind(0),
        }]
        .into(),
    };
    assert_eq!(changed.shown, Shown::Json(Some(behind)));
    let untouched = plan(InBlob, "SELECT JSON k, n FROM t");
    assert!(matches!(untouched, Plan::PassThrough), "{untouched:?}");
}

#[test]
fn what_touches_no_encoded_column_stays_as_it_came() {
    for text in [
        "SELECT k, n FROM t WHERE k = ?",
        "SELECT count(*) FROM t",
        "SELECT k FROM t WHERE k = :doc",
        "INSERT INTO t (k, n) VALUES (?, ?)",
        "UPDATE t SET n = ? WHERE k = ?",
        "DELETE FROM t WHERE k = ?",
        // A node says what is wrong with it.
        "UPDATE t SET doc = 5 WHERE k = ?",
        "UPDATE t SET doc = doc + 'x' WHERE k = ?",
    ] {
        assert!(matches!(plan(InBlob, text), Plan::PassThrough), "{text}");
    }
    for text in [
        "SELECT * FROM t WHERE k = ?",
        "UPDATE t SET n = ? WHERE k = ? IF n = 1",
        "INSERT INTO t (k) VALUES (1) IF NOT EXISTS",
    ] {
        assert!(matches!(plan(InBlob, text), Plan::All), "{text}");
    }
}

#[test]
fn what_nodes_cannot_do_with_encoded_values_is_refused() {
    for text in [
        "SELECT * FROM t WHERE doc = 'x' ALLOW FILTERING",
        "SELECT * FROM t WHERE doc__encoded = 0x ALLOW FILTERING",
        "SELECT count(doc) FROM t",
        "SELECT writetime(\"Log\") FROM t",
        "SELECT cast(doc AS ascii) FROM t",
        "SELECT doc__encoded FROM t",
        "SELECT JSON count(doc) FROM t",
        "SELECT toJson(doc) FROM t",
        "INSERT INTO t JSON '{\"doc__encoded\": null}'",
        "INSERT INTO t JSON 'no JSON'",
        "INSERT INTO t (k, doc) VALUES (1, f('x'))",
        "INSERT INTO t (k, doc__encoded) VALUES (1, 0x)",
        "UPDATE t SET doc = ? WHERE k = ? IF doc = ?",
        "UPDATE t SET doc__encoded = ? WHERE k = ?",
        "DELETE doc__encoded FROM t WHERE k = ?",
        "DELETE FROM t WHERE k = ? IF \"Log\" = 'x'",
    ] {
        let refused = plan(InBlob, text);
        let Plan::Refused(why) = &refused else {
            panic!("{text}: {refused:?}");
        };
        assert!(why.contains("ks.t"), "{text}: {why}");
    }
}

#[test]
fn each_statement_of_a_batch_is_changed_by_itself() {
    let text = "BEGIN UNLOGGED BATCH USING TIMESTAMP ? INSERT INTO t (k, doc) VALUES (?, ?); \
                UPDATE u SET doc = ? WHERE k = ?; UPDATE t SET doc = ? WHERE k = ? APPLY BATCH;";
    let facts = helenus_cql::facts(text);
    let table = table(InBlob);
    let mut coding = Coding::default();
    let tables = [Some(&table), None, Some(&table)];
    let changed = text_batch::<OnlyText>(&tables, None, text, &facts, &mut coding);
    let changed = changed.expect("not refused").expect("changed");
    let expected = "BEGIN UNLOGGED BATCH USING TIMESTAMP ? INSERT INTO t (k, doc__encoded, doc) VALUES (?, ?, ?); \
                    UPDATE u SET doc = ? WHERE k = ?; UPDATE t SET doc__encoded = ?, doc = ? WHERE k = ? \
                    APPLY BATCH";
    assert_eq!(&*changed.text, expected);
    let sources = [
        Own(0),
        Own(1),
        encoded(2, 0),
        Emptied(2),
        Own(3),
        Own(4),
        encoded(5, 0),
        Emptied(5),
        Own(6),
    ];
    assert_eq!(&*changed.sources, sources);
    let table = self::table(Both);
    let tables = [Some(&table), None, Some(&table)];
    let changed = text_batch::<OnlyText>(&tables, None, text, &facts, &mut coding);
    let changed = changed.expect("not refused").expect("changed");
    let sources = [
        Own(0),
        Own(1),
        Own(2),
        encoded(2, 0),
        Own(3),
        Own(4),
        Own(5),
        encoded(5, 0),
        Own(6),
    ];
    assert_eq!(&*changed.sources, sources);
    let none = text_batch::<OnlyText>(&[None, None, None], None, text, &facts, &mut coding);
    assert!(matches!(none, Ok(None)));
}

#[test]
fn a_batch_over_two_tables_encodes_for_each_and_depends_on_no_keyspace() {
    let text = "BEGIN BATCH INSERT INTO t (k, doc) VALUES (?, ?); INSERT INTO other.t (k, \"Log\") VALUES (?, ?); \
                UPDATE n SET v = ? WHERE k = 1 APPLY BATCH";
    let facts = helenus_cql::facts(text);
    let (first, second) = (table(InBlob), table(InBlob));
    let mut coding = Coding::default();
    let tables = [Some(&first), Some(&second), None];
    let changed = text_batch::<OnlyText>(&tables, Some("Ks"), text, &facts, &mut coding);
    let changed = changed.expect("not refused").expect("changed");
    let expected = "BEGIN BATCH INSERT INTO \"Ks\".t (k, doc__encoded, doc) VALUES (?, ?, ?); \
                    INSERT INTO other.t (k, \"Log__encoded\", \"Log\") VALUES (?, ?, ?); \
                    UPDATE \"Ks\".n SET v = ? WHERE k = 1 APPLY BATCH";
    assert_eq!(&*changed.text, expected);
    let log_of_second = Source::Encoded(
        3,
        ColumnNumber {
            table: 1,
            column: 1,
        },
    );
    let sources = [
        Own(0),
        encoded(1, 0),
        Emptied(1),
        Own(2),
        log_of_second,
        Emptied(3),
        Own(4),
    ];
    assert_eq!(&*changed.sources, sources);
    assert!(Arc::ptr_eq(&changed.tables[0], &first) && Arc::ptr_eq(&changed.tables[1], &second));
}

#[test]
fn where_texts_are_written_no_more_a_null_still_takes_out_what_is_left_of_one() {
    check(
        EncodedOnly,
        "UPDATE t SET doc = ?, \"Log\" = 'x' WHERE k = ?",
        "UPDATE ks.t SET doc__encoded = ?, doc = ?, \"Log__encoded\" = 0xff1078 WHERE k = ?",
        &[encoded(0, 0), Cleared(0), Own(1)],
    );
    check(
        EncodedOnly,
        "INSERT INTO t (k, doc) VALUES (1, null)",
        "INSERT INTO ks.t (k, doc__encoded, doc) VALUES (1, null, null)",
        &[],
    );
}

#[test]
fn a_column_that_does_not_fit_is_neither_read_nor_written() {
    let mut of = table(InBlob);
    let of_table = Arc::get_mut(&mut of).expect("no other owner");
    of_table.columns[1].fits = false;
    let plan = |text: &str| {
        let facts = helenus_cql::facts(text);
        let planned = EncodedPlan::<OnlyText>::of(&of, text, &facts, &mut Coding::default());
        Arc::try_unwrap(planned.plan).expect("no other owner")
    };
    for text in [
        "SELECT * FROM t",
        "SELECT k, \"Log\" FROM t",
        "UPDATE t SET \"Log\" = 'x' WHERE k = 1",
        "DELETE \"Log\" FROM t WHERE k = 1",
        // Its answer has all columns if the condition does not hold.
        "UPDATE t SET n = 1 WHERE k = 1 IF n = 2",
    ] {
        let Plan::Refused(why) = plan(text) else {
            panic!("{text} is not refused");
        };
        assert!(why.contains("payload status ks.t"), "{text}: {why}");
    }
    assert!(matches!(plan("SELECT k, n FROM t"), Plan::PassThrough));
    assert!(matches!(plan("SELECT doc FROM t"), Plan::Changed(_)));
    assert!(matches!(
        plan("DELETE FROM t WHERE k = 1"),
        Plan::PassThrough
    ));
}

#[test]
fn a_long_statement_costs_as_much_per_column_as_a_short_one() {
    // With time that grows with the square of the columns, this would take minutes.
    let count = 60_000;
    let names: Vec<String> = (0..count).map(|at| format!("c{at}")).collect();
    let markers = vec!["?"; count].join(",");
    let text = format!(
        "INSERT INTO t (doc,{}) VALUES ('x',{markers})",
        names.join(",")
    );
    assert!(matches!(plan(InBlob, &text), Plan::Changed(_)));
    let sets: Vec<String> = names.iter().map(|name| format!("{name}=?")).collect();
    let text = format!("UPDATE t SET doc='x',{} WHERE k=1", sets.join(","));
    assert!(matches!(plan(InBlob, &text), Plan::Changed(_)));
}
