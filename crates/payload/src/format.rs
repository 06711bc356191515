//! Binary JSON: Smile, MessagePack and CBOR.
//!
//! These keep what a document says, not how it is spelled: they suit documents in the usual spelling
//! (no white space; only necessary escapes, in their shortest form; numbers with the fewest digits).

mod serialize;
mod transcode;

use serde::Serialize;
use serde::de::DeserializeSeed;

use crate::json::{Document, Style, TextWriter};
use crate::{Codec, DecodeError};
use serialize::Value;
use transcode::{Transcode, Transcoder};

/// None if the document cannot be said in this format.
pub(crate) fn encode(
    codec: Codec,
    text: &str,
    document: &Document,
    out: &mut Vec<u8>,
) -> Option<()> {
    let value = Value::root(text, document);
    match codec {
        Codec::Smile => {
            let mut serializer = serde_smile::ser::Serializer::builder()
                .shared_strings(true)
                .build(out);
            value.serialize(&mut serializer).ok()
        }
        Codec::MessagePack => {
            let mut serializer = rmp_serde::Serializer::new(out);
            value.serialize(&mut serializer).ok()
        }
        Codec::Cbor => {
            let writer = cbor4ii::core::utils::IoWriter::new(out);
            let mut serializer = cbor4ii::serde::Serializer::new(writer);
            value.serialize(&mut serializer).ok()
        }
        _ => None,
    }
}

pub(crate) fn decode(
    codec: Codec,
    mut bytes: &[u8],
    limit_bytes: usize,
    out: &mut String,
) -> Result<(), DecodeError> {
    let mut transcoder = Transcoder {
        writer: TextWriter {
            out,
            limit_bytes,
            style: Style::Compact,
        },
        failed: None,
    };
    let seed = Transcode::new(&mut transcoder);
    let is_whole = match codec {
        Codec::Smile => {
            let mut deserializer = serde_smile::de::Deserializer::from_slice(bytes);
            let done = seed.deserialize(&mut deserializer).is_ok();
            done && deserializer.end().is_ok()
        }
        Codec::MessagePack => {
            let mut deserializer = rmp_serde::Deserializer::new(&mut bytes);
            let done = seed.deserialize(&mut deserializer).is_ok();
            done && bytes.is_empty()
        }
        _ => {
            let reader = cbor4ii::core::utils::SliceReader::new(bytes);
            let mut deserializer = cbor4ii::serde::Deserializer::new(reader);
            let done = seed.deserialize(&mut deserializer).is_ok();
            use cbor4ii::core::dec::Read;
            let rest = deserializer.into_inner();
            let mut rest = rest;
            done && rest.fill(1).is_ok_and(|rest| rest.as_ref().is_empty())
        }
    };
    match (transcoder.failed, is_whole) {
        (Some(error), _) => Err(error),
        (None, true) => Ok(()),
        (None, false) => Err(DecodeError::Damaged {
            what: "it is not one document of its format",
        }),
    }
}
