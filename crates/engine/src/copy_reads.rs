//! Reads of tables whose replicas are copies in sync: what is asked ([`crate::execution::copy_read`]), and whether
//! an answer counts.
//!
//! Answers are kept when they come, and judged when the clock has been read after them
//! ([`crate::output::Output::Judge`]).

use std::sync::Arc;

use helenus_layout::insync::{Members, Verdict};
use helenus_layout::plan::LogicalTable;
use helenus_wire::{Opcode, Options, code};

use crate::arrival::Arrival;
use crate::copy_requests::{owners_now, unavailable};
use crate::ends::Reply;
use crate::engine::Engine;
use crate::execution::copy_read::{Arrived, Asked, CopyRead, NOT_LISTED};
use crate::execution::layout_read::{identity, unwrap};
use crate::execution::outcome::Step;
use crate::execution::rewriting::Refusal;
use crate::keys::ClientRequestKey;
use crate::layout_reads::{INVALID_STATE, knows_columns, options_of};
use crate::layout_writes::NOT_READABLE;
use crate::memory::Body;
use crate::output::Output;
use crate::snapshot::Snapshot;
use crate::statement::analysis::Analysis;
use crate::statement::copy_reads::{ReadOfCopy, ReadsOfCopies};
use crate::statement::copy_rules::{because, needed_in_sync};
use crate::statement::layout_plan::Plan;
use crate::statement::prepared::Statement;
use crate::stats::add;

const SERIAL: &str = "a read at SERIAL or LOCAL_SERIAL completes conditional writes, which are not carried out on \
                      them; read at QUORUM or LOCAL_QUORUM, which see all acknowledged writes";
const SEVERAL_PARTITIONS: &str = "only one partition is read at a time, with all columns of its key bound by = to values \
                                  that Helenus can read; read the partitions of an IN one by one, in parallel, and \
                                  keep a table of the keys in place of scans and token()";
const NO_COPY: &str = "none of them gives the rows as this statement needs them: no copy has the table's own order, and \
                       Helenus does not sort what is aggregated, grouped, DISTINCT, JSON, compared by tuples or \
                       limited by a marker, nor filters without ALLOW FILTERING; select columns, with LIMIT as a number";
const CHANGED: &str = "Helenus: the copies of the table, or the nodes that hold them, have changed while it was read; \
                       try again";

impl Engine {
    /// What a read of such a table becomes.
    pub(crate) fn read_of_copies(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        (statement, table): (&Arc<Statement>, &Arc<LogicalTable>),
    ) -> Result<CopyRead, Refusal> {
        let options = options_of(arrival).ok_or(Refusal::invalid(NOT_READABLE))?;
        let level = options.consistency;
        if level.is_serial() {
            return Err(Refusal::invalid(because(table, SERIAL)));
        }
        let needed = needed_in_sync(level, table.copies.len()).ok_or_else(|| {
            let why = format!("a read at {} is none; read at QUORUM", level.name());
            Refusal::invalid(because(table, &why))
        })?;
        let place = analysis.place.as_ref();
        let token = place.and_then(|place| place.token);
        let token = token.ok_or_else(|| Refusal::invalid(because(table, SEVERAL_PARTITIONS)))?;
        let plan = statement.layout_plan(table).plan;
        let reads = match &*plan {
            Plan::ReadInPlace(reads) if !reads.is_empty() => reads,
            _ => return Err(Refusal::invalid(because(table, NO_COPY))),
        };
        let (candidates, continued) = candidates(table, reads, &options)?;
        let owners = self.owners_of_copies(table, token)?;
        let lists = self.cx.shared.copies.lists();
        let now_us = self.cx.shared.copies.us(self.cx.now);
        let view = lists.view((&table.keyspace, &table.name), &owners);
        let list = view.as_ref().and_then(|view| view.list(now_us));
        let is_held = self.cx.shared.layouts.is_held(self.cx.now);
        let list = list.filter(|_| is_held);
        let list = list.ok_or_else(|| Refusal::new(code::OVERLOADED, NOT_LISTED))?;
        let in_sync = list.in_sync().len();
        if in_sync < needed {
            return Err(unavailable(table, level, (needed, in_sync)));
        }
        let prepared = analysis.prepared.as_ref();
        Ok(CopyRead::new(Asked {
            table: table.clone(),
            owners,
            token,
            level,
            candidates,
            continued: continued.map(|(from, state)| (from, state.into())),
            page_size: options.page_size,
            knows_columns: prepared
                .is_some_and(|prepared| knows_columns(arrival, prepared, &options)),
            began: self.cx.now,
            plan: plan.clone(),
        }))
    }

