//! What was learned of columns, by number.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::Learned;

/// The number under which something learned is kept. Stored values name it, so it is never given to
/// anything else, and small numbers make short values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DictionaryId(pub u32);

impl fmt::Display for DictionaryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Finds what stored values were written with.
pub trait Dictionaries {
    fn find(&self, id: DictionaryId) -> Option<&Learned>;
}

impl Dictionaries for BTreeMap<DictionaryId, Arc<Learned>> {
    fn find(&self, id: DictionaryId) -> Option<&Learned> {
        self.get(&id).map(|learned| &**learned)
    }
}

/// There are none.
impl Dictionaries for () {
    fn find(&self, _: DictionaryId) -> Option<&Learned> {
        None
    }
}

/// There is one.
impl Dictionaries for (DictionaryId, &Learned) {
    fn find(&self, id: DictionaryId) -> Option<&Learned> {
        (id == self.0).then_some(self.1)
    }
}
