//! Requests of each node, table and layout in a step.

use std::sync::Arc;

use helenus_engine::features::layouts::LayoutStats;
use helenus_engine::stats::{NodeStats, TableStats};

use super::codec;
use super::sample::{CountedValues, HISTOGRAM_LEN, load, read_histogram};

/// Where a node's numbers are; behind them is its histogram.
const REQUESTS: usize = 0;
const READS: usize = 1;
const ERRORS: usize = 2;
const TIMEOUTS: usize = 3;
const BYTES_IN: usize = 4;
const BYTES_OUT: usize = 5;
const FRAMES: usize = 6;
const DOWN_MS: usize = 7;
const EJECTED_MS: usize = 8;
const NODE_LATENCY: usize = 9;
const NODE_LEN: usize = NODE_LATENCY + HISTOGRAM_LEN;
/// A table's.
const TABLE_READS: usize = 0;
const TABLE_WRITES: usize = 1;
const TABLE_ERRORS: usize = 2;
const TABLE_LATENCY: usize = 3;
const TABLE_LEN: usize = TABLE_LATENCY + HISTOGRAM_LEN;
/// A layout's.
const LAYOUT_LEN: usize = 1;

/// Of what something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Node,
    Table,
    Layout,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Node, Kind::Table, Kind::Layout];

    fn len(self) -> usize {
        match self {
            Kind::Node => NODE_LEN,
            Kind::Table => TABLE_LEN,
            Kind::Layout => LAYOUT_LEN,
        }
    }
}

/// The counters that are read.
#[derive(Clone, Copy)]
pub(super) struct Counters<'a> {
    pub nodes: &'a [Arc<NodeStats>],
    pub tables: &'a [Arc<TableStats>],
    pub layouts: &'a [Arc<LayoutStats>],
}

/// How a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// It has no link, and should have one.
    pub is_down: bool,
    /// Some worker has ejected it.
    pub is_ejected: bool,
}

/// Counters at the end of the last step.
#[derive(Debug, Default)]
pub(super) struct Detail {
    before: [Vec<Vec<u64>>; Kind::ALL.len()],
    /// How long each node has been down and ejected so far, in milliseconds.
    standing: Vec<[u64; 2]>,
    row: Vec<u64>,
    packed: Vec<u8>,
}

impl Detail {
    /// Notes how nodes stood for some time.
    pub(super) fn note(&mut self, standing: &[Standing], lasted_ms: u64) {
        if self.standing.len() < standing.len() {
            self.standing.resize(standing.len(), [0; 2]);
        }
        for (so_far, now) in self.standing.iter_mut().zip(standing) {
            so_far[0] += lasted_ms * u64::from(now.is_down);
            so_far[1] += lasted_ms * u64::from(now.is_ejected);
        }
    }

    /// Appends what has happened since the last step ended. `ends`: so does this one.
    pub(super) fn pack(&mut self, of: Counters<'_>, ends: bool, out: &mut Vec<u8>) {
        for (at, node) in of.nodes.iter().enumerate() {
            let standing = self.standing.get(at).copied().unwrap_or_default();
            let read = |row: &mut [u64]| read_node(row, node, standing);
            self.pack_row(Kind::Node, at, ends, read, out);
        }
        for (at, table) in of.tables.iter().enumerate() {
            let read = |row: &mut [u64]| read_table(row, table);
            self.pack_row(Kind::Table, at, ends, read, out);
        }
        for (at, layout) in of.layouts.iter().enumerate() {
            let read = |row: &mut [u64]| row[0] = load(&layout.reads);
            self.pack_row(Kind::Layout, at, ends, read, out);
        }
    }

    /// `read` gets the numbers as they were.
    fn pack_row(
        &mut self,
        kind: Kind,
        at: usize,
        ends: bool,
        read: impl FnOnce(&mut [u64]),
        out: &mut Vec<u8>,
    ) {
        let rows = &mut self.before[kind as usize];
        if rows.len() <= at {
            rows.resize_with(at + 1, || vec![0; kind.len()]);
        }
        let before = &mut rows[at];
        self.row.clone_from(before);
        read(&mut self.row);
        let differences = self.row.iter().zip(&*before);
        self.packed.clear();
        codec::pack(
            differences.map(|(now, before)| now.saturating_sub(*before)),
            &mut self.packed,
        );
        if self.packed.is_empty() {
            return;
        }
        codec::put((at * Kind::ALL.len() + kind as usize) as u64, out);
        codec::put(self.packed.len() as u64, out);
        out.extend_from_slice(&self.packed);
        if ends {
            before.copy_from_slice(&self.row);
        }
    }
}

fn read_node(row: &mut [u64], node: &NodeStats, [down_ms, ejected_ms]: [u64; 2]) {
    let counters = &node.counters;
    row[REQUESTS] = load(&counters.requests);
    row[READS] = load(&counters.read_requests);
    row[ERRORS] = load(&counters.errors);
    row[TIMEOUTS] = load(&counters.timeouts);
    row[BYTES_IN] = load(&counters.bytes_in);
    row[BYTES_OUT] = load(&counters.bytes_out);
    row[FRAMES] = load(&counters.frames_out);
    row[DOWN_MS] = down_ms;
    row[EJECTED_MS] = ejected_ms;
    read_histogram(&mut row[NODE_LATENCY..], &node.latency);
}

