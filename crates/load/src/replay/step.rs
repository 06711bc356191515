//! A request to be played, and what cannot be.

use std::time::Duration;

use helenus_capture::{Recorded, Statement, Value, kinds, marks};
use helenus_cql::{Kind, facts};
use helenus_wire::Opcode;

/// A request to be played.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Its place among the connections.
    pub(crate) connection: usize,
    /// Since the capture began.
    pub(crate) due: Duration,
    pub(crate) class: u8,
    pub(crate) is_read: bool,
    pub(crate) opcode: Opcode,
    pub(crate) batch_type: u8,
    pub(crate) consistency: u16,
    pub(crate) serial_consistency: Option<u16>,
    pub(crate) page_size: Option<u32>,
    pub(crate) continues: bool,
    /// Number of the read, shared by all its pages where they are known.
    pub(crate) read: usize,
    /// Rows come without a description of their columns.
    pub(crate) skips_metadata: bool,
    pub(crate) key: Option<u64>,
    pub(crate) parts: Vec<(usize, Vec<Value>)>,
    /// When it had been answered.
    pub(crate) answered: Duration,
}

impl Step {
    pub(crate) fn of(one: Recorded, connection: usize, is_read: bool) -> Step {
        let request = one.request;
        let due = Duration::from_micros(request.arrived_us);
        let took = one.answer.map_or(0, |answer| answer.took_us);
        Step {
            connection,
            due,
            class: request.class,
            is_read,
            opcode: Opcode::from_number(request.opcode).unwrap_or(Opcode::Query),
            batch_type: request.batch_type,
            consistency: request.consistency,
            serial_consistency: request.serial_consistency,
            page_size: request
                .page_size
                .filter(|rows| i32::try_from(*rows).is_ok()),
            continues: request.marks & marks::CONTINUES != 0,
            read: 0,
            skips_metadata: false,
            key: request.key,
            parts: one.parts,
            answered: due + Duration::from_micros(took),
        }
    }

    /// True if its text is sent as it is, with the values in it.
    pub(crate) fn is_text(&self, statement: &Statement) -> bool {
        self.opcode == Opcode::Query && statement.sent.is_some()
    }

    /// All statements of it.
    pub(crate) fn distinct_statements(&self) -> Vec<usize> {
        let mut numbers: Vec<usize> = self.parts.iter().map(|(of, _)| *of).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    pub(crate) fn statement(&self) -> usize {
        self.parts.first().map_or(0, |(statement, _)| *statement)
    }
}

/// Why a request is not played. `statement`: by its number. `writes`: why none of these is.
pub(crate) fn why_not<'a>(
    one: &Recorded,
    statement: impl Fn(usize) -> &'a Statement,
    writes: Option<&'static str>,
) -> Option<&'static str> {
    let opcode = Opcode::from_number(one.request.opcode);
    if opcode == Some(Opcode::Prepare) {
        return Some("preparations: statements are prepared once, before");
    }
    if one.parts.is_empty() {
        return Some("prepared statements that the proxy did not know");
    }
    let all = |kind: u8| {
        let mut parts = one.parts.iter();
        parts.all(|(of, _)| statement(*of).kinds & kind != 0)
    };
    if !all(kinds::READ | kinds::WRITE) {
        return Some("statements that are neither reads nor writes of rows");
    }
    if !all(kinds::WHOLE) {
        return Some(
            "statements whose text is not recorded whole: it is too long, or casts a value to a type of your own",
        );
    }
    let mut parts = one.parts.iter();
    if parts.any(|(of, _)| statement(*of).kinds & kinds::LOCAL != 0) {
        return Some("statements about system tables");
    }
    if let Some(why) = writes.filter(|_| !all(kinds::READ)) {
        return Some(why);
    }
    if one.request.marks & marks::NAMED != 0 {
        return Some("values with names");
    }
    None
}

/// With what it would do where it is played: a file may say anything of it.
pub(crate) fn judged(mut statement: Statement) -> Statement {
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

/// Bytes that a request takes in memory, about.
pub(crate) fn byte_len(one: &Recorded) -> usize {
    let of_value = |value: &Value| match value {
        Value::Bytes(bytes) => size_of::<Value>() + bytes.len(),
        Value::Null | Value::Unset | Value::Sized(_) => size_of::<Value>(),
    };
    let of_part = |(_, values): &(usize, Vec<Value>)| {
        size_of::<(usize, Vec<Value>)>() + values.iter().map(of_value).sum::<usize>()
    };
    size_of::<Recorded>() + one.parts.iter().map(of_part).sum::<usize>()
}
