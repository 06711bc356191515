//! Values on their way from one column to the other.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use helenus_catalogue::Encoding;
use helenus_payload::{Codec, Decoder, Encoder};

use super::dictionary::{Dictionaries, Numbered};

/// As in the proxies.
const TEXT_BYTES_MAX: usize = 256 << 20;

/// The change of values.
pub(super) enum Change {
    Encode(Encoders),
    Decode(Dictionaries),
}

/// Encoders, of which each thread takes one.
pub(super) struct Encoders {
    codec: Codec,
    learned: Option<Numbered>,
    idle: Mutex<Vec<Encoder>>,
}

/// A value in its new form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub value: Vec<u8>,
    /// The codec could not keep the text exactly, or not in less space.
    pub is_raw: bool,
}

impl Change {
    /// From texts to what new values of the column are written as.
    pub(super) fn encode(entry: &Encoding, dictionaries: &Dictionaries) -> Result<Change> {
        let (codec, learned) = dictionaries.writer(&entry.codec, entry.dictionary)?;
        Ok(Change::Encode(Encoders {
            codec,
            learned,
            idle: Mutex::default(),
        }))
    }

    pub(super) fn apply(&self, value: &[u8]) -> Result<Changed> {
        match self {
            Change::Encode(encoders) => encoders.encode(value),
            Change::Decode(dictionaries) => {
                let mut text = String::new();
                let known = &dictionaries.known;
                let done = Decoder::default().decode(value, known, TEXT_BYTES_MAX, &mut text);
                done.context("its value cannot be read")?;
                Ok(Changed {
                    value: text.into_bytes(),
                    is_raw: false,
                })
            }
        }
    }
}

impl Encoders {
    fn encode(&self, value: &[u8]) -> Result<Changed> {
        let Ok(text) = std::str::from_utf8(value) else {
            bail!("its value is no UTF-8");
        };
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut encoder = taken.unwrap_or_else(|| Encoder::new(self.codec, self.learned.clone()));
        let mut value = Vec::new();
        let is_raw = encoder.encode(text, &mut value).is_err();
        idle().push(encoder);
        Ok(Changed { value, is_raw })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_say_if_they_are_stored_as_they_are() {
        let entry = Encoding {
            codec: "cbor".to_owned(),
            ..Encoding::default()
        };
        let none = Dictionaries::default();
        let there = Change::encode(&entry, &none).expect("it needs no dictionary");
        let back = Change::Decode(none);
        let document = r#"{"name":"a name that is long enough","age":12345678}"#;
        for (text, is_raw) in [(document, false), ("no JSON", true), ("", true)] {
            let encoded = there.apply(text.as_bytes()).expect("a text");
            assert_eq!(encoded.is_raw, is_raw, "{text}");
            let decoded = back.apply(&encoded.value).expect("a value");
            assert_eq!(decoded.value, text.as_bytes());
        }
        assert!(there.apply(&[0xff]).is_err());
        let missing = [0xff, 0x15, 9, 1, 2, 3];
        let error = back.apply(&missing).expect_err("no such dictionary");
        assert!(format!("{error:#}").contains('9'), "{error:#}");
    }
}
