//! A write to copies in sync: the same statement to each copy, on the copy's own node, with one timestamp and
//! one time.
//!
//! When it may be sent and acknowledged is the business of [`helenus_layout::insync`], in the variant in which
//! proxies do not tell each other of their writes. What is decided here is what a failure means:
//!
//! - **A copy that has failed** is sent the write again after a pause: 100 ms, then twice as long each time, up
//!   to 1.6 s; OVERLOADED too, because the other copies have it. One that joins anew begins without a pause.
//! - **A write that no copy has**, and that none is still asked for, fails with what a copy has said.
//! - **A write whose client has been told that it timed out** goes on until all required copies have it, or
//!   until this proxy is not the member any more that has begun it: then others resynchronise what it has left.
//!
//! Limits: nodes that speak v4 cannot be told the time, and count a TTL from their own. Warnings and tracing
//! ids of nodes do not reach the client. A role needs the same rights on all copies, or those that refuse it
//! are evicted.

use std::sync::Arc;
use std::time::Instant;

use helenus_layout::insync::{COPIES_MAX, Members, State, Step, Write};
use helenus_layout::plan::LogicalTable;
use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::Class;
use helenus_wire::{
    Consistency, Opcode, Options, ValueRef, Version, code, flags, query_flags, write, write_flags,
    write_values,
};
use slotmap::SlotMap;

use crate::copies::{Eviction, Lists, Member, View};
use crate::execution::fan_out_write::known;
use crate::keys::{ClientRequestKey, CopiedWriteKey, NodeRequestKey, PoolKey};
use crate::memory::Held;
use crate::query::Query;
use crate::statement::layout_plan::{CopyWrite, Plan};
use crate::statement::prepared::Statement;
use crate::stats::TableStats;

/// The first pause after a failure, in microseconds; the last is sixteen times as long.
const PAUSE_US: u64 = 100_000;
const PAUSE_DOUBLINGS_MAX: u32 = 4;
/// The same eviction is asked for again after this time, in microseconds.
const EVICTION_AGAIN_US: u64 = 1_000_000;

/// A client request that is a write to copies.
pub(crate) enum Copied {
    Begins(Box<CopiedWrite>),
    Waits(CopiedWriteKey),
}

impl std::fmt::Debug for Copied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Copied::Begins(_) => f.write_str("Begins"),
            Copied::Waits(key) => write!(f, "Waits({key:?})"),
        }
    }
}

/// What is sent to each copy.
pub(crate) struct SentToCopies {
    /// The statement on each copy.
    pub plan: Arc<Plan<Statement>>,
    /// Whether the client has prepared it.
    pub is_prepared: bool,
    /// In front of the body; the same for all.
    pub payload: Box<[u8]>,
    /// Behind the statement; the same for all.
    pub options: Box<[u8]>,
    /// In which it is written.
    pub version: Version,
    pub pool: PoolKey,
    pub table: Option<Arc<TableStats>>,
}

