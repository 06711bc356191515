//! Node requests in the queues of nodes: how they come in, and how they leave.

use std::time::Instant;

use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::{Answered, Class, Job, Payer};
use helenus_wire::Opcode;

use crate::features;
use crate::keys::NodeRequestKey;
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::{NodeRequest, Prediction, Stage, Target};
use crate::pipeline::query::Query;
use crate::scheduler::lane::{LITTLE_US, lane};
use crate::scheduler::{Admitted, Candidate, PartJob, Served};
use crate::statement::learned::typical::Typical;
use crate::statement::pieces::comes_in_pieces;

/// Answers of a node's schedule to a node request that is offered to it.
pub(crate) enum Offered {
    Go,
    Waits,
    Refused(String),
}

/// Rows of a page, or bytes of an answer, that are little.
const LITTLE_ROWS: usize = 100;
const LITTLE_BYTES: u32 = 32 * 1024;

impl Engine {
    /// Offers a node request to a node.
    pub(crate) fn offer(&mut self, key: NodeRequestKey, node: NodeIndex) -> Offered {
        let Some(request) = self.requests.nodes.get(key) else {
            return Offered::Waits;
        };
        let Some(query) = self.requests.query_of(request) else {
            return Offered::Waits;
        };
        let job = job(request, query, &self.statements.typical);
        let known = !self.queues.is_preset(node) && is_known(request, query, self.cx.now);
        let is_little = job.work_us < LITTLE_US && reads_little(query);
        let lane = lane(
            query.class,
            judged_us(request, query, &job),
            known,
            is_little,
        );
        let candidate = Candidate {
            key,
            class: lane,
            bytes: query.body.len(),
            job,
        };
        let target = || {
            let client = self.requests.clients.get(request.client()?)?;
            Some(client.target())
        };
        let features = &self.features;
        let payer = || {
            let keyspace = query.table.as_ref().map_or(0, |table| table.tenant);
            let token = target().and_then(Target::token);
            let hot = token.filter(|token| features::spreads(features, *token));
            Payer {
                tenant: keyspace ^ self.links.role_number(query.pool),
                // Zero stands for all partitions that are not hot.
                flow: hot.map_or(0, |token| token as u32 | 1),
            }
        };
        let admitted = self.queues.offer(&self.cx, node, candidate, payer);
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return Offered::Waits;
        };
        request.set_job(job.piece_us, lane);
        match admitted {
            Admitted::Go(admission) => {
                request.admit(admission);
                Offered::Go
            }
            Admitted::Waits(waiting) => {
                request.wait(waiting);
                Offered::Waits
            }
            Admitted::Refused(why) => Offered::Refused(why),
        }
    }

    /// Gives back a node request's place at its node or in the node's queue, and sends who waits for it.
    /// `served`: what the node has answered, if it has.
    pub(crate) fn leave_queue(&mut self, key: NodeRequestKey, served: Option<Served>) {
        let Some(request) = self.requests.nodes.get(key) else {
            return;
        };
        let Some(query) = self.requests.query_of(request) else {
            return;
        };
        let (class, work_us) = (request.lane(), request.work_us());
        let known_us = served.map_or(0, |of| known_us(request, query, of.service_us));
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return;
        };
        match request.leave() {
            Stage::Unplaced | Stage::InFlight(..) => {}
            Stage::Queued(waiting) => self.queues.leave_queue(waiting, class),
            Stage::Admitted(admission) => {
                let answered = served.map(|served| Answered {
                    predicted_us: work_us,
                    known_us,
                    service_us: served.service_us,
                    is_error: served.is_error,
                });
                self.queues
                    .leave_node(&mut self.cx, admission, class, answered);
            }
        }
    }

    /// Compares what was predicted of a node request with the time that its answer took.
    #[inline(never)]
    pub(crate) fn note_prediction(&self, key: NodeRequestKey, service_us: u32) {
        let Some(request) = self.requests.nodes.get(key) else {
            return;
        };
        let query = self.requests.query_of(request);
        let is_predicted = |query: &&Query| {
            query.statement.is_some() && query.opcode != Opcode::Prepare && request.work_us() > 0
        };
        if let Some(query) = query.filter(is_predicted) {
            let predictions = &self.cx.shared.stats.predictions;
            predictions.note(query.class, request.work_us(), service_us);
        }
    }

    /// Gives a part the place that the rest of its page has now.
    pub(crate) fn reprioritise(&mut self, key: NodeRequestKey, part: PartJob) {
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return;
        };
        request.set_work(Prediction::Part(part));
        if let Stage::Queued(waiting) = request.stage() {
            self.queues.reprioritise(waiting, part);
        }
    }
}

