//! Writes to copies in sync on their way: what [`crate::execution::copied_write`] decides is done here.
//!
//! Answers are noted when they come, and judged when the clock has been read after them
//! ([`crate::output::Output::Judge`]). Which copies are late is judged once a tick.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_layout::insync::{Members, TABLE};
use helenus_policy::ring::NodeIndex;
use helenus_wire::{ErrorBody, Opcode, Reader, code};

use crate::backlog::How;
use crate::copies::Lists;
use crate::copy_ends::{told, told_of_table, unpreparable};
use crate::engine::Engine;
use crate::execution::Execution;
use crate::execution::copied_write::{Copied, Passed, Steps, Waits};
use crate::execution::copied_writes::ALONE_SHARE;
use crate::execution::copy_owners::{Extent, has_copies_on};
use crate::execution::copy_read::is_of_statement;
use crate::execution::write_ends::{End, Failure, Why};
use crate::keys::{ClientRequestKey, CopiedWriteKey, NodeRequestKey};
use crate::node_request::{Form, NodeRequest, Owner, Prediction, Target};
use crate::output::Output;

/// Whether an error tells that the node has done nothing, and may do it at another time.
fn is_of_its_state(error: i32) -> bool {
    matches!(
        error,
        code::UNAVAILABLE | code::OVERLOADED | code::IS_BOOTSTRAPPING
    )
}

/// What a failure says of the write on its copy. `may_have_left`: it was on a link.
fn failure_of(how: How, may_have_left: bool, error: i32) -> Failure {
    match how {
        How::TimedOut if may_have_left => Failure::Silent,
        How::TimedOut | How::Untried => Failure::Untried,
        // The next attempt is sent as a text.
        How::Answered | How::Unsendable if error == code::UNPREPARED => Failure::Untried,
        How::Answered | How::Unsendable if is_of_statement(error) => Failure::Refused,
        How::Unsendable if error == code::OVERLOADED => Failure::Untried,
        // The node has not prepared it.
        How::Unsendable => Failure::Busy,
        How::Answered if is_of_its_state(error) => Failure::Busy,
        How::Answered => Failure::Unclear,
    }
}

/// By what writes are judged, read once for all that are looked at together.
struct Pass {
    lists: Arc<Lists>,
    /// Until when what is known of tables may be relied on.
    until: Option<Instant>,
    now_us: u64,
}

impl Engine {
    /// A client request begins that is a write to copies; `false` if it is something else.
    pub(crate) fn begin_copied(&mut self, client: ClientRequestKey) -> bool {
        let request = self.requests.clients.get(client);
        if !request.is_some_and(|request| matches!(request.execution, Execution::Copied(_))) {
            return false;
        }
        let until = self.cx.now + self.copies_limit();
        let now_us = self.cx.shared.copies.us(self.cx.now);
        let Some(request) = self.requests.clients.get_mut(client) else {
            return false;
        };
        let Execution::Copied(copied) = &mut request.execution else {
            return false;
        };
        let key = match std::mem::replace(copied, Copied::Waits(CopiedWriteKey::default())) {
            Copied::Waits(key) => {
                *copied = Copied::Waits(key);
                return true;
            }
            Copied::Begins(mut write) => {
                write.waits = Some(Waits { client, until });
                let (bucket, change) = write.member().begin(write.token);
                write.note_begun(bucket, now_us);
                if let Some(change) = change {
                    let member = write.member().clone();
                    self.cx.ask(Output::Intent(member, change));
                }
                let key = self.copied.insert(*write);
                *copied = Copied::Waits(key);
                key
            }
        };
        let pass = self.begin_pass();
        self.advance_copied(key, &pass);
        true
    }

    /// How long a client waits for the copies, as a coordinator would wait for replicas.
    fn copies_limit(&self) -> Duration {
        let of_nodes = self.cx.snapshot.nodes.iter();
        let of_nodes = of_nodes.map(|node| node.timeouts.unwrap_or_default().of_write());
        let limit = self.cx.shared.config.request_timeout();
        limit.or_else(|| of_nodes.max()).unwrap_or_default()
    }

