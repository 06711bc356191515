//! The facts of the texts that clients have sent lately: to read a text takes longer than all else
//! that happens to its request. The same text in another keyspace is another statement: what is learned of one
//! says nothing of the other.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use siphasher::sip::SipHasher13;

use crate::recent::Recent;
use crate::statement::prepared::Statement;

/// Longer texts are mostly unique (literals in bulk): not worth their memory.
const TEXT_KEPT_MAX: usize = 16 * 1024;

/// What is known of texts, up to a bound in bytes.
pub(super) struct TextCache {
    known: Recent<Known, Arc<Statement>, Seed>,
}

impl TextCache {
    /// `seed`: nobody outside may know it, as clients choose the texts.
    pub(super) fn new(bytes_max: usize, seed: u64) -> TextCache {
        TextCache {
            known: Recent::with_hasher(bytes_max, Seed(seed)),
        }
    }

    pub(super) fn set_bytes_max(&mut self, bytes_max: usize) {
        self.known.set_bytes_max(bytes_max);
    }

    /// What a text asks for. `keyspace`: that of names without one.
    pub(super) fn statement(&mut self, keyspace: Option<&str>, text: &str) -> Arc<Statement> {
        let asked: &dyn InKeyspace = &(keyspace, text);
        if let Some(found) = self.known.get(asked) {
            return found;
        }
        let statement = Arc::new(Statement::new(text));
        if text.len() <= TEXT_KEPT_MAX {
            let weight = statement.byte_len() + keyspace.map_or(0, str::len);
            let known = Known {
                keyspace: keyspace.map(Into::into),
                statement: statement.clone(),
            };
            self.known.insert(known, statement.clone(), weight);
        }
        statement
    }
}

/// A statement as the key of a map, by its keyspace and text.
#[derive(Clone, Debug)]
struct Known {
    keyspace: Option<Arc<str>>,
    statement: Arc<Statement>,
}

/// A text, and the keyspace of its names without one.
trait InKeyspace {
    fn parts(&self) -> (Option<&str>, &str);
}

impl InKeyspace for Known {
    fn parts(&self) -> (Option<&str>, &str) {
        (self.keyspace.as_deref(), &self.statement.text)
    }
}

impl InKeyspace for (Option<&str>, &str) {
    fn parts(&self) -> (Option<&str>, &str) {
        *self
    }
}

impl<'a> Borrow<dyn InKeyspace + 'a> for Known {
    fn borrow(&self) -> &(dyn InKeyspace + 'a) {
        self
    }
}

impl PartialEq for dyn InKeyspace + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn InKeyspace + '_ {}

impl Hash for dyn InKeyspace + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Known {}

impl Hash for Known {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// Makes hashers of one process.
#[derive(Clone, Debug)]
struct Seed(u64);

impl BuildHasher for Seed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, !self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_in_another_keyspace_is_another_statement() {
        let mut texts = TextCache::new(1 << 20, 7);
        let text = "SELECT count(*) FROM t";
        let mut of = |keyspace| texts.statement(keyspace, text);
        let (none, big, small) = (of(None), of(Some("big")), of(Some("small")));
        assert!(!Arc::ptr_eq(&big, &small) && !Arc::ptr_eq(&big, &none));
        assert!(Arc::ptr_eq(&big, &of(Some("big"))));
        assert!(Arc::ptr_eq(&none, &of(None)));
    }

    #[test]
    fn texts_lie_elsewhere_with_another_seed() {
        let hash = |seed| Seed(seed).hash_one("SELECT v FROM t WHERE k = 1");
        assert_ne!(hash(1), hash(2));
    }
}
