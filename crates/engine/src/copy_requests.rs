//! Requests about tables whose replicas are copies in sync: a write of one partition goes to all of them
//! ([`crate::execution::copied_write`]), a read to one of them ([`crate::execution::copy_read`]), or to one for each
//! part of it ([`crate::execution::copy_parts`]), all else is refused.

pub(crate) mod beginning;
mod several;

use std::cell::OnceCell;
use std::sync::Arc;

use helenus_cql::Kind;
use helenus_layout::Layout;
use helenus_layout::insync::{Copies, Members, State, TABLE};
use helenus_layout::plan::{Copy, LogicalTable};
use helenus_policy::ring::NodeIndex;
use helenus_wire::{Consistency, Opcode, Options, PageStart, code};

use crate::arrival::Arrival;
use crate::copies::View;
use crate::copy_requests::beginning::Ready;
use crate::copy_requests::several::{NO_COPY, Several};
use crate::engine::Engine;
use crate::execution::copied_write::{CopiedWrite, Purpose};
use crate::execution::copy_owners::{Extent, NotOne, first_run, owners_now};
use crate::execution::copy_parts::state::{At, State as StateOfParts};
use crate::execution::copy_read::{self, Asked as AskedOfCopies, CopyRead};
use crate::execution::fan_out_write::{bytes_of, in_order};
use crate::execution::layout_read::{identity, unwrap};
use crate::execution::outcome::INVALID_STATE;
use crate::execution::rewriting::{Refusal, Rewriting};
use crate::execution::sent_to_copies::{OwnAsked, Written};
use crate::execution::table_read::TableRead;
use crate::keys::PoolKey;
use crate::layout_reads::{knows_columns, options_of};
use crate::layout_writes::{Asked, NOT_READABLE, copies_of, unordered};
use crate::layouts::Layouts;
use crate::node::to_copies::Obstacle;
use crate::statement::analysis::Analysis;
use crate::statement::copy_reads::{ReadOfCopy, ReadsOfCopies};
use crate::statement::copy_rules::{self, because, needed, needed_in_sync, refused};
use crate::statement::layout_plan::{CopyWrite, LayoutPlan, Plan};
use crate::statement::prepared::Statement;
use crate::stats::add;

const NOT_LISTED: &str = "Helenus: the lists of copies in sync and of proxies could not be read in time, or other nodes \
                          own a part of the ring and its lists are being made; writes to tables with copies in place of \
                          replicas wait until they are there (helenus layouts status)";
pub(crate) const KEY_UNKNOWN: &str = "a write needs its whole partition key bound by = to values that Helenus can read: \
                                      bind them by markers, one partition at a time";
const SERIAL: &str = "a read at SERIAL or LOCAL_SERIAL completes conditional writes, which are not carried out on \
                      them; read at QUORUM or LOCAL_QUORUM, which see what is acknowledged at the same level";

impl Engine {
    /// What a request about a table with copies becomes; `None` if it is about none.
    pub(crate) fn on_copies(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        (kind, statement): (Kind, Option<&Arc<Statement>>),
        layouts: &Layouts,
    ) -> Result<Option<Box<Rewriting>>, Refusal> {
        // Batches are looked at elsewhere: [`crate::copied_batches`].
        if layouts.replaced.is_empty() || kind == Kind::Batch {
            return Ok(None);
        }
        let table = analysis.table(statement.map(|statement| &**statement));
        let of = statement.map(|statement| &**statement);
        if let Some(why) = refused(kind, of, table, analysis.in_force(), layouts) {
            return Err(Refusal::invalid(why));
        }
        let replaced = table.and_then(|(keyspace, table)| layouts.replaced(keyspace, table));
        let Some((statement, table)) = statement.zip(replaced) else {
            return Ok(None);
        };
        if kind == Kind::Select {
            let read = self.read_of_copies(arrival, analysis, (statement, table))?;
            add(&self.cx.shared.stats.global.layout_reads, 1);
            return Ok(Some(Box::new(read)));
        }
        let planned = statement.layout_plan(table);
        let place = analysis.place.as_ref();
        let token = place.and_then(|place| place.token);
        let write = self.copied_write(arrival, analysis, (statement, planned), token)?;
        add(&self.cx.shared.stats.global.layout_writes, 1);
        Ok(Some(Box::new(Rewriting::Copied(Box::new(write)))))
    }

