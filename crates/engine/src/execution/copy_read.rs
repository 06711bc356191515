//! A read of one partition, or of a stretch of the ring, of a table whose replicas are copies in sync: asked of one
//! copy, on the one node that holds it, at ONE. While the table itself is in sync, it is asked: as the client has, through
//! any node, at the client's level.
//!
//! Whether a copy may be asked, and whether its answer counts, is the business of [`helenus_layout::insync`], in
//! the variant in which proxies do not tell each other of their writes (*each copy*). What is decided here is
//! which copy, and what a failure means:
//!
//! - **The copy** is the one whose node is predicted to have the answer first: the work that the statement is on
//!   this copy, after what the node has to do already. Nodes without a connection, and those known to be in
//!   trouble, come last. What a copy took long ago counts less than what another one took since.
//! - **A copy that has failed** is not asked again by this read, and another one is, even if it has to read more.
//!   So is it where the answer does not count (if that is because the lists have changed, and no other copy is left,
//!   the same one is asked once more), and where rows cannot be put into the table's order: then only
//!   copies that have it are left.
//! - **OVERLOADED** of a node lets one more copy be asked, whose node has nothing waiting here and is not ejected.
//!   Otherwise, and if the proxy itself has too much to do, it ends the read: asking others would be load on top of
//!   load.
//! - **What a node says of the client's own statement** ends the read; of one that the proxy has made for the
//!   copy, only if no other copy is left.
//! - **Nothing is left**: the client hears the last error, at its own level.
//!
//! All attempts together have the time of one.

mod asking;
mod judging;

pub(crate) use asking::{Asked, BoundValue, PartForm};

use std::sync::Arc;

use helenus_layout::insync::{Members, Read, TABLE};
use helenus_layout::plan::LogicalTable;
use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::Class;
use helenus_wire::{Opcode, Version, code};

use crate::copies::{Lists, View};
use crate::execution::copy_owners::Extent;
use crate::execution::outcome::{FailedBy, Failure, Outcome, Response, Step, Told};
use crate::execution::surroundings::Surroundings;
use crate::keys::NodeRequestKey;
use crate::memory::Held;
use crate::node_request::{Form, Prediction, Target};
use crate::statement::copy_rules::{because, renamed_to_own, unavailable};
use crate::statement::learned::Learned;
use crate::stats::add;

/// Each copy may be asked once by what the nodes have prepared, and once by its text.
const ASKED_MAX: u16 = 10;

pub(crate) const NOT_LISTED: &str = "Helenus: the catalogue, or its lists of copies in sync and of proxies, could not be \
                                     read in time, or other nodes own a part of the ring and its lists are being \
                                     made; reads of tables with copies in place of replicas wait until they are there \
                                     (helenus layouts status)";

/// A read of a copy that is under way.
pub(crate) struct CopyRead {
    asked: Asked,
    /// Node requests so far.
    attempts: u16,
    under_way: Option<UnderWay>,
    arrived: Option<Arrived>,
    /// Copies whose answers did not count because the lists had changed: they may be asked once more, if no other
    /// is left; and those that were.
    overtaken: Members,
    asked_again: Members,
    /// A node has had too much to do: no error is followed by a further copy any more.
    is_last: bool,
    /// What the client hears if no copy is left.
    failed: Option<Told>,
}

impl std::fmt::Debug for CopyRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let copy = self
            .under_way
            .as_ref()
            .map(|under_way| under_way.read.copy());
        write!(f, "CopyRead({copy:?})")
    }
}

struct UnderWay {
    key: NodeRequestKey,
    read: Read,
    /// This proxy in the list of proxies.
    me: usize,
}

/// An answer that is to be judged.
pub(crate) struct Arrived {
    read: Read,
    me: usize,
    /// Which start of its node has given it.
    boot: Option<u32>,
    pub header_flags: u8,
    pub version: Version,
    pub service_us: u32,
    prelude: Box<[u8]>,
    pub content: Box<[u8]>,
    _held: Held,
}

impl Arrived {
    /// The copy that has given it.
    pub(crate) fn copy(&self) -> usize {
        self.read.copy()
    }
}

/// What the table is asked as it came, wherever the whole of a request goes.
pub(super) fn own_form(
    around: &Surroundings<'_>,
    continued: Option<(&[u8], i32)>,
) -> (Form, Prediction) {
    let is_known = around.learned().is_none_or(Learned::has_answers);
    let work = match around.query.class {
        Class::Scan if !is_known => around.whole_scan(None),
        _ => Prediction::Learned,
    };
    let form = match continued {
        Some((state, size)) => Form::Piece {
            size,
            state: Some(state.to_vec()),
        },
        None => Form::Own,
    };
    (form, work)
}

