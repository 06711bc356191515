//! One run: what happens, one event after another.

use helenus_policy::choice::{Report, Sent};
use helenus_policy::ring::NodeIndex;

use super::node::{Due, Node, Plan, RequestId, Work};
use super::outcome::{Outcome, Windows};
use super::proxy::Proxy;
use super::setup::{Cell, Demand, Extent, Setup};
use crate::dice::Dice;
use crate::events::Events;
use crate::keys::Keys;
use crate::times::Times;

const SLOW: f64 = 5.0;
const FROZEN_US: u64 = 5_000_000;
/// As in production.
const TICK_US: u64 = 100_000;
/// Of a node that has not much to do.
const MEMORY_USED: f32 = 0.5;

enum Event {
    /// A request comes, by chance.
    Ask,
    /// A client asks again.
    AskAgain(usize),
    /// A request reaches a node.
    Arrived(RequestId, NodeIndex),
    Due(NodeIndex, Due),
    /// A node's answer reaches the proxy.
    Answered(RequestId),
    TimedOut(RequestId),
    /// All nodes say how busy they are.
    Measure,
    /// A report of one of them reaches the proxies.
    Report(NodeIndex, Report),
    Freeze,
    /// Proxies look which partitions are hot.
    Tick,
    /// What came to each node is counted.
    Window,
}

/// A request under way.
struct Flight {
    client: usize,
    proxy: usize,
    began_us: u64,
    is_hot: bool,
    /// Which the proxy has chosen.
    coordinator: NodeIndex,
    /// Who is asked by the coordinator, if it has not the data itself.
    owner: Option<NodeIndex>,
    is_forwarded: bool,
    sent: Sent,
    /// Answers until it is done.
    needed: u16,
    is_over: bool,
}

struct Model<'a> {
    setup: &'a Setup,
    events: Events<Event>,
    dice: Dice,
    keys: Keys,
    nodes: Vec<Node<'a>>,
    windows: Vec<Windows>,
    proxies: Vec<Proxy<'a>>,
    flights: Vec<Flight>,
    /// When the first request came that counts, if these are so many.
    began_us: u64,
    /// When the last request came by chance. Events have whole microseconds, in which many may come.
    asked_us: f64,
    ended: usize,
    times_us: Vec<u64>,
    others_us: Vec<u64>,
    outcome: Outcome,
}

/// Runs a setup: the same one gives the same outcome.
pub fn run(setup: &Setup) -> Outcome {
    let mut model = Model::new(setup);
    model.begin();
    while !model.is_over()
        && let Some(event) = model.events.poll_next()
    {
        model.handle(event);
    }
    model.finish()
}

