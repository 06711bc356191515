//! When nodes are warm: a Java process gets faster for a while, and a ramp must not take that for
//! the effect of more load.
//!
//! Throughput of equal windows at one load has settled when the median of the last
//! [`COMPARED`] is at most [`GAIN_MAX`] above that of as many before them.

use crate::report::spread::Spread;

const COMPARED: usize = 4;
const GAIN_MAX: f64 = 0.05;

#[derive(Clone, Debug, Default)]
pub struct Warmup {
    ops_per_second: Vec<f64>,
}

impl Warmup {
    pub fn on_window(&mut self, ops_per_second: f64) {
        self.ops_per_second.push(ops_per_second);
    }

    pub fn has_settled(&self) -> bool {
        let Some(first) = self.ops_per_second.len().checked_sub(2 * COMPARED) else {
            return false;
        };
        let (before, last) = self.ops_per_second[first..].split_at(COMPARED);
        match (Spread::of(before), Spread::of(last)) {
            (Some(before), Some(last)) => last.median <= (1.0 + GAIN_MAX) * before.median,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled_after(curve: impl Fn(usize) -> f64) -> Option<usize> {
        let mut warmup = Warmup::default();
        (0..100).find(|&window| {
            warmup.on_window(curve(window));
            warmup.has_settled()
        })
    }

    #[test]
    fn what_is_warm_settles_at_once_and_what_warms_up_later() {
        assert_eq!(settled_after(|_| 100.0), Some(7));
        let late = settled_after(|window| 1_000.0 * (1.0 - (-(window as f64) / 10.0).exp()));
        assert!((20..40).contains(&late.unwrap()), "{late:?}");
        assert_eq!(settled_after(|window| 1.1f64.powi(window as i32)), None);
    }

    #[test]
    fn a_disturbed_window_does_not_matter() {
        let disturbed = |window| if window == 2 { 10.0 } else { 100.0 };
        assert_eq!(settled_after(disturbed), Some(7));
        assert_eq!(
            settled_after(|_| 0.0),
            Some(7),
            "what never succeeds is not waited for"
        );
    }
}
