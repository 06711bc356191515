//! The members of one object, for those who change some of them and leave the others as they are spelled.

use std::borrow::Cow;

use super::parse::{Document, Kind, parse};
use super::string::unescape;
use super::{DEPTH_MAX, Node};

/// A name and its value.
#[derive(Debug, PartialEq, Eq)]
pub struct Member<'t> {
    pub name: Cow<'t, str>,
    /// As written, with quotation marks.
    pub name_raw: &'t str,
    pub value: MemberValue<'t>,
    /// As written.
    pub value_raw: &'t str,
}

#[derive(Debug, PartialEq, Eq)]
pub enum MemberValue<'t> {
    Text(Cow<'t, str>),
    Null,
    /// A number, an object, …
    Other,
}

/// The members of a document in their order, duplicates included. `None`: it is no object, is nested deeper than
/// [`DEPTH_MAX`], or has a name or a text that is none (half of a surrogate pair).
pub fn members(text: &str) -> Option<Vec<Member<'_>>> {
    let mut document = Document::default();
    parse(text, DEPTH_MAX, &mut document).ok()?;
    let object = document
        .nodes
        .first()
        .filter(|node| node.kind == Kind::Object)?;
    let said = |node: &Node| unescape(node.text(text));
    let mut members = Vec::with_capacity(object.count as usize);
    let mut at = 1;
    for _ in 0..object.count {
        let name = document.nodes.get(at)?;
        let value = document.nodes.get(at + 1)?;
        members.push(Member {
            name: said(name)?,
            name_raw: name.raw(text),
            value: match value.kind {
                Kind::String => MemberValue::Text(said(value)?),
                Kind::Null => MemberValue::Null,
                _ => MemberValue::Other,
            },
            value_raw: value.raw(text),
        });
        at = value.next as usize;
    }
    Some(members)
}

/// Appends a text as a JSON string, spelled as Cassandra does.
pub fn quote(said: &str, out: &mut String) {
    out.push('"');
    for c in said.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..'\u{20}' => out.push_str(&format!("\\u{:04X}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_told_as_they_are_spelled() {
        let text = r#" {"a" : "x\u0041", "\"B\"": {"c": [1, {}]}, "d":null,"a": 1.0 } "#;
        let found = members(text).expect("an object");
        let told: Vec<_> = found
            .iter()
            .map(|of| (&*of.name, of.name_raw, of.value_raw))
            .collect();
        let expected = [
            ("a", r#""a""#, r#""x\u0041""#),
            ("\"B\"", r#""\"B\"""#, r#"{"c": [1, {}]}"#),
            ("d", r#""d""#, "null"),
            ("a", r#""a""#, "1.0"),
        ];
        assert_eq!(told, expected);
        assert_eq!(found[0].value, MemberValue::Text("xA".into()));
        assert_eq!(found[1].value, MemberValue::Other);
        assert_eq!(found[2].value, MemberValue::Null);
        assert_eq!(members("{}"), Some(Vec::new()));
        for text in ["", "[]", "{", r#"{"a": "\ud800"}"#, "{'a': 1}"] {
            assert_eq!(members(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_quoted_says_the_same() {
        let said = "a\"b\\c/\n\u{1}\u{1f}\u{7f}größe";
        let mut quoted = String::new();
        quote(said, &mut quoted);
        assert_eq!(quoted, "\"a\\\"b\\\\c/\\n\\u0001\\u001F\u{7f}größe\"");
        let object = format!("{{\"a\":{quoted}}}");
        let found = members(&object).expect("an object");
        assert_eq!(found[0].value, MemberValue::Text(said.into()));
    }
}
