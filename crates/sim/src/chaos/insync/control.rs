//! What one proxy knows of the lists, and what it does about them.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_engine::copies::{Eviction, Groups, Lists, Member, Membership, OfTable};
use helenus_engine::copy_rings::RingId;
use helenus_layout::insync::{
    BitChange, Comeback, Copies, GivenUp, Join, JoinStep, Known, LISTED_MAX, PROXIES_MAX, Proxies,
    State, TABLE as THE_TABLE, is_caretaker,
};
use helenus_policy::ring::NodeIndex;

use super::{Change, Start, TIMING, Told, Which};
use crate::chaos::wide::{KEYSPACE, TABLE};

/// A proxy without a sign of life for so long is evicted.
const SILENT_US: u64 = 2_000_000;
/// Less than that of the product: buckets are to become idle within a run.
const IDLE_US: u64 = 2_000_000;
/// What fails is tried again after this time, and three times at most while a copy joins.
const AGAIN_US: u64 = 1_000_000;
const FAILURES_MAX: u32 = 3;

/// What a proxy has to do about the lists.
#[derive(Debug)]
pub(in crate::chaos) enum Action {
    Change(Change),
    /// This copy may join, if its node answers.
    Return(usize, usize),
    /// This copy is to be compared with one in sync.
    Compare(usize, usize),
    /// A bucket is to be made equal in which this proxy has given up writes, or those that others have left.
    MakeGood(usize),
    MakeGoodOf(Vec<usize>),
}

/// Whether copies that are out may join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum Returns {
    WhenDue,
    AtOnce,
    Never,
}

/// A copy that joins.
struct Joining {
    join: Join,
    failures: u32,
    not_before_us: u64,
}

/// Writes that were given up, and from when on nothing of them arrives any more.
struct Given {
    of: GivenUp,
    due_us: u64,
}

/// Times are those of the engines' clock.
pub(in crate::chaos) struct Control {
    start: Start,
    owners: Vec<Box<[NodeIndex]>>,
    pub member: Option<Arc<Member>>,
    proxies: Known<PROXIES_MAX>,
    groups: Vec<Known<LISTED_MAX>>,
    /// Since when each of both lists is to be read before it is changed.
    unread_us: [Option<u64>; 2],
    /// A change is under way.
    pub is_changing: bool,
    join: Option<Join>,
    joins: BTreeMap<(usize, usize), Joining>,
    comebacks: BTreeMap<(usize, usize), Comeback>,
    attempted_us: BTreeMap<(usize, usize), u64>,
    evictions: BTreeMap<(usize, usize), u64>,
    beats: BTreeMap<usize, (u64, u64)>,
    given: BTreeMap<usize, Given>,
    made_good_us: u64,
    /// Bits to be recorded; whether the catalogue has been asked for some.
    pub bits: Vec<BitChange>,
    pub is_recording: bool,
}

fn place(which: Which) -> usize {
    match which {
        Which::Proxies => 0,
        Which::Copies => 1,
    }
}

impl Control {
    pub(in crate::chaos) fn new(start: Start, owners: Vec<Box<[NodeIndex]>>) -> Control {
        Control {
            start,
            groups: vec![Known::new(TIMING); owners.len()],
            owners,
            member: None,
            proxies: Known::new(TIMING),
            unread_us: [None; 2],
            is_changing: false,
            join: None,
            joins: BTreeMap::new(),
            comebacks: BTreeMap::new(),
            attempted_us: BTreeMap::new(),
            evictions: BTreeMap::new(),
            beats: BTreeMap::new(),
            given: BTreeMap::new(),
            made_good_us: 0,
            bits: Vec::new(),
            is_recording: false,
        }
    }

    pub(in crate::chaos) fn start(&self) -> Start {
        self.start
    }

