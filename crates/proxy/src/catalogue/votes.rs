//! Statements of one node on the catalogue that are not believed alone.
//!
//! A node that lags behind in its schema does not know a layout's table, or a column, although all others do; or it has
//! a flag that was dropped. Taken at its word, the proxy would write without the layout, and hold a lease for it. So
//! such things count only if most nodes say the same, each for itself: what a node knows of its peers is as old as
//! the rest of what it knows.

use std::collections::BTreeSet;
use std::time::Instant;

use helenus_catalogue::{Catalogue, Flag};

use super::known::Known;

/// One node's statement.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// When it was asked.
    pub sent: Instant,
    pub catalogue: Catalogue,
    /// Flags that the catalogue does not explain.
    pub unexplained: BTreeSet<Flag>,
    /// Layouts and encoded columns of its own tables.
    pub known: Known,
}

impl Told {
    /// True if it may say so only because its schema is an old one.
    pub(crate) fn is_doubtful(&self) -> bool {
        !self.unexplained.is_empty() || self.known.rejected() > 0
    }

    fn says_the_same(&self, other: &Told) -> bool {
        self.catalogue == other.catalogue
            && self.unexplained == other.unexplained
            && self.known.problems().eq(other.known.problems())
    }
}

/// The weight of a node's statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does, as of when this was asked.
    Counts(Instant),
    /// Not by itself: others are to be asked.
    Doubtful,
}

/// The nodes' statements in one round of asking.
#[derive(Debug)]
pub(crate) struct Votes {
    /// So many make a majority.
    needed: usize,
    doubtful: Vec<Told>,
    /// A majority's statement before, of the schema that there is still.
    decided: Option<Told>,
}

impl Votes {
    pub(crate) fn among(nodes: usize, decided: Option<Told>) -> Votes {
        Votes {
            needed: nodes / 2 + 1,
            doubtful: Vec::new(),
            decided,
        }
    }

    pub(crate) fn hear(&mut self, told: &Told) -> Verdict {
        let is_decided = |before: &Told| before.says_the_same(told);
        if !told.is_doubtful() || self.decided.as_ref().is_some_and(is_decided) {
            return Verdict::Counts(told.sent);
        }
        self.doubtful.push(told.clone());
        let alike = self
            .doubtful
            .iter()
            .filter(|other| other.says_the_same(told));
        let sent: Vec<Instant> = alike.map(|told| told.sent).collect();
        match sent.iter().min() {
            Some(first) if sent.len() >= self.needed => Verdict::Counts(*first),
            _ => Verdict::Doubtful,
        }
    }

    /// True if somebody was not believed.
    pub(crate) fn has_doubts(&self) -> bool {
        !self.doubtful.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use helenus_catalogue::{Feature, TableKey};

    use super::*;

    /// A node that has this version of the catalogue, which does not fit its tables in these ways.
    fn told(sent: Instant, version: i64, rejected: &[&str]) -> Told {
        let mut known = Known::default();
        known.layouts.rejected = rejected.len();
        known.layouts.problems = rejected.iter().map(|why| (*why).to_owned()).collect();
        Told {
            sent,
            catalogue: Catalogue {
                version,
                ..Catalogue::default()
            },
            unexplained: BTreeSet::new(),
            known,
        }
    }

    #[test]
    fn what_fits_counts_at_once() {
        let now = Instant::now();
        let mut votes = Votes::among(5, None);
        assert_eq!(votes.hear(&told(now, 3, &[])), Verdict::Counts(now));
        assert!(!votes.has_doubts());
    }

    #[test]
    fn half_of_the_nodes_are_no_majority() {
        let now = Instant::now();
        for (nodes, needed) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)] {
            let mut votes = Votes::among(nodes, None);
            let missing = told(now, 3, &["a is missing"]);
            for _ in 1..needed {
                assert_eq!(votes.hear(&missing), Verdict::Doubtful);
                assert!(votes.has_doubts());
            }
            let later = told(now + Duration::from_millis(5), 3, &["a is missing"]);
            let verdict = votes.hear(&later);
            let first = match needed {
                1 => later.sent,
                _ => now,
            };
            assert_eq!(
                verdict,
                Verdict::Counts(first),
                "as of the first that counts"
            );
        }
    }

    #[test]
    fn a_layout_without_a_table_counts_as_such_if_most_nodes_lack_the_same_one() {
        let now = Instant::now();
        let mut votes = Votes::among(5, None);
        let lacks_a = told(now, 3, &["a is missing"]);
        let lacks_b = told(now, 3, &["b is missing"]);
        let older = told(now, 2, &["a is missing"]);
        for told in [&lacks_a, &lacks_b, &older, &lacks_a] {
            assert_eq!(votes.hear(told), Verdict::Doubtful);
        }
        assert_eq!(votes.hear(&lacks_a), Verdict::Counts(now));
        let mut votes = Votes::among(5, None);
        assert_eq!(votes.hear(&lacks_a), Verdict::Doubtful);
        let verdict = votes.hear(&told(now, 3, &[]));
        assert_eq!(verdict, Verdict::Counts(now), "the first one lags behind");
    }

    #[test]
    fn what_a_majority_has_said_need_not_be_said_again_by_all() {
        let now = Instant::now();
        let decided = told(now, 3, &["a is missing"]);
        let later = now + Duration::from_secs(3);
        for (version, rejected, verdict) in [
            (3, &["a is missing"][..], Verdict::Counts(later)),
            (3, &[], Verdict::Counts(later)),
            (3, &["b is missing"], Verdict::Doubtful),
            (4, &["a is missing"], Verdict::Doubtful),
        ] {
            let mut votes = Votes::among(5, Some(decided.clone()));
            assert_eq!(votes.hear(&told(later, version, rejected)), verdict);
        }
    }

    #[test]
    fn a_flag_that_was_dropped_counts_only_if_most_nodes_have_it() {
        let now = Instant::now();
        let left = Told {
            unexplained: [Flag {
                feature: Feature::Layouts,
                table: TableKey::new("shop", "orders"),
                number: 1,
            }]
            .into(),
            ..told(now, 3, &[])
        };
        let mut votes = Votes::among(3, None);
        assert_eq!(votes.hear(&left), Verdict::Doubtful);
        assert_eq!(votes.hear(&told(now, 3, &[])), Verdict::Counts(now));
        let mut votes = Votes::among(3, None);
        assert_eq!(votes.hear(&left), Verdict::Doubtful);
        assert_eq!(votes.hear(&left), Verdict::Counts(now));
    }
}
