//! One run: closed-loop clients, a network, coordinators or proxies, nodes.

use crate::data::{Data, Segment};
use crate::dice::Dice;
use crate::events::Events;
use crate::node::Node;
use crate::outcome::{Outcome, Times};
use crate::setup::{Arm, Fan, Setup};
use helenus_policy::schedule::{Answered, Class, Job, Offer, Schedule, Settings, Slots};
use query::{Part, Query, Read};

mod query;
#[cfg(test)]
mod tests;

enum Event {
    /// A query arrives where it is coordinated.
    Asked(u32),
    /// A read arrives at its node.
    Read(u32),
    Ended(u32),
    /// Its answer arrives where the query is coordinated.
    Answered(u32),
    /// The client has its answer, or its refusal.
    Over(u32),
}

struct World {
    setup: Setup,
    arm: Arm,
    data: Data,
    events: Events<Event>,
    nodes: Vec<Node>,
    /// Of proxy p and node n: at p · nodes + n. Empty without a proxy.
    schedules: Vec<Schedule<u32>>,
    /// The scan slots of each.
    slots: Vec<Slots>,
    queries: Vec<Query>,
    reads: Vec<Read>,
    busy_us: u64,
    points_us: Vec<u64>,
    scans_us: Vec<u64>,
    refused: [u32; 2],
}

/// Runs one arm. The same setup and arm give the same outcome.
///
/// # Panics
/// If a query was lost or ended twice: an error of the simulation or of the scheduler.
pub fn run(setup: &Setup, arm: &Arm) -> Outcome {
    let mut world = World::new(setup, arm);
    for client in 0..setup.clients {
        world.ask(client);
    }
    while let Some(event) = world.events.poll_next() {
        world.handle(event);
    }
    world.outcome()
}

impl World {
    fn new(setup: &Setup, arm: &Arm) -> Self {
        let schedules = match arm {
            Arm::Direct => 0,
            Arm::Proxy { .. } => (setup.proxies * setup.nodes) as usize,
        };
        let settings = match arm {
            Arm::Direct => Settings::default(),
            Arm::Proxy { settings, .. } => *settings,
        };
        World {
            setup: *setup,
            arm: *arm,
            data: Data {
                nodes: setup.nodes,
                rows_per_table: setup.rows / u64::from(setup.tables),
            },
            events: Events::default(),
            nodes: (0..setup.nodes)
                .map(|_| Node::new(setup.read_threads))
                .collect(),
            schedules: (0..schedules).map(|_| Schedule::new(settings)).collect(),
            slots: (0..schedules)
                .map(|_| Slots::new(settings.scan_slots_bounds().0))
                .collect(),
            queries: Vec::new(),
            reads: Vec::new(),
            busy_us: 0,
            points_us: Vec::new(),
            scans_us: Vec::new(),
            refused: [0; 2],
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Asked(query) => self.handle_query(query),
            Event::Read(read) => {
                let node = self.reads[read as usize].node;
                if self.nodes[node as usize].handle_read(read) {
                    self.begin(read);
                }
            }
            Event::Ended(read) => {
                let node = self.reads[read as usize].node;
                if let Some(next) = self.nodes[node as usize].handle_end() {
                    self.begin(next);
                }
                self.events
                    .plan(self.distance_us(read), Event::Answered(read));
            }
            Event::Answered(read) => self.handle_answer(read),
            Event::Over(query) => self.handle_over(query),
        }
    }

    /// The next query, if there is one. What it asks depends on its number alone.
    fn ask(&mut self, client: u32) {
        let number = self.queries.len() as u32;
        if number == self.setup.queries {
            return;
        }
        let mut dice = Dice::of(self.setup.seed, 1, number.into());
        let is_point = dice.below(10) < self.setup.points_in_ten.into();
        let row = dice.below(self.data.rows_per_table);
        let count = 1 + dice.below(self.setup.count_max);
        let at = match self.arm {
            Arm::Direct => dice.below(self.setup.nodes.into()) as u32,
            Arm::Proxy { .. } => client % self.setup.proxies,
        };
        let at_once =
            matches!(&self.arm, Arm::Proxy { settings, .. } if settings.variant.parallel());
        let segments = match is_point {
            true => self.data.exact(row, 1),
            false if at_once => self.data.predicted(row, count),
            false => self.data.exact(row, count),
        };
        let part = |segment: Segment| Part {
            segment,
            begun: false,
            rows_left: segment.rows,
            busy: false,
            waiting: None,
        };
        self.queries.push(Query {
            client,
            at,
            is_point,
            began_us: self.events.now_us(),
            parts: segments.into_iter().map(part).collect(),
            over: false,
            refused: false,
        });
        self.events.plan(self.setup.delay_us, Event::Asked(number));
    }