    /// A write to each copy, which may be the text of a batch. `token`: of its only partition, if it is known.
    pub(crate) fn copied_write(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        (statement, planned): (&Arc<Statement>, LayoutPlan<Statement>),
        token: Option<i64>,
    ) -> Result<CopiedWrite, Refusal> {
        let table = &planned.table;
        let copies = copies_of(&planned)?;
        let asked = Asked::of(arrival, analysis).ok_or(Refusal::invalid(NOT_READABLE))?;
        let values = in_order(&asked.options.values, &statement.facts, asked.names);
        let values = values.map_err(|why| unordered(table, why))?;
        let is_prepared = arrival.opcode == Opcode::Execute;
        // What does not fit with its text waits until it is prepared.
        let statement_len = match asked.statement_len() {
            len if is_prepared => len,
            len => len.max(planned.plan.text_len()),
        };
        self.may_begin(statement_len + bytes_of(&values), copies.len())?;
        // What was read of a text stays as long as the write, which may be long.
        let own_len = if is_prepared { 0 } else { statement.byte_len() };
        if self.cx.memory.is_full(own_len) {
            return Err(Refusal::no_memory());
        }
        let token = token.ok_or_else(|| Refusal::invalid(because(table, KEY_UNKNOWN)))?;
        let purpose = self.purpose((token, arrival.pool), table, asked.options.consistency)?;
        if is_prepared {
            self.prepare_copies(arrival.pool, copies.iter().map(CopyWrite::statement));
        }
        let plan = planned.plan;
        let prepared = analysis.prepared.clone().filter(|_| is_prepared);
        let (held, shares) = match &prepared {
            Some(prepared) => (0, vec![self.copied.share(&plan, prepared, &self.cx.memory)]),
            None => (own_len + plan.byte_len(), Vec::new()),
        };
        let of = Ready {
            first: statement,
            asked: OwnAsked::Statement(statement.clone(), prepared),
            written: Written::statement(plan, is_prepared),
            shares,
            held,
        };
        Ok(self.begun((arrival, analysis), purpose, of, (&asked.options, &values)))
    }

    /// Who must have a write, if enough copies are listed.
    pub(crate) fn purpose(
        &mut self,
        (token, pool): (i64, PoolKey),
        table: &Arc<LogicalTable>,
        level: Consistency,
    ) -> Result<Purpose, Refusal> {
        let needed = needed(level, table.copies.len()).ok_or_else(|| {
            let why = format!("a write at {} is none; write at QUORUM", level.name());
            Refusal::invalid(because(table, &why))
        })?;
        let owners = self.owners_of_copies(table, Extent::Partition(token))?;
        let lists = self.cx.shared.copies.lists();
        let now_us = self.cx.shared.copies.us(self.cx.now);
        let ring = self.cx.snapshot.copy_rings.of(&table.keyspace, &table.name);
        let view = lists.view((&table.keyspace, &table.name), (&owners, ring));
        let listed = view
            .as_ref()
            .and_then(|view| Some((view, view.list(now_us)?)));
        let Some((view, list)) = listed else {
            return Err(Refusal::new(code::OVERLOADED, NOT_LISTED));
        };
        let alive = list.listed().minus(Members::of(TABLE)).len();
        if alive < needed && list.state(TABLE) != State::InSync {
            return Err(unavailable(table, level, (needed, alive)));
        }
        if let Some(copy) = self.restarted_alone(list, &owners) {
            return Err(self.alone_after_restart(table, owners[copy]));
        }
        let is_unreachable = |copy: &usize| {
            let owner = owners.get(*copy);
            owner.is_some_and(|owner| !self.links.may_reach(&self.cx, pool, *owner))
        };
        if let Some(copy) = list.listed().iter().find(is_unreachable) {
            let found = (copy, list.version());
            return Err(self.unreachable((&**table, pool), &owners, view, found));
        }
        Ok(Purpose {
            table: table.clone(),
            owners,
            level,
            needed,
            token,
            member: view.member.clone(),
            ring,
            epoch: self.cx.snapshot.epoch,
        })
    }

    /// The only copy in sync, if its node is on a later start than the list knows: it cannot be evicted, and what it
    /// acknowledges does not count.
    fn restarted_alone(&self, list: &Copies, owners: &[NodeIndex]) -> Option<usize> {
        let mut in_sync = list.in_sync().iter();
        let (copy, None) = (in_sync.next()?, in_sync.next()) else {
            return None;
        };
        let newest = self.links.newest_boot(*owners.get(copy)?);
        (newest > Some(list.boot(copy))).then_some(copy)
    }

