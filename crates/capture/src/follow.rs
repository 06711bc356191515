//! Reading a capture while it comes, in memory that does not grow with it.

use crate::blocks::{End, Mark, Start};
use crate::error::FormatError;
use crate::framing::Head;
use crate::limits::{CHUNK, END, MARK, START};
use crate::parse::{HEAD_BYTES, Recorded, chunk_of, end_of, mark_of, start_of, version_of};
use crate::record::Statement;

/// The next item of a capture.
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
    /// Of the format, once it is known.
    version: Option<u8>,
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
        let version = match self.version {
            Some(version) => version,
            None => {
                let Some(head) = self.received.get(..HEAD_BYTES) else {
                    return Ok(None);
                };
                self.used = HEAD_BYTES;
                *self.version.insert(version_of(head)?)
            }
        };
        while let Some((head, from)) = self.block_head(version)? {
            let Some(block) = self.received.get(from..from + head.length) else {
                return Ok(None);
            };
            head.check(block)?;
            self.used = from + head.length;
            let event = event_of(head.kind, block)?;
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

    /// The head of the next block, and where the block begins.
    fn block_head(&self, version: u8) -> Result<Option<(Head, usize)>, FormatError> {
        let from = self.used + Head::byte_len(version);
        let head = self.received.get(self.used..from);
        head.map(|head| Ok((Head::of(head)?, from))).transpose()
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
