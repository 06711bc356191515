//! The findings of a ramp, in sentences.

use super::capacity::{Capacity, Step, Unit};
use super::search::Ended;
use super::usl::Usl;
use crate::report::svg::number;

impl Capacity {
    /// Knee, why there is no more, curve, cause, headroom.
    pub fn sentences(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.knee {
            Some(knee) => lines.push(format!("knee: {}", self.point(knee))),
            None => lines.push("no knee: no load kept all limits".into()),
        }
        if let (Some(peak), Some(knee)) = (&self.peak, &self.knee)
            && peak.load != knee.load
        {
            lines.push(format!("peak: {}", self.point(peak)));
        }
        lines.extend(self.why());
        if let Some(usl) = &self.usl {
            lines.push(self.curve(usl));
        }
        if self.knee.is_some() {
            let causes = self.saturation.describe().into_iter();
            lines.extend(causes.map(|line| format!("limit: {line}")));
        }
        lines.extend(
            self.headroom
                .map(|headroom| format!("headroom: {}", headroom.describe())),
        );
        lines
    }

    /// Remarks on a step.
    pub fn remark(&self, step: &Step) -> String {
        let is = |other: &Option<Step>| other.as_ref().is_some_and(|other| other.load == step.load);
        let mut remarks = Vec::new();
        if is(&self.knee) {
            remarks.push("knee");
        }
        if is(&self.peak) {
            remarks.push("peak");
        }
        remarks.extend(step.broken.map(|why| why.describe()));
        remarks.join(", ")
    }

    fn point(&self, step: &Step) -> String {
        format!(
            "{}, {} operations/s ({} to {} in {} windows), p50 {} ms, p99 {} ms",
            self.unit.text(step.load),
            number(step.ops_per_second.median),
            number(step.ops_per_second.min),
            number(step.ops_per_second.max),
            step.windows,
            number(step.latency_us_p50 / 1000.0),
            number(step.latency_us_p99 / 1000.0)
        )
    }

    fn why(&self) -> Option<String> {
        let at = |load| self.unit.text(load);
        match (self.ended?, &self.first_broken) {
            (Ended::LoadMax, _) => {
                let most = self.steps.last()?.load;
                Some(format!("throughput was still growing at {}", at(most)))
            }
            (Ended::Broken(why), Some(broken)) => Some(format!(
                "ended by a limit: with {} {}",
                at(broken.load),
                why.describe()
            )),
            _ => Some("ended by throughput: more load brings no more".into()),
        }
    }

    fn curve(&self, usl: &Usl) -> String {
        let maximum = match (usl.ops_per_second_max, usl.clients_at_maximum) {
            (Some(most), Some(at)) => format!(
                "predicted maximum {} operations/s with {} clients",
                number(most),
                number(at.round())
            ),
            (Some(most), None) => format!("at most {} operations/s, never declining", number(most)),
            (None, _) => "no maximum".to_owned(),
        };
        let against = match (usl.ops_per_second_max, &self.peak) {
            (Some(most), Some(peak)) => {
                let ratio = most / peak.ops_per_second.median;
                format!(" ({ratio:.2} of the measured peak)")
            }
            _ => String::new(),
        };
        let fit = match usl.is_poor {
            true => "a poor fit, do not extrapolate: ",
            false => "",
        };
        format!(
            "scalability law: {fit}sigma {:.4}, kappa {:.6}, {maximum}{against}; it is off by {:.0} % \
             in the mean and {:.0} % at most",
            usl.sigma,
            usl.kappa,
            usl.error_share_mean * 100.0,
            usl.error_share_max * 100.0
        )
    }
}

impl Unit {
    /// Head of the column of loads.
    pub fn head(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::OpsPerSecond => "offered/s",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::capacity::TooMuch;
    use super::super::plots;
    use super::super::saturation::Saturation;
    use super::super::steps::Broken;
    use super::*;
    use crate::ramp::headroom::Headroom;
    use crate::report::spread::Spread;

    fn step(load: u64, ops: f64) -> Step {
        Step {
            load,
            windows: 7,
            ops_per_second: Spread {
                median: ops,
                min: ops - 10.0,
                max: ops + 10.0,
            },
            latency_us_p50: 2_000.0,
            latency_us_p99: 9_000.0,
            error_share: 0.0,
            broken: None,
        }
    }

    fn capacity() -> Capacity {
        let points = [(1.0, 100.0), (2.0, 190.0), (4.0, 340.0), (8.0, 560.0)];
        Capacity {
            unit: Unit::Clients,
            knee: Some(step(8, 560.0)),
            peak: Some(step(11, 570.0)),
            ended: Some(Ended::Flat),
            first_broken: None,
            steps: vec![step(4, 340.0), step(8, 560.0), step(11, 570.0)],
            usl: Usl::fit(&points),
            saturation: Saturation::of(Vec::new()),
            headroom: Some(Headroom::of(560.0, Some(3), Some(100.0))),
        }
    }

    #[test]
    fn the_sentences_say_knee_peak_curve_cause_and_headroom() {
        let text = capacity().sentences().join("\n");
        for part in [
            "knee: 8 clients, 560 operations/s (550 to 570 in 7 windows), p50 2.00 ms, p99 9.00 ms",
            "peak: 11 clients",
            "more load brings no more",
            "sigma ",
            "limit: nothing could be looked at",
            "add a node at 373 operations/s (2/3 of the knee: one node may fail)",
        ] {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
    }

    #[test]
    fn a_limit_is_named_with_the_load_that_breaks_it() {
        let broken = Capacity {
            ended: Some(Ended::Broken(Broken::Latency)),
            first_broken: Some(TooMuch {
                load: 12,
                why: Broken::Latency,
            }),
            ..capacity()
        };
        let text = broken.sentences().join("\n");
        assert!(
            text.contains("with 12 clients p99 is above the target"),
            "{text}"
        );
        let endless = Capacity {
            ended: Some(Ended::LoadMax),
            ..capacity()
        };
        let text = endless.sentences().join("\n");
        assert!(text.contains("still growing at 11 clients"), "{text}");
    }

    #[test]
    fn the_page_marks_knee_and_peak_and_holds_no_nan() {
        let page = plots::parts(&capacity()).concat();
        assert!(
            page.contains("<td>knee</tr>") && page.contains("<td>peak</tr>"),
            "{page}"
        );
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(!page.contains("NaN"));
        let none = Capacity {
            knee: None,
            peak: None,
            ended: None,
            steps: Vec::new(),
            usl: None,
            headroom: None,
            ..capacity()
        };
        assert!(none.sentences()[0].contains("no knee"));
        assert!(!plots::parts(&none).concat().contains("NaN"));
    }
}
