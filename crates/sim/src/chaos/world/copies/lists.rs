//! How proxies read and change the lists, and what gets lost on the way.

use std::sync::Arc;

use helenus_engine::copies::Member;
use helenus_engine::shared::WorkerMessage;
use helenus_layout::insync::{BitChange, State};

use super::super::{Event, World};
use super::TIMEOUT_US;
use crate::chaos::coverage;
use crate::chaos::insync::{Change, Control, Handover, RENEWAL_US, Returns, Start, Told, Which};
use crate::chaos::wide::{KEYSPACE, TABLE};

/// What a proxy asks of the catalogue, how the catalogue answers, and that the answer has come.
pub(in crate::chaos::world) enum OfLists {
    /// It is time to read a list again.
    Renew(Which),
    Read(Which, Start, u64),
    Take(Start, u64, Told),
    Change(Start, Change),
    Changed(Start, Which),
    Record(Arc<Member>, Vec<BitChange>),
    Recorded(Arc<Member>, Vec<BitChange>, Outcome),
}

/// Whether the catalogue has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos::world) enum Outcome {
    Done,
    Unknown,
}

impl World {
    pub(in crate::chaos::world) fn delay_of_lists(&mut self) -> u64 {
        match self.dice.below(40) {
            0 if self.trouble => self.dice.below(800_000),
            _ => 500 + self.dice.below(5_000),
        }
    }

    pub(in crate::chaos::world) fn plan_lists(&mut self, proxy: usize, step: OfLists) {
        let delay = self.delay_of_lists();
        self.events.plan(delay, Event::Lists(proxy, step));
    }

    pub(in crate::chaos::world) fn on_lists(&mut self, proxy: usize, step: OfLists) {
        let now_us = self.now_us();
        let is_lost = self.has_lost_catalogue(proxy);
        let Some(lists) = &mut self.lists else {
            return;
        };
        match step {
            OfLists::Read(which, start, sent_us) => {
                if !is_lost {
                    let told = lists.read(which, start);
                    self.plan_lists(proxy, OfLists::Take(start, sent_us, told));
                }
            }
            OfLists::Change(start, change) => self.change_lists(proxy, start, &change),
            OfLists::Record(member, bits) => {
                if is_lost && self.dice.below(2) == 0 {
                    let step = OfLists::Recorded(member, bits, Outcome::Unknown);
                    return self.events.plan(TIMEOUT_US, Event::Lists(proxy, step));
                }
                for bit in &bits {
                    lists.record(member.number, *bit);
                }
                let step = match is_lost {
                    true => OfLists::Recorded(member, bits, Outcome::Unknown),
                    false => OfLists::Recorded(member, bits, Outcome::Done),
                };
                self.plan_lists(proxy, step);
            }
            // Nobody is there to hear it.
            _ if self.has_ended(proxy) => {}
            OfLists::Renew(which) => {
                self.read_list(proxy, which);
                let delay = RENEWAL_US + self.dice.below(20_000);
                self.events
                    .plan(delay, Event::Lists(proxy, OfLists::Renew(which)));
                self.look_after_lists(proxy);
            }
            OfLists::Take(start, sent_us, told) => {
                let began_us = now_us - self.copies_us(proxy);
                let now_us = now_us - began_us;
                if let Some(control) = self.control_of(proxy, start) {
                    control.adopt(told, sent_us - began_us, now_us);
                    self.look_after_lists(proxy);
                }
            }
            OfLists::Changed(start, which) => {
                let now_us = self.copies_us(proxy);
                if let Some(control) = self.control_of(proxy, start) {
                    control.on_changed(which, now_us);
                    self.read_list(proxy, which);
                }
            }
            OfLists::Recorded(member, bits, outcome) => {
                self.on_recorded(proxy, &member, bits, outcome);
            }
        }
    }

    pub(in crate::chaos::world) fn control_of(
        &mut self,
        proxy: usize,
        start: Start,
    ) -> Option<&mut Control> {
        let control = self.proxies[proxy].control.as_mut();
        control.filter(|control| control.start() == start)
    }

    pub(in crate::chaos::world) fn read_list(&mut self, proxy: usize, which: Which) {
        let Some(control) = &self.proxies[proxy].control else {
            return;
        };
        if !self.has_lost_catalogue(proxy) {
            let step = OfLists::Read(which, control.start(), self.now_us());
            self.plan_lists(proxy, step);
        }
    }

