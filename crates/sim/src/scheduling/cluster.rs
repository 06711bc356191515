//! The nodes: how each coordinates requests, and carries out its own reads and those of the others.
//!
//! As Cassandra 5.0 does: a request holds one of the node's request threads until it is answered; each of
//! its reads needs a thread of the READ stage of the node that has the rows. A range is read stretch by
//! stretch of the ring, several at once by a guess of how many rows are where
//! (`RangeCommandIterator`). Each is asked for all rows that the page wants, and what is too much is thrown
//! away. Reads that have waited for too long are dropped. A write takes its replica as long as a read of a row
//! does, in the same threads.

use std::collections::BTreeSet;
use std::sync::Arc;

use slotmap::SlotMap;

use super::agenda::{Agenda, Event, Job, Page, ProcessId, ReadKey, RequestKey};
use super::data::Data;
use super::request::{Origin, RangeRead, Read, Reply, Request, What};
use super::setup::Setup;
use super::statement::{Asked, Of};
use crate::dice::Dice;
use crate::threads::Threads;

/// Time-outs, by Cassandra's defaults: of reads of a row, which also hold where a node reads its own rows
/// of a range; of writes; of ranges; of requests that no thread has begun with.
const POINT_MAX_US: u64 = 5_000_000;
const WRITE_MAX_US: u64 = 2_000_000;
const RANGE_MAX_US: u64 = 10_000_000;
const QUEUED_MAX_US: u64 = 12_000_000;
/// A coordinator that has files takes a range to have less rows than it would guess from these, by this.
const MARGIN: f64 = 0.1;
/// Ranges that are read at once, for each core.
const RANGES_OF_CORE: usize = 10;

/// The threads of a node: those that work on requests of clients, and the READ stage.
struct Stages {
    process: ProcessId,
    requests: Threads<RequestKey>,
    reads: Threads<ReadKey>,
}

pub(super) struct Cluster {
    setup: Setup,
    data: Arc<Data>,
    nodes: Vec<Stages>,
    /// Texts that each has prepared.
    prepared: Vec<BTreeSet<String>>,
    requests: SlotMap<RequestKey, Request>,
    reads: SlotMap<ReadKey, Read>,
    reads_begun: u64,
    answered: Vec<(Origin, Reply)>,
}

impl Cluster {
    pub(super) fn new(setup: &Setup, data: Arc<Data>, processes: &[ProcessId]) -> Self {
        let node = |process: &ProcessId| Stages {
            process: *process,
            requests: Threads::new(setup.request_threads),
            reads: Threads::new(setup.read_threads),
        };
        Cluster {
            setup: *setup,
            data,
            nodes: processes.iter().map(node).collect(),
            prepared: vec![BTreeSet::new(); processes.len()],
            requests: SlotMap::with_key(),
            reads: SlotMap::with_key(),
            reads_begun: 0,
            answered: Vec::new(),
        }
    }

    /// A request that will reach a node.
    pub(super) fn admit(&mut self, node: usize, of: Option<Of>, origin: Origin) -> RequestKey {
        let what = match (&origin, of) {
            (Origin::Link(_, _, Asked::Options), _) => What::Said(Reply::Supported),
            (Origin::Link(_, _, Asked::Prepare { text, table }), _) => {
                What::Said(Reply::Prepared(text.clone(), *table))
            }
            (Origin::Link(_, _, Asked::Execute { text, .. }), _)
                if !self.prepared[node].contains(text) =>
            {
                What::Said(Reply::Unprepared(text.clone()))
            }
            (_, Some(of)) => self.read_of(of),
            (_, None) => What::Said(Reply::Page(Page::Failed)),
        };
        self.requests.insert(Request {
            node,
            origin,
            what,
            arrived_us: 0,
            deadline_us: 0,
            pending: 0,
            remote_reads: 0,
            remote_rows: 0,
        })
    }

