//! One run: everything that happens, in the order of virtual time.

mod aggressors;
mod answers;
mod causes;
mod clients;
mod derived;
mod drain;
mod faults;
mod greetings;
mod growth;
mod layouts;
mod lists;
mod network;
mod nodes;
mod recovery;
mod requests;
mod routes;
mod rows;
mod setup;
mod shell;
mod sockets;
mod strikes;
mod verdict;
mod waits;
mod wide;
mod work;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use helenus_engine::LinkKey;
use helenus_engine::output::HeldAnswer;
use helenus_engine::shared::WorkerMessage;
use helenus_policy::ring::Replication;
use helenus_wire::{Header, Version};

use self::aggressors::Aggression;
use self::causes::Causes;
use self::derived::Derived;
use self::derived::sweep::Comparison;
use self::growth::Growth;
use self::network::{Connection, End};
use self::strikes::Scope;
use super::bounds::{Bounds, Cause};
use super::cassandra::{Cluster, Health, Mutation};
use super::catalogue::{Catalogue, Told};
use super::checks::{Registers, Violation};
use super::client::Client;
use super::coverage::{Check, Covered, Fault};
use super::load::{Job, Load};
use super::proxy::{At, Proxy, Worker};
use super::wide::Histories;
use crate::dice::Dice;
use crate::events::Events;

/// Things go wrong until then, at the latest.
const TROUBLE_US: u64 = 15_000_000;
/// So long after that everything that was asked has been answered.
const ANSWERED_AFTER_US: u64 = 45_000_000;
/// When all clients have left and nothing is held for them, what is still on its way to a node has this
/// long to arrive there: slow nodes take 3 s.
const QUIET_FOR_US: u64 = 5_000_000;
/// So long after trouble has ended the last frozen node has thawed.
const THAWED_AFTER_US: u64 = 7_000_000;

enum Event {
    Piece(usize, End),
    Closed(usize, End),
    Flush(At),
    Due(At),
    Message(At, WorkerMessage),
    /// A connection to this node is made, or not.
    Dialed(At, LinkKey, usize),
    Serve(usize, Header, Vec<u8>),
    /// A message comes to a node that work takes time; a thread of the node, which has begun anew so often, is done
    /// with one.
    Arrive(usize, Box<Job>),
    Work(usize, u32, Box<Job>),
    Reply(usize, Header, Vec<u8>),
    Mutate(Mutation),
    Learn(usize),
    /// Whether the nodes agree by now, and until when that is waited for.
    Agree(At, Box<HeldAnswer>, u64),
    Act(usize),
    GiveUp(usize, usize, i16, u64),
    Fault,
    Strike,
    EndTrouble,
    Recovered,
    Heal(usize, bool),
    DrainTick(At),
    RoleBack(usize),
    /// The ring changes, or how far a change is is looked at; a node hears of a view; one takes clients,
    /// leaves, or is taken for dead; a proxy hears of the members.
    Grow,
    Hear(usize, usize),
    Open(usize),
    Leave(usize),
    Doubt(usize),
    Members(usize, Vec<usize>),
    /// The next step of a layout.
    ChangeLayout(usize),
    /// A proxy asks for the catalogue; the nodes answer; the answer comes. With when it was asked for.
    ReadCatalogue(usize),
    AnswerCatalogue(usize, u64),
    TakeCatalogue(usize, u64, Told),
    CompareLayouts,
    /// Of derived layouts: hints are delivered, a sweep looks what to compare, and goes on comparing.
    DeliverHints,
    Sweep,
    Compare(Box<Comparison>),
    /// A node that keeps a hint stays away.
    StayAway(usize),
    /// A proxy is killed.
    Kill(usize),
    /// A proxy tells which partitions are in doubt, these are stored, those of all are read, and come.
    TellDoubts(usize),
    WriteDoubts(usize, BTreeSet<i64>),
    AnswerDoubts(usize, u64),
    TakeDoubts(usize, u64, BTreeSet<i64>),
    Restart,
    Answered,
    LookForQuiet,
    Quiet,
}
struct World {
    bounds: Bounds,
    events: Events<Event>,
    begin: Instant,
    dice: Dice,
    proxies: Vec<Proxy>,
    cluster: Cluster,
    /// When each proxy has first told a client that a statement has so many columns.
    told: BTreeMap<(usize, &'static str, usize), u64>,
    /// Schema changes that clients have asked for.
    alters: u64,
    /// Requests that were answered, and those of them that a proxy has refused.
    answered: (u64, u64),
    longest_wait_us: u64,
    /// The bound on what a proxy holds for its clients, in bytes.
    memory_max: Option<usize>,
    /// Roles that no node knows at the moment.
    dropped: BTreeSet<usize>,
    /// Until when nothing gets through between a proxy and a node.
    partitions: BTreeMap<(usize, usize), u64>,
    /// What nodes are busy with, if work takes them time.
    loads: Vec<Load>,
    /// One client wants more than its share, and nothing goes wrong beside that.
    aggression: Option<Aggression>,
    clients: Vec<Client>,
    connections: Vec<Connection>,
    registers: Registers,
    /// Statements that must never be executed: their clients were told that they were not.
    refused: Vec<i64>,
    /// What was ever written to rows, and what must never be: partition and timestamp.
    histories: Histories,
    refused_rows: Vec<(i64, i64)>,
    /// Of the runs with layouts.
    catalogue: Option<Catalogue>,
    /// Of those whose layouts are derived.
    derived: Option<Derived>,
    /// What clients may be told of.
    causes: Causes,
    /// All that may go wrong in this run, if it is not everything.
    only: Option<BTreeSet<Cause>>,
    /// Things go wrong until then.
    trouble_us: u64,
    keys: i64,
    /// Proxies put writes of several clients into one batch.
    merges: bool,
    /// Clients write lists.
    has_lists: bool,
    /// Whether the ring changes, and whether nothing else goes wrong then; and how it changes at the moment.
    grows: Option<bool>,
    growth: Option<Growth>,
    replication: Replication,
    version: Version,
    authenticated: bool,
    trouble: bool,
    /// Trouble is over for so long that everything works.
    is_calm: bool,
    is_over: bool,
    violation: Option<Violation>,
    covered: Covered,
    log: Option<String>,
}

/// Runs one seed; `begin` is any instant. With `log`, what has happened is written down.
pub fn run(seed: u64, begin: Instant, log: bool) -> (Result<Covered, Violation>, String) {
    run_within(seed, &Bounds::default(), begin, log)
}

/// The same with less in it.
pub fn run_within(
    seed: u64,
    bounds: &Bounds,
    begin: Instant,
    log: bool,
) -> (Result<Covered, Violation>, String) {
    let mut world = World::new(seed, bounds, begin, log);
    if world.aggression.is_some() && !bounds.without.contains(&Cause::Aggressor) {
        let mut without = bounds.clone();
        without.without.insert(Cause::Aggressor);
        let mut alone = World::new(seed, &without, begin, log);
        alone.play();
        if alone.violation.is_some() {
            return alone.end();
        }
        world.compare_with(&alone);
    }
    world.play();
    world.end()
}

/// The text of a panic.
fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or_default()
}

