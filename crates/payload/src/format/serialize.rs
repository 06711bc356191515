//! Documents as serde sees them.

use serde::ser::{Error, SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::json::{Document, Kind, Node, unescape};

/// A value of a document.
#[derive(Clone, Copy)]
pub(super) struct Value<'d> {
    text: &'d str,
    nodes: &'d [Node],
    at: usize,
}

impl<'d> Value<'d> {
    pub(super) fn root(text: &'d str, document: &'d Document) -> Self {
        Value {
            text,
            nodes: &document.nodes,
            at: 0,
        }
    }

    fn node(self) -> Node {
        self.nodes[self.at]
    }

    fn at(self, at: usize) -> Self {
        Value { at, ..self }
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let node = self.node();
        let count = node.count as usize;
        match node.kind {
            Kind::Object => {
                let mut map = serializer.serialize_map(Some(count))?;
                let mut at = self.at + 1;
                for _ in 0..count {
                    map.serialize_entry(&self.at(at), &self.at(at + 1))?;
                    at = self.nodes[at + 1].next as usize;
                }
                map.end()
            }
            Kind::Array => {
                let mut seq = serializer.serialize_seq(Some(count))?;
                let mut at = self.at + 1;
                for _ in 0..count {
                    seq.serialize_element(&self.at(at))?;
                    at = self.nodes[at].next as usize;
                }
                seq.end()
            }
            Kind::String => match node.is_escaped {
                false => serializer.serialize_str(node.text(self.text)),
                true => match unescape(node.text(self.text)) {
                    Some(said) => serializer.serialize_str(&said),
                    None => Err(S::Error::custom("half of a surrogate pair")),
                },
            },
            Kind::Number => number(node.text(self.text), serializer),
            Kind::True => serializer.serialize_bool(true),
            Kind::False => serializer.serialize_bool(false),
            Kind::Null => serializer.serialize_none(),
        }
    }
}

fn number<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if let Ok(number) = text.parse() {
        return serializer.serialize_i64(number);
    }
    if let Ok(number) = text.parse() {
        return serializer.serialize_u64(number);
    }
    match text.parse() {
        Ok(number) if f64::is_finite(number) => serializer.serialize_f64(number),
        _ => Err(S::Error::custom("no such number")),
    }
}
