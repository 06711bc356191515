//! What to do next about the lists of copies and proxies, given what was read of them and when: decisions
//! without sockets and without a clock.
//!
//! What may be relied on, and why a version that was not known before is believed from a read at SERIAL only,
//! stands with the tables (`layouts_cmd/lists.rs` of the crate `helenus`):
//!
//! - A read at **QUORUM** tells versions and signs of life. A version that is known is still the last one:
//!   that renews its lease. A greater one is to be read at SERIAL.
//! - A read at **SERIAL** tells the list. So does the one after each attempt to change it, whatever came of it.
//! - A **sign of life** is a number that each proxy changes with each renewal. A listed proxy whose number has not
//!   changed for [`SILENT_US`] by the clock of one in sync is evicted.

mod believed;
mod evicting;
mod in_force;
mod published;
mod waits;

use std::collections::{BTreeMap, BTreeSet};

use helenus_layout::insync::{
    self, BadList, Copies, Join, JoinStep, Known, PROXIES_MAX, Proxies, Ranges, Refused, State,
    StoredProxy, Timing,
};

use self::believed::{Told, checked, not_before, renew};
use self::evicting::Evictions;
use self::waits::{Attempt, Waits};
use super::asked::{
    Action, Beats, Change, CopiesChange, CopyName, GroupRow, ListName, Owners, ProxyRow, Start,
    TableName,
};

/// How often both lists are read.
pub(super) const RENEWAL_US: u64 = 250_000;
/// A proxy without a sign of life for so long is evicted.
const SILENT_US: u64 = 2_000_000;
/// All proxies of a cluster must agree on these. Clocks of machines drift by some tens of millionths. What
/// has been sent is applied within the time for which nodes keep requests (`native_transport_timeout`, 12 s).
pub(super) const TIMING: Timing = Timing {
    lease_us: 1_000_000,
    drift_ppm: 1_000,
    late_us: 15_000_000,
    // A busy node may be late by more than half of that. With what follows until a write goes on without the copy, it stays
    // below the 2 s for which nodes let a write wait by default.
    patience_us: 600_000,
};

#[derive(Clone, Copy, Debug)]
struct Beat {
    beat: Option<i64>,
    heard_us: u64,
}

type Tables = BTreeMap<TableName, BTreeMap<Owners, Group>>;

/// A group of ranges of a table.
#[derive(Clone, Debug)]
struct Group {
    /// What was read last could not be so.
    is_bad: bool,
    /// Those that the list is about.
    ranges: Option<Ranges>,
    /// Until then others may rely on what the lists of these ranges were before.
    settled_us: u64,
    known: Known<{ insync::LISTED_MAX }>,
    joins: Vec<Join>,
}

/// One start of this proxy, as a member of the list of proxies.
#[derive(Clone, Debug)]
pub(super) struct Member {
    start: Start,
    /// The version of the list of proxies that an earlier start of this one has known: there is no older one any more.
    floor: u64,
    proxies: Known<PROXIES_MAX>,
    rows: Vec<ProxyRow>,
    tables: Tables,
    /// Those of them that nobody uses by their lists yet.
    announced: BTreeSet<TableName>,
    /// To be read at SERIAL.
    unread: BTreeSet<ListName>,
    /// The list of copies that was asked for last: the next one has its turn.
    last_copies: Option<ListName>,
    waits: Waits,
    /// Copies to be evicted.
    evictions: Evictions,
    beats: BTreeMap<Start, Beat>,
    join: Option<Join>,
    /// Buckets in which starts have left intents, by a read at `.0`.
    intents: Option<(u64, Vec<(Start, i32)>)>,
    was_listed: bool,
    is_leaving: bool,
    /// Why a list is not believed.
    problems: BTreeMap<ListName, String>,
}

impl Member {
    pub(super) fn new(start: Start, floor: u64) -> Member {
        Member {
            start,
            floor,
            proxies: Known::new(TIMING),
            rows: Vec::new(),
            tables: BTreeMap::new(),
            announced: BTreeSet::new(),
            unread: [ListName::Proxies].into(),
            last_copies: None,
            waits: Waits::new(start[15]),
            evictions: Evictions::default(),
            beats: BTreeMap::new(),
            join: None,
            intents: None,
            was_listed: false,
            is_leaving: false,
            problems: BTreeMap::new(),
        }
    }

