//! A proxy: which node it asks, by what it has seen itself.

use helenus_policy::choice::{Choice, Request, Settings};
use helenus_policy::hot::{HotSet, Partition, Sampler, Sketch, Use};
use helenus_policy::ring::NodeIndex;

use super::setup::Setup;
use crate::dice::Dice;
use crate::keys::Keys;

/// As in production.
const HOT_PLACES: usize = 512;
const HOT_HALF_LIFE_US: u64 = 10_000_000;

pub(super) struct Proxy<'a> {
    setup: &'a Setup,
    pub choice: Choice,
    rotation: u64,
    candidates: Vec<NodeIndex>,
    sampler: Sampler,
    sketch: Sketch<()>,
    hot: HotSet,
}

impl Proxy<'_> {
    pub(super) fn new(setup: &Setup, number: usize) -> Proxy<'_> {
        let mut choice = Choice::new(Settings {
            policy: setup.policy,
            clients: u16::try_from(setup.proxies).unwrap_or(u16::MAX),
            ..Settings::default()
        });
        choice.grow_to(setup.nodes.into());
        let rotation = Dice::of(setup.seed, number as u64, 3).draw();
        Proxy {
            setup,
            choice,
            rotation,
            candidates: Vec::new(),
            sampler: Sampler::new(rotation),
            sketch: Sketch::new(HOT_PLACES, HOT_HALF_LIFE_US, 0),
            hot: HotSet::default(),
        }
    }

    /// The node that is asked for a key, and the owner that this one asks, if it has to.
    pub(super) fn choose(
        &mut self,
        now_us: u64,
        hash: u64,
        keys: &Keys,
    ) -> (NodeIndex, Option<NodeIndex>) {
        let setup = self.setup;
        self.rotation = self.rotation.wrapping_add(1);
        let work_us = setup.work_us();
        if setup.spreads_hot && self.sampler.takes() {
            let partition = Partition {
                token: hash as i64,
                ..Partition::default()
            };
            let of = Use {
                work_us,
                ..Use::default()
            };
            self.sketch.note(partition, of, || ());
        }
        self.candidates.clear();
        match self.choice.policy().is_over_all_nodes() {
            true => self.candidates.extend((0..setup.nodes).map(NodeIndex)),
            false => self.candidates.extend(keys.owners(hash)),
        }
        let request = Request {
            now_us,
            work_us,
            rotation: self.rotation,
            affinity: (!self.hot.contains(hash as i64)).then_some((hash >> 32) as u32),
            near: 0,
        };
        self.choice.order(&request, &mut self.candidates);
        let coordinator = self.candidates[0];
        let is_owner = keys.owners(hash).any(|owner| owner == coordinator);
        let turn = (self.rotation % u64::from(setup.replicas)) as usize;
        let owner = match is_owner || setup.forward_share.is_none() {
            true => None,
            false => keys.owners(hash).nth(turn),
        };
        (coordinator, owner)
    }

    /// Looks which partitions are hot.
    pub(super) fn on_tick(&mut self, now_us: u64) {
        self.sketch.advance(now_us);
        self.hot.renew(&self.sketch, self.setup.nodes.into());
    }
}
