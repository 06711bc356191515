//! Numbers of dictionaries.

use std::fmt;

/// The number under which something learned is kept. Stored values name it, so it is never given to
/// anything else, and small numbers make short values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DictionaryId(pub u32);

impl fmt::Display for DictionaryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
