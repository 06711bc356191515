mod elsewhere;
mod returning;

use super::load::{EJECTION_US, JOIN_START_US, SLOW_START_US, STALE_US};
use super::*;
use crate::test_rng::{TestRng, for_seeds};

const WORK_US: u32 = 500;
const NODES: u16 = 3;
/// Requests arrive this far from each other: two in flight at a time, on three nodes.
const GAP_US: u64 = 250;

/// Three replicas of everything, and what is in flight there.
struct Model {
    choice: Choice,
    now_us: u64,
    rotation: u64,
    /// Service time of each node as a multiple of what is predicted; `None`: it is frozen.
    factors: [Option<f64>; NODES as usize],
    in_flight: Vec<InFlight>,
    sigma: f64,
    rng: TestRng,
}

struct InFlight {
    done_us: u64,
    began_us: u64,
    node: NodeIndex,
    sent: Sent,
}

impl Model {
    fn new(policy: Policy, seed: u64) -> Model {
        let mut choice = Choice::new(Settings {
            policy,
            ..Settings::default()
        });
        choice.grow_to(NODES.into());
        Model {
            choice,
            now_us: 10_000_000,
            rotation: seed,
            factors: [Some(1.0); NODES as usize],
            in_flight: Vec::new(),
            sigma: 0.0,
            rng: TestRng::new(seed),
        }
    }

    /// One request, a little later than the last one; where it went.
    fn ask(&mut self, affinity: Option<u32>) -> NodeIndex {
        self.pass(GAP_US);
        let node = self.first(affinity);
        let sent = self.choice.on_sent(self.now_us, node, WORK_US);
        // Between a half and one and a half, if it varies at all.
        let noise = 1.0 + self.sigma * (self.rng.below(1_000) as f64 / 1_000.0 - 0.5);
        let factor = self.factors[node.as_usize()];
        let done_us = factor.map_or(u64::MAX, |factor| {
            self.now_us + (f64::from(WORK_US) * factor * noise) as u64
        });
        self.in_flight.push(InFlight {
            done_us,
            began_us: self.now_us,
            node,
            sent,
        });
        node
    }

    fn first(&mut self, affinity: Option<u32>) -> NodeIndex {
        self.ordered(affinity)[0]
    }

    fn ordered(&mut self, affinity: Option<u32>) -> Vec<NodeIndex> {
        self.rotation += 1;
        let mut nodes: Vec<NodeIndex> = (0..NODES).map(NodeIndex).collect();
        let request = Request {
            now_us: self.now_us,
            work_us: WORK_US,
            rotation: self.rotation,
            affinity,
            near: 0,
        };
        self.choice.order(&request, &mut nodes);
        nodes
    }

    fn view(&self, node: NodeIndex) -> View {
        let soonest_us = self.choice.soonest_us(self.now_us);
        self.choice.view(self.now_us, node, soonest_us)
    }

    fn pass(&mut self, us: u64) {
        self.now_us += us;
        let now_us = self.now_us;
        let (mut done, left): (Vec<InFlight>, Vec<InFlight>) = self
            .in_flight
            .drain(..)
            .partition(|request| request.done_us <= now_us);
        self.in_flight = left;
        done.sort_by_key(|request| request.done_us);
        for InFlight {
            done_us,
            began_us,
            node,
            sent,
        } in done
        {
            let service_us = (done_us - began_us) as u32;
            self.choice.on_answer(done_us, node, sent, service_us);
        }
    }

    /// How many of these requests, of all keys in turn, each node gets.
    fn shares(&mut self, requests: u32) -> [u32; NODES as usize] {
        let mut shares = [0; NODES as usize];
        for affinity in 0..requests {
            shares[self.ask(Some(affinity)).as_usize()] += 1;
        }
        shares
    }
}

fn reported(choice: &mut Choice, at_us: u64, cpu: [f32; 3], disk: [f32; 3]) {
    for node in 0..NODES {
        let report = Report {
            at_us,
            cpu: cpu[usize::from(node)],
            disk: disk[usize::from(node)],
            memory: 0.5,
            ..Report::default()
        };
        choice.on_report(NodeIndex(node), report);
    }
}

