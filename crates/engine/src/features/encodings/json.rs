//! Rows as JSON documents, of INSERT JSON and SELECT JSON: texts in the place of encoded values and the other way
//! round. All other members stay as they are spelled.

use std::sync::Arc;

use helenus_catalogue::Written;
use helenus_payload::{Member, MemberValue, members, quote};

use super::coding::Coding;
use super::shown::{Pair, Selection, Unshown};
use super::{EncodedColumn, EncodedTable};

/// The document that is sent in place of a client's; `None`: as it came.
///
/// # Errors
/// Why it is refused.
pub(crate) fn stored_document(
    coding: &mut Coding,
    table: &Arc<EncodedTable>,
    document: &str,
) -> Result<Option<String>, String> {
    let of = || format!("{}.{}", table.keyspace, table.name);
    let Some(members) = members(document) else {
        return Err(format!(
            "{} has encoded columns, so INSERT JSON takes one JSON object in the spelling of RFC 8259, without \
             halves of surrogate pairs",
            of()
        ));
    };
    let named: Vec<Option<usize>> = members.iter().map(|of| position(table, of)).collect();
    let mut out = Spelled::default();
    let mut is_changed = false;
    for (at, member) in members.iter().enumerate() {
        let name = column_name(&member.name);
        if let Some(column) = table.hidden_by(&name) {
            return Err(format!(
                "{} has a column {name} for encoded values of {}, which Helenus writes in its place: name that",
                of(),
                column.name
            ));
        }
        let column = named.get(at).copied().flatten();
        let column = column.and_then(|at| Some((at, table.columns.get(at)?)));
        let Some((number, column)) = column.filter(|(_, of)| of.written.has_encoded()) else {
            out.raw(member);
            continue;
        };
        if named.iter().filter(|of| **of == Some(number)).count() > 1 {
            return Err(format!(
                "{} is stored with encoded values of {}, which the JSON document names twice",
                of(),
                column.name
            ));
        }
        // A node says what is wrong with it.
        let text = match &member.value {
            MemberValue::Other => {
                out.raw(member);
                continue;
            }
            MemberValue::Null => None,
            MemberValue::Text(text) => Some(&**text),
        };
        is_changed = true;
        let mut encoded = || {
            let stored = text.map(|text| coding.encode(table, number, text));
            stored.map_or("null".to_owned(), |stored| format!("\"{}\"", hex(&stored)))
        };
        match column.written {
            Written::Announced => out.raw(member),
            Written::Text => {
                out.raw(member);
                out.member(&column.hidden, "null");
            }
            Written::Both => {
                out.raw(member);
                out.member(&column.hidden, &encoded());
            }
            Written::Encoded => {
                out.member(&column.hidden, &encoded());
                out.member(&column.name, "null");
            }
            Written::EncodedOnly => {
                out.member(&column.hidden, &encoded());
                if text.is_none() {
                    // A text that is left would count again.
                    out.member(&column.name, "null");
                }
            }
        }
    }
    Ok(is_changed.then(|| out.finish()))
}

/// The document that a client is to see.
pub(crate) fn shown_document(
    coding: &mut Coding,
    table: &EncodedTable,
    of: Option<&Selection>,
    document: &str,
    limit_bytes: usize,
) -> Result<String, Unshown> {
    let Some(members) = members(document) else {
        let why = "a node's JSON document cannot be understood";
        return Err(Unshown::Value(why.to_owned()));
    };
    let pairs = match of {
        Some(of) => of.pairs(members.len()),
        None => by_name(table, &members),
    };
    let mut out = Spelled::default();
    for (member, pair) in members.iter().zip(pairs) {
        let stored_in = |hidden: usize| members.get(hidden).map(|of| &of.value);
        let (text, stored) = match pair {
            Pair::LeftOut => continue,
            Pair::Text(hidden) if member.value == MemberValue::Null => {
                (member.value_raw, stored_in(hidden))
            }
            Pair::PassThrough | Pair::Text(_) => (member.value_raw, None),
            Pair::EncodedFirst(hidden) => (member.value_raw, stored_in(hidden)),
            Pair::Encoded(hidden) => ("null", stored_in(hidden)),
            Pair::InPlace(_) => (member.value_raw, Some(&member.value)),
        };
        let Some(MemberValue::Text(hidden)) = stored else {
            out.push(member.name_raw, text);
            continue;
        };
        let stored = unhex(hidden).ok_or_else(|| {
            Unshown::Value("an encoded value is no blob in a node's JSON document".to_owned())
        })?;
        let left = limit_bytes.saturating_sub(out.text.len());
        let text = coding
            .decode(table, &stored, left)
            .map_err(|e| Unshown::Value(e.to_string()))?;
        let mut quoted = String::with_capacity(text.len() + 2);
        quote(text, &mut quoted);
        out.push(member.name_raw, &quoted);
    }
    Ok(out.finish())
}

