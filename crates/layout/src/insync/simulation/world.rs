//! Real time, the network, and what goes wrong.

mod answering;
mod commanding;
mod failing;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::super::list::{LISTED_MAX, PROXIES_MAX, TABLE};
use super::catalogue::{Answer, Catalogue, Request};
use super::checks::{Checks, Counts, Floor};
use super::handover::{Command, Switch, Table, Task};
use super::node::Node;
use super::proxy::{Ask, Message, Out, Proxy};
use super::{Cell, Faults, SECOND, Setup};
use crate::rng::Rng;

/// Nothing fails any more, where no command has begun; one that has takes longer.
const CALM: u64 = 15 * SECOND;
/// Clients stop, so much later, or when the command is done.
const LAST_REQUEST: u64 = 3 * SECOND;
const END: u64 = 100 * SECOND;
/// What a run is called that never ends: all else that is broken is wrong data.
pub(super) const RESTLESS: &str = "it does not calm down";

#[derive(Debug)]
enum Event {
    Tick(usize),
    Client,
    Fault,
    /// Nodes write their commit logs to disk.
    Sync,
    Look,
    Command,
    AtCatalogueOfCommand {
        switch: Switch,
        answered: bool,
    },
    /// A replica of the table gets a write later than others.
    AtReplica {
        replica: usize,
        key: usize,
        cell: Cell,
    },
    AtCopy {
        from: (usize, usize),
        copy: usize,
        token: u64,
        ask: Ask,
        sent: u64,
    },
    FromCopy {
        to: (usize, usize),
        token: u64,
        boot: u32,
        cell: Cell,
    },
    AtCatalogue {
        from: (usize, usize),
        token: u64,
        request: Request,
        answered: bool,
    },
    FromCatalogue {
        to: (usize, usize),
        token: u64,
        answer: Box<Answer>,
    },
    Message {
        from: usize,
        to: usize,
        message: Message,
    },
    Kill(usize),
    Start(usize),
    RestartNode(usize),
}

struct Planned(u64, u64, Event);

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Planned {}
impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// A machine on which one proxy after the other runs.
struct Host {
    proxy: Option<Proxy>,
    /// What its clock shows when the run begins, and how fast it is.
    offset_us: u64,
    rate_ppm: i64,
    paused_until: u64,
    cut_off_from_copy: Vec<u64>,
    cut_off_from_catalogue: u64,
    /// The same, of what a command has changed.
    hears_nothing_until: u64,
    cut_off_from_others: u64,
    /// Much of what it sends is late or lost.
    bad_until: u64,
}

enum Asked {
    Write {
        key: usize,
        cell: Cell,
        begun: u64,
    },
    Read {
        key: usize,
        floor: Floor,
        begun: u64,
    },
}

struct World {
    setup: Setup,
    rng: Rng,
    now: u64,
    planned: u64,
    events: BinaryHeap<Reverse<Planned>>,
    hosts: Vec<Host>,
    slots: usize,
    nodes: Vec<Node>,
    frozen_until: Vec<u64>,
    lost: Option<usize>,
    catalogue: Catalogue,
    table: Table,
    command: Command,
    /// From when on nothing fails.
    calm: u64,
    requests: BTreeMap<u64, Asked>,
    last_request: u64,
    /// When a client has asked last.
    last_asked: u64,
    checks: Checks,
    log: Option<Vec<String>>,
}