    /// Whether another copy could be asked than the one that is.
    pub(crate) fn has_another_copy(&self, read: &CopyRead) -> bool {
        let lists = self.cx.shared.copies.lists();
        read.has_another(&lists, self.cx.shared.copies.us(self.cx.now))
    }

    /// A copy has answered.
    pub(crate) fn note_read_to_judge(&mut self, client: ClientRequestKey) {
        self.reads_to_judge.push(client);
        if self.reads_to_judge.len() == 1 {
            self.cx.ask(Output::Judge);
        }
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
        let Some(arrived) = request.execution.take_arrived() else {
            return;
        };
        let Some(read) = request.execution.copy_read() else {
            return;
        };
        if !is_held || !is_as_it_was(&self.cx.snapshot, read) {
            let text = if is_held { CHANGED } else { NOT_LISTED };
            return self.fail_client(client, code::OVERLOADED, text, &[]);
        }
        let lists = self.cx.shared.copies.lists();
        let now_us = self.cx.shared.copies.us(self.cx.now);
        if read.judge(&arrived, &lists, now_us) == Verdict::Answer {
            return self.answer_from_copy(client, &arrived);
        }
        let eviction = read.eviction(&arrived, &lists);
        if let Some(eviction) = eviction
            && self.copied.is_eviction_due(&eviction, now_us)
        {
            self.cx.ask(Output::Evict(eviction));
        }
        let step = self.advance(client, |execution, around| {
            execution.ask_another(around, &arrived)
        });
        self.take_step(client, step, None);
    }

    fn answer_from_copy(&mut self, client: ClientRequestKey, arrived: &Arrived) {
        let is_sampled = self.is_sampled();
        let request = self.requests.clients.get(client);
        let Some(read) = request.and_then(|request| request.execution.copy_read()) else {
            return;
        };
        if let Some(statement) = read.statement(arrived)
            && (is_sampled || statement.learned.is_news(arrived.service_us))
        {
            let learned = &statement.learned;
            learned.note_answer(arrived.content.len(), arrived.service_us);
        }
        match read.answer(arrived) {
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

/// Whether the table has the copies that it had, on the same nodes: others may have been written since.
fn is_as_it_was(snapshot: &Snapshot, read: &CopyRead) -> bool {
    let table = read.table();
    let known = snapshot.layouts.replaced(&table.keyspace, &table.name);
    let has_same = known.is_some_and(|known| known.copies == table.copies);
    let owners = owners_now(snapshot, table, read.token());
    has_same && owners.eq(read.owners().iter().map(|owner| Ok(*owner)))
}

/// The copies that may be asked, and the node's own paging state: a page is continued on a copy that has the same
/// order as the one that it came from.
fn candidates<'a>(
    table: &LogicalTable,
    reads: &ReadsOfCopies<Statement>,
    options: &Options<'a>,
) -> Result<(Members, Option<(usize, &'a [u8])>), Refusal> {
    let Some(state) = options.paging_state else {
        return Ok((reads.iter().map(|read| read.at).collect(), None));
    };
    let invalid = || Refusal::new(code::PROTOCOL, INVALID_STATE);
    let (id, state) = unwrap(state).ok_or_else(invalid)?;
    let mut copies = table.copies.iter().enumerate();
    let from = copies.find(|(at, _)| identity(table, *at) == id);
    let (from_at, from) = from.ok_or_else(invalid)?;
    let is_alike = |read: &&ReadOfCopy<Statement>| {
        let copy = table.copies.get(read.at);
        read.order.is_none() && copy.is_some_and(|copy| copy.layout == from.layout)
    };
    let alike: Members = reads.iter().filter(is_alike).map(|read| read.at).collect();
    match alike.is_empty() {
        true => Err(invalid()),
        false => Ok((alike, Some((from_at, state)))),
    }
}
