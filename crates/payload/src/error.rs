//! Errors in stored bytes.

use crate::{Codec, DictionaryId};

/// A stored value cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    #[error(
        "the value was stored by a later version of Helenus (format {version}): upgrade this one"
    )]
    Version { version: u8 },
    #[error("the value is stored with codec {number}, which this version of Helenus does not know")]
    Codec { number: u8 },
    #[error(
        "dictionary {id} is missing or cannot be used, and the value cannot be read without it: see `helenus payload \
         status`"
    )]
    MissingDictionary { id: DictionaryId },
    #[error("dictionary {id} has nothing learned for {codec}")]
    NotLearned { id: DictionaryId, codec: Codec },
    #[error("the document is longer than the {limit_bytes} bytes that are allowed")]
    TooLong { limit_bytes: usize },
    #[error("the value is nested deeper than any that Helenus stores")]
    TooDeep,
    #[error("the value ends too early")]
    Truncated,
    #[error("the value is damaged: {what}")]
    Damaged { what: &'static str },
}

/// A learned dictionary cannot be read back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LearnedError {
    #[error("it was written by a later version of Helenus (format {version}): upgrade this one")]
    Version { version: u8 },
    #[error("it ends too early")]
    Truncated,
    #[error("it is damaged: {what}")]
    Damaged { what: &'static str },
}
