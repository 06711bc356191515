//! Counts of reads that were played: by class and statement, and since the last line of progress.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use helenus_capture::kinds;

use super::compared::compare_with_client;
use super::request::{Request, Sample};
use crate::client::failure::code_kind;
use crate::replay::answers::Compared;
use crate::replay::tally::{Group, Of, Tally, groups, histogram, ms};

/// Significant digits of latencies: a thousand statements are counted each by itself, so less than in a replay.
const DIGITS: u8 = 2;
/// Different reasons why reads are not played that are kept apart.
const REASONS_MAX: usize = 1_000;

/// Latencies and errors since the last line of progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// None without answers.
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub errors: u64,
}

struct Recent {
    took: Histogram<u64>,
    errors: u64,
}

/// Of the clients (first) and of each endpoint.
pub(crate) struct Counted {
    tallies: BTreeMap<Of, Tally>,
    recent: Vec<Recent>,
    pub played: u64,
    /// Answers that were not the same; errors are counted by themselves.
    pub differences: u64,
    pub not_played: BTreeMap<String, u64>,
}

impl Counted {
    pub(crate) fn new(endpoints: usize) -> Counted {
        let recent = || Recent {
            took: histogram(DIGITS),
            errors: 0,
        };
        Counted {
            tallies: BTreeMap::new(),
            recent: (0..=endpoints).map(|_| recent()).collect(),
            played: 0,
            differences: 0,
            not_played: BTreeMap::new(),
        }
    }

    pub(crate) fn leave_out(&mut self, why: &str, count: u64) {
        let is_known = self.not_played.contains_key(why);
        let why = match is_known || self.not_played.len() < REASONS_MAX {
            true => why,
            false => "requests for other reasons",
        };
        *self.not_played.entry(why.to_owned()).or_default() += count;
    }

    /// A read was played at each endpoint.
    pub(crate) fn add(&mut self, request: &Request, samples: &[Sample]) {
        self.played += 1;
        let compared = match samples {
            // Where later pages begin depends on those before.
            _ if request.step.continues => None,
            [one] => compare_with_client(&request.answer, &one.read),
            [one, other] => Some(one.read.got.compare(&other.read.got)),
            _ => None,
        };
        let may_differ = request.known.statement.kinds & kinds::CALLS != 0;
        let client = match request.answer.error {
            None => Ok(Duration::from_micros(request.answer.took_us)),
            Some(code) => Err(code_kind(code as i32)),
        };
        let endpoints = samples
            .iter()
            .map(|sample| match sample.read.got.failure() {
                None => Ok(sample.took),
                Some(kind) => Err(kind),
            });
        let arms: Vec<_> = std::iter::once(client).chain(endpoints).collect();
        let number = arms.len();
        for of in [
            Of::All,
            Of::Class(request.step.class),
            Of::Statement(request.known.shown),
        ] {
            let entry = self.tallies.entry(of);
            let tally = entry.or_insert_with(|| Tally::new(number, DIGITS));
            for (arm, took) in arms.iter().enumerate() {
                match took {
                    Ok(took) => tally.on_answer(arm, *took),
                    Err(kind) => tally.on_error(arm, kind),
                }
            }
            if let Some(compared) = compared {
                tally.on_compared(compared, may_differ);
            }
        }
        for (recent, took) in self.recent.iter_mut().zip(&arms) {
            match took {
                Ok(took) => recent.took.saturating_record(took.as_micros() as u64),
                Err(_) => recent.errors += 1,
            }
        }
        let differs = matches!(compared, Some(Compared::Different | Compared::Reordered));
        self.differences += u64::from(differs && !may_differ);
    }

    /// Of the clients and of each endpoint; the next interval begins.
    pub(crate) fn interval(&mut self) -> Vec<Interval> {
        let recent = self.recent.iter_mut().map(|recent| {
            let interval = Interval {
                p50_ms: ms(&recent.took, 0.5),
                p99_ms: ms(&recent.took, 0.99),
                errors: recent.errors,
            };
            recent.took.reset();
            recent.errors = 0;
            interval
        });
        recent.collect()
    }

    pub(crate) fn groups(
        self,
        classes: &[String],
        statement: impl Fn(usize) -> String,
    ) -> Vec<Group> {
        groups(self.tallies, classes, statement)
    }
}
