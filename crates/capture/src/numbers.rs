//! Numbers and texts as bytes.

use crate::error::FormatError;

pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// One more, or 0 if there is none.
pub(crate) fn optional(out: &mut Vec<u8>, value: Option<u64>) {
    varint(out, value.map_or(0, |value| value.saturating_add(1)));
}

pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Bytes that are read from their beginning.
pub(crate) struct Input<'a>(pub &'a [u8]);

const SHORT: FormatError = FormatError::Malformed("a block ends too soon");

impl<'a> Input<'a> {
    pub(crate) fn byte(&mut self) -> Result<u8, FormatError> {
        let (first, rest) = self.0.split_first().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, FormatError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(FormatError::Malformed("a number is too long"))
    }

    pub(crate) fn number<T: TryFrom<u64>>(&mut self) -> Result<T, FormatError> {
        let number = T::try_from(self.varint()?);
        number.map_err(|_| FormatError::Malformed("a number is too large"))
    }

    pub(crate) fn optional<T: TryFrom<u64>>(&mut self) -> Result<Option<T>, FormatError> {
        let Some(value) = self.varint()?.checked_sub(1) else {
            return Ok(None);
        };
        let number = T::try_from(value).map(Some);
        number.map_err(|_| FormatError::Malformed("a number is too large"))
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], FormatError> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(SHORT)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn text(&mut self) -> Result<String, FormatError> {
        let count = self.number()?;
        let text = std::str::from_utf8(self.bytes(count)?);
        let text = text.map_err(|_| FormatError::Malformed("a text is not UTF-8"))?;
        Ok(text.to_owned())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
