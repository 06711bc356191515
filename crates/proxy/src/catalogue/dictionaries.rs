//! What was learned of encoded columns: each read once and kept, because none ever changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_payload::{DictionaryId, Learned};

/// A dictionary, without what was learned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DictionaryKey {
    pub keyspace: String,
    pub table: String,
    pub id: i32,
}

/// Those of one table. More are not read: values that name them cannot be.
const OF_TABLE_MAX: usize = 64;
/// What the largest takes as it is kept; they have about 150 KiB at most.
pub(crate) const BYTES_MAX: usize = 1 << 20;

/// The dictionaries of the tables that have encoded columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dictionaries {
    known: BTreeMap<DictionaryKey, Arc<Learned>>,
    /// Why others are not known, as sentences.
    pub problems: BTreeMap<DictionaryKey, String>,
}

impl Dictionaries {
    /// Keeps those that are listed, of tables that count. Returns those that are to be read.
    pub(crate) fn adopt(
        &mut self,
        listed: &[DictionaryKey],
        counts: impl Fn(&DictionaryKey) -> bool,
    ) -> Vec<DictionaryKey> {
        let mut wanted: Vec<&DictionaryKey> = listed.iter().filter(|key| counts(key)).collect();
        // The latest have the largest numbers.
        wanted.sort_by_key(|key| (&key.keyspace, &key.table, -i64::from(key.id)));
        self.problems.clear();
        let of_table = |key: &DictionaryKey, other: &DictionaryKey| {
            (&key.keyspace, &key.table) == (&other.keyspace, &other.table)
        };
        let mut kept: Vec<DictionaryKey> = Vec::new();
        for key in wanted {
            let others = kept.iter().rev().take_while(|other| of_table(key, other));
            if others.count() < OF_TABLE_MAX {
                kept.push(key.clone());
            } else {
                let why =
                    format!("its table has more than {OF_TABLE_MAX}, of which the latest are read");
                self.fail(key.clone(), &why);
            }
        }
        self.known.retain(|key, _| kept.contains(key));
        kept.retain(|key| !self.known.contains_key(key));
        kept
    }

    /// What has been read of one: nothing if the row has gone.
    pub(crate) fn put(&mut self, key: DictionaryKey, learned: Option<&[u8]>) {
        let learned = match learned {
            None => Err("it has no content: restore it from a backup".to_owned()),
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
        let listed = [key("users", 1), key("users", 2), key("other", 1)];
        let counts = |key: &DictionaryKey| key.table == "users";
        assert_eq!(
            dictionaries.adopt(&listed, counts),
            [key("users", 2), key("users", 1)]
        );
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
        // What could not be used is read again; what is known stays the same value.
        assert_eq!(dictionaries.adopt(&listed, counts), [key("users", 2)]);
        let again = dictionaries.of_table("shop", "users");
        assert!(Arc::ptr_eq(
            &first[&DictionaryId(1)],
            &again[&DictionaryId(1)]
        ));
        dictionaries.put(key("users", 2), None);
        assert_eq!(dictionaries.problems.len(), 1);
        assert!(dictionaries.adopt(&listed, |_| false).is_empty());
        assert!(dictionaries.of_table("shop", "users").is_empty());
    }

    #[test]
    fn the_latest_of_too_many_are_read() {
        let mut dictionaries = Dictionaries::default();
        let listed: Vec<DictionaryKey> = (1..=66).map(|id| key("users", id)).collect();
        let wanted = dictionaries.adopt(&listed, |_| true);
        let ids: Vec<i32> = wanted.iter().map(|key| key.id).collect();
        assert_eq!(ids, (3..=66).rev().collect::<Vec<_>>());
        assert_eq!(dictionaries.problems.len(), 2);
    }
}
