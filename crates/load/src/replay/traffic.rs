//! What of a capture can be played, and why the rest cannot.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helenus_capture::{Reader, Recorded, Statement, Value, kinds, marks};
use helenus_cql::{Kind, facts};
use helenus_wire::Opcode;

/// Statements that are prepared at most.
const PREPARED_MAX: usize = 10_000;
/// Connections to each endpoint at most.
const CONNECTIONS_MAX: usize = 10_000;
/// Of requests and their values, in memory.
const BYTES_MAX: usize = 4 << 30;
/// Requests in flight at most, of one connection: a connection of the protocol has no more.
const WIDTH_MAX: usize = 32_767;

/// A request to be played.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Its place among the connections.
    pub(super) connection: usize,
    /// Since the capture began.
    pub(super) due: Duration,
    pub(super) class: u8,
    pub(super) is_read: bool,
    pub(super) opcode: Opcode,
    pub(super) batch_type: u8,
    pub(super) consistency: u16,
    pub(super) serial_consistency: Option<u16>,
    pub(super) page_size: Option<u32>,
    pub(super) continues: bool,
    pub(super) key: Option<u64>,
    pub(super) parts: Vec<(usize, Vec<Value>)>,
    /// When it had been answered.
    pub(super) answered: Duration,
}

impl Step {
    /// Whether its text is sent as it is, with the values in it.
    pub(super) fn is_text(&self, statements: &[Statement]) -> bool {
        self.opcode == Opcode::Query && statements[self.statement()].sent.is_some()
    }

    pub(super) fn statement(&self) -> usize {
        self.parts.first().map_or(0, |(statement, _)| *statement)
    }
}

/// The part of a capture that is played.
#[derive(Debug)]
pub(super) struct Traffic {
    pub(super) statements: Vec<Statement>,
    /// Of each statement the first one that looks like it: they differ in the literals in their texts.
    pub(super) alike: Vec<usize>,
    /// Whether values were recorded.
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
            statements,
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
            match traffic.why_not(&one, writes) {
                Some(why) => traffic.leave_out(why),
                None => {
                    let next = connections.len();
                    let name = (one.worker, one.request.connection);
                    let connection = *connections.entry(name).or_insert(next);
                    traffic
                        .steps
                        .push(step(one, connection, &traffic.statements));
                }
            }
        }
        ensure!(
            connections.len() <= CONNECTIONS_MAX,
            "this capture has {} connections, and {CONNECTIONS_MAX} are played at most: capture with a \
             smaller --share",
            connections.len()
        );
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

    /// Why a request is not played.
    fn why_not(&self, one: &Recorded, writes: bool) -> Option<&'static str> {
        let opcode = Opcode::from_number(one.request.opcode);
        if opcode == Some(Opcode::Prepare) {
            return Some("preparations: statements are prepared once, before");
        }
        if one.parts.is_empty() {
            return Some("prepared statements that the proxy did not know");
        }
        let statements = one.parts.iter().map(|(of, _)| &self.statements[*of]);
        let all = |kind: u8| statements.clone().all(|of| of.kinds & kind != 0);
        if !all(kinds::READ | kinds::WRITE) {
            return Some("statements that are neither reads nor writes of rows");
        }
        if !all(kinds::WHOLE) {
            return Some(
                "statements whose text is not recorded whole: it is too long, or casts a value to a type of your own",
            );
        }
        if statements.clone().any(|of| of.kinds & kinds::LOCAL != 0) {
            return Some("statements about system tables");
        }
        if !all(kinds::READ) && !writes {
            return Some("writes, which need --writes");
        }
        if one.request.marks & marks::NAMED != 0 {
            return Some("values with names");
        }
        None
    }

    /// Statements that are prepared before.
    pub(super) fn to_prepare(&self) -> Vec<usize> {
        let prepared = self
            .steps
            .iter()
            .filter(|step| !step.is_text(&self.statements));
        let numbers = prepared.flat_map(|step| step.parts.iter().map(|(of, _)| *of));
        let mut numbers: Vec<usize> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// What was left out, in words.
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

/// With what it would do where it is played: a file may say anything of it.
fn judged(mut statement: Statement) -> Statement {
    let facts = facts(statement.sent.as_deref().unwrap_or(&statement.text));
    let of = match facts.kind {
        Kind::Select => kinds::READ,
        Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch => kinds::WRITE,
        _ => 0,
    };
    statement.kinds = statement.kinds & !(kinds::READ | kinds::WRITE) | of;
    if facts.is_about_system(statement.keyspace.as_deref()) {
        statement.kinds |= kinds::LOCAL;
    }
    statement
}

fn alike(statements: &[Statement]) -> Vec<usize> {
    let mut first = HashMap::new();
    let numbered = statements.iter().enumerate();
    numbered
        .map(|(number, of)| *first.entry((&of.text, &of.keyspace)).or_insert(number))
        .collect()
}

fn step(one: Recorded, connection: usize, statements: &[Statement]) -> Step {
    let request = one.request;
    let reads = one
        .parts
        .iter()
        .all(|(of, _)| statements[*of].kinds & kinds::READ != 0);
    let due = Duration::from_micros(request.arrived_us);
    let took = one.answer.map_or(0, |answer| answer.took_us);
    Step {
        connection,
        due,
        class: request.class,
        is_read: reads,
        opcode: Opcode::from_number(request.opcode).unwrap_or(Opcode::Query),
        batch_type: request.batch_type,
        consistency: request.consistency,
        serial_consistency: request.serial_consistency,
        page_size: request
            .page_size
            .filter(|rows| i32::try_from(*rows).is_ok()),
        continues: request.marks & marks::CONTINUES != 0,
        key: request.key,
        parts: one.parts,
        answered: due + Duration::from_micros(took),
    }
}

/// Bytes that a request takes in memory, about.
fn byte_len(one: &Recorded) -> usize {
    let of_value = |value: &Value| match value {
        Value::Bytes(bytes) => size_of::<Value>() + bytes.len(),
        Value::Null | Value::Unset | Value::Sized(_) => size_of::<Value>(),
    };
    let of_part = |(_, values): &(usize, Vec<Value>)| {
        size_of::<(usize, Vec<Value>)>() + values.iter().map(of_value).sum::<usize>()
    };
    size_of::<Recorded>() + one.parts.iter().map(of_part).sum::<usize>()
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
