//! Dictionaries of columns, by number.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{DictionaryId, Learned};

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
