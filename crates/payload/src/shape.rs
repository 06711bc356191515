//! The shape of a column's documents: their names, structure and frequent values, learned from a sample.
//!
//! A document is then a series of choices: which value of this place, which member comes next, which word.
//! Each is written in as few bits as it is frequent in the sample: −log₂ of its share, by a range variant
//! of asymmetric numeral systems (Duda, 2013). Values that the sample did not have are spelled out. A name
//! or a value that is always the same costs nothing.
//!
//! A [`Slot`](slot::Slot) is what is learned of a place in the documents.

mod coder;
mod decode;
mod encode;
mod fixed;
mod frequencies;
mod integers;
mod learn;
mod model;
mod slot;
mod spelling;
mod store;
mod words;

use crate::DecodeError;
use crate::json::{Document, Style, TEXT_BYTES_MAX, TextWriter};

pub(crate) use coder::Choices;
pub(crate) use model::Shape;

impl Shape {
    /// From texts and their nodes. None if there are none.
    pub(crate) fn learn(samples: &[(&str, Document)]) -> Option<Shape> {
        learn::learn(samples)
    }

    /// None if the document is too long, or has white space in unusual places.
    pub(crate) fn encode(
        &self,
        text: &str,
        document: &Document,
        choices: &mut Choices,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        if text.len() > TEXT_BYTES_MAX || document.style == Style::Other {
            return None;
        }
        encode::encode(self, text, document, choices, out);
        Some(())
    }

    pub(crate) fn decode(
        &self,
        bytes: &[u8],
        limit_bytes: usize,
        out: &mut String,
    ) -> Result<(), DecodeError> {
        let writer = TextWriter {
            out,
            limit_bytes,
            style: Style::Compact,
        };
        decode::decode(self, bytes, writer)
    }

    pub(crate) fn to_bytes(&self, out: &mut Vec<u8>) {
        store::write(self, out);
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Shape, crate::LearnedError> {
        store::read(bytes)
    }
}