    fn read_of(&self, of: Of) -> What {
        let (above, up_to, behind, remaining, rows_max, filters) = match of {
            Of::Key(key) => match self.data.row_of(key) {
                Some(row) => return What::Row(row),
                None => return What::Said(Reply::Page(Page::Failed)),
            },
            Of::Write(key) => match self.data.row_of(key) {
                Some(row) => return What::Write(row),
                None => return What::Said(Reply::Page(Page::Failed)),
            },
            Of::Range {
                above,
                up_to,
                behind,
                remaining,
                page_rows,
                filters,
            } => (above, up_to, behind, remaining, page_rows, filters),
        };
        let from = match behind.and_then(|key| self.data.row_of(key)) {
            Some(row) => row + 1,
            None => self.data.first_above(above),
        };
        let segments = self.data.segments(from, above, up_to);
        What::Range(RangeRead {
            at_once: self.ranges_at_first(rows_max, segments.len()),
            segments,
            next: 0,
            rows: from..from,
            rows_max,
            wants_more: remaining as usize > rows_max,
            filters,
        })
    }

    /// How many stretches a coordinator reads at once before it has seen any.
    fn ranges_at_first(&self, rows_max: usize, segments: usize) -> usize {
        if !self.setup.flushed {
            return 1;
        }
        let stretches = self.setup.nodes * self.setup.vnodes;
        let rows_each = self.data.len() as f64 / f64::from(stretches) * (1.0 - MARGIN);
        let wanted = (rows_max as f64 / rows_each).ceil() as usize;
        wanted.clamp(1, self.ranges_max(segments))
    }

    fn ranges_max(&self, left: usize) -> usize {
        left.min(self.setup.cores as usize * RANGES_OF_CORE).max(1)
    }

    /// Answers of nodes since the last time.
    pub(super) fn take_answered(&mut self) -> Vec<(Origin, Reply)> {
        std::mem::take(&mut self.answered)
    }

    pub(super) fn on_request(&mut self, agenda: &mut Agenda, key: RequestKey) {
        let request = &mut self.requests[key];
        request.arrived_us = agenda.now_us();
        let node = request.node;
        if let Some(key) = self.nodes[node].requests.enter(key) {
            self.begin(agenda, key);
        }
    }

    /// A thread takes a request, and behind it those that turn out to have waited for too long.
    fn begin(&mut self, agenda: &mut Agenda, key: RequestKey) {
        let mut next = Some(key);
        while let Some(key) = next.take() {
            let now_us = agenda.now_us();
            let request = &mut self.requests[key];
            if now_us > request.arrived_us + QUEUED_MAX_US {
                next = self.end(key, Reply::Dropped);
                continue;
            }
            let costs = &self.setup.costs;
            let (within_us, work_us) = match &request.what {
                What::Said(Reply::Prepared(..)) => (RANGE_MAX_US, costs.prepare_us),
                What::Said(_) => (RANGE_MAX_US, costs.coordinate_us),
                // The other half is that of the answer.
                What::Row(_) => (POINT_MAX_US, costs.coordinate_us / 2.0),
                What::Write(_) => (WRITE_MAX_US, costs.coordinate_us / 2.0),
                What::Range(_) => (RANGE_MAX_US, costs.coordinate_us / 2.0),
            };
            request.deadline_us = now_us + within_us;
            agenda.run(self.nodes[request.node].process, work_us, Job::Begin(key));
        }
    }

    /// A node knows what a request is.
    pub(super) fn on_begun(&mut self, agenda: &mut Agenda, key: RequestKey) {
        let request = &mut self.requests[key];
        let said = match &request.what {
            What::Said(reply) => Some(reply.clone()),
            What::Row(_) | What::Write(_) | What::Range(_) => None,
        };
        if let Some(reply) = said {
            if let Reply::Prepared(text, _) = &reply {
                self.prepared[request.node].insert(text.clone());
            }
            return self.finish(agenda, key, reply);
        }
        agenda.plan_at(request.deadline_us, Event::Deadline(key));
        self.read_on(agenda, key);
    }