/// Appends what stands behind the statement in a QUERY or EXECUTE to one copy, which is its only replica.
pub(crate) fn write_options(
    values: &[ValueRef<'_>],
    timestamp_us: i64,
    (options, now_in_seconds): (&Options<'_>, i32),
    version: Version,
    out: &mut Vec<u8>,
) {
    use query_flags::{NOW_IN_SECONDS, TIMESTAMP, VALUES};
    let is_v5 = version == Version::V5;
    let set = |on: bool, bit: u32| if on { bit } else { 0 };
    let flags = set(!values.is_empty(), VALUES) | TIMESTAMP | set(is_v5, NOW_IN_SECONDS);
    write::u16(out, Consistency::ONE.0);
    write_flags(out, flags, version);
    if !values.is_empty() {
        write_values(out, values);
    }
    write::i64(out, timestamp_us);
    if is_v5 {
        write::i32(out, options.now_in_seconds.unwrap_or(now_in_seconds));
    }
}

impl SentToCopies {
    fn copies(&self) -> &[CopyWrite<Statement>] {
        match &*self.plan {
            Plan::Write(copies) => copies,
            Plan::Read(_) | Plan::ReadInPlace(_) | Plan::Refused(_) | Plan::Table => &[],
        }
    }

    /// What is sent to a copy until then: an EXECUTE, once the nodes have prepared the statement.
    pub(crate) fn query(&self, copy: usize, send_before: Instant) -> Option<Query> {
        let copy = self.copies().get(copy)?;
        let statement = copy.statement().clone();
        let prepared = known(copy).filter(|_| self.is_prepared);
        let len = self.payload.len() + copy.text.len() + self.options.len() + 32;
        let mut body = Vec::with_capacity(len);
        body.extend_from_slice(&self.payload);
        match &prepared {
            Some(prepared) => {
                write::short_bytes(&mut body, &prepared.id);
                if self.version == Version::V5 {
                    let metadata = prepared.result_metadata_id.as_deref();
                    write::short_bytes(&mut body, metadata.unwrap_or_default());
                }
            }
            None => write::long_string(&mut body, &copy.text),
        }
        body.extend_from_slice(&self.options);
        let opcode = match prepared {
            Some(_) => Opcode::Execute,
            None => Opcode::Query,
        };
        let header_flags = match self.payload.is_empty() {
            true => 0,
            false => flags::CUSTOM_PAYLOAD,
        };
        Some(Query {
            header_flags,
            statement: Some(statement),
            prepared,
            table: self.table.clone(),
            pool: self.pool,
            class: Class::Write,
            // Whether it is sent again, and where, is decided here alone.
            idempotent: false,
            consistency: Consistency::ONE,
            send_before: Some(send_before),
            ..Query::new(opcode, self.version, body)
        })
    }

    /// The nodes do not know the statement on a copy any more: its text is sent.
    pub(crate) fn forget_prepared(&self, copy: usize) {
        if let Some(copy) = self.copies().get(copy) {
            copy.statement().forget_range();
        }
    }
}

/// What a copy has said that does not have the write.
#[derive(Clone, Debug)]
pub(crate) struct RefusedBy {
    pub code: i32,
    pub text: String,
    pub fields: Vec<u8>,
}

/// How far the write has come with one copy.
#[derive(Clone, Copy, Debug, Default)]
struct OfCopy {
    /// The node request under way.
    flying: Option<NodeRequestKey>,
    /// It has the write, or may have it.
    may_have: bool,
    /// Which start of its node has acknowledged it.
    boot: Option<u32>,
    /// How often it has failed in a row, and when it is asked again.
    failures: u32,
    not_before_us: u64,
    /// The version of the list that has brought it into its state.
    since: u64,
}

/// Whoever waits for a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub client: ClientRequestKey,
    pub until: Instant,
}

/// A write to all copies of a partition.
pub(crate) struct CopiedWrite {
    pub table: Arc<LogicalTable>,
    /// The node of each copy.
    pub owners: Box<[NodeIndex]>,
    pub sent: SentToCopies,
    pub level: Consistency,
    /// Copies that must have it by the level.
    pub needed: usize,
    pub token: i64,
    pub waits: Option<Waits>,
    member: Arc<Member>,
    bucket: Option<usize>,
    protocol: Write,
    copies: [OfCopy; COPIES_MAX],
    refused: Option<RefusedBy>,
    _held: Held,
}

/// What is to be done for a write.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub send: Members,
    pub evict: Option<usize>,
    pub end: Option<End>,
}

/// How a write ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All required copies have it.
    Complete,
    /// No copy has it.
    Refused,
    /// No copy was sent it in time.
    Unsent,
    /// Others will resynchronise its bucket, because this proxy has left; or other nodes own its partition.
    Abandoned,
}

/// Whom a write is for, and by which rules.
pub(crate) struct Purpose {
    pub table: Arc<LogicalTable>,
    pub owners: Box<[NodeIndex]>,
    pub level: Consistency,
    pub needed: usize,
    pub token: i64,
    pub member: Arc<Member>,
}

impl CopiedWrite {
    /// `held`: the bytes of what is sent.
    pub(crate) fn new(of: Purpose, sent: SentToCopies, held: Held) -> CopiedWrite {
        CopiedWrite {
            protocol: Write::unannounced(of.member.number, of.needed),
            table: of.table,
            owners: of.owners,
            sent,
            level: of.level,
            needed: of.needed,
            token: of.token,
            waits: None,
            member: of.member,
            bucket: None,
            copies: [OfCopy::default(); COPIES_MAX],
            refused: None,
            _held: held,
        }
    }

    pub(crate) fn member(&self) -> &Arc<Member> {
        &self.member
    }

    /// Its intent is counted in this bucket.
    pub(crate) fn note_begun(&mut self, bucket: usize) {
        self.bucket = Some(bucket);
    }

