//! Requests at the nodes that coordinate them, and their reads.

use std::ops::Range;

use helenus_wire::Header;

use super::agenda::{Page, RequestKey};
use super::data::Segment;
use super::statement::Asked;

/// Where an answer goes.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// A client's own connection: which, and the number of its page.
    Client(usize, u64),
    /// A proxy's connection, and what it has sent.
    Link(usize, Header, Asked),
}

/// What a node says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Page(Page),
    Supported,
    Prepared(String, u32),
    Unprepared(String),
    /// No thread has begun with it in time. Nodes do not say which it was.
    Dropped,
}

pub(super) struct Request {
    pub node: usize,
    pub origin: Origin,
    pub what: What,
    pub arrived_us: u64,
    pub deadline_us: u64,
    /// Reads that are under way.
    pub pending: usize,
    pub remote_reads: u32,
    pub remote_rows: u32,
}

pub(super) enum What {
    /// Nothing is read.
    Said(Reply),
    /// A row, and that there is one.
    Row(usize),
    /// A row is written.
    Write(usize),
    Range(RangeRead),
}

pub(super) struct RangeRead {
    pub segments: Vec<Segment>,
    /// The next one to be read, and how many at once.
    pub next: usize,
    pub at_once: usize,
    pub rows: Range<usize>,
    pub rows_max: usize,
    /// True if the statement wants more than this page.
    pub wants_more: bool,
    /// True if rows are read that are not wanted.
    pub filters: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Read {
    pub request: RequestKey,
    pub node: usize,
    pub rows: u32,
    /// Rows that its coordinator gets.
    pub kept: u32,
    pub is_point: bool,
    pub is_remote: bool,
}
