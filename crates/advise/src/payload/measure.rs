//! Encodes and decodes documents, and takes the time.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_migrate::payload::sample::Sample;
use helenus_payload::{
    Codec, Decoder, DictionaryId, Encoder, Learned, NotEncoded, SsTable, is_json, learn,
};

use super::report::{CodecReport, Report};

/// Of these the median counts.
const PASSES: usize = 7;
/// Times are taken of so many bytes of documents at most.
const TIMED_BYTES_MAX: usize = 4 << 20;
/// The dictionary that stored values name; small, as the first ones of a cluster are.
const ID: DictionaryId = DictionaryId(1);

pub(super) fn measure(sample: &Sample) -> Report {
    let (to_learn, to_measure) = sample.halves();
    let learned = Arc::new(learn(to_learn.iter().copied()));
    let mut plain = SsTable::default();
    to_measure
        .iter()
        .for_each(|text| plain.add(text.as_bytes()));
    let codecs = Codec::ALL.into_iter().filter(|codec| *codec != Codec::Raw);
    let codecs = codecs.filter(|codec| learned.suffices_for(*codec));
    Report {
        name: sample.name.clone(),
        column: sample.column.clone(),
        learned_from: to_learn.len(),
        measured: to_measure.len(),
        is_cut: sample.is_cut,
        json: to_measure.iter().filter(|text| is_json(text)).count(),
        learned_bytes: learned.to_bytes().len(),
        plain: plain.finish(),
        codecs: codecs
            .map(|codec| measure_codec(codec, &learned, &to_measure))
            .collect(),
    }
}

pub fn measure_codec(codec: Codec, learned: &Arc<Learned>, texts: &[&str]) -> CodecReport {
    let mut encoder = Encoder::new(codec, Some((ID, learned.clone())));
    let mut table = SsTable::default();
    let mut reasons: BTreeMap<u8, (NotEncoded, u64)> = BTreeMap::new();
    let mut timed: Vec<(&str, Vec<u8>)> = Vec::new();
    let mut timed_bytes = 0;
    let mut value = Vec::new();
    for text in texts {
        if let Err(reason) = encoder.encode(text, &mut value) {
            reasons.entry(reason as u8).or_insert((reason, 0)).1 += 1;
        }
        table.add(&value);
        if timed_bytes < TIMED_BYTES_MAX {
            timed_bytes += text.len();
            timed.push((text, value.clone()));
        }
    }
    let mut decoder = Decoder::default();
    let mut out = String::new();
    let known = (ID, &**learned);
    let decode_us = time(timed_bytes, || {
        for (text, value) in &timed {
            let done = decoder.decode(value, &known, text.len(), &mut out);
            std::hint::black_box((done.is_ok(), &out));
        }
    });
    let encode_us = time(timed_bytes, || {
        for (text, _) in &timed {
            let done = encoder.encode(text, &mut value);
            std::hint::black_box((done.is_ok(), &value));
        }
    });
    let encode_unverified_us = time(timed_bytes, || {
        for (text, _) in &timed {
            let done = encoder.encode_unverified(text, &mut value);
            std::hint::black_box((done.is_ok(), &value));
        }
    });
    let most = reasons.values().max_by_key(|(_, times)| *times);
    CodecReport {
        codec,
        estimate: table.finish(),
        raw: reasons.values().map(|(_, times)| times).sum(),
        reason: most.map(|(reason, _)| *reason),
        encode_us,
        encode_unverified_us,
        decode_us,
    }
}

/// CPU time of a pass per KiB, the median of several, microseconds.
fn time(bytes: usize, mut pass: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..PASSES)
        .map(|_| {
            let before = cpu_us();
            pass();
            cpu_us() - before
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[PASSES / 2] * 1024.0 / bytes.max(1) as f64
}

/// CPU time of this thread: others do not count, however busy the machine is.
fn cpu_us() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

#[cfg(all(test, feature = "lab"))]
mod tests {
    use super::super::report::Advice;
    use super::super::show;
    use super::*;
    use helenus_load::workload::profiles::Profiles;
    use helenus_migrate::payload::sample::chance;

    fn report(documents: Vec<String>) -> Report {
        measure(&Sample {
            name: "sample".to_owned(),
            column: Some("shop.users profile".to_owned()),
            documents,
            is_cut: false,
        })
    }

    #[test]
    fn profiles_are_worth_a_codec() {
        let mut profiles = Profiles::new(1);
        let report = report((0..2_000).map(|_| profiles.draw()).collect());
        assert_eq!(report.learned_from + report.measured, 2_000);
        assert_eq!(report.json, report.measured);
        assert!(matches!(report.advice(), Some(Advice::Use(Codec::Shape, saving)) if saving > 0.4));
        let text = show::text(&report);
        assert!(text.contains("use shape"), "{text}");
        let command = "helenus payload enable shop.users profile --codec shape\n";
        assert!(text.ends_with(command), "{text}");
        let json = show::json(&report);
        assert_eq!(json["codecs"].as_array().expect("a list").len(), 5);
        assert_eq!(json["advice"]["codec"], "shape");
    }

    #[test]
    fn what_is_no_json_is_left() {
        let text = report((0..500).map(|number| format!("line {number}")).collect());
        assert_eq!(text.advice(), Some(Advice::NotJson));
        assert!(show::text(&text).contains("not JSON"));
    }

    #[test]
    fn binary_json_does_not_shrink_random_text() {
        let noise = |seed: u64| -> String {
            let letters = (0..200).map(|n| b'a' + (chance(seed * 200 + n) % 26) as u8);
            letters.map(char::from).collect()
        };
        let report = report(
            (0..500)
                .map(|n| format!("[{n},\"{}\"]", noise(n)))
                .collect(),
        );
        let of = |codec| report.codecs.iter().find(|found| found.codec == codec);
        let binary = of(Codec::Smile).map(|codec| report.ratio(codec));
        assert!(binary.is_some_and(|ratio| ratio > 0.9), "{binary:?}");
    }
}