/// The work by which a request is called long or short. Of a scan that is sent whole, what few of its
/// statement take longer than: its mean says little where some values cost a thousand times as much as
/// others.
fn judged_us(request: &NodeRequest, query: &Query, job: &Job) -> u32 {
    let is_whole = matches!(
        request.work(),
        Prediction::Learned | Prediction::Scan { .. }
    );
    let learned = query.statement.as_ref().map(|s| &s.learned);
    let slow_us = learned.and_then(|learned| learned.slow_us());
    match query.class {
        Class::Scan if is_whole => job.work_us.max(slow_us.unwrap_or(0)),
        _ => job.work_us,
    }
}

/// True if a scan reads no more than it returns, as far as its text says, and returns little.
fn reads_little(query: &Query) -> bool {
    let Some(statement) = query
        .statement
        .as_ref()
        .filter(|_| query.class == Class::Scan)
    else {
        return false;
    };
    let Some(select) = statement.facts.select.as_deref() else {
        return false;
    };
    let reads_more =
        select.allow_filtering || select.distinct || select.per_partition_limit.is_some();
    let learned = &statement.learned;
    comes_in_pieces(select)
        && !reads_more
        && match learned.page_rows.left(0) {
            Some(rows) => rows <= LITTLE_ROWS,
            None => learned.has_answers() && learned.answer_bytes() <= LITTLE_BYTES,
        }
}

/// True if its statement's answers say how much work it is. Of a scan they do not while others of its
/// statement time out.
fn is_known(request: &NodeRequest, query: &Query, now: Instant) -> bool {
    let learned = query.statement.as_ref().map(|s| &s.learned);
    learned.is_some_and(|learned| match *request.work() {
        _ if query.class == Class::Scan && learned.has_timed_out(now) => false,
        Prediction::Piece { .. } | Prediction::Part(_) => learned.pieces().samples() > 0,
        Prediction::Stretch { known, .. } => known,
        // Sent whole, because it is traced for instance, where most answers were pieces.
        Prediction::Learned if query.class == Class::Scan && learned.pieces().samples() > 0 => {
            false
        }
        Prediction::Learned | Prediction::Scan { .. } => learned.has_answers(),
    })
}

/// The work of a request as its answer, after so long, teaches it to be.
fn known_us(request: &NodeRequest, query: &Query, service_us: u32) -> u32 {
    let Some(statement) = &query.statement else {
        return 0;
    };
    match *request.work() {
        // There are parts only of what is known well.
        Prediction::Part(_) => 0,
        Prediction::Piece { expected, .. } => {
            statement.learned.piece_us_after(service_us, expected)
        }
        Prediction::Stretch { tokens, .. } => {
            let mut pace = statement.learned.pace();
            pace.note(tokens, service_us);
            pace.us_of(tokens).unwrap_or(service_us)
        }
        Prediction::Learned | Prediction::Scan { .. } => {
            statement.learned.service_us_after(service_us)
        }
    }
}

