//! What a statement's answers have been like, learned from those that came.

use std::sync::atomic::{AtomicU32, Ordering};

/// Moving averages, shared by all workers. Racing updates may lose one of two observations, which
/// an average does not mind.
#[derive(Debug, Default)]
pub struct Learned {
    answer_bytes: AtomicU32,
}

impl Learned {
    /// Notes an answer of this size.
    pub fn note_answer(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let mean = self.answer_bytes();
        // A steady average is only read, so that workers do not take the line from each other.
        if mean.abs_diff(bytes) > mean / 4 {
            self.answer_bytes
                .store(step(mean, bytes), Ordering::Relaxed);
        }
    }

    /// Bytes of an answer, on average; 0 before the first.
    pub fn answer_bytes(&self) -> u32 {
        self.answer_bytes.load(Ordering::Relaxed)
    }
}

/// An eighth of the way from the mean to what was seen; all of it for the first.
fn step(mean: u32, seen: u32) -> u32 {
    match mean {
        0 => seen,
        _ if seen > mean => mean + (seen - mean).div_ceil(8),
        _ => mean - (mean - seen).div_ceil(8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_counts_whole_and_later_ones_move_the_mean() {
        let learned = Learned::default();
        learned.note_answer(1_000);
        assert_eq!(learned.answer_bytes(), 1_000);
        learned.note_answer(1_200);
        assert_eq!(learned.answer_bytes(), 1_000, "near enough");
        learned.note_answer(9_000);
        assert_eq!(learned.answer_bytes(), 2_000);
        for _ in 0..100 {
            learned.note_answer(10);
        }
        assert!(learned.answer_bytes() <= 12, "{}", learned.answer_bytes());
        learned.note_answer(usize::MAX);
        assert!(learned.answer_bytes() > 1 << 28);
    }
}
