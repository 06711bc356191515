//! What a run begins with.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use helenus_engine::config::{AggregationMode, Config, Names, RuleSettings};
use helenus_policy::ring::Replication;
use helenus_wire::Version;

use super::causes::Causes;
use super::derived::dice_of_derived;
use super::growth::{NEWCOMERS, grows};
use super::layouts::dice_of_layouts;
use super::lists::has_lists;
use super::recovery::RECOVERED_AFTER_US;
use super::{ANSWERED_AFTER_US, Event, THAWED_AFTER_US, TROUBLE_US, World, aggressors, work};
use crate::chaos::bounds::{Bounds, Cause};
use crate::chaos::cassandra::{Cluster, Owners, first_value};
use crate::chaos::checks::Registers;
use crate::chaos::client::Client;
use crate::chaos::coverage::Covered;
use crate::chaos::proxy::{At, Proxy, snapshot};
use crate::chaos::wide::Histories;
use crate::dice::Dice;
use crate::events::Events;

impl World {
    pub(super) fn new(seed: u64, bounds: &Bounds, begin: Instant, log: bool) -> World {
        let mut dice = Dice::of(seed, 1, 0);
        let aggressor = aggressors::kind_of(seed);
        let nodes = 1 + dice.below(if aggressor.is_some() { 3 } else { 4 }) as usize;
        let version = [Version::V5, Version::V5, Version::V4][dice.below(3) as usize];
        let authenticated = dice.below(2) == 0 || aggressor.is_some();
        let replication = Replication::Simple {
            rf: [1, 2, 3][dice.below(3) as usize].min(nodes),
        };
        let keys = [1, 8, 60][dice.below(3) as usize];
        let keys = if aggressor.is_some() { 60 } else { keys };
        let memory_max = match dice.below(5) {
            0 => Some(16 * 1024),
            1 => Some(64 * 1024),
            _ => None,
        };
        let memory_max = memory_max.filter(|_| aggressor.is_none());
        let has_layouts = dice_of_layouts(seed).is_some() || dice_of_derived(seed).is_some();
        // Of its own, so that other seeds stay what they are.
        let merges = Dice::of(seed, 3, 0).below(3) == 0 && aggressor.is_none();
        let grows = grows(seed).filter(|_| !has_layouts);
        let proxies = 1 + dice.below(if aggressor.is_some() { 1 } else { 2 });
        let proxies = (0..proxies).map(|number| {
            let workers = 1 + dice.below(3) as usize;
            let mut config = match aggressor {
                Some(_) => aggressors::settings(seed),
                None => config(&mut dice, memory_max, has_layouts),
            };
            if merges {
                config.aggregation.merge_writes = vec!["ks".to_owned()];
            }
            // Nodes join the cluster, or the proxy has not heard of all of them.
            let known = [1 + dice.below(nodes as u64) as usize, nodes][dice.below(2) as usize];
            let knows_all = grows.is_some() || aggressor.is_some();
            let known: Vec<usize> = (0..if knows_all { nodes } else { known }).collect();
            let snapshot = snapshot(&known, None, &replication, version, authenticated);
            Proxy::new(config, snapshot, workers, seed ^ number << 8, begin)
        });
        let proxies = proxies.collect();
        let owners = Owners::new((0..nodes).collect(), &replication);
        let newcomers = if grows.is_some() { NEWCOMERS } else { 0 };
        let mut registers = Registers::default();
        for key in 0..keys {
            registers.begin(key, first_value(key), 0);
            registers.acknowledge(key, first_value(key), 0);
        }
        let clients = (1 + dice.below(12)).min(bounds.clients_max as u64);
        let clients = (0..clients).map(|_| {
            let versions = [Version::V3, Version::V4, Version::V5];
            let client_version = versions[dice.below(3) as usize].min(version);
            Client::new(
                dice.below(2) as usize,
                client_version,
                (5 + dice.below(60) as u32) * if grows.is_some() { 3 } else { 1 },
            )
        });
        let mut world = World {
            bounds: bounds.clone(),
            clients: clients.collect(),
            events: Events::default(),
            begin,
            proxies,
            cluster: Cluster::new(owners, newcomers, keys),
            told: BTreeMap::new(),
            memory_max,
            longest_wait_us: 0,
            dropped: BTreeSet::new(),
            alters: 0,
            answered: (0, 0),
            partitions: BTreeMap::new(),
            loads: work::loads(seed, nodes + newcomers),
            aggression: None,
            connections: Vec::new(),
            registers,
            refused: Vec::new(),
            histories: Histories::default(),
            refused_rows: Vec::new(),
            catalogue: None,
            derived: None,
            causes: Causes::default(),
            only: few_causes(seed),
            trouble_us: TROUBLE_US,
            keys,
            merges,
            has_lists: has_lists(seed) && aggressor.is_none(),
            grows,
            growth: None,
            replication,
            version,
            authenticated,
            trouble: true,
            is_calm: false,
            is_over: false,
            violation: None,
            covered: Covered::default(),
            log: log.then(String::new),
            dice,
        };
        world.set_up_layouts(seed);
        world.set_up_derived(seed);
        if let Some(kind) = aggressor {
            let is_absent = bounds.without.contains(&Cause::Aggressor);
            world.set_up_aggressor(seed, kind, is_absent);
        }
        world
    }

    /// Its workers ask for what they want, and have the time told.
    pub(super) fn begin_proxy(&mut self, proxy: usize) {
        for worker in 0..self.proxies[proxy].workers.len() {
            let at = At { proxy, worker };
            self.after(at);
        }
    }

