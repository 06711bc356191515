//! Writing what one worker has been asked.

use crate::framing::{HEAD, complete};
use crate::limits::{CHUNK, DEFINED, RECORD, TEXT_BYTES_MAX};
use crate::numbers::{optional, text, varint};
use crate::record::{Answer, Bound, Request, Statement, kinds};

/// A block of requests under way.
#[derive(Debug)]
pub struct Chunk {
    out: Vec<u8>,
    statements: u32,
    records: u32,
}

impl Chunk {
    /// An empty chunk of the worker with this number.
    pub fn new(worker: usize) -> Chunk {
        let mut out = vec![0; HEAD];
        varint(&mut out, worker as u64);
        Chunk {
            out,
            statements: 0,
            records: 0,
        }
    }

    /// Adds a statement; returns its number in this chunk.
    pub fn define(&mut self, statement: &Statement) -> u32 {
        self.out.push(DEFINED);
        text(&mut self.out, &statement.text);
        self.out.push(statement.kinds);
        for part in [&statement.keyspace, &statement.sent] {
            self.out.push(u8::from(part.is_some()));
            if let Some(part) = part {
                text(&mut self.out, part);
            }
        }
        self.statements += 1;
        self.statements - 1
    }

    /// Adds a request with its statements.
    pub fn record<'a>(
        &mut self,
        request: &Request,
        answer: Option<&Answer>,
        parts: impl ExactSizeIterator<Item = Bound<'a>>,
    ) {
        let out = &mut self.out;
        out.push(RECORD);
        varint(out, request.connection);
        varint(out, request.arrived_us);
        out.extend([
            request.opcode,
            request.class,
            request.marks,
            request.batch_type,
        ]);
        varint(out, request.consistency.into());
        optional(out, request.serial_consistency.map(u64::from));
        optional(out, request.page_size.map(u64::from));
        out.push(u8::from(request.key.is_some()));
        if let Some(key) = request.key {
            out.extend(key.to_le_bytes());
        }
        out.push(u8::from(answer.is_some()));
        if let Some(answer) = answer {
            varint(out, answer.took_us);
            varint(out, answer.bytes);
            optional(out, answer.error.map(u64::from));
        }
        varint(out, parts.len() as u64);
        for part in parts {
            varint(out, part.statement.into());
            varint(out, part.count as u64 * 2 + u64::from(part.with_bytes));
            out.extend_from_slice(part.values);
        }
        self.records += 1;
    }

    /// Bytes so far.
    pub fn byte_len(&self) -> usize {
        self.out.len()
    }

    /// Requests in it.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// The whole block.
    pub fn into_bytes(mut self) -> Vec<u8> {
        complete(&mut self.out, CHUNK);
        self.out
    }
}

impl Statement {
    /// Cuts texts that are too long; what is cut off cannot be played.
    pub fn bounded(mut self) -> Statement {
        let texts = [Some(&mut self.text), self.sent.as_mut()];
        let mut is_cut = false;
        for text in texts.into_iter().flatten() {
            if text.len() > TEXT_BYTES_MAX {
                text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
                is_cut = true;
            }
        }
        if is_cut {
            self.kinds &= !kinds::WHOLE;
        }
        self
    }
}
