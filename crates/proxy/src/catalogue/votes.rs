//! What one node alone is not believed to say of the catalogue.
//!
//! A node that lags behind in its schema does not know the catalogue, or a layout's table, although all
//! others do. Taken at its word, the proxy would write without the layout, and hold a lease for it. So both
//! count only if most nodes say the same, each for itself: what a node knows of its peers is as old as the
//! rest of what it knows. While layouts are in force, that there is no catalogue of them never counts. The
//! same holds for encoded columns.

use std::time::Instant;

use super::known::Known;
use super::reader::Entries;

/// What one node says.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// When it was asked.
    pub sent: Instant,
    pub entries: Entries,
    /// What that means for its own tables.
    pub known: Known,
}

impl Told {
    /// Whether it may say so only because its schema is an old one.
    fn is_doubtful(&self) -> bool {
        let is_missing = self.entries.layouts.is_none() || self.entries.encodings.is_none();
        is_missing || self.known.rejected() > 0
    }

    fn says_the_same(&self, other: &Told) -> bool {
        self.entries == other.entries && self.known.problems().eq(other.known.problems())
    }
}

/// Whether what a node says counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does, as of when this was asked.
    Counts(Instant),
    /// Not by itself: others are to be asked.
    Doubtful,
    /// It cannot be so.
    Impossible,
}

/// What the nodes have said in one round of asking.
#[derive(Debug)]
pub(crate) struct Votes {
    /// So many make a majority.
    needed: usize,
    doubtful: Vec<Told>,
}

impl Votes {
    pub(crate) fn among(nodes: usize) -> Votes {
        Votes {
            needed: nodes / 2 + 1,
            doubtful: Vec::new(),
        }
    }

    /// `seen`: what is in force.
    pub(crate) fn hear(&mut self, told: &Told, seen: &Entries) -> Verdict {
        if !told.is_doubtful() {
            return Verdict::Counts(told.sent);
        }
        let lacks_layouts = told.entries.layouts.is_none() && !seen.layouts().is_empty();
        let lacks_encodings = told.entries.encodings.is_none() && !seen.encodings().is_empty();
        if lacks_layouts || lacks_encodings {
            return Verdict::Impossible;
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

    /// Whether somebody was not believed.
    pub(crate) fn has_doubts(&self) -> bool {
        !self.doubtful.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::catalogue::{encoding_rows, layout_rows};

    /// What is in force: this many layouts and encoded columns.
    fn seen(layouts: usize, encodings: usize) -> Entries {
        Entries {
            layouts: Some(vec![layout_rows::Entry::default(); layouts]),
            encodings: Some(vec![encoding_rows::Entry::default(); encodings]),
        }
    }

    /// A node without a table of layouts.
    fn missing(sent: Instant) -> Told {
        Told {
            sent,
            entries: Entries {
                layouts: None,
                ..seen(0, 0)
            },
            known: Known::default(),
        }
    }

    fn with(sent: Instant, layouts: &[&str], rejected: &[&str]) -> Told {
        let entry = |name: &&str| layout_rows::Entry {
            layout: (*name).to_owned(),
            ..layout_rows::Entry::default()
        };
        let mut known = Known::default();
        known.layouts.rejected = rejected.len();
        known.layouts.problems = rejected.iter().map(|why| (*why).to_owned()).collect();
        Told {
            sent,
            entries: Entries {
                layouts: Some(layouts.iter().map(entry).collect()),
                ..seen(0, 0)
            },
            known,
        }
    }

    #[test]
    fn what_fits_counts_at_once() {
        let now = Instant::now();
        let mut votes = Votes::among(5);
        let verdict = votes.hear(&with(now, &["a"], &[]), &seen(1, 0));
        assert_eq!(verdict, Verdict::Counts(now));
        let verdict = votes.hear(&with(now, &[], &[]), &seen(1, 0));
        assert_eq!(verdict, Verdict::Counts(now), "all are dropped");
        assert!(!votes.has_doubts());
    }

    #[test]
    fn that_there_is_no_catalogue_counts_if_most_nodes_say_so_and_none_was_seen() {
        let now = Instant::now();
        let later = now + Duration::from_millis(5);
        let mut votes = Votes::among(3);
        assert_eq!(votes.hear(&missing(now), &seen(0, 0)), Verdict::Doubtful);
        assert!(votes.has_doubts());
        let verdict = votes.hear(&missing(later), &seen(0, 0));
        assert_eq!(verdict, Verdict::Counts(now), "as of the first that counts");
        let mut votes = Votes::among(3);
        for _ in 0..3 {
            assert_eq!(votes.hear(&missing(now), &seen(1, 0)), Verdict::Impossible);
        }
        assert_eq!(
            Votes::among(1).hear(&missing(now), &seen(0, 0)),
            Verdict::Counts(now)
        );
    }

    #[test]
    fn half_of_the_nodes_are_no_majority() {
        let now = Instant::now();
        for (nodes, needed) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)] {
            let mut votes = Votes::among(nodes);
            for _ in 1..needed {
                assert_eq!(votes.hear(&missing(now), &seen(0, 0)), Verdict::Doubtful);
            }
            assert_eq!(votes.hear(&missing(now), &seen(0, 0)), Verdict::Counts(now));
        }
    }

    #[test]
    fn a_layout_without_a_table_counts_as_such_if_most_nodes_lack_the_same_one() {
        let now = Instant::now();
        let mut votes = Votes::among(5);
        let lacks_a = with(now, &["a", "b"], &["a is missing"]);
        let lacks_b = with(now, &["a", "b"], &["b is missing"]);
        for told in [&lacks_a, &lacks_b, &missing(now), &lacks_a] {
            assert_eq!(votes.hear(told, &seen(0, 0)), Verdict::Doubtful);
        }
        assert_eq!(votes.hear(&lacks_a, &seen(0, 0)), Verdict::Counts(now));
        let mut votes = Votes::among(5);
        assert_eq!(votes.hear(&lacks_a, &seen(1, 0)), Verdict::Doubtful);
        let has_both = with(now, &["a", "b"], &[]);
        let verdict = votes.hear(&has_both, &seen(1, 0));
        assert_eq!(verdict, Verdict::Counts(now), "the first one lags behind");
    }

    #[test]
    fn encoded_columns_are_judged_like_layouts() {
        let now = Instant::now();
        let without = Told {
            entries: Entries {
                encodings: None,
                ..seen(1, 0)
            },
            ..missing(now)
        };
        let mut votes = Votes::among(3);
        assert_eq!(votes.hear(&without, &seen(1, 1)), Verdict::Impossible);
        assert_eq!(votes.hear(&without, &seen(1, 0)), Verdict::Doubtful);
        assert_eq!(votes.hear(&missing(now), &seen(0, 1)), Verdict::Doubtful);
        assert_eq!(votes.hear(&without, &seen(1, 0)), Verdict::Counts(now));
        let mut misfit = with(now, &[], &[]);
        misfit.known.encodings.rejected = 1;
        misfit.known.encodings.problems = vec!["it does not fit".to_owned()];
        let mut votes = Votes::among(2);
        assert_eq!(votes.hear(&misfit, &seen(0, 1)), Verdict::Doubtful);
        assert_eq!(votes.hear(&misfit, &seen(0, 1)), Verdict::Counts(now));
    }
}
