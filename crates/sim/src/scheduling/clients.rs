//! The clients: each asks a query, reads all its pages, and asks the next one.

use std::ops::Range;
use std::sync::Arc;

use super::agenda::{Agenda, Event, Job, Page, ProcessId};
use super::data::Data;
use super::node::Threads;
use super::queries::{Kind, Query};
use super::setup::Setup;

/// Queries before those that count have numbers of their own.
const WARMUP: u64 = 1 << 40;
/// Clients that ask them, at most.
const WARMUP_CLIENTS: u32 = 32;

pub(super) struct Clients {
    setup: Setup,
    data: Arc<Data>,
    process: ProcessId,
    threads: Threads<Job>,
    each: Vec<Client>,
    /// The next query's number, and the one at which nothing more is asked.
    next: u64,
    end: u64,
    /// Clients that wait for an answer.
    busy: usize,
    pages: u64,
    pub measured: Measured,
}

/// What a phase has shown so far.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub points_us: Vec<u64>,
    pub scans_us: Vec<u64>,
    pub filters_us: Vec<u64>,
    /// Points, and scans and filters, that failed; they are among the times, too.
    pub failed: [u32; 2],
}

struct Client {
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
        let client = |_| Client {
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
        };
        let threads = match setup.one_machine {
            true => setup.cores,
            false => u32::MAX,
        };
        Clients {
            setup: *setup,
            data,
            process,
            threads: Threads::new(threads),
            each: (0..setup.clients).map(client).collect(),
            next: 0,
            end: 0,
            busy: 0,
            pages: 0,
            measured: Measured::default(),
        }
    }

    /// Asks what proxies learn from.
    pub(super) fn warm_up(&mut self, agenda: &mut Agenda) {
        let clients = self.setup.clients.min(WARMUP_CLIENTS);
        self.ask_all(agenda, clients, WARMUP, self.setup.warmup);
    }

    /// Asks what counts.
    pub(super) fn measure(&mut self, agenda: &mut Agenda) {
        self.measured = Measured::default();
        self.ask_all(agenda, self.setup.clients, 0, self.setup.queries);
    }

    fn ask_all(&mut self, agenda: &mut Agenda, clients: u32, first: u64, queries: u32) {
        (self.next, self.end) = (first, first + u64::from(queries));
        for client in 0..clients as usize {
            self.ask(agenda, client);
        }
    }

    /// Whether nobody asks or waits.
    pub(super) fn is_done(&self) -> bool {
        self.busy == 0 && self.next == self.end
    }

    /// The next query, if there is one.
    fn ask(&mut self, agenda: &mut Agenda, client: usize) {
        if self.next == self.end {
            return;
        }
        let number = self.next;
        self.next += 1;
        self.busy += 1;
        let of = &mut self.each[client];
        of.number = number;
        of.query = Query::draw(&self.setup, &self.data, number);
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
        let is_point = of.query.is_point();
        let took_us = match answered {
            true => agenda.now_us() - of.began_us,
            false => self.setup.time_out_us,
        };
        let times = match of.query.kind {
            Kind::Point { .. } => &mut self.measured.points_us,
            Kind::Scan { .. } => &mut self.measured.scans_us,
            Kind::Filter { .. } => &mut self.measured.filters_us,
        };
        times.push(took_us);
        self.measured.failed[usize::from(!is_point)] += u32::from(!answered);
        self.busy -= 1;
        self.ask(agenda, client);
    }
}

impl Client {
    /// Rows that the statement wants behind a row, whether they are there or not.
    fn expected_of_statement(&self, behind: usize, data: &Data) -> u32 {
        match self.query.kind {
            Kind::Point { .. } => 1,
            Kind::Filter { .. } => i32::MAX as u32,
            Kind::Scan { above, limit } => {
                let had = (behind + 1).saturating_sub(data.first_above(above));
                limit.saturating_sub(had as u32)
            }
        }
    }
}
