//! Once nothing goes wrong any more each proxy carries out writes and reads of each partition.

use super::super::World;
use super::super::network::End;
use crate::chaos::client::{Answer, Copied, Purpose, RowWrite};
use crate::chaos::coverage;
use crate::chaos::proxy::At;
use crate::chaos::wide::{Action, Change, Scan, read_with, texts};

/// The client that asks: all have left by then.
const CLIENT: usize = 0;
/// So long after a catalogue could not be read, or a node not be reached, that is still felt.
const FELT_US: u64 = 5_000_000;
/// A request may be tried again for so long, with the connection that it needs: a node that is slow once is evicted.
const TRIED_US: u64 = 15_000_000;
const NEXT_US: u64 = 10_000;
const AGAIN_US: u64 = 500_000;

/// How far that has come.
#[derive(Debug, Default)]
pub(in crate::chaos::world) enum Probe {
    #[default]
    ToCome,
    Asks(Asks),
    /// Since when.
    Over(u64),
}

#[derive(Debug)]
pub(in crate::chaos::world) struct Asks {
    left: Vec<Turn>,
    /// Since when the last of them is tried.
    since_us: u64,
    error: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    proxy: usize,
    partition: i64,
    is_write: bool,
}

impl World {
    /// Begins once all is calm. Returns whether it is over, or has nothing to do.
    pub(in crate::chaos::world) fn is_probed(&mut self) -> bool {
        let now_us = self.now_us();
        let Some(lists) = &self.lists else {
            return true;
        };
        match &self.probe {
            Probe::Over(_) => return true,
            Probe::Asks(asks) => {
                if now_us > asks.since_us + TRIED_US {
                    let (turn, error) = (asks.left.last(), &asks.error);
                    self.violate(format!(
                        "nothing goes wrong, and it fails: {turn:?}, {error:?}"
                    ));
                }
                return false;
            }
            Probe::ToCome => {}
        }
        let partitions = lists.groups.iter().flat_map(|group| &group.partitions);
        let partitions: Vec<i64> = partitions.copied().collect();
        let mut running = self.proxies_running();
        let is_felt = |until_us: u64| until_us > 0 && until_us + FELT_US > now_us;
        let lost = |proxy: &usize| is_felt(self.proxies[*proxy].catalogue_lost_until_us);
        let is_apart = self.partitions.values().any(|until_us| is_felt(*until_us));
        if is_apart || running.iter().any(lost) || !self.dropped.is_empty() {
            return false;
        }
        running.retain(|proxy| self.worker_that_accepts(*proxy).is_some());
        let of_proxy = |proxy: usize| {
            partitions.iter().flat_map(move |partition| {
                [false, true].map(|is_write| Turn {
                    proxy,
                    partition: *partition,
                    is_write,
                })
            })
        };
        let left: Vec<Turn> = running.into_iter().flat_map(of_proxy).collect();
        self.probe = Probe::Asks(Asks {
            left,
            since_us: now_us,
            error: None,
        });
        self.note(|| "all is calm, and each proxy is asked".to_owned());
        self.ask_probe();
        false
    }

    /// What is left after that may take until then to become equal.
    pub(in crate::chaos::world) fn probed_us(&self) -> u64 {
        match self.probe {
            Probe::Over(since_us) => since_us,
            Probe::ToCome | Probe::Asks(_) => 0,
        }
    }

    pub(in crate::chaos::world) fn is_probing(&self, client: usize) -> bool {
        client == CLIENT && matches!(self.probe, Probe::Asks(_))
    }

    fn worker_that_accepts(&self, proxy: usize) -> Option<At> {
        let workers = &self.proxies[proxy].workers;
        let worker = workers
            .iter()
            .position(|of| of.accepts && !of.ended && of.timetable.is_none())?;
        Some(At { proxy, worker })
    }

    /// The client does what comes next, if it waits for nothing.
    pub(in crate::chaos::world) fn ask_probe(&mut self) {
        let Probe::Asks(asks) = &self.probe else {
            return;
        };
        let turn = asks.left.last().copied();
        let connected = self.clients[CLIENT].connection;
        // What was in flight over a connection that is gone is no more waited for.
        if connected.is_some() && !self.clients[CLIENT].in_flight.is_empty() {
            return;
        }
        if let Some(number) = connected
            && turn.is_none_or(|turn| self.connections[number].at.proxy != turn.proxy)
        {
            self.clients[CLIENT].connection = None;
            self.leave(number, End::Peer);
            return self.ask_probe();
        }
        let Some(turn) = turn else {
            self.probe = Probe::Over(self.now_us());
            return;
        };
        match (connected, self.worker_that_accepts(turn.proxy)) {
            (Some(_), _) if self.clients[CLIENT].ready => self.send_probe(turn),
            (None, Some(at)) => self.connect_to(CLIENT, at),
            _ => {}
        }
    }

    fn send_probe(&mut self, turn: Turn) {
        let now_us = self.now_us();
        let bytes = |values: &[i64]| -> Vec<Vec<u8>> {
            values.iter().map(|v| v.to_be_bytes().to_vec()).collect()
        };
        let partition = turn.partition;
        let (client, dice) = (&mut self.clients[CLIENT], &mut self.dice);
        let page = (100, None);
        if turn.is_write {
            let (row, value) = ([0, 1, 2], client.unique(CLIENT));
            let put = Change::Put(row, value);
            self.histories.begin(partition, vec![put], now_us);
            let purpose = Purpose::RowWrite(RowWrite {
                partitions: vec![partition],
                timestamp: now_us as i64,
                copied: Copied::Yes,
            });
            let values = bytes(&[partition, row[0], row[1], row[2], value]);
            client.statement(now_us, texts::INSERT, &values, page, purpose, dice);
        } else {
            let text = texts::ALL_ROWS;
            let statement = read_with(text, vec![Some(partition)]);
            let Some(Action::Select(select)) = statement.map(|of| of.action) else {
                panic!("{text} is a read");
            };
            let purpose = Purpose::Rows(Box::new(Scan {
                text,
                values: vec![partition],
                partition,
                select,
                last: None,
                seen: 0,
            }));
            client.statement(now_us, text, &bytes(&[partition]), page, purpose, dice);
        }
        self.write_of_client(CLIENT);
    }

    /// The client has had an answer. Returns when it goes on.
    pub(in crate::chaos::world) fn on_probed(&mut self, purpose: &Purpose, answer: &Answer) -> u64 {
        let now_us = self.now_us();
        let Probe::Asks(asks) = &mut self.probe else {
            return NEXT_US;
        };
        match (purpose, answer) {
            (_, Answer::Error(_, text)) => {
                asks.error = Some(text.clone());
                return AGAIN_US;
            }
            (Purpose::RowWrite(_) | Purpose::Rows(_), _) => {
                asks.left.pop();
                asks.since_us = now_us;
                asks.error = None;
                self.count(coverage::DONE_IN_CALM);
            }
            _ => {}
        }
        NEXT_US
    }
}
