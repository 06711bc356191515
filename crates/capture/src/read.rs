//! Reading a capture, block by block.

use std::collections::HashMap;
use std::io::Read;
use std::rc::Rc;

use crate::blocks::{End, Mark, Start};
use crate::error::FormatError;
use crate::framing::{HEAD, Head};
use crate::limits::{CHUNK, END, MARK, START, STATEMENT_BYTES_MAX};
use crate::parse::{HEAD_BYTES, Recorded, chunk_of, end_of, mark_of, start_of, version_of};
use crate::record::{Statement, Value};

/// Reads a capture.
pub struct Reader<R> {
    from: R,
    /// Of the format.
    version: u8,
    start: Start,
    statements: Vec<Rc<Statement>>,
    numbers: HashMap<Rc<Statement>, usize>,
    statement_bytes: usize,
    pub(crate) statement_bytes_max: usize,
    has_values: bool,
    mark: Mark,
    end: Option<End>,
    is_cut_off: bool,
}

impl<R: Read> Reader<R> {
    /// Reads how it began.
    ///
    /// # Errors
    /// It is no capture, or one that this version cannot read.
    pub fn open(mut from: R) -> Result<Reader<R>, FormatError> {
        let mut head = [0; HEAD_BYTES];
        let got = read_up_to(&mut from, &mut head)?;
        let version = version_of(&head[..got])?;
        let mut reader = Reader {
            from,
            version,
            start: Start::default(),
            statements: Vec::new(),
            numbers: HashMap::new(),
            statement_bytes: 0,
            statement_bytes_max: STATEMENT_BYTES_MAX,
            has_values: true,
            mark: Mark::default(),
            end: None,
            is_cut_off: false,
        };
        match reader.block()? {
            Some((START, block)) => reader.start = start_of(&block)?,
            Some(_) => return Err(FormatError::Malformed("it does not say how it began")),
            None => return Err(FormatError::Short),
        }
        Ok(reader)
    }

    /// Leaves out values, and texts with values: statements that differ in these are the same.
    pub fn without_values(mut self) -> Reader<R> {
        self.has_values = false;
        self
    }

    pub fn start(&self) -> &Start {
        &self.start
    }

    /// The statements met so far.
    pub fn statements(&self) -> &[Rc<Statement>] {
        &self.statements
    }

    /// How far the capture had come at the last mark.
    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// How it ended; None before that, and if it was cut off.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// True if the last block is incomplete.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Passes the requests of the next chunk to `take`; false at the end. Their parts are numbers among
    /// [`Reader::statements`].
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn next_chunk(&mut self, mut take: impl FnMut(Recorded)) -> Result<bool, FormatError> {
        loop {
            let Some((kind, block)) = self.block()? else {
                return Ok(false);
            };
            match kind {
                CHUNK => {
                    self.chunk(&block, &mut take)?;
                    return Ok(true);
                }
                MARK => self.mark = mark_of(&block)?,
                END => {
                    let end = end_of(&block)?;
                    (self.mark, self.end) = (end.mark, Some(end));
                    return Ok(false);
                }
                // Blocks of later versions that do not change the others.
                _ => {}
            }
        }
    }

    /// The next block; None at the end, also of a file that was cut off.
    fn block(&mut self) -> Result<Option<(u8, Vec<u8>)>, FormatError> {
        let mut head = [0; HEAD];
        let head = &mut head[..Head::byte_len(self.version)];
        let got = read_up_to(&mut self.from, head)?;
        if got < head.len() {
            self.is_cut_off = got > 0;
            return Ok(None);
        }
        let head = Head::of(head)?;
        let mut block = vec![0; head.length];
        if read_up_to(&mut self.from, &mut block)? < head.length {
            self.is_cut_off = true;
            return Ok(None);
        }
        head.check(&block)?;
        Ok(Some((head.kind, block)))
    }

    fn chunk(&mut self, block: &[u8], take: &mut impl FnMut(Recorded)) -> Result<(), FormatError> {
        let has_values = self.has_values;
        let define = |mut statement: Statement| {
            if !has_values {
                statement.sent = None;
            }
            self.number_of(statement)
        };
        chunk_of(block, define, |mut one| {
            if !has_values {
                one.parts.iter_mut().for_each(|(_, values)| forget(values));
            }
            take(one);
        })
    }

    fn number_of(&mut self, statement: Statement) -> Result<usize, FormatError> {
        if let Some(number) = self.numbers.get(&statement) {
            return Ok(*number);
        }
        self.statement_bytes += byte_len(&statement);
        if self.statement_bytes > self.statement_bytes_max {
            return Err(FormatError::TooManyStatements);
        }
        let (number, statement) = (self.statements.len(), Rc::new(statement));
        self.statements.push(statement.clone());
        self.numbers.insert(statement, number);
        Ok(number)
    }
}

/// Of values, only the sizes stay.
fn forget(values: &mut [Value]) {
    for value in values {
        if let Value::Bytes(bytes) = value {
            *value = Value::Sized(bytes.len() as u32);
        }
    }
}

/// Bytes that a statement takes in memory, about.
fn byte_len(statement: &Statement) -> usize {
    let texts = [&statement.keyspace, &statement.sent].map(|of| of.as_ref().map_or(0, String::len));
    2 * size_of::<Statement>() + statement.text.len() + texts.iter().sum::<usize>()
}

/// Fewer than wanted only at the end.
fn read_up_to(from: &mut impl Read, into: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match from.read(&mut into[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}
