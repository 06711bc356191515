//! The experiment as data: its cells, and what is told of them.

use super::experiment::{FIRST_REPLICA, Hot};
use super::reads::KINDS;
use crate::experiments::arms::{Arm, ROUND_ROBIN, TOKEN_AWARE, ratio_key};
use crate::experiments::experiment::{Cell, Experiment, named};
use crate::report::chart::Chart;
use crate::report::figures::{Figure, PER_SECOND};
use crate::report::ratios::{Ratios, Side, Value};

/// The documented keys.
pub const HOT_KEYS: [&str; 6] = [
    "hot_key_vs_direct",
    "hot_key_vs_token_aware",
    "hot_key_vs_round_robin",
    "hot_other_keys_p99",
    "hot_other_keys_p99_vs_token_aware",
    "client_errors",
];

/// The 99th percentile of the reads of keys that are not hot.
const OTHERS_P99_MS: Figure = Figure::OfKind(KINDS[1], |others| {
    (others.ops > 0).then_some(others.latency.us_p99 as f64 / 1000.0)
});

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// In a closed loop. None: an open one, at the experiment's rate.
    pub clients: Option<usize>,
    /// There is a hot key.
    pub is_hot: bool,
}

impl Job {
    fn name(self) -> String {
        let keys = if self.is_hot { "hot" } else { "even" };
        match self.clients {
            Some(clients) => format!("{keys}, {clients} clients"),
            None => format!("{keys}, open loop"),
        }
    }
}

impl Hot {
    pub(super) fn declared(&self) -> Experiment<Job> {
        let loads = self.clients.iter().copied().map(Some).chain([None]);
        let jobs = loads.flat_map(|clients| [false, true].map(|is_hot| Job { clients, is_hot }));
        let cells = jobs.map(|job| Cell::of_all(job.name(), job, self.arms.len()));
        let cells: Vec<Cell<Job>> = cells.collect();
        let ratios = self.ratios(&cells);
        Experiment {
            arms: self.arms.clone(),
            rounds: self.rounds,
            until: None,
            watched: self.watched.clone(),
            cells,
            ratios,
            charts: self.charts(),
        }
    }

    fn ratios(&self, cells: &[Cell<Job>]) -> Ratios {
        let closed = named(cells, |job| job.clients.is_some() && job.is_hot);
        let open = named(cells, |job| job.clients.is_none() && job.is_hot);
        let open_even = named(cells, |job| job.clients.is_none() && !job.is_hot);
        let all = named(cells, |_| true);
        let mut ratios = Ratios::default();
        for arm in self.arms.iter().map(Arm::name) {
            let key = |key| ratio_key(arm, key);
            for (of, other) in [
                ("hot_key_vs_direct", FIRST_REPLICA),
                ("hot_key_vs_token_aware", TOKEN_AWARE),
                ("hot_key_vs_round_robin", ROUND_ROBIN),
            ] {
                ratios.over(key(of), arm, other, &closed, PER_SECOND);
            }
            // At the same rate with the hot key and without.
            let others = |cells: &[String]| Side::new(arm, cells, OTHERS_P99_MS);
            let raise = Value::Quotient(others(&open), others(&open_even));
            ratios.add(key("hot_other_keys_p99"), raise);
            let of = key("hot_other_keys_p99_vs_token_aware");
            ratios.over(of, arm, TOKEN_AWARE, &open, OTHERS_P99_MS);
            ratios.errors(key("client_errors"), arm, &all);
        }
        ratios
    }

    fn charts(&self) -> Vec<Chart> {
        let closed = |title, is_hot| {
            let cell = |&clients: &usize| {
                let job = Job {
                    clients: Some(clients),
                    is_hot,
                };
                (clients.to_string(), job.name())
            };
            let cells = self.clients.iter().map(cell).collect();
            Chart::lines((title, "reads/s", "clients"), cells, PER_SECOND)
        };
        let clients = None;
        let open = [false, true].map(|is_hot| Job { clients, is_hot }.name());
        let title = "Other keys, 99th percentile at the same rate";
        vec![
            closed("Reads beside a hot key", true),
            closed("Reads without one", false),
            Chart::bars(title, "ms", &open, OTHERS_P99_MS),
        ]
    }
}
