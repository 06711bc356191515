//! What proxies do about copies: they bring them back, and make equal what writes have left; and what an operator
//! does.

use helenus_engine::copies::Eviction;
use helenus_layout::insync::Copies;

use super::super::{Event, World};
use super::OPERATE_US;
use crate::chaos::coverage;
use crate::chaos::insync::{Action, bucket_of};
use crate::chaos::proxy::At;

/// Operators wait for so long before they do something.
const OPERATE_AFTER_US: u64 = 2_000_000;

impl World {
    pub(in crate::chaos::world) fn act_on_lists(&mut self, proxy: usize, action: Action) {
        let now_us = self.copies_us(proxy);
        match action {
            Action::Change(change) => self.ask_to_change(proxy, change),
            Action::Return(group, copy) => {
                let boot = self.boot_of((group, copy), Some(proxy));
                let control = self.proxies[proxy].control.as_ref();
                let change = boot
                    .zip(control)
                    .and_then(|(boot, control)| control.with_joining((group, copy), boot));
                if let Some(change) = change {
                    self.ask_to_change(proxy, change);
                }
            }
            Action::Compare(group, copy) => {
                let boot = self.compare_copy(proxy, (group, copy));
                if let Some(control) = &mut self.proxies[proxy].control {
                    control.on_compared((group, copy), boot, now_us);
                }
            }
            Action::MakeGood(bucket) => {
                let is_good = self.make_good(proxy, bucket);
                if is_good {
                    self.count(coverage::GIVEN_UP_MADE_GOOD);
                }
                if let Some(control) = &mut self.proxies[proxy].control {
                    control.on_made_good(bucket, is_good, now_us);
                }
            }
            Action::MakeGoodOf(gone) => {
                for number in gone {
                    let left = self.lists.as_ref().map(|lists| lists.left_by(number));
                    let left = left.unwrap_or_default();
                    if left.is_empty() || !left.iter().all(|of| self.make_good(proxy, *of)) {
                        continue;
                    }
                    self.count(coverage::LEFT_MADE_GOOD);
                    if let Some(lists) = &mut self.lists {
                        lists.forget(number);
                    }
                }
            }
        }
    }

    /// The list of a group with those that must have a write, if all answer, on the starts that the list knows. One that
    /// answers on a later start is out, as its requests would show.
    fn ready(&mut self, proxy: usize, group: usize) -> Option<(Copies, Vec<usize>)> {
        let now_us = self.copies_us(proxy);
        let control = self.proxies[proxy].control.as_ref()?;
        let (list, required) = control.required(group, now_us)?;
        let boot_of = |copy: usize| self.boot_of((group, copy), Some(proxy));
        let is_restarted = |copy: &usize| {
            let is_listed = list.listed().contains(*copy);
            is_listed && boot_of(*copy).is_some_and(|boot| boot > list.boot(*copy))
        };
        let restarted: Vec<usize> = required.iter().copied().filter(is_restarted).collect();
        let is_ready = |copy: &usize| {
            let boot = boot_of(*copy);
            boot.is_some() && (!list.listed().contains(*copy) || boot == Some(list.boot(*copy)))
        };
        let are_ready = required.iter().all(is_ready);
        if let Some(control) = &mut self.proxies[proxy].control {
            control.on_restarted(group, &restarted, list.version());
        }
        are_ready.then_some((list, required))
    }

    /// Compares a copy that joins with the first in sync. Returns the start of its node.
    fn compare_copy(&mut self, proxy: usize, (group, copy): (usize, usize)) -> Option<u32> {
        let (list, required) = self.ready(proxy, group)?;
        let source = list.in_sync().iter().next()?;
        for partition in self.partitions_of(group) {
            if self.cluster.repair((copy, source), &required, partition) {
                self.count(coverage::COPIES_DIFFERED);
            }
        }
        self.boot_of((group, copy), Some(proxy))
    }

    fn partitions_of(&self, group: usize) -> Vec<i64> {
        let lists = self.lists.as_ref().expect("there are copies");
        lists.groups[group].partitions.clone()
    }

    /// Those that must have a write have the partitions of a bucket alike from now on, if all answer.
    fn make_group_equal(&mut self, proxy: usize, group: usize, bucket: usize) -> bool {
        let Some((_, required)) = self.ready(proxy, group) else {
            return false;
        };
        let mut partitions = self.partitions_of(group);
        partitions.retain(|partition| bucket_of(*partition) == bucket);
        for partition in partitions {
            if self.cluster.make_equal(&required, partition) {
                self.count(coverage::COPIES_DIFFERED);
            }
        }
        true
    }

    pub(in crate::chaos::world) fn make_good(&mut self, proxy: usize, bucket: usize) -> bool {
        let groups = self.lists.as_ref().map_or(0, |lists| lists.groups.len());
        (0..groups).all(|group| self.make_group_equal(proxy, group, bucket))
    }

    pub(in crate::chaos::world) fn forget_lost(&mut self, (group, copy): (usize, usize)) {
        let lists = self.lists.as_ref().expect("there are copies");
        let partitions = &lists.groups[group].partitions;
        self.cluster.forget_lost(copy, partitions);
    }

    pub(in crate::chaos::world) fn want_eviction(&mut self, at: At, eviction: &Eviction) {
        let (proxy, copy) = (at.proxy, eviction.copy);
        let control = self.proxies[proxy].control.as_mut();
        let group = control.and_then(|control| control.on_eviction(eviction));
        let Some(group) = group else {
            return self.violate(format!("{eviction:?} is of no list"));
        };
        self.note(|| format!("{at:?} is to evict copy {copy} of {group}"));
        let node = self.node_of((group, copy));
        let heard = self.worker(at).heard.get(&node).copied();
        let lists = self.lists.as_mut().expect("there are copies");
        let of = &mut lists.groups[group];
        of.wanted[copy] = of.wanted[copy].max(Some(eviction.version));
        if heard > Some(of.list.boot(copy)) {
            self.count(coverage::RESTART_NOTICED);
        }
        self.look_after_lists(proxy);
    }

    /// The last copy in sync whose node was restarted: its disk is recovered, and it is taken as it is.
    pub(in crate::chaos::world) fn operate(&mut self) {
        let now_us = self.now_us();
        self.events.plan(OPERATE_US, Event::Operate);
        let groups = self.lists.as_ref().map_or(0, |lists| lists.groups.len());
        self.hand_over();
        for group in 0..groups {
            self.judge_group(group);
            let lists = self.lists.as_ref().expect("there are copies");
            let list = lists.groups[group].list;
            let mut in_sync = list.in_sync().iter();
            let (Some(copy), None) = (in_sync.next(), in_sync.next()) else {
                continue;
            };
            let boot = self.boot_of((group, copy), None);
            let lists = self.lists.as_mut().expect("there are copies");
            let of = &mut lists.groups[group];
            let Some(boot) = boot.filter(|boot| *boot != list.boot(copy)) else {
                of.restarted_us = None;
                continue;
            };
            if now_us < *of.restarted_us.get_or_insert(now_us) + OPERATE_AFTER_US {
                continue;
            }
            of.restarted_us = None;
            if let Ok(adopted) = list.adopt_start(copy, boot) {
                of.list = adopted;
                self.cluster.recover(copy, &of.partitions);
                self.count(coverage::RESTART_ADOPTED);
            }
        }
    }
}
