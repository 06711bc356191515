//! The playable part of a capture, and the reasons why the rest is left out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helenus_capture::{Reader, Statement, kinds};

use super::step::{Step, byte_len, judged, why_not};

/// Statements that are prepared at most.
const PREPARED_MAX: usize = 10_000;
/// Connections to each endpoint at most.
const CONNECTIONS_MAX: usize = 10_000;
/// Of requests and their values, in memory.
const BYTES_MAX: usize = 4 << 30;
/// Reads of one statement and key on one connection that may still be gone on from.
const OPEN_READS_MAX: usize = 64;
/// Requests in flight at most, of one connection: a connection of the protocol has no more.
const WIDTH_MAX: usize = 32_767;

/// The part of a capture that is played.
#[derive(Debug)]
pub(super) struct Traffic {
    pub(super) statements: Arc<[Statement]>,
    /// Of each statement the first one that looks like it: they differ in the literals in their texts.
    pub(super) alike: Vec<usize>,
    /// Values were recorded.
    pub(super) has_values: bool,
    pub(super) classes: Vec<String>,
    /// In the order of their times.
    pub(super) steps: Vec<Step>,
    /// Requests in flight at most, of each connection.
    pub(super) widths: Vec<usize>,
    /// Why requests are not played, and how many.
    pub(super) left_out: BTreeMap<String, u64>,
    /// Rows that were written for it.
    pub(super) filled: Option<u64>,
    /// Why it was not played to its end.
    pub(super) broken_off: Option<String>,
}

impl Traffic {
    /// Reads a capture. `writes`: those are played as well.
    ///
    /// # Errors
    /// It cannot be read, or has too many connections or statements.
    pub(super) fn read(path: &Path, writes: bool) -> Result<Traffic> {
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
        let mut reader = Reader::open(BufReader::new(file)).with_context(|| shown.to_string())?;
        let mut recorded = Vec::new();
        let mut bytes = 0_usize;
        let mut next = || {
            reader.next_chunk(|one| {
                bytes += byte_len(&one);
                if bytes <= BYTES_MAX {
                    recorded.push(one);
                }
            })
        };
        while next().with_context(|| shown.to_string())? {}
        ensure!(
            bytes <= BYTES_MAX,
            "this capture takes more than 4 GiB of memory, which is too much to be played at once: capture for a \
             shorter time or with a smaller --share"
        );
        let statements = reader.statements().iter();
        let statements: Vec<Statement> = statements.map(|of| judged((**of).clone())).collect();
        let mut traffic = Traffic {
            alike: alike(&statements),
            has_values: reader.start().has_values,
            statements: statements.into(),
            classes: reader.start().classes.clone(),
            steps: Vec::new(),
            widths: Vec::new(),
            left_out: BTreeMap::new(),
            filled: None,
            broken_off: None,
        };
        let mut connections = HashMap::new();
        recorded.sort_by_key(|one| one.request.arrived_us);
        for one in recorded {
            let refused = (!writes).then_some("writes, which need --writes");
            let of = |number: usize| &traffic.statements[number];
            match why_not(&one, of, refused) {
                Some(why) => traffic.leave_out(why),
                None => {
                    let next = connections.len();
                    let name = (one.worker, one.request.connection);
                    let connection = *connections.entry(name).or_insert(next);
                    let mut parts = one.parts.iter();
                    let is_read =
                        parts.all(|(of, _)| traffic.statements[*of].kinds & kinds::READ != 0);
                    traffic.steps.push(Step::of(one, connection, is_read));
                }
            }
        }
        ensure!(
            connections.len() <= CONNECTIONS_MAX,
            "this capture has {} connections, and {CONNECTIONS_MAX} are played at most: capture with a \
             smaller --share",
            connections.len()
        );
        tell_reads_apart(&mut traffic.steps);
        traffic.widths = widths(&traffic.steps, connections.len());
        let prepared = traffic.to_prepare().len();
        ensure!(
            prepared <= PREPARED_MAX,
            "this capture has {prepared} different statements to be prepared, and {PREPARED_MAX} are at most: \
             do its clients write values into texts that they prepare?"
        );
        Ok(traffic)
    }

    pub(super) fn leave_out(&mut self, why: impl Into<String>) {
        *self.left_out.entry(why.into()).or_default() += 1;
    }

    /// Statements that are prepared before.
    pub(super) fn to_prepare(&self) -> Vec<usize> {
        let prepared = self
            .steps
            .iter()
            .filter(|step| !step.is_text(&self.statements[step.statement()]));
        let numbers = prepared.flat_map(|step| step.parts.iter().map(|(of, _)| *of));
        let mut numbers: Vec<usize> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Reasons for leaving requests out, in words.
    pub(super) fn reasons(&self) -> String {
        let reasons = self.left_out.iter();
        let shown: Vec<String> = reasons
            .map(|(why, count)| format!("{count} {why}"))
            .collect();
        match shown.is_empty() {
            true => "it has no requests".to_owned(),
            false => shown.join("; "),
        }
    }

    /// From its beginning to the last request.
    pub(super) fn length(&self) -> Duration {
        self.steps.last().map_or(Duration::ZERO, |last| last.due)
    }

    /// The steps of one of so many pieces of equal time.
    pub(super) fn piece(&self, number: usize, of: usize) -> Range<usize> {
        let at = |number: usize| {
            let end = self.length().mul_f64(number as f64 / of as f64);
            self.steps.partition_point(|step| step.due < end)
        };
        match number + 1 == of {
            true => at(number)..self.steps.len(),
            false => at(number)..at(number + 1),
        }
    }
}

fn alike(statements: &[Statement]) -> Vec<usize> {
    let mut first = HashMap::new();
    let numbered = statements.iter().enumerate();
    numbered
        .map(|(number, of)| *first.entry((&of.text, &of.keyspace)).or_insert(number))
        .collect()
}

/// Numbers reads, so that each has its own pages. A capture does not say which page a request goes on from: it is one
/// of the same statement and key that had been answered by then, and was not gone on from; of several, the one that was
/// answered last.
fn tell_reads_apart(steps: &mut [Step]) {
    type Alike = (usize, usize, Option<u64>);
    let mut open: HashMap<Alike, Vec<(Duration, usize)>> = HashMap::new();
    let mut next = 0;
    for step in steps {
        let alike = (step.connection, step.statement(), step.key);
        let pages = open.entry(alike).or_default();
        let before = pages.iter().enumerate();
        let before = before.filter(|(_, (answered, _))| step.continues && *answered <= step.due);
        let from = before.max_by_key(|(_, page)| **page).map(|(at, _)| at);
        step.read = match from {
            Some(at) => pages.swap_remove(at).1,
            None => {
                next += 1;
                next
            }
        };
        if step.is_read && step.page_size.is_some() {
            pages.push((step.answered, step.read));
            // Reads that ended long ago, or were given up, are not gone on from.
            if pages.len() > OPEN_READS_MAX {
                pages.remove(0);
            }
        }
    }
}

/// The most requests that each connection had in flight.
fn widths(steps: &[Step], connections: usize) -> Vec<usize> {
    let mut widths = vec![1; connections];
    let mut waiting: Vec<BinaryHeap<Reverse<Duration>>> = vec![BinaryHeap::new(); connections];
    for step in steps {
        let waiting = &mut waiting[step.connection];
        while waiting.peek().is_some_and(|first| first.0 <= step.due) {
            waiting.pop();
        }
        waiting.push(Reverse(step.answered));
        let width = &mut widths[step.connection];
        *width = (*width).max(waiting.len()).min(WIDTH_MAX);
    }
    widths
}