impl Model<'_> {
    fn new(setup: &Setup) -> Model<'_> {
        let node = |at: u16| {
            let is_slow = setup.cell.has_slow_nodes() && at % 2 == 1;
            Node::new(setup, if is_slow { SLOW } else { 1.0 })
        };
        let (seed, nodes) = (setup.seed, setup.nodes.into());
        let proxies = (0..setup.proxies.max(1)).map(|at| Proxy::new(setup, at));
        let keys = Keys::new(seed, setup.keys, setup.zipf, setup.nodes, setup.replicas);
        Model {
            setup,
            events: Events::default(),
            dice: Dice::new(seed),
            keys: keys.with_hot(setup.hot_share),
            nodes: (0..setup.nodes).map(node).collect(),
            windows: vec![Windows::default(); nodes],
            proxies: proxies.collect(),
            flights: Vec::new(),
            began_us: 0,
            asked_us: 0.0,
            ended: 0,
            times_us: Vec::new(),
            others_us: Vec::new(),
            outcome: Outcome {
                hot_at: vec![0; nodes],
                ..Outcome::default()
            },
        }
    }

    fn begin(&mut self) {
        let setup = self.setup;
        match setup.demand {
            Demand::Clients(clients) => {
                for client in 0..clients {
                    // Not all in one instant.
                    let in_us = self.dice.below(setup.service.alone_us() as u64);
                    self.events.plan(in_us, Event::AskAgain(client));
                }
            }
            Demand::Rate(_) | Demand::Utilisation(_) => self.events.plan(0, Event::Ask),
        }
        if let Some(every_us) = setup.report_every_us {
            self.events.plan(every_us, Event::Measure);
        }
        if setup.spreads_hot {
            self.events.plan(TICK_US, Event::Tick);
        }
        if let Some(at_us) = setup.freeze_us() {
            self.events.plan(at_us, Event::Freeze);
        }
        self.events.plan(setup.window_us(), Event::Window);
    }

    /// As many have ended as are counted. These need not be the same: while all are waited for, load would
    /// fade.
    fn is_over(&self) -> bool {
        match self.setup.extent {
            Extent::Time(_) => false,
            Extent::Requests(requests) => self.ended >= requests.max(1),
        }
    }

    /// True if a request counts that came then and ends now.
    fn is_counted(&self, began_us: u64) -> bool {
        match &self.setup.extent {
            Extent::Time(time) => began_us >= time.start,
            Extent::Requests(_) => self.flights.len() > self.setup.warmup(),
        }
    }

    fn handle(&mut self, event: Event) {
        let (now_us, setup) = (self.events.now_us(), self.setup);
        match event {
            Event::Ask | Event::AskAgain(_) if now_us >= setup.end_us() => {}
            Event::Ask => {
                self.ask(0);
                self.plan_ask();
            }
            Event::AskAgain(client) => self.ask(client),
            Event::Arrived(id, node) => self.on_arrived(id, node),
            Event::Due(node, due) => {
                let at = &mut self.nodes[node.as_usize()];
                let (served, plan) = at.on_due(now_us, due, &mut self.dice);
                // In one instant, an answer of a lane comes before what the lane does next, any other behind it.
                let (before, behind) = match due {
                    Due::Served(_) => (None, plan),
                    Due::Ends(_) => (plan, None),
                };
                self.plan(node, before);
                if let Some(id) = served {
                    self.on_served(id);
                }
                self.plan(node, behind);
            }
            Event::Answered(id) => self.on_answered(id),
            Event::TimedOut(id) => self.on_timed_out(id),
            Event::Measure => {
                self.measure();
                if let Some(every_us) = setup.report_every_us {
                    self.plan_again(every_us, Event::Measure);
                }
            }
            Event::Report(node, mut report) => {
                report.at_us = now_us;
                for proxy in &mut self.proxies {
                    proxy.choice.on_report(node, report);
                }
            }
            Event::Freeze => {
                let plan = self.nodes[0].stall(now_us, now_us + FROZEN_US);
                self.plan(NodeIndex(0), plan);
            }
            Event::Tick => {
                for proxy in &mut self.proxies {
                    proxy.on_tick(now_us);
                }
                self.plan_again(TICK_US, Event::Tick);
            }
            Event::Window => {
                let is_counted = self.is_counted(now_us);
                for (node, windows) in self.nodes.iter_mut().zip(&mut self.windows) {
                    let came = node.take_came();
                    if is_counted {
                        windows.add(came);
                    }
                }
                self.plan_again(setup.window_us(), Event::Window);
            }
        }
    }

    /// The next request that comes by chance.
    fn plan_ask(&mut self) {
        let now_us = self.events.now_us();
        let in_us = match self.setup.demand {
            Demand::Clients(_) => return,
            Demand::Rate(rate) => {
                self.asked_us += self.dice.gap_us(rate);
                (self.asked_us.round() as u64).saturating_sub(now_us)
            }
            Demand::Utilisation(share) => self.dice.gap_us(share * self.setup.bound()) as u64,
        };
        self.events.plan(in_us, Event::Ask);
    }

    fn plan(&mut self, node: NodeIndex, plan: Option<Plan>) {
        if let Some((in_us, due)) = plan {
            self.events.plan(in_us, Event::Due(node, due));
        }
    }

    /// As long as requests come.
    fn plan_again(&mut self, in_us: u64, event: Event) {
        if self.events.now_us() < self.setup.end_us() {
            self.events.plan(in_us, event);
        }
    }

    fn ask(&mut self, client: usize) {
        let (now_us, setup) = (self.events.now_us(), self.setup);
        let id = self.flights.len();
        if id == setup.warmup() {
            self.began_us = now_us;
        }
        let hash = self.keys.draw(&mut self.dice);
        let is_write = setup.write_share > 0.0 && self.dice.share() <= setup.write_share;
        let at = match setup.demand {
            Demand::Clients(_) => client % self.proxies.len(),
            Demand::Rate(_) | Demand::Utilisation(_) => {
                self.dice.below(self.proxies.len() as u64) as usize
            }
        };
        let proxy = &mut self.proxies[at];
        let (coordinator, owner) = proxy.choose(now_us, hash, &self.keys);
        let sent = proxy.choice.on_sent(now_us, coordinator, setup.work_us());
        self.flights.push(Flight {
            client,
            proxy: at,
            began_us: now_us,
            is_hot: hash == self.keys.hot(),
            coordinator,
            owner: owner.filter(|_| !is_write),
            is_forwarded: false,
            sent,
            needed: match is_write {
                true => setup.replicas / 2 + 1,
                false => 1,
            },
            is_over: false,
        });
        let owners = self.keys.owners(hash).filter(|_| is_write);
        for node in owners.chain((!is_write).then_some(coordinator)) {
            self.events.plan(setup.hop_us, Event::Arrived(id, node));
        }
        self.events.plan(setup.timeout_us, Event::TimedOut(id));
    }

    fn on_arrived(&mut self, id: RequestId, node: NodeIndex) {
        let (now_us, setup) = (self.events.now_us(), self.setup);
        let is_forwarder = self.flights[id].owner.is_some();
        let share = setup.forward_share.filter(|_| is_forwarder).unwrap_or(1.0);
        let at = &mut self.nodes[node.as_usize()];
        let work = Work { id, share };
        let plan = at.on_request(now_us, work, &mut self.dice);
        self.outcome.present_max = self.outcome.present_max.max(at.present());
        self.plan(node, plan);
    }

    fn on_served(&mut self, id: RequestId) {
        let hop_us = self.setup.hop_us;
        let flight = &mut self.flights[id];
        match flight.owner.take() {
            Some(owner) => {
                flight.is_forwarded = true;
                self.events.plan(hop_us, Event::Arrived(id, owner));
            }
            None => {
                let hops = 1 + u64::from(flight.is_forwarded);
                self.events.plan(hops * hop_us, Event::Answered(id));
            }
        }
    }

    fn on_answered(&mut self, id: RequestId) {
        let now_us = self.events.now_us();
        let flight = &mut self.flights[id];
        flight.needed = flight.needed.saturating_sub(1);
        if flight.needed > 0 || std::mem::replace(&mut flight.is_over, true) {
            return;
        }
        let (us, coordinator) = (now_us - flight.began_us, flight.coordinator);
        let choice = &mut self.proxies[flight.proxy].choice;
        let service_us = u32::try_from(us).unwrap_or(u32::MAX);
        choice.on_answer(now_us, coordinator, flight.sent, service_us);
        let (began_us, is_hot) = (flight.began_us, flight.is_hot);
        if self.is_counted(began_us) {
            self.times_us.push(us);
            match is_hot {
                true => self.outcome.hot_at[coordinator.as_usize()] += 1,
                false => self.others_us.push(us),
            }
        }
        self.end(id);
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
        let began_us = flight.began_us;
        self.outcome.timed_out += u64::from(self.is_counted(began_us));
        self.end(id);
    }

    fn end(&mut self, id: RequestId) {
        let flight = &self.flights[id];
        let client = flight.client;
        self.ended += usize::from(self.is_counted(flight.began_us));
        if let Demand::Clients(_) = self.setup.demand {
            self.events.plan(0, Event::AskAgain(client));
        }
    }

    /// Nodes say how much is in use; slow ones are as busy with something else as they are slow.
    fn measure(&mut self) {
        let (now_us, setup) = (self.events.now_us(), self.setup);
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let own = node.take_use(now_us);
            if node.stalled_us(now_us) > 0 {
                continue;
            }
            let is_slow = node.factor > 1.0;
            let other = if is_slow {
                1.0 - 1.0 / SLOW as f32
            } else {
                0.0
            };
            let is_lie = setup.cell == Cell::ReportsFalse && is_slow && at % 10 == 1;
            let used = if is_lie { 0.0 } else { (own + other).min(1.0) };
            let report = Report {
                cpu: used,
                memory: MEMORY_USED,
                disk: used,
                queue: node.waiting() as f32,
                service_us: setup.service.alone_us() as f32 * node.factor as f32,
                ..Report::default()
            };
            let is_lost = setup.cell == Cell::ReportsLost && self.dice.below(10) != 0;
            let late_us = match setup.cell {
                Cell::ReportsDelayed => 2_000_000,
                _ => setup.hop_us,
            };
            if !is_lost {
                let node = NodeIndex(at as u16);
                self.events.plan(late_us, Event::Report(node, report));
            }
        }
    }

    fn finish(mut self) -> Outcome {
        let sums = self.windows.iter().map(Windows::sum);
        let most = sums.clone().fold(0.0, f64::max);
        let mean = sums.sum::<f64>() / self.windows.len().max(1) as f64;
        let dispersions = self.windows.iter().filter_map(Windows::dispersion);
        let dispersions: Vec<f64> = dispersions.collect();
        let length_us = match &self.setup.extent {
            Extent::Time(time) => time.end - time.start,
            Extent::Requests(_) => self.events.now_us() - self.began_us,
        };
        self.outcome.times = Times::of(self.times_us);
        self.outcome.others = Times::of(self.others_us);
        self.outcome.seconds = length_us as f64 / 1e6;
        self.outcome.busiest_vs_mean = most / mean.max(1e-9);
        self.outcome.herding = dispersions.iter().sum::<f64>() / dispersions.len().max(1) as f64;
        self.outcome
    }
}