/// One run. What was seen, or what is broken.
pub(super) fn run(seed: u64, setup: Setup, logged: bool) -> Result<Counts, String> {
    let mut rng = Rng::new(seed);
    let drift = setup.timing.drift_ppm as i64;
    let hosts = (0..setup.hosts).map(|_| Host {
        proxy: None,
        offset_us: 1_000_000 + rng.below(1_000_000_000) as u64,
        rate_ppm: [-1, 0, 1][rng.below(3)] * drift,
        paused_until: 0,
        cut_off_from_copy: vec![0; LISTED_MAX],
        cut_off_from_catalogue: 0,
        hears_nothing_until: 0,
        cut_off_from_others: 0,
        bad_until: 0,
    });
    let mut world = World {
        hosts: hosts.collect(),
        setup,
        rng,
        now: 0,
        planned: 0,
        events: BinaryHeap::new(),
        slots: 0,
        nodes: vec![Node::new(); setup.copies],
        frozen_until: vec![0; setup.copies],
        lost: None,
        catalogue: Catalogue::new(setup.copies, setup.task),
        table: Table::default(),
        command: Command::default(),
        calm: match setup.task {
            None => CALM,
            Some(Task::Create | Task::Drop) => CALM + 5 * SECOND,
            Some(Task::CreateAndDrop) => CALM + 20 * SECOND,
        },
        requests: BTreeMap::new(),
        last_request: 0,
        last_asked: 0,
        checks: Checks::new(setup.guarantee),
        log: logged.then(Vec::new),
    };
    for host in 0..setup.hosts {
        let delay = world.rng.below(500_000) as u64;
        world.plan(delay, Event::Start(host));
        world.plan(delay + 10, Event::Tick(host));
    }
    for event in [Event::Client, Event::Fault, Event::Sync, Event::Look] {
        world.plan(10_000, event);
    }
    if setup.task.is_some() {
        // When clients have begun.
        world.plan(3 * SECOND, Event::Command);
    }
    let result = world.run();
    if let Some(log) = &world.log {
        log.iter().for_each(|line| println!("{line}"));
    }
    result.map_err(|broken| format!("after {} ms: {broken}", world.now / 1_000))
}

impl World {
    fn plan(&mut self, delay: u64, event: Event) {
        self.planned += 1;
        let planned = Planned(self.now + delay, self.planned, event);
        self.events.push(Reverse(planned));
    }

    fn chance(&mut self, of: usize) -> bool {
        self.rng.below(of) == 0
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.rng.below((high - low + 1) as usize) as u64
    }

