//! Dictionaries, learned of a column from a sample of its values.

use crate::bytes::{Reader, put_string};
use crate::json::{DEPTH_MAX, Document, parse};
use crate::shape::Shape;
use crate::zstd::Dictionary;
use crate::{Codec, LearnedError};

/// The format of [`Learned::to_bytes`].
const VERSION: u8 = 1;
/// More bytes of samples tell little more.
const SAMPLE_BYTES_MAX: usize = 16 << 20;

/// A column's dictionary, with which the learned codecs write and read its values. Never changes: values that were
/// written with it can only be read with it.
pub struct Learned {
    dictionary: Option<Dictionary>,
    shape: Option<Shape>,
}

/// Learns from values of a column, of which the first 16 MiB count. The same values in the same order give
/// the same.
pub fn learn<'s>(samples: impl IntoIterator<Item = &'s str>) -> Learned {
    let mut bytes = 0usize;
    let samples: Vec<&str> = samples
        .into_iter()
        .take_while(|text| {
            bytes += text.len();
            bytes <= SAMPLE_BYTES_MAX
        })
        .collect();
    let documents: Vec<(&str, Document)> = samples
        .iter()
        .filter_map(|text| {
            let mut document = Document::default();
            parse(text, DEPTH_MAX, &mut document).ok()?;
            Some((*text, document))
        })
        .collect();
    Learned {
        dictionary: Dictionary::train(&samples),
        shape: Shape::learn(&documents),
    }
}

impl std::fmt::Debug for Learned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Learned").finish_non_exhaustive()
    }
}

impl Learned {
    /// True if the sample was enough for this codec. Codecs that learn nothing always have enough.
    pub fn suffices_for(&self, codec: Codec) -> bool {
        match codec {
            Codec::Zstd => self.dictionary.is_some(),
            Codec::Shape => self.shape.is_some(),
            _ => true,
        }
    }

    pub(crate) fn dictionary(&self) -> Option<&Dictionary> {
        self.dictionary.as_ref()
    }

    pub(crate) fn shape(&self) -> Option<&Shape> {
        self.shape.as_ref()
    }

    /// Equal dictionaries give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_string(
            &mut out,
            self.dictionary.as_ref().map_or(&[], Dictionary::bytes),
        );
        let mut shape = Vec::new();
        if let Some(learned) = &self.shape {
            learned.to_bytes(&mut shape);
        }
        put_string(&mut out, &shape);
        out
    }

    /// # Errors
    /// Of bytes that no [`Learned::to_bytes`] of this version has written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Learned, LearnedError> {
        let mut reader = Reader(bytes);
        let version = reader.byte()?;
        if version != VERSION {
            return Err(LearnedError::Version { version });
        }
        let (dictionary, shape) = (reader.string()?, reader.string()?);
        if !reader.0.is_empty() {
            return Err(LearnedError::Damaged {
                what: "something follows it",
            });
        }
        let what = "zstd does not take its dictionary";
        let dictionary = match dictionary {
            [] => None,
            bytes => Some(Dictionary::of(bytes.to_vec()).ok_or(LearnedError::Damaged { what })?),
        };
        let shape = match shape {
            [] => None,
            bytes => Some(Shape::from_bytes(bytes)?),
        };
        Ok(Learned { dictionary, shape })
    }
}