#[test]
fn names_are_found_again() {
    for policy in Policy::ALL {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    assert!("fastest".parse::<Policy>().is_err());
}

#[test]
fn every_order_has_every_node_once() {
    for_seeds(500, |seed, rng| {
        for policy in Policy::ALL {
            let mut model = Model::new(policy, seed);
            model.sigma = 1.0;
            model.factors = std::array::from_fn(|_| match rng.below(4) {
                0 => None,
                n => Some((n * n) as f64),
            });
            for _ in 0..50 {
                model.ask((rng.below(2) == 0).then_some(rng.next() as u32));
                if rng.below(10) == 0 {
                    let node = NodeIndex(rng.below(3) as u16);
                    model.choice.on_failure(model.now_us, node);
                }
                let mut nodes = model.ordered(Some(rng.next() as u32));
                nodes.sort();
                assert_eq!(
                    nodes,
                    [NodeIndex(0), NodeIndex(1), NodeIndex(2)],
                    "{policy}"
                );
            }
        }
    });
}

#[test]
fn first_is_first_and_others_take_turns() {
    let mut model = Model::new(Policy::First, 0);
    assert_eq!(model.shares(30), [30, 0, 0]);
    let mut model = Model::new(Policy::TokenAware, 0);
    assert_eq!(model.shares(30), [10, 10, 10]);
}

#[test]
fn an_idle_cluster_keeps_each_key_on_one_node_and_spreads_the_keys() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    model.sigma = 0.5;
    for at in 0..3_000u32 {
        let node = model.ask(Some(at));
        assert_eq!(u32::from(node.0), at % 3, "request {at}");
    }
}

#[test]
fn requests_without_a_key_are_spread_evenly() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    let mut shares = [0; 3];
    for _ in 0..3_000 {
        shares[model.ask(None).as_usize()] += 1;
    }
    assert!(
        shares.iter().all(|n| (900..1_100).contains(n)),
        "{shares:?}"
    );
}

#[test]
fn a_hot_key_is_helped_by_other_replicas() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    let mut shares = [0; 3];
    for _ in 0..3_000 {
        // Ten times as many as one node is taken to serve at a time.
        model.now_us -= GAP_US - 12;
        shares[model.ask(Some(0)).as_usize()] += 1;
    }
    assert!(shares.iter().all(|n| *n > 600), "{shares:?}");
}

#[test]
fn a_node_that_becomes_ten_times_slower_is_left_within_ten_answers() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    model.shares(1_000);
    model.factors[1] = Some(10.0);
    let mut sent = 0;
    for at in 0..300 {
        sent += u32::from(model.ask(Some(at)) == NodeIndex(1));
    }
    assert!(sent <= 10, "{sent} requests went to the slow node");
}

#[test]
fn a_slow_node_gets_few_requests_for_as_long_as_it_is_slow() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    model.factors[1] = Some(10.0);
    let [_, slow, _] = model.shares(100_000);
    assert!((5..1_000).contains(&slow), "{slow}");
}

#[test]
fn a_node_that_recovers_gets_its_share_again() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    model.factors[1] = Some(10.0);
    model.shares(40_000);
    model.factors[1] = Some(1.0);
    let requests = (3 * (STALE_US + SLOW_START_US) / GAP_US) as u32;
    model.shares(requests);
    let shares = model.shares(3_000);
    assert!(shares[1] > 900, "{shares:?}");
}

#[test]
fn a_frozen_node_is_left_although_it_reports_no_latency() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    model.shares(1_000);
    model.factors[1] = None;
    let mut sent = 0;
    // Five seconds.
    for at in 0..20_000 {
        sent += u32::from(model.ask(Some(at)) == NodeIndex(1));
    }
    assert!(sent <= 8, "{sent} requests went to the frozen node");
}

