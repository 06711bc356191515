//! The catalogue of layouts as it is, and who has heard of what.
//!
//! A layout is written before it is read, and is read no more before it is not written any more. Between
//! two steps lies the longest time for which a proxy may rely on what it knew before, and for which a
//! request that it sent by then may be under way.

use std::sync::Arc;

use helenus_catalogue::LEASE;
use helenus_engine::features::layouts::Layouts;
use helenus_layout::Layout;
use helenus_layout::plan::{ClusteringColumn, Column, Copy, LogicalTable};

use super::cassandra::Table;
use super::checks::Span;
use super::wide::{CLUSTERING, KEYSPACE, LAYOUTS, TABLE};

/// Between two changes of the catalogue: the lease, and the longest life of a request.
pub(super) const WAIT_US: u64 = LEASE.as_micros() as u64 + 12_000_000;

/// What was counted: so few rows for a value that even a LIMIT is worth sorting them.
const DISTINCT: f64 = 30.0;
const PARTITIONS: f64 = 10.0;

/// How far a layout has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is no such table.
    Absent,
    /// All proxies are to write it.
    Writing,
    /// It has all rows.
    Ready,
    /// Nobody is to read it any more.
    Leaving,
    /// Nobody is to write it any more; the table is still there.
    Gone,
}

impl Step {
    pub(super) fn next(self) -> Step {
        match self {
            Step::Absent => Step::Writing,
            Step::Writing => Step::Ready,
            Step::Ready => Step::Leaving,
            Step::Leaving => Step::Gone,
            Step::Gone => Step::Absent,
        }
    }

    /// What the catalogue says of it: whether it may be read, if it is named there.
    pub(super) fn row(self) -> Option<bool> {
        match self {
            Step::Absent | Step::Gone => None,
            Step::Writing | Step::Leaving => Some(false),
            Step::Ready => Some(true),
        }
    }
}

/// What the catalogue says of each layout: whether it may be read, if it is named there.
pub(super) type Rows = Vec<Option<bool>>;

/// What a proxy hears.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// Whether the table is flagged, as any node says.
    pub flagged: bool,
    /// What the catalogue says, if it could be read.
    pub rows: Option<Rows>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OfLayout {
    pub step: Step,
    /// Since when every proxy that writes has heard of it.
    pub known_since_us: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Catalogue {
    pub layouts: Vec<OfLayout>,
    /// Layouts come and go.
    pub changes: bool,
    /// They are in a keyspace of their own.
    pub derived: bool,
    /// Partitions of the table.
    pub partitions: i64,
}

impl Catalogue {
    pub(super) fn rows(&self) -> Rows {
        self.layouts.iter().map(|of| of.step.row()).collect()
    }

    /// The flag is there before the first layout is relied on, and goes after the last.
    pub(super) fn is_flagged(&self) -> bool {
        self.layouts.iter().any(|of| of.step != Step::Absent)
    }

    pub(super) fn advance(&mut self, at: usize, now_us: u64) -> Step {
        let of = &mut self.layouts[at];
        of.step = of.step.next();
        if of.step == Step::Writing {
            of.known_since_us = now_us + LEASE.as_micros() as u64;
        }
        of.step
    }
}

/// What a proxy makes of what it has read.
pub(super) fn layouts(tables: &[Table], rows: &Rows, flagged: bool, derived: bool) -> Arc<Layouts> {
    let copies = tables.iter().skip(1).zip(rows);
    let copies: Vec<Copy> = copies
        .filter_map(|(table, row)| {
            Some(Copy {
                keyspace: derived.then(|| LAYOUTS.to_owned()),
                physical: table.name.clone(),
                layout: Layout::new(&table.order.columns)?,
                readable: (*row)?,
                further: Vec::new(),
                outlived: Vec::new(),
            })
        })
        .collect();
    let mut layouts = Layouts::default();
    if flagged {
        layouts.flagged.add(KEYSPACE, TABLE);
    }
    let Some(own) = tables.first().filter(|_| !copies.is_empty()) else {
        return Arc::new(layouts);
    };
    let clustering = CLUSTERING.iter().zip(own.order.descending);
    let distinct = CLUSTERING.map(|name| (name.to_owned(), DISTINCT));
    let distinct = distinct.into_iter().chain([("p".to_owned(), PARTITIONS)]);
    let table = LogicalTable {
        keyspace: KEYSPACE.to_owned(),
        name: TABLE.to_owned(),
        partition_key: vec!["p".to_owned()],
        clustering: clustering
            .map(|(name, descending)| ClusteringColumn {
                name: (*name).to_owned(),
                cql_type: "bigint".to_owned(),
                descending,
            })
            .collect(),
        columns: vec![Column {
            name: "v".to_owned(),
            cql_type: "bigint".to_owned(),
            is_static: false,
        }],
        indexed: false,
        may_hold_times: false,
        copies,
        distinct: distinct.collect(),
        rows: Some(PARTITIONS * 27.0),
    };
    layouts.add(Arc::new(table));
    Arc::new(layouts)
}

/// When a proxy could rely on what it knew.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    /// From when a read came until when that is good for.
    held: Vec<(u64, u64)>,
}

impl Leases {
    /// What a read says that was sent then is in force from now on.
    pub(super) fn renew(&mut self, sent_us: u64, now_us: u64) {
        let until_us = sent_us + LEASE.as_micros() as u64;
        self.held.push((now_us, until_us));
    }

    /// Whether one was held at any moment of a time.
    pub(super) fn any_in(&self, span: Span) -> bool {
        let mut held = self.held.iter();
        held.any(|(from, until)| *from <= span.ended_us && *until > span.begun_us)
    }

    /// Whether one was held all the time.
    pub(super) fn all_of(&self, span: Span) -> bool {
        let mut at_us = span.begun_us;
        for (from, until) in &self.held {
            if *from <= at_us {
                at_us = at_us.max(*until);
            }
        }
        at_us > span.ended_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_only_read_while_it_is_written() {
        let mut catalogue = Catalogue {
            layouts: vec![OfLayout {
                step: Step::Absent,
                known_since_us: 0,
            }],
            changes: true,
            derived: false,
            partitions: 1,
        };
        let mut seen = vec![catalogue.rows()[0]];
        for _ in 0..5 {
            catalogue.advance(0, 100);
            seen.push(catalogue.rows()[0]);
        }
        assert_eq!(
            seen,
            [None, Some(false), Some(true), Some(false), None, None]
        );
        assert_eq!(catalogue.layouts[0].known_since_us, 10_000_100);
    }

    #[test]
    fn a_lease_runs_from_when_the_read_was_sent() {
        let mut leases = Leases::default();
        leases.renew(1_000_000, 2_000_000);
        assert!(!leases.any_in(Span::of(0, 1_999_999)));
        assert!(leases.any_in(Span::of(0, 2_000_000)));
        assert!(leases.any_in(Span::of(10_999_999, 20_000_000)));
        assert!(!leases.any_in(Span::of(11_000_000, 20_000_000)));
        assert!(leases.all_of(Span::of(2_000_000, 10_000_000)));
        assert!(!leases.all_of(Span::of(2_000_000, 11_000_000)));
        assert!(!leases.all_of(Span::of(1_000_000, 3_000_000)));
        leases.renew(5_000_000, 6_000_000);
        assert!(leases.all_of(Span::of(2_000_000, 14_999_999)));
    }
}
