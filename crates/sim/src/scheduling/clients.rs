//! The clients: each asks a query, reads all its pages, and asks the next one. Beside them others may ask one
//! query each, at a rate.

use std::ops::Range;
use std::sync::Arc;

use super::agenda::{Agenda, Event, Job, Page, ProcessId};
use super::data::Data;
use super::queries::{Kind, Query};
use super::setup::Setup;
use crate::dice::Dice;
use crate::threads::Threads;

/// Queries before those that count have numbers of their own.
const WARMUP: u64 = 1 << 40;
/// Clients that ask them, at most.
const WARMUP_CLIENTS: u32 = 32;
/// So have those that come at a rate.
const OFFERED: u64 = 1 << 41;

pub(super) struct Clients {
    setup: Setup,
    data: Arc<Data>,
    process: ProcessId,
    threads: Threads<Job>,
    each: Vec<Client>,
    /// Those of them that wait for a query which is due.
    spare: Vec<usize>,
    /// How many have been due, of how many kinds more will be, and until when.
    offered: u64,
    offering: usize,
    until_us: u64,
    /// The next query's number, and the one at which nothing more is asked.
    next: u64,
    end: u64,
    /// Clients that wait for an answer.
    busy: usize,
    pages: u64,
    pub ended: Ended,
}

/// The queries of a phase that have ended so far: points, scans, filters and writes.
#[derive(Debug, Default)]
pub(super) struct Ended {
    pub times_us: [Vec<u64>; 4],
    /// Those that failed; they are among the times, too.
    pub failed: [u32; 4],
}

struct Client {
    /// True if it has asked one of the queries that come at a rate.
    is_offered: bool,
    number: u64,
    query: Query,
    began_us: u64,
    /// The rows that are still to come.
    expected: Range<usize>,
    /// Where its page begins, if not with the query's first row: behind a row.
    behind: Option<usize>,
    /// The number of the page that it waits for; `None` between queries.
    page: Option<u64>,
    was_sent: bool,
    got: Option<Page>,
}

/// A page that a client wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub client: usize,
    pub page: u64,
    pub query: Query,
    /// The row behind which it begins, and how many rows the statement still wants.
    pub behind: Option<(usize, u32)>,
}

impl Clients {
    pub(super) fn new(setup: &Setup, data: Arc<Data>, process: ProcessId) -> Self {
        let threads = match setup.one_machine {
            true => setup.cores,
            false => u32::MAX,
        };
        Clients {
            setup: *setup,
            data,
            process,
            threads: Threads::new(threads),
            each: (0..setup.clients).map(|_| Client::new(false)).collect(),
            spare: Vec::new(),
            offered: 0,
            offering: 0,
            until_us: 0,
            next: 0,
            end: 0,
            busy: 0,
            pages: 0,
            ended: Ended::default(),
        }
    }

    /// Asks what proxies learn from.
    pub(super) fn warm_up(&mut self, agenda: &mut Agenda) {
        let clients = self.setup.clients.min(WARMUP_CLIENTS);
        self.ask_all(agenda, clients, WARMUP, self.setup.warmup);
    }

    /// Asks what counts.
    pub(super) fn measure(&mut self, agenda: &mut Agenda) {
        self.ended = Ended::default();
        self.ask_all(agenda, self.setup.clients, 0, self.setup.queries);
        if let Some(offered) = self.setup.offered {
            self.until_us = agenda.now_us() + offered.for_us;
            self.offering = 2;
            self.wait_for_next(agenda, false);
            self.wait_for_next(agenda, true);
        }
    }

    /// How many queries have come at a rate.
    pub(super) fn offered(&self) -> u64 {
        self.offered
    }

    fn wait_for_next(&self, agenda: &mut Agenda, is_write: bool) {
        let per_s = self.setup.offered.map_or(0, |offered| match is_write {
            true => offered.writes_per_s,
            false => offered.points_per_s,
        });
        let mut dice = Dice::of(self.setup.seed, 5, self.offered);
        let in_us = dice.gap_us(per_s.into());
        // None ever comes at a rate of zero.
        let in_us = in_us.min((self.until_us - agenda.now_us()) as f64);
        agenda.plan(in_us as u64, Event::Offered { is_write });
    }

    /// A query of those that come at a rate is due, or their time is over.
    pub(super) fn on_offered(&mut self, agenda: &mut Agenda, is_write: bool) {
        if agenda.now_us() >= self.until_us {
            self.offering -= 1;
            return;
        }
        self.offered += 1;
        let query = Query::offered(&self.setup, &self.data, self.offered, is_write);
        let client = self.spare.pop().unwrap_or(self.each.len());
        if client == self.each.len() {
            self.each.push(Client::new(true));
        }
        self.begin(agenda, client, OFFERED + self.offered, query);
        self.wait_for_next(agenda, is_write);
    }

    fn ask_all(&mut self, agenda: &mut Agenda, clients: u32, first: u64, queries: u32) {
        (self.next, self.end) = (first, first + u64::from(queries));
        for client in 0..clients as usize {
            self.ask(agenda, client);
        }
    }

    /// True if nobody asks or waits.
    pub(super) fn is_done(&self) -> bool {
        self.busy == 0 && self.next == self.end && self.offering == 0
    }

    /// The next query, if there is one.
    fn ask(&mut self, agenda: &mut Agenda, client: usize) {
        if self.next == self.end {
            return;
        }
        let number = self.next;
        self.next += 1;
        let query = Query::draw(&self.setup, &self.data, number);
        self.begin(agenda, client, number, query);
    }

