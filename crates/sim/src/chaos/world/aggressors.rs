//! One client that wants more than its share, and how others fare beside it.
//!
//! In some of the runs, in which nothing else goes wrong and nodes are as busy as their work takes
//! ([`super::work`]). Two clients of one role ask for rows at a steady pace, whatever the answers; a third, of
//! another role, is the aggressor. The run is played twice from the same seed, without and with it.
//!
//! What is promised (`judge_beside`): nothing of what the two ask for fails that did not, and their worst wait and the
//! mean of all are no longer than [`FACTOR`] times those of the run without, and a constant for what the aggressor has at
//! the nodes already, which nobody can take back: as many requests as a node may have in flight, or pieces of scans as
//! it has permits.

use helenus_engine::config::Config;
use helenus_wire::{Opcode, Version, query_flags, write};

use super::network::End;
use super::requests::page_size;
use super::{Event, World};
use crate::chaos::client::{Client, InFlight, Purpose};
use crate::chaos::coverage;
use crate::chaos::cql;
use crate::chaos::load::Load;
use crate::chaos::proxy::At;
use crate::dice::Dice;

/// What an aggressor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Has thousands of reads in flight.
    Pipelines,
    /// Has dozens of scans and counts in flight.
    Scans,
    /// Asks for pages, and does not read them.
    NeverReads,
    /// Sends texts of tens of KiB, each another one.
    LargeTexts,
    /// Breaks off with hundreds of requests in flight, and comes back.
    Vanishes,
}

impl Kind {
    const ALL: [Kind; 5] = [
        Kind::Pipelines,
        Kind::Scans,
        Kind::NeverReads,
        Kind::LargeTexts,
        Kind::Vanishes,
    ];

    fn name(self) -> &'static str {
        match self {
            Kind::Pipelines => coverage::BESIDE_PIPELINES,
            Kind::Scans => coverage::BESIDE_SCANS,
            Kind::NeverReads => coverage::BESIDE_NEVER_READS,
            Kind::LargeTexts => coverage::BESIDE_LARGE_TEXTS,
            Kind::Vanishes => coverage::BESIDE_VANISHES,
        }
    }
}

/// One of so many runs has an aggressor.
const RUNS: u64 = 50;
/// Clients that are to be served all the same; the next is the aggressor.
const VICTIMS: usize = 2;
/// How long the run is, when the aggressor begins, and from when on waits count.
const TROUBLE_US: u64 = 3_200_000;
const BEGINS_US: u64 = 1_200_000;
const COUNTS_US: u64 = 1_000_000;
/// From one request of a victim to the next, and from one look of the aggressor to the next.
const PACE_US: u64 = 20_000;
const LOOK_US: u64 = 10_000;
/// What the aggressor keeps in flight, by what it does.
const PIPELINED: usize = 2_500;
const SCANS: usize = 60;
const UNREAD: usize = 1_500;
const TEXTS: usize = 24;
const TEXT_LEN: usize = 3_000;
const VANISHING: usize = 400;
const VANISHES_US: u64 = 250_000;
/// Threads of each node, and how many times what a real node takes for anything: a read of a row takes 5.8 ms.
const THREADS: u32 = 4;
const SLOWER: f64 = 50.0;

/// How many times what it is without it a wait may be, and how much longer than that.
const FACTOR: u64 = 3;
const BESIDE_US: u64 = 250_000;
/// The same of the mean of all waits; beside scans, see [`DUE_US`].
const MEAN_US: u64 = 130_000;
const MEAN_BESIDE_SCANS_US: u64 = 250_000;
/// Shares are those within a class, and scans are many pieces: what is lighter goes first, until a request has waited for
/// half of its bound and is due (`scheduling.point_wait_max_ms`; docs/scheduling.md, "Limits").
const DUE_US: u64 = 2_500_000;

/// How clients have fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fared {
    pub asked: u64,
    pub failed: u64,
    pub worst_us: u64,
    /// Of all waits together.
    pub waited_us: u64,
}

impl Fared {
    fn mean_us(&self) -> u64 {
        self.waited_us / self.asked.max(1)
    }
}

/// A run with an aggressor, or the same without it.
pub(super) struct Aggression {
    kind: Kind,
    is_absent: bool,
    /// What each victim asks for is decided by dice of its own, so that it is the same in both runs.
    dice: [Dice; VICTIMS],
    /// When each client acts next.
    next_us: [u64; VICTIMS + 1],
    vanishes_us: u64,
    pub fared: Fared,
    /// How they have fared without it.
    pub alone: Option<Fared>,
    /// Most requests that it has had in the proxy when a victim asked.
    most_beside: usize,
}

/// What the aggressor of a run does, if it has one.
pub(super) fn kind_of(seed: u64) -> Option<Kind> {
    let mut dice = Dice::of(seed, 6, 0);
    let has = dice.below(RUNS) == 0;
    has.then(|| Kind::ALL[dice.below(Kind::ALL.len() as u64) as usize])
}