impl CopyRead {
    pub(crate) fn new(asked: Asked) -> CopyRead {
        CopyRead {
            asked,
            attempts: 0,
            under_way: None,
            arrived: None,
            overtaken: Members::EMPTY,
            asked_again: Members::EMPTY,
            is_last: false,
            failed: None,
        }
    }

    pub(crate) fn table(&self) -> &Arc<LogicalTable> {
        &self.asked.table
    }

    pub(crate) fn owners(&self) -> &[NodeIndex] {
        &self.asked.owners
    }

    pub(crate) fn extent(&self) -> Extent {
        self.asked.extent
    }

    /// The snapshot by which it was asked.
    pub(crate) fn epoch(&self) -> u64 {
        self.asked.epoch
    }

    /// Asks the copy that is expected to answer first.
    pub(super) fn send(&mut self, around: &mut Surroundings<'_>) -> Step<'static> {
        let lists = around.cx.shared.copies.lists();
        let now_us = around.cx.shared.copies.us(around.cx.now);
        let view = self.asked.view(&lists);
        let Some(view) = view.filter(|view| view.list(now_us).is_some()) else {
            return told(code::OVERLOADED, NOT_LISTED.to_owned(), Vec::new());
        };
        let reads = self.asked.reads.clone();
        let Some((at, read)) = self.next(around, &view, now_us) else {
            return self.give_up();
        };
        let me = view.member.number;
        if at == TABLE {
            let (form, work) = own_form(around, self.asked.continued_from_copy());
            let key = around.send_own_part(self.attempts, form, work);
            return self.note_sent(around, UnderWay { key, read, me });
        }
        let (Some(on), Some(node)) = (reads.on(at), self.asked.owners.get(at)) else {
            return self.give_up();
        };
        let query = match self.asked.query(around, on) {
            Ok(query) => query,
            Err(why) => return Step::Broken(why.to_string()),
        };
        let sorts = u64::from(on.order.is_some());
        add(&around.cx.shared.stats.global.layout_reads_sorted, sorts);
        let target = Target::Only {
            node: *node,
            is_tried: false,
        };
        let prediction = self.asked.prediction(&query, on);
        let key = around.send_part(self.attempts, query, prediction, target);
        self.note_sent(around, UnderWay { key, read, me })
    }

    fn note_sent(&mut self, around: &mut Surroundings<'_>, under_way: UnderWay) -> Step<'static> {
        if let Some(request) = around.requests.get_mut(under_way.key) {
            request.time_runs_since = self.asked.began;
        }
        self.attempts += 1;
        self.under_way = Some(under_way);
        Step::Wait
    }

    /// The copy that is asked next, if any is left.
    fn next(
        &mut self,
        around: &Surroundings<'_>,
        view: &View<'_>,
        now_us: u64,
    ) -> Option<(usize, Read)> {
        if self.attempts >= ASKED_MAX {
            return None;
        }
        let next = self.asked.next(around, view, now_us);
        if next.is_some() || self.overtaken.is_empty() {
            return next;
        }
        let again = std::mem::replace(&mut self.overtaken, Members::EMPTY);
        self.asked_again = self.asked_again.union(again);
        self.asked.candidates = self.asked.candidates.union(again);
        self.asked.next(around, view, now_us)
    }

    pub(super) fn awaits(&self, child: NodeRequestKey) -> bool {
        let under_way = self.under_way.as_ref();
        under_way.is_some_and(|under_way| under_way.key == child)
    }

    /// The node request under way.
    pub(crate) fn child(&self) -> Option<NodeRequestKey> {
        self.under_way.as_ref().map(|under_way| under_way.key)
    }

    /// What became of the copy that was asked.
    pub(super) fn on_attempt<'a>(
        &mut self,
        around: &mut Surroundings<'_>,
        outcome: Outcome<'a>,
    ) -> Step<'a> {
        let Some(UnderWay { read, me, .. }) = self.under_way.take() else {
            return Step::Wait;
        };
        match outcome {
            Outcome::Answered(response) => self.on_answer(around, (read, me), &response),
            Outcome::Failed(failure) => self.on_failure(around, read.copy(), &failure),
        }
    }

