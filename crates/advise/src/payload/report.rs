//! The measurements, and the advice that follows.

use helenus_payload::{Codec, Estimate, NotEncoded};

/// A column is left as it is if less of its disk space is saved.
pub(super) const SAVING_MIN: f64 = 0.15;
/// Documents that are no JSON may be so many.
const NOT_JSON_MAX: f64 = 0.5;

pub(super) struct Report {
    pub name: String,
    /// Table and column, as commands take them, if it is one.
    pub column: Option<String>,
    pub learned_from: usize,
    pub measured: usize,
    /// There are more documents than were read.
    pub is_cut: bool,
    /// Of those measured.
    pub json: usize,
    /// Bytes of what was learned, as it would be kept.
    pub learned_bytes: usize,
    /// The documents as they are.
    pub plain: Estimate,
    pub codecs: Vec<CodecReport>,
}

pub struct CodecReport {
    pub codec: Codec,
    pub estimate: Estimate,
    /// Values stored as they are, and why most of them.
    pub raw: u64,
    pub reason: Option<NotEncoded>,
    /// CPU time per KiB of documents, microseconds.
    pub encode_us: f64,
    /// [`Self::encode_us`] without decoding each value to verify it.
    pub encode_unverified_us: f64,
    pub decode_us: f64,
}

/// The advice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Advice {
    NotJson,
    /// The best codec saves too little; what it would save, as a share.
    Leave(Codec, f64),
    /// The codec, and the share that it saves.
    Use(Codec, f64),
}

impl Report {
    /// Disk space of a codec as a share of what the documents take as they are.
    pub(super) fn ratio(&self, codec: &CodecReport) -> f64 {
        codec.estimate.disk_bytes as f64 / self.plain.disk_bytes.max(1) as f64
    }

    /// None without any codec.
    pub(super) fn advice(&self) -> Option<Advice> {
        let best = self
            .codecs
            .iter()
            .min_by_key(|codec| codec.estimate.disk_bytes)?;
        let saving = 1.0 - self.ratio(best);
        if ((self.measured - self.json) as f64) > NOT_JSON_MAX * self.measured as f64 {
            return Some(Advice::NotJson);
        }
        Some(match saving < SAVING_MIN {
            true => Advice::Leave(best.codec, saving),
            false => Advice::Use(best.codec, saving),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(json: usize, disk_bytes: [u64; 2]) -> Report {
        let estimate = |disk_bytes| Estimate {
            disk_bytes,
            ..Estimate::default()
        };
        let codecs = [Codec::Smile, Codec::Shape].into_iter().zip(disk_bytes);
        let codecs = codecs.map(|(codec, disk_bytes)| CodecReport {
            codec,
            estimate: estimate(disk_bytes),
            raw: 0,
            reason: None,
            encode_us: 1.0,
            encode_unverified_us: 1.0,
            decode_us: 1.0,
        });
        Report {
            name: String::new(),
            column: None,
            learned_from: 100,
            measured: 100,
            is_cut: false,
            json,
            learned_bytes: 0,
            plain: estimate(1_000),
            codecs: codecs.collect(),
        }
    }

    #[test]
    fn the_smallest_is_used_if_it_saves_enough() {
        let advice = |json, disk| report(json, disk).advice().expect("there are codecs");
        assert_eq!(advice(100, [900, 400]), Advice::Use(Codec::Shape, 0.6));
        assert!(matches!(
            advice(100, [860, 900]),
            Advice::Leave(Codec::Smile, _)
        ));
        assert!(matches!(
            advice(100, [1_100, 1_200]),
            Advice::Leave(Codec::Smile, _)
        ));
        assert_eq!(advice(49, [900, 400]), Advice::NotJson);
    }
}