    fn handle_query(&mut self, query: u32) {
        let parts = self.queries[query as usize].parts.len() as u32;
        self.begin_part(query, 0);
        let Arm::Proxy { fan, .. } = self.arm else {
            return;
        };
        for part in 1..parts {
            let node = self.queries[query as usize].parts[part as usize]
                .segment
                .node;
            let at_once = match fan {
                Fan::Sequential => false,
                Fan::Parallel => true,
                Fan::WhenIdle => {
                    let schedule = self.schedule(query, node);
                    schedule.scans_in_flight() == 0 && schedule.queued_in(Class::Scan) == 0
                }
            };
            if at_once {
                self.begin_part(query, part);
            }
        }
    }

    fn begin_part(&mut self, query: u32, part: u32) {
        self.queries[query as usize].parts[part as usize].begun = true;
        self.next_piece(query, part);
    }

    /// Asks for the next rows of a part.
    fn next_piece(&mut self, query: u32, part: u32) {
        let asked = &self.queries[query as usize];
        if asked.refused {
            return;
        }
        let (is_point, work_us) = (asked.is_point, self.work_us(asked));
        let nodes_left = asked.nodes_left();
        let total = asked.rows_left();
        let piece_rows = match self.arm {
            Arm::Direct => u32::MAX,
            Arm::Proxy { piece_rows, .. } => piece_rows,
        };
        let place = &mut self.queries[query as usize].parts[part as usize];
        let rows = place.rows_left.min(piece_rows);
        place.rows_left -= rows;
        place.busy = true;
        let node = place.segment.node;
        let read = self.reads.len() as u32;
        let job = Job {
            nodes_left,
            rows: total,
            piece_us: self.cost_us(is_point, rows),
            is_part: nodes_left > 1,
            ..Job::of_work(work_us)
        };
        self.reads.push(Read {
            query,
            part,
            node,
            rows,
            sent_us: 0,
            job,
        });
        if matches!(self.arm, Arm::Direct) {
            return self.send(read);
        }
        let now_us = self.events.now_us();
        match self
            .schedule(query, node)
            .offer(now_us, read, class(is_point), job, true)
        {
            Offer::Dispatch => self.send(read),
            Offer::Queued(handle) => {
                let place = &mut self.queries[query as usize].parts[part as usize];
                place.waiting = Some(handle);
            }
            Offer::Refused(_) => self.refuse(query),
        }
    }

    fn send(&mut self, read: u32) {
        let now_us = self.events.now_us();
        let sent = &mut self.reads[read as usize];
        sent.sent_us = now_us;
        let place = &mut self.queries[sent.query as usize].parts[sent.part as usize];
        place.waiting = None;
        self.events.plan(self.distance_us(read), Event::Read(read));
    }

    /// A thread begins with a read.
    fn begin(&mut self, read: u32) {
        let begun = &self.reads[read as usize];
        let is_point = self.queries[begun.query as usize].is_point;
        let mean_us = self.cost_us(is_point, begun.rows);
        // The same piece of the same query has the same luck in every arm.
        let piece = u64::from(begun.part) << 32
            | u64::from(self.queries[begun.query as usize].parts[begun.part as usize].rows_left);
        let mut dice = Dice::of(self.setup.seed, 2 + u64::from(begun.query), piece);
        let service_us = (f64::from(mean_us) * dice.spread()) as u64;
        self.busy_us += service_us;
        self.events.plan(service_us, Event::Ended(read));
    }

    fn handle_answer(&mut self, read: u32) {
        let Read {
            query,
            part,
            node,
            sent_us,
            job,
            ..
        } = self.reads[read as usize];
        let now_us = self.events.now_us();
        let class = class(self.queries[query as usize].is_point);
        let proxied = !matches!(self.arm, Arm::Direct);
        if proxied {
            let service_us = (now_us - sent_us) as u32;
            let at = self.place(query, node);
            let schedule = &mut self.schedules[at];
            schedule.on_done(
                now_us,
                class,
                Answered {
                    predicted_us: job.piece_us,
                    known_us: job.piece_us,
                    service_us,
                },
            );
            if class == Class::Scan {
                let waits = schedule.queued_in(Class::Scan) > 0;
                let settings = schedule.settings();
                let bounds = settings.scan_slots_bounds();
                let others = schedule.take_others();
                let slots = &mut self.slots[at];
                slots.on_answer(now_us, job.piece_us, others, waits, bounds);
                schedule.set_scan_slots(slots.in_force());
            }
        }
        let place = &mut self.queries[query as usize].parts[part as usize];
        place.busy = false;
        if place.rows_left > 0 {
            self.next_piece(query, part);
        } else {
            let parts = &self.queries[query as usize].parts;
            if let Some(next) = parts.iter().position(|part| !part.begun) {
                self.begin_part(query, next as u32);
            }
        }
        if proxied {
            self.raise_siblings(query);
            self.pump(query, node);
        }
        self.end_if_complete(query);
    }

