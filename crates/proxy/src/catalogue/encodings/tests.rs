use helenus_catalogue::{Catalogue, Encoding, Encodings, OfTable, TableKey, Written};
use helenus_engine::features::encodings::EncodedColumn;
use helenus_payload::{Codec, DictionaryId, learn};

use super::Known;
use crate::catalogue::dictionaries::{Dictionaries, DictionaryKey};
use crate::catalogue::testing::schema;

const USERS: &str = "users: id key int, at < int, profile - text, profile__encoded - blob, note static text, \
                     note__encoded - blob, age - int, age__encoded - blob, bio - text, bio__encoded - text, \
                     cv - varchar";

fn entry(column: &str, state: &str, codec: &str, dictionary: Option<i32>) -> Encoding {
    Encoding {
        column: column.to_owned(),
        hidden: format!("{column}__encoded"),
        state: state.to_owned(),
        codec: codec.to_owned(),
        dictionary,
        ..Encoding::default()
    }
}

fn catalogue_of(table: &str, columns: &[Encoding]) -> Catalogue {
    let encodings = Encodings {
        flag: 1,
        columns: columns.to_vec(),
    };
    let of = OfTable {
        layouts: None,
        encodings: Some(encodings),
    };
    Catalogue {
        version: 1,
        tables: [(TableKey::new("shop", table), of)].into_iter().collect(),
    }
}

/// Dictionary 7 of the table, learned from numbered documents.
fn dictionaries() -> Dictionaries {
    let key = DictionaryKey {
        keyspace: "shop".to_owned(),
        table: "users".to_owned(),
        id: 7,
    };
    let documents: Vec<String> = (0..200)
        .map(|n| format!("{{\"user\":{n},\"kind\":\"a\"}}"))
        .collect();
    let learned = learn(documents.iter().map(String::as_str));
    assert!(learned.suffices_for(Codec::Shape));
    let mut dictionaries = Dictionaries::default();
    dictionaries.adopt(std::slice::from_ref(&key), |_| true);
    dictionaries.put(key, Some(&learned.to_bytes()));
    dictionaries
}

fn known_of(columns: &[Encoding]) -> Known {
    let catalogue = catalogue_of("users", columns);
    super::known(&catalogue, Some(&dictionaries()), &schema(&[USERS]))
}

fn only_column(known: &Known) -> EncodedColumn {
    let table = known.encodings.table("shop", "users").expect("a table");
    assert_eq!(table.columns.len(), 1);
    table.columns[0].clone()
}

#[test]
fn what_fits_is_known_as_it_is_described() {
    for (state, written) in [
        ("announced", Written::Announced),
        ("text", Written::Text),
        ("both", Written::Both),
        ("encoded", Written::Encoded),
        ("encoded_only", Written::EncodedOnly),
    ] {
        let known = known_of(&[entry("profile", state, "shape", Some(7))]);
        assert_eq!(known.problems, [""; 0]);
        assert_eq!((known.rejected, known.count(written)), (0, 1));
        let column = only_column(&known);
        assert_eq!(
            (&*column.name, &*column.hidden),
            ("profile", "profile__encoded")
        );
        assert_eq!((column.written, column.codec), (written, Codec::Shape));
        assert_eq!(column.dictionary, Some(DictionaryId(7)));
        let table = known.encodings.table("shop", "users").expect("a table");
        assert!(table.dictionaries.contains_key(&DictionaryId(7)));
    }
    let without = known_of(&[entry("profile", "text", "smile", None)]);
    assert_eq!(only_column(&without).codec, Codec::Smile);
    assert!(known_of(&[]).encodings.is_empty());
}

#[test]
fn a_column_that_does_not_fit_is_known_as_such() {
    for (column, reason) in [
        ("nothing", "no column nothing"),
        ("id", "no column id outside of its key"),
        ("note", "is static"),
        ("age", "type int"),
        ("bio", "not one of type blob"),
        ("cv", "no column cv__encoded"),
    ] {
        let known = known_of(&[entry(column, "encoded", "raw", None)]);
        assert_eq!((known.rejected, known.problems.len()), (1, 1), "{column}");
        assert!(known.problems[0].contains(reason), "{:?}", known.problems);
        assert!(!only_column(&known).fits, "{column}");
    }
    let mut second = entry("cv", "text", "raw", None);
    second.hidden = "profile__encoded".to_owned();
    let known = known_of(&[entry("profile", "text", "raw", None), second]);
    assert!(
        known.problems[0].contains("another encoded column"),
        "{:?}",
        known.problems
    );
}

#[test]
fn only_an_announced_column_may_do_without_the_one_beside_it() {
    let without = |state: &str| {
        let mut of = entry("profile", state, "smile", None);
        of.hidden = "profile__encoded2".to_owned();
        known_of(&[of])
    };
    let announced = without("announced");
    assert_eq!((announced.rejected, announced.problems.len()), (0, 0));
    assert_eq!(only_column(&announced).hidden, "profile__encoded2");
    assert_eq!(without("text").rejected, 1);
}

#[test]
fn a_table_that_is_missing_is_left_out() {
    let gone = catalogue_of("gone", &[entry("profile", "text", "raw", None)]);
    let known = super::known(&gone, Some(&dictionaries()), &schema(&[USERS]));
    assert!(known.encodings.is_empty());
    assert_eq!((known.rejected, known.problems.len()), (1, 1));
}

#[test]
fn what_cannot_be_encoded_is_stored_as_it_is() {
    for (codec, dictionary, rejected, reason) in [
        ("brotli", None, 0, "does not know the codec"),
        ("shape", None, 0, "none is named"),
        ("shape", Some(8), 1, "dictionary 8 is missing"),
        ("shape", Some(-1), 1, "dictionary -1 is missing"),
    ] {
        let known = known_of(&[entry("profile", "encoded", codec, dictionary)]);
        assert!(known.problems[0].contains(reason), "{:?}", known.problems);
        assert_eq!((known.rejected, known.problems.len()), (rejected, 1));
        let column = only_column(&known);
        assert_eq!((column.codec, column.dictionary), (Codec::Raw, None));
        assert_eq!(column.hidden, "profile__encoded", "it is read");
    }
    let strange = known_of(&[entry("profile", "frozen", "raw", None)]);
    assert_eq!(only_column(&strange).written, Written::Encoded);
    assert!(strange.problems[0].contains("\"frozen\" is unknown"));
}

#[test]
fn a_node_without_dictionaries_is_doubted() {
    let one = catalogue_of("users", &[entry("profile", "encoded", "raw", None)]);
    let known = super::known(&one, None, &schema(&[USERS]));
    assert_eq!((known.rejected, known.problems.len()), (1, 1));
    let none = super::known(&Catalogue::default(), None, &schema(&[USERS]));
    assert_eq!((none.rejected, none.problems.len()), (0, 0));
}
