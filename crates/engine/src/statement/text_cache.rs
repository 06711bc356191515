//! The facts of the texts that clients have sent lately: to read a text takes longer than all else
//! that happens to its request. The same text in another keyspace is another statement, unless it names its own: what
//! is learned of one says nothing of the other.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use helenus_cql::Facts;
use rustc_hash::FxBuildHasher;
use siphasher::sip::SipHasher13;

use crate::statement::prepared::Statement;
use crate::support::recent::Recent;

/// Longer texts are mostly unique (literals in bulk): not worth their memory.
const TEXT_KEPT_MAX: usize = 16 * 1024;

/// Statements by their texts, up to a bound in bytes.
pub(super) struct TextCache {
    seed: u64,
    known: Recent<Known, Arc<Statement>>,
}

impl TextCache {
    /// `seed`: nobody outside may know it, as clients choose the texts.
    pub(super) fn new(bytes_max: usize, seed: u64) -> TextCache {
        TextCache {
            seed,
            known: Recent::new(bytes_max),
        }
    }

    pub(super) fn set_bytes_max(&mut self, bytes_max: usize) {
        self.known.set_bytes_max(bytes_max);
    }

    /// The statement of a text. `keyspace`: that of names without one.
    pub(super) fn statement(&mut self, keyspace: Option<&str>, text: &str) -> Arc<Statement> {
        if text.len() > TEXT_KEPT_MAX {
            return Arc::new(Statement::new(text));
        }
        let hash = self.hash(text);
        for keyspace in [None, Some(keyspace.unwrap_or_default())] {
            let asked: &dyn InKeyspace = &Asked {
                hash,
                keyspace,
                text,
            };
            if let Some(found) = self.known.get(asked) {
                return found;
            }
        }
        let statement = Arc::new(Statement::new(text));
        let in_force = match names_its_keyspaces(&statement.facts) {
            true => None,
            false => Some(keyspace.unwrap_or_default()),
        };
        let weight = statement.byte_len() + in_force.map_or(0, str::len);
        let known = Known {
            hash,
            keyspace: in_force.map(Into::into),
            statement: statement.clone(),
        };
        self.known.insert(known, statement.clone(), weight);
        statement
    }

    fn hash(&self, text: &str) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.seed, !self.seed);
        hasher.write(text.as_bytes());
        hasher.finish()
    }
}

/// True if no keyspace in force changes what a statement means.
fn names_its_keyspaces(facts: &Facts) -> bool {
    match facts.inner.is_empty() {
        true => facts.keyspace.is_some(),
        false => facts.inner.iter().all(|of| of.keyspace.is_some()),
    }
}

/// A statement as the key of a map, by its keyspace and text.
#[derive(Clone, Debug)]
struct Known {
    /// Of the text.
    hash: u64,
    /// That of names without one; empty if there was none, `None` if there are no such names.
    keyspace: Option<Arc<str>>,
    statement: Arc<Statement>,
}

/// A key that is looked for.
struct Asked<'a> {
    hash: u64,
    keyspace: Option<&'a str>,
    text: &'a str,
}

/// The hash of a text, the keyspace of its names without one, and the text.
trait InKeyspace {
    fn parts(&self) -> (u64, Option<&str>, &str);
}

impl InKeyspace for Known {
    fn parts(&self) -> (u64, Option<&str>, &str) {
        (self.hash, self.keyspace.as_deref(), &self.statement.text)
    }
}

impl InKeyspace for Asked<'_> {
    fn parts(&self) -> (u64, Option<&str>, &str) {
        (self.hash, self.keyspace, self.text)
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
        let (of_text, keyspace, _) = self.parts();
        let of_keyspace = keyspace.map_or(0, |keyspace| FxBuildHasher.hash_one(keyspace));
        state.write_u64(of_text ^ of_keyspace);
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
        let known: &dyn InKeyspace = self;
        known.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of these statements are the same, by the number of the first of them.
    fn alike(texts: &mut TextCache, text: &str, keyspaces: [Option<&str>; 4]) -> Vec<usize> {
        let all = keyspaces.map(|keyspace| texts.statement(keyspace, text));
        let first = |of| all.iter().position(|other| Arc::ptr_eq(other, of));
        all.iter().filter_map(first).collect()
    }

    #[test]
    fn the_same_text_in_another_keyspace_is_another_statement_unless_it_names_its_own() {
        let mut texts = TextCache::new(1 << 20, 7);
        let mut alike = |text| {
            let keyspaces = [None, Some("big"), Some("small"), Some("big")];
            alike(&mut texts, text, keyspaces)
        };
        assert_eq!(alike("SELECT count(*) FROM t"), [0, 1, 2, 1]);
        assert_eq!(alike("SELECT count(*) FROM app.t"), [0, 0, 0, 0]);
        let insert = "INSERT INTO app.t (k) VALUES (1)";
        let own = format!("BEGIN BATCH {insert}; {insert}; APPLY BATCH");
        assert_eq!(alike(&own), [0, 0, 0, 0]);
        let other = insert.replace("app.", "");
        let mixed = format!("BEGIN BATCH {insert}; {other}; APPLY BATCH");
        assert_eq!(alike(&mixed), [0, 1, 2, 1]);
    }

    #[test]
    fn what_was_asked_without_a_keyspace_is_not_what_is_asked_with_one() {
        let mut texts = TextCache::new(1 << 20, 7);
        let keyspaces = [Some("big"), None, Some("big"), None];
        let found = alike(&mut texts, "SELECT v FROM t", keyspaces);
        assert_eq!(found, [0, 1, 0, 1]);
    }

    #[test]
    fn texts_lie_elsewhere_with_another_seed() {
        let hash = |seed| TextCache::new(1 << 20, seed).hash("SELECT v FROM t WHERE k = 1");
        assert_eq!(hash(1), hash(1));
        assert_ne!(hash(1), hash(2));
    }
}
