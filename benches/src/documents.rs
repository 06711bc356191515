//! Codecs of documents, on profiles like those of `helenus bench payload`.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;

use helenus_payload::{Codec, Decoder, DictionaryId, Encoder, Learned, learn};

use crate::work::Work;

/// The benchmarks of documents. A document has about 450 bytes.
pub(crate) const ALL: &[(&str, Work)] = &[
    ("document: shape, encoded and verified", encode),
    ("document: shape, decoded", decode),
];

/// Documents from which the codec learns, and as many others that are written.
const DOCUMENTS: usize = 250;
const ID: DictionaryId = DictionaryId(1);

fn encode(times: usize) {
    let (learned, documents) = learned_and_documents();
    let mut encoder = Encoder::new(Codec::Shape, Some((ID, learned)));
    let mut value = Vec::new();
    for document in documents.iter().cycle().take(times) {
        let done = encoder.encode(black_box(document), &mut value);
        assert!(done.is_ok(), "not encoded: {document}");
    }
}

fn decode(times: usize) {
    let (learned, documents) = learned_and_documents();
    let mut encoder = Encoder::new(Codec::Shape, Some((ID, Arc::clone(&learned))));
    let encoded = documents.iter().map(|document| {
        let mut value = Vec::new();
        let done = encoder.encode(document, &mut value);
        assert!(done.is_ok(), "not encoded: {document}");
        value
    });
    let values: Vec<Vec<u8>> = encoded.collect();
    let mut decoder = Decoder::default();
    let mut text = String::new();
    for value in values.iter().cycle().take(times) {
        let done = decoder.decode(black_box(value), &(ID, &*learned), 4_096, &mut text);
        assert!(done.is_ok(), "our own value");
    }
}

fn learned_and_documents() -> (Arc<Learned>, Vec<String>) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let sample: Vec<String> = (0..DOCUMENTS).map(|_| document(&mut random)).collect();
    let learned = learn(sample.iter().map(String::as_str));
    let documents = (0..DOCUMENTS).map(|_| document(&mut random)).collect();
    (Arc::new(learned), documents)
}

/// Xorshift, so that all runs count the same.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn word(&mut self) -> &'static str {
        const WORDS: [&str; 8] = [
            "running", "shoes", "wireless", "usb", "winter", "jacket", "black", "kids",
        ];
        // The first ones are more frequent.
        let bound = 1 + self.below(WORDS.len() as u64);
        WORDS[self.below(bound) as usize]
    }
}

fn document(random: &mut Random) -> String {
    let mut out = String::new();
    let done = write_document(random, &mut out);
    assert!(done.is_ok(), "a string takes everything");
    out
}

fn write_document(random: &mut Random, out: &mut String) -> std::fmt::Result {
    write!(
        out,
        "{{\"user_id\":{},\"viewed\":[",
        random.below(50_000_000)
    )?;
    for item in 0..4 + random.below(4) {
        let comma = if item > 0 { "," } else { "" };
        let (id, seconds) = (random.below(100_000), random.below(600));
        let at = 1_704_067_200_000 + random.below(90 * 24 * 3_600_000);
        write!(
            out,
            "{comma}{{\"item\":{id},\"at\":{at},\"seconds\":{seconds}}}"
        )?;
    }
    let (seller, cents) = (random.below(5_000), random.below(100));
    let (first, second) = (random.word(), random.word());
    let (lat, lon) = (random.below(1_000_000), random.below(1_000_000));
    write!(
        out,
        "],\"searches\":[\"{first} {second}\",\"{second}\"],\"seller\":\"s-{seller:05}\",\"price\":{}.{cents:02},\
         \"place\":{{\"city\":\"London\",\"lat\":51.{lat:06},\"lon\":-0.{lon:06}}}}}",
        random.below(300),
    )
}
