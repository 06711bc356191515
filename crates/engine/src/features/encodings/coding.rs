//! The encoders and decoders of one worker.

use std::sync::Arc;

use helenus_payload::{DecodeError, Decoder, Encoder};

use super::EncodedTable;

/// Encoders that are kept: each holds what it has learned from and its memory.
const ENCODERS_MAX: usize = 32;
/// A buffer that has grown larger is not kept.
const BUFFER_MAX: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Coding {
    decoder: Decoder,
    text: String,
    /// Those that were used last stand at the end.
    encoders: Vec<Kept>,
}

struct Kept {
    table: Arc<EncodedTable>,
    column: usize,
    encoder: Encoder,
}

impl Coding {
    /// The stored form of a text.
    pub(crate) fn encode(
        &mut self,
        table: &Arc<EncodedTable>,
        column: usize,
        text: &str,
    ) -> Vec<u8> {
        let is_it = |kept: &Kept| kept.column == column && Arc::ptr_eq(&kept.table, table);
        let known = self.encoders.iter().rposition(is_it);
        let mut kept = match known {
            Some(at) => self.encoders.remove(at),
            None => Kept {
                table: table.clone(),
                column,
                encoder: encoder_of(table, column),
            },
        };
        let mut out = Vec::new();
        // Why a value is stored as it is does not matter here.
        let _ = kept.encoder.encode(text, &mut out);
        if self.encoders.len() >= ENCODERS_MAX {
            self.encoders.remove(0);
        }
        self.encoders.push(kept);
        out
    }

    /// The text of a stored value, of at most `limit_bytes`.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn decode(
        &mut self,
        table: &EncodedTable,
        value: &[u8],
        limit_bytes: usize,
    ) -> Result<&str, DecodeError> {
        if self.text.capacity() > BUFFER_MAX {
            self.text = String::new();
        }
        let dictionaries = &table.dictionaries;
        self.decoder
            .decode(value, dictionaries, limit_bytes, &mut self.text)?;
        Ok(&self.text)
    }

    /// Forgets encoders of tables as they were.
    pub(crate) fn forget_old(&mut self) {
        self.encoders
            .retain(|kept| Arc::strong_count(&kept.table) > 1);
    }
}

fn encoder_of(table: &EncodedTable, column: usize) -> Encoder {
    let Some(column) = table.columns.get(column) else {
        return Encoder::new(helenus_payload::Codec::Raw, None);
    };
    let learned = column.dictionary.and_then(|id| {
        let learned = table.dictionaries.get(&id)?;
        Some((id, learned.clone()))
    });
    Encoder::new(column.codec, learned)
}