    /// Asks for the rows, or the next of them.
    fn read_on(&mut self, agenda: &mut Agenda, key: RequestKey) {
        let request = &mut self.requests[key];
        let mut wanted: Vec<(usize, u32, u32)> = Vec::new();
        let is_point = matches!(request.what, What::Row(_) | What::Write(_));
        match &mut request.what {
            What::Said(_) => {}
            What::Row(row) | What::Write(row) => wanted.push((self.data.node_of(*row), 1, 1)),
            What::Range(range) => {
                let end = (range.next + range.at_once).min(range.segments.len());
                for segment in &range.segments[range.next..end] {
                    if range.filters {
                        wanted.push((segment.node, segment.rows.len() as u32, 0));
                        continue;
                    }
                    let rows = segment.rows.len().min(range.rows_max);
                    wanted.push((segment.node, rows as u32, rows as u32));
                    range.rows.end += rows;
                }
                range.next = end;
            }
        }
        if wanted.is_empty() {
            return self.answer(agenda, key);
        }
        request.pending = wanted.len();
        let coordinator = request.node;
        for (node, rows, kept) in wanted {
            let is_remote = node != coordinator;
            if is_remote {
                self.requests[key].remote_reads += 1;
                self.requests[key].remote_rows += kept;
            }
            let read = self.reads.insert(Read {
                request: key,
                node,
                rows,
                kept,
                is_point,
                is_remote,
            });
            match is_remote {
                true => agenda.plan(self.setup.delay_us(), Event::Read(read)),
                false => self.on_read(agenda, read),
            }
        }
    }

    /// A read has reached the READ stage of its node.
    pub(super) fn on_read(&mut self, agenda: &mut Agenda, key: ReadKey) {
        let node = self.reads[key].node;
        let entered = self.nodes[node].reads.enter(key);
        self.begin_read(agenda, node, entered);
    }

    /// A thread takes a read; what nobody waits for any more costs it nothing.
    fn begin_read(&mut self, agenda: &mut Agenda, node: usize, mut next: Option<ReadKey>) {
        while let Some(key) = next.take() {
            let read = self.reads[key];
            let is_late = self.requests.get(read.request).is_none_or(|request| {
                let own_us = request.deadline_us - RANGE_MAX_US.min(request.deadline_us);
                let is_range = !read.is_point && !read.is_remote;
                is_range && agenda.now_us() > own_us + POINT_MAX_US
            });
            if is_late {
                self.reads.remove(key);
                next = self.nodes[node].reads.leave();
                continue;
            }
            let work_us = self.work_us(&read);
            agenda.run(self.nodes[node].process, work_us, Job::Read(key));
        }
    }

    /// The work of a read at its replica, in microseconds.
    fn work_us(&mut self, read: &Read) -> f64 {
        let costs = &self.setup.costs;
        let rows = f64::from(read.rows);
        let kib = rows * self.setup.row_kib();
        let mut work_us = match read.is_point {
            true => costs.point_us,
            false => costs.range_us + rows * costs.row_us + kib * costs.row_kib_us,
        };
        if read.is_remote {
            work_us += self.remote_us(1.0, f64::from(read.kept));
        }
        self.reads_begun += 1;
        let mut dice = Dice::of(self.setup.seed, 3, self.reads_begun);
        work_us * dice.log_normal(costs.sigma)
    }

    fn remote_us(&self, reads: f64, rows: f64) -> f64 {
        let costs = &self.setup.costs;
        let kib = rows * self.setup.row_kib();
        reads * costs.remote_us + rows * costs.remote_row_us + kib * costs.remote_kib_us
    }

    /// A replica has read what it was asked for.
    pub(super) fn on_read_done(&mut self, agenda: &mut Agenda, key: ReadKey) {
        let read = &self.reads[key];
        let (node, is_remote) = (read.node, read.is_remote);
        let next = self.nodes[node].reads.leave();
        self.begin_read(agenda, node, next);
        match is_remote {
            true => agenda.plan(self.setup.delay_us(), Event::ReadBack(key)),
            false => self.on_read_back(agenda, key),
        }
    }

