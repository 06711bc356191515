//! What came of a capture that was played: latencies by class and statement, and answers that differ.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use helenus_capture::kinds;
use serde::Serialize;

use super::answers::Compared;
use super::play::Sample;
use super::traffic::Traffic;
use crate::endpoint::Endpoint;
use crate::spread::Spread;

/// What requests have in common that are shown together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    All,
    Class(u8),
    Statement(usize),
}

/// The outcome, as it is shown and written.
#[derive(Debug, Serialize)]
pub struct Outcome {
    pub endpoints: Vec<String>,
    pub rounds: usize,
    /// Requests for each endpoint.
    pub requests: usize,
    pub filled_rows: Option<u64>,
    /// Why not all rounds were played.
    pub broken_off: Option<String>,
    /// Everything, then classes, then statements, the most frequent first.
    pub groups: Vec<Group>,
    /// Why requests were not played.
    pub not_played: BTreeMap<String, u64>,
}

/// Requests of one class, or of one statement.
#[derive(Debug, Serialize)]
pub struct Group {
    /// `all`, `class` or `statement`.
    pub kind: &'static str,
    pub name: String,
    /// By endpoint.
    pub of: Vec<OfEndpoint>,
    /// Latencies of the second endpoint as a multiple of the first's, of each round.
    pub ratio_p50: Option<Spread>,
    pub ratio_p99: Option<Spread>,
    /// Answers of reads that were compared.
    pub compared: u64,
    pub same: u64,
    pub reordered: u64,
    pub different: u64,
    /// One was an error, or they were different errors.
    pub failed: u64,
    /// Not the same, of statements that call functions: nobody knows whether that is a difference.
    pub undecided: u64,
}

/// What one endpoint has answered.
#[derive(Debug, Serialize)]
pub struct OfEndpoint {
    pub answered: u64,
    /// By their kinds.
    pub errors: BTreeMap<String, u64>,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

struct Tally {
    /// By endpoint.
    took: Vec<Histogram<u64>>,
    errors: Vec<BTreeMap<String, u64>>,
    /// By round.
    ratios: [Vec<f64>; 2],
    answers: BTreeMap<u8, u64>,
    undecided: u64,
}

pub(super) struct Gathered {
    endpoints: usize,
    rounds: usize,
    tallies: BTreeMap<Of, Tally>,
}

/// From a microsecond to an hour, with three digits.
fn histogram() -> Histogram<u64> {
    // These bounds are valid.
    Histogram::new_with_bounds(1, 3_600_000_000, 3).unwrap_or_else(|_| unreachable!("valid bounds"))
}

impl Gathered {
    pub(super) fn new(endpoints: usize) -> Gathered {
        Gathered {
            endpoints,
            rounds: 0,
            tallies: BTreeMap::new(),
        }
    }

    fn tally(&mut self, of: Of) -> &mut Tally {
        let endpoints = self.endpoints;
        self.tallies.entry(of).or_insert_with(|| Tally {
            took: vec![histogram(); endpoints],
            errors: vec![BTreeMap::new(); endpoints],
            ratios: [Vec::new(), Vec::new()],
            answers: BTreeMap::new(),
            undecided: 0,
        })
    }

    /// Takes what each endpoint has answered in a round.
    pub(super) fn add_round(&mut self, traffic: &Traffic, played: &[Vec<Sample>]) {
        self.rounds += 1;
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
                        let errors = &mut self.tally(of).errors[arm];
                        *errors.entry(kind.to_owned()).or_default() += 1;
                        continue;
                    }
                    let empty = || vec![histogram(); played.len()];
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
            let is_undecided =
                may_differ && matches!(compared, Compared::Different | Compared::Reordered);
            for of in groups(sample.step) {
                let tally = self.tally(of);
                match is_undecided {
                    true => tally.undecided += 1,
                    false => *tally.answers.entry(compared as u8).or_default() += 1,
                }
            }
        }
    }

    pub(super) fn outcome(self, endpoints: &[Endpoint], traffic: &Traffic) -> Outcome {
        let mut tallies: Vec<(Of, Tally)> = self.tallies.into_iter().collect();
        let requests = |tally: &Tally| {
            let answered: u64 = tally.took.iter().map(Histogram::len).sum();
            let failed = tally.errors.iter().flat_map(BTreeMap::values).sum::<u64>();
            answered + failed
        };
        tallies.sort_by_key(|(of, tally)| {
            let kind = match of {
                Of::All => 0,
                Of::Class(_) => 1,
                Of::Statement(_) => 2,
            };
            (kind, std::cmp::Reverse(requests(tally)), *of)
        });
        let groups = tallies.iter().map(|(of, tally)| group(*of, tally, traffic));
        Outcome {
            endpoints: endpoints
                .iter()
                .map(|endpoint| endpoint.name.clone())
                .collect(),
            rounds: self.rounds,
            requests: traffic.steps.len(),
            filled_rows: traffic.filled,
            broken_off: traffic.broken_off.clone(),
            groups: groups.collect(),
            not_played: traffic.left_out.clone(),
        }
    }
}

fn group(of: Of, tally: &Tally, traffic: &Traffic) -> Group {
    let (kind, name) = match of {
        Of::All => ("all", "all".to_owned()),
        Of::Class(class) => {
            let name = traffic.classes.get(usize::from(class));
            ("class", name.map_or("?", String::as_str).to_owned())
        }
        Of::Statement(number) => ("statement", traffic.statements[number].text.clone()),
    };
    let ms = |histogram: &Histogram<u64>, at: f64| histogram.value_at_quantile(at) as f64 / 1e3;
    let per_endpoint = tally.took.iter().zip(&tally.errors);
    let answers = |of: Compared| tally.answers.get(&(of as u8)).copied().unwrap_or(0);
    let [p50, p99] = &tally.ratios;
    Group {
        kind,
        name,
        of: per_endpoint
            .map(|(took, errors)| OfEndpoint {
                answered: took.len(),
                errors: errors.clone(),
                p50_ms: ms(took, 0.5),
                p99_ms: ms(took, 0.99),
            })
            .collect(),
        ratio_p50: Spread::of(p50),
        ratio_p99: Spread::of(p99),
        compared: tally.answers.values().sum::<u64>() + tally.undecided,
        same: answers(Compared::Same),
        reordered: answers(Compared::Reordered),
        different: answers(Compared::Different),
        failed: answers(Compared::Failed),
        undecided: tally.undecided,
    }
}