/// A node that has just been started is slow until it has had something to do.
#[test]
fn a_slow_node_gets_enough_to_warm_up_and_too_little_to_show_in_a_p99() {
    for factor in [3.0, 8.0] {
        let mut model = Model::new(Policy::EarliestFinish, 1);
        model.shares(1_000);
        model.factors[1] = Some(factor);
        model.shares(1_000);
        let [_, slow, _] = model.shares(40_000);
        assert!((100..400).contains(&slow), "{slow} of 40,000 at {factor}");
        let mut written = 0;
        for _ in 0..40_000 {
            written += u32::from(model.ask(None) == NodeIndex(1));
        }
        assert!((100..400).contains(&written), "{written} of 40,000 writes");
    }
}

/// As with hedging: what the node has had for 10 ms is given up, because another has answered it.
#[test]
fn a_frozen_node_stays_left_when_its_requests_are_answered_elsewhere() {
    const PATIENCE_US: u64 = 10_000;
    let mut model = Model::new(Policy::EarliestFinish, 1);
    model.shares(1_000);
    model.factors[1] = None;
    let mut sent = 0;
    for at in 0..20_000 {
        sent += u32::from(model.ask(Some(at)) == NodeIndex(1));
        let now_us = model.now_us;
        let is_overtaken = |of: &InFlight| now_us >= of.began_us + PATIENCE_US;
        let (overtaken, left) = model.in_flight.drain(..).partition(is_overtaken);
        model.in_flight = left;
        let overtaken: Vec<InFlight> = overtaken;
        for of in overtaken {
            let waited_us = (now_us - of.began_us) as u32;
            assert!(model.choice.on_overtaken(now_us, of.node, waited_us));
            model.choice.on_gone(of.node, of.sent);
        }
    }
    // A few each second.
    assert!(sent <= 5 * 12, "{sent} requests went to the frozen node");
    model.factors[1] = Some(1.0);
    model.shares(40_000);
    let [_, back, _] = model.shares(3_000);
    assert!(back > 500, "{back} of 3,000 go to it when it is back");
}

#[test]
fn stale_signals_fade() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    model.factors[1] = Some(5.0);
    model.shares(1_000);
    let slow = |model: &Model| {
        let score = |node| model.view(NodeIndex(node)).score_us as f64;
        score(1) / score(0)
    };
    assert!(slow(&model) > 3.0, "{}", slow(&model));
    model.pass(STALE_US / 2);
    let half = slow(&model);
    assert!((1.5..4.0).contains(&half), "{half}");
    model.pass(STALE_US / 2 + 1);
    assert!((slow(&model) - 1.0).abs() < 0.01, "{}", slow(&model));
}

#[test]
fn the_local_rack_is_preferred_until_it_is_much_worse() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    let near_one = |model: &mut Model| {
        model.rotation += 1;
        let mut nodes = [NodeIndex(0), NodeIndex(1), NodeIndex(2)];
        let request = Request {
            now_us: model.now_us,
            work_us: WORK_US,
            rotation: model.rotation,
            affinity: Some(0),
            near: 0b010,
        };
        model.choice.order(&request, &mut nodes);
        nodes[0]
    };
    model.shares(300);
    assert_eq!(near_one(&mut model), NodeIndex(1));
    model.factors[1] = Some(5.0);
    for _ in 0..20 {
        let sent = model.choice.on_sent(model.now_us, NodeIndex(1), WORK_US);
        model
            .choice
            .on_answer(model.now_us, NodeIndex(1), sent, 5 * WORK_US);
    }
    assert_ne!(near_one(&mut model), NodeIndex(1));
}

#[test]
fn what_was_outstanding_comes_back() {
    for_seeds(200, |seed, rng| {
        let mut choice = Choice::new(Settings::default());
        choice.grow_to(1);
        let node = NodeIndex(0);
        let (mut waits, mut sent) = (Vec::new(), Vec::new());
        for at in 0..200 {
            let work_us = rng.next() as u32 >> rng.below(32);
            match rng.below(5) {
                0 => {
                    choice.on_waits(node, work_us);
                    waits.push(work_us);
                }
                1 => _ = waits.pop().map(|work_us| choice.on_left(node, work_us)),
                2 => sent.push(choice.on_sent(at, node, work_us)),
                3 => _ = sent.pop().map(|s| choice.on_answer(at, node, s, work_us)),
                _ => _ = sent.pop().map(|s| choice.on_gone(node, s)),
            }
        }
        waits
            .into_iter()
            .for_each(|work_us| choice.on_left(node, work_us));
        sent.into_iter()
            .for_each(|sent| choice.on_error(200, node, sent));
        assert_eq!(choice.outstanding(node), (0, 0, 0), "seed {seed}");
    });
}

