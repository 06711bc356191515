//! Writes documents, as long as they may be.

use super::parse::Style;

/// Why a document is not written to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteError {
    TooLong,
}

/// A text that grows up to a limit.
#[derive(Debug)]
pub(crate) struct TextWriter<'o> {
    pub out: &'o mut String,
    pub limit_bytes: usize,
    pub style: Style,
}

impl TextWriter<'_> {
    pub(crate) fn push(&mut self, text: &str) -> Result<(), WriteError> {
        if text.len() > self.limit_bytes.saturating_sub(self.out.len()) {
            return Err(WriteError::TooLong);
        }
        self.out.push_str(text);
        Ok(())
    }

    /// With the space after it, if the style has one.
    pub(crate) fn comma(&mut self) -> Result<(), WriteError> {
        self.push(match self.style {
            Style::Spaced => ", ",
            _ => ",",
        })
    }

    /// With the space after it, if the style has one.
    pub(crate) fn colon(&mut self) -> Result<(), WriteError> {
        self.push(match self.style {
            Style::Spaced => ": ",
            _ => ":",
        })
    }

    /// A string whose escapes are as they should be.
    pub(crate) fn quoted(&mut self, escaped: &str) -> Result<(), WriteError> {
        if escaped.len().saturating_add(2) > self.limit_bytes.saturating_sub(self.out.len()) {
            return Err(WriteError::TooLong);
        }
        self.out.push('"');
        self.out.push_str(escaped);
        self.out.push('"');
        Ok(())
    }
}

/// Only what must be escaped is, in the shortest way.
pub(crate) fn write_string(said: &str, writer: &mut TextWriter) -> Result<(), WriteError> {
    writer.push("\"")?;
    let mut rest = said;
    while let Some(at) = rest
        .bytes()
        .position(|b| matches!(b, b'"' | b'\\' | 0..0x20))
    {
        writer.push(rest.get(..at).unwrap_or_default())?;
        let byte = rest.as_bytes()[at];
        let mut hex = *b"\\u0000";
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x8 => "\\b",
            0xc => "\\f",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                hex[4] = DIGITS[usize::from(byte >> 4)];
                hex[5] = DIGITS[usize::from(byte & 0xf)];
                std::str::from_utf8(&hex).unwrap_or_default()
            }
        };
        writer.push(escape)?;
        rest = rest.get(at + 1..).unwrap_or_default();
    }
    writer.push(rest)?;
    writer.push("\"")
}

/// The fewest digits that say this number, with a point or an exponent. JSON has no others than finite
/// ones.
pub(crate) fn write_float(number: f64, writer: &mut TextWriter) -> Result<(), WriteError> {
    writer.push(&format!("{number:?}"))
}
