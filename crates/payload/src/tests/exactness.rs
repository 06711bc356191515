//! Texts come back to the byte.

use super::generator::Generator;
use super::{Codecs, for_seeds};
use crate::{Codec, DEPTH_MAX, MARKER, NotEncoded, is_json, learn};

fn learned_from(texts: &[String]) -> Codecs {
    Codecs::new(learn(texts.iter().map(String::as_str)))
}

/// A codec's result with a text.
fn outcome(codecs: &mut Codecs, codec: Codec, text: &str) -> Result<(), NotEncoded> {
    let stored = codecs.round_trip(text);
    stored
        .into_iter()
        .find(|(other, ..)| *other == codec)
        .expect("all codecs")
        .2
}

#[test]
fn any_document_comes_back_from_any_codec() {
    for_seeds(30, |seed| {
        let mut generator = Generator::new(seed);
        let sample: Vec<String> = (0..200).map(|_| generator.any()).collect();
        let mut codecs = learned_from(&sample);
        for text in sample.iter().take(50) {
            codecs.round_trip(text);
        }
        for _ in 0..200 {
            codecs.round_trip(&generator.any());
        }
    });
}

#[test]
fn any_document_comes_back_from_codecs_that_know_others() {
    for_seeds(10, |seed| {
        let mut generator = Generator::new(seed);
        let mut codecs = learned_from(&generator.orders(300));
        for _ in 0..300 {
            codecs.round_trip(&generator.any());
        }
        let mut nothing = learned_from(&[]);
        for _ in 0..50 {
            nothing.round_trip(&generator.any());
        }
    });
}

#[test]
fn no_text_is_lost_whatever_it_is() {
    let mut codecs = learned_from(&Generator::new(1).orders(300));
    for text in [
        "",
        " ",
        "text",
        "{",
        "}",
        "{}",
        "[]",
        "\"",
        "\"\"",
        "\u{0}",
        "nul",
        "null",
        " null",
        "null ",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,}",
        "[1,]",
        "01",
        "+1",
        "1.",
        ".5",
        "1e",
        "'a'",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud800\"",
        "\"tab\there\"",
        "{\"a\" :1}",
        "{ }",
        "[ ]",
        "[1 ,2]",
        "[1, 2,3]",
        "NaN",
        "\u{feff}{}",
        "[1] [2]",
        "\u{10ffff}",
        "{\"a\":{\"a\":{\"a\":[]}}}",
        "[[],[],{}]",
        "[1, 2, 3]",
        "{\"a\": [1, 2], \"b\": {}}",
    ] {
        codecs.round_trip(text);
    }
}

#[test]
fn spelling_decides_what_binary_json_takes() {
    let mut codecs = learned_from(&[]);
    for (text, is_taken) in [
        ("{\"name\":\"value\",\"b\":[1,2,3,true,false,null]}", true),
        ("[0.1,1.5,-2.25,12345678901234567890]", true),
        ("{\"b\":\"first\",\"a\":\"second\",\"b\":\"third\"}", true),
        ("[\"\\\"\\\\\\n\\u001f\",\"éé\"]", true),
        ("{\"name\":1.0,\"other\":\"x\"}", true),
        ("{\"name\":1.50,\"other\":\"x\"}", false),
        ("{\"name\":1e0,\"other\":\"x\"}", false),
        ("{\"name\":-0,\"other\":\"x\"}", false),
        ("{\"name\":\"\\u0041\",\"other\":\"x\"}", false),
        ("{\"name\":\"\\ud83d\",\"other\":\"x\"}", false),
        ("{\"name\": \"value\",\"other\":\"x\"}", false),
        ("{\"name\":123456789012345678901234567890}", false),
    ] {
        for codec in [Codec::MessagePack, Codec::Cbor, Codec::Smile] {
            let outcome = outcome(&mut codecs, codec, text);
            // Smile's own header may make short documents longer.
            let too_short = outcome == Err(NotEncoded::NotShorter) && text.len() < 60;
            let is_right = match is_taken {
                true => outcome.is_ok(),
                false => outcome == Err(NotEncoded::Spelling),
            };
            assert!(is_right || too_short, "{codec} {text}: {outcome:?}");
        }
    }
}

#[test]
fn the_shape_takes_every_spelling_but_unusual_white_space() {
    let texts = Generator::new(2).orders(300);
    let mut codecs = learned_from(&texts);
    let text = &texts[0];
    for (from, to) in [
        ("true", "1.0"),
        ("true", "-0"),
        ("true", "1E5"),
        ("true", "1e400"),
        ("true", "\"\\u0041\""),
        ("true", "\"\\ud83d\""),
        ("true", "99999999999999999999"),
        ("\"paid\"", "\"id\""),
        ("\"paid\"", "\"new\\u0041\""),
        ("true", "[[],{},[{\"id\":1}]]"),
        ("true", "-0.00"),
    ] {
        let text = text.replace(from, to);
        assert_eq!(outcome(&mut codecs, Codec::Shape, &text), Ok(()), "{text}");
    }
    let spaced = text.replace(',', ", ").replace("\":", "\": ");
    assert_eq!(outcome(&mut codecs, Codec::Shape, &spaced), Ok(()));
    let pretty = text.replace(',', ",\n");
    assert_eq!(
        outcome(&mut codecs, Codec::Shape, &pretty),
        Err(NotEncoded::Spelling)
    );
    assert_eq!(outcome(&mut codecs, Codec::Zstd, &pretty), Ok(()));
}

#[test]
fn nesting_is_bounded() {
    let mut codecs = learned_from(&Generator::new(3).orders(100));
    for depth in [DEPTH_MAX - 1, DEPTH_MAX, DEPTH_MAX + 1, 10_000, 1_000_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(is_json(&text), depth <= DEPTH_MAX);
            codecs.round_trip(&text);
            codecs.round_trip(&open.repeat(depth));
        }
    }
}

#[test]
fn long_values_take_linear_time() {
    let mut codecs = learned_from(&Generator::new(4).orders(100));
    codecs.round_trip(&"1".repeat(16 << 20));
    codecs.round_trip(&format!("\"{}\"", "word ".repeat(3 << 20)));
    codecs.round_trip(&format!("[{}1]", "1,".repeat(1 << 18)));
    codecs.round_trip(&format!("\"{}\"", "\\u0041".repeat(1 << 17)));
}

#[test]
fn nothing_is_stored_longer_than_with_the_raw_header() {
    let mut codecs = learned_from(&Generator::new(5).orders(300));
    for (_, value, _) in codecs.round_trip("x") {
        assert_eq!(value.len(), 3);
        assert_eq!(value[0], MARKER);
    }
}

#[test]
fn documents_are_those_of_another_parser() {
    let agrees = |text: &str| {
        let other = serde_json::from_str::<serde::de::IgnoredAny>(text);
        assert_eq!(is_json(text), other.is_ok(), "{text}");
    };
    for_seeds(100, |seed| {
        let mut generator = Generator::new(seed);
        for _ in 0..50 {
            let text = generator.any();
            agrees(&text);
            // Without a part, or with one twice.
            use rand::RngExt;
            let marks: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let at = marks[generator.0.random_range(0..marks.len())];
            let to = marks[generator.0.random_range(0..marks.len())];
            agrees(&format!("{}{}", &text[..at], &text[to..]));
        }
    });
}
