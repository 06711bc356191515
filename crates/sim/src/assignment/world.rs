//! One run: what happens, one event after another.

use helenus_policy::choice::{Choice, Policy, Report, Request, Sent, Settings};
use helenus_policy::hot::{HotSet, Partition, Sampler, Sketch, Use};
use helenus_policy::ring::NodeIndex;

use crate::assignment::node::{Node, RequestId};
use crate::assignment::outcome::Outcome;
use crate::assignment::setup::{Cell, Setup};
use crate::dice::Dice;
use crate::events::Events;
use crate::keys::Keys;

const SLOW: f64 = 5.0;
const FROZEN_US: u64 = 5_000_000;
/// As in production.
const HOT_PLACES: usize = 512;
const HOT_HALF_LIFE_US: u64 = 10_000_000;
const TICK_US: u64 = 100_000;
/// Of a node that has not much to do.
const MEMORY_USED: f32 = 0.5;

enum Event {
    /// The next client asks.
    Ask,
    /// A request reaches a node.
    Arrived(RequestId),
    /// A node has served a request.
    Served(RequestId),
    /// The answer reaches its proxy.
    Answered(RequestId),
    TimedOut(RequestId),
    /// All nodes say how busy they are.
    Measure,
    /// A report of one of them reaches the proxies.
    Report(NodeIndex, Report),
    Freeze,
    /// Proxies look which partitions are hot.
    Tick,
}

/// A request under way.
struct Flight {
    proxy: usize,
    began_us: u64,
    is_hot: bool,
    /// Whom the proxy has asked.
    coordinator: NodeIndex,
    /// Who has it now.
    node: NodeIndex,
    /// Who has the data, if not the coordinator.
    owner: Option<NodeIndex>,
    sent: Sent,
    is_over: bool,
}

struct Proxy {
    choice: Choice,
    rotation: u64,
    sampler: Sampler,
    sketch: Sketch<()>,
    hot: HotSet,
}

struct World<'a> {
    setup: &'a Setup,
    events: Events<Event>,
    dice: Dice,
    keys: Keys,
    nodes: Vec<Node>,
    proxies: Vec<Proxy>,
    flights: Vec<Flight>,
    all: Vec<NodeIndex>,
    scratch: Vec<NodeIndex>,
    outcome: Outcome,
    measured_us: u64,
}

/// Runs one cell with one policy.
pub fn run(setup: &Setup, policy: Policy) -> Outcome {
    let mut world = World::new(setup, policy);
    world.events.plan(0, Event::Ask);
    world.events.plan(setup.report_every_us, Event::Measure);
    if setup.spreads_hot {
        world.events.plan(TICK_US, Event::Tick);
    }
    if setup.cell == Cell::Frozen {
        let at_us = setup.warmup_us + setup.length_us / 8;
        world.events.plan(at_us, Event::Freeze);
    }
    let end_us = setup.warmup_us + setup.length_us;
    while let Some(event) = world.events.poll_next() {
        world.handle(event, end_us);
    }
    let longest = world.nodes.iter_mut().map(Node::take_longest).max();
    let mut outcome = world.outcome;
    outcome.queue_max = longest.unwrap_or(0);
    outcome.seconds = setup.length_us as f64 / 1e6;
    outcome.sort();
    outcome
}

