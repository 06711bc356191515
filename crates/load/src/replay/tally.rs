//! Latencies, errors and differences of requests that are shown together.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::answers::Compared;
use crate::measure::ErrorKind;
use crate::report::spread::Spread;

/// The key by which requests are shown together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Of {
    All,
    Class(u8),
    Statement(usize),
}

/// Requests of one class, or of one statement.
#[derive(Debug, Serialize)]
pub struct Group {
    /// `all`, `class` or `statement`.
    pub kind: &'static str,
    pub name: String,
    /// By endpoint.
    pub of: Vec<OfEndpoint>,
    /// Latencies of the second endpoint as a multiple of the first's, of each round; None where there are no rounds.
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

/// Answers of one endpoint.
#[derive(Debug, Serialize)]
pub struct OfEndpoint {
    pub answered: u64,
    /// By their kinds.
    pub errors: BTreeMap<String, u64>,
    /// None without answers.
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
}

/// Counts of the requests of one key.
pub(crate) struct Tally {
    /// By endpoint.
    pub(crate) took: Vec<Histogram<u64>>,
    errors: Vec<BTreeMap<String, u64>>,
    /// By round.
    pub(crate) ratios: [Vec<f64>; 2],
    answers: BTreeMap<u8, u64>,
    undecided: u64,
}

/// From a microsecond to an hour, with so many digits.
pub(crate) fn histogram(digits: u8) -> Histogram<u64> {
    // These bounds are valid.
    Histogram::new_with_bounds(1, 3_600_000_000, digits)
        .unwrap_or_else(|_| unreachable!("valid bounds"))
}

/// None of nothing.
pub(crate) fn ms(histogram: &Histogram<u64>, at: f64) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.value_at_quantile(at) as f64 / 1e3)
}

impl Tally {
    pub(crate) fn new(endpoints: usize, digits: u8) -> Tally {
        Tally {
            took: vec![histogram(digits); endpoints],
            errors: vec![BTreeMap::new(); endpoints],
            ratios: [Vec::new(), Vec::new()],
            answers: BTreeMap::new(),
            undecided: 0,
        }
    }

    /// An endpoint has answered.
    pub(crate) fn on_answer(&mut self, endpoint: usize, took: Duration) {
        self.took[endpoint].saturating_record(took.as_micros() as u64);
    }

    pub(crate) fn on_error(&mut self, endpoint: usize, kind: ErrorKind) {
        *self.errors[endpoint].entry(kind.to_owned()).or_default() += 1;
    }

    /// Answers were compared. `may_differ`: they may be different by nature.
    pub(crate) fn on_compared(&mut self, compared: Compared, may_differ: bool) {
        match may_differ && matches!(compared, Compared::Different | Compared::Reordered) {
            true => self.undecided += 1,
            false => *self.answers.entry(compared as u8).or_default() += 1,
        }
    }

    pub(crate) fn requests(&self) -> u64 {
        let answered: u64 = self.took.iter().map(Histogram::len).sum();
        answered + self.errors.iter().flat_map(BTreeMap::values).sum::<u64>()
    }

    fn group(&self, kind: &'static str, name: String) -> Group {
        let per_endpoint = self.took.iter().zip(&self.errors);
        let answers = |of: Compared| self.answers.get(&(of as u8)).copied().unwrap_or(0);
        let [p50, p99] = &self.ratios;
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
            compared: self.answers.values().sum::<u64>() + self.undecided,
            same: answers(Compared::Same),
            reordered: answers(Compared::Reordered),
            different: answers(Compared::Different),
            failed: answers(Compared::Failed),
            undecided: self.undecided,
        }
    }
}

/// Everything, then classes, then statements, the most frequent first. `statement`: the text of one.
pub(crate) fn groups(
    tallies: BTreeMap<Of, Tally>,
    classes: &[String],
    statement: impl Fn(usize) -> String,
) -> Vec<Group> {
    let mut tallies: Vec<(Of, Tally)> = tallies.into_iter().collect();
    tallies.sort_by_key(|(of, tally)| {
        let kind = match of {
            Of::All => 0,
            Of::Class(_) => 1,
            Of::Statement(_) => 2,
        };
        (kind, std::cmp::Reverse(tally.requests()), *of)
    });
    let groups = tallies.iter().map(|(of, tally)| match of {
        Of::All => tally.group("all", "all".to_owned()),
        Of::Class(class) => {
            let name = classes.get(usize::from(*class));
            tally.group("class", name.map_or("?", String::as_str).to_owned())
        }
        Of::Statement(number) => tally.group("statement", statement(*number)),
    });
    groups.collect()
}