#[test]
fn the_least_used_node_is_chosen_while_reports_are_fresh() {
    let mut model = Model::new(Policy::ResourceV1, 0);
    assert_eq!(model.shares(30), [10, 10, 10], "no reports");
    let at_us = model.now_us;
    reported(&mut model.choice, at_us, [0.9, 0.2, 0.5], [0.0, 0.9, 0.0]);
    assert_eq!(model.shares(30), [0, 30, 0]);
    model.choice.set_settings(Settings {
        policy: Policy::ResourceV2,
        ..Settings::default()
    });
    assert_eq!(model.shares(30), [0, 0, 30], "the disk counts");
    reported(&mut model.choice, at_us, [7.0, f32::NAN, -1.0], [0.0; 3]);
    model.shares(30);
    model.now_us += 10_000_000;
    assert_eq!(model.shares(30), [10, 10, 10], "reports are old");
}

#[test]
fn a_node_that_calls_itself_idle_and_is_slow_is_not_believed() {
    for (factor, is_believed) in [(1.0, true), (3.0, true), (40.0, false)] {
        let mut model = Model::new(Policy::ResourceV1, 0);
        model.factors[1] = Some(factor);
        // Without reports all take turns, and what each takes is seen.
        model.shares(600);
        let at_us = model.now_us;
        reported(&mut model.choice, at_us, [0.6, 0.0, 0.7], [0.0; 3]);
        let view = model.view(NodeIndex(1));
        let others = model.view(NodeIndex(0));
        let [busy, idle, _] = model.shares(20);
        assert_eq!(view.is_contradicted, !is_believed, "at {factor}");
        match is_believed {
            true => assert_eq!((busy, idle), (0, 20), "at {factor}"),
            false => assert_eq!((busy, idle), (20, 0), "at {factor}"),
        }
        assert!(!others.is_contradicted);
        assert!(view.slowdown > others.slowdown || factor == 1.0);
    }
}

#[test]
fn c3_shuns_queues_by_their_third_power() {
    let mut model = Model::new(Policy::C3, 0);
    for _ in 0..3 {
        model.choice.on_sent(0, NodeIndex(0), WORK_US);
    }
    model.choice.on_sent(0, NodeIndex(1), WORK_US);
    assert_eq!(
        model.ordered(None),
        [NodeIndex(2), NodeIndex(1), NodeIndex(0)]
    );
    let mut model = Model::new(Policy::C3, 0);
    model.factors[1] = Some(10.0);
    let [_, slow, _] = model.shares(3_000);
    assert!(slow < 300, "{slow}");
}

#[test]
fn predictions_that_are_all_wrong_eject_nobody() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    model.factors = [Some(50.0); 3];
    for at in 0..3_000 {
        // One key first, then all.
        model.pass(20_000);
        model.ask(Some(at.min(100) / 100 * at));
    }
    for node in 0..NODES {
        assert_eq!(model.view(NodeIndex(node)).ejections, 0);
    }
}

#[test]
fn a_node_that_answers_all_at_once_with_errors_attracts_nothing() {
    for gap_us in [250, 60, 20] {
        let mut model = Model::new(Policy::EarliestFinish, 1);
        let mut in_flight: Vec<InFlight> = Vec::new();
        let mut shares = [0; NODES as usize];
        for affinity in 0..5_000 {
            model.now_us += gap_us;
            let now_us = model.now_us;
            for at in (0..in_flight.len()).rev() {
                if in_flight[at].done_us > now_us {
                    continue;
                }
                let of = in_flight.swap_remove(at);
                let service_us = (of.done_us - of.began_us) as u32;
                match of.node {
                    NodeIndex(0) => model.choice.on_error(now_us, of.node, of.sent),
                    node => model.choice.on_answer(now_us, node, of.sent, service_us),
                }
            }
            let node = model.first(Some(affinity));
            shares[node.as_usize()] += 1;
            let beside = in_flight.iter().filter(|of| of.node == node).count() as u64;
            let service_us = match node {
                NodeIndex(0) => 50,
                _ => u64::from(WORK_US) / 2 * (2 + beside / 2),
            };
            in_flight.push(InFlight {
                done_us: now_us + service_us,
                began_us: now_us,
                node,
                sent: model.choice.on_sent(now_us, node, WORK_US),
            });
        }
        assert!(shares[0] < 2_000, "every {gap_us} us: {shares:?}");
    }
}

