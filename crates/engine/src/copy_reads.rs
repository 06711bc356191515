//! Reads of copies in sync on their way: whether what a copy has answered counts
//! ([`crate::execution::copy_read`]).
//!
//! Answers are kept when they come, and judged when the clock has been read after them
//! ([`crate::output::Output::Judge`]).

use helenus_layout::insync::{TABLE, Verdict};
use helenus_policy::ring::NodeIndex;
use helenus_wire::{Opcode, code};

use crate::ends::Reply;
use crate::engine::Engine;
use crate::execution::Execution;
use crate::execution::copy_owners::has_copies_on;
use crate::execution::copy_parts::PartAnswer;
use crate::execution::copy_read::{Arrived, CopyRead, NOT_LISTED};
use crate::execution::outcome::Step;
use crate::execution::table_read::Arrived as OfTable;
use crate::keys::ClientRequestKey;
use crate::memory::Body;
use crate::stats::add;

const CHANGED: &str = "Helenus: the copies of the table, or the nodes that hold them, have changed while it was read; \
                       try again";

impl Engine {
    /// Whether another copy could be asked than the one that is, on a node of this kind.
    pub(crate) fn has_another_copy(
        &self,
        read: &CopyRead,
        is_fit: impl Fn(NodeIndex) -> bool,
    ) -> bool {
        let lists = self.cx.shared.copies.lists();
        read.has_another(&lists, self.cx.shared.copies.us(self.cx.now), is_fit)
    }

    /// What copies have answered is judged.
    pub(crate) fn judge_reads(&mut self) {
        for client in std::mem::take(&mut self.reads_to_judge) {
            self.judge_read(client);
        }
    }

    fn judge_read(&mut self, client: ClientRequestKey) {
        // Whoever has renewed the lease has stored the snapshot before.
        let is_held = self.cx.shared.layouts.is_held(self.cx.now);
        if self.cx.shared.is_newer_than(&self.cx.snapshot) {
            self.adopt_snapshot();
        }
        let Some(request) = self.requests.clients.get_mut(client) else {
            return;
        };
        if let Some(read) = request.execution.table_read_mut() {
            let arrived = read.take_arrived();
            return self.judge_table(client, arrived, is_held);
        }
        let Some(arrived) = request.execution.take_arrived() else {
            return;
        };
        let Some(read) = request.execution.copy_read() else {
            return;
        };
        let (snapshot, table) = (&self.cx.snapshot, read.table());
        let replaced = snapshot.layouts.replaced(&table.keyspace, &table.name);
        if is_held && arrived.copy() == TABLE && replaced.is_none() {
            return self.answer_from_copy(client, &arrived);
        }
        let is_as_it_was = read.epoch() == snapshot.epoch
            || has_copies_on(snapshot, (&**read.table(), read.extent()), read.owners());
        if !is_held || !is_as_it_was {
            let text = if is_held { CHANGED } else { NOT_LISTED };
            return self.fail_client(client, code::OVERLOADED, text, &[]);
        }
        let lists = self.cx.shared.copies.lists();
        let now_us = self.cx.shared.copies.us(self.cx.now);
        if read.judge(&arrived, &lists, now_us) == Verdict::Answer {
            return self.answer_from_copy(client, &arrived);
        }
        if let Some(restarted) = read.restarted(&arrived, &lists) {
            let (table, owners) = (read.table().clone(), Box::from(read.owners()));
            self.ask_for_eviction(&table, &owners, restarted);
        }
        let step = self.advance(client, |execution, around| {
            execution.ask_another(around, &arrived)
        });
        self.take_step(client, step, None);
    }

    /// What the table itself has answered to a read of several partitions is judged.
    fn judge_table(&mut self, client: ClientRequestKey, arrived: Option<OfTable>, is_held: bool) {
        let request = self.requests.clients.get_mut(client);
        let read = request.and_then(|request| request.execution.table_read_mut());
        let Some((arrived, read)) = arrived.zip(read) else {
            return;
        };
        if !is_held {
            return self.fail_client(client, code::OVERLOADED, NOT_LISTED, &[]);
        }
        let named = (&*read.table.keyspace, &*read.table.name);
        let now_us = self.cx.shared.copies.us(self.cx.now);
        let lists = self.cx.shared.copies.lists();
        // Without copies it is a table like others.
        let is_replaced = self
            .cx
            .snapshot
            .layouts
            .replaced(named.0, named.1)
            .is_some();
        if is_replaced && !lists.has_stayed(named, arrived.ring, (arrived.in_sync, now_us)) {
            let step = self.advance(client, |execution, around| execution.begin(around));
            return self.take_step(client, step, None);
        }
        let reply = Reply {
            opcode: Opcode::Result,
            header_flags: arrived.header_flags,
            body: Body::Joined(arrived.body.into()),
            version: arrived.version,
        };
        self.take_step(client, Step::AsItCame, Some(reply));
    }

    fn answer_from_copy(&mut self, client: ClientRequestKey, arrived: &Arrived) {
        let is_sampled = self.is_sampled();
        let request = self.requests.clients.get(client);
        let Some(read) = request.and_then(|request| request.execution.copy_read()) else {
            return;
        };
        let now_us = self.cx.shared.copies.us(self.cx.now);
        if let Some(on) = read.asked_of(arrived)
            && let learned = &on.statement().learned
            && (is_sampled || on.is_due(now_us) || learned.is_news(arrived.service_us))
        {
            learned.note_answer(arrived.content.len(), arrived.service_us);
            on.note_measured(now_us);
        }
        let is_part = request.is_some_and(|of| matches!(of.execution, Execution::FromCopies(_)));
        match read.answer(arrived) {
            Ok(Some(body)) if is_part => {
                let answer = PartAnswer {
                    copy: arrived.copy(),
                    header_flags: arrived.header_flags,
                    body: &body,
                };
                let step = self.advance(client, |execution, around| {
                    execution.take_part(around, &answer)
                });
                self.take_step(client, step, None);
            }
            Ok(Some(body)) => {
                let reply = Reply {
                    opcode: Opcode::Result,
                    header_flags: arrived.header_flags,
                    body: Body::Joined(body.into()),
                    version: arrived.version,
                };
                self.take_step(client, Step::AsItCame, Some(reply));
            }
            Ok(None) => {
                add(&self.cx.shared.stats.global.layout_reads_fallen_back, 1);
                let step = self.advance(client, |execution, around| execution.ask_in_order(around));
                self.take_step(client, step, None);
            }
            Err(why) => self.take_step(client, Step::Broken(why.to_string()), None),
        }
    }
}
