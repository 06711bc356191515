//! Dictionaries can be kept, and help.

use rand::RngExt;

use super::generator::Generator;
use super::{Codecs, for_seeds};
use crate::{Codec, Learned, LearnedError, learn};

fn texts(count: usize) -> Vec<String> {
    Generator::new(1).orders(count)
}

fn learned(count: usize) -> Learned {
    learn(texts(count).iter().map(String::as_str))
}

#[test]
fn the_same_sample_teaches_the_same_and_it_can_be_kept() {
    let bytes = learned(500).to_bytes();
    assert_eq!(bytes, learned(500).to_bytes());
    let kept = Learned::from_bytes(&bytes).expect("just written");
    assert_eq!(kept.to_bytes(), bytes);
    let text = Generator::new(9).order();
    let fresh = Codecs::new(learned(500)).round_trip(&text);
    assert_eq!(Codecs::new(kept).round_trip(&text), fresh);
}

#[test]
fn of_nothing_nothing_is_learned() {
    for sample in [&[][..], &["no JSON"]] {
        let learned = learn(sample.iter().copied());
        assert!(!learned.suffices_for(Codec::Shape) && !learned.suffices_for(Codec::Zstd));
        let kept = Learned::from_bytes(&learned.to_bytes()).expect("just written");
        assert_eq!(kept.to_bytes(), learned.to_bytes());
    }
}

#[test]
fn learned_codecs_store_documents_of_a_kind_in_few_bytes() {
    let mut codecs = Codecs::new(learned(1_000));
    let (mut plain, mut stored) = (0, [0; Codec::ALL.len()]);
    for text in Generator::new(77).orders(200) {
        plain += text.len();
        for (codec, value, _) in codecs.round_trip(&text) {
            stored[codec as usize] += value.len();
        }
    }
    let share = |codec: Codec| stored[codec as usize] as f64 / plain as f64;
    assert!(share(Codec::Smile) < 0.95 && share(Codec::MessagePack) < 0.9);
    assert!(share(Codec::Zstd) < 0.45, "{}", share(Codec::Zstd));
    assert!(share(Codec::Shape) < 0.2, "{}", share(Codec::Shape));
}

#[test]
fn later_formats_and_damage_are_told() {
    let bytes = learned(300).to_bytes();
    let later = [&[9], &bytes[1..]].concat();
    assert_eq!(
        Learned::from_bytes(&later).err(),
        Some(LearnedError::Version { version: 9 })
    );
    assert_eq!(
        Learned::from_bytes(&[]).err(),
        Some(LearnedError::Truncated)
    );
    for length in (0..bytes.len()).step_by(97) {
        assert!(Learned::from_bytes(&bytes[..length]).is_err(), "{length}");
    }
}

#[test]
fn changed_bytes_are_an_error_or_learn_something_else() {
    let bytes = learned(100).to_bytes();
    let text = Generator::new(5).order();
    for_seeds(50, |seed| {
        let mut random = Generator::new(seed).0;
        let mut changed = bytes.clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..changed.len());
            changed[at] = random.random();
        }
        if let Ok(learned) = Learned::from_bytes(&changed) {
            Codecs::new(learned).round_trip(&text);
        }
    });
}