impl World<'_> {
    fn new(setup: &Setup, policy: Policy) -> World<'_> {
        let node = |at: u16| {
            let is_slow = setup.cell.has_slow_nodes() && at % 2 == 1;
            Node::new(setup.lanes, if is_slow { SLOW } else { 1.0 })
        };
        let proxy = |at: usize| {
            let mut choice = Choice::new(Settings {
                policy,
                clients: u16::try_from(setup.proxies).unwrap_or(u16::MAX),
                ..Settings::default()
            });
            choice.grow_to(setup.nodes.into());
            let rotation = Dice::of(setup.seed, at as u64, 3).draw();
            Proxy {
                choice,
                rotation,
                sampler: Sampler::new(rotation),
                sketch: Sketch::new(HOT_PLACES, HOT_HALF_LIFE_US, 0),
                hot: HotSet::default(),
            }
        };
        World {
            setup,
            events: Events::default(),
            dice: Dice::new(setup.seed),
            keys: Keys::new(
                setup.seed,
                setup.keys,
                setup.zipf,
                setup.nodes,
                setup.replicas,
            )
            .with_hot(setup.hot_share),
            nodes: (0..setup.nodes).map(node).collect(),
            proxies: (0..setup.proxies).map(proxy).collect(),
            flights: Vec::new(),
            all: (0..setup.nodes).map(NodeIndex).collect(),
            scratch: Vec::new(),
            outcome: Outcome::of_nodes(setup.nodes.into()),
            measured_us: 0,
        }
    }

    fn handle(&mut self, event: Event, end_us: u64) {
        let now_us = self.events.now_us();
        match event {
            Event::Ask if now_us >= end_us => {}
            Event::Ask => {
                self.ask();
                let gap_us = -self.dice.share().ln() * 1e6 / self.setup.rate();
                self.events.plan(gap_us as u64, Event::Ask);
            }
            Event::Arrived(id) => {
                let node = self.flights[id].node;
                if self.nodes[node.as_usize()].on_request(now_us, id) {
                    self.serve(id);
                }
            }
            Event::Served(id) => self.on_served(id),
            Event::Answered(id) => self.on_answered(id),
            Event::TimedOut(id) => self.on_timed_out(id),
            Event::Measure => {
                self.measure();
                if now_us < end_us {
                    self.events.plan(self.setup.report_every_us, Event::Measure);
                }
            }
            Event::Report(node, mut report) => {
                report.at_us = now_us;
                for proxy in &mut self.proxies {
                    proxy.choice.on_report(node, report);
                }
            }
            Event::Tick => {
                self.tick();
                if now_us < end_us {
                    self.events.plan(TICK_US, Event::Tick);
                }
            }
            Event::Freeze => self.nodes[0].frozen_until_us = now_us + FROZEN_US,
        }
    }

    fn tick(&mut self) {
        let now_us = self.events.now_us();
        for proxy in &mut self.proxies {
            proxy.sketch.advance(now_us);
            proxy.hot.renew(&proxy.sketch, self.setup.nodes.into());
        }
    }

    fn ask(&mut self) {
        let now_us = self.events.now_us();
        let hash = self.keys.draw(&mut self.dice);
        let at = self.dice.below(self.proxies.len() as u64) as usize;
        let proxy = &mut self.proxies[at];
        proxy.rotation = proxy.rotation.wrapping_add(1);
        if proxy.sampler.takes() {
            let partition = Partition {
                token: hash as i64,
                ..Partition::default()
            };
            let of = Use {
                work_us: self.setup.work_us,
                ..Use::default()
            };
            proxy.sketch.note(partition, of, || ());
        }
        let is_over_all = proxy.choice.policy().is_over_all_nodes();
        self.scratch.clear();
        match is_over_all {
            true => self.scratch.extend(&self.all),
            false => self.scratch.extend(self.keys.owners(hash)),
        }
        let request = Request {
            now_us,
            work_us: self.setup.work_us,
            rotation: proxy.rotation,
            affinity: (!proxy.hot.contains(hash as i64)).then_some((hash >> 32) as u32),
            near: 0,
        };
        proxy.choice.order(&request, &mut self.scratch);
        let coordinator = self.scratch[0];
        let turn = (proxy.rotation % u64::from(self.setup.replicas)) as usize;
        let mut owners = self.keys.owners(hash);
        let is_owner = self.keys.owners(hash).any(|owner| owner == coordinator);
        let owner = match is_owner {
            true => None,
            false => owners.nth(turn),
        };
        let sent = proxy
            .choice
            .on_sent(now_us, coordinator, self.setup.work_us);
        let id = self.flights.len();
        self.flights.push(Flight {
            proxy: at,
            began_us: now_us,
            is_hot: hash == self.keys.hot(),
            coordinator,
            node: coordinator,
            owner,
            sent,
            is_over: false,
        });
        self.events.plan(self.setup.hop_us, Event::Arrived(id));
        self.events.plan(self.setup.timeout_us, Event::TimedOut(id));
    }

    fn serve(&mut self, id: RequestId) {
        let flight = &self.flights[id];
        let part = match flight.owner {
            Some(_) => self.setup.forward_share,
            None => 1.0,
        };
        let node = &self.nodes[flight.node.as_usize()];
        let noise = self.dice.log_normal(self.setup.sigma);
        let us = f64::from(self.setup.work_us) * part * node.factor * noise;
        let frozen_us = node.frozen_until_us.saturating_sub(self.events.now_us());
        let us = (us as u64).max(1) + frozen_us;
        self.events.plan(us, Event::Served(id));
    }

    fn on_served(&mut self, id: RequestId) {
        let now_us = self.events.now_us();
        let flight = &mut self.flights[id];
        let node = &mut self.nodes[flight.node.as_usize()];
        if node.frozen_until_us > now_us {
            let left_us = node.frozen_until_us - now_us;
            return self.events.plan(left_us, Event::Served(id));
        }
        let next = node.on_served(now_us);
        match flight.owner.take() {
            Some(owner) => {
                flight.node = owner;
                self.events.plan(self.setup.hop_us, Event::Arrived(id));
            }
            None => {
                let hops = 1 + u64::from(flight.node != flight.coordinator);
                let us = hops * self.setup.hop_us;
                self.events.plan(us, Event::Answered(id));
            }
        }
        if let Some(next) = next {
            self.serve(next);
        }
    }

    fn on_answered(&mut self, id: RequestId) {
        let now_us = self.events.now_us();
        let flight = &mut self.flights[id];
        if std::mem::replace(&mut flight.is_over, true) {
            return;
        }
        let us = now_us - flight.began_us;
        let choice = &mut self.proxies[flight.proxy].choice;
        choice.on_answer(now_us, flight.coordinator, flight.sent, us as u32);
        if flight.began_us >= self.setup.warmup_us {
            self.outcome.note(us, flight.is_hot);
            if flight.is_hot {
                self.outcome.hot_at[flight.coordinator.as_usize()] += 1;
            }
        }
    }

    fn on_timed_out(&mut self, id: RequestId) {
        let now_us = self.events.now_us();
        let flight = &mut self.flights[id];
        if std::mem::replace(&mut flight.is_over, true) {
            return;
        }
        let choice = &mut self.proxies[flight.proxy].choice;
        choice.on_gone(flight.coordinator, flight.sent);
        choice.on_failure(now_us, flight.coordinator);
        self.outcome.timed_out += u64::from(flight.began_us >= self.setup.warmup_us);
    }

    /// Nodes say how much is in use; slow ones are as busy with something else as they are slow.
    fn measure(&mut self) {
        let now_us = self.events.now_us();
        let since_us = std::mem::replace(&mut self.measured_us, now_us);
        let cell = self.setup.cell;
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let own = node.take_use(now_us, since_us);
            if node.frozen_until_us > now_us {
                continue;
            }
            let is_slow = node.factor > 1.0;
            let other = if is_slow {
                1.0 - 1.0 / SLOW as f32
            } else {
                0.0
            };
            let used = (own + other).min(1.0);
            let is_lie = cell == Cell::ReportsFalse && is_slow && at % 10 == 1;
            let used = if is_lie { 0.0 } else { used };
            let report = Report {
                cpu: used,
                memory: MEMORY_USED,
                disk: used,
                queue: node.waiting() as f32,
                service_us: self.setup.work_us as f32 * node.factor as f32,
                ..Report::default()
            };
            let is_lost = cell == Cell::ReportsLost && self.dice.below(10) != 0;
            let late_us = match cell {
                Cell::ReportsDelayed => 2_000_000,
                _ => self.setup.hop_us,
            };
            if !is_lost {
                let node = NodeIndex(at as u16);
                self.events.plan(late_us, Event::Report(node, report));
            }
        }
    }
}