    fn alone_after_restart(&self, table: &LogicalTable, node: NodeIndex) -> Refusal {
        let why = format!(
            "{}, which holds the only one in sync of this partition, was restarted since and may have lost the last \
             writes, so none is acknowledged until an operator takes it as it is (layouts.adopt_restarted); nothing was \
             written",
            self.address_of(node)
        );
        Refusal::new(code::OVERLOADED, because(table, &why))
    }

    fn address_of(&self, node: NodeIndex) -> String {
        let node = self.cx.snapshot.nodes.get(node.as_usize());
        node.map_or_else(String::new, |node| node.address.to_string())
    }

    /// Refuses a write one of whose copies is on a node that cannot be reached. If that is so for long, and others
    /// can be, it is to be evicted.
    fn unreachable(
        &mut self,
        (table, pool): (&LogicalTable, PoolKey),
        owners: &[NodeIndex],
        view: &View<'_>,
        (copy, version): (usize, u64),
    ) -> Refusal {
        let node = owners[copy];
        let now_us = self.cx.shared.copies.us(self.cx.now);
        let away = self.links.away_by_itself(node, self.cx.now);
        let obstacle = self.links.obstacle(node);
        self.links.try_again_at(&mut self.cx, pool, node);
        if view.is_lost(copy, away, now_us) {
            self.ask_for_eviction(table, owners, (copy, version));
        }
        let address = self.address_of(node);
        let why = match obstacle {
            Obstacle::Role => format!(
                "this role has no connection to {address}, which holds one of them, although others may have: the \
                 node could not judge its login, takes no more connections, or is not to be used. Nothing was written. \
                 Try again later; the node is not left out for that"
            ),
            Obstacle::Node => format!(
                "there is no connection to {address}, which holds one of them; nothing was written. Try again: it \
                 is left out if it stays away while others can be reached"
            ),
            Obstacle::Means => format!(
                "there is no connection to {address}, which holds one of them, because this proxy's machine has no \
                 file descriptors, ports or memory for one (see its log); nothing was written. The node is not left \
                 out for that"
            ),
        };
        Refusal::new(code::OVERLOADED, because(table, &why))
    }

