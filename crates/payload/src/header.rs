//! The header before every encoded value: the marker, the format's version and the codec in one byte, and for
//! learned codecs the dictionary's number.

use crate::bytes::{Reader, put_number};
use crate::{Codec, DecodeError, DictionaryId};

/// The first byte of every encoded value. No UTF-8 text has it anywhere, so a value without it is a text
/// that was stored before the column was encoded.
pub const MARKER: u8 = 0xff;

/// In the upper half of the second byte; the codec is in the lower half.
const VERSION: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub codec: Codec,
    /// For learned codecs.
    pub dictionary: Option<DictionaryId>,
}

impl Header {
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend([MARKER, VERSION << 4 | self.codec as u8]);
        if let Some(DictionaryId(id)) = self.dictionary {
            put_number(out, id.into());
        }
    }

    /// The header and what follows it. None of a value without marker, which is a text.
    pub(crate) fn read(value: &[u8]) -> Result<Option<(Header, &[u8])>, DecodeError> {
        let mut reader = Reader(value);
        match reader.byte() {
            Ok(MARKER) => {}
            _ => return Ok(None),
        }
        let second = reader.byte().map_err(|_| DecodeError::Truncated)?;
        let (version, number) = (second >> 4, second & 0xf);
        if version != VERSION {
            return Err(DecodeError::Version { version });
        }
        let codec = Codec::of_number(number).ok_or(DecodeError::Codec { number })?;
        let dictionary = match codec.is_learned() {
            true => {
                let id = reader.number().map_err(|_| DecodeError::Truncated)?;
                let id = u32::try_from(id).map_err(|_| DecodeError::Damaged {
                    what: "its dictionary has no possible number",
                })?;
                Some(DictionaryId(id))
            }
            false => None,
        };
        Ok(Some((Header { codec, dictionary }, reader.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back() {
        for codec in Codec::ALL {
            for id in [0, 127, 128, u32::MAX] {
                let header = Header {
                    codec,
                    dictionary: codec.is_learned().then_some(DictionaryId(id)),
                };
                let mut value = Vec::new();
                header.write(&mut value);
                value.extend(b"rest");
                assert_eq!(Header::read(&value), Ok(Some((header, &b"rest"[..]))));
            }
        }
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        assert_eq!(Header::read(b""), Ok(None));
        assert_eq!(Header::read(b"{}"), Ok(None));
        assert_eq!(Header::read(&[MARKER]), Err(DecodeError::Truncated));
        let later = Header::read(&[MARKER, 0x20]);
        assert_eq!(later, Err(DecodeError::Version { version: 2 }));
        let other = Header::read(&[MARKER, 0x1f]);
        assert_eq!(other, Err(DecodeError::Codec { number: 15 }));
        let id = Header::read(&[MARKER, 0x14, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        assert!(matches!(id, Err(DecodeError::Damaged { .. })), "{id:?}");
    }
}