fn by_name(table: &EncodedTable, members: &[Member<'_>]) -> Vec<Pair> {
    let place = |hidden: &str| {
        let mut members = members.iter();
        members.position(|of| *column_name(&of.name) == *hidden)
    };
    let pair = |member: &Member<'_>| {
        let name = column_name(&member.name);
        if table.hidden_by(&name).is_some() {
            return Pair::LeftOut;
        }
        let of = table.column(&name);
        let text = of.and_then(|of| Some(Pair::of(of, place(&of.hidden)?)));
        text.unwrap_or(Pair::PassThrough)
    };
    members.iter().map(pair).collect()
}

fn position(table: &EncodedTable, member: &Member<'_>) -> Option<usize> {
    let name = column_name(&member.name);
    let is_it = |of: &EncodedColumn| of.name == name;
    table.columns.iter().position(is_it)
}

/// The column that a member's name means: upper case counts between quotation marks only.
fn column_name(name: &str) -> String {
    let quoted = name.strip_prefix('"').and_then(|of| of.strip_suffix('"'));
    quoted.map_or_else(|| name.to_lowercase(), str::to_owned)
}

/// A document that is being written, spelled as Cassandra does.
#[derive(Default)]
struct Spelled {
    text: String,
}

impl Spelled {
    fn push(&mut self, name_raw: &str, value_raw: &str) {
        self.text
            .push_str(if self.text.is_empty() { "{" } else { ", " });
        self.text.push_str(name_raw);
        self.text.push_str(": ");
        self.text.push_str(value_raw);
    }

    fn raw(&mut self, member: &Member<'_>) {
        self.push(member.name_raw, member.value_raw);
    }

    /// A column of exactly this name.
    fn member(&mut self, column: &str, value_raw: &str) {
        let mut name = String::new();
        quote(&format!("\"{column}\""), &mut name);
        self.push(&name, value_raw);
    }

    fn finish(mut self) -> String {
        self.text
            .push_str(if self.text.is_empty() { "{}" } else { "}" });
        self.text
    }
}

