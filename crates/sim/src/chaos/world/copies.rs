//! Copies in place of replicas: what a run with them begins with, and when it has calmed down.

mod acting;
mod handover;
mod lists;
mod probing;
mod reads;
mod recording;
mod stopping;
mod verdict;

use helenus_layout::insync::{Members, TABLE};

use super::{Event, World};
use crate::chaos::cassandra::{Health, Holders, copied_tables, tables};
use crate::chaos::catalogue::{Catalogue, Mode, OfLayout, Step};
use crate::chaos::insync::{Catalogued, Control, Handover, Which};
use crate::dice::Dice;

pub(in crate::chaos::world) use self::lists::OfLists;
pub(super) use self::probing::Probe;
pub(super) use self::reads::ReadsOfCopies;

/// How long things go wrong: copies are to leave and come back.
const TROUBLE_US: u64 = 20_000_000;
/// What has no answer by then is taken for lost.
const TIMEOUT_US: u64 = 600_000;
/// Operators look at copies this often.
const OPERATE_US: u64 = 1_000_000;

/// What decides on the copies of a run, if it has any. Runs with layouts beside the table, and those whose ring
/// changes, are as they would be without.
pub(super) fn dice_of_copies(seed: u64) -> Option<Dice> {
    let is_other =
        super::layouts::dice_of_layouts(seed).is_some() || super::growth::grows(seed).is_some();
    let mut dice = Dice::of(seed, 5, 0);
    (!is_other && dice.below(2) == 0).then_some(dice)
}

impl World {
    pub(super) fn set_up_copies(&mut self, seed: u64) {
        let nodes = self.cluster.nodes.len();
        let Some(mut dice) = dice_of_copies(seed).filter(|_| nodes > 1) else {
            return;
        };
        let copies = nodes.min(3);
        let own = tables(&mut dice).swap_remove(0);
        self.cluster.tables = copied_tables(own, copies, &mut dice);
        let holders = Holders::new(nodes, copies);
        let partitions = 1 + dice.below(12) as i64;
        let boots: Vec<u32> = self.cluster.nodes.iter().map(|node| node.boot).collect();
        // Of its own, so that other seeds stay what they are.
        self.handover = match Dice::of(seed, 6, 0).below(6) {
            0 => Some(Handover::ToCopies),
            1 => Some(Handover::ToTable),
            _ => None,
        };
        self.lists = Some(Catalogued::new(&holders, partitions, &boots, self.handover));
        self.cluster.holders = Some(holders);
        let ready = OfLayout {
            step: Step::Ready,
            known_since_us: 0,
        };
        self.catalogue = Some(Catalogue {
            layouts: vec![ready; copies],
            changes: false,
            partitions,
            mode: Mode::Replace,
        });
        self.trouble_us = TROUBLE_US;
        for client in &mut self.clients {
            client.reads_copies = true;
            client.left *= 2;
        }
        for proxy in 0..self.proxies.len() {
            if dice.below(4) > 0 {
                let rows = self.catalogue_rows();
                self.take_catalogue(proxy, 0, rows);
            }
        }
    }

    pub(super) fn begin_copies(&mut self) {
        if self.lists.is_none() {
            return;
        }
        self.note(|| "copies in place of replicas".to_owned());
        for proxy in 0..self.proxies.len() {
            self.begin_control(proxy);
        }
        self.events.plan(OPERATE_US, Event::Operate);
    }

    /// Nobody asks for anything before proxies may write.
    pub(super) fn opens_us(&self) -> u64 {
        match self.lists {
            Some(_) => 1_000_000,
            None => 0,
        }
    }

    /// A proxy begins to keep itself in the lists.
    pub(super) fn begin_control(&mut self, proxy: usize) {
        let Some(lists) = &self.lists else {
            return;
        };
        let owners = lists.groups.iter().map(|group| group.owners.clone());
        self.proxies[proxy].control = Some(Control::new((proxy, 0), owners.collect()));
        for which in [Which::Proxies, Which::Copies] {
            let delay = 1_000 + self.dice.below(100_000);
            self.events
                .plan(delay, Event::Lists(proxy, OfLists::Renew(which)));
        }
    }

    /// By the clock of a proxy's engines.
    pub(in crate::chaos::world) fn copies_us(&self, proxy: usize) -> u64 {
        self.proxies[proxy].common.copies.us(self.now())
    }

    pub(in crate::chaos::world) fn has_ended(&self, proxy: usize) -> bool {
        self.proxies[proxy]
            .workers
            .iter()
            .all(|worker| worker.ended)
    }

    pub(in crate::chaos::world) fn has_lost_catalogue(&self, proxy: usize) -> bool {
        self.proxies[proxy].catalogue_lost_until_us > self.now_us()
    }

    pub(super) fn copies(&self) -> usize {
        self.cluster.holders.as_ref().map_or(0, Holders::copies)
    }

    pub(in crate::chaos::world) fn node_of(&self, (group, copy): (usize, usize)) -> usize {
        let lists = self.lists.as_ref().expect("there are copies");
        lists.groups[group].owners[copy].as_usize()
    }

    /// Which start of a copy's node answers, if any does: this proxy, or anybody.
    pub(super) fn boot_of(&self, name: (usize, usize), proxy: Option<usize>) -> Option<u32> {
        if name.1 == TABLE {
            return self.is_table_whole(name.0).then_some(0);
        }
        let node = self.node_of(name);
        let of = &self.cluster.nodes[node];
        let is_cut_off = proxy.is_some_and(|proxy| self.is_partitioned(proxy, node));
        (of.health == Health::Up && !is_cut_off).then_some(of.boot)
    }

    /// Whether proxies and copies have nothing left to do.
    pub(super) fn are_copies_calm(&self) -> bool {
        let Some(lists) = &self.lists else {
            return true;
        };
        let all = match self.handover {
            Some(Handover::OverToTable) => Members::of(TABLE),
            Some(Handover::OverToCopies) | None => Members::first(self.copies()),
            Some(_) => return false,
        };
        let is_back = |group: usize| lists.groups[group].list.in_sync() == all;
        let running = self.proxies_running().into_iter();
        let mut controls = running.filter_map(|proxy| self.proxies[proxy].control.as_ref());
        (0..lists.groups.len()).all(is_back)
            && !lists.has_leftovers()
            && controls.all(Control::is_settled)
    }
}