    /// A proxy that was stopped leaves the list; one that was killed does not come to that.
    pub(in crate::chaos::world) fn leave_lists(&mut self, proxy: usize) {
        let control = self.proxies[proxy].control.as_ref();
        let was_stopped = self.proxies[proxy]
            .workers
            .iter()
            .any(|w| w.timetable.is_some());
        let change = control.and_then(Control::leaving).filter(|_| was_stopped);
        if let Some(change) = change {
            self.ask_to_change(proxy, change);
        }
    }

    /// What is to be done by what was read; then engines hear of it.
    pub(in crate::chaos::world) fn look_after_lists(&mut self, proxy: usize) {
        let now_us = self.copies_us(proxy);
        let returns = match (self.handover, self.trouble) {
            (Some(handover), _) if !handover.lets_copies_join() => Returns::Never,
            // What a run with a command is about is to come within it.
            (Some(Handover::ToCopies), _) | (_, false) => Returns::AtOnce,
            (_, true) => Returns::WhenDue,
        };
        // Some of it is done at once.
        for _ in 0..8 {
            let Some(control) = &mut self.proxies[proxy].control else {
                return;
            };
            control.clear_idle(now_us);
            let Some(action) = control.next(now_us, returns) else {
                break;
            };
            self.act_on_lists(proxy, action);
        }
        self.record_bits(proxy);
        if let Some(control) = &self.proxies[proxy].control {
            let common = &self.proxies[proxy].common;
            let ring = common.snapshot.load().copy_rings.of(KEYSPACE, TABLE);
            common.copies.publish(control.published(ring));
            self.tell_all(proxy, &WorkerMessage::InSync);
        }
    }

    pub(in crate::chaos::world) fn ask_to_change(&mut self, proxy: usize, change: Change) {
        let Some(control) = &mut self.proxies[proxy].control else {
            return;
        };
        control.is_changing = true;
        let step = OfLists::Change(control.start(), change);
        self.plan_lists(proxy, step);
    }

    /// A compare-and-set comes to the catalogue, unless it is lost; so may its answer be.
    pub(in crate::chaos::world) fn change_lists(
        &mut self,
        proxy: usize,
        start: Start,
        change: &Change,
    ) {
        let now_us = self.now_us();
        let is_lost = self.has_lost_catalogue(proxy);
        let changed = OfLists::Changed(start, change.which());
        if is_lost && self.dice.below(2) == 0 {
            return self.events.plan(TIMEOUT_US, Event::Lists(proxy, changed));
        }
        let before = match (&self.lists, change) {
            (Some(lists), Change::Copies(group, _)) => Some((*group, lists.groups[*group].list)),
            _ => None,
        };
        let is_done = self
            .lists
            .as_mut()
            .is_some_and(|lists| lists.change(change, now_us));
        self.note(|| format!("proxy {proxy} {start:?}, done {is_done}: {change:?}"));
        if let (Some((group, before)), Change::Copies(_, list), true) = (before, change, is_done) {
            for copy in 0..self.copies() {
                match (before.state(copy), list.state(copy)) {
                    (State::Joining, State::InSync) => self.count(coverage::COPY_CAME_BACK),
                    (State::Out, State::Joining) => self.forget_lost((group, copy)),
                    (State::InSync | State::Joining, State::Out) => {
                        let lists = self.lists.as_ref().expect("there are copies");
                        // What an engine has wanted of an earlier state is no more asked for.
                        let wanted = lists.groups[group].wanted[copy];
                        let is_wanted = wanted.is_some_and(|version| version >= before.since(copy));
                        self.count(match is_wanted {
                            true => coverage::COPY_EVICTED,
                            false => coverage::COPY_EVICTED_BY_CONTROL,
                        });
                    }
                    _ => {}
                }
            }
            self.judge_group(group);
        }
        let answer_is_lost = is_lost || self.trouble && self.dice.below(30) == 0;
        let delay = match answer_is_lost {
            true => TIMEOUT_US,
            false => self.delay_of_lists(),
        };
        self.events.plan(delay, Event::Lists(proxy, changed));
    }
}
