//! Choices as a document.

use super::coder::{ChoiceReader, CoderError};
use super::frequencies::ESCAPE;
use super::model::{ROOT, Shape};
use super::slot::{
    ARRAY, DECIMAL, END, FIXED, FREQUENT, INTEGER, KIND_BITS, OBJECT, SCALE_BITS, STRING, VERBATIM,
};
use crate::DecodeError;
use crate::json::{
    DEPTH_MAX, Decimal, Style, TextWriter, WriteError, write_decimal, write_integer,
};

pub(super) fn decode(shape: &Shape, bytes: &[u8], writer: TextWriter) -> Result<(), DecodeError> {
    let limit_bytes = writer.limit_bytes;
    let done = ChoiceReader::new(bytes)
        .map_err(Failure::from)
        .and_then(|reader| {
            let mut decoding = Decoding {
                shape,
                reader,
                writer,
                scratch: String::new(),
            };
            decoding.document()
        });
    done.map_err(|failure| match failure {
        Failure::TooLong => DecodeError::TooLong { limit_bytes },
        Failure::TooDeep => DecodeError::TooDeep,
        Failure::Truncated => DecodeError::Truncated,
        Failure::Damaged => DecodeError::Damaged {
            what: "it does not follow from what was learned of its column",
        },
    })
}

#[derive(Clone, Copy, Debug)]
enum Failure {
    TooLong,
    TooDeep,
    Truncated,
    Damaged,
}

impl From<CoderError> for Failure {
    fn from(error: CoderError) -> Self {
        match error {
            CoderError::TooLong => Failure::TooLong,
            CoderError::Truncated => Failure::Truncated,
            CoderError::Damaged => Failure::Damaged,
        }
    }
}

impl From<WriteError> for Failure {
    fn from(WriteError::TooLong: WriteError) -> Self {
        Failure::TooLong
    }
}

struct Decoding<'s, 'b, 'o> {
    shape: &'s Shape,
    reader: ChoiceReader<'b>,
    writer: TextWriter<'o>,
    scratch: String,
}

impl Decoding<'_, '_, '_> {
    fn document(&mut self) -> Result<(), Failure> {
        self.writer.style = match self.shape.styles.next_any(1, &mut self.reader)? {
            0 => Style::Compact,
            _ => Style::Spaced,
        };
        self.value(ROOT, 0)?;
        match self.reader.is_at_end() {
            true => Ok(()),
            false => Err(Failure::Damaged),
        }
    }

    fn value(&mut self, slot_number: u32, depth: usize) -> Result<(), Failure> {
        let shape = self.shape;
        let slot = shape.slot(slot_number);
        match slot.kinds.next_any(KIND_BITS, &mut self.reader)? {
            OBJECT | ARRAY if depth >= DEPTH_MAX => Err(Failure::TooDeep),
            OBJECT => self.members(slot_number, depth),
            ARRAY => {
                let count = slot.counts.next(&mut self.reader)?;
                self.writer.push("[")?;
                for element in 0..count {
                    if element > 0 {
                        self.writer.comma()?;
                    }
                    self.value(slot.element, depth + 1)?;
                }
                Ok(self.writer.push("]")?)
            }
            INTEGER => {
                self.scratch.clear();
                write_integer(slot.integers.next(&mut self.reader)?, &mut self.scratch);
                Ok(self.writer.push(&self.scratch)?)
            }
            DECIMAL => {
                let symbol = slot.scales.next_any(SCALE_BITS, &mut self.reader)?;
                let digits = slot.digits.next(&mut self.reader)?;
                let decimal = Decimal {
                    is_negative: symbol & 0x20 != 0,
                    digits: u64::try_from(digits).map_err(|_| Failure::Damaged)?,
                    scale: (symbol & 0x1f) as u8,
                };
                if !(1..=Decimal::SCALE_MAX).contains(&decimal.scale) {
                    return Err(Failure::Damaged);
                }
                self.scratch.clear();
                write_decimal(decimal, &mut self.scratch);
                Ok(self.writer.push(&self.scratch)?)
            }
            STRING => {
                let left = self.left();
                self.scratch.clear();
                slot.strings.next(
                    &shape.vocabulary,
                    &shape.spelling,
                    left,
                    &mut self.reader,
                    &mut self.scratch,
                )?;
                Ok(self.writer.quoted(&self.scratch)?)
            }
            FIXED => {
                self.scratch.clear();
                slot.fixed.next(&mut self.reader, &mut self.scratch)?;
                Ok(self.writer.quoted(&self.scratch)?)
            }
            VERBATIM => {
                self.spelled()?;
                Ok(self.writer.push(&self.scratch)?)
            }
            symbol => {
                let number = usize::from(symbol.wrapping_sub(FREQUENT));
                let text = slot.frequent.texts.get(number).ok_or(Failure::Damaged)?;
                Ok(self.writer.push(text)?)
            }
        }
    }

    fn members(&mut self, slot_number: u32, depth: usize) -> Result<(), Failure> {
        let shape = self.shape;
        let members = &shape.slot(slot_number).members;
        self.writer.push("{")?;
        let mut before = 0;
        let mut is_first = true;
        loop {
            let symbol = match members.next.get(before) {
                Some(next) => next.next(&mut self.reader)?,
                None => ESCAPE,
            };
            let (name, number) = match symbol {
                END => break,
                ESCAPE => {
                    self.spelled()?;
                    if self.reader.bits(1)? == 1 {
                        break;
                    }
                    (&*self.scratch, None)
                }
                symbol => {
                    let number = usize::from(symbol);
                    let name = members.names.texts.get(number).ok_or(Failure::Damaged)?;
                    (&**name, Some(number))
                }
            };
            let written = number.and_then(|number| members.written(number, is_first));
            match written.filter(|_| self.writer.style == Style::Compact) {
                Some(written) => self.writer.push(written)?,
                None => {
                    if !is_first {
                        self.writer.comma()?;
                    }
                    self.writer.quoted(name)?;
                    self.writer.colon()?;
                }
            }
            is_first = false;
            let slot = number.and_then(|number| members.slots.get(number));
            self.value(slot.copied().unwrap_or(members.other), depth + 1)?;
            before = members.after(number);
        }
        Ok(self.writer.push("}")?)
    }

    /// The next word that is written out.
    fn spelled(&mut self) -> Result<(), Failure> {
        let left = self.left();
        self.scratch.clear();
        let spelling = &self.shape.spelling;
        Ok(spelling.next(left, &mut self.reader, &mut self.scratch)?)
    }

    /// How much longer the document may become.
    fn left(&self) -> usize {
        self.writer
            .limit_bytes
            .saturating_sub(self.writer.out.len())
    }
}
