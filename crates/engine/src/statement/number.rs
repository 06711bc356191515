//! Statements by number.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::config::rules::plain;

/// A statement's number, equal for statements that differ in white space and comments only.
pub(crate) fn statement_number(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    plain(text).hash(&mut hasher);
    hasher.finish()
}