    fn on_answer(
        &mut self,
        around: &mut Surroundings<'_>,
        (read, me): (Read, usize),
        response: &Response<'_>,
    ) -> Step<'static> {
        if response.header.opcode != Opcode::Result as u8 {
            return Step::Broken("neither a result nor an error".to_owned());
        }
        self.arrived = Some(Arrived {
            read,
            me,
            // The table has several replicas, and no start.
            boot: match read.copy() {
                TABLE => Some(0),
                _ => around.links.boot_of(response.link),
            },
            header_flags: response.header.flags,
            version: response.version,
            service_us: response.service_us,
            prelude: response.prelude.into(),
            content: response.content.into(),
            _held: Held::new(&around.cx.memory, response.content.len()),
        });
        around.todo.judge = true;
        Step::Wait
    }

    fn on_failure(
        &mut self,
        around: &mut Surroundings<'_>,
        copy: usize,
        failure: &Failure<'_>,
    ) -> Step<'static> {
        let on = self.asked.reads.on(copy);
        let is_own = copy == TABLE || on.is_some_and(|on| on.is_own);
        // What comes next is the text of a copy's statement. That of the table is the client's.
        let is_unprepared = copy != TABLE && failure.is_unprepared();
        if is_unprepared {
            if let Some(on) = on {
                on.statement().forget_range();
            }
        } else {
            self.leave(copy);
        }
        let is_over = match failure.by {
            // It is the same copy's turn.
            _ if is_unprepared => false,
            _ if self.is_last || failure.is_unprepared() => true,
            // There is no room, or no time left, for another one.
            FailedBy::Proxy => failure.is_of_overload() || failure.error.code == code::READ_TIMEOUT,
            FailedBy::Node(_) if failure.is_of_overload() => {
                self.leave_to_idle(around);
                false
            }
            FailedBy::Node(_) => is_own && is_of_statement(failure.error.code),
        };
        // The id of a copy's statement is none of the client's.
        if !is_unprepared {
            self.failed = Some(self.as_told(failure));
        }
        match is_over {
            true => self.give_up(),
            false => self.send(around),
        }
    }

    /// Asks one more copy at most, whose node has too much to do neither by what waits for it here nor by its answers:
    /// all nodes may have.
    fn leave_to_idle(&mut self, around: &Surroundings<'_>) {
        let is_idle = |copy: &usize| {
            let node = self.asked.owners.get(*copy);
            node.is_some_and(|node| around.queues.is_idle(around.cx, *node))
        };
        self.asked.candidates = self.asked.candidates.iter().filter(is_idle).collect();
        self.overtaken = Members::EMPTY;
        self.is_last = true;
    }

    /// Does not ask a copy again.
    fn leave(&mut self, copy: usize) {
        self.asked.candidates = self.asked.candidates.minus(Members::of(copy));
    }

    /// A failure as the client is to hear it.
    fn as_told(&self, failure: &Failure<'_>) -> Told {
        let (table, error) = (&self.asked.table, &failure.error);
        let text = match (failure.by, error.code) {
            (FailedBy::Proxy, code::UNAVAILABLE) => {
                because(table, "no node of a copy in sync can be reached now")
            }
            _ => renamed_to_own(table, error.message),
        };
        let mut fields = error.fields.to_vec();
        let has_level = matches!(
            error.code,
            code::UNAVAILABLE | code::READ_TIMEOUT | code::READ_FAILURE
        );
        if has_level && let Some(level) = fields.get_mut(..2) {
            level.copy_from_slice(&self.asked.level.0.to_be_bytes());
        }
        Told {
            code: error.code,
            text,
            fields,
            version: match failure.by {
                FailedBy::Node(version) => Some(version),
                FailedBy::Proxy => None,
            },
        }
    }

    /// No copy is left that could answer.
    fn give_up(&mut self) -> Step<'static> {
        if let Some(failed) = self.failed.take() {
            return Step::Told(Box::new(failed));
        }
        let why = match self.asked.continued {
            // The id of a copy's statement is none of the client's, and nothing else was said.
            _ if self.attempts > 0 => {
                "the copies that were asked have given no answer that counts, and no other one that can give it is \
                 in sync: ask again"
            }
            Some(_) => {
                "the copy that the page before came from is not in sync, nor is another one in its order: ask for \
                 the page again later, or begin anew"
            }
            None => {
                "no copy that can give this answer is in sync: ask again later; `helenus layouts status` shows \
                 which copies are"
            }
        };
        Step::Told(Box::new(self.unavailable_because(why)))
    }

    fn unavailable(&self) -> Vec<u8> {
        unavailable(self.asked.level, 1, 0)
    }

    /// Whether another copy could be asked than the one that is, on a node of this kind.
    pub(crate) fn has_another(
        &self,
        lists: &Lists,
        now_us: u64,
        is_fit: impl Fn(NodeIndex) -> bool,
    ) -> bool {
        let under_way = self.under_way.as_ref();
        let Some(asked) = under_way.map(|under_way| Members::of(under_way.read.copy())) else {
            return false;
        };
        let view = self.asked.view(lists);
        let in_sync = view.and_then(|view| Some(view.list(now_us)?.in_sync()));
        let others = |of: Members| of.intersection(self.asked.candidates).minus(asked);
        let owner = |copy: usize| self.asked.owners.get(copy);
        let has_fit = |of: Members| of.iter().filter_map(owner).any(|node| is_fit(*node));
        in_sync.is_some_and(|in_sync| has_fit(others(in_sync)))
    }

    pub(crate) fn take_arrived(&mut self) -> Option<Arrived> {
        self.arrived.take()
    }

    /// An answer does not count.
    pub(super) fn ask_another(
        &mut self,
        around: &mut Surroundings<'_>,
        arrived: &Arrived,
    ) -> Step<'static> {
        let copy = arrived.read.copy();
        self.leave(copy);
        match self.distrusted(around, arrived) {
            Some(why) => self.failed = Some(why),
            None if self.asked_again.contains(copy) => {
                let why = "each time that it was read a copy, or this proxy, was out of sync for a moment: ask again";
                // What another one has failed with says more.
                if self.failed.is_none() {
                    self.failed = Some(self.unavailable_because(why));
                }
            }
            None => self.overtaken = self.overtaken.with(copy),
        }
        self.send(around)
    }

    /// What is wrong with the node that has answered, if it is not the lists that have changed.
    fn distrusted(&self, around: &Surroundings<'_>, arrived: &Arrived) -> Option<Told> {
        let copy = arrived.read.copy();
        let why = match arrived.boot {
            None => {
                "has not told which start of it has answered (gossip_generation in its system.local)"
            }
            Some(boot) => {
                let lists = around.cx.shared.copies.lists();
                let list = *self.asked.view(&lists)?.copies.last_read()?;
                // A list that knows a later start is news of the copy, like others.
                if boot <= list.boot(copy) {
                    return None;
                }
                "is of another start than the list of copies in sync knows: the node was restarted, and may have lost \
                 the last writes; read again once the copy is back"
            }
        };
        let node = self.asked.owners.get(copy)?.as_usize();
        let node = around.cx.snapshot.nodes.get(node)?;
        let why = format!("the answer of {} does not count: it {why}", node.address);
        Some(self.unavailable_because(&why))
    }

    fn unavailable_because(&self, why: &str) -> Told {
        Told {
            code: code::UNAVAILABLE,
            text: because(&self.asked.table, why),
            fields: self.unavailable(),
            version: None,
        }
    }

    /// The rows of an answer cannot be put into the table's order: only copies that have it are asked.
    pub(super) fn ask_in_order(&mut self, around: &mut Surroundings<'_>) -> Step<'static> {
        let reads = self.asked.reads.iter();
        let (sorted, in_order): (Vec<_>, Vec<_>) = reads.partition(|of| of.order.is_some());
        let sorted: Members = sorted.into_iter().map(|of| of.at).collect();
        // Others may be in sync again.
        let (code, fields, later) = match in_order.is_empty() {
            true => (code::INVALID, Vec::new(), ""),
            false => (
                code::UNAVAILABLE,
                self.unavailable(),
                ", or ask again when a copy with the table's order is in sync",
            ),
        };
        let why = format!(
            "the rows do not come in the table's order from the copies in sync, and are too many to be sorted (5,000 \
             rows, 1 MiB, one page): ask for fewer rows, or for larger pages{later}"
        );
        self.failed = Some(Told {
            code,
            text: because(&self.asked.table, &why),
            fields,
            version: None,
        });
        self.asked.candidates = self.asked.candidates.minus(sorted);
        self.overtaken = self.overtaken.minus(sorted);
        self.send(around)
    }
}

/// Whether an error is about what was asked, and not about the node.
pub(crate) fn is_of_statement(error: i32) -> bool {
    matches!(
        error,
        code::PROTOCOL | code::SYNTAX | code::UNAUTHORIZED | code::INVALID | code::CONFIG
    )
}

fn told(code: i32, text: String, fields: Vec<u8>) -> Step<'static> {
    Step::Told(Box::new(Told {
        code,
        text,
        fields,
        version: None,
    }))
}