/// The settings of such a run: those that a proxy comes with, but for what makes queues form in it.
pub(super) fn settings(seed: u64) -> Config {
    let mut dice = Dice::of(seed, 6, 1);
    let mut pick = |choices: &[usize]| choices[dice.below(choices.len() as u64) as usize];
    let mut config = Config::default();
    config.limits.request_timeout_ms = Some(12_000);
    config.limits.client_backlog_bytes_max = 1 << 20;
    config.links.node_in_flight_max = pick(&[16, 32]);
    config.scheduling.parallel_rows = pick(&[0, 8]);
    config
}

impl World {
    /// Makes an ordinary run, in which nothing has happened yet, one with an aggressor.
    pub(super) fn set_up_aggressor(&mut self, seed: u64, kind: Kind, is_absent: bool) {
        self.loads = (0..self.cluster.nodes.len())
            .map(|_| Load::new(THREADS, SLOWER))
            .collect();
        self.trouble_us = TROUBLE_US;
        self.is_calm = true;
        let client = |number: usize| {
            let role = usize::from(number == VICTIMS);
            let mut client = Client::new(role, self.version, u32::MAX);
            client.streams_max = 30_000;
            client
        };
        self.clients = (0..=VICTIMS).map(client).collect();
        self.aggression = Some(Aggression {
            kind,
            is_absent,
            dice: [Dice::of(seed, 7, 0), Dice::of(seed, 7, 1)],
            next_us: [0; VICTIMS + 1],
            vanishes_us: 0,
            fared: Fared::default(),
            alone: None,
            most_beside: 0,
        });
    }

    /// Whether a client is the aggressor of the run.
    pub(super) fn is_aggressor(&self, client: usize) -> bool {
        self.aggression.is_some() && client == VICTIMS
    }

    /// Whether a client reads nothing of what it is sent.
    pub(super) fn is_deaf(&self, client: usize) -> bool {
        let of = self.aggression.as_ref();
        let never_reads = of.is_some_and(|of| of.kind == Kind::NeverReads);
        never_reads && self.is_aggressor(client) && self.clients[client].ready
    }

    /// Whether a client acts at its own pace, whatever it is answered.
    pub(super) fn is_paced(&self, client: usize) -> bool {
        self.aggression.is_some() && client <= VICTIMS
    }

    /// A victim, or the aggressor, goes on.
    pub(super) fn act_at_pace(&mut self, client: usize) {
        let (now_us, is_aggressor) = (self.now_us(), self.is_aggressor(client));
        let Some(of) = &mut self.aggression else {
            return;
        };
        if now_us < of.next_us[client] || is_aggressor && of.is_absent {
            return;
        }
        if is_aggressor && now_us < BEGINS_US {
            return self.events.plan(BEGINS_US - now_us, Event::Act(client));
        }
        if self.clients[client].connection.is_none() {
            if self.trouble {
                // The aggressor shares a worker with one of them.
                let workers = self.proxies[0].workers.len();
                let worker = if client == 1 { workers - 1 } else { 0 };
                self.connect_to(client, At { proxy: 0, worker });
            }
            return;
        }
        if !self.clients[client].ready {
            return;
        }
        if !self.trouble {
            return self.end_at_pace(client);
        }
        let pace_us = if is_aggressor { LOOK_US } else { PACE_US };
        of_next(&mut self.aggression, client, now_us + pace_us);
        self.events.plan(pace_us, Event::Act(client));
        match is_aggressor {
            true => self.attack(client),
            false => self.ask_beside(client),
        }
        self.write_of_client(client);
    }

    fn end_at_pace(&mut self, client: usize) {
        if self.is_aggressor(client) {
            return self.vanish(client);
        }
        match self.clients[client].connection {
            Some(number) if self.clients[client].in_flight.is_empty() => {
                self.clients[client].connection = None;
                self.leave(number, End::Peer);
            }
            _ => self.events.plan(PACE_US, Event::Act(client)),
        }
    }

    /// A victim asks for the next thing.
    fn ask_beside(&mut self, client: usize) {
        let in_proxy = self.proxies[0].workers.iter();
        let in_proxy: usize = in_proxy
            .map(|worker| worker.engine.requests_in_flight())
            .sum();
        let Some(of) = &mut self.aggression else {
            return;
        };
        of.most_beside = of.most_beside.max(in_proxy);
        std::mem::swap(&mut self.dice, &mut of.dice[client]);
        let key = self.dice.below(self.keys as u64) as i64;
        let begun = match self.dice.below(10) {
            0 | 1 => self.begin_write(client, 6, key),
            2 => self.begin_write(client, 10, key),
            3 => Some(self.begin_read(client, 24, key)),
            _ => Some(self.begin_read(client, 0, key)),
        };
        if let Some(of) = &mut self.aggression {
            std::mem::swap(&mut self.dice, &mut of.dice[client]);
        }
        if let Some(stream) = begun {
            self.note_begun(client, stream, None);
        }
    }