    /// The coordinator has what it has asked a replica for.
    pub(super) fn on_read_back(&mut self, agenda: &mut Agenda, key: ReadKey) {
        let Some(read) = self.reads.remove(key) else {
            return;
        };
        let Some(request) = self.requests.get_mut(read.request) else {
            return;
        };
        request.pending -= 1;
        if request.pending > 0 {
            return;
        }
        let left = match &request.what {
            What::Range(range) if range.rows.len() < range.rows_max => {
                range.segments.len() - range.next
            }
            _ => 0,
        };
        if left == 0 {
            return self.answer(agenda, read.request);
        }
        let at_once_max = self.ranges_max(left);
        if let What::Range(range) = &mut self.requests[read.request].what {
            // As many as should have all that is missing, by what came so far.
            let missing = (range.rows_max - range.rows.len()) as f64;
            let rows_each = range.rows.len() as f64 / range.next as f64;
            range.at_once = match rows_each > 0.0 {
                true => ((missing / rows_each).round() as usize).clamp(1, at_once_max),
                false => at_once_max,
            };
        }
        self.read_on(agenda, read.request);
    }

    /// The coordinator writes the answer.
    fn answer(&mut self, agenda: &mut Agenda, key: RequestKey) {
        let request = &self.requests[key];
        let costs = &self.setup.costs;
        let rows = match &request.what {
            What::Range(range) => range.rows.len().min(range.rows_max) as f64,
            What::Row(_) | What::Write(_) | What::Said(_) => 0.0,
        };
        let kib = rows * self.setup.row_kib();
        let (reads, remote) = (request.remote_reads.into(), request.remote_rows.into());
        let work_us = costs.coordinate_us / 2.0
            + rows * costs.answer_row_us
            + kib * costs.answer_kib_us
            + self.remote_us(reads, remote);
        agenda.run(self.nodes[request.node].process, work_us, Job::Answer(key));
    }

    pub(super) fn on_answer(&mut self, agenda: &mut Agenda, key: RequestKey) {
        let page = match &self.requests[key].what {
            What::Row(row) => Page::Rows {
                rows: *row..*row + 1,
                next: None,
            },
            What::Write(_) => Page::Rows {
                rows: 0..0,
                next: None,
            },
            What::Range(range) => {
                let end = range.rows.end.min(range.rows.start + range.rows_max);
                let is_full = range.rows.len() >= range.rows_max;
                Page::Rows {
                    rows: range.rows.start..end,
                    next: (is_full && range.wants_more).then_some(end),
                }
            }
            What::Said(_) => Page::Failed,
        };
        self.finish(agenda, key, Reply::Page(page));
    }

    pub(super) fn on_deadline(&mut self, agenda: &mut Agenda, key: RequestKey) {
        let waits = self.requests.get(key).is_some_and(|of| of.pending > 0);
        if waits {
            self.finish(agenda, key, Reply::Page(Page::Failed));
        }
    }

    fn finish(&mut self, agenda: &mut Agenda, key: RequestKey, reply: Reply) {
        if let Some(next) = self.end(key, reply) {
            self.begin(agenda, next);
        }
    }

    /// A request is over; its thread takes another one.
    fn end(&mut self, key: RequestKey, reply: Reply) -> Option<RequestKey> {
        let request = self.requests.remove(key)?;
        self.answered.push((request.origin, reply));
        self.nodes[request.node].requests.leave()
    }

    /// Most reads that ever waited inside a node.
    pub(super) fn queue_most(&self) -> usize {
        let each = self.nodes.iter().map(|node| node.reads.queue_most());
        each.max().unwrap_or(0)
    }

    /// True if nothing is left to be done.
    pub(super) fn is_idle(&self) -> bool {
        let idle = |node: &Stages| node.requests.is_idle() && node.reads.is_idle();
        self.nodes.iter().all(idle)
    }
}
