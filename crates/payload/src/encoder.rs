//! Documents to stored values.

use std::fmt;
use std::sync::Arc;

use crate::format;
use crate::header::Header;
use crate::json::{DEPTH_MAX, Document, NotJson, Style, TEXT_BYTES_MAX, parse};
use crate::shape::Choices;
use crate::zstd::Compressor;
use crate::{Codec, Decoder, DictionaryId, Learned};

/// The memory that longer texts need, several times theirs, is not kept for the next.
const KEPT_FOR_BYTES_MAX: usize = 64 * 1024;

/// Why a value is stored as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotEncoded {
    /// It is no JSON, and the codec looks into documents.
    NotJson,
    /// It is nested deeper than [`DEPTH_MAX`](crate::DEPTH_MAX).
    TooDeep,
    /// It is longer than the codec takes.
    TooLong,
    /// The codec cannot keep how it is spelled: white space, escapes, or numbers.
    Spelling,
    /// It would not be shorter.
    NotShorter,
    /// Nothing was learned for the codec.
    NotLearned,
}

/// Writes values with one codec. Kept from one value to the next for its memory.
pub struct Encoder {
    codec: Codec,
    learned: Option<(DictionaryId, Arc<Learned>)>,
    document: Document,
    choices: Choices,
    compressor: Compressor,
    decoder: Decoder,
    decoded: String,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}

impl Encoder {
    /// A learned codec without anything learned stores all values as they are.
    pub fn new(codec: Codec, learned: Option<(DictionaryId, Arc<Learned>)>) -> Self {
        Encoder {
            codec,
            learned,
            document: Document::default(),
            choices: Choices::default(),
            compressor: Compressor::default(),
            decoder: Decoder::default(),
            decoded: String::new(),
        }
    }

    /// Replaces `out` with what is stored of a text. Always succeeds: what cannot be encoded, or would not
    /// be exactly the same again, or not shorter, is kept as it is, with a header of two bytes.
    ///
    /// # Errors
    /// Why the text was kept as it is.
    pub fn encode(&mut self, text: &str, out: &mut Vec<u8>) -> Result<(), NotEncoded> {
        let done = match self.codec {
            Codec::Raw => Err(None),
            _ => self.encode_verified(text, out).map_err(Some),
        };
        if text.len() > KEPT_FOR_BYTES_MAX {
            self.let_memory_go();
        }
        let Err(reason) = done else { return Ok(()) };
        out.clear();
        Header {
            codec: Codec::Raw,
            dictionary: None,
        }
        .write(out);
        out.extend_from_slice(text.as_bytes());
        reason.map_or(Ok(()), Err)
    }

    fn let_memory_go(&mut self) {
        self.document = Document::default();
        self.choices = Choices::default();
        self.compressor = Compressor::default();
        self.decoder = Decoder::default();
        self.decoded = String::new();
    }

    fn encode_verified(&mut self, text: &str, out: &mut Vec<u8>) -> Result<(), NotEncoded> {
        self.encode_unverified(text, out)?;
        // A stored text has two bytes before it.
        if out.len() >= text.len() + 2 {
            return Err(NotEncoded::NotShorter);
        }
        let decoded = match &self.learned {
            Some((id, learned)) => {
                let known = (*id, &**learned);
                self.decoder
                    .decode(out, &known, text.len(), &mut self.decoded)
            }
            None => self.decoder.decode(out, &(), text.len(), &mut self.decoded),
        };
        match decoded.is_ok() && self.decoded == text {
            true => Ok(()),
            false => Err(NotEncoded::Spelling),
        }
    }

    /// Replaces `out` with what would be stored if it came back exactly, without looking whether it does:
    /// to measure what looking costs. Not to be stored.
    ///
    /// # Errors
    /// Why the text would be kept as it is; what is in `out` then says nothing.
    pub fn encode_unverified(&mut self, text: &str, out: &mut Vec<u8>) -> Result<(), NotEncoded> {
        let Encoder {
            codec,
            learned,
            document,
            choices,
            compressor,
            ..
        } = self;
        let learned = learned.as_ref().filter(|_| codec.is_learned());
        out.clear();
        Header {
            codec: *codec,
            dictionary: learned.map(|(id, _)| *id),
        }
        .write(out);
        match codec {
            Codec::Raw => {
                out.extend_from_slice(text.as_bytes());
                Ok(())
            }
            Codec::Zstd => {
                let dictionary = learned.and_then(|(_, learned)| learned.dictionary());
                let dictionary = dictionary.ok_or(NotEncoded::NotLearned)?;
                compressor
                    .compress(text, dictionary, out)
                    .ok_or(NotEncoded::NotShorter)
            }
            Codec::Shape => {
                let shape = learned.and_then(|(_, learned)| learned.shape());
                let shape = shape.ok_or(NotEncoded::NotLearned)?;
                read(text, document)?;
                shape
                    .encode(text, document, choices, out)
                    .ok_or(NotEncoded::Spelling)
            }
            Codec::Smile | Codec::MessagePack | Codec::Cbor => {
                read(text, document)?;
                if document.style != Style::Compact {
                    return Err(NotEncoded::Spelling);
                }
                format::encode(*codec, text, document, out).ok_or(NotEncoded::Spelling)
            }
        }
    }
}

fn read(text: &str, document: &mut Document) -> Result<(), NotEncoded> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(NotEncoded::TooLong);
    }
    parse(text, DEPTH_MAX, document).map_err(|error| match error {
        NotJson::Syntax => NotEncoded::NotJson,
        NotJson::TooDeep => NotEncoded::TooDeep,
        NotJson::TooLong => NotEncoded::TooLong,
    })
}
