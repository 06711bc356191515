//! The two lists, the bits of intents, and the proxies' signs of life.

use std::collections::BTreeMap;

use super::super::list::{Copies, PROXIES_MAX, Proxies};
use super::super::members::Members;
use super::handover::{Stage, Standing, Switch, Task, alone, first_boots};

#[derive(Clone, Debug)]
pub(super) struct Catalogue {
    copies: Copies,
    standing: Standing,
    proxies: Proxies,
    /// By proxy and bucket: the last timestamp, and whether it is set.
    bits: BTreeMap<(usize, usize), (u64, bool)>,
    beats: BTreeMap<usize, u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    /// With a sign of life.
    Read {
        proxy: usize,
    },
    /// The list with the version after the one that is expected.
    ChangeCopies(Copies),
    ChangeProxies(Proxies),
    ReadStage,
    SetBit {
        proxy: usize,
        bucket: usize,
        timestamp: u64,
        set: bool,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// The compare-and-set was carried out.
    pub(super) changed: bool,
    pub(super) copies: Copies,
    pub(super) stage: Stage,
    pub(super) proxies: Proxies,
    /// Proxy, bucket and timestamp of those that are set.
    pub(super) bits: Vec<(usize, usize, u64)>,
    pub(super) beats: Vec<(usize, u64)>,
}

impl Catalogue {
    pub(super) fn new(copies: usize, task: Option<Task>) -> Catalogue {
        let (stage, list) = match task {
            Some(Task::Create | Task::CreateAndDrop) => (Stage::Table, alone(copies)),
            Some(Task::Drop) | None => {
                let all = Members::first(copies);
                (Stage::InUse, Copies::new(all, first_boots()))
            }
        };
        Catalogue {
            copies: list,
            standing: Standing { version: 1, stage },
            proxies: Proxies::new(Members::EMPTY, [0; PROXIES_MAX]),
            bits: BTreeMap::new(),
            beats: BTreeMap::new(),
        }
    }

    pub(super) fn copies(&self) -> &Copies {
        &self.copies
    }

    pub(super) fn standing(&self) -> Standing {
        self.standing
    }

    /// The command's compare-and-set of stage and list.
    pub(super) fn switch(&mut self, switch: &Switch) {
        if switch.from == (self.standing.version, self.copies.version()) {
            let version = self.standing.version + 1;
            let stage = switch.stage;
            (self.standing, self.copies) = (Standing { version, stage }, switch.list);
        }
    }

    /// Proxies that are out have left writes.
    pub(super) fn has_leftovers(&self) -> bool {
        let listed = self.proxies.listed();
        let mut bits = self.bits.iter();
        bits.any(|((proxy, _), (_, set))| *set && !listed.contains(*proxy))
    }

    pub(super) fn has_bits(&self) -> bool {
        self.bits.values().any(|(_, set)| *set)
    }

    pub(super) fn carry_out(&mut self, request: Request) -> Answer {
        let mut changed = false;
        match request {
            Request::ReadStage => {}
            Request::Read { proxy } => *self.beats.entry(proxy).or_default() += 1,
            Request::ChangeCopies(list) => {
                changed = list.version() == self.copies.version() + 1;
                if changed {
                    self.copies = list;
                }
            }
            Request::ChangeProxies(list) => {
                changed = list.version() == self.proxies.version() + 1;
                if changed {
                    self.proxies = list;
                }
            }
            Request::SetBit {
                proxy,
                bucket,
                timestamp,
                set,
            } => {
                let bit = self.bits.entry((proxy, bucket)).or_default();
                if timestamp > bit.0 {
                    *bit = (timestamp, set);
                }
            }
        }
        let set = self.bits.iter().filter(|(_, (_, set))| *set);
        Answer {
            changed,
            copies: self.copies,
            stage: self.standing.stage,
            proxies: self.proxies,
            bits: set
                .map(|((proxy, bucket), (at, _))| (*proxy, *bucket, *at))
                .collect(),
            beats: self
                .beats
                .iter()
                .map(|(proxy, beat)| (*proxy, *beat))
                .collect(),
        }
    }
}