    fn begin(&mut self, agenda: &mut Agenda, client: usize, number: u64, query: Query) {
        self.busy += 1;
        let of = &mut self.each[client];
        (of.number, of.query) = (number, query);
        of.began_us = agenda.now_us();
        of.expected = of.query.expected(&self.data);
        of.behind = None;
        agenda.plan(self.setup.time_out_us, Event::TimeOut(client, number));
        self.ask_page(agenda, client);
    }

    fn ask_page(&mut self, agenda: &mut Agenda, client: usize) {
        self.pages += 1;
        let of = &mut self.each[client];
        (of.page, of.was_sent, of.got) = (Some(self.pages), false, None);
        self.work(agenda, Job::Send(client));
    }

    /// A thread of the clients' program is to do something.
    fn work(&mut self, agenda: &mut Agenda, job: Job) {
        if let Some(job) = self.threads.enter(job) {
            agenda.run(self.process, self.work_us(job), job);
        }
    }

    fn work_us(&self, job: Job) -> f64 {
        let costs = &self.setup.costs;
        let rows = match job {
            Job::Receive(client) => match &self.each[client].got {
                Some(Page::Rows { rows, .. }) => rows.len() as f64,
                _ => 0.0,
            },
            _ => 0.0,
        };
        let kib = rows * self.setup.row_kib();
        costs.client_request_us / 2.0 + rows * costs.client_row_us + kib * costs.client_kib_us
    }

    /// A thread has sent or read what it wanted to; the page that leaves now.
    pub(super) fn on_worked(&mut self, agenda: &mut Agenda, job: Job) -> Option<Wish> {
        if let Some(next) = self.threads.leave() {
            agenda.run(self.process, self.work_us(next), next);
        }
        match job {
            Job::Send(client) => self.wish(client),
            Job::Receive(client) => {
                self.take_in(agenda, client);
                None
            }
            _ => None,
        }
    }

    fn wish(&mut self, client: usize) -> Option<Wish> {
        let of = &mut self.each[client];
        // A query that was given up before it was sent has left a thread's work behind.
        if std::mem::replace(&mut of.was_sent, true) {
            return None;
        }
        let wanted = |behind| (behind, of.expected_of_statement(behind, &self.data));
        Some(Wish {
            client,
            page: of.page?,
            query: of.query,
            behind: of.behind.map(wanted),
        })
    }

    /// A page has come.
    pub(super) fn on_page(&mut self, agenda: &mut Agenda, client: usize, page: u64, got: Page) {
        let of = &mut self.each[client];
        // It may have given up.
        if of.page == Some(page) {
            of.got = Some(got);
            self.work(agenda, Job::Receive(client));
        }
    }

    /// # Panics
    /// If rows are missing or too many: an error of the proxy or of the simulation.
    fn take_in(&mut self, agenda: &mut Agenda, client: usize) {
        let of = &mut self.each[client];
        let Some(got) = of.got.take() else {
            return;
        };
        let Page::Rows { rows, next } = got else {
            return self.end(agenda, client, false);
        };
        if !rows.is_empty() {
            assert_eq!(rows.start, of.expected.start, "{:?}", of.query);
            of.expected.start = rows.end;
        }
        assert!(of.expected.start <= of.expected.end, "too many rows");
        match next {
            Some(next) => {
                of.behind = next.checked_sub(1);
                self.ask_page(agenda, client);
            }
            None => {
                assert!(of.expected.is_empty(), "{:?} are missing", of.expected);
                self.end(agenda, client, true);
            }
        }
    }

    pub(super) fn on_time_out(&mut self, agenda: &mut Agenda, client: usize, number: u64) {
        let of = &self.each[client];
        if of.number == number && of.page.is_some() {
            self.end(agenda, client, false);
        }
    }

    fn end(&mut self, agenda: &mut Agenda, client: usize, answered: bool) {
        let of = &mut self.each[client];
        of.page = None;
        of.got = None;
        let is_offered = of.is_offered;
        let took_us = match answered {
            true => agenda.now_us() - of.began_us,
            false => self.setup.time_out_us,
        };
        let kind = match of.query.kind {
            Kind::Point { .. } => 0,
            Kind::Scan { .. } => 1,
            Kind::Filter { .. } => 2,
            Kind::Write { .. } => 3,
        };
        self.ended.times_us[kind].push(took_us);
        self.ended.failed[kind] += u32::from(!answered);
        self.busy -= 1;
        match is_offered {
            true => self.spare.push(client),
            false => self.ask(agenda, client),
        }
    }
}

impl Client {
    fn new(is_offered: bool) -> Client {
        Client {
            is_offered,
            number: 0,
            query: Query {
                table: 0,
                kind: Kind::Point { row: 0 },
            },
            began_us: 0,
            expected: 0..0,
            behind: None,
            page: None,
            was_sent: false,
            got: None,
        }
    }

    /// Rows that the statement wants behind a row, whether they are there or not.
    fn expected_of_statement(&self, behind: usize, data: &Data) -> u32 {
        match self.query.kind {
            Kind::Point { .. } | Kind::Write { .. } => 1,
            Kind::Filter { .. } => i32::MAX as u32,
            Kind::Scan { above, limit } => {
                let had = (behind + 1).saturating_sub(data.first_above(above));
                limit.saturating_sub(had as u32)
            }
        }
    }
}