/// The predicted work of a request at its node, in microseconds.
pub(crate) fn piece_us(request: &NodeRequest, query: &Query, typical: &Typical) -> u32 {
    match *request.work() {
        Prediction::Part(part) => part.piece_us,
        Prediction::Piece { piece_us, .. } | Prediction::Stretch { piece_us, .. } => piece_us,
        Prediction::Scan { work_us } => work_us,
        Prediction::Learned => {
            let statement = query.statement.as_ref();
            statement.map_or(1_000, |s| s.learned.service_us_or(query.class, typical))
        }
    }
}

/// A request as the schedule is told of it, except for its tenant.
pub(crate) fn job(request: &NodeRequest, query: &Query, typical: &Typical) -> Job {
    let learned = query.statement.as_ref().map(|s| &s.learned);
    let (work_us, piece_us, rows) = match *request.work() {
        Prediction::Part(part) => (part.work_us, part.piece_us, part.rows),
        Prediction::Piece {
            work_us,
            piece_us,
            rows,
            ..
        } => (work_us, piece_us, rows),
        Prediction::Stretch {
            work_us, piece_us, ..
        } => (work_us, piece_us, 1),
        Prediction::Scan { work_us } => (work_us, work_us, 1),
        Prediction::Learned => {
            let us = learned.map_or(1_000, |learned| learned.service_us_or(query.class, typical));
            (us, us, 1)
        }
    };
    let part = match *request.work() {
        Prediction::Part(part) => Some(part),
        _ => None,
    };
    Job {
        work_us,
        piece_us,
        is_part: part.is_some(),
        nodes_left: part.map_or(1, |part| part.nodes_left),
        rows,
        tenant: 0,
        flow: 0,
        idempotent: query.resendable.is_idempotent(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use helenus_wire::Version;

    use super::*;
    use crate::keys::ClientRequestKey;
    use crate::pipeline::node_request::{Form, Owner, Target};
    use crate::statement::prepared::Statement;

    fn query(class: Class) -> Query {
        let text = "SELECT v FROM app.t WHERE v = ? LIMIT 1";
        Query {
            statement: Some(Arc::new(Statement::new(text))),
            class,
            ..Query::new(Opcode::Execute, Version::V5, Vec::new())
        }
    }

    fn request(work: Prediction, now: Instant) -> NodeRequest {
        let owner = Owner::Whole(ClientRequestKey::default());
        NodeRequest::new(owner, Form::Own, work, Target::ANY, now)
    }

    #[test]
    fn a_scan_that_times_out_is_not_known_to_be_short() {
        let now = crate::testing::begin();
        let scan = query(Class::Scan);
        let statement = scan.statement.clone().expect("a statement");
        let slice = Query {
            statement: Some(statement.clone()),
            ..query(Class::Slice)
        };
        let request = request(Prediction::Learned, now);
        assert!(!is_known(&request, &scan, now));
        statement.learned.note_answer(10, 200);
        assert!(is_known(&request, &scan, now));
        scan.note_timeout(now);
        slice.note_timeout(now);
        statement.learned.note_answer(10, 200);
        assert!(!is_known(&request, &scan, now), "whatever others take");
        assert!(is_known(&request, &slice, now));
        assert!(is_known(&request, &scan, now + Duration::from_secs(60)));
    }

    #[test]
    fn answers_of_pieces_do_not_tell_how_long_the_whole_takes() {
        let now = crate::testing::begin();
        let scan = query(Class::Scan);
        let whole = request(Prediction::Learned, now);
        let piece = request(
            Prediction::Piece {
                work_us: 1_000,
                piece_us: 1_000,
                rows: 100,
                expected: 100,
            },
            now,
        );
        let learned = &scan.statement.as_ref().expect("a statement").learned;
        learned.note_answer(1_000, 1_000);
        assert!(is_known(&whole, &scan, now) && !is_known(&piece, &scan, now));
        learned.note_piece(1_000, 100, 1_000);
        assert!(is_known(&piece, &scan, now) && !is_known(&whole, &scan, now));
    }
}
