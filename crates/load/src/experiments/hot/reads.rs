//! Reads of a key-value table, told apart by whether they are for the hot key.

use crate::measure::ErrorKind;
use crate::workload::Workload;
use crate::workload::keys::Keys;
use crate::workload::kv::{KeyValue, Mix};
use rand_chacha::ChaCha8Rng;

/// Kinds of reads.
pub(super) const KINDS: [&str; 2] = ["hot", "other"];
const HOT: usize = 0;
const OTHER: usize = 1;
/// The number of the hot key.
const HOT_KEY: u64 = 0;

#[derive(Clone, Debug)]
pub(super) struct HotReads {
    rows: KeyValue,
    keys: Keys,
}

impl HotReads {
    /// `share`: of the hot key, 0 to 1.
    pub(super) fn new(sessions: &KeyValue, keys: u64, share: f64) -> HotReads {
        HotReads {
            rows: sessions.with_mix(Mix::READS),
            keys: match share > 0.0 {
                true => Keys::uniform(keys).with_hot_key(share),
                false => Keys::uniform(keys),
            },
        }
    }
}

impl Workload for HotReads {
    fn kinds(&self) -> Vec<&str> {
        KINDS.to_vec()
    }

    async fn call(&self, client: usize, rng: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let key = self.keys.draw(rng);
        let kind = if key == HOT_KEY { HOT } else { OTHER };
        (kind, self.rows.read(client, key).await)
    }
}