    /// What a read of such a table becomes.
    fn read_of_copies(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        (statement, table): (&Arc<Statement>, &Arc<LogicalTable>),
    ) -> Result<Rewriting, Refusal> {
        let options = options_of(arrival).ok_or(Refusal::invalid(NOT_READABLE))?;
        let level = options.consistency;
        if level.is_serial() {
            return Err(Refusal::invalid(because(table, SERIAL)));
        }
        let needed = needed_in_sync(level, table.copies.len()).ok_or_else(|| {
            let why = format!("a read at {} is none; read at QUORUM", level.name());
            Refusal::invalid(because(table, &why))
        })?;
        let token = analysis.place.as_ref().and_then(|place| place.token);
        let of_table = match token {
            None => self.read_of_table(table, &options)?,
            Some(_) => None,
        };
        let plan = statement.layout_plan(table).plan;
        let Plan::ReadInPlace(in_place) = &*plan else {
            return match of_table {
                Some(read) => Ok(Rewriting::ReadOfTable(Box::new(read))),
                None => Err(Refusal::invalid(because(table, NO_COPY))),
            };
        };
        let prepared = analysis.prepared.as_ref();
        let knows_columns =
            prepared.is_some_and(|prepared| knows_columns(arrival, prepared, &options));
        let extent = match token {
            Some(token) => Extent::Partition(token),
            None => {
                let several = Several {
                    table,
                    statement,
                    in_place,
                    options: &options,
                    names: Asked::of(arrival, analysis).and_then(|asked| asked.names),
                    knows_columns,
                    level,
                    needed,
                    known_keys: OnceCell::new(),
                };
                if let Some(read) = of_table {
                    let is_first = options.paging_state.is_none();
                    let by_copies = is_first.then(|| several.in_parts(&self.cx).ok()).flatten();
                    let read = read.or_by_copies(by_copies);
                    return Ok(Rewriting::ReadOfTable(Box::new(read)));
                }
                let alone = several.alone(&self.cx, |extent| self.in_sync_of(table, extent));
                match alone.map_err(|why| not_one(table, &why))? {
                    Some(extent) => extent,
                    None => {
                        let parts = several.in_parts(&self.cx)?;
                        return Ok(Rewriting::ReadOfCopies(Box::new(parts)));
                    }
                }
            }
        };
        let reads = &in_place.whole;
        let owners = self.owners_of_copies(table, extent)?;
        let lists = self.cx.shared.copies.lists();
        let now_us = self.cx.shared.copies.us(self.cx.now);
        let ring = self.cx.snapshot.copy_rings.of(&table.keyspace, &table.name);
        let view = lists.view((&table.keyspace, &table.name), (&owners, ring));
        let list = view.as_ref().and_then(|view| view.list(now_us));
        let is_held = self.cx.shared.layouts.is_held(self.cx.now);
        let list = list.filter(|_| is_held);
        let list = list.ok_or_else(|| Refusal::new(code::OVERLOADED, copy_read::NOT_LISTED))?;
        let has_table = list.state(TABLE) == State::InSync;
        if reads.is_empty() && !has_table {
            return Err(Refusal::invalid(because(table, NO_COPY)));
        }
        let (candidates, continued) = candidates(table, reads, &options)?;
        let in_sync = list.in_sync().minus(Members::of(TABLE)).len();
        if in_sync < needed && !has_table {
            return Err(unavailable(table, level, (needed, in_sync)));
        }
        // Where the table itself has come or gone, what cannot go on will never be able to.
        let is_tables = matches!(continued, Some((TABLE, _)));
        let goes_on = !candidates.intersection(list.in_sync()).is_empty();
        let never = continued.is_some() && (has_table || is_tables) && !goes_on;
        if never || is_tables && list.since(TABLE) == 0 {
            return Err(Refusal::new(code::PROTOCOL, INVALID_STATE));
        }
        let read = CopyRead::new(AskedOfCopies {
            table: table.clone(),
            owners,
            extent,
            level,
            reads: reads.clone(),
            part: None,
            candidates,
            continued: continued.map(|(from, state)| (from, state.into())),
            page_size: options.page_size,
            knows_columns,
            began: self.cx.now,
            ring,
            epoch: self.cx.snapshot.epoch,
        });
        Ok(Rewriting::ReadOfCopy(Box::new(read)))
    }

    /// A read of the table itself, whatever it asks, if the table is in sync in all its lists.
    fn read_of_table(
        &self,
        table: &Arc<LogicalTable>,
        options: &Options<'_>,
    ) -> Result<Option<TableRead>, Refusal> {
        let named = (&*table.keyspace, &*table.name);
        let ring = self.cx.snapshot.copy_rings.with_groups(named.0, named.1);
        let now_us = self.cx.shared.copies.us(self.cx.now);
        let lists = self.cx.shared.copies.lists();
        let is_held = self.cx.shared.layouts.is_held(self.cx.now);
        if !is_held || lists.table_in_sync(named, ring, now_us).is_none() {
            return Ok(None);
        }
        let continued = match options.paging_state {
            None => None,
            Some(state) => match state_for_table(table, state) {
                StateForTable::Own => None,
                StateForTable::Of(state) => {
                    let size = options.page_size.unwrap_or(i32::MAX);
                    Some((state, size))
                }
                StateForTable::Copies => return Ok(None),
            },
        };
        Ok(Some(TableRead::new(table.clone(), continued)))
    }

    /// The copies of a part of the ring that are in sync.
    fn in_sync_of(&self, table: &LogicalTable, extent: Extent) -> Members {
        let owners = self.owners_of_copies(table, extent);
        let lists = self.cx.shared.copies.lists();
        let now_us = self.cx.shared.copies.us(self.cx.now);
        let named = (&*table.keyspace, &*table.name);
        let view = owners.ok().and_then(|owners| {
            let ring = self.cx.snapshot.copy_rings.of(named.0, named.1);
            let view = lists.view(named, (&owners, ring))?;
            Some(view.list(now_us)?.in_sync())
        });
        view.unwrap_or(Members::EMPTY)
    }

    /// The node of each copy. The snapshot may be a later one than that of the analysis.
    fn owners_of_copies(
        &self,
        table: &LogicalTable,
        extent: Extent,
    ) -> Result<Box<[NodeIndex]>, Refusal> {
        let snapshot = &self.cx.snapshot;
        let owners = match extent {
            Extent::Partition(token) => owners_now(snapshot, table, token).collect(),
            Extent::Stretch(stretch) => first_run(snapshot, table, stretch).map(|run| run.owners),
        };
        owners.map_err(|why| not_one(table, &why))
    }
}

