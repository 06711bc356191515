//! One run.

use super::node::{Node, RequestId};
use super::outcome::{Outcome, Windows};
use super::setup::{Demand, Setup};
use crate::dice::Dice;
use crate::events::Events;
use crate::keys::Keys;
use helenus_policy::choice::{Choice, Request, Sent, Settings};
use helenus_policy::ring::NodeIndex;

enum Event {
    /// A request comes, by chance.
    Ask,
    /// A client asks again.
    AskAgain(usize),
    /// A request reaches a node.
    Arrived(RequestId, NodeIndex),
    /// A node's next request ends, unless the plan has changed.
    Ends(NodeIndex, u64),
    /// A node's answer reaches the proxy.
    Answered(RequestId),
    TimedOut(RequestId),
    Window,
}

/// A request under way.
struct Flight {
    client: usize,
    proxy: usize,
    began_us: u64,
    /// Which the proxy has chosen.
    node: NodeIndex,
    sent: Sent,
    /// Answers until it is done.
    needed: u16,
    is_over: bool,
}

struct Proxy {
    choice: Choice,
    rotation: u64,
}

struct World<'a> {
    setup: &'a Setup,
    events: Events<Event>,
    dice: Dice,
    keys: Keys,
    nodes: Vec<Node>,
    windows: Vec<Windows>,
    proxies: Vec<Proxy>,
    flights: Vec<Flight>,
    all: Vec<NodeIndex>,
    scratch: Vec<NodeIndex>,
    /// The first request that is counted, and the first one after these.
    counted: std::ops::Range<RequestId>,
    began_us: u64,
    /// When the last request came by chance. Events have whole microseconds, in which many may come.
    asked_us: f64,
    ended: usize,
    outcome: Outcome,
}

/// Runs a setup: the same one gives the same outcome.
pub fn run(setup: &Setup) -> Outcome {
    let mut world = World::new(setup);
    match setup.demand {
        Demand::Clients(clients) => {
            for client in 0..clients {
                // Not all in one instant.
                let in_us = world.dice.below(setup.curve.alone_us() as u64);
                world.events.plan(in_us, Event::AskAgain(client));
            }
        }
        Demand::Rate(_) => world.events.plan(0, Event::Ask),
    }
    world.events.plan(setup.window_us(), Event::Window);
    while !world.is_over() {
        let Some(event) = world.events.poll_next() else {
            break;
        };
        world.handle(event);
    }
    world.finish()
}

