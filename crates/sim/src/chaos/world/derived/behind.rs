//! Nodes that are away for minutes, and layouts that are *behind* because of that: no replica of a range is up for so long
//! that hints are nearly not kept any more.
//!
//! Which nodes are away for too long is the product's own code ([`helenus_catalogue::away`]). Modelled are how a proxy sees
//! its nodes (it knows at once which are down), how it tells the others, and how a sweep compares a layout as a whole: all
//! layouts of a run have the same replicas, so that they are behind together.
//!
//! A proxy that has just begun does not know since when a node is away. So one of them lives as long as the run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use helenus_catalogue::LEASE;
use helenus_catalogue::away::{Away, Sight};

use super::super::strikes::Scope;
use super::super::{Event, World};
use super::sweep::{REQUEST_MAX, Why};
use super::token_of;
use crate::chaos::bounds::Cause;
use crate::chaos::cassandra::Health;
use crate::chaos::catalogue::Step;
use crate::chaos::coverage::{self, Check, Fault};
use crate::dice::Dice;

/// Things go wrong for so long where nodes stay away.
pub(in crate::chaos::world) const TROUBLE_US: u64 = 1_700_000_000;
/// `max_hint_window`. What is left of it once a layout is behind, a tenth, must be enough for a proxy that was cut off, for
/// those that hear late, and for requests under way.
pub(in crate::chaos::world) const WINDOW: Duration = Duration::from_secs(1_200);
const MINUTES_US: u64 = 80_000_000;
/// Everything is so much slower in these runs.
pub(in crate::chaos::world) const SLOWER: u64 = 8;
const LEASE_US: u64 = LEASE.as_micros() as u64;

/// Whether nodes stay away for minutes in a run with derived layouts, and hints have a window that proxies know.
pub(in crate::chaos::world) fn stays_away(seed: u64) -> bool {
    Dice::of(seed, 12, 0).below(4) == 0
}

/// How far layouts are that have become behind. With the time since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    /// The catalogue says so; proxies hear of it.
    Marked(u64),
    /// Nobody writes them.
    Left,
    /// They are written again.
    Begun(u64),
    /// What differs is in doubt, of which proxies hear.
    Compared(u64),
}

#[derive(Debug)]
pub(in crate::chaos::world) struct Behind {
    state: State,
    /// By proxy: the nodes that it has seen go.
    seen: BTreeMap<usize, Away>,
    /// Proxies that read the layouts no more, although the catalogue does not say so yet.
    unmarked: BTreeSet<usize>,
    /// When the layouts were filled.
    created_us: u64,
    /// When they were marked, and when they were read again, for the last time.
    marked_us: Option<u64>,
    opened_us: Option<u64>,
    /// A node that stays away; and whether they do for about as long as hints are kept.
    absent: Option<usize>,
    is_long: bool,
    /// Partitions that are to be compared, those that differ, and whether one is being compared.
    left: Vec<i64>,
    differing: Vec<i64>,
    is_comparing: bool,
}

impl Behind {
    pub(in crate::chaos::world) fn new(seed: u64) -> Behind {
        Behind {
            state: State::Ready,
            seen: BTreeMap::new(),
            unmarked: BTreeSet::new(),
            created_us: 0,
            marked_us: None,
            opened_us: None,
            absent: None,
            is_long: Dice::of(seed, 12, 1).below(2) == 0,
            left: Vec::new(),
            differing: Vec::new(),
            is_comparing: false,
        }
    }

    pub(in crate::chaos::world) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Whether a sweep compares layouts in partitions that are in doubt.
    pub(in crate::chaos::world) fn is_written(&self) -> bool {
        !matches!(self.state, State::Marked(_) | State::Left)
    }

    /// Whether layouts have not been read lately, so that a page of theirs cannot be continued.
    pub(in crate::chaos::world) fn was_closed(&self, now_us: u64) -> bool {
        let since_us = now_us.saturating_sub(2 * LEASE_US);
        !self.is_ready()
            || !self.unmarked.is_empty()
            || self.opened_us.is_some_and(|opened_us| opened_us > since_us)
    }
}