    /// The last version of the list of proxies that was ever known; 0: none.
    pub(super) fn floor(&self) -> u64 {
        let known = self.proxies.last_read().map_or(0, |list| list.version());
        self.floor.max(known)
    }

    pub(super) fn start(&self) -> Start {
        self.start
    }

    /// Whether it is a row of the list, which signs of life keep there.
    pub(super) fn is_listed(&self) -> bool {
        self.was_listed
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = &TableName> {
        self.tables.keys()
    }

    /// These are the tables in mode `replace`, and those that are to be soon.
    pub(super) fn set_tables(
        &mut self,
        replaced: &BTreeSet<TableName>,
        announced: &BTreeSet<TableName>,
    ) {
        self.announced = announced.difference(replaced).cloned().collect();
        let tables: BTreeSet<&TableName> = replaced.union(announced).collect();
        self.tables.retain(|name, _| tables.contains(name));
        let is_wanted = |list: &ListName| match list {
            ListName::Proxies => true,
            ListName::Copies(name) => tables.contains(name),
        };
        self.unread.retain(is_wanted);
        self.problems.retain(|list, _| is_wanted(list));
        self.waits.keep(is_wanted);
        for name in tables {
            if !self.tables.contains_key(name) {
                self.tables.insert(name.clone(), BTreeMap::new());
                self.unread.insert(ListName::Copies(name.clone()));
            }
        }
    }

    /// From now on it does no more than leave the list.
    pub(super) fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// Versions and signs of life, as a read at QUORUM that was sent at `sent_us` tells them.
    pub(super) fn on_beats(&mut self, told: &Beats, sent_us: u64, now_us: u64) {
        for (start, beat) in &told.beats {
            let known = self.beats.entry(*start).or_insert(Beat {
                beat: None,
                heard_us: now_us,
            });
            if known.beat != Some(*beat) {
                *known = Beat {
                    beat: Some(*beat),
                    heard_us: now_us,
                };
            }
        }
        let is_believed = !self.problems.contains_key(&ListName::Proxies);
        if is_believed && renew(&mut self.proxies, told.version, sent_us, now_us) == Told::News {
            self.unread.insert(ListName::Proxies);
        }
    }

    /// The same of a table's copies.
    pub(super) fn on_versions(
        &mut self,
        table: &TableName,
        told: &[(Owners, i64)],
        sent_us: u64,
        now_us: u64,
    ) {
        let Some(groups) = self.tables.get_mut(table) else {
            return;
        };
        let mut is_news = groups.len() != told.len();
        for (owners, version) in told {
            let known = groups.get_mut(owners).filter(|group| !group.is_bad);
            let told = known.map_or(Told::News, |group| {
                renew(&mut group.known, *version, sent_us, now_us)
            });
            is_news |= told == Told::News;
        }
        if is_news {
            self.unread.insert(ListName::Copies(table.clone()));
        }
    }

    /// The list of proxies, as a read at SERIAL that was sent at `sent_us` tells it.
    pub(super) fn on_proxies(
        &mut self,
        version: i64,
        rows: Vec<ProxyRow>,
        sent_us: u64,
        now_us: u64,
    ) {
        let stored: Vec<StoredProxy<'_>> = rows.iter().map(ProxyRow::stored).collect();
        let list = insync::proxies(version, &stored);
        let known = self.proxies.last_read();
        let list = list.and_then(|list| checked(known, list));
        // One that is empty again is not begun anew: others may rely on what it was.
        let problem = match list.and_then(|list| not_before(self.floor, list)) {
            Ok(list) => {
                self.proxies.adopt(list, sent_us, now_us);
                self.unread.remove(&ListName::Proxies);
                for row in &rows {
                    let beat = Beat {
                        beat: None,
                        heard_us: now_us,
                    };
                    self.beats.entry(row.start).or_insert(beat);
                }
                let is_there = |start: &Start| rows.iter().any(|row| row.start == *start);
                self.beats.retain(|start, _| is_there(start));
                self.rows = rows;
                None
            }
            Err(why) => Some(why),
        };
        self.note_problem(ListName::Proxies, problem, now_us);
    }

    /// The same of a table's copies.
    pub(super) fn on_copies(
        &mut self,
        table: &TableName,
        rows: &[GroupRow],
        sent_us: u64,
        now_us: u64,
    ) {
        let Some(groups) = self.tables.get_mut(table) else {
            return;
        };
        groups.retain(|owners, _| rows.iter().any(|row| row.owners == *owners));
        let mut problem = None;
        for GroupRow {
            owners,
            ranges,
            list: stored,
        } in rows
        {
            let known = groups.get(owners).and_then(|group| group.known.last_read());
            let list = stored.copies(owners.len());
            match list.and_then(|list| checked(known, list)) {
                Ok(list) => {
                    let group = groups.entry(owners.clone()).or_insert_with(|| Group {
                        is_bad: false,
                        ranges: None,
                        settled_us: 0,
                        known: Known::new(TIMING),
                        joins: Vec::new(),
                    });
                    group.is_bad = false;
                    group.follow_ranges(ranges, &list, owners.len(), now_us);
                    group.known.adopt(list, sent_us, now_us);
                    group.follow_joins(now_us);
                }
                Err(why) => {
                    problem = Some(why);
                    if let Some(group) = groups.get_mut(owners) {
                        group.is_bad = true;
                    }
                }
            }
        }
        let name = ListName::Copies(table.clone());
        if problem.is_none() {
            self.unread.remove(&name);
        }
        self.note_problem(name, problem, now_us);
    }

    /// What proxies have left, as a read that was sent at `sent_us` tells it.
    pub(super) fn on_intents(&mut self, left: Vec<(Start, i32)>, sent_us: u64) {
        self.waits.on_success(&Attempt::Intents);
        self.intents = Some((sent_us, left));
        // Sent after it had become time to compare: only then this is asked for while joining.
        if let Some(join) = &mut self.join {
            join.on_compared(0);
        }
    }

    /// An attempt to change a list is made, with whatever outcome: it is to be read.
    pub(super) fn on_attempted(&mut self, list: ListName) {
        self.unread.insert(list);
    }

    /// What was asked for was carried out.
    pub(super) fn on_changed(&mut self, action: &Action) {
        if let Some(attempt) = Attempt::of(action) {
            self.waits.on_success(&attempt);
        }
    }

    /// Whether it has left the list, or never was in it, or is the last one, which stays.
    pub(super) fn has_left(&self) -> bool {
        let is_last = || self.own_change(Proxies::evict).is_none();
        self.is_leaving && !self.unread.contains(&ListName::Proxies) && is_last()
    }

    /// A copy is to be evicted, as a list of this version says.
    pub(super) fn on_eviction(&mut self, name: CopyName, version: u64) {
        // Of lists that nobody knows nothing is kept: there are no more than copies.
        if list_of(&self.tables, &name).is_some() {
            self.evictions.add(name, version);
        }
    }

    /// Copies that are to be evicted. Only who is in sync evicts.
    fn evicting(&mut self, now_us: u64) -> Option<CopiesChange> {
        let list = self.proxies.list(now_us);
        let state = |number| list.map_or(State::Out, |list| list.state(number));
        if self.is_leaving || self.number().map(state) != Some(State::InSync) {
            self.evictions.clear();
            return None;
        }
        let (unread, waits) = (&self.unread, &self.waits);
        let is_due = |table: &TableName| {
            let is_read = !unread.contains(&ListName::Copies(table.clone()));
            is_read && waits.is_over(&Attempt::ChangeCopies(table.clone()), now_us)
        };
        self.evictions
            .next(|name| list_of(&self.tables, name), is_due)
    }

    /// What is to be asked next, if anything. The list of proxies comes first, and what is to be done about it; then
    /// copies that are to be evicted; lists of copies take turns. What has failed holds up nothing else.
    pub(super) fn next(&mut self, now_us: u64) -> Option<Action> {
        let of_proxies = match self.unread.contains(&ListName::Proxies) {
            true => Some(Action::Read(ListName::Proxies)),
            false => self.membership(now_us),
        };
        if let Some(action) = of_proxies.filter(|action| self.waits.are_over(action, now_us)) {
            return Some(action);
        }
        if let Some(change) = self.evicting(now_us) {
            return Some(Action::ChangeCopies(change));
        }
        let is_due = |list: &&ListName| {
            let attempt = Attempt::Read((*list).clone());
            **list != ListName::Proxies && self.waits.is_over(&attempt, now_us)
        };
        let is_later = |list: &&ListName| Some(*list) > self.last_copies.as_ref();
        let mut due = self.unread.iter().filter(is_due);
        let first = due.clone().next();
        let list = due.find(is_later).or(first)?.clone();
        self.last_copies = Some(list.clone());
        Some(Action::Read(list))
    }

    /// What is to be done by the list of proxies, as it was read.
    fn membership(&mut self, now_us: u64) -> Option<Action> {
        if self.is_leaving {
            return self.own_change(Proxies::evict).map(Action::Change);
        }
        let list = *self.proxies.last_read()?;
        let Some(number) = self.number() else {
            return match self.was_listed {
                true => Some(Action::StartAnew),
                false => self.enter(&list, now_us),
            };
        };
        match list.state(number) {
            State::Out => Some(Action::StartAnew),
            State::Joining => self.carry_on(&list, number, now_us),
            State::InSync => {
                self.was_listed = true;
                self.join = None;
                self.silent(now_us)
            }
        }
    }

    /// What was asked has failed.
    pub(super) fn on_failed(&mut self, action: &Action, now_us: u64) {
        if let Some(attempt) = Attempt::of(action) {
            self.waits.put_off(attempt, now_us);
        }
    }

    /// The number that this start has.
    fn number(&self) -> Option<usize> {
        let mut rows = self.rows.iter();
        let own = rows.find(|row| row.start == self.start)?;
        usize::try_from(own.number).ok()
    }

    /// A number that nobody has had yet; or else that of a start that is gone and has left nothing.
    fn enter(&self, list: &Proxies, now_us: u64) -> Option<Action> {
        let of = |number: usize| {
            let number = i32::try_from(number).ok();
            self.rows.iter().find(|row| Some(row.number) == number)
        };
        let unused = (0..PROXIES_MAX).find(|number| of(*number).is_none());
        let (number, replaces) = match unused {
            Some(number) => (number, None),
            None => {
                let mut gone = (0..PROXIES_MAX)
                    .filter(|number| self.proxies.is_gone(*number, now_us))
                    .peekable();
                gone.peek()?;
                // What a start that is gone has left is known from after it was gone.
                let is_recent = |(sent_us, _): &&(u64, _)| now_us < sent_us + TIMING.lease_us;
                let Some((_, left)) = self.intents.as_ref().filter(is_recent) else {
                    return Some(Action::ReadIntents);
                };
                gone.find_map(|number| {
                    let start = of(number)?.start;
                    let is_clear = left.iter().all(|(of, _)| *of != start);
                    is_clear.then_some((number, Some(start)))
                })?
            }
        };
        let joined = list.join(number, 0).ok()?;
        Some(Action::Change(Change {
            replaces,
            ..change(list, &joined, number, self.start)
        }))
    }

    /// Joining by the list that was last read.
    fn carry_on(&mut self, list: &Proxies, number: usize, now_us: u64) -> Option<Action> {
        self.was_listed = true;
        let begun = self
            .join
            .or_else(|| Join::begin(&self.proxies, number, now_us));
        self.join = begun;
        let join = begun?;
        match join.next(&self.proxies, now_us) {
            JoinStep::Wait => None,
            JoinStep::Compare => Some(Action::ReadIntents),
            JoinStep::Promote => {
                let promoted = list.promote(number, join.since()).ok()?;
                Some(Action::Change(change(list, &promoted, number, self.start)))
            }
            JoinStep::Over => {
                self.join = None;
                None
            }
        }
    }

    /// Evicts another proxy that gives no sign of life.
    fn silent(&self, now_us: u64) -> Option<Action> {
        let list = self.proxies.list(now_us)?;
        self.rows.iter().find_map(|row| {
            let number = usize::try_from(row.number).ok()?;
            let heard_us = self.beats.get(&row.start)?.heard_us;
            let is_silent = row.start != self.start && now_us >= heard_us + SILENT_US;
            let evicted = list.evict(number).ok().filter(|_| is_silent)?;
            Some(Action::Change(change(list, &evicted, number, row.start)))
        })
    }

    /// A change of one's own state, if it may be made.
    fn own_change(
        &self,
        make: impl Fn(&Proxies, usize) -> Result<Proxies, Refused>,
    ) -> Option<Change> {
        let (list, number) = (self.proxies.last_read()?, self.number()?);
        let changed = make(list, number).ok()?;
        Some(change(list, &changed, number, self.start))
    }

    fn note_problem(&mut self, list: ListName, problem: Option<BadList>, now_us: u64) {
        let read = Attempt::Read(list.clone());
        match problem {
            Some(why) => {
                self.waits.put_off(read, now_us);
                let why = why.to_string();
                if self.problems.insert(list.clone(), why.clone()) != Some(why.clone()) {
                    tracing::error!(
                        "{} is not believed: {why}; see `helenus layouts status`",
                        list.described()
                    );
                }
            }
            None => {
                self.waits.on_success(&read);
                self.problems.remove(&list);
            }
        }
    }
}

impl Group {
    /// Before the list is adopted. Whoever makes lists of other ranges brings all of their copies into their states
    /// with that version ([`insync::regroup`]): as long as one is as it was, the list has been about these ranges all
    /// the time.
    fn follow_ranges(
        &mut self,
        ranges: &Option<Ranges>,
        list: &Copies,
        copies: usize,
        now_us: u64,
    ) {
        let is_one_as_it_was = |known: &Copies| {
            // The table itself may never have been listed.
            let table = Some(insync::TABLE).filter(|table| list.since(*table) > 0);
            let mut all = (0..copies).chain(table);
            all.any(|member| known.since(member) == list.since(member))
        };
        let is_as_it_was = self.known.last_read().is_some_and(is_one_as_it_was);
        if self.ranges != *ranges || !is_as_it_was {
            self.settled_us = now_us.saturating_add(TIMING.outlast_us());
            self.ranges.clone_from(ranges);
        }
    }

