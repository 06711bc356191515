//! Changes and restrictions of an UPDATE or DELETE, beyond its [`Facts`](crate::Facts). Few callers ask, so it is
//! parsed when it is asked for, by [`modification`](crate::modification()).

use std::ops::Range;

use crate::facts::{InRelation, RangeRelation, Term};
use crate::name::Name;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Modification {
    /// The assignments of UPDATE, or what DELETE lists before FROM, in the order of the text.
    pub changed: Vec<Changed>,
    /// `IN` restrictions. Spans and markers here count from the start of this statement.
    pub ins: Vec<InRelation>,
    /// Restrictions by order, and equalities of several columns.
    pub ranges: Vec<RangeRelation>,
    /// Restrictions of other kinds, those of `TOKEN(…)` among them.
    pub other_relations: bool,
    /// Whole columns that get a value, or are deleted, in the order of the text. Spans and markers here
    /// count from the start of this statement.
    pub assigned: Vec<Assigned>,
    /// Of an INSERT: where its lists of columns and of values end, before the closing brackets.
    pub lists_end: Option<(usize, usize)>,
    /// Of an INSERT JSON.
    pub json: Option<JsonDocument>,
}

/// The document behind `INSERT INTO … JSON`.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonDocument {
    /// From the start of this statement.
    pub span: Range<usize>,
    /// `None`: a marker, which is the statement's first.
    pub text: Option<String>,
    /// Columns that it does not name stay as they are, in place of becoming null.
    pub default_unset: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    pub column: Name,
    pub change: Change,
}

/// `c = x`, `(c) VALUES (x)`, or `DELETE c`.
#[derive(Clone, Debug, PartialEq)]
pub struct Assigned {
    pub column: Name,
    /// Where the column is named.
    pub name: Range<usize>,
    /// The new value; `None` in a DELETE.
    pub value: Option<AssignedValue>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AssignedValue {
    pub term: Term,
    pub span: Range<usize>,
    /// Markers in the statement up to the end of this value.
    pub markers: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `c = x`, or `DELETE c`.
    Whole,
    /// `c = c + x`, `c = c - x`, `c = x + c`, `c += x`, `c -= x`.
    Added,
    /// `c[i] = x`, or `DELETE c[i]`.
    Element,
    /// `c.field = x`, or `DELETE c.field`.
    Field,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{facts, modification};

    fn changes(text: &str) -> Vec<(String, Change)> {
        let of = |m: Modification| m.changed.into_iter();
        let found = modification(text, &facts(text)).expect("a modification");
        of(found)
            .map(|c| (c.column.to_string(), c.change))
            .collect()
    }

    #[test]
    fn every_assignment_is_told_by_its_kind() {
        use Change::{Added, Element, Field, Whole};
        let text = "UPDATE t SET a = ?, B = b + 1, c = [1] + c, d -= {2}, \"E\" = \"E\" -3, \
                    f[1 + ?] = 2, h.i = 3, j = - 3, k = x.f(k) WHERE p = 0";
        let expected = [
            ("a", Whole),
            ("b", Added),
            ("c", Added),
            ("d", Added),
            ("E", Added),
            ("f", Element),
            ("h", Field),
            ("j", Whole),
            ("k", Whole),
        ];
        assert_eq!(
            changes(text),
            expected.map(|(c, change)| (c.to_owned(), change))
        );
    }

    #[test]
    fn values_are_found_with_their_places() {
        let assigned = |text: &str| {
            let facts = facts(text);
            let of = modification(text, &facts).expect("a modification");
            let show = |a: &Assigned| {
                let value = a.value.as_ref();
                let value = value.map(|v| (text[v.span.clone()].to_owned(), v.markers));
                (text[a.name.clone()].to_owned(), value)
            };
            let ends = of.lists_end.map(|(a, b)| (&text[a..], &text[b..]));
            let items: Vec<_> = of.assigned.iter().map(show).collect();
            (
                format!("{items:?}"),
                ends.map(|(a, b)| (a.to_owned(), b.to_owned())),
            )
        };
        let text = "INSERT INTO t (k, \"V\", w) VALUES (?, {'a': :b}, f(?) ) USING TTL ?";
        let (items, ends) = assigned(text);
        assert_eq!(
            items,
            r#"[("k", Some(("?", 1))), ("\"V\"", Some(("{'a': :b}", 2))), ("w", Some(("f(?)", 3)))]"#
        );
        let (columns, values) = ends.expect("lists");
        assert!(
            columns.starts_with(") VALUES") && values.starts_with(") USING"),
            "{values}"
        );
        let text = "UPDATE t USING TTL ? SET m[?] = ?, v = 'x''y', w = w + ?, u = ? WHERE k = ?";
        let (items, ends) = assigned(text);
        assert_eq!(
            items,
            r#"[("v", Some(("'x''y'", 3))), ("u", Some(("?", 5)))]"#
        );
        assert_eq!(ends, None);
        let (items, _) = assigned("DELETE a, m[?], b FROM t WHERE k = ?");
        assert_eq!(items, r#"[("a", None), ("b", None)]"#);
        let (items, _) = assigned("INSERT INTO t JSON '{}'");
        assert_eq!(items, "[]");
    }

    #[test]
    fn the_document_of_an_insert_is_found() {
        let document = |text: &str| {
            let found = modification(text, &facts(text)).expect("a modification");
            let json = found.json.expect("a document");
            (text[json.span].to_owned(), json.text, json.default_unset)
        };
        assert_eq!(
            document("INSERT INTO t JSON '{\"a\": ''b''}' DEFAULT UNSET IF NOT EXISTS"),
            (
                "'{\"a\": ''b''}'".to_owned(),
                Some("{\"a\": 'b'}".to_owned()),
                true
            )
        );
        let null = document("INSERT INTO t JSON $${}$$ DEFAULT NULL");
        assert_eq!(null, ("$${}$$".to_owned(), Some("{}".to_owned()), false));
        let marker = document("INSERT INTO t JSON :doc USING TTL ?");
        assert_eq!(marker, (":doc".to_owned(), None, false));
    }

    #[test]
    fn deletions_and_restrictions_are_found_in_a_batch_too() {
        let text = "BEGIN BATCH DELETE a, b[?], c.d FROM t WHERE k = ? AND c IN (?, ?) AND (d, e) > ?; \
                    UPDATE t SET v = 1 WHERE token(k) = 3 APPLY BATCH";
        let batch = facts(text);
        let delete = modification(text, &batch.inner[0]).expect("a DELETE");
        let of = |m: &Modification| m.changed.iter().map(|c| c.change).collect::<Vec<_>>();
        assert_eq!(of(&delete), [Change::Whole, Change::Element, Change::Field]);
        assert_eq!(delete.ins[0].columns, [Name::from_stored("c")]);
        assert_eq!(delete.ranges[0].columns.len(), 2);
        assert!(!delete.other_relations);
        let update = modification(text, &batch.inner[1]).expect("an UPDATE");
        assert!(update.other_relations);
        assert!(modification(text, &batch).is_none());
    }
}