    pub(crate) fn view<'l>(&self, lists: &'l Lists) -> Option<View<'l>> {
        lists.view((&self.table.keyspace, &self.table.name), &self.owners)
    }

    /// What is next by these lists. `may_send`: the table's copies are as they were, and that may be relied on.
    pub(crate) fn advance(&mut self, lists: &Lists, may_send: bool, now_us: u64) -> Steps {
        let mut steps = Steps::default();
        let view = self.view(lists);
        let view = view.filter(|view| Arc::ptr_eq(view.member, &self.member));
        let Some(view) = view.filter(|view| !view.has_left(now_us)) else {
            steps.end = Some(End::Abandoned);
            return steps;
        };
        if self.has_come_to_nothing() {
            steps.end = Some(End::Refused);
            return steps;
        }
        self.note_newcomers(&view);
        steps.evict = self.restarted(&view);
        // What no copy has acknowledged may be the write's own fault.
        if steps.evict.is_none() && self.copies.iter().any(|of| of.boot.is_some()) {
            steps.evict = self.protocol.late(view.copies, now_us);
        }
        let is_recorded = |bucket| self.member.intents().is_recorded(bucket);
        let recorded = self.bucket.is_some_and(is_recorded);
        match self
            .protocol
            .next(view.copies, view.proxies, recorded, now_us)
        {
            Step::Send(copies) if may_send => {
                let is_due = |copy: &usize| self.copies[*copy].not_before_us <= now_us;
                steps.send = copies.iter().filter(is_due).collect();
                self.protocol.on_sent(steps.send, now_us);
            }
            Step::Acknowledge => steps.end = Some(End::Complete),
            // There is nobody to be told when copies have come back.
            Step::TooFew if self.waits.is_none() => steps.end = Some(End::Complete),
            Step::NoLease
            | Step::Record
            | Step::Send(_)
            | Step::Evict(_)
            | Step::Wait
            | Step::TooFew => {}
            Step::Tell(_) | Step::EvictProxy(_) => {
                debug_assert!(false, "a write that is not announced");
            }
        }
        steps
    }

    /// A copy that has come back is asked at once.
    fn note_newcomers(&mut self, view: &View<'_>) {
        let Some(list) = view.copies.last_read() else {
            return;
        };
        for (copy, of) in self.copies.iter_mut().enumerate() {
            if of.since != list.since(copy) {
                of.since = list.since(copy);
                (of.failures, of.not_before_us) = (0, 0);
            }
        }
    }

    /// A copy whose node has answered after a later start than the list knows.
    fn restarted(&self, view: &View<'_>) -> Option<usize> {
        let list = view.copies.last_read()?;
        let is_later = |copy: &usize| {
            list.state(*copy) != State::Out && self.copies[*copy].boot > Some(list.boot(*copy))
        };
        (0..self.owners.len()).find(is_later)
    }

    /// Whether no copy has it or is still asked.
    fn has_come_to_nothing(&self) -> bool {
        let has_nothing = |of: &OfCopy| of.flying.is_none() && !of.may_have;
        self.refused.is_some() && self.copies.iter().all(has_nothing)
    }

    /// Whether no copy was ever sent it.
    pub(crate) fn is_unsent(&self) -> bool {
        let is_unsent = |of: &OfCopy| of.flying.is_none() && !of.may_have && of.failures == 0;
        self.refused.is_none() && self.copies.iter().all(is_unsent)
    }

    /// A copy is being asked.
    pub(crate) fn note_sent(&mut self, copy: usize, key: NodeRequestKey) {
        self.copies[copy].flying = Some(key);
    }

    /// The copy that this node request was for, if it is still awaited; it is no longer.
    fn land(&mut self, copy: usize, key: NodeRequestKey) -> Option<&mut OfCopy> {
        let of = self.copies.get_mut(copy)?;
        of.flying.take_if(|flying| *flying == key)?;
        Some(of)
    }

    /// A copy has it, by this start of its node.
    pub(crate) fn on_acked(&mut self, copy: usize, key: NodeRequestKey, boot: u32, now_us: u64) {
        let Some(of) = self.land(copy, key) else {
            return;
        };
        of.may_have = true;
        of.boot = of.boot.max(Some(boot));
        of.failures = 0;
        // Unless it comes back after having been out, it need not be asked again soon.
        of.not_before_us = now_us + PAUSE_US;
        self.protocol.on_acked(copy, boot);
    }

    /// A copy has failed. `why`: it does not have the write; `None` if it may.
    pub(crate) fn on_failed(
        &mut self,
        copy: usize,
        key: NodeRequestKey,
        why: Option<RefusedBy>,
        now_us: u64,
    ) {
        let Some(of) = self.land(copy, key) else {
            return;
        };
        of.may_have |= why.is_none();
        let pause_us = PAUSE_US << of.failures.min(PAUSE_DOUBLINGS_MAX);
        of.failures = of.failures.saturating_add(1);
        of.not_before_us = now_us + pause_us;
        self.protocol.on_failed(copy);
        // That a node must be taught the statement is nothing for the client.
        if let Some(why) = why.filter(|why| why.code != code::UNPREPARED) {
            self.refused = Some(why);
        }
    }

    /// How many copies have it.
    pub(crate) fn received(&self, lists: &Lists, now_us: u64) -> usize {
        let view = self.view(lists);
        view.map_or(0, |view| self.protocol.acked(view.copies, now_us).len())
    }

    /// What a copy has said that does not have it.
    pub(crate) fn take_refused(&mut self) -> Option<RefusedBy> {
        self.refused.take()
    }

    /// Node requests under way.
    pub(crate) fn flying(&self) -> impl Iterator<Item = NodeRequestKey> + '_ {
        self.copies.iter().filter_map(|of| of.flying)
    }

    /// It has ended. The bucket of one that is abandoned stays marked: others look there.
    pub(crate) fn end(&self, end: End, now_us: u64) {
        if let Some(bucket) = self.bucket.filter(|_| end != End::Abandoned) {
            self.member.intents().end(bucket, now_us);
        }
    }
}

