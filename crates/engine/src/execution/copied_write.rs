//! A write to copies in sync: the same statement to each copy, on the copy's own node, with one timestamp and
//! one time.
//!
//! When it may be sent and acknowledged is the business of [`helenus_layout::insync`], in the variant in which
//! proxies do not tell each other of their writes. What is decided here is what a failure means:
//!
//! - **A copy that has failed** is sent the write again after a pause: 100 ms, then twice as long each time, up
//!   to 1.6 s; OVERLOADED too, because the other copies have it. One that joins anew begins without a pause, and
//!   what this proxy itself has not sent it tries again every 100 ms.
//! - **A copy is late** by what is its own doing: time runs from when the write has left for it, and not while
//!   this proxy has no connection to its node, or keeps the write in a queue. Between two looks 150 ms count at
//!   most, however late a look comes. It is late when two ticks in a row have found so, between which answers were
//!   read: a first look that comes late finds nothing. A node that refuses the statement, or its role,
//!   has answered: that does not make its copy late.
//! - **A write that no copy has**, and that none is still asked for, fails with what a copy has said.
//! - **A write whose client has been told that it timed out** goes on until all required copies have it, or
//!   until this proxy is not the member any more that has begun it: then others resynchronise what it has left.
//! - **A write that cannot be finished is given up** ([`Why`]), and its bucket is to be resynchronised.
//! - **The table itself** is sent the write while it is listed, through whichever node coordinates it. It is never late.
//!   When the catalogue says that the table has no copies any more, the write is done once the table has it, as one that
//!   begins then is; of one that nobody waits for any more, for ten seconds.
//!
//! Limits: nodes that speak v4 cannot be told the time, and count a TTL from their own. Warnings and tracing
//! ids of nodes do not reach the client. A role needs the same rights on all copies, or its writes are given up.

mod attempts;

use std::sync::Arc;
use std::time::Instant;

use helenus_layout::insync::{COPIES_MAX, LISTED_MAX, Members, State, Step, TABLE, Write};
use helenus_layout::plan::LogicalTable;
use helenus_policy::ring::NodeIndex;
use helenus_wire::Consistency;

use crate::copies::{Lists, Member, View};
use crate::copy_rings::RingId;
use crate::execution::copied_writes::shares::Share;
use crate::execution::outcome::Told;
use crate::execution::sent_to_copies::SentToCopies;
use crate::execution::write_ends::{End, Failure, Why};
use crate::keys::{ClientRequestKey, CopiedWriteKey, NodeRequestKey};
use crate::memory::Held;
use crate::tick::TICK;

/// The first pause after a failure, in microseconds; the last is sixteen times as long.
const PAUSE_US: u64 = 100_000;
const PAUSE_DOUBLINGS_MAX: u32 = 4;
/// What counts at most, in microseconds, of the time between two ticks: in the rest of it the worker has not looked.
const LOOKED_MAX_US: u64 = TICK.as_micros() as u64 * 3 / 2;
/// For how long a write goes on that nobody waits for. A node is restarted in less, and the time is far below
/// `gc_grace_seconds`, after which what is sent again could bring back what was deleted meanwhile.
const LIFE_MAX_US: u64 = 300_000_000;
/// The same of one whose table has no copies any more: far less than it takes until it may have some again.
const LIFE_MAX_ON_TABLE_US: u64 = 10_000_000;

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

/// How far the write has come with one copy.
#[derive(Clone, Copy, Debug, Default)]
struct OfCopy {
    /// The node request under way.
    flying: Option<NodeRequestKey>,
    /// It has the write, or may have it.
    may_have: bool,
    /// Which start of its node has acknowledged it.
    boot: Option<u32>,
    /// The last start of its node that is known.
    newest_boot: Option<u32>,
    /// What became of the last attempt, if it has failed.
    failure: Option<Failure>,
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
    /// The ring by which these are its owners.
    ring: RingId,
    pub sent: SentToCopies,
    pub level: Consistency,
    /// Copies that must have it by the level.
    pub needed: usize,
    pub token: i64,
    pub waits: Option<Waits>,
    /// The snapshot by which table and owners were found to be these.
    pub seen_epoch: u64,
    member: Arc<Member>,
    bucket: Option<usize>,
    is_recorded: bool,
    began_us: u64,
    /// Since when it was found that its table has no copies any more: it is an ordinary write.
    of_table_since_us: Option<u64>,
    protocol: Write,
    copies: [OfCopy; LISTED_MAX],
    /// By any of them, whether that counts by now or not.
    was_acknowledged: bool,
    /// Those that were late at the last tick.
    late: Members,
    /// What was said that says most of why it fails.
    said: Option<(Failure, Told)>,
    held: Held,
    /// Its part of what it holds together with others.
    shared_bytes: usize,
}

