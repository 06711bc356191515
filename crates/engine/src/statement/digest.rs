//! Statements as they may be shown to people: without values.

use std::hash::Hasher;
use std::sync::Arc;

use helenus_cql::{Facts, first_words, normalised};
use helenus_wire::{Opcode, code};
use rustc_hash::FxHasher;

/// Bytes of a statement's text that are shown.
pub(crate) const DIGEST_BYTES_MAX: usize = 2_048;

/// A statement without its values ([`helenus_cql::normalised`]).
#[derive(Clone, Debug)]
pub(crate) struct Digest {
    pub text: Arc<str>,
    /// A number equal for equal texts.
    pub number: u64,
}

impl Digest {
    pub(crate) fn of(text: &str, facts: &Facts) -> Digest {
        Digest::from(normalised(text, facts, DIGEST_BYTES_MAX))
    }

    /// Of a text that nodes do not understand: what looks like a name may be a value in it.
    pub(crate) fn of_broken(text: &str) -> Digest {
        Digest::from(first_words(text))
    }
}

impl From<String> for Digest {
    fn from(text: String) -> Digest {
        let mut hasher = FxHasher::default();
        hasher.write(text.as_bytes());
        Digest {
            number: hasher.finish(),
            text: text.into(),
        }
    }
}

/// True if nodes have made no sense of a text: what looks like a name in it may be a value. A statement that could be
/// prepared has made sense, whatever is said of the values that are bound to it.
pub(crate) fn is_not_understood(opcode: Opcode, error: Option<i32>) -> bool {
    match error {
        Some(code::SYNTAX) => true,
        Some(code::INVALID) => opcode != Opcode::Execute,
        _ => false,
    }
}
