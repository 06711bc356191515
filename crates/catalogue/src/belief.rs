//! A proxy's belief in what nodes tell about flags and catalogue.
//!
//! A replica of the catalogue can be behind: another replication without a repair, a restore, a node that has lost its
//! disk. Taken at its word, a proxy would write a table without its layouts, and hold a lease for it. So a reading
//! counts only if it can have followed from what was believed before. A flag that vanished is no such evidence: it
//! stays believed until the catalogue has been read.

use std::collections::BTreeSet;

use crate::catalogue::{Catalogue, OfTable};
use crate::flag::{Feature, Flag};
use crate::table::TableKey;

/// Why a reading of the catalogue does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    #[error(
        "version {told} of the catalogue was told where version {known} was known: its replicas have lost what they \
         had; run `nodetool repair -full helenus` on all nodes (after a restore from a backup, restart the proxies)"
    )]
    Older { known: i64, told: i64 },
    #[error(
        "version {version} of the catalogue has other rows than before: its replicas have lost some of what they had; run \
         `nodetool repair -full helenus` on all nodes"
    )]
    Differs { version: i64 },
    #[error(
        "the keyspace helenus has no table `catalogue`, on which {tables} tables depend: restore it from a backup; without one, drop \
         the layouts of these tables (helenus layouts drop TABLE --all), and restart the proxies; encoded columns cannot be read without it"
    )]
    Missing { tables: usize },
}

/// Flags and catalogue as far as they are believed.
#[derive(Clone, Debug, Default)]
pub struct Belief {
    catalogue: Catalogue,
    /// Those of the last reading, and all that were seen since the catalogue was last read.
    flags: BTreeSet<Flag>,
    /// Flags that the catalogue does not explain.
    lost: BTreeSet<Flag>,
}

impl Belief {
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// A node has told which flags there are. Returns whether there are more than before.
    pub fn on_flags(&mut self, told: &BTreeSet<Flag>) -> bool {
        let before = self.flags.len();
        self.flags.extend(told.iter().cloned());
        if !self.needs_catalogue() {
            // Nothing of it can be lost. The keyspace may be dropped by now, and begin anew.
            self.catalogue.version = 0;
        }
        self.flags.len() > before
    }

    /// True if any table depends on the catalogue, so that it must be read.
    pub fn needs_catalogue(&self) -> bool {
        !self.flags.is_empty() || !self.catalogue.tables.is_empty()
    }

    /// The catalogue has been read; `None`: its table does not exist. Flags were read before and, if the catalogue does not
    /// explain one of them ([`Belief::unexplained`]), again after it; `flags` are those that both times were there.
    ///
    /// # Errors
    /// It does not count: nothing is changed.
    pub fn on_catalogue(
        &mut self,
        read: Option<Catalogue>,
        flags: BTreeSet<Flag>,
    ) -> Result<(), Doubt> {
        let Some(read) = read else {
            let tables = self.catalogue.tables.len();
            if self.catalogue.version > 0 || !flags.is_empty() {
                return Err(Doubt::Missing {
                    tables: tables.max(flags.len()),
                });
            }
            self.flags = flags;
            self.lost.clear();
            return Ok(());
        };
        let (known, told) = (self.catalogue.version, read.version);
        if told < known {
            return Err(Doubt::Older { known, told });
        }
        if told == known && self.kept(&read) != self.kept(&self.catalogue) {
            return Err(Doubt::Differs { version: told });
        }
        self.lost = Belief::unexplained(&read, &flags);
        self.catalogue = read;
        self.flags = flags;
        Ok(())
    }

    /// The catalogue but for the tables that were lost of the one that is believed: these may come back under the
    /// same version, by a repair.
    fn kept(&self, of: &Catalogue) -> Catalogue {
        let mut kept = of.clone();
        for flag in &self.lost {
            let Some(table) = kept.tables.get_mut(&flag.table) else {
                continue;
            };
            match flag.feature {
                Feature::Layouts => table.layouts = None,
                Feature::Encodings => table.encodings = None,
            }
        }
        kept.tables.retain(|_, table| *table != OfTable::default());
        kept
    }

    /// The flags without a row in the catalogue. A row comes before its flag and goes after it, so these rows are lost, unless
    /// the flag has gone meanwhile. One with a smaller number than the row's was left behind by an interrupted command.
    pub fn unexplained(catalogue: &Catalogue, flags: &BTreeSet<Flag>) -> BTreeSet<Flag> {
        let is_lost = |flag: &&Flag| {
            let number = catalogue.flag(flag.feature, &flag.table);
            number.is_none_or(|number| number < flag.number)
        };
        flags.iter().filter(is_lost).cloned().collect()
    }