    fn is_faulty(&self) -> bool {
        self.now < self.calm && self.setup.faults == Faults::Any
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(format!("{:>10} {}", self.now, line()));
        }
    }

    fn run(&mut self) -> Result<Counts, String> {
        loop {
            let Some(Reverse(Planned(at, _, event))) = self.events.pop() else {
                return Err("nothing happens any more".to_owned());
            };
            self.now = at;
            if let Some(host) = self.host_of(&event)
                && self.hosts[host].paused_until > self.now
            {
                // It takes what has come when it wakes up, in the same order.
                let delay = self.hosts[host].paused_until - self.now;
                self.plan(delay, event);
                continue;
            }
            if matches!(event, Event::Look) {
                self.look_at_table()?;
                if self.is_over() {
                    let listed = self.catalogue.copies().in_sync();
                    let nodes = self.nodes.iter().enumerate();
                    let nodes = nodes.filter(|(copy, _)| listed.contains(*copy));
                    let cells: Vec<_> = nodes.map(|(_, node)| node.cells()).collect();
                    match cells.is_empty() {
                        // Looked at above.
                        true => {}
                        false => self.checks.at_the_end(&cells)?,
                    }
                    return Ok(self.checks.counts);
                }
                if self.now > self.calm + END {
                    return Err(format!("{RESTLESS}: {:?}", self.catalogue));
                }
                self.operate();
                self.plan(50_000, Event::Look);
                continue;
            }
            self.handle(event)?;
        }
    }

    fn host_of(&self, event: &Event) -> Option<usize> {
        match event {
            Event::Tick(host) => Some(*host),
            Event::FromCopy { to, .. } | Event::FromCatalogue { to, .. } => Some(to.0),
            Event::Message { to, .. } => self.host_with(*to),
            _ => None,
        }
    }

    fn host_with(&self, slot: usize) -> Option<usize> {
        let is_there = |host: &Host| host.proxy.as_ref().is_some_and(|p| p.slot == slot);
        self.hosts.iter().position(is_there)
    }

    fn local(&self, host: usize) -> u64 {
        let host = &self.hosts[host];
        let drift = i128::from(self.now) * i128::from(host.rate_ppm) / 1_000_000;
        (i128::from(host.offset_us) + i128::from(self.now) + drift) as u64
    }

    /// Lets the proxy of a host that was started with this number do something, then carries out what it
    /// wants.
    fn with(
        &mut self,
        (host, slot): (usize, usize),
        act: impl FnOnce(&mut Proxy, u64),
    ) -> Result<(), String> {
        let now_us = self.local(host);
        let Some(proxy) = self.hosts[host].proxy.as_mut().filter(|p| p.slot == slot) else {
            return Ok(());
        };
        act(proxy, now_us);
        for out in std::mem::take(&mut proxy.out) {
            self.carry_out((host, slot), out)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, from: (usize, usize), out: Out) -> Result<(), String> {
        match out {
            Out::Copy { token, copy, ask } => {
                let delay = self.delay_to_copy(from.0, copy);
                let sent = self.now;
                if let Some(delay) = delay {
                    let event = Event::AtCopy {
                        from,
                        copy,
                        token,
                        ask,
                        sent,
                    };
                    self.plan(delay, event);
                }
                if matches!(ask, Ask::Write(..) | Ask::WriteAll(..))
                    && self.is_faulty()
                    && self.chance(60)
                {
                    // A hint, or a request that was lost on the way and not at its end.
                    let delay = self.between(0, self.setup.timing.late_us);
                    let token = u64::MAX;
                    self.plan(
                        delay,
                        Event::AtCopy {
                            from,
                            copy,
                            token,
                            ask,
                            sent,
                        },
                    );
                }
            }
            Out::Catalogue { token, request } => self.ask_catalogue(from, token, request),
            Out::Proxy { to, message } => {
                let cut = self.hosts[from.0].cut_off_from_others.max(
                    self.host_with(to)
                        .map_or(0, |to| self.hosts[to].cut_off_from_others),
                );
                let lost = self.is_faulty() && self.chance(80);
                if cut <= self.now && !lost {
                    let delay = if self.is_faulty() && self.chance(30) {
                        self.between(1_000, 1_000_000)
                    } else {
                        self.between(100, 1_000)
                    };
                    let from = from.1;
                    self.plan(delay, Event::Message { from, to, message });
                }
            }
            Out::Acknowledged { client } => {
                if let Some(Asked::Write { key, cell, begun }) = self.requests.remove(&client) {
                    self.note(|| format!("proxy {} acknowledges {key} {cell:?}", from.1));
                    self.checks.on_acknowledged(key, cell, self.now - begun);
                }
            }
            Out::Answered { client, cell, by } => {
                let by = match by {
                    (TABLE, 0) => (TABLE, self.catalogue.copies().since(TABLE)),
                    by => by,
                };
                if let Some(Asked::Read { key, floor, begun }) = self.requests.remove(&client) {
                    self.note(|| format!("proxy {} reads {key} {cell:?} by {by:?}", from.1));
                    let took = self.now - begun;
                    self.checks.on_read(key, cell, by, &floor, took)?;
                }
            }
            Out::Merged => self.checks.counts.merged += 1,
            Out::WrittenBack => self.checks.counts.written_back += 1,
            Out::Resynchronised => self.checks.counts.resynchronised += 1,
            Out::CompletedByNewcomer => self.checks.counts.completed_by_newcomer += 1,
            Out::Restart => {
                self.note(|| format!("proxy {} was evicted", from.1));
                self.hosts[from.0].proxy = None;
                self.plan(1_000, Event::Start(from.0));
            }
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Tick(host) => {
                let delay = self.between(5_000, 30_000);
                self.plan(delay, Event::Tick(host));
                let Some(slot) = self.hosts[host].proxy.as_ref().map(|p| p.slot) else {
                    return Ok(());
                };
                self.with((host, slot), Proxy::tick)
            }
            Event::Client => {
                if self.now < self.calm + LAST_REQUEST || !self.has_ended() {
                    self.last_asked = self.now;
                    let delay = self.between(200, self.setup.pause_us);
                    self.plan(delay, Event::Client);
                    return self.request();
                }
                Ok(())
            }
            Event::Fault => {
                if self.now < self.calm {
                    let delay = self.between(50_000, 900_000);
                    self.plan(delay, Event::Fault);
                    self.fail();
                }
                Ok(())
            }
            Event::Sync => {
                let delay = self.between(20_000, 600_000);
                self.plan(delay, Event::Sync);
                let node = self.rng.below(self.nodes.len());
                self.nodes[node].sync();
                Ok(())
            }
            Event::Look => Ok(()),
            Event::Command => {
                self.command();
                Ok(())
            }
            Event::AtCatalogueOfCommand { switch, answered } => {
                self.switch(&switch, answered);
                Ok(())
            }
            Event::AtReplica { replica, key, cell } => {
                self.table.write(replica, key, cell);
                Ok(())
            }
            Event::AtCopy {
                from,
                copy,
                token,
                ask,
                sent,
            } => {
                self.at_copy(from, copy, token, ask, sent);
                Ok(())
            }
            Event::FromCopy {
                to,
                token,
                boot,
                cell,
            } => self.with(to, |proxy, now| proxy.on_copy(token, boot, cell, now)),
            Event::AtCatalogue {
                from,
                token,
                request,
                answered,
            } => {
                self.at_catalogue(from, token, request, answered);
                Ok(())
            }
            Event::FromCatalogue { to, token, answer } => {
                self.with(to, |proxy, now| proxy.on_catalogue(token, &answer, now))
            }
            Event::Message { from, to, message } => match self.host_with(to) {
                Some(host) => self.with((host, to), |proxy, now| {
                    proxy.on_message(from, message, now)
                }),
                None => Ok(()),
            },
            Event::Kill(host) => {
                self.hosts[host].proxy = None;
                Ok(())
            }
            Event::Start(host) => {
                if self.hosts[host].proxy.is_none() {
                    if self.slots == PROXIES_MAX {
                        return Err("too many starts of proxies".to_owned());
                    }
                    let seed = self.rng.next();
                    let proxy = Proxy::new(self.slots, &self.setup, seed);
                    self.note(|| format!("host {host} starts proxy {}", proxy.slot));
                    self.hosts[host].proxy = Some(proxy);
                    self.slots += 1;
                }
                Ok(())
            }
            Event::RestartNode(copy) => {
                self.nodes[copy].restart();
                Ok(())
            }
        }
    }

    fn request(&mut self) -> Result<(), String> {
        let host = self.rng.below(self.hosts.len());
        let now_us = self.local(host);
        let serves = |p: &&Proxy| p.serves() || p.knows_the_table_only(now_us);
        let Some(proxy) = self.hosts[host].proxy.as_ref().filter(serves) else {
            return Ok(());
        };
        if self.hosts[host].paused_until > self.now {
            return Ok(());
        }
        let slot = proxy.slot;
        self.last_request += 1;
        let client = self.last_request;
        let key = self.rng.below(self.setup.keys);
        let begun = self.now;
        if self.rng.below(10) < 3 {
            // Clocks of clients differ, and often two writes have the same time.
            let skew = self.between(0, 30_000);
            let cell = Cell {
                timestamp: (self.now + skew) / 10_000 + 1,
                value: client,
            };
            self.checks.on_write(key, cell);
            self.note(|| format!("proxy {slot} is to write {key} {cell:?}"));
            self.requests
                .insert(client, Asked::Write { key, cell, begun });
            self.with((host, slot), |proxy, now| {
                proxy.write(client, key, cell, now)
            })
        } else {
            let floor = self.checks.floor(key);
            self.requests
                .insert(client, Asked::Read { key, floor, begun });
            self.with((host, slot), |proxy, now| proxy.read(client, key, now))
        }
    }
}