    /// The aggressor tops up what it has in flight, or goes.
    fn attack(&mut self, client: usize) {
        let now_us = self.now_us();
        let Some(of) = &mut self.aggression else {
            return;
        };
        let kind = of.kind;
        if kind == Kind::Vanishes && now_us >= of.vanishes_us {
            let is_first = of.vanishes_us == 0;
            of.vanishes_us = now_us + VANISHES_US;
            if !is_first {
                self.vanish(client);
                return self.events.plan(1_000, Event::Act(client));
            }
        }
        let most = match kind {
            Kind::Pipelines => PIPELINED,
            Kind::Scans => SCANS,
            Kind::NeverReads => UNREAD,
            Kind::LargeTexts => TEXTS,
            Kind::Vanishes => VANISHING,
        };
        while self.clients[client].in_flight.len() < most {
            let key = self.dice.below(self.keys as u64) as i64;
            match kind {
                Kind::Pipelines | Kind::Vanishes => _ = self.begin_read(client, 0, key),
                Kind::Scans if key % 4 == 0 => _ = self.begin_read(client, 16, key),
                Kind::Scans | Kind::NeverReads => {
                    let size = page_size(&mut self.dice);
                    _ = self.ask_page(client, cql::SCAN, size);
                }
                Kind::LargeTexts => self.ask_at_length(client, key),
            }
        }
    }

    /// Asks for a row with a text that is long, and unlike all others.
    fn ask_at_length(&mut self, client: usize, key: i64) {
        let now_us = self.now_us();
        let zeros = TEXT_LEN + self.dice.below(1_000) as usize;
        let text = format!("SELECT v FROM ks.t WHERE k = {}{key}", "0".repeat(zeros));
        let of = &mut self.clients[client];
        let mut body = Vec::new();
        write::long_string(&mut body, &text);
        write::u16(&mut body, of.level.0);
        match of.version {
            Version::V5 => write::u32(&mut body, query_flags::TIMESTAMP),
            _ => body.push(query_flags::TIMESTAMP as u8),
        }
        write::i64(&mut body, now_us as i64);
        of.send(now_us, Opcode::Query, &body, Purpose::Read(key));
    }

    /// The aggressor is gone, and what it has been answered is lost.
    fn vanish(&mut self, client: usize) {
        if let Some(number) = self.clients[client].connection.take() {
            self.clients[client].ready = false;
            self.connections[number].broken = true;
            self.leave(number, End::Peer);
        }
    }

    /// How clients fare is compared with a run without the aggressor.
    pub(super) fn compare_with(&mut self, without: &World) {
        if let (Some(of), Some(without)) = (&mut self.aggression, &without.aggression) {
            of.alone = Some(without.fared);
        }
    }

    /// A victim has an answer.
    pub(super) fn note_fared(&mut self, client: usize, request: &InFlight, is_error: bool) {
        let now_us = self.now_us();
        let (is_paced, is_aggressor) = (self.is_paced(client), self.is_aggressor(client));
        let counts = matches!(
            request.purpose,
            Purpose::Read(_) | Purpose::Write(..) | Purpose::Add(_)
        );
        if let Some(of) = &mut self.aggression
            && is_paced
            && !is_aggressor
            && counts
            && request.begun_us >= COUNTS_US
        {
            of.fared.asked += 1;
            of.fared.failed += u64::from(is_error);
            // Within a class, too, what is lighter goes first until the other is due, and writes are lighter than additions:
            // there are few in a class that is served one request in eight.
            if !matches!(request.purpose, Purpose::Add(_)) {
                of.fared.worst_us = of.fared.worst_us.max(now_us - request.begun_us);
            }
            of.fared.waited_us += now_us - request.begun_us;
        }
    }

    /// The victims have fared nearly as well as without the aggressor.
    pub(super) fn judge_beside(&mut self) {
        let Some(of) = &self.aggression else {
            return;
        };
        let (Some(alone), beside, kind) = (of.alone, of.fared, of.kind) else {
            return;
        };
        let most_beside = of.most_beside;
        let means = (alone.mean_us(), beside.mean_us());
        self.note(|| {
            format!("{alone:?} without, {beside:?} with one that {kind:?}; means {means:?}")
        });
        let (more_us, mean_more_us) = match kind {
            Kind::Scans => (DUE_US, MEAN_BESIDE_SCANS_US),
            _ => (BESIDE_US, MEAN_US),
        };
        let is_worse = beside.worst_us > alone.worst_us * FACTOR + more_us;
        let is_slower = beside.mean_us() > alone.mean_us() * FACTOR + mean_more_us;
        if beside.failed > alone.failed || is_worse || is_slower {
            self.violate(format!(
                "beside an aggressor that {kind:?} others have fared as {beside:?}, and without it as {alone:?}"
            ));
        }
        self.count(kind.name());
        self.checked(coverage::Check::Beside, most_beside >= 20);
    }
}

fn of_next(aggression: &mut Option<Aggression>, client: usize, next_us: u64) {
    if let Some(of) = aggression {
        of.next_us[client] = next_us;
    }
}