/// What is to be done for a write.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub send: Members,
    pub evict: Option<usize>,
    pub end: Option<End>,
}

/// Whom a write is for, and by which rules.
pub(crate) struct Purpose {
    pub table: Arc<LogicalTable>,
    pub owners: Box<[NodeIndex]>,
    pub level: Consistency,
    pub needed: usize,
    pub token: i64,
    pub member: Arc<Member>,
    /// The ring by which these are the owners, and the snapshot that says so.
    pub ring: RingId,
    pub epoch: u64,
}

/// What has passed since writes were last looked at.
pub(crate) struct Passed {
    pub us: u64,
    pub now_us: u64,
    /// The worker was late, for the first time in a row: what has come meanwhile may not have been read.
    pub is_first_stall: bool,
}

impl CopiedWrite {
    /// `held`: the bytes of it and of what is sent.
    pub(crate) fn new(of: Purpose, sent: SentToCopies, held: Held) -> CopiedWrite {
        let shares = sent.shares.iter();
        CopiedWrite {
            shared_bytes: shares.map(Share::bytes_each).sum(),
            protocol: Write::unannounced(of.member.number, of.needed),
            table: of.table,
            owners: of.owners,
            ring: of.ring,
            sent,
            level: of.level,
            needed: of.needed,
            token: of.token,
            waits: None,
            seen_epoch: of.epoch,
            member: of.member,
            bucket: None,
            is_recorded: false,
            began_us: 0,
            of_table_since_us: None,
            copies: [OfCopy::default(); LISTED_MAX],
            was_acknowledged: false,
            late: Members::EMPTY,
            said: None,
            held,
        }
    }

    pub(crate) fn member(&self) -> &Arc<Member> {
        &self.member
    }

    pub(crate) fn began_us(&self) -> u64 {
        self.began_us
    }

    /// What it holds, with the requests to nodes that are under way.
    pub(crate) fn bytes(&self) -> usize {
        let own = self.held.bytes() + self.shared_bytes;
        own + self.flying().count() * self.sent.byte_len()
    }

    /// Its intent is counted in this bucket.
    pub(crate) fn note_begun(&mut self, bucket: usize, now_us: u64) {
        self.bucket = Some(bucket);
        self.began_us = now_us;
    }

