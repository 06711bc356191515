//! Reads Protobuf messages without their declarations: by the numbers of fields alone.

use anyhow::{Context, Result, bail};

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

/// A message: numbers of fields and what stands in them, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message(pub Vec<(u64, Value)>);

impl Message {
    /// # Errors
    /// It is not one.
    pub fn parse(mut bytes: &[u8]) -> Result<Message> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            let value = match key & 7 {
                0 => Value::Number(varint(&mut bytes)?),
                1 => Value::Number(u64::from_le_bytes(take(&mut bytes, 8)?.try_into()?)),
                2 => {
                    let len = varint(&mut bytes)?.try_into()?;
                    Value::Bytes(take(&mut bytes, len)?.to_vec())
                }
                5 => {
                    let number = u32::from_le_bytes(take(&mut bytes, 4)?.try_into()?);
                    Value::Number(number.into())
                }
                other => bail!("wire type {other}"),
            };
            fields.push((key >> 3, value));
        }
        Ok(Message(fields))
    }

    /// All that stands in a field.
    pub fn all(&self, field: u64) -> impl Iterator<Item = &Value> {
        let of = self.0.iter().filter(move |(number, _)| *number == field);
        of.map(|(_, value)| value)
    }

    /// The messages in a field.
    ///
    /// # Errors
    /// One of them is none.
    pub fn messages(&self, field: u64) -> Result<Vec<Message>> {
        let all = self.all(field).map(|value| match value {
            Value::Bytes(bytes) => Message::parse(bytes),
            Value::Number(number) => bail!("{number} in place of a message"),
        });
        all.collect()
    }

    pub fn number(&self, field: u64) -> Option<u64> {
        match self.all(field).last()? {
            Value::Number(number) => Some(*number),
            Value::Bytes(_) => None,
        }
    }

    pub fn bytes(&self, field: u64) -> Option<&[u8]> {
        match self.all(field).last()? {
            Value::Bytes(bytes) => Some(bytes),
            Value::Number(_) => None,
        }
    }

    pub fn text(&self, field: u64) -> Option<&str> {
        std::str::from_utf8(self.bytes(field)?).ok()
    }
}

/// A signed number of type `sint32` or `sint64`.
pub fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// The numbers of a packed field.
///
/// # Errors
/// It is cut.
pub fn packed(mut bytes: &[u8]) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        numbers.push(varint(&mut bytes)?);
    }
    Ok(numbers)
}

/// Takes a number.
///
/// # Errors
/// It is cut, or too long.
pub fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    bail!("a number of more than 64 bits")
}

/// Takes so many bytes.
///
/// # Errors
/// There are fewer.
pub fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len).context("it is cut")?;
    *bytes = rest;
    Ok(taken)
}
