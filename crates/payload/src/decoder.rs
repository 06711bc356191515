//! Stored values to documents.

use std::fmt;

use crate::format;
use crate::header::Header;
use crate::zstd::Decompressor;
use crate::{Codec, DecodeError, Dictionaries};

/// Reads values of any codec. Kept from one value to the next for its memory.
#[derive(Default)]
pub struct Decoder {
    decompressor: Decompressor,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

impl Decoder {
    /// Replaces `out` with the document, of at most `limit_bytes`. A value without a header is a text that
    /// was stored before the column was encoded.
    ///
    /// # Errors
    /// If the bytes are no stored value, or what they were written with is missing; `out` is empty then.
    pub fn decode(
        &mut self,
        value: &[u8],
        dictionaries: &impl Dictionaries,
        limit_bytes: usize,
        out: &mut String,
    ) -> Result<(), DecodeError> {
        out.clear();
        let done = self.decode_into(value, dictionaries, limit_bytes, out);
        if done.is_err() {
            out.clear();
        }
        done
    }

    fn decode_into(
        &mut self,
        value: &[u8],
        dictionaries: &impl Dictionaries,
        limit_bytes: usize,
        out: &mut String,
    ) -> Result<(), DecodeError> {
        let Some((header, bytes)) = Header::read(value)? else {
            return plain(value, limit_bytes, out);
        };
        let codec = header.codec;
        let learned = match header.dictionary {
            None => None,
            Some(id) => match dictionaries.find(id) {
                Some(learned) => Some((id, learned)),
                None => return Err(DecodeError::MissingDictionary { id }),
            },
        };
        match (codec, learned) {
            (Codec::Raw, _) => plain(bytes, limit_bytes, out),
            (Codec::Zstd, Some((id, learned))) => {
                let dictionary = learned.dictionary();
                let dictionary = dictionary.ok_or(DecodeError::NotLearned { id, codec })?;
                self.decompressor
                    .decompress(bytes, dictionary, limit_bytes, out)
            }
            (Codec::Shape, Some((id, learned))) => {
                let shape = learned.shape();
                let shape = shape.ok_or(DecodeError::NotLearned { id, codec })?;
                shape.decode(bytes, limit_bytes, out)
            }
            _ => format::decode(codec, bytes, limit_bytes, out),
        }
    }
}

fn plain(bytes: &[u8], limit_bytes: usize, out: &mut String) -> Result<(), DecodeError> {
    if bytes.len() > limit_bytes {
        return Err(DecodeError::TooLong { limit_bytes });
    }
    let what = "it is no UTF-8";
    let text = std::str::from_utf8(bytes).map_err(|_| DecodeError::Damaged { what })?;
    out.push_str(text);
    Ok(())
}