    pub(super) fn begin(&mut self) {
        let (nodes, version) = (self.cluster.nodes.len(), self.version);
        self.note(|| format!("{nodes} nodes of {version:?}"));
        for proxy in 0..self.proxies.len() {
            self.begin_proxy(proxy);
        }
        let soon_us = if self.aggression.is_some() {
            100_000
        } else {
            1_000_000
        };
        for client in 0..self.clients.len() {
            self.events
                .plan(self.dice.below(soon_us), Event::Act(client));
        }
        self.events.plan(self.dice.below(1_500_000), Event::Fault);
        let until_us = self.trouble_us.min(self.bounds.until_us);
        self.events.plan(until_us, Event::EndTrouble);
        let recovered_us = self.trouble_us + RECOVERED_AFTER_US;
        self.events.plan(recovered_us, Event::Recovered);
        let answered_us = self.trouble_us + ANSWERED_AFTER_US;
        self.events.plan(answered_us, Event::Answered);
        let thawed_us = self.trouble_us + THAWED_AFTER_US;
        self.events.plan(thawed_us, Event::LookForQuiet);
        self.begin_layouts();
        self.begin_derived();
        self.begin_growth();
    }
}

/// In a quarter of the runs only three things may go wrong, so that an error without a cause shows.
fn few_causes(seed: u64) -> Option<BTreeSet<Cause>> {
    let mut dice = Dice::of(seed, 9, 0);
    let any = |dice: &mut Dice| Cause::ALL[dice.below(Cause::ALL.len() as u64) as usize];
    (dice.below(4) == 0).then(|| (0..3).map(|_| any(&mut dice)).collect())
}

pub(super) fn config(dice: &mut Dice, memory_max: Option<usize>, has_layouts: bool) -> Config {
    let mut config = Config::default();
    config.layouts.enabled = has_layouts;
    config.limits.memory_max = memory_max;
    let mut pick = |choices: &[usize]| choices[dice.below(choices.len() as u64) as usize];
    config.links.in_flight_max = pick(&[4, 32, 1024]);
    config.links.node_in_flight_max = pick(&[16, 512]);
    config.links.bulk_bytes = pick(&[0, 64, 32 * 1024]);
    config.limits.client_in_flight_max = pick(&[2, 1024]);
    config.limits.node_queue_max = pick(&[2, 4096]);
    // Without it, what a node reads page by page may take ten minutes.
    config.limits.request_timeout_ms = Some(pick(&[3_000, 12_000]) as u64);
    // Shorter than the least that a node has for a page, or longer.
    config.limits.page_timeout_ms = 5_000;
    config.scheduling.scan_wait_max_ms = 5_000;
    config.scheduling.point_wait_max_ms = pick(&[300, 5_000]) as u64;
    config.scheduling.write_wait_max_ms = pick(&[300, 5_000]) as u64;
    config.scheduling.other_wait_max_ms = pick(&[300, 5_000]) as u64;
    config.scheduling.parallel_rows = pick(&[0, 8, 8]);
    config.scheduling.piece_kib = pick(&[0, 1, 64]);
    config.scheduling.piece_ms = pick(&[0, 1, 10]) as u32;
    config.scheduling.window_max = pick(&[2, 64]) as u32;
    config.scheduling.window_min = 1;
    // One of the paper's orders, in which pages end within parts.
    if config.scheduling.piece_kib == 0 && config.scheduling.window_max == 2 {
        config.scheduling.variant = "A".to_owned();
    }
    config.aggregation.mode = [
        AggregationMode::Timerless,
        AggregationMode::Window,
        AggregationMode::Adaptive,
    ][pick(&[0, 0, 1, 2])];
    config.aggregation.window_us = pick(&[0, 30, 500]) as u64;
    config.aggregation.share_in_flight_max = pick(&[0, 1, 2]);
    config.aggregation.lwt_turns = true;
    // Some wait for their turn for longer than they may take.
    config.aggregation.lwt_wait_max_ms = pick(&[100, 2_000, 10_000]) as u64;
    config.aggregation.lwt_grace_ms = pick(&[0, 20]) as u64;
    config.limits.logins_max = pick(&[1, 2, 32]);
    config.limits.logins_per_address_max = pick(&[0, 1, 8]);
    // A dropped role loses its clients soon, or within the run not at all.
    config.links.check_credentials_ms = pick(&[200, 2_000, 60_000]) as u64;
    config.links.unchecked_credentials_max_ms = pick(&[3_000, 3_600_000]) as u64;
    let least = config.links.check_credentials_ms;
    config.links.unchecked_credentials_max_ms =
        config.links.unchecked_credentials_max_ms.max(least);
    config.scheduling.standing_wait_max_ms = pick(&[0, 100, 1_500]) as u64;
    config.scheduling.standing_scan_wait_max_ms = pick(&[0, 100, 10_000]) as u64;
    config.admin.show_keys = pick(&[0, 1]) == 1;
    // What it refuses is said not to have been done.
    if pick(&[0, 0, 0, 0, 0, 0, 0, 1]) == 1 {
        config.rules.push(RuleSettings {
            name: "some".to_owned(),
            keyspace: "ks".into(),
            table: [Names::default(), "t".into()][pick(&[0, 1])].clone(),
            requests_per_second: [None, Some(200.0)][pick(&[0, 1])],
            in_flight: Some(pick(&[1, 8]) as u32),
            ..RuleSettings::default()
        });
    }
    config
}