    fn begin_pass(&mut self) -> Pass {
        // Whoever has renewed the lease has stored the snapshot before.
        let until = self.cx.shared.layouts.until(self.cx.now);
        if self.cx.shared.is_newer_than(&self.cx.snapshot) {
            self.adopt_snapshot();
        }
        Pass {
            lists: self.cx.shared.copies.lists(),
            until,
            now_us: self.cx.shared.copies.us(self.cx.now),
        }
    }

    /// Other lists are in force, or an intent is recorded.
    pub(crate) fn look_at_copies(&mut self) {
        let pass = self.begin_pass();
        for key in self.copied.published(&pass.lists) {
            self.advance_copied(key, &pass);
        }
    }

    /// What has been answered is judged.
    pub(crate) fn judge_touched(&mut self) {
        let touched = self.copied.take_touched();
        if touched.is_empty() {
            return;
        }
        let pass = self.begin_pass();
        for key in touched {
            self.advance_copied(key, &pass);
        }
    }

    /// Goes on with all writes, finds copies that are late, and tells clients that have waited for too long. Once
    /// a tick.
    pub(crate) fn expire_copied(&mut self) {
        let now_us = self.cx.shared.copies.us(self.cx.now);
        let passed = self.copied.look(self.cx.now, now_us);
        if self.copied.len() == 0 {
            return;
        }
        let pass = self.begin_pass();
        let away = self.links.away(self.cx.now);
        for key in self.copied.keys() {
            self.judge_time(key, &pass, &passed, &away);
            self.advance_copied(key, &pass);
            if self.has_no_role(key) {
                self.end_copied(key, End::GivenUp(Why::NoRole));
            }
            self.expire_write(key, &pass.lists);
        }
        let share = self.cx.shared.memory_max() / ALONE_SHARE;
        // As long as there is enough for others, they may hold more.
        let is_short = self.cx.memory.left() < share;
        let bytes_max = is_short.then(|| share / self.cx.workers.max(1));
        for key in self.copied.too_many_alone(bytes_max) {
            self.end_copied(key, End::GivenUp(Why::Old));
        }
    }

    /// Asks for the eviction of a copy that does not have a write, by its own doing. `away`: nodes that cannot be
    /// reached while others can, and for how long.
    fn judge_time(
        &mut self,
        key: CopiedWriteKey,
        pass: &Pass,
        passed: &Passed,
        away: &[(NodeIndex, Duration)],
    ) {
        let copies = &self.cx.shared.copies;
        let Some(write) = self.copied.get_mut(key) else {
            return;
        };
        let Some(view) = write.view(&pass.lists) else {
            return;
        };
        let (nodes, links, pool) = (&self.requests.nodes, &self.links, write.sent.pool);
        let flight = |sent: NodeRequestKey| {
            let flight = nodes.get(sent)?.flight()?;
            Some(copies.us(flight.sent))
        };
        let late = write.judge_time(&view, passed, flight, |node| links.has_link(pool, node));
        let is_away = |copy: &usize| {
            let owner = write.owners.get(*copy);
            let mut of_owner = away.iter().filter(|(node, _)| Some(node) == owner);
            of_owner.any(|(_, time)| view.is_lost(*copy, *time, pass.now_us))
        };
        let missing = match away {
            [] => Members::EMPTY,
            _ => write.missing(&view, pass.now_us),
        };
        let lost: Members = missing.iter().filter(is_away).collect();
        for copy in late.union(lost).iter() {
            self.ask_to_evict(key, copy, pass);
        }
    }

    /// Whether the role of a write has ended, so that nothing is sent by it any more. A role without clients is
    /// kept as long as it has writes.
    fn has_no_role(&mut self, key: CopiedWriteKey) -> bool {
        let Some(write) = self.copied.get(key) else {
            return false;
        };
        !self.links.keep_for_write(&self.cx, write.sent.pool)
    }