    /// Whether its intent was found to be recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    pub(crate) fn view<'l>(&self, lists: &'l Lists) -> Option<View<'l>> {
        let owners = (&*self.owners, self.ring);
        lists.view((&self.table.keyspace, &self.table.name), owners)
    }

    /// Whether its table has copies, by the catalogue. Returns whether it had none before, and has some again.
    pub(crate) fn note_copies(&mut self, has_some: bool, now_us: u64) -> bool {
        match has_some {
            true => self.of_table_since_us.take().is_some(),
            false => {
                if self.of_table_since_us.is_none() {
                    self.of_table_since_us = Some(now_us);
                    // Lists may have gone by unseen, and the table emptied meanwhile.
                    self.copies[TABLE].boot = None;
                }
                false
            }
        }
    }

    pub(crate) fn is_of_table(&self) -> bool {
        self.of_table_since_us.is_some()
    }

    /// What is next while its table has no copies: as of an ordinary write, which has a timestamp and so may be sent again.
    fn advance_on_table(&mut self, since_us: u64, may_send: bool, now_us: u64) -> Steps {
        let age_us = now_us.saturating_sub(since_us);
        let is_old = self.waits.is_none() && age_us >= LIFE_MAX_ON_TABLE_US;
        let of = &self.copies[TABLE];
        let is_due = may_send && of.flying.is_none() && of.not_before_us <= now_us;
        let end = match of.boot {
            Some(_) => Some(End::Complete),
            None if self.has_come_to_nothing() => Some(End::Refused),
            None if is_old => Some(End::GivenUp(Why::Old)),
            None => None,
        };
        let send = match is_due && end.is_none() {
            true => Members::of(TABLE),
            false => Members::EMPTY,
        };
        Steps {
            send,
            evict: None,
            end,
        }
    }

    /// What is next by these lists. `may_send`: what is known of the table may be relied on.
    pub(crate) fn advance(&mut self, lists: &Lists, may_send: bool, now_us: u64) -> Steps {
        if let Some(since_us) = self.of_table_since_us {
            return self.advance_on_table(since_us, may_send, now_us);
        }
        let mut steps = Steps {
            end: self.end_by(lists, now_us),
            ..Steps::default()
        };
        let Some(view) = self.view(lists).filter(|_| steps.end.is_none()) else {
            return steps;
        };
        self.note_newcomers(&view);
        steps.evict = self.restarted(&view);
        let recorded = self.look_whether_recorded();
        let (copies, proxies) = (view.copies, view.proxies);
        match self.protocol.next(copies, proxies, recorded, now_us) {
            Step::Send(copies) if may_send => {
                let is_due = |copy: &usize| self.copies[*copy].not_before_us <= now_us;
                steps.send = copies.iter().filter(is_due).collect();
                self.protocol.on_queued(steps.send);
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

    fn is_too_old(&self, now_us: u64) -> bool {
        self.waits.is_none() && now_us.saturating_sub(self.began_us) >= LIFE_MAX_US
    }

    /// How it ends, if it does before all required copies have it.
    fn end_by(&self, lists: &Lists, now_us: u64) -> Option<End> {
        let membership = lists.membership.as_ref();
        let own = membership.filter(|of| Arc::ptr_eq(&of.member, &self.member));
        if own.is_none_or(|own| own.has_left(now_us)) {
            return Some(End::Left);
        }
        let Some(view) = self.view(lists) else {
            return Some(End::GivenUp(Why::Moved));
        };
        if self.has_come_to_nothing() {
            return Some(End::Refused);
        }
        if self.waits.is_some() {
            return None;
        }
        if let Some(why) = self.fails(&view) {
            return Some(End::GivenUp(why));
        }
        self.is_too_old(now_us).then_some(End::GivenUp(Why::Old))
    }

    /// How it ends now that its client has waited long enough; `None`: it goes on. `may_have_left`: a node
    /// request.
    pub(crate) fn end_in_time(
        &self,
        lists: &Lists,
        may_have_left: impl Fn(NodeRequestKey) -> bool,
    ) -> Option<End> {
        if !self.may_be_written(may_have_left) {
            return Some(match self.said {
                Some(_) => End::Refused,
                None => End::Unsent,
            });
        }
        let view = self.view(lists)?;
        self.fails(&view).map(End::GivenUp)
    }

    /// Once recorded, it stays so as long as the write is pending.
    fn look_whether_recorded(&mut self) -> bool {
        if !self.is_recorded
            && let Some(bucket) = self.bucket
        {
            self.is_recorded = self.member.intents().is_recorded(bucket);
        }
        self.is_recorded
    }

    /// A tick has come: which of the copies that it waits for are late. `flight`: since when a node request is in
    /// flight, if it is, in the time of the lists; `has_link`: whether there is a connection to a node over which
    /// it may be sent.
    pub(crate) fn judge_time(
        &mut self,
        view: &View<'_>,
        passed: &Passed,
        flight: impl Fn(NodeRequestKey) -> Option<u64>,
        has_link: impl Fn(NodeIndex) -> bool,
    ) -> Members {
        let unlooked_us = passed.us.saturating_sub(LOOKED_MAX_US);
        let mut excused = Members::EMPTY;
        for (copy, owner) in self.owners.iter().enumerate().take(COPIES_MAX) {
            let of = &self.copies[copy];
            let is_tried = match of.flying {
                Some(sent) => {
                    let since_us = flight(sent);
                    if let Some(since_us) = since_us {
                        self.protocol.on_sent(Members::of(copy), since_us);
                    }
                    since_us.is_some()
                }
                None => of.failure != Some(Failure::Untried),
            };
            if !is_tried || !has_link(*owner) {
                excused = excused.with(copy);
            }
        }
        let others = Members::first(COPIES_MAX).minus(excused);
        self.protocol.excuse(excused, passed.us, passed.now_us);
        self.protocol.excuse(others, unlooked_us, passed.now_us);
        // What was found before is found again at the next look, unless it is answered in between.
        if passed.is_first_stall {
            return Members::EMPTY;
        }
        // What no copy has acknowledged may be the write's own fault.
        let late = match self.was_acknowledged {
            true => self.protocol.late(view.copies, passed.now_us),
            false => Members::EMPTY,
        };
        let before = std::mem::replace(&mut self.late, late);
        late.intersection(before)
    }

    /// The listed copies that do not have it, as far as is known.
    pub(crate) fn missing(&self, view: &View<'_>, now_us: u64) -> Members {
        let listed = view
            .copies
            .last_read()
            .map_or(Members::EMPTY, |list| list.listed());
        self.protocol
            .missing(view.copies, now_us)
            .intersection(listed)
    }

    /// A copy that has come back is asked at once. What it was asked before, it may have been emptied since.
    fn note_newcomers(&mut self, view: &View<'_>) {
        let Some(list) = view.copies.last_read() else {
            return;
        };
        for (copy, of) in self.copies.iter_mut().enumerate() {
            if of.since != list.since(copy) {
                of.since = list.since(copy);
                (of.failure, of.failures, of.not_before_us) = (None, 0, 0);
                if list.state(copy) == State::Out {
                    continue;
                }
                // A request that waits yet leaves within the lease by which it was made (`send_before`), or never: not
                // later than what was sent then. Nobody empties a copy, nor lets one join that was emptied, so soon.
                of.may_have |= of.flying.take().is_some();
                if copy == TABLE {
                    of.boot = None;
                }
            }
        }
    }

    /// Which start of each node is the last that is known: what an earlier one has acknowledged may be lost.
    pub(crate) fn note_boots(&mut self, boot_of: impl Fn(NodeIndex) -> Option<u32>) {
        for (copy, owner) in self.owners.iter().enumerate().take(COPIES_MAX) {
            let of = &mut self.copies[copy];
            of.newest_boot = of.newest_boot.max(of.boot).max(boot_of(*owner));
            if let Some(newest) = of.newest_boot {
                self.protocol.on_restarted(copy, newest);
            }
        }
    }

    /// A copy whose node is on a later start than the list knows, if it can be evicted.
    fn restarted(&self, view: &View<'_>) -> Option<usize> {
        let list = view.copies.last_read()?;
        let is_later = |copy: &usize| {
            let newest = self.copies[*copy].newest_boot;
            let can_be_evicted = list.evict(*copy).is_ok();
            newest > Some(list.boot(*copy)) && can_be_evicted
        };
        (0..self.owners.len().min(COPIES_MAX)).find(is_later)
    }

    /// Whether no copy has it or is still asked, and one has said why.
    fn has_come_to_nothing(&self) -> bool {
        let has_nothing = |of: &OfCopy| of.flying.is_none() && !of.may_have;
        self.said.is_some() && self.copies.iter().all(has_nothing)
    }

    /// Why asking again is of no use: all listed copies have answered with errors the last time that they were
    /// asked, and none has ever acknowledged it; or one refuses the statement. That nodes have too much to do says
    /// nothing of the write.
    fn fails(&self, view: &View<'_>) -> Option<Why> {
        let listed = view.copies.last_read()?.listed();
        let failure = |copy: usize| self.copies[copy].failure;
        let has_failed = |copy| matches!(failure(copy), Some(Failure::Refused | Failure::Unclear));
        let refuses = |copy| failure(copy) == Some(Failure::Refused);
        // Another attempt may have written it.
        let is_unclear = |copy: usize| refuses(copy) && self.copies[copy].may_have;
        let all_fail = listed.iter().all(has_failed) && !listed.iter().any(is_unclear);
        if all_fail && !self.was_acknowledged {
            return Some(Why::Failing);
        }
        listed.iter().any(refuses).then_some(Why::Refused)
    }

    /// Whether any copy may have it. `may_have_left`: a node request, which a node may have.
    pub(crate) fn may_be_written(&self, may_have_left: impl Fn(NodeRequestKey) -> bool) -> bool {
        self.copies.iter().any(|of| of.may_have) || self.flying().any(may_have_left)
    }

    /// How many copies have it.
    pub(crate) fn received(&self, lists: &Lists, now_us: u64) -> usize {
        let view = self.view(lists);
        view.map_or(0, |view| self.protocol.acked(view.copies, now_us).len())
    }

    /// What was said of why it fails.
    pub(crate) fn take_said(&mut self) -> Option<Told> {
        let (_, told) = self.said.take()?;
        self.held.set(self.held.bytes() - told.byte_len());
        Some(told)
    }

    /// Node requests under way.
    pub(crate) fn flying(&self) -> impl Iterator<Item = NodeRequestKey> + '_ {
        self.copies.iter().filter_map(|of| of.flying)
    }

    /// It has ended. Returns the bucket that is to be resynchronised. The bucket of one whose proxy has left stays
    /// marked, too: others look there.
    pub(crate) fn end(&self, end: End, now_us: u64) -> Option<usize> {
        let bucket = self.bucket?;
        match end {
            End::Left => None,
            End::GivenUp(_) => {
                self.member.intents().give_up(bucket);
                Some(bucket)
            }
            End::Complete | End::Refused | End::Unsent => {
                self.member.intents().end(bucket, now_us);
                None
            }
        }
    }
}
