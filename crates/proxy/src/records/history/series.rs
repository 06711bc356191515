//! Steps of one length, the last of them: bounded in number and in bytes.

use std::collections::VecDeque;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Milliseconds that a step is meant to last.
    pub step_ms: u64,
    pub steps_max: usize,
    pub bytes_max: usize,
}

/// Ten minutes.
pub(crate) const FINE: Bounds = Bounds {
    step_ms: 1_000,
    steps_max: 600,
    bytes_max: 2 << 20,
};
/// An hour.
pub(crate) const COARSE: Bounds = Bounds {
    step_ms: 10_000,
    steps_max: 360,
    bytes_max: 6 << 20,
};
/// A step as it is kept.
#[derive(Debug)]
pub(super) struct Kept {
    /// Its end, in milliseconds since recording began.
    pub end_ms: u64,
    pub lasted_ms: u64,
    /// Packed: what has happened in it, and how things stood.
    pub counted: Box<[u8]>,
    pub gauges: Box<[u8]>,
    /// Packed: what nodes and tables got. Empty where that is not kept.
    pub detail: Box<[u8]>,
}

impl Kept {
    fn byte_len(&self) -> usize {
        size_of::<Kept>() + self.counted.len() + self.gauges.len() + self.detail.len()
    }
}

#[derive(Debug)]
pub(super) struct Series {
    bounds: Bounds,
    steps: VecDeque<Kept>,
    /// The number of the next step.
    next: u64,
    bytes: usize,
}

impl Series {
    pub(super) fn new(bounds: Bounds) -> Series {
        Series {
            bounds,
            steps: VecDeque::new(),
            next: 0,
            bytes: 0,
        }
    }

    /// The oldest make room.
    pub(super) fn push(&mut self, step: Kept) {
        self.bytes += step.byte_len();
        self.steps.push_back(step);
        self.next += 1;
        while self.steps.len() > self.bounds.steps_max || self.bytes > self.bounds.bytes_max {
            let Some(oldest) = self.steps.pop_front() else {
                break;
            };
            self.bytes -= oldest.byte_len();
        }
    }

    /// Those from a number on, with the number of each, oldest first. All, if there has never been such a number:
    /// it is from another run of the proxy.
    pub(super) fn from(&self, number: u64) -> impl Iterator<Item = (u64, &Kept)> {
        let first = self.next - self.steps.len() as u64;
        let number = if number > self.next { 0 } else { number };
        let skipped = number.saturating_sub(first) as usize;
        let numbers = first + skipped as u64..;
        numbers.zip(self.steps.iter().skip(skipped))
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    #[cfg(test)]
    pub(super) fn byte_len(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(end_ms: u64, bytes: usize) -> Kept {
        Kept {
            end_ms,
            lasted_ms: 1_000,
            counted: vec![0; bytes].into(),
            gauges: Box::default(),
            detail: Box::default(),
        }
    }

    fn kept(series: &Series, from: u64) -> Vec<(u64, u64)> {
        let steps = series.from(from);
        steps.map(|(number, step)| (number, step.end_ms)).collect()
    }

    #[test]
    fn the_oldest_step_makes_room_and_numbers_go_on() {
        let mut series = Series::new(Bounds {
            step_ms: 1_000,
            steps_max: 3,
            bytes_max: 1 << 20,
        });
        assert_eq!(kept(&series, 0), []);
        for at in 1..=5 {
            series.push(step(at * 1_000, 10));
        }
        assert_eq!(kept(&series, 0), [(2, 3_000), (3, 4_000), (4, 5_000)]);
        assert_eq!(kept(&series, 4), [(4, 5_000)]);
        assert_eq!(kept(&series, 5), []);
        // A number that another run of the proxy has counted.
        assert_eq!(kept(&series, 6).len(), 3);
        assert_eq!(series.next(), 5);
    }

    #[test]
    fn large_steps_are_fewer_and_bytes_are_bounded() {
        let each = 1_000 + size_of::<Kept>();
        let bytes_max = 4 * each;
        let mut series = Series::new(Bounds {
            step_ms: 1_000,
            steps_max: 100,
            bytes_max,
        });
        for at in 1..=50 {
            series.push(step(at, 1_000));
            assert!(series.byte_len() <= bytes_max);
        }
        assert_eq!(kept(&series, 0).len(), 4);
        // One that is larger than everything may be: nothing is kept, and nothing is wrong afterwards.
        series.push(step(51, bytes_max));
        assert_eq!((kept(&series, 0), series.byte_len()), (vec![], 0));
        series.push(step(52, 10));
        assert_eq!(kept(&series, 0), [(51, 52)]);
    }
}
