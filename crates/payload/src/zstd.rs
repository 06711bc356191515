//! Zstandard with a trained dictionary.
//!
//! A stored frame has no magic number, no checksum and no dictionary's number: the header before it
//! says as much. zstd records the text's length in every frame.

use zstd_safe::{CCtx, CDict, DCtx, DDict};

use crate::DecodeError;

/// Later levels gain little on short values and cost much.
const LEVEL: i32 = 3;
/// The beginning of every frame, and of no stored value.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The dictionary's number is behind its own magic number.
const DICTIONARY_ID: std::ops::Range<usize> = 4..8;
/// Of dictionaries: the samples fill it, or nearly.
const DICTIONARY_BYTES_MAX: usize = 64 * 1024;
/// zstd asks for samples of a hundred times the dictionary's size, and makes do with less.
const SAMPLES_PER_DICTIONARY: usize = 8;
const DICTIONARY_BYTES_MIN: usize = 256;
/// A frame that says to be longer than so many times its bytes is not read, so that a few bytes do not
/// reserve much memory. Such texts are stored as they are.
const RATIO_MAX: usize = 256;

/// A dictionary, ready for both directions.
pub(crate) struct Dictionary {
    bytes: Vec<u8>,
    compress: CDict<'static>,
    decompress: DDict<'static>,
}

impl Dictionary {
    /// None if the samples are too few, or too short, or have nothing in common.
    pub(crate) fn train(samples: &[&str]) -> Option<Dictionary> {
        let joined: Vec<u8> = samples.iter().flat_map(|s| s.bytes()).collect();
        let sizes: Vec<usize> = samples.iter().map(|s| s.len()).collect();
        let size = (joined.len() / SAMPLES_PER_DICTIONARY).min(DICTIONARY_BYTES_MAX);
        if size < DICTIONARY_BYTES_MIN {
            return None;
        }
        let mut bytes = Vec::with_capacity(size);
        zstd_safe::train_from_buffer(&mut bytes, &joined, &sizes).ok()?;
        bytes.get_mut(DICTIONARY_ID)?.fill(0);
        Dictionary::of(bytes)
    }

    /// None if zstd does not take the bytes.
    pub(crate) fn of(bytes: Vec<u8>) -> Option<Dictionary> {
        let compress = CDict::try_create(&bytes, LEVEL)?;
        let decompress = DDict::try_create(&bytes)?;
        Some(Dictionary {
            bytes,
            compress,
            decompress,
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Memory that zstd uses again and again.
#[derive(Default)]
pub(crate) struct Compressor {
    context: CCtx<'static>,
    frame: Vec<u8>,
}

impl Compressor {
    /// None if zstd fails, which it has no reason for.
    pub(crate) fn compress(
        &mut self,
        text: &str,
        dictionary: &Dictionary,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        self.frame.clear();
        self.frame.reserve(zstd_safe::compress_bound(text.len()));
        self.context
            .compress_using_cdict(&mut self.frame, text.as_bytes(), &dictionary.compress)
            .ok()?;
        out.extend_from_slice(self.frame.strip_prefix(&MAGIC)?);
        Some(())
    }
}

/// Memory that zstd uses again and again.
#[derive(Default)]
pub(crate) struct Decompressor {
    context: DCtx<'static>,
    frame: Vec<u8>,
    text: Vec<u8>,
}

impl Decompressor {
    pub(crate) fn decompress(
        &mut self,
        bytes: &[u8],
        dictionary: &Dictionary,
        limit_bytes: usize,
        out: &mut String,
    ) -> Result<(), DecodeError> {
        self.frame.clear();
        self.frame.extend_from_slice(&MAGIC);
        self.frame.extend_from_slice(bytes);
        let damaged = |what| DecodeError::Damaged { what };
        let length = zstd_safe::get_frame_content_size(&self.frame)
            .ok()
            .flatten();
        let length = length.ok_or(damaged("it is no Zstandard frame with a length"))?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > limit_bytes {
            return Err(DecodeError::TooLong { limit_bytes });
        }
        if length > self.frame.len().saturating_mul(RATIO_MAX) {
            return Err(damaged("it says to be far longer than its bytes suggest"));
        }
        self.text.clear();
        self.text.reserve(length);
        let done = self.context.decompress_using_ddict(
            &mut self.text,
            &self.frame,
            &dictionary.decompress,
        );
        done.map_err(|_| damaged("zstd cannot decompress it"))?;
        if self.text.len() > limit_bytes {
            return Err(DecodeError::TooLong { limit_bytes });
        }
        let text = std::str::from_utf8(&self.text).map_err(|_| damaged("it is no UTF-8"))?;
        out.push_str(text);
        Ok(())
    }
}