    pub(in crate::chaos) fn is_member(&self, member: &Arc<Member>) -> bool {
        self.member
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, member))
    }

    fn number(&self) -> Option<usize> {
        self.member.as_ref().map(|member| member.number)
    }

    pub(in crate::chaos) fn adopt(&mut self, told: Told, sent_us: u64, now_us: u64) {
        let which = match told {
            Told::Copies(lists) => {
                for (known, list) in self.groups.iter_mut().zip(lists) {
                    known.adopt(list, sent_us, now_us);
                }
                Which::Copies
            }
            Told::Proxies(told) => {
                self.proxies.adopt(told.list, sent_us, now_us);
                let own = told.starts.iter().find(|(_, start)| **start == self.start);
                if let (Some((number, _)), None) = (own, &self.member) {
                    self.member = Some(Arc::new(Member::new(*number)));
                }
                for (number, beat) in told.beats {
                    let known = self.beats.entry(number).or_insert((beat, now_us));
                    if known.0 != beat {
                        *known = (beat, now_us);
                    }
                }
                Which::Proxies
            }
        };
        let unread_us = &mut self.unread_us[place(which)];
        if unread_us.is_some_and(|since| since <= sent_us) {
            *unread_us = None;
        }
    }

    /// What a change has led to is to be read.
    pub(in crate::chaos) fn on_changed(&mut self, which: Which, now_us: u64) {
        self.is_changing = false;
        self.unread_us[place(which)] = Some(now_us);
    }

    /// What engines are to go by, in a ring that does not change.
    pub(in crate::chaos) fn published(&self, ring: RingId) -> Lists {
        let membership = self.member.as_ref().map(|member| Membership {
            member: member.clone(),
            proxies: self.proxies.clone(),
        });
        let groups = self.owners.iter().cloned().zip(self.groups.iter().cloned());
        let groups: Groups = groups.filter(|(_, of)| of.last_read().is_some()).collect();
        let mut lists = Lists {
            membership,
            ..Lists::default()
        };
        let of_table = OfTable { ring, groups };
        let of_keyspace = [(TABLE.to_owned(), of_table)].into_iter().collect();
        lists.tables.insert(KEYSPACE.to_owned(), of_keyspace);
        lists
    }

    /// A worker wants a copy to be evicted. Returns the copy's group, if there is one.
    pub(in crate::chaos) fn on_eviction(&mut self, eviction: &Eviction) -> Option<usize> {
        let group = self.owners.iter().position(|of| *of == eviction.owners)?;
        let known = self.evictions.entry((group, eviction.copy)).or_default();
        *known = eviction.version.max(*known);
        Some(group)
    }

    /// These copies answer on a later start than the list knows.
    pub(in crate::chaos) fn on_restarted(&mut self, group: usize, copies: &[usize], version: u64) {
        let names = copies.iter().map(|copy| ((group, *copy), version));
        self.evictions.extend(names);
    }

    /// A write in this bucket was given up.
    pub(in crate::chaos) fn on_given_up(&mut self, bucket: usize, now_us: u64) {
        let given = self
            .member
            .as_ref()
            .and_then(|of| of.intents().given_up(bucket));
        if let Some(of) = given {
            let due_us = now_us + TIMING.late_us;
            self.given.insert(bucket, Given { of, due_us });
        }
    }

    /// Whether nothing is left to be made good.
    pub(in crate::chaos) fn is_settled(&self) -> bool {
        self.given.is_empty() && self.bits.is_empty() && !self.is_recording
    }

    /// A list of copies as it was last read, with those that must have a write.
    pub(in crate::chaos) fn required(
        &self,
        group: usize,
        now_us: u64,
    ) -> Option<(Copies, Vec<usize>)> {
        let known = &self.groups[group];
        let required = known.required(now_us)?;
        Some((*known.list(now_us)?, required.iter().collect()))
    }

    /// Buckets that are idle are to be cleared.
    pub(in crate::chaos) fn clear_idle(&mut self, now_us: u64) {
        let Some(member) = &self.member else {
            return;
        };
        let mut intents = member.intents();
        while let Some(change) = intents.clear(IDLE_US, now_us) {
            self.bits.push(change);
        }
    }

    /// What is to be done next. `returns`: whether copies may come back, or even at once.
    pub(in crate::chaos) fn next(&mut self, now_us: u64, returns: Returns) -> Option<Action> {
        self.note_states(now_us);
        let membership = match self.may_change(Which::Proxies) {
            true => self.membership(now_us).map(Action::Change),
            false => None,
        };
        if membership.is_some() {
            return membership;
        }
        let number = self.number()?;
        let list = self.proxies.list(now_us)?;
        if list.state(number) != State::InSync {
            self.evictions.clear();
            return None;
        }
        if self.may_change(Which::Copies)
            && let Some(change) = self.evicting()
        {
            return Some(Action::Change(change));
        }
        if let Some(action) = self.making_good(number, now_us) {
            return Some(action);
        }
        if !is_caretaker(&self.proxies, number, now_us) {
            return None;
        }
        self.joining(now_us)
            .or_else(|| self.returning(now_us, returns))
    }

    fn may_change(&self, which: Which) -> bool {
        !self.is_changing && self.unread_us[place(which)].is_none()
    }

    fn note_states(&mut self, now_us: u64) {
        for (group, known) in self.groups.iter().enumerate() {
            let Some(list) = known.last_read() else {
                continue;
            };
            for copy in (0..self.owners[group].len()).chain([THE_TABLE]) {
                // A command brings the table back.
                if copy != THE_TABLE {
                    let comeback = self.comebacks.entry((group, copy)).or_default();
                    comeback.on_state(list.state(copy), now_us);
                }
                if list.state(copy) == State::Joining && !self.joins.contains_key(&(group, copy)) {
                    let joining = Join::begin(known, copy, now_us).map(|join| Joining {
                        join,
                        failures: 0,
                        not_before_us: 0,
                    });
                    self.joins
                        .extend(joining.map(|joining| ((group, copy), joining)));
                }
            }
        }
        let groups = &self.groups;
        let is_on = |group: usize, of: &Joining| of.join.next(&groups[group], now_us);
        self.joins
            .retain(|(group, _), of| is_on(*group, of) != JoinStep::Over);
    }

    fn membership(&mut self, now_us: u64) -> Option<Change> {
        let list = *self.proxies.last_read()?;
        let Some(number) = self.number() else {
            let number = (0..PROXIES_MAX).find(|number| list.since(*number) == 0)?;
            let joined = list.join(number, 0).ok()?;
            return Some(Change::Proxies(
                Box::new(joined),
                Some((number, self.start)),
            ));
        };
        match list.state(number) {
            // It goes on as another one, which knows nothing.
            State::Out => {
                let start = (self.start.0, self.start.1 + 1);
                *self = Control::new(start, std::mem::take(&mut self.owners));
                None
            }
            State::Joining => {
                let begun = self
                    .join
                    .or_else(|| Join::begin(&self.proxies, number, now_us));
                self.join = begun;
                let mut join = begun?;
                if join.next(&self.proxies, now_us) == JoinStep::Compare {
                    // Reading the intents is all that it takes, and of no use where writes are not announced.
                    join.on_compared(0);
                    self.join = Some(join);
                }
                match join.next(&self.proxies, now_us) {
                    JoinStep::Promote => {
                        let list = list.promote(number, join.since()).ok()?;
                        Some(Change::Proxies(Box::new(list), None))
                    }
                    JoinStep::Over => {
                        self.join = None;
                        None
                    }
                    JoinStep::Wait | JoinStep::Compare => None,
                }
            }
            State::InSync => {
                self.join = None;
                let list = self.proxies.list(now_us)?;
                let is_silent = |other: &usize| {
                    let heard_us = self.beats.get(other).map(|(_, heard_us)| *heard_us);
                    *other != number && heard_us.is_some_and(|at| now_us >= at + SILENT_US)
                };
                let silent = list.listed().iter().find(is_silent)?;
                let list = list.evict(silent).ok()?;
                Some(Change::Proxies(Box::new(list), None))
            }
        }
    }

    /// It leaves the list, if it is not the last one.
    pub(in crate::chaos) fn leaving(&self) -> Option<Change> {
        let list: &Proxies = self.proxies.last_read()?;
        let left = list.evict(self.number()?).ok()?;
        Some(Change::Proxies(Box::new(left), None))
    }

    fn evicting(&mut self) -> Option<Change> {
        let groups = &self.groups;
        let evicted = |(group, copy): (usize, usize), version: u64| {
            let list = groups[group].last_read()?;
            let may = list.since(copy) <= version;
            list.evict(copy).ok().filter(|_| may)
        };
        self.evictions
            .retain(|name, version| evicted(*name, *version).is_some());
        let ((group, copy), version) = self.evictions.iter().next()?;
        let list = evicted((*group, *copy), *version)?;
        Some(Change::Copies(*group, list))
    }

    fn making_good(&mut self, number: usize, now_us: u64) -> Option<Action> {
        if now_us < self.made_good_us {
            return None;
        }
        let due = self.given.iter().find(|(_, given)| given.due_us <= now_us);
        if let Some((bucket, _)) = due {
            return Some(Action::MakeGood(*bucket));
        }
        if !is_caretaker(&self.proxies, number, now_us) {
            return None;
        }
        self.made_good_us = now_us + AGAIN_US;
        let gone = (0..PROXIES_MAX).filter(|number| self.proxies.is_gone(*number, now_us));
        Some(Action::MakeGoodOf(gone.collect()))
    }

    /// Writes that were given up in a bucket have been made good, or could not be.
    pub(in crate::chaos) fn on_made_good(&mut self, bucket: usize, is_good: bool, now_us: u64) {
        if !is_good {
            self.made_good_us = now_us + AGAIN_US;
            return;
        }
        let Some((given, member)) = self.given.remove(&bucket).zip(self.member.clone()) else {
            return;
        };
        let mut intents = member.intents();
        intents.on_resynchronised(given.of, now_us);
        // Some may have been given up meanwhile.
        if let Some(of) = intents.given_up(bucket) {
            let due_us = now_us + TIMING.late_us;
            self.given.insert(bucket, Given { of, due_us });
        }
    }

    fn joining(&mut self, now_us: u64) -> Option<Action> {
        let may_change = self.may_change(Which::Copies);
        for ((group, copy), of) in &self.joins {
            let known = &self.groups[*group];
            match of.join.next(known, now_us) {
                JoinStep::Compare if now_us >= of.not_before_us => {
                    return Some(Action::Compare(*group, *copy));
                }
                JoinStep::Promote if may_change => {
                    let list = known.last_read()?.promote(*copy, of.join.since()).ok()?;
                    return Some(Action::Change(Change::Copies(*group, list)));
                }
                _ => {}
            }
        }
        None
    }

    /// A comparison has come to its end, with the newcomer on this start all the time; or it has failed.
    pub(in crate::chaos) fn on_compared(
        &mut self,
        (group, copy): (usize, usize),
        boot: Option<u32>,
        now_us: u64,
    ) {
        let Some(of) = self.joins.get_mut(&(group, copy)) else {
            return;
        };
        let list = self.groups[group].last_read();
        match boot {
            Some(boot) => of.join.on_compared(boot),
            None => {
                of.failures += 1;
                of.not_before_us = now_us + AGAIN_US;
            }
        }
        // Writes wait for it as long as it is joining.
        if of.failures >= FAILURES_MAX
            && let Some(list) = list
        {
            of.failures = 0;
            self.evictions.insert((group, copy), list.version());
        }
    }

    fn returning(&mut self, now_us: u64, returns: Returns) -> Option<Action> {
        let in_calm = returns == Returns::AtOnce;
        if returns == Returns::Never || !self.may_change(Which::Copies) {
            return None;
        }
        let is_due = |(group, copy): &(usize, usize), comeback: &Comeback| {
            let list = self.groups[*group].last_read();
            let is_out = list.is_some_and(|list| list.state(*copy) == State::Out);
            let attempted_us = self.attempted_us.get(&(*group, *copy)).copied();
            let is_again = attempted_us.is_none_or(|at| now_us >= at + AGAIN_US);
            comeback.is_due(now_us) || in_calm && is_out && is_again
        };
        let mut due = self.comebacks.iter().filter(|(name, of)| is_due(name, of));
        let (group, copy) = *due.next()?.0;
        let comeback = self.comebacks.get_mut(&(group, copy))?;
        comeback.on_attempt(now_us);
        self.attempted_us.insert((group, copy), now_us);
        Some(Action::Return(group, copy))
    }

    /// The list with a copy joining, whose node is on this start.
    pub(in crate::chaos) fn with_joining(
        &self,
        (group, copy): (usize, usize),
        boot: u32,
    ) -> Option<Change> {
        let list = self.groups[group].last_read()?.join(copy, boot).ok()?;
        Some(Change::Copies(group, list))
    }
}
