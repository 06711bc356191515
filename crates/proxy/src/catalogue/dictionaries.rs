//! Dictionaries of encoded columns: each read once and kept, because none ever changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use helenus_payload::{DictionaryId, Learned};

/// A dictionary, without what was learned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DictionaryKey {
    pub keyspace: String,
    pub table: String,
    pub id: i32,
}

/// Size of the largest as it is kept; they have about 150 KiB at most.
pub(crate) const BYTES_MAX: usize = 1 << 20;

/// The way to restore a row that replicas have lost.
const MENDED: &str =
    "run `nodetool repair -full helenus` on all nodes, or restore it from a backup";

/// The dictionaries of the tables that have encoded columns: all there are, since any value may need any of them. How many
/// that may be is seen to where they are made ([`helenus_catalogue::DICTIONARIES_MAX`]).
#[derive(Clone, Debug, Default)]
pub(crate) struct Dictionaries {
    known: BTreeMap<DictionaryKey, Arc<Learned>>,
    /// Why others are not known, as sentences.
    pub problems: BTreeMap<DictionaryKey, String>,
}

impl Dictionaries {
    /// Takes in which there are of the tables that have encoded columns. Returns those that are to be read. One of these tables
    /// that is listed no more is kept: none is ever deleted while values may need it, so its row is lost.
    pub(crate) fn adopt(
        &mut self,
        listed: &[DictionaryKey],
        is_encoded: impl Fn(&DictionaryKey) -> bool,
    ) -> Vec<DictionaryKey> {
        let listed: BTreeSet<&DictionaryKey> = listed.iter().collect();
        self.problems.clear();
        self.known.retain(|key, _| is_encoded(key));
        let lost = self.known.keys().filter(|key| !listed.contains(key));
        for key in lost.cloned().collect::<Vec<_>>() {
            let DictionaryKey {
                keyspace,
                table,
                id,
            } = &key;
            let problem = format!(
                "dictionary {id} of {keyspace}.{table} is not in helenus.dictionaries any more, and proxies that are \
                 started later will not have it: {MENDED}"
            );
            self.problems.insert(key, problem);
        }
        let unknown = listed
            .into_iter()
            .filter(|key| !self.known.contains_key(key));
        unknown.cloned().collect()
    }

    /// Keeps the content of one: nothing if the row has gone.
    pub(crate) fn put(&mut self, key: DictionaryKey, learned: Option<&[u8]>) {
        let learned = match learned {
            None => Err(format!("it has no content: {MENDED}")),
            Some(bytes) if bytes.len() > BYTES_MAX => Err(format!(
                "it has {} bytes, more than the {BYTES_MAX} that Helenus writes at most",
                bytes.len()
            )),
            Some(bytes) => Learned::from_bytes(bytes).map_err(|error| error.to_string()),
        };
        match learned {
            Ok(learned) => {
                self.known.insert(key, Arc::new(learned));
            }
            Err(why) => self.fail(key, &why),
        }
    }

    fn fail(&mut self, key: DictionaryKey, why: &str) {
        let problem = format!(
            "dictionary {} of {}.{} cannot be used: {why}",
            key.id, key.keyspace, key.table
        );
        self.problems.insert(key, problem);
    }

    pub(crate) fn of_table(
        &self,
        keyspace: &str,
        table: &str,
    ) -> BTreeMap<DictionaryId, Arc<Learned>> {
        let own = self.known.iter();
        let own = own.filter(|(key, _)| (&*key.keyspace, &*key.table) == (keyspace, table));
        own.filter_map(|(key, learned)| {
            Some((DictionaryId(u32::try_from(key.id).ok()?), learned.clone()))
        })
        .collect()
    }

    /// True if it is known here and its row is gone: for reading only, since whoever is started later lacks it.
    pub(crate) fn is_lost(&self, keyspace: &str, table: &str, id: i32) -> bool {
        let key = DictionaryKey {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
            id,
        };
        self.known.contains_key(&key) && self.problems.contains_key(&key)
    }

    /// The numbers of those that are known, and the others with what is wrong: to notice a change.
    pub(crate) fn keys(&self) -> Vec<(DictionaryKey, bool)> {
        let known = self.known.keys().map(|key| (key.clone(), true));
        let others = self.problems.keys().map(|key| (key.clone(), false));
        known.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(table: &str, id: i32) -> DictionaryKey {
        DictionaryKey {
            keyspace: "shop".to_owned(),
            table: table.to_owned(),
            id,
        }
    }

    #[test]
    fn each_is_read_once() {
        let mut dictionaries = Dictionaries::default();
        let listed = [key("users", 1), key("users", 2)];
        let counts = |key: &DictionaryKey| key.table == "users";
        assert_eq!(dictionaries.adopt(&listed, counts), listed);
        let bytes = helenus_payload::learn([]).to_bytes();
        dictionaries.put(key("users", 1), Some(&bytes));
        dictionaries.put(key("users", 2), Some(b"damaged"));
        assert!(
            dictionaries
                .problems
                .values()
                .all(|why| why.contains("dictionary 2 of shop.users"))
        );
        let first = dictionaries.of_table("shop", "users");
        assert_eq!(first.keys().collect::<Vec<_>>(), [&DictionaryId(1)]);
        // One that could not be used is read again; one that is known stays the same value.
        assert_eq!(dictionaries.adopt(&listed, counts), [key("users", 2)]);
        let again = dictionaries.of_table("shop", "users");
        assert!(Arc::ptr_eq(
            &first[&DictionaryId(1)],
            &again[&DictionaryId(1)]
        ));
        dictionaries.put(key("users", 2), None);
        assert_eq!(dictionaries.problems.len(), 1);
        assert!(dictionaries.adopt(&[], |_| false).is_empty());
        assert!(dictionaries.of_table("shop", "users").is_empty());
    }

    #[test]
    fn one_whose_row_is_lost_is_kept_while_its_table_is_encoded() {
        let mut dictionaries = Dictionaries::default();
        let bytes = helenus_payload::learn([]).to_bytes();
        for id in [1, 2] {
            dictionaries.put(key("users", id), Some(&bytes));
        }
        assert_eq!(dictionaries.adopt(&[key("users", 2)], |_| true), []);
        assert_eq!(dictionaries.of_table("shop", "users").len(), 2);
        let problems: Vec<_> = dictionaries.problems.values().collect();
        assert!(
            matches!(&problems[..], [lost] if lost.contains("dictionary 1 of shop.users is not in"))
        );
        let lost = |of: &Dictionaries| [1, 2, 3].map(|id| of.is_lost("shop", "users", id));
        assert_eq!(lost(&dictionaries), [true, false, false]);
        // Somebody has repaired it.
        let both = [key("users", 1), key("users", 2)];
        assert_eq!(dictionaries.adopt(&both, |_| true), []);
        assert!(dictionaries.problems.is_empty());
        assert_eq!(lost(&dictionaries), [false; 3]);
        dictionaries.adopt(&[], |_| false);
        assert!(dictionaries.of_table("shop", "users").is_empty());
    }

    #[test]
    fn none_is_left_out_because_there_are_many() {
        let mut dictionaries = Dictionaries::default();
        let listed: Vec<DictionaryKey> = (1..=200).map(|id| key("users", id)).collect();
        let bytes = helenus_payload::learn([]).to_bytes();
        for key in dictionaries.adopt(&listed, |_| true) {
            dictionaries.put(key, Some(&bytes));
        }
        assert_eq!(dictionaries.adopt(&listed, |_| true), []);
        assert_eq!(dictionaries.of_table("shop", "users").len(), 200);
        assert!(dictionaries.problems.is_empty());
    }
}
