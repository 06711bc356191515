//! JSON documents as a flat list of nodes that point into the text.
//!
//! The grammar is that of RFC 8259, strictly. Everything about a document's spelling is kept: the order
//! of names and their duplicates, numbers and escapes as written, and which white space there is.

mod members;
mod number;
mod parse;
mod string;
mod write;

pub use members::{Member, MemberValue, members, quote};
pub(crate) use number::{Decimal, Usual, usual, write_decimal, write_integer};
pub(crate) use parse::{Document, Kind, Node, NotJson, Style, parse};
pub(crate) use string::unescape;
pub(crate) use write::{TextWriter, WriteError, write_float, write_string};

/// Documents that are nested deeper are stored as they are.
pub const DEPTH_MAX: usize = 128;
/// So are longer ones, of which the nodes would take several times their memory.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;

/// True if a text is a JSON document that the codecs look into.
pub fn is_json(text: &str) -> bool {
    let mut document = Document::default();
    parse(text, DEPTH_MAX, &mut document).is_ok()
}