#[test]
fn long_work_avoids_nodes_that_are_slow_silent_or_failing() {
    let nodes = [NodeIndex(0), NodeIndex(1), NodeIndex(2)];
    let lagging = |model: &Model| model.choice.lagging(model.now_us, &nodes);
    let mut model = Model::new(Policy::TokenAware, 1);
    for _ in 0..1_000 {
        model.ask(None);
    }
    assert_eq!(lagging(&model), 0b000);
    model.factors[0] = Some(12.0);
    for _ in 0..300 {
        model.ask(None);
    }
    assert_eq!(lagging(&model), 0b001);
    model.factors[1] = None;
    for _ in 0..8_000 {
        model.ask(None);
    }
    assert_eq!(lagging(&model), 0b011);
    for _ in 0..4 {
        model.choice.on_failure(model.now_us, nodes[2]);
    }
    assert_eq!(lagging(&model), 0b111);
}

#[test]
fn of_a_node_that_was_slow_one_piece_of_long_work_at_a_time_tells_whether_it_still_is() {
    let nodes = [NodeIndex(0), NodeIndex(1), NodeIndex(2)];
    let after = |factor: u32| {
        let mut choice = Choice::new(Settings::default());
        choice.grow_to(nodes.len());
        let mut now_us = 1_000_000;
        let mut ask = |choice: &mut Choice, node, factor: u32| {
            let sent = choice.on_sent(now_us, node, WORK_US);
            let lags_meanwhile = choice.lagging(now_us, &nodes);
            now_us += u64::from(factor * WORK_US);
            choice.on_answer(now_us, node, sent, factor * WORK_US);
            (now_us, lags_meanwhile)
        };
        for (node, factor) in nodes.iter().zip([5, 1, 1]).cycle().take(1_000) {
            ask(&mut choice, *node, factor);
        }
        // Nobody asks it for so long that what is known of it counts no more.
        for node in nodes[1..].iter().cycle().take(20_000) {
            ask(&mut choice, *node, 1);
        }
        let (_, lags_meanwhile) = ask(&mut choice, nodes[1], 1);
        assert_eq!(lags_meanwhile, 0b000);
        let (now_us, lags_meanwhile) = ask(&mut choice, nodes[0], factor);
        assert_eq!(lags_meanwhile, 0b001, "one is under way");
        choice.lagging(now_us, &nodes)
    };
    assert_eq!(after(5), 0b001, "it still is");
    assert_eq!(after(1), 0b000, "it has recovered");
}

#[test]
fn a_key_leaves_its_replica_sooner_if_that_has_few_processors() {
    let first = |processors: Option<u32>| {
        let mut choice = Choice::new(Settings::default());
        choice.grow_to(3);
        let mut nodes = [NodeIndex(0), NodeIndex(1), NodeIndex(2)];
        for node in nodes {
            choice.set_processors(node, processors);
            // None of them is cold.
            for at in 0..300 {
                let sent = choice.on_sent(at, node, WORK_US);
                choice.on_answer(at, node, sent, WORK_US);
            }
        }
        choice.on_sent(300, nodes[0], WORK_US);
        let request = Request {
            now_us: 300,
            work_us: WORK_US,
            rotation: 1,
            affinity: Some(0),
            near: 0,
        };
        choice.order(&request, &mut nodes);
        nodes[0]
    };
    for many in [Some(4), Some(64), None] {
        assert_eq!(first(many), NodeIndex(0), "{many:?}");
    }
    for few in [Some(0), Some(1), Some(2)] {
        assert_ne!(first(few), NodeIndex(0), "{few:?}");
    }
}
