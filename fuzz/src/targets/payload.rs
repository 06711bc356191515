//! Stored values of any bytes are decoded within bounds; any text comes back exactly from every codec.
//! The first byte says what to do with the rest.
use std::sync::{Arc, LazyLock};

use helenus_payload::{Codec, Decoder, DictionaryId, Encoder, Learned, MARKER, learn};

const ID: DictionaryId = DictionaryId(1);
const LIMIT_BYTES: usize = 1 << 20;

/// From documents of a kind: enough for both learned codecs.
static LEARNED: LazyLock<Arc<Learned>> = LazyLock::new(|| {
    let documents: Vec<String> = (0..400u32)
        .map(|n| {
            let color = ["red", "green", "blue"][n as usize % 3];
            format!(
                "{{\"id\":{},\"color\":\"{color}\",\"at\":\"2024-05-{:02}T13:04:05Z\",\"price\":{}.{:02},\
                 \"tags\":[\"{color} chair\",\"x{n}\"],\"ok\":{}}}",
                n * 7919,
                n % 28 + 1,
                n,
                n % 100,
                n % 5 == 0
            )
        })
        .collect();
    Arc::new(learn(documents.iter().map(String::as_str)))
});

pub fn run(data: &[u8]) {
    let [what, rest @ ..] = data else { return };
    let learned = &*LEARNED;
    let known = (ID, &**learned);
    let mut out = String::new();
    let mut decoder = Decoder::default();
    match what % 4 {
        0 => {
            let _ = decoder.decode(rest, &known, LIMIT_BYTES, &mut out);
        }
        1 => {
            let codec = Codec::ALL[usize::from(what / 4) % Codec::ALL.len()];
            let mut value = vec![MARKER, 0x10 | codec as u8];
            if codec.is_learned() {
                value.push(ID.0 as u8);
            }
            value.extend_from_slice(rest);
            let _ = decoder.decode(&value, &known, LIMIT_BYTES, &mut out);
            assert!(out.len() <= LIMIT_BYTES);
        }
        2 => {
            let _ = Learned::from_bytes(rest);
        }
        _ => {
            let Ok(text) = std::str::from_utf8(rest) else {
                return;
            };
            for codec in Codec::ALL {
                let mut value = Vec::new();
                let _ = Encoder::new(codec, Some((ID, learned.clone()))).encode(text, &mut value);
                let done = decoder.decode(&value, &known, LIMIT_BYTES, &mut out);
                assert_eq!(done, Ok(()), "{codec}");
                assert_eq!(out, text, "{codec}");
            }
        }
    }
}
