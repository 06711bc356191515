//! The latest of what has happened, bounded in bytes.

use std::collections::VecDeque;

/// The latest; the oldest make way.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    kept: VecDeque<(T, usize)>,
    bytes: usize,
    bytes_max: usize,
}

impl<T> Ring<T> {
    pub(crate) fn new(bytes_max: usize) -> Ring<T> {
        Ring {
            kept: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Keeps one that takes so many bytes.
    pub(crate) fn push(&mut self, item: T, bytes: usize) {
        if bytes > self.bytes_max {
            return;
        }
        while self.bytes + bytes > self.bytes_max {
            let Some((_, freed)) = self.kept.pop_front() else {
                break;
            };
            self.bytes -= freed;
        }
        self.bytes += bytes;
        self.kept.push_back((item, bytes));
    }

    /// From the oldest to the latest.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.kept.iter().map(|(item, _)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_kept_within_the_bound() {
        let mut ring = Ring::new(100);
        for n in 0..1_000 {
            ring.push(n, 10 + n % 7);
            let bytes: usize = ring.iter().map(|n| 10 + n % 7).sum();
            assert!(bytes <= 100 && bytes == ring.bytes, "{bytes}");
            assert_eq!(ring.iter().next_back(), Some(&n));
        }
        ring.push(0, 101);
        assert_eq!(ring.iter().next_back(), Some(&999), "too large to keep");
    }
}
