//! Reading a capture, block by block.

use std::collections::HashMap;
use std::io::Read;
use std::rc::Rc;

use crate::blocks::{End, Mark, Reason, Start};
use crate::error::FormatError;
use crate::framing::{HEAD, Head};
use crate::limits::{
    ARRIVED_US_MAX, CHUNK, DEFINED, END, MAGIC, MARK, PARTS_MAX, RECORD, START,
    STATEMENT_BYTES_MAX, VALUE_BYTES_MAX, VALUES_MAX, VERSION,
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
    /// Numbers among [`Reader::statements`], and values. Empty if the proxy did not know its statement.
    pub parts: Vec<(usize, Vec<Value>)>,
}

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
        let mut head = [0; MAGIC.len() + 1];
        let got = read_up_to(&mut from, &mut head)?;
        if got > 0 && !head[..got].starts_with(&MAGIC[..got.min(MAGIC.len())]) {
            return Err(FormatError::NoCapture);
        }
        if got < head.len() {
            return Err(FormatError::Short);
        }
        let version = head[MAGIC.len()];
        if !(1..=VERSION).contains(&version) {
            return Err(FormatError::OtherVersion(version));
        }
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

    /// Whether the last block is incomplete.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// Passes the requests of the next chunk to `take`; false at the end.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn next_chunk(&mut self, mut take: impl FnMut(Recorded)) -> Result<bool, FormatError> {
        loop {
            let Some((kind, block)) = self.block()? else {
                return Ok(false);
            };
            let mut input = Input(&block);
            match kind {
                CHUNK => {
                    self.chunk(&mut input, &mut take)?;
                    return Ok(true);
                }
                MARK => self.mark = mark_of(&mut input)?,
                END => {
                    let reason = match input.byte()? {
                        1 => Reason::Time,
                        2 => Reason::Size,
                        3 => Reason::ValuesHidden,
                        _ => return Err(FormatError::Malformed("an unknown reason of its end")),
                    };
                    self.mark = mark_of(&mut input)?;
                    self.end = Some(End {
                        reason,
                        mark: self.mark,
                    });
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

    fn chunk(
        &mut self,
        input: &mut Input<'_>,
        take: &mut impl FnMut(Recorded),
    ) -> Result<(), FormatError> {
        let worker = input.number()?;
        let mut defined = Vec::new();
        while !input.is_empty() {
            match input.byte()? {
                DEFINED => {
                    let mut statement = statement_of(input)?;
                    if !self.has_values {
                        statement.sent = None;
                    }
                    defined.push(self.number_of(statement)?);
                }
                RECORD => {
                    let mut one = recorded(input, worker, &defined)?;
                    if !self.has_values {
                        one.parts.iter_mut().for_each(|(_, values)| forget(values));
                    }
                    take(one);
                }
                _ => return Err(FormatError::Malformed("an unknown entry of a chunk")),
            }
        }
        Ok(())
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

fn start_of(block: &[u8]) -> Result<Start, FormatError> {
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

fn mark_of(input: &mut Input<'_>) -> Result<Mark, FormatError> {
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