    /// The pieces of the query that still wait learn that less of it is left.
    fn raise_siblings(&mut self, query: u32) {
        let asked = &self.queries[query as usize];
        if asked.is_point {
            return;
        }
        let (nodes_left, rows, work_us) =
            (asked.nodes_left(), asked.rows_left(), self.work_us(asked));
        for part in 0..asked.parts.len() {
            let place = &self.queries[query as usize].parts[part];
            if let Some(handle) = place.waiting {
                let node = place.segment.node;
                let waits = self
                    .schedule(query, node)
                    .reprioritise(handle, nodes_left, rows, work_us);
                assert!(waits, "a handle outlived its item");
            }
        }
    }

    /// Sends what may go now to this node, and answers what has waited too long.
    fn pump(&mut self, query: u32, node: u32) {
        let now_us = self.events.now_us();
        while let Some((read, _)) = self.schedule(query, node).poll_expired(now_us) {
            let Read { query, part, .. } = self.reads[read as usize];
            self.queries[query as usize].parts[part as usize].waiting = None;
            self.refuse(query);
        }
        while let Some((read, _)) = self.schedule(query, node).poll_dispatch(now_us, true) {
            self.send(read);
        }
    }

    /// Ends a query without an answer. Pieces that wait are taken back; what is on its
    /// way comes back unheeded.
    fn refuse(&mut self, query: u32) {
        let asked = &mut self.queries[query as usize];
        if asked.over || asked.refused {
            return;
        }
        asked.refused = true;
        self.refused[usize::from(!self.queries[query as usize].is_point)] += 1;
        for part in 0..self.queries[query as usize].parts.len() {
            let place = &mut self.queries[query as usize].parts[part];
            let node = place.segment.node;
            if let Some(handle) = place.waiting.take() {
                self.schedule(query, node).remove(handle);
            }
        }
        self.events.plan(self.setup.delay_us, Event::Over(query));
    }

    fn end_if_complete(&mut self, query: u32) {
        let asked = &mut self.queries[query as usize];
        let mut needed = asked.parts.iter().filter(|part| part.segment.needed);
        if asked.over || asked.refused || !needed.all(Part::is_complete) {
            return;
        }
        asked.over = true;
        self.events.plan(self.setup.delay_us, Event::Over(query));
    }

    fn handle_over(&mut self, query: u32) {
        let asked = &self.queries[query as usize];
        let took_us = self.events.now_us() - asked.began_us;
        if !asked.refused {
            match asked.is_point {
                true => self.points_us.push(took_us),
                false => self.scans_us.push(took_us),
            }
        }
        self.ask(asked.client);
    }

    fn schedule(&mut self, query: u32, node: u32) -> &mut Schedule<u32> {
        let at = self.place(query, node);
        &mut self.schedules[at]
    }

    /// Which schedule a query's proxy has for a node.
    fn place(&self, query: u32, node: u32) -> usize {
        let proxy = self.queries[query as usize].at;
        (proxy * self.setup.nodes + node) as usize
    }

    /// Between a node and where the query is coordinated.
    fn distance_us(&self, read: u32) -> u64 {
        let read = &self.reads[read as usize];
        let same = self.queries[read.query as usize].at == read.node;
        match self.arm {
            Arm::Direct if same => 0,
            _ => self.setup.delay_us,
        }
    }

    fn cost_us(&self, is_point: bool, rows: u32) -> u32 {
        let costs = &self.setup.costs;
        match is_point {
            true => costs.point_us,
            false => costs.range_us + costs.row_us * rows,
        }
    }

    /// Predicted work of all that has not come back.
    fn work_us(&self, query: &Query) -> u32 {
        let left = query.parts.iter().filter(|part| !part.is_complete());
        left.map(|part| self.cost_us(query.is_point, part.rows_left))
            .sum()
    }

    fn outcome(self) -> Outcome {
        let ended = self.points_us.len() + self.scans_us.len();
        let refused: u32 = self.refused.iter().sum();
        assert_eq!(
            ended + refused as usize,
            self.setup.queries as usize,
            "every query ends once"
        );
        assert!(self.nodes.iter().all(Node::is_idle), "a read was left over");
        for schedule in &self.schedules {
            assert_eq!((schedule.in_flight(), schedule.waiting()), (0, 0));
        }
        let length_us = self.events.now_us();
        let threads = u64::from(self.setup.nodes * self.setup.read_threads);
        Outcome {
            points: Times::of(self.points_us),
            scans: Times::of(self.scans_us),
            points_refused: self.refused[0],
            scans_refused: self.refused[1],
            length_us,
            utilisation: self.busy_us as f64 / (length_us * threads).max(1) as f64,
            node_queue_most: self.nodes.iter().map(Node::queue_most).max().unwrap_or(0),
        }
    }
}

fn class(is_point: bool) -> Class {
    match is_point {
        true => Class::Point,
        false => Class::Scan,
    }
}
