//! Whatever bytes come, they end in an error or a text of bounded length.

use std::collections::BTreeMap;

use rand::RngExt;

use super::generator::Generator;
use super::{Codecs, ID, for_seeds};
use crate::{Codec, DecodeError, Decoder, Learned, MARKER, learn};

const LIMIT_BYTES: usize = 100_000;

fn take(codecs: &mut Codecs, value: &[u8]) -> Result<String, DecodeError> {
    let mut out = String::new();
    let done = codecs
        .decoder
        .decode(value, &codecs.dictionaries, LIMIT_BYTES, &mut out);
    assert!(out.len() <= LIMIT_BYTES && out.capacity() <= 2 * LIMIT_BYTES);
    done.map(|()| out)
}

fn learned(seed: u64) -> Learned {
    learn(Generator::new(seed).orders(300).iter().map(String::as_str))
}

#[test]
fn what_is_cut_off_is_no_document() {
    let mut codecs = Codecs::new(learned(1));
    let text = Generator::new(2).order();
    for (codec, value, done) in codecs.round_trip(&text) {
        assert_eq!(done, Ok(()), "{codec}");
        for length in 1..value.len() {
            let taken = take(&mut codecs, &value[..length]);
            assert!(
                taken.is_err() || codec == Codec::Raw,
                "{codec} {length}: {taken:?}"
            );
        }
        let longer = take(&mut codecs, &[&value[..], b"\0"].concat());
        assert!(
            longer.is_err() || codec == Codec::Raw,
            "{codec}: {longer:?}"
        );
    }
}

#[test]
fn changed_bits_are_an_error_or_another_text() {
    let mut codecs = Codecs::new(learned(1));
    for_seeds(5, |seed| {
        let text = Generator::new(seed).order();
        for (_, mut value, _) in codecs.round_trip(&text) {
            for bit in 0..value.len() * 8 {
                value[bit / 8] ^= 1 << (bit % 8);
                let _ = take(&mut codecs, &value);
                value[bit / 8] ^= 1 << (bit % 8);
            }
        }
    });
}

#[test]
fn any_bytes_after_a_header_are_taken() {
    let mut codecs = Codecs::new(learned(1));
    for_seeds(20, |seed| {
        let mut random = Generator::new(seed).0;
        for _ in 0..2_000 {
            let codec = random.random_range(0..7);
            let mut value = vec![MARKER, 0x10 | codec, ID.0 as u8];
            if codec < 4 {
                value.pop();
            }
            if codec == 1 && random.random() {
                value.extend([b':', b')', b'\n', random.random_range(0..8)]);
            }
            let length = random.random_range(0..64);
            value.extend((0..length).map(|_| random.random::<u8>()));
            let _ = take(&mut codecs, &value);
        }
    });
}

#[test]
fn a_missing_dictionary_is_named() {
    let mut codecs = Codecs::new(learned(1));
    let text = Generator::new(2).order();
    for (codec, value, _) in codecs.round_trip(&text) {
        let mut out = String::new();
        let done = Decoder::default().decode(&value, &(), LIMIT_BYTES, &mut out);
        match codec.is_learned() {
            true => assert_eq!(done, Err(DecodeError::MissingDictionary { id: ID })),
            false => assert_eq!(done, Ok(())),
        }
        let nothing = BTreeMap::from([(ID, std::sync::Arc::new(learn([])))]);
        let done = Decoder::default().decode(&value, &nothing, LIMIT_BYTES, &mut out);
        match codec.is_learned() {
            true => assert_eq!(done, Err(DecodeError::NotLearned { id: ID, codec })),
            false => assert_eq!(done, Ok(())),
        }
    }
}

#[test]
fn no_document_becomes_longer_than_allowed() {
    let sample = Generator::new(1).orders(300);
    let mut codecs = Codecs::new(learn(sample.iter().map(String::as_str)));
    let long = format!("[{}1]", "\"chair\",".repeat(20_000));
    assert!(long.len() > LIMIT_BYTES);
    for (codec, value, _) in codecs.round_trip(&long) {
        let limit_bytes = LIMIT_BYTES;
        let taken = take(&mut codecs, &value);
        assert_eq!(taken, Err(DecodeError::TooLong { limit_bytes }), "{codec}");
    }
    // Few bytes that say to be many.
    let zeros = "0".repeat(1 << 20);
    let bytes = zeros.as_bytes();
    let mut frame = vec![MARKER, 0x10 | Codec::Zstd as u8, ID.0 as u8];
    let mut whole = Vec::with_capacity(1 << 20);
    zstd_safe::compress(&mut whole, bytes, 3).expect("compresses");
    frame.extend_from_slice(&whole[4..]);
    assert!(frame.len() < 200);
    assert!(take(&mut codecs, &frame).is_err());
    let mut out = String::new();
    let done = codecs
        .decoder
        .decode(&frame, &codecs.dictionaries, 1 << 20, &mut out);
    assert!(matches!(done, Err(DecodeError::Damaged { .. })), "{done:?}");
}

#[test]
fn deep_values_do_not_overflow_the_stack() {
    let mut codecs = Codecs::new(learned(1));
    let mut smile = vec![MARKER, 0x11, b':', b')', b'\n', 0];
    smile.extend([0xf8; 100_000]);
    let mut messagepack = vec![MARKER, 0x12];
    messagepack.extend([0x91; 100_000]);
    let mut cbor = vec![MARKER, 0x13];
    cbor.extend([0x81; 100_000]);
    let mut indefinite = vec![MARKER, 0x13];
    indefinite.extend([0x9f; 100_000]);
    for value in [smile, messagepack, cbor, indefinite] {
        assert!(take(&mut codecs, &value).is_err());
    }
}

#[test]
fn lengths_reserve_nothing() {
    let mut codecs = Codecs::new(learned(1));
    for bytes in [
        &[0x12, 0xdb, 0xff, 0xff, 0xff, 0xff][..],
        &[0x12, 0xdd, 0xff, 0xff, 0xff, 0xff],
        &[0x12, 0xdf, 0xff, 0xff, 0xff, 0xff, 0xa1, b'a'],
        &[0x13, 0x7b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x13, 0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x13, 0xbb, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    ] {
        let value = [&[MARKER], bytes].concat();
        assert!(take(&mut codecs, &value).is_err());
    }
}