impl World {
    /// A node stays away: for so long that what a sweep finds may have to wait for it, or for longer than hints are kept.
    pub(in crate::chaos::world) fn stay_away(&mut self, node: usize) -> &'static str {
        let is_long = self.derived.as_ref().is_some_and(|of| of.behind.is_long);
        let for_us = match is_long {
            false => MINUTES_US + self.dice.below(2 * MINUTES_US),
            true => 1_000_000_000 + self.dice.below(500_000_000),
        };
        self.stay_away_for(node, for_us)
    }

    /// A node that has just kept all that there is of a write may stay away with it.
    pub(in crate::chaos::world) fn stay_away_with_hint(&mut self) {
        let derived = self.cluster.derived.as_mut();
        let Some(node) = derived.and_then(|of| of.only_at.take()) else {
            return;
        };
        if self.stays_away() && self.dice.below(4) > 0 {
            let soon_us = self.dice.below(3_000_000);
            self.events.plan(soon_us, Event::StayAway(node));
        }
    }

    pub(in crate::chaos::world) fn stay_away_with(&mut self, node: usize) {
        let is_up = self.cluster.nodes[node].health == Health::Up;
        if is_up && self.may(Cause::Away) {
            let for_us = MINUTES_US + self.dice.below(2 * MINUTES_US);
            let what = self.stay_away_for(node, for_us);
            self.count(what);
        }
    }

    fn stay_away_for(&mut self, node: usize, for_us: u64) -> &'static str {
        let (now_us, until_us) = (self.now_us(), self.trouble_us);
        let for_us = for_us.min(until_us.saturating_sub(now_us));
        let Some(derived) = &mut self.derived else {
            return "nothing";
        };
        if derived.behind.absent.is_some() || for_us == 0 || self.cluster.nodes.len() < 2 {
            return "nothing";
        }
        derived.behind.absent = Some(node);
        self.strike(Fault::NodeCrashes, Scope::node(node));
        self.cluster.nodes[node].health = Health::Down;
        self.note_down(node);
        self.reset_node(node);
        self.events.plan(for_us, Event::Heal(node, true));
        "node stays away"
    }

    /// While a node stays away, one other is always there: who sees none may be cut off, and waits for a minute before it
    /// says that layouts are behind.
    pub(in crate::chaos::world) fn others_are_there(&self) -> bool {
        let nodes = self.cluster.nodes.iter();
        let there = nodes.filter(|node| node.health != Health::Down).count();
        there > 1 || !self.stays_away()
    }

    pub(in crate::chaos::world) fn note_back(&mut self, node: usize) {
        if let Some(derived) = &mut self.derived {
            derived.behind.absent = derived.behind.absent.filter(|absent| *absent != node);
        }
    }

    /// A proxy looks which nodes are away, with each answer about the catalogue. `can_tell`: it can change this.
    pub(in crate::chaos::world) fn look_around(&mut self, proxy: usize, can_tell: bool) {
        let (now, now_us) = (self.now(), self.now_us());
        let (Some(derived), Some(cluster)) = (&mut self.derived, &self.cluster.derived) else {
            return;
        };
        let sights = self.cluster.nodes.iter().map(|node| match node.health {
            Health::Down => Sight::Down,
            Health::Up | Health::Frozen(_) => Sight::Up,
        });
        if !derived.knows_window {
            return;
        }
        let behind = &mut derived.behind;
        let age = Duration::from_micros(now_us - behind.created_us);
        let away = behind.seen.entry(proxy).or_default();
        away.look(sights, WINDOW, now);
        let long_away = away.for_long(WINDOW, age, now);
        if !behind.is_written() {
            behind.unmarked.clear();
            return;
        }
        if cluster.has_range_among(&long_away) && behind.unmarked.insert(proxy) {
            self.note(|| format!("proxy {proxy} finds that layouts miss writes"));
        }
        if can_tell && self.is_unmarked_at(proxy) {
            self.mark_behind();
        }
    }

    /// Whether a proxy reads layouts no more that the catalogue does not call behind yet.
    pub(in crate::chaos::world) fn is_unmarked_at(&self, proxy: usize) -> bool {
        let derived = self.derived.as_ref();
        derived.is_some_and(|of| of.behind.unmarked.contains(&proxy))
    }

    /// The catalogue says that layouts are behind.
    fn mark_behind(&mut self) {
        let now_us = self.now_us();
        self.set_steps(Step::Leaving);
        if let Some(derived) = &mut self.derived {
            let behind = &mut derived.behind;
            behind.state = State::Marked(now_us);
            behind.marked_us = Some(now_us);
        }
        self.note(|| "layouts are behind".to_owned());
        self.count(coverage::BEHIND);
    }

    fn set_steps(&mut self, step: Step) {
        let layouts = self.catalogue.iter_mut().flat_map(|of| &mut of.layouts);
        layouts.for_each(|of| of.step = step);
    }

    /// The next step with layouts that are behind, when its time has come.
    pub(in crate::chaos::world) fn catch_up(&mut self) {
        let now_us = self.now_us();
        let all_are_up = self.cluster.all_are_up();
        let Some(derived) = &mut self.derived else {
            return;
        };
        let partitions = derived.all_partitions();
        let behind = &mut derived.behind;
        match behind.state {
            State::Marked(since_us) if now_us >= since_us + LEASE_US => {
                behind.state = State::Left;
                self.set_steps(Step::Gone);
            }
            State::Left if all_are_up => {
                behind.state = State::Begun(now_us);
                behind.created_us = now_us;
                (behind.left, behind.differing) = (partitions, Vec::new());
                self.set_steps(Step::Writing);
                self.note(|| "layouts are written again".to_owned());
            }
            State::Begun(since_us) if now_us >= since_us + LEASE_US + REQUEST_MAX_US => {
                if behind.is_comparing {
                    return;
                }
                match behind.left.last().copied() {
                    Some(partition) => {
                        behind.is_comparing = true;
                        self.begin_comparison(partition, Why::Behind);
                    }
                    None => {
                        let differing = std::mem::take(&mut behind.differing);
                        let tokens: Vec<i64> = differing.into_iter().map(token_of).collect();
                        behind.state = State::Compared(since_us);
                        behind.opened_us = Some(match tokens.is_empty() {
                            true => now_us,
                            false => now_us + LEASE_US,
                        });
                        self.store_doubts(&tokens);
                    }
                }
            }
            State::Compared(since_us) if behind.opened_us.is_some_and(|at| now_us >= at) => {
                behind.state = State::Ready;
                behind.opened_us = Some(now_us);
                // What was doubted before was compared; what is doubted since then is so.
                let compared_us = since_us + LEASE_US;
                derived
                    .heard
                    .retain(|_, heard| heard.begun_us >= compared_us);
                self.set_steps(Step::Ready);
                self.note(|| "layouts are read again".to_owned());
                self.count(coverage::OPENED);
            }
            _ => {}
        }
    }

    /// A partition of layouts that are behind has been compared; `None`: a replica was away.
    pub(in crate::chaos::world) fn end_comparison_of_behind(
        &mut self,
        partition: i64,
        is_equal: Option<bool>,
    ) {
        let Some(derived) = &mut self.derived else {
            return;
        };
        let behind = &mut derived.behind;
        behind.is_comparing = false;
        let Some(is_equal) = is_equal else {
            return;
        };
        behind.left.pop();
        if !is_equal {
            behind.differing.push(partition);
        }
    }

    /// A node is asked to read the table or a layout, for a client that has asked then. Once proxies have heard that layouts
    /// are behind, it is the table, until these are read again.
    pub(in crate::chaos::world) fn judge_behind(&mut self, begun_us: u64, is_of_layout: bool) {
        let Some(derived) = &self.derived else {
            return;
        };
        let behind = &derived.behind;
        let Some(marked_us) = behind.marked_us else {
            return;
        };
        if behind.is_ready() || begun_us <= marked_us + LEASE_US {
            return;
        }
        self.checked(Check::BehindRead, true);
        if is_of_layout {
            self.violate(format!(
                "a layout is read that is behind since {marked_us}, for who has asked at {begun_us}"
            ));
        }
    }

    /// Whether nodes stay away for minutes in this run.
    pub(in crate::chaos::world) fn stays_away(&self) -> bool {
        self.derived.as_ref().is_some_and(|of| of.knows_window)
    }
}

const REQUEST_MAX_US: u64 = REQUEST_MAX.as_micros() as u64;