fn read_table(row: &mut [u64], table: &TableStats) {
    row[TABLE_READS] = load(&table.reads);
    row[TABLE_WRITES] = load(&table.writes);
    row[TABLE_ERRORS] = load(&table.errors);
    read_histogram(&mut row[TABLE_LATENCY..], &table.latency);
}

/// The rows that have been packed: of what, which one, and its numbers, packed.
fn unpack(mut bytes: &[u8]) -> impl Iterator<Item = (Kind, usize, &[u8])> {
    std::iter::from_fn(move || {
        let key = codec::take(&mut bytes)? as usize;
        let len = codec::take(&mut bytes)? as usize;
        let (packed, rest) = bytes.split_at_checked(len)?;
        bytes = rest;
        let kind = Kind::ALL[key % Kind::ALL.len()];
        Some((kind, key / Kind::ALL.len(), packed))
    })
}

/// Sums of each over several steps.
#[derive(Debug, Default)]
pub(crate) struct DetailSum {
    rows: [Vec<Vec<u64>>; Kind::ALL.len()],
    /// Requests of nodes by part of the time.
    points: Vec<Vec<u64>>,
}

impl DetailSum {
    /// Adds a step that lies in that part of the time, of so many.
    pub(super) fn add(&mut self, detail: &[u8], part: usize, parts: usize) {
        for (kind, at, packed) in unpack(detail) {
            let rows = &mut self.rows[kind as usize];
            if rows.len() <= at {
                rows.resize_with(at + 1, Vec::new);
            }
            rows[at].resize(kind.len(), 0);
            codec::add(packed, &mut rows[at]);
            let first = codec::unpack(packed).next();
            if let (Kind::Node, Some((REQUESTS, requests))) = (kind, first) {
                if self.points.len() <= at {
                    self.points.resize_with(at + 1, Vec::new);
                }
                self.points[at].resize(parts, 0);
                if let Some(point) = self.points[at].get_mut(part) {
                    *point += requests;
                }
            }
        }
    }

    fn row(&self, kind: Kind, at: usize) -> Option<&[u64]> {
        let row = self.rows[kind as usize].get(at)?;
        (!row.is_empty()).then_some(row)
    }

    /// True if it got anything, was down or was ejected.
    pub(crate) fn knows_node(&self, at: usize) -> bool {
        self.row(Kind::Node, at).is_some()
    }

    pub(crate) fn node(&self, at: usize) -> NodeSum<'_> {
        NodeSum {
            row: self.row(Kind::Node, at).unwrap_or(&[0; NODE_LEN]),
            points: self.points.get(at).map_or(&[][..], |points| points),
        }
    }

    /// None if it got nothing.
    pub(crate) fn table(&self, at: usize) -> Option<TableSum<'_>> {
        self.row(Kind::Table, at).map(TableSum)
    }

    /// Reads of a layout.
    pub(crate) fn layout(&self, at: usize) -> u64 {
        self.row(Kind::Layout, at).map_or(0, |row| row[0])
    }
}

/// A node's sums of some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeSum<'a> {
    row: &'a [u64],
    /// Requests by part of the time; none if there were no requests.
    pub points: &'a [u64],
}

impl<'a> NodeSum<'a> {
    pub(crate) fn requests(self) -> u64 {
        self.row[REQUESTS]
    }

    pub(crate) fn reads(self) -> u64 {
        self.row[READS]
    }

    pub(crate) fn errors(self) -> u64 {
        self.row[ERRORS]
    }

    pub(crate) fn timeouts(self) -> u64 {
        self.row[TIMEOUTS]
    }

    pub(crate) fn bytes_in(self) -> u64 {
        self.row[BYTES_IN]
    }

    pub(crate) fn bytes_out(self) -> u64 {
        self.row[BYTES_OUT]
    }

    pub(crate) fn frames(self) -> u64 {
        self.row[FRAMES]
    }

    pub(crate) fn down_ms(self) -> u64 {
        self.row[DOWN_MS]
    }

    pub(crate) fn ejected_ms(self) -> u64 {
        self.row[EJECTED_MS]
    }

    pub(crate) fn latency(self) -> CountedValues<'a> {
        CountedValues(&self.row[NODE_LATENCY..])
    }
}

/// A table's sums of some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableSum<'a>(&'a [u64]);

impl<'a> TableSum<'a> {
    pub(crate) fn reads(self) -> u64 {
        self.0[TABLE_READS]
    }

    pub(crate) fn writes(self) -> u64 {
        self.0[TABLE_WRITES]
    }

    pub(crate) fn errors(self) -> u64 {
        self.0[TABLE_ERRORS]
    }

    pub(crate) fn latency(self) -> CountedValues<'a> {
        CountedValues(&self.0[TABLE_LATENCY..])
    }
}