/// As blobs are written in CQL and in JSON.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 + 2 * bytes.len());
    out.push_str("0x");
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    out
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    let digit = |of: u8| char::from(of).to_digit(16);
    let pairs = digits.chunks(2);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::super::shown::{SelectedText, TextFrom};
    use std::collections::BTreeMap;

    use helenus_catalogue::Form;
    use helenus_payload::Codec;

    use super::*;

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

    #[test]
    fn a_document_that_is_written_has_its_values_where_they_belong() {
        let document = r#"{"k" :1,"DOC": "a\u0041", "\"Log\"": null, "log": 3}"#;
        for (written, expected) in [
            (Written::Announced, None),
            (
                Written::Text,
                Some(
                    r#"{"k": 1, "DOC": "a\u0041", "\"doc__encoded\"": null, "\"Log\"": null, "\"Log__encoded\"": null, "log": 3}"#,
                ),
            ),
            (
                Written::Both,
                Some(
                    r#"{"k": 1, "DOC": "a\u0041", "\"doc__encoded\"": "0xff106141", "\"Log\"": null, "\"Log__encoded\"": null, "log": 3}"#,
                ),
            ),
            (
                Written::Encoded,
                Some(
                    r#"{"k": 1, "\"doc__encoded\"": "0xff106141", "\"doc\"": null, "\"Log__encoded\"": null, "\"Log\"": null, "log": 3}"#,
                ),
            ),
            (
                Written::EncodedOnly,
                Some(
                    r#"{"k": 1, "\"doc__encoded\"": "0xff106141", "\"Log__encoded\"": null, "\"Log\"": null, "log": 3}"#,
                ),
            ),
        ] {
            let table = table(written);
            let stored = stored_document(&mut Coding::default(), &table, document);
            assert_eq!(stored.expect("not refused").as_deref(), expected);
        }
        let table = table(Written::Encoded);
        let stored = |text: &str| stored_document(&mut Coding::default(), &table, text);
        assert_eq!(stored(r#"{"k": 1}"#), Ok(None));
        assert_eq!(
            stored(r#"{"doc": 5}"#),
            Ok(None),
            "a node says what is wrong"
        );
        for (text, why) in [
            ("{", "RFC 8259"),
            (r#"{"doc": "a", "Doc": "b"}"#, "twice"),
            (r#"{"doc__encoded": "0x"}"#, "encoded values of doc"),
        ] {
            let refused = stored(text).expect_err(text);
            assert!(
                refused.contains(why) && refused.contains("ks.t"),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_document_that_is_read_has_its_texts() {
        let table = table(Written::Encoded);
        let shown = |of: Option<&Selection>, text: &str| {
            let shown = shown_document(&mut Coding::default(), &table, of, text, 1_000);
            shown.expect("a document")
        };
        let all = r#"{"k": 1, "\"Log\"": "own", "\"Log__encoded\"": "0xff1078", "doc": null, "doc__encoded": "0xff10220a"}"#;
        let expected = r#"{"k": 1, "\"Log\"": "own", "doc": "\"\n"}"#;
        assert_eq!(shown(None, all), expected);
        let behind = Selection {
            behind: 1,
            texts: [0, 2]
                .map(|at| SelectedText {
                    at,
                    from: TextFrom::Behind(0),
                })
                .into(),
        };
        let some = r#"{"d": null, "k": 1, "doc": null, "doc__encoded": "0xff1078"}"#;
        let expected = r#"{"d": "x", "k": 1, "doc": "x"}"#;
        assert_eq!(shown(Some(&behind), some), expected);
        let nulls = r#"{"d": null, "k": 1, "doc": null, "doc__encoded": null}"#;
        let expected = r#"{"d": null, "k": 1, "doc": null}"#;
        assert_eq!(shown(Some(&behind), nulls), expected);
    }

    #[test]
    fn where_no_row_has_a_text_any_more_encoded_values_alone_are_shown() {
        let table = table(Written::EncodedOnly);
        let shown = |of: Option<&Selection>, text: &str| {
            let shown = shown_document(&mut Coding::default(), &table, of, text, 1_000);
            shown.expect("a document")
        };
        let all = r#"{"\"Log\"": "past the proxies", "\"Log__encoded\"": "0xff1078", "doc": "the same", "doc__encoded": null}"#;
        let expected = r#"{"\"Log\"": "x", "doc": null}"#;
        assert_eq!(shown(None, all), expected);
        let in_place = Selection {
            behind: 0,
            texts: [1, 2]
                .map(|at| SelectedText {
                    at,
                    from: TextFrom::InPlace(None),
                })
                .into(),
        };
        let some = r#"{"k": "0xff1078", "doc": "0xff1078", "l": null}"#;
        let expected = r#"{"k": "0xff1078", "doc": "x", "l": null}"#;
        assert_eq!(shown(Some(&in_place), some), expected);
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let table = table(Written::Encoded);
        for text in [
            "no JSON",
            r#"{"doc": null, "doc__encoded": "0xf"}"#,
            r#"{"doc": null, "doc__encoded": "0xff15"}"#,
        ] {
            let shown = shown_document(&mut Coding::default(), &table, None, text, 1_000);
            assert!(shown.is_err(), "{text}");
        }
    }
}