impl World<'_> {
    fn new(setup: &Setup) -> World<'_> {
        let proxy = |at: usize| {
            let mut choice = Choice::new(Settings {
                policy: setup.policy,
                clients: u16::try_from(setup.proxies).unwrap_or(u16::MAX),
                ..Settings::default()
            });
            choice.grow_to(setup.nodes.into());
            let rotation = Dice::of(setup.seed, at as u64, 3).draw();
            Proxy { choice, rotation }
        };
        let warmup = setup.warmup();
        let nodes = usize::from(setup.nodes);
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
            ),
            nodes: std::iter::repeat_with(Node::default).take(nodes).collect(),
            windows: vec![Windows::default(); nodes],
            proxies: (0..setup.proxies.max(1)).map(proxy).collect(),
            flights: Vec::with_capacity(warmup + setup.requests),
            all: (0..setup.nodes).map(NodeIndex).collect(),
            scratch: Vec::new(),
            counted: warmup..warmup + setup.requests.max(1),
            began_us: 0,
            asked_us: 0.0,
            ended: 0,
            outcome: Outcome::default(),
        }
    }

    /// As many have ended as are counted. These need not be the same: while all are waited for, load would
    /// fade.
    fn is_over(&self) -> bool {
        self.ended >= self.counted.len()
    }

    fn is_counting(&self) -> bool {
        self.flights.len() > self.counted.start
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Ask => {
                self.ask(0);
                if let Demand::Rate(rate) = self.setup.demand {
                    self.asked_us -= self.dice.share().ln() * 1e6 / rate;
                    let at_us = self.asked_us.round() as u64;
                    let in_us = at_us.saturating_sub(self.events.now_us());
                    self.events.plan(in_us, Event::Ask);
                }
            }
            Event::AskAgain(client) => self.ask(client),
            Event::Arrived(id, node) => {
                let now_us = self.events.now_us();
                let work = self.dice.log_normal(self.setup.curve.sigma());
                let at = &mut self.nodes[node.as_usize()];
                at.on_request(now_us, id, work, &self.setup.curve);
                self.outcome.present_max = self.outcome.present_max.max(at.present());
                self.plan(node);
            }
            Event::Ends(node, generation) => {
                let now_us = self.events.now_us();
                let at = &mut self.nodes[node.as_usize()];
                if let Some(id) = at.on_end(now_us, generation, &self.setup.curve) {
                    self.plan(node);
                    self.events.plan(self.setup.hop_us, Event::Answered(id));
                }
            }
            Event::Answered(id) => self.on_answered(id),
            Event::TimedOut(id) => self.on_timed_out(id),
            Event::Window => {
                let is_counting = self.is_counting();
                for (node, windows) in self.nodes.iter_mut().zip(&mut self.windows) {
                    let came = node.take_came();
                    if is_counting {
                        windows.add(came);
                    }
                }
                self.events.plan(self.setup.window_us(), Event::Window);
            }
        }
    }

    fn plan(&mut self, node: NodeIndex) {
        if let Some(plan) = self.nodes[node.as_usize()].plan(&self.setup.curve) {
            let event = Event::Ends(node, plan.generation);
            self.events.plan(plan.in_us, event);
        }
    }

    fn ask(&mut self, client: usize) {
        let (now_us, setup) = (self.events.now_us(), self.setup);
        let id = self.flights.len();
        if id == self.counted.start {
            self.began_us = now_us;
        }
        let hash = self.keys.draw(&mut self.dice);
        let is_write = setup.write_share > 0.0 && self.dice.share() <= setup.write_share;
        let at = match setup.demand {
            Demand::Clients(_) => client % self.proxies.len(),
            Demand::Rate(_) => self.dice.below(self.proxies.len() as u64) as usize,
        };
        let proxy = &mut self.proxies[at];
        proxy.rotation = proxy.rotation.wrapping_add(1);
        let work_us = setup.curve.alone_us() as u32;
        self.scratch.clear();
        match proxy.choice.policy().is_over_all_nodes() {
            true => self.scratch.extend(&self.all),
            false => self.scratch.extend(self.keys.owners(hash)),
        }
        let request = Request {
            now_us,
            work_us,
            rotation: proxy.rotation,
            affinity: Some((hash >> 32) as u32),
            near: 0,
        };
        proxy.choice.order(&request, &mut self.scratch);
        let node = self.scratch[0];
        let sent = proxy.choice.on_sent(now_us, node, work_us);
        self.flights.push(Flight {
            client,
            proxy: at,
            began_us: now_us,
            node,
            sent,
            needed: match is_write {
                true => setup.replicas / 2 + 1,
                false => 1,
            },
            is_over: false,
        });
        match is_write {
            true => {
                for owner in self.keys.owners(hash) {
                    self.events.plan(setup.hop_us, Event::Arrived(id, owner));
                }
            }
            false => self.events.plan(setup.hop_us, Event::Arrived(id, node)),
        }
        self.events.plan(setup.timeout_us, Event::TimedOut(id));
    }

    fn on_answered(&mut self, id: RequestId) {
        let now_us = self.events.now_us();
        let flight = &mut self.flights[id];
        flight.needed = flight.needed.saturating_sub(1);
        if flight.needed > 0 || std::mem::replace(&mut flight.is_over, true) {
            return;
        }
        let us = now_us - flight.began_us;
        let choice = &mut self.proxies[flight.proxy].choice;
        let service_us = u32::try_from(us).unwrap_or(u32::MAX);
        choice.on_answer(now_us, flight.node, flight.sent, service_us);
        let client = flight.client;
        if self.is_counting() {
            self.outcome.note(us);
        }
        self.end(client);
    }

    fn on_timed_out(&mut self, id: RequestId) {
        let now_us = self.events.now_us();
        let flight = &mut self.flights[id];
        if std::mem::replace(&mut flight.is_over, true) {
            return;
        }
        let choice = &mut self.proxies[flight.proxy].choice;
        choice.on_gone(flight.node, flight.sent);
        choice.on_failure(now_us, flight.node);
        let client = flight.client;
        if self.is_counting() {
            self.outcome.timed_out += 1;
        }
        self.end(client);
    }

    fn end(&mut self, client: usize) {
        self.ended += usize::from(self.is_counting());
        if let Demand::Clients(_) = self.setup.demand {
            self.events.plan(0, Event::AskAgain(client));
        }
    }

    fn finish(mut self) -> Outcome {
        let seconds = (self.events.now_us() - self.began_us) as f64 / 1e6;
        let sums = self.windows.iter().map(Windows::sum);
        let most = sums.clone().fold(0.0, f64::max);
        let mean = sums.sum::<f64>() / self.windows.len().max(1) as f64;
        let dispersions = self.windows.iter().filter_map(Windows::dispersion);
        let dispersions: Vec<f64> = dispersions.collect();
        self.outcome.seconds = seconds;
        self.outcome.busiest_vs_mean = most / mean.max(1e-9);
        self.outcome.herding = dispersions.iter().sum::<f64>() / dispersions.len().max(1) as f64;
        self.outcome.finish();
        self.outcome
    }
}
