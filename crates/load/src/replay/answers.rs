//! Answers, as far as two of them are compared: their rows by hashes, so that memory stays small.

use std::hash::{DefaultHasher, Hasher};

use helenus_wire::{ErrorBody, Opcode, ResultKind, RowsView, result_kind, strip_prelude};
use tokio::time::error::Elapsed;

use crate::client::shared::Envelope;
use crate::failure::code_kind;
use crate::measure::ErrorKind;

pub(super) type Answered = Result<Envelope, ErrorKind>;

/// What an endpoint has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Got {
    Rows(Rows),
    /// Something without rows.
    Done,
    /// An error's code.
    Error(i32),
    /// No answer, and why.
    Nothing(ErrorKind),
}

/// The rows of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rows {
    pub count: usize,
    /// The same for the same rows in the same order.
    in_order: u64,
    /// The same for the same rows in any order.
    in_any_order: u64,
}

/// How two answers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    Same,
    /// The same rows in another order.
    Reordered,
    Different,
    /// One of them is an error, or they are different errors.
    Failed,
}

impl Got {
    /// Also the paging state for the next page.
    pub(super) fn of(answer: Result<Answered, Elapsed>) -> (Got, Option<Vec<u8>>) {
        let envelope = match answer {
            Ok(Ok(envelope)) => envelope,
            Ok(Err(kind)) => return (Got::Nothing(kind), None),
            Err(_) => return (Got::Nothing("client timeout"), None),
        };
        read(&envelope).unwrap_or((Got::Nothing("unreadable answer"), None))
    }

    /// The kind of error that it is.
    pub(super) fn failure(&self) -> Option<ErrorKind> {
        match self {
            Got::Rows(_) | Got::Done => None,
            Got::Error(code) => Some(code_kind(*code)),
            Got::Nothing(kind) => Some(kind),
        }
    }

    pub(super) fn compare(&self, other: &Got) -> Compared {
        match (self, other) {
            (Got::Rows(one), Got::Rows(other)) if one == other => Compared::Same,
            (Got::Rows(one), Got::Rows(other)) => {
                match (one.count, one.in_any_order) == (other.count, other.in_any_order) {
                    true => Compared::Reordered,
                    false => Compared::Different,
                }
            }
            (Got::Done, Got::Done) => Compared::Same,
            (Got::Error(one), Got::Error(other)) if one == other => Compared::Same,
            (Got::Error(_) | Got::Nothing(_), _) | (_, Got::Error(_) | Got::Nothing(_)) => {
                Compared::Failed
            }
            _ => Compared::Different,
        }
    }
}

fn read(envelope: &Envelope) -> Option<(Got, Option<Vec<u8>>)> {
    let (_, body) = strip_prelude(envelope.flags, &envelope.body).ok()?;
    if envelope.opcode == Opcode::Error as u8 {
        return Some((Got::Error(ErrorBody::parse(body).ok()?.code), None));
    }
    if envelope.opcode != Opcode::Result as u8 {
        return None;
    }
    if result_kind(body).ok()? != ResultKind::Rows {
        return Some((Got::Done, None));
    }
    let view = RowsView::parse(body).ok()?;
    let mut rows = Rows {
        count: view.row_count,
        ..Rows::default()
    };
    let mut names = DefaultHasher::new();
    for column in &view.columns {
        names.write(column.name.as_bytes());
        names.write(column.column_type.raw);
    }
    let mut order = names.clone();
    let mut sum = names.finish();
    let all = view.column_count;
    view.for_each_row(all, |bytes, _| {
        let mut row = DefaultHasher::new();
        row.write(bytes);
        let hash = row.finish();
        sum = sum.wrapping_add(hash);
        order.write_u64(hash);
    })
    .ok()?;
    (rows.in_order, rows.in_any_order) = (order.finish(), sum);
    Some((Got::Rows(rows), view.paging_state.map(<[u8]>::to_vec)))
}
