//! Reading a capture while it comes, in memory that does not grow with it.

use crate::blocks::{End, Mark, Start};
use crate::error::FormatError;
use crate::limits::{BLOCK_BYTES_MAX, CHUNK, END, MARK, START};
use crate::parse::{HEAD_BYTES, Recorded, check_head, chunk_of, end_of, mark_of, start_of};
use crate::record::Statement;

/// Kind and length of a block.
const BLOCK_HEAD_BYTES: usize = 5;

/// What a capture says next.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Start(Start),
    Chunk {
        /// Those that this chunk defines.
        statements: Vec<Statement>,
        /// Their parts are numbers among the chunk's statements.
        requests: Vec<Recorded>,
    },
    Mark(Mark),
    End(End),
}

/// Reads a capture from bytes as they come. It keeps nothing but an incomplete block.
#[derive(Debug, Default)]
pub struct Follower {
    received: Vec<u8>,
    /// Bytes of `received` that have been read.
    used: usize,
    is_open: bool,
    has_begun: bool,
}

impl Follower {
    /// Takes the next bytes; [`Follower::poll_event`] says what is in them.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.received.drain(..self.used);
        self.used = 0;
        self.received.extend_from_slice(bytes);
    }

    /// The next event; None if more bytes are needed.
    ///
    /// # Errors
    /// These are not the bytes of a capture, or of one that this version cannot read.
    pub fn poll_event(&mut self) -> Result<Option<Event>, FormatError> {
        if !self.is_open {
            let Some(head) = self.received.get(..HEAD_BYTES) else {
                return Ok(None);
            };
            check_head(head)?;
            (self.is_open, self.used) = (true, HEAD_BYTES);
        }
        while let Some((kind, length)) = self.block_head()? {
            let from = self.used + BLOCK_HEAD_BYTES;
            let Some(block) = self.received.get(from..from + length) else {
                return Ok(None);
            };
            self.used = from + length;
            let event = event_of(kind, block)?;
            if !self.has_begun && !matches!(event, Some(Event::Start(_))) {
                return Err(FormatError::Malformed("it does not say how it began"));
            }
            self.has_begun = true;
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.received.len()
    }

    fn block_head(&self) -> Result<Option<(u8, usize)>, FormatError> {
        let rest = self.received.get(self.used..).unwrap_or_default();
        let Some([kind, length @ ..]) = rest.first_chunk::<BLOCK_HEAD_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > BLOCK_BYTES_MAX {
            return Err(FormatError::Malformed("a block is too long"));
        }
        Ok(Some((*kind, length)))
    }
}

/// None for blocks of later versions.
fn event_of(kind: u8, block: &[u8]) -> Result<Option<Event>, FormatError> {
    Ok(Some(match kind {
        START => Event::Start(start_of(block)?),
        CHUNK => {
            let (mut statements, mut requests) = (Vec::new(), Vec::new());
            let define = |statement| {
                statements.push(statement);
                Ok(statements.len() - 1)
            };
            chunk_of(block, define, |one| requests.push(one))?;
            Event::Chunk {
                statements,
                requests,
            }
        }
        MARK => Event::Mark(mark_of(block)?),
        END => Event::End(end_of(block)?),
        _ => return Ok(None),
    }))
}