impl World {
    fn play(&mut self) {
        self.begin();
        while self.violation.is_none()
            && !self.is_over
            && let Some(event) = self.events.poll_next()
        {
            // The panic's own message has been written by then.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.handle(event))) {
                self.violate(format!("a panic: {}", panic_text(&*payload)));
            }
        }
    }

    fn end(mut self) -> (Result<Covered, Violation>, String) {
        let log = self.log.take().unwrap_or_default();
        self.covered.close();
        match self.violation {
            Some(violation) => (Err(violation), log),
            None => (Ok(self.covered), log),
        }
    }

    fn now_us(&self) -> u64 {
        self.events.now_us()
    }

    fn now(&self) -> Instant {
        self.begin + Duration::from_micros(self.now_us())
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        let now_us = self.now_us();
        if let Some(log) = &mut self.log {
            let _ = writeln!(log, "{:>12} {}", now_us, line());
        }
    }

    fn count(&mut self, what: &str) {
        self.covered.count(what, 1);
    }

    /// A check was evaluated. `could_fail`: there was something that it would have found wrong.
    fn checked(&mut self, check: Check, could_fail: bool) {
        self.covered.check(check, could_fail);
    }

    fn violate(&mut self, what: String) {
        let at_us = self.now_us();
        self.note(|| format!("VIOLATION {what}"));
        self.violation.get_or_insert(Violation { at_us, what });
    }

    fn may(&self, cause: Cause) -> bool {
        self.trouble && !self.only_grows() && self.aggression.is_none() && self.can(cause)
    }

    /// The same of what does not end with the trouble.
    fn can(&self, cause: Cause) -> bool {
        let is_among = self.only.as_ref().is_none_or(|only| only.contains(&cause));
        is_among && !self.bounds.without.contains(&cause)
    }

    fn worker(&mut self, at: At) -> &mut Worker {
        &mut self.proxies[at.proxy].workers[at.worker]
    }

    fn handle(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Flush(at)
            | Event::Due(at)
            | Event::Message(at, _)
            | Event::Dialed(at, ..)
            | Event::DrainTick(at)
            | Event::Agree(at, ..)
                if self.worker(at).ended => {}
            Event::Piece(connection, End::Proxy) => self.read_at_proxy(connection),
            Event::Piece(connection, End::Peer) => self.read_at_peer(connection),
            Event::Closed(connection, End::Proxy) => self.end_at_proxy(connection),
            Event::Closed(connection, End::Peer) => self.end_at_peer(connection),
            Event::Flush(at) => self.flush(at),
            Event::Due(at) => self.keep_time(at),
            Event::Message(at, message) => {
                self.worker(at).engine.on_message(now, message);
                self.after(at);
            }
            Event::Dialed(at, link, node) => self.end_dial(at, link, node),
            Event::Serve(connection, header, body) => self.serve(connection, &header, &body),
            Event::Arrive(node, job) => self.arrive(node, job),
            Event::Work(node, life, job) => self.end_work(node, life, job),
            Event::Reply(connection, header, body) => self.reply(connection, header, &body),
            Event::Mutate(mutation) => {
                let now_us = self.now_us();
                self.cluster.arrive(mutation, now_us);
            }
            Event::Learn(node) => self.cluster.learn(node),
            Event::Agree(at, held, until_us) => self.agree(at, held, until_us),
            Event::Act(client) => self.act(client),
            Event::GiveUp(client, connection, stream, begun_us) => {
                let client = &mut self.clients[client];
                if client.connection == Some(connection)
                    && let Some(found) = client.in_flight.get_mut(&stream)
                    && found.begun_us == begun_us
                {
                    found.given_up = true;
                }
            }
            Event::Fault => self.fault_by_time(),
            Event::Strike => self.strike_now(),
            Event::EndTrouble => self.end_trouble(),
            Event::Recovered => self.begin_recovered(),
            Event::DrainTick(at) => self.drain(at),
            Event::Restart => self.restart_proxy(),
            Event::ChangeLayout(at) => self.change_layout(at),
            Event::ReadCatalogue(proxy) => self.read_catalogue(proxy),
            Event::AnswerCatalogue(proxy, sent_us) => self.answer_catalogue(proxy, sent_us),
            Event::TakeCatalogue(proxy, sent_us, told) => {
                self.on_catalogue(proxy, sent_us, told);
            }
            Event::DeliverHints => self.deliver_hints(),
            Event::Sweep => self.sweep(),
            Event::StayAway(node) => self.stay_away_with(node),
            Event::Kill(proxy) => self.kill_in_write(proxy),
            Event::Compare(comparison) => self.compare(*comparison),
            Event::TellDoubts(proxy) => self.tell_doubts(proxy),
            Event::WriteDoubts(proxy, tokens) => self.write_doubts(proxy, tokens),
            Event::AnswerDoubts(proxy, asked_us) => self.answer_doubts(proxy, asked_us),
            Event::TakeDoubts(proxy, asked_us, tokens) => {
                self.take_doubts(proxy, asked_us, tokens);
            }
            Event::Grow => self.grow(),
            Event::Hear(node, view) => self.hear(node, view),
            Event::Open(node) => self.open_node(node),
            Event::Leave(node) => self.close_node(node),
            Event::Doubt(node) => self.doubt_node(node),
            Event::Members(proxy, members) => self.read_members(proxy, members),
            Event::CompareLayouts => {
                self.compare_layouts();
                if self.trouble {
                    self.events.plan(1_000_000, Event::CompareLayouts);
                }
            }
            Event::RoleBack(role) => {
                let now_us = self.now_us();
                self.causes.note_role_missing(now_us);
                self.dropped.remove(&role);
            }
            Event::Heal(node, _) if self.cluster.nodes[node].is_lost => {}
            Event::Heal(node, restarts) => {
                self.note(|| format!("node {node} is back"));
                self.note_back(node);
                if restarts {
                    self.strike(Fault::NodeReturns, Scope::node(node));
                }
                match restarts {
                    true => self.cluster.restart(node),
                    false => self.cluster.nodes[node].health = Health::Up,
                }
                self.tell_node_up(node);
            }
            Event::Answered => self.judge_answered(),
            Event::LookForQuiet => self.look_for_quiet(),
            Event::Quiet => {
                self.judge_quiet();
                self.is_over = true;
            }
        }
    }
}
