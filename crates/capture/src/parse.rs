//! Contents of the blocks of a capture.

use crate::blocks::{End, Mark, Reason, Start};
use crate::error::FormatError;
use crate::limits::{
    ARRIVED_US_MAX, DEFINED, MAGIC, PARTS_MAX, RECORD, VALUE_BYTES_MAX, VALUES_MAX, VERSION,
};
use crate::numbers::Input;
use crate::record::{Answer, Request, Statement, Value};

/// A request, and how it was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub worker: u32,
    pub request: Request,
    /// None if it had not been when its client left or the capture ended.
    pub answer: Option<Answer>,
    /// Numbers of statements, and values. Empty if the proxy did not know its statement.
    pub parts: Vec<(usize, Vec<Value>)>,
}

/// Bytes before the first block.
pub(crate) const HEAD_BYTES: usize = MAGIC.len() + 1;

/// The version of a capture that begins so. `head`: its first [`HEAD_BYTES`], or all of them if they are fewer.
pub(crate) fn version_of(head: &[u8]) -> Result<u8, FormatError> {
    let magic = head.len().min(MAGIC.len());
    if magic > 0 && head[..magic] != MAGIC[..magic] {
        return Err(FormatError::NoCapture);
    }
    match head.get(MAGIC.len()) {
        None => Err(FormatError::Short),
        Some(version @ 1..=VERSION) => Ok(*version),
        Some(version) => Err(FormatError::OtherVersion(*version)),
    }
}

pub(crate) fn start_of(block: &[u8]) -> Result<Start, FormatError> {
    let mut input = Input(block);
    let mut start = Start {
        proxy: input.text()?,
        began_us: input.varint()?,
        wanted_us: input.varint()?,
        share_ppm: input.number()?,
        has_values: input.byte()? != 0,
        classes: Vec::new(),
    };
    for _ in 0..input.number::<u8>()? {
        start.classes.push(input.text()?);
    }
    Ok(start)
}

pub(crate) fn mark_of(block: &[u8]) -> Result<Mark, FormatError> {
    mark(&mut Input(block))
}

pub(crate) fn end_of(block: &[u8]) -> Result<End, FormatError> {
    let mut input = Input(block);
    let reason = match input.byte()? {
        1 => Reason::Time,
        2 => Reason::Size,
        3 => Reason::ValuesHidden,
        _ => return Err(FormatError::Malformed("an unknown reason of its end")),
    };
    let mark = mark(&mut input)?;
    Ok(End { reason, mark })
}

/// Passes the requests of a chunk to `take`. `define`: gives each statement that it defines a number.
pub(crate) fn chunk_of(
    block: &[u8],
    mut define: impl FnMut(Statement) -> Result<usize, FormatError>,
    mut take: impl FnMut(Recorded),
) -> Result<(), FormatError> {
    let mut input = Input(block);
    let worker = input.number()?;
    let mut defined = Vec::new();
    while !input.is_empty() {
        match input.byte()? {
            DEFINED => defined.push(define(statement_of(&mut input)?)?),
            RECORD => take(recorded(&mut input, worker, &defined)?),
            _ => return Err(FormatError::Malformed("an unknown entry of a chunk")),
        }
    }
    Ok(())
}

fn mark(input: &mut Input<'_>) -> Result<Mark, FormatError> {
    Ok(Mark {
        at_us: input.varint()?,
        lost: input.varint()?,
    })
}

fn statement_of(input: &mut Input<'_>) -> Result<Statement, FormatError> {
    let (text, kinds) = (input.text()?, input.byte()?);
    let mut optional = || match input.byte()? {
        0 => Ok(None),
        _ => input.text().map(Some),
    };
    Ok(Statement {
        text,
        kinds,
        keyspace: optional()?,
        sent: optional()?,
    })
}

fn recorded(
    input: &mut Input<'_>,
    worker: u32,
    defined: &[usize],
) -> Result<Recorded, FormatError> {
    let request = Request {
        connection: input.varint()?,
        arrived_us: input.varint()?,
        opcode: input.byte()?,
        class: input.byte()?,
        marks: input.byte()?,
        batch_type: input.byte()?,
        consistency: input.number()?,
        serial_consistency: input.optional()?,
        page_size: input.optional()?,
        key: match input.byte()? {
            0 => None,
            _ => input
                .bytes(8)?
                .first_chunk()
                .map(|key| u64::from_le_bytes(*key)),
        },
    };
    if request.arrived_us > ARRIVED_US_MAX {
        return Err(FormatError::Malformed(
            "a request is later than any capture lasts",
        ));
    }
    let answer = match input.byte()? {
        0 => None,
        _ => Some(Answer {
            took_us: input.varint()?,
            bytes: input.varint()?,
            error: input.optional()?,
        }),
    };
    let count: usize = input.number()?;
    if count > PARTS_MAX {
        return Err(FormatError::Malformed("a batch is too long"));
    }
    let mut parts = Vec::with_capacity(count.min(16));
    for _ in 0..count {
        let number: usize = input.number()?;
        let statement = *defined
            .get(number)
            .ok_or(FormatError::Malformed("a statement that is not defined"))?;
        parts.push((statement, values_of(input)?));
    }
    Ok(Recorded {
        worker,
        request,
        answer,
        parts,
    })
}

fn values_of(input: &mut Input<'_>) -> Result<Vec<Value>, FormatError> {
    let head: usize = input.number()?;
    let (count, with_bytes) = (head / 2, head % 2 == 1);
    if count > VALUES_MAX {
        return Err(FormatError::Malformed("too many values"));
    }
    let mut values = Vec::with_capacity(count.min(16));
    for _ in 0..count {
        let value = match input.varint()? {
            0 => Value::Null,
            1 => Value::Unset,
            length => {
                let length = u32::try_from(length - 2);
                let length = length.map_err(|_| FormatError::Malformed("a value is too long"))?;
                if length > VALUE_BYTES_MAX {
                    return Err(FormatError::Malformed("a value is too long"));
                }
                match with_bytes {
                    true => Value::Bytes(input.bytes(length as usize)?.to_vec()),
                    false => Value::Sized(length),
                }
            }
        };
        values.push(value);
    }
    Ok(values)
}
