//! From a binary format to JSON, without anything in between.

use std::fmt;

use serde::de::DeserializeSeed;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::DecodeError;
use crate::json::{DEPTH_MAX, TextWriter, WriteError, write_float, write_integer, write_string};

/// Where the text goes, and what has gone wrong.
pub(super) struct Transcoder<'o> {
    pub writer: TextWriter<'o>,
    pub failed: Option<DecodeError>,
}

impl Transcoder<'_> {
    fn check<E: Error>(&mut self, written: Result<(), WriteError>) -> Result<(), E> {
        written.map_err(|WriteError::TooLong| {
            let limit_bytes = self.writer.limit_bytes;
            self.fail(DecodeError::TooLong { limit_bytes })
        })
    }

    fn push<E: Error>(&mut self, text: &str) -> Result<(), E> {
        let written = self.writer.push(text);
        self.check(written)
    }

    fn fail<E: Error>(&mut self, error: DecodeError) -> E {
        let shown = E::custom("");
        self.failed.get_or_insert(error);
        shown
    }
}

/// One value.
pub(super) struct Transcode<'t, 'o> {
    transcoder: &'t mut Transcoder<'o>,
    depth: usize,
    is_name: bool,
}

impl<'t, 'o> Transcode<'t, 'o> {
    pub(super) fn new(transcoder: &'t mut Transcoder<'o>) -> Self {
        Transcode {
            transcoder,
            depth: 0,
            is_name: false,
        }
    }

    fn inner(&mut self, is_name: bool) -> Transcode<'_, 'o> {
        Transcode {
            transcoder: self.transcoder,
            depth: self.depth + 1,
            is_name,
        }
    }

    /// Something that cannot be a name.
    fn value<E: Error>(&mut self, text: &str) -> Result<(), E> {
        if self.is_name {
            let what = "a name is no text";
            return Err(self.transcoder.fail(DecodeError::Damaged { what }));
        }
        self.transcoder.push(text)
    }

    fn open<E: Error>(&mut self, bracket: &str) -> Result<(), E> {
        if self.depth >= DEPTH_MAX {
            return Err(self.transcoder.fail(DecodeError::TooDeep));
        }
        self.value(bracket)
    }
}

impl<'de> DeserializeSeed<'de> for Transcode<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.is_name {
            // Smile reads names in another way than values.
            true => deserializer.deserialize_str(self),
            false => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Transcode<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_bool<E: Error>(mut self, value: bool) -> Result<(), E> {
        self.value(if value { "true" } else { "false" })
    }

    fn visit_i64<E: Error>(mut self, value: i64) -> Result<(), E> {
        let mut text = String::new();
        write_integer(value, &mut text);
        self.value(&text)
    }

    fn visit_u64<E: Error>(mut self, value: u64) -> Result<(), E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.value(&value.to_string()),
        }
    }

    fn visit_f64<E: Error>(mut self, value: f64) -> Result<(), E> {
        if !value.is_finite() {
            let what = "a number is not finite";
            return Err(self.transcoder.fail(DecodeError::Damaged { what }));
        }
        self.value("")?;
        let written = write_float(value, &mut self.transcoder.writer);
        self.transcoder.check(written)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        let written = write_string(value, &mut self.transcoder.writer);
        self.transcoder.check(written)
    }

    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        self.value("null")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        self.open("[")?;
        let mut is_first = true;
        loop {
            let before = self.transcoder.writer.out.len();
            if !is_first {
                self.transcoder.push(",")?;
            }
            if elements.next_element_seed(self.inner(false))?.is_none() {
                self.transcoder.writer.out.truncate(before);
                break;
            }
            is_first = false;
        }
        self.transcoder.push("]")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        self.open("{")?;
        let mut is_first = true;
        loop {
            let before = self.transcoder.writer.out.len();
            if !is_first {
                self.transcoder.push(",")?;
            }
            if members.next_key_seed(self.inner(true))?.is_none() {
                self.transcoder.writer.out.truncate(before);
                break;
            }
            self.transcoder.push(":")?;
            members.next_value_seed(self.inner(false))?;
            is_first = false;
        }
        self.transcoder.push("}")
    }
}