    /// Tells a client that has waited for too long.
    fn expire_write(&mut self, key: CopiedWriteKey, lists: &Lists) {
        let now = self.cx.now;
        let Some(write) = self.copied.get_mut(key) else {
            return;
        };
        if write.waits.is_none_or(|waits| waits.until > now) {
            return;
        }
        let nodes = &self.requests.nodes;
        let end = write.end_in_time(lists, |sent| {
            nodes.get(sent).is_some_and(NodeRequest::may_have_left)
        });
        match end {
            Some(end) => self.end_copied(key, end),
            None => self.tell_timed_out(key, lists),
        }
    }

    fn advance_copied(&mut self, key: CopiedWriteKey, pass: &Pass) {
        let is_as_it_was = self.is_as_it_was(key);
        let links = &self.links;
        let Some(write) = self.copied.get_mut(key) else {
            return;
        };
        write.note_boots(|node| links.newest_boot(node));
        let mut steps = write.advance(&pass.lists, pass.until.is_some(), pass.now_us);
        if !is_as_it_was && !write.is_of_table() && steps.end != Some(End::Left) {
            // A list is found by owners, and is another one where others own the partition.
            steps = Steps {
                end: Some(End::GivenUp(Why::Moved)),
                ..Steps::default()
            };
        }
        let until = match write.is_of_table() {
            true => pass.until,
            false => pass
                .until
                .zip(write.view(&pass.lists))
                .map(|(until, view)| {
                    until.min(self.cx.shared.copies.instant(view.lease_until_us()))
                }),
        };
        if let Some(until) = until {
            self.send_to_copies(key, steps.send, until);
        }
        if let Some(copy) = steps.evict {
            self.ask_to_evict(key, copy, pass);
        }
        if let Some(end) = steps.end {
            self.end_copied(key, end);
        }
    }

    /// Whether a write's table has the same copies as when it began, on the same nodes, and can still be written
    /// in this form. That is looked up once for each snapshot. It is noted whether it has copies at all: if they have
    /// come back, they are others.
    fn is_as_it_was(&mut self, key: CopiedWriteKey) -> bool {
        let snapshot = &self.cx.snapshot;
        let Some(write) = self.copied.get_mut(key) else {
            return false;
        };
        if write.seen_epoch == snapshot.epoch {
            return !write.is_of_table();
        }
        let (keyspace, name) = (&write.table.keyspace, &write.table.name);
        let has_copies = snapshot.layouts.replaced(keyspace, name).is_some();
        let now_us = self.cx.shared.copies.us(self.cx.now);
        if write.note_copies(has_copies, now_us) {
            return false;
        }
        let is_same = write.sent.version <= snapshot.version
            && has_copies_on(
                snapshot,
                (&*write.table, Extent::Partition(write.token)),
                &write.owners,
            );
        if is_same {
            write.seen_epoch = snapshot.epoch;
        }
        is_same
    }

    fn send_to_copies(&mut self, key: CopiedWriteKey, copies: Members, until: Instant) {
        let now_us = self.cx.shared.copies.us(self.cx.now);
        for copy in copies.iter() {
            let Some(write) = self.copied.get_mut(key) else {
                return;
            };
            let on_copy = || {
                let (query, node) = write.sent.query(copy, until).zip(write.owners.get(copy))?;
                let target = Target::Only {
                    node: *node,
                    is_tried: false,
                };
                Some((query, target))
            };
            let asked = match copy {
                TABLE => Some(write.sent.query_of_table(until)),
                _ => on_copy(),
            };
            let Some((query, target)) = asked else {
                let statements = write.sent.to_prepare(copy).into_iter();
                let statements: Vec<_> = statements.map(|of| of.statement().clone()).collect();
                let pool = write.sent.pool;
                self.prepare_copies(pool, statements.iter());
                if let Some(write) = self.copied.get_mut(key) {
                    let sent = &write.sent;
                    // What was settled meanwhile makes it shorter.
                    match sent.is_refused(copy) && sent.query(copy, until).is_none() {
                        true => write.on_unpreparable(copy, unpreparable(write), now_us),
                        false => write.on_unsent(copy, now_us),
                    }
                }
                continue;
            };
            let (owner, form) = (Owner::Copy(key, copy), Form::Other(Box::new(query)));
            let sent = NodeRequest::new(owner, form, Prediction::Learned, target, self.cx.now);
            let sent = self.requests.nodes.insert(&self.cx.memory, sent);
            write.note_sent(copy, sent);
            self.route(sent);
        }
    }