    /// Copies that are joining, each from when this proxy first knew.
    fn follow_joins(&mut self, now_us: u64) {
        let known = &self.known;
        self.joins
            .retain(|join| join.next(known, now_us) != JoinStep::Over);
        let joining = known.last_read().map(|list| list.joining());
        for copy in joining.into_iter().flat_map(insync::Members::iter) {
            if self.joins.iter().all(|join| join.member() != copy) {
                self.joins.extend(Join::begin(known, copy, now_us));
            }
        }
    }
}

/// The list of a copy's group, if it is believed.
fn list_of<'t>(tables: &'t Tables, name: &CopyName) -> Option<&'t Copies> {
    let group = tables.get(&name.table)?.get(&name.owners)?;
    group.known.last_read().filter(|_| !group.is_bad)
}

impl ListName {
    fn described(&self) -> String {
        match self {
            ListName::Proxies => "the list of proxies".to_owned(),
            ListName::Copies((keyspace, table)) => {
                format!("a list of copies of {keyspace}.{table}")
            }
        }
    }
}

impl ProxyRow {
    fn stored(&self) -> StoredProxy<'_> {
        StoredProxy {
            number: self.number,
            state: &self.state,
            since: self.since,
        }
    }
}

fn change(known: &Proxies, list: &Proxies, number: usize, start: Start) -> Change {
    Change {
        known: known.version(),
        version: list.version(),
        start,
        number,
        state: list.state(number),
        replaces: None,
    }
}

#[cfg(test)]
mod tests;
