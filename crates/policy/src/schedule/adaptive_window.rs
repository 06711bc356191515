//! Limits the queries other than scans that a node holds while scans are present.
//!
//! Formula (Gradient2): for every [`BATCH`] answers take the mean of service time ÷ predicted work,
//! so that cheap and expensive queries have equal weight. With `short` that mean and `long` its
//! slow average:
//!
//! L ← 0.8 L + 0.2 (L · clamp(1.5 · long / short, 0.5, 1) + √L)
//!
//! within `min..=max`, and without growth while fewer than L/2 are in flight.
//!
//! Evidence: the simulation (see [`super`]): windows of 8 and 64 differ by less than 10 % for
//! points.
//!
//! Limits: it reacts to slow answers, whatever their cause; other clients' load narrows it too.
//!
//! Source: N. Thorsen et al., concurrency-limits (Netflix), Gradient2Limit.

const BATCH: u32 = 32;
const LONG_SHARE: f32 = 1.0 / 64.0;
const TOLERANCE: f32 = 1.5;

#[derive(Debug)]
pub(super) struct AdaptiveWindow {
    limit: f32,
    long: Option<f32>,
    sum: f32,
    count: u32,
}

impl AdaptiveWindow {
    pub(super) fn new(max: u32) -> Self {
        AdaptiveWindow {
            limit: max as f32,
            long: None,
            sum: 0.0,
            count: 0,
        }
    }

    /// The upper bound changes: what was found of the node stays, as the same share of the bound.
    pub(super) fn scale(&mut self, before: u32, now: u32) {
        let now = now.max(1) as f32;
        self.limit = (self.limit * now / before.max(1) as f32).clamp(1.0, now);
    }

    pub(super) fn size(&self, min: u32, max: u32) -> u32 {
        (self.limit as u32).clamp(min.min(max), max)
    }

    /// An answer arrived while `in_flight` queries were in flight, itself included.
    pub(super) fn on_answer(&mut self, work_us: u32, service_us: u32, in_flight: u32, max: u32) {
        self.sum += service_us.max(1) as f32 / work_us.max(1) as f32;
        self.count += 1;
        if self.count < BATCH {
            return;
        }
        let short = self.sum / BATCH as f32;
        (self.sum, self.count) = (0.0, 0);
        let long = self.long.unwrap_or(short);
        let gradient = (TOLERANCE * long / short).clamp(0.5, 1.0);
        let wanted = self.limit * gradient + self.limit.sqrt();
        let next = 0.8 * self.limit + 0.2 * wanted;
        if next < self.limit || in_flight as f32 >= self.limit / 2.0 {
            self.limit = next.clamp(1.0, max.max(1) as f32);
        }
        self.long = Some(long + LONG_SHARE * (short - long));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limit after a batch of answers this many times slower than predicted.
    fn batch(window: &mut AdaptiveWindow, slowness: u32, in_flight: u32, max: u32) -> u32 {
        for _ in 0..BATCH {
            window.on_answer(100, 100 * slowness, in_flight, max);
        }
        window.size(1, max)
    }

    #[test]
    fn a_batch_of_late_answers_moves_the_limit_as_the_formula_says() {
        let mut window = AdaptiveWindow::new(64);
        assert_eq!(batch(&mut window, 1, 60, 64), 64);
        for _ in 1..BATCH {
            window.on_answer(100, 400, 1, 64);
        }
        assert_eq!(window.size(1, 64), 64, "one is missing");
        window.on_answer(100, 400, 1, 64);
        // 0.8 · 64 + 0.2 · (32 + 8)
        assert_eq!(window.size(1, 64), 59);
        // 0.8 · 59.2 + 0.2 · (29.6 + 7.7)
        assert_eq!(batch(&mut window, 4, 1, 64), 54);
        // 54.8 + 0.2 · 7.4
        assert_eq!(batch(&mut window, 1, 60, 64), 56);
        // Slowness that lasts becomes the rule.
        let slow: Vec<u32> = (0..300).map(|_| batch(&mut window, 4, 60, 64)).collect();
        assert!(slow[5] < 40 && slow[299] == 64, "{slow:?}");
    }

    #[test]
    fn it_grows_only_while_half_of_it_is_used_and_up_to_the_maximum() {
        let mut window = AdaptiveWindow::new(64);
        assert_eq!(batch(&mut window, 1, 31, 100), 64);
        assert_eq!(batch(&mut window, 1, 32, 100), 65);
        for _ in 0..100 {
            batch(&mut window, 1, 90, 100);
        }
        assert_eq!(window.size(1, 200), 100);
        assert_eq!((window.size(1, 50), window.size(60, 50)), (50, 50));
        assert_eq!(AdaptiveWindow::new(2).size(8, 64), 8);
    }
}
