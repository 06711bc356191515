//! Every codec gives every text back exactly, and takes whatever bytes come.

mod exactness;
mod generator;
mod hostile;
mod learning;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Codec, Decoder, DictionaryId, Encoder, Learned, NotEncoded};

const ID: DictionaryId = DictionaryId(7);
const LIMIT_BYTES: usize = 32 << 20;

/// An encoder of each codec, and a decoder.
struct Codecs {
    encoders: Vec<Encoder>,
    decoder: Decoder,
    dictionaries: BTreeMap<DictionaryId, Arc<Learned>>,
}

impl Codecs {
    fn new(learned: Learned) -> Codecs {
        let learned = Arc::new(learned);
        let of = |codec| Encoder::new(codec, Some((ID, learned.clone())));
        Codecs {
            encoders: Codec::ALL.into_iter().map(of).collect(),
            decoder: Decoder::default(),
            dictionaries: [(ID, learned.clone())].into(),
        }
    }

    /// The stored bytes of each codec; each has come back exactly.
    fn round_trip(&mut self, text: &str) -> Vec<(Codec, Vec<u8>, Result<(), NotEncoded>)> {
        let mut stored = Vec::new();
        for (codec, encoder) in Codec::ALL.into_iter().zip(&mut self.encoders) {
            let mut value = Vec::new();
            let done = encoder.encode(text, &mut value);
            let mut decoded = String::new();
            let read = self
                .decoder
                .decode(&value, &self.dictionaries, LIMIT_BYTES, &mut decoded);
            assert_eq!(read, Ok(()), "{codec}: {text:.200}");
            assert!(
                decoded == text,
                "{codec}: {text:.200} became {decoded:.200}"
            );
            assert!(value.len() <= text.len() + 2, "{codec}: {text:.200}");
            stored.push((codec, value, done));
        }
        stored
    }
}

/// Runs `check` for seeds 0..`count`, or only for `HELENUS_SEED`; a failing seed is printed.
fn for_seeds(count: u64, mut check: impl FnMut(u64)) {
    struct Replay(u64);
    impl Drop for Replay {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("replay with HELENUS_SEED={}", self.0);
            }
        }
    }
    let only = std::env::var("HELENUS_SEED").ok();
    let only = only.map(|text| text.parse::<u64>().expect("HELENUS_SEED is a number"));
    for seed in only.map_or(0..count, |seed| seed..seed + 1) {
        let replay = Replay(seed);
        check(seed);
        drop(replay);
    }
}
