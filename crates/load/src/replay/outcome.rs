//! The outcome of a capture that was played: latencies by class and statement, and answers that differ.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use helenus_capture::kinds;
use serde::Serialize;

use super::pace::{Pace, Paced};
use super::play::Sample;
use super::tally::{Group, Of, Tally, groups, histogram};
use super::traffic::Traffic;
use crate::client::endpoint::Endpoint;

/// The outcome, as it is shown and written.
#[derive(Debug, Serialize)]
pub struct Outcome {
    pub endpoints: Vec<String>,
    pub rounds: usize,
    /// Requests for each endpoint.
    pub requests: usize,
    /// When requests left, by endpoint; none in a closed loop.
    pub pace: Vec<Option<Pace>>,
    pub filled_rows: Option<u64>,
    /// Why not all rounds were played.
    pub broken_off: Option<String>,
    /// Everything, then classes, then statements, the most frequent first.
    pub groups: Vec<Group>,
    /// Why requests were not played.
    pub not_played: BTreeMap<String, u64>,
}

/// Significant digits of latencies.
const DIGITS: u8 = 3;

pub(super) struct Gathered {
    endpoints: usize,
    rounds: usize,
    tallies: BTreeMap<Of, Tally>,
    /// By endpoint.
    paced: Vec<Paced>,
}

impl Gathered {
    pub(super) fn new(endpoints: usize) -> Gathered {
        Gathered {
            endpoints,
            rounds: 0,
            tallies: BTreeMap::new(),
            paced: (0..endpoints).map(|_| Paced::new(DIGITS)).collect(),
        }
    }

    fn tally(&mut self, of: Of) -> &mut Tally {
        let endpoints = self.endpoints;
        let entry = self.tallies.entry(of);
        entry.or_insert_with(|| Tally::new(endpoints, DIGITS))
    }

    /// Takes what each endpoint has answered in a round. `speed`: times the recorded rate.
    pub(super) fn add_round(&mut self, traffic: &Traffic, played: &[Vec<Sample>], speed: f64) {
        self.rounds += 1;
        for (paced, samples) in self.paced.iter_mut().zip(played) {
            paced.add(traffic, samples, speed);
        }
        let mut round: BTreeMap<Of, Vec<Histogram<u64>>> = BTreeMap::new();
        let groups = |step: usize| {
            let step = &traffic.steps[step];
            [
                Of::All,
                Of::Class(step.class),
                Of::Statement(traffic.alike[step.statement()]),
            ]
        };
        for (arm, samples) in played.iter().enumerate() {
            for sample in samples {
                for of in groups(sample.step) {
                    if let Some(kind) = sample.got.failure() {
                        self.tally(of).on_error(arm, kind);
                        continue;
                    }
                    let empty = || vec![histogram(DIGITS); played.len()];
                    let histograms = round.entry(of).or_insert_with(empty);
                    histograms[arm].saturating_record(sample.took.as_micros() as u64);
                }
            }
        }
        for (of, histograms) in round {
            let tally = self.tally(of);
            for (all, one) in tally.took.iter_mut().zip(&histograms) {
                // Both have the same bounds.
                let _ = all.add(one);
            }
            if let [first, second] = &histograms[..]
                && !first.is_empty()
                && !second.is_empty()
            {
                for (ratios, at) in tally.ratios.iter_mut().zip([0.5, 0.99]) {
                    let of = |histogram: &Histogram<u64>| histogram.value_at_quantile(at) as f64;
                    ratios.push(of(second) / of(first));
                }
            }
        }
        if let [first, second] = played {
            self.compare(traffic, first, second, groups);
        }
    }

    fn compare(
        &mut self,
        traffic: &Traffic,
        first: &[Sample],
        second: &[Sample],
        groups: impl Fn(usize) -> [Of; 3],
    ) {
        let others: BTreeMap<usize, &Sample> =
            second.iter().map(|sample| (sample.step, sample)).collect();
        for sample in first {
            let step = &traffic.steps[sample.step];
            // Where later pages begin depends on those before.
            let Some(other) = others
                .get(&sample.step)
                .filter(|_| step.is_read && !step.continues)
            else {
                continue;
            };
            let compared = sample.got.compare(&other.got);
            let statement = &traffic.statements[step.statement()];
            let may_differ = statement.kinds & kinds::CALLS != 0;
            for of in groups(sample.step) {
                self.tally(of).on_compared(compared, may_differ);
            }
        }
    }

    pub(super) fn outcome(self, endpoints: &[Endpoint], traffic: &Traffic) -> Outcome {
        let text = |number: usize| traffic.statements[number].text.clone();
        Outcome {
            endpoints: endpoints
                .iter()
                .map(|endpoint| endpoint.name.clone())
                .collect(),
            rounds: self.rounds,
            requests: traffic.steps.len(),
            pace: self.paced.iter().map(Paced::pace).collect(),
            filled_rows: traffic.filled,
            broken_off: traffic.broken_off.clone(),
            groups: groups(self.tallies, &traffic.classes, text),
            not_played: traffic.left_out.clone(),
        }
    }
}
