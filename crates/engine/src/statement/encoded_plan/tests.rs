use std::collections::BTreeMap;

use helenus_payload::{Codec, Decoder};

use super::*;

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
        name: name.to_owned(),
        hidden: format!("{name}__encoded"),
        written,
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

use Source::{Emptied, Encoded, Own};
use Written::{Announced, Both, Encoded as InBlob, EncodedOnly, Text};

#[test]
fn a_value_goes_to_one_column_and_out_of_the_other() {
    let insert = "INSERT INTO t (k, doc, n) VALUES (?, ?, ?) USING TTL ?";
    check(
        InBlob,
        insert,
        "INSERT INTO ks.t (k, doc__encoded, n, doc) VALUES (?, ?, ?, ?) USING TTL ?",
        &[Own(0), Encoded(1, 0), Own(2), Emptied(1), Own(3)],
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
        "INSERT INTO ks.t (k, doc__encoded, n) VALUES (?, ?, ?) USING TTL ?",
        &[Own(0), Encoded(1, 0), Own(2), Own(3)],
    );
    check(
        Both,
        insert,
        "INSERT INTO ks.t (k, doc, n, doc__encoded) VALUES (?, ?, ?, ?) USING TTL ?",
        &[Own(0), Own(1), Own(2), Encoded(1, 0), Own(3)],
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
        &[Encoded(0, 1), Own(1), Emptied(0)],
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
            Encoded(3, 0),
            Emptied(3),
            Encoded(4, 1),
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
        assert!(matches!(plan, Plan::AsItCame), "{text}: {plan:?}");
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
    let Plan::Changed(changed) = plan(EncodedOnly, text) else {
        panic!("it is changed");
    };
    let expected = "SELECT k, doc AS d, n, \"Log\", DOC, doc__encoded, \"Log__encoded\" FROM ks.t WHERE k = ? \
                    ORDER BY c LIMIT ?";
    assert_eq!(&*changed.text, expected);
    assert_eq!(&*changed.sources, [Own(0), Own(1)]);
    let texts: Box<[(usize, usize)]> = [(1, 0), (3, 1), (4, 0)].into();
    assert_eq!(changed.shown, Shown::Behind { count: 2, texts });
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
        assert!(matches!(plan(InBlob, text), Plan::AsItCame), "{text}");
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
        "SELECT JSON * FROM t",
        "SELECT JSON doc FROM t",
        "INSERT INTO t JSON ?",
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
    let changed = text_batch::<OnlyText>(&tables, text, &facts, &mut coding);
    let changed = changed.expect("not refused").expect("changed");
    let expected = "BEGIN UNLOGGED BATCH USING TIMESTAMP ? INSERT INTO t (k, doc__encoded, doc) VALUES (?, ?, ?); \
                    UPDATE u SET doc = ? WHERE k = ?; UPDATE t SET doc__encoded = ?, doc = ? WHERE k = ? \
                    APPLY BATCH";
    assert_eq!(&*changed.text, expected);
    let sources = [
        Own(0),
        Own(1),
        Encoded(2, 0),
        Emptied(2),
        Own(3),
        Own(4),
        Encoded(5, 0),
        Emptied(5),
        Own(6),
    ];
    assert_eq!(&*changed.sources, sources);
    let table = self::table(Both);
    let tables = [Some(&table), None, Some(&table)];
    let changed = text_batch::<OnlyText>(&tables, text, &facts, &mut coding);
    let changed = changed.expect("not refused").expect("changed");
    let sources = [
        Own(0),
        Own(1),
        Own(2),
        Encoded(2, 0),
        Own(3),
        Own(4),
        Own(5),
        Encoded(5, 0),
        Own(6),
    ];
    assert_eq!(&*changed.sources, sources);
    let none = text_batch::<OnlyText>(&[None, None, None], text, &facts, &mut coding);
    assert!(matches!(none, Ok(None)));
}