    fn ask_to_evict(&mut self, key: CopiedWriteKey, copy: usize, pass: &Pass) {
        let due = self
            .copied
            .eviction_due_for(key, copy, &pass.lists, pass.now_us);
        if let Some(eviction) = due {
            self.cx.ask(Output::Evict(eviction));
        }
    }

    /// A node has answered to a write of its copy. `boot`: which start of it.
    pub(crate) fn on_copy_response(
        &mut self,
        key: NodeRequestKey,
        boot: Option<u32>,
        opcode: Opcode,
        content: &[u8],
    ) {
        if opcode == Opcode::Error
            && let Ok(error) = ErrorBody::parse(content)
        {
            return self.on_copy_failed(key, How::Answered, &error);
        }
        let Some((write, copy)) = self.take_copy(key) else {
            return;
        };
        let now_us = self.cx.shared.copies.us(self.cx.now);
        // The table has several replicas, and no start.
        let boot = if copy == TABLE { Some(0) } else { boot };
        if let Some(of) = self.copied.get_mut(write) {
            match boot.filter(|_| opcode == Opcode::Result) {
                Some(boot) => of.on_acked(copy, key, boot, now_us),
                // It may have the write, but who knows for how long.
                None => of.on_failed((copy, key), Failure::Silent, None, now_us),
            }
        }
        self.touch_copied(write);
    }

    /// A write of a copy has come to nothing, or nobody knows what became of it.
    pub(crate) fn on_copy_failed(&mut self, key: NodeRequestKey, how: How, error: &ErrorBody<'_>) {
        let request = self.requests.nodes.get(key);
        let may_have_left = request.is_some_and(NodeRequest::may_have_left);
        // By a node that was asked before this one.
        let may_have_it = request.is_some_and(|request| request.maybe_applied);
        let Some((write, copy)) = self.take_copy(key) else {
            return;
        };
        let now_us = self.cx.shared.copies.us(self.cx.now);
        if let Some(of) = self.copied.get_mut(write) {
            let failure = failure_of(how, may_have_left, error.code);
            let is_unprepared = error.code == code::UNPREPARED;
            if is_unprepared {
                let id = Reader::new(error.fields).short_bytes();
                of.sent.forget_prepared(copy, id.unwrap_or_default());
            }
            // That a node must be taught the statement is nothing for the client.
            let is_told = how != How::TimedOut && !is_unprepared;
            let told = is_told.then(|| match copy {
                TABLE => told_of_table(of, error),
                _ => told(of, error),
            });
            if may_have_it {
                of.note_may_have(copy, key);
            }
            of.on_failed((copy, key), failure, told, now_us);
        }
        self.touch_copied(write);
    }

    /// The write and the copy that a node request was for, which has ended.
    fn take_copy(&mut self, key: NodeRequestKey) -> Option<(CopiedWriteKey, usize)> {
        let request = self.requests.nodes.get(key)?;
        let Owner::Copy(write, copy) = request.owner else {
            return None;
        };
        self.drop_node_request(key);
        Some((write, copy))
    }

    fn touch_copied(&mut self, write: CopiedWriteKey) {
        if self.copied.get(write).is_some() && self.copied.touch(write) {
            self.cx.ask(Output::Judge);
        }
    }
}