fn not_one(table: &LogicalTable, why: &NotOne) -> Refusal {
    Refusal::invalid(because(table, &why.text()))
}

/// Fewer copies are listed than the level asks for.
fn unavailable(
    table: &LogicalTable,
    level: Consistency,
    (needed, alive): (usize, usize),
) -> Refusal {
    let text = copy_rules::too_few(table, level, (needed, alive));
    let mut refusal = Refusal::new(code::UNAVAILABLE, text);
    refusal.fields = copy_rules::unavailable(level, needed, alive);
    refusal
}

/// The copy that a page came from, or the table itself, and the node's own paging state.
type PageBefore<'a> = (usize, &'a [u8]);

/// The copies that may be asked, and the table itself, and what is continued: a page is continued on a copy that has the same
/// order as the one that it came from.
fn candidates<'a>(
    table: &LogicalTable,
    reads: &ReadsOfCopies<Statement>,
    options: &Options<'a>,
) -> Result<(Members, Option<PageBefore<'a>>), Refusal> {
    let Some(state) = options.paging_state else {
        let copies: Members = reads.iter().map(|read| read.at).collect();
        return Ok((copies.with(TABLE), None));
    };
    let invalid = || Refusal::new(code::PROTOCOL, INVALID_STATE);
    if StateOfParts::is_one(state) {
        return Err(invalid());
    }
    let own = Layout::own(table.clustering.len());
    let (from_at, layout, state) = match unwrap(state) {
        Some((id, state)) => {
            let mut copies = table.copies.iter().enumerate();
            let from = copies.find(|(at, _)| identity(table, *at) == id);
            let (from_at, from) = from.ok_or_else(invalid)?;
            (from_at, &from.layout, state)
        }
        None => (TABLE, &own, state),
    };
    let is_alike = |read: &&ReadOfCopy<Statement>| {
        let copy = table.copies.get(read.at);
        read.order.is_none() && copy.is_some_and(|copy| copy.layout == *layout)
    };
    let mut alike: Members = reads.iter().filter(is_alike).map(|read| read.at).collect();
    if *layout == own {
        alike = alike.with(TABLE);
    }
    match alike.is_empty() {
        true => Err(invalid()),
        false => Ok((alike, Some((from_at, state)))),
    }
}

/// What the table itself makes of a paging state of a read of several partitions.
enum StateForTable {
    /// It is the table's own.
    Own,
    /// A copy in the table's order has had this one, as the table would have it.
    Of(Box<[u8]>),
    /// Only copies go on there.
    Copies,
}

fn state_for_table(table: &LogicalTable, state: &[u8]) -> StateForTable {
    let (id, at, left) = match (unwrap(state), StateOfParts::is_one(state)) {
        (Some((id, inner)), _) => (id, At::InStretch(inner), None),
        (None, false) => return StateForTable::Own,
        (None, true) => match StateOfParts::parse(state) {
            Some(StateOfParts { identity, left, at }) if left != Some(0) => (identity, at, left),
            _ => return StateForTable::Copies,
        },
    };
    let own = Layout::own(table.clustering.len());
    let mut copies = table.copies.iter().enumerate();
    let is_own = |(at, copy): (usize, &Copy)| identity(table, at) == id && copy.layout == own;
    if !copies.any(is_own) {
        return StateForTable::Copies;
    }
    match as_of_whole(at, left) {
        Some(state) => StateForTable::Of(state),
        None => StateForTable::Copies,
    }
}

/// What a node has said of a part, as it says it of the whole; `None` if it has said nothing. Of a part that is one
/// partition it leaves out the key, by which the table finds its place among several; and a LIMIT it knows of the part
/// alone.
fn as_of_whole(at: At<'_>, left: Option<u32>) -> Option<Box<[u8]>> {
    let (key, inner) = match at {
        At::InStretch(inner) => (None, inner),
        At::InKey(key, inner) => (Some(key), inner),
        At::Behind(_) | At::Key(_) => return None,
    };
    if key.is_none() && left.is_none() {
        return Some(inner.into());
    }
    let start = PageStart::parse(inner).ok()?;
    let start = key.map_or(start, |key| start.with_key(key));
    let start = left.map_or(start, |left| start.with_remaining(left));
    Some(start.write().into())
}

#[cfg(test)]
mod tests;
