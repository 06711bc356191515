//! Answers, as far as two of them are compared: their rows by hashes, so that memory stays small.

use std::hash::{DefaultHasher, Hasher};

use helenus_client::{Answer, Opcode};
use tokio::time::error::Elapsed;

use crate::client::failure::code_kind;
use crate::measure::ErrorKind;

/// No answer in time.
pub(crate) const CLIENT_TIMEOUT: ErrorKind = "client timeout";

pub(crate) type Answered = Result<Answer, ErrorKind>;

/// The answer of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
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
pub(crate) struct Rows {
    pub count: usize,
    /// A hash that is equal for the same rows in the same order.
    in_order: u64,
    /// A hash that is equal for the same rows in any order.
    in_any_order: u64,
}

/// An answer that has been read.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub got: Got,
    /// Of the message, less warnings and what else comes before it.
    pub bytes: u64,
    /// For the next page.
    pub state: Option<Vec<u8>>,
    /// The columns of its statement have changed.
    pub has_new_metadata: bool,
}

impl Read {
    pub(crate) fn of(got: Got) -> Read {
        Read {
            got,
            bytes: 0,
            state: None,
            has_new_metadata: false,
        }
    }
}

/// How two answers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    Same,
    /// Equal rows in another order.
    Reordered,
    Different,
    /// One of them is an error, or they are different errors.
    Failed,
}

impl Got {
    /// The kind of error that it is.
    pub(crate) fn failure(&self) -> Option<ErrorKind> {
        match self {
            Got::Rows(_) | Got::Done => None,
            Got::Error(code) => Some(code_kind(*code)),
            Got::Nothing(kind) => Some(kind),
        }
    }

    pub(crate) fn compare(&self, other: &Got) -> Compared {
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

pub(crate) fn read(answer: Result<Answered, Elapsed>) -> Read {
    let answer = match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(kind)) => return Read::of(Got::Nothing(kind)),
        Err(_) => return Read::of(Got::Nothing(CLIENT_TIMEOUT)),
    };
    read_answer(&answer).unwrap_or(Read::of(Got::Nothing("unreadable answer")))
}

fn read_answer(answer: &Answer) -> Option<Read> {
    let bytes = answer.message().ok()?.len() as u64;
    let of = |got: Got| Read {
        bytes,
        ..Read::of(got)
    };
    if let Some(code) = answer.code() {
        return Some(of(Got::Error(code)));
    }
    if answer.opcode != Opcode::Result as u8 {
        return None;
    }
    let Some(view) = answer.view().ok()? else {
        return Some(of(Got::Done));
    };
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
    Some(Read {
        state: view.paging_state.map(<[u8]>::to_vec),
        has_new_metadata: view.new_metadata_id.is_some(),
        ..of(Got::Rows(rows))
    })
}