/// The writes to copies of one worker, until all required copies have them.
#[derive(Default)]
pub(crate) struct CopiedWrites {
    writes: SlotMap<CopiedWriteKey, CopiedWrite>,
    /// Those of which something is to be judged.
    touched: Vec<CopiedWriteKey>,
    /// What was asked for, and when it may be asked for again.
    evictions: Vec<(Eviction, u64)>,
    /// The last timestamp that was given to a write.
    timestamp_us: i64,
}

impl CopiedWrites {
    pub(crate) fn len(&self) -> usize {
        self.writes.len()
    }

    pub(crate) fn insert(&mut self, write: CopiedWrite) -> CopiedWriteKey {
        self.writes.insert(write)
    }

    pub(crate) fn get_mut(&mut self, key: CopiedWriteKey) -> Option<&mut CopiedWrite> {
        self.writes.get_mut(key)
    }

    pub(crate) fn get(&self, key: CopiedWriteKey) -> Option<&CopiedWrite> {
        self.writes.get(key)
    }

    pub(crate) fn remove(&mut self, key: CopiedWriteKey) -> Option<CopiedWrite> {
        self.writes.remove(key)
    }

    pub(crate) fn keys(&self) -> Vec<CopiedWriteKey> {
        self.writes.keys().collect()
    }

    /// Something of a write is to be judged. Returns whether the clock has to be asked for.
    pub(crate) fn touch(&mut self, key: CopiedWriteKey) -> bool {
        self.touched.push(key);
        self.touched.len() == 1
    }

    pub(crate) fn take_touched(&mut self) -> Vec<CopiedWriteKey> {
        std::mem::take(&mut self.touched)
    }

    /// Those for which somebody has waited for too long.
    pub(crate) fn late(&self, now: Instant) -> Vec<CopiedWriteKey> {
        let is_late = |write: &CopiedWrite| write.waits.is_some_and(|waits| waits.until <= now);
        let writes = self.writes.iter().filter(|(_, write)| is_late(write));
        writes.map(|(key, _)| key).collect()
    }

    /// Whether an eviction is to be asked for: each once a second.
    pub(crate) fn is_eviction_due(&mut self, eviction: &Eviction, now_us: u64) -> bool {
        self.evictions.retain(|(_, again_us)| now_us < *again_us);
        let is_new = !self.evictions.iter().any(|(of, _)| of == eviction);
        if is_new {
            let again_us = now_us + EVICTION_AGAIN_US;
            self.evictions.push((eviction.clone(), again_us));
        }
        is_new
    }

    /// A timestamp for a write whose client has none: that time, but later than all before.
    pub(crate) fn timestamp_us(&mut self, since_1970_us: i64) -> i64 {
        self.timestamp_us = since_1970_us.max(self.timestamp_us.saturating_add(1));
        self.timestamp_us
    }
}