    /// The tables that are not used without a lease on the catalogue, with these features in mind.
    pub fn flagged(&self, features: &[Feature]) -> BTreeSet<TableKey> {
        let of_rows = self.catalogue.flags();
        let all = self.flags.iter().chain(&of_rows);
        let of_features = all.filter(|flag| features.contains(&flag.feature));
        of_features.map(|flag| flag.table.clone()).collect()
    }

    /// The tables that are not used at all, since what the catalogue said of them is lost.
    pub fn lost(&self, features: &[Feature]) -> BTreeSet<TableKey> {
        let of_features = self
            .lost
            .iter()
            .filter(|flag| features.contains(&flag.feature));
        of_features.map(|flag| flag.table.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Layouts;

    fn flag(table: &str, number: i64) -> Flag {
        Flag {
            feature: Feature::Layouts,
            table: TableKey::new("shop", table),
            number,
        }
    }

    fn flags(of: &[(&str, i64)]) -> BTreeSet<Flag> {
        of.iter()
            .map(|(table, number)| flag(table, *number))
            .collect()
    }

    fn catalogue(version: i64, tables: &[(&str, i64)]) -> Catalogue {
        let tables = tables.iter().map(|(table, flag)| {
            let layouts = Layouts {
                flag: *flag,
                ..Layouts::default()
            };
            let of = OfTable {
                layouts: Some(layouts),
                encodings: None,
            };
            (TableKey::new("shop", table), of)
        });
        Catalogue {
            version,
            tables: tables.collect(),
        }
    }

    fn names(of: &BTreeSet<TableKey>) -> Vec<&str> {
        of.iter().map(|table| &*table.table).collect()
    }

    const LAYOUTS: &[Feature] = &[Feature::Layouts];

    #[test]
    fn without_flags_nothing_depends_on_the_catalogue() {
        let mut belief = Belief::default();
        assert!(!belief.on_flags(&flags(&[])));
        assert!(!belief.needs_catalogue());
        assert!(belief.flagged(LAYOUTS).is_empty());
    }

    #[test]
    fn a_flagged_table_depends_on_the_catalogue_before_that_was_read() {
        let mut belief = Belief::default();
        assert!(belief.on_flags(&flags(&[("orders", 1)])));
        assert!(belief.needs_catalogue());
        assert_eq!(names(&belief.flagged(LAYOUTS)), ["orders"]);
        assert!(belief.flagged(&[Feature::Encodings]).is_empty());
    }

    #[test]
    fn a_flag_that_a_node_does_not_have_stays_believed_until_the_catalogue_was_read() {
        let mut belief = Belief::default();
        belief.on_flags(&flags(&[("orders", 1), ("users", 2)]));
        assert!(!belief.on_flags(&flags(&[("users", 2)])));
        assert_eq!(names(&belief.flagged(LAYOUTS)), ["orders", "users"]);
        let read = catalogue(9, &[("users", 2)]);
        assert_eq!(
            belief.on_catalogue(Some(read), flags(&[("users", 2)])),
            Ok(())
        );
        assert_eq!(names(&belief.flagged(LAYOUTS)), ["users"]);
        assert!(belief.lost(LAYOUTS).is_empty());
    }

    #[test]
    fn a_table_stays_flagged_while_the_catalogue_names_it() {
        let mut belief = Belief::default();
        let read = catalogue(1, &[("orders", 1)]);
        assert_eq!(belief.on_catalogue(Some(read), flags(&[])), Ok(()));
        assert_eq!(names(&belief.flagged(LAYOUTS)), ["orders"]);
        assert!(belief.needs_catalogue());
    }

    #[test]
    fn a_version_that_went_back_does_not_count() {
        let mut belief = Belief::default();
        let all = flags(&[("orders", 1)]);
        let known = catalogue(12, &[("orders", 1)]);
        assert_eq!(
            belief.on_catalogue(Some(known.clone()), all.clone()),
            Ok(())
        );
        let older = Err(Doubt::Older {
            known: 12,
            told: 11,
        });
        let read = catalogue(11, &[("orders", 1)]);
        assert_eq!(belief.on_catalogue(Some(read), all.clone()), older);
        // Two empty replicas of three, after another replication without a repair.
        let older = Err(Doubt::Older { known: 12, told: 0 });
        assert_eq!(
            belief.on_catalogue(Some(Catalogue::default()), all.clone()),
            older
        );
        let differs = Err(Doubt::Differs { version: 12 });
        assert_eq!(
            belief.on_catalogue(Some(catalogue(12, &[])), all.clone()),
            differs
        );
        let missing = Err(Doubt::Missing { tables: 1 });
        assert_eq!(belief.on_catalogue(None, all.clone()), missing);
        assert_eq!(belief.catalogue(), &known, "as before");
        let newer = catalogue(13, &[]);
        assert_eq!(belief.on_catalogue(Some(newer), flags(&[])), Ok(()));
        assert!(!belief.needs_catalogue());
    }

    #[test]
    fn a_flag_that_the_catalogue_does_not_explain_is_that_of_a_lost_table() {
        let mut belief = Belief::default();
        let all = flags(&[("orders", 1), ("users", 2)]);
        let read = catalogue(3, &[("users", 2)]);
        assert_eq!(belief.on_catalogue(Some(read), all.clone()), Ok(()));
        assert_eq!(names(&belief.lost(LAYOUTS)), ["orders"]);
        assert_eq!(names(&belief.flagged(LAYOUTS)), ["orders", "users"]);
        // A later row explains a flag that an interrupted command has left behind, an earlier one does not.
        let read = catalogue(4, &[("users", 1), ("orders", 5)]);
        assert_eq!(belief.on_catalogue(Some(read), all), Ok(()));
        assert_eq!(names(&belief.lost(LAYOUTS)), ["users"]);
    }

    #[test]
    fn rows_that_were_lost_may_come_back_under_the_same_version() {
        let mut belief = Belief::default();
        let all = flags(&[("orders", 1), ("users", 2)]);
        let left = catalogue(3, &[("users", 2)]);
        assert_eq!(belief.on_catalogue(Some(left.clone()), all.clone()), Ok(()));
        assert_eq!(names(&belief.lost(LAYOUTS)), ["orders"]);
        let others = catalogue(3, &[("orders", 1), ("users", 3)]);
        let differs = Err(Doubt::Differs { version: 3 });
        assert_eq!(belief.on_catalogue(Some(others), all.clone()), differs);
        let repaired = catalogue(3, &[("orders", 1), ("users", 2)]);
        assert_eq!(
            belief.on_catalogue(Some(repaired.clone()), all.clone()),
            Ok(())
        );
        assert!(belief.lost(LAYOUTS).is_empty());
        assert_eq!(belief.catalogue(), &repaired);
        // By then they are known, and must not be lost again.
        assert_eq!(belief.on_catalogue(Some(left), all), differs);
    }

    #[test]
    fn nothing_is_lost_without_flags() {
        let mut belief = Belief::default();
        let all = flags(&[("orders", 1)]);
        let empty = Some(Catalogue::default());
        assert_eq!(belief.on_catalogue(empty, all), Ok(()));
        assert_eq!(names(&belief.lost(LAYOUTS)), ["orders"]);
        // The keyspace was dropped.
        assert_eq!(belief.on_catalogue(None, flags(&[])), Ok(()));
        assert!(belief.lost(LAYOUTS).is_empty());
        assert!(belief.flagged(LAYOUTS).is_empty());
    }

    #[test]
    fn a_catalogue_in_which_nothing_was_left_may_begin_anew() {
        let mut belief = Belief::default();
        let one = flags(&[("orders", 1)]);
        let known = catalogue(8, &[("orders", 1)]);
        assert_eq!(belief.on_catalogue(Some(known), one), Ok(()));
        assert_eq!(
            belief.on_catalogue(Some(catalogue(9, &[])), flags(&[])),
            Ok(())
        );
        // The keyspace is dropped, and made again.
        belief.on_flags(&flags(&[]));
        let one = flags(&[("orders", 2)]);
        belief.on_flags(&one);
        let anew = catalogue(1, &[("orders", 2)]);
        assert_eq!(belief.on_catalogue(Some(anew), one), Ok(()));
    }

    #[test]
    fn no_catalogue_counts_if_nothing_was_ever_in_it() {
        let mut belief = Belief::default();
        assert_eq!(belief.on_catalogue(None, flags(&[])), Ok(()));
        assert!(!belief.needs_catalogue());
    }
}
