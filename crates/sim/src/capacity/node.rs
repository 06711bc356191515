//! A node whose requests all progress alike, together as fast as a curve says.

use super::curve::Curve;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A number for a request.
pub(super) type RequestId = usize;

#[derive(Debug, Default)]
pub(super) struct Node {
    /// Work that each request present has got since the run began, had it been there; the next to end is
    /// the one that needs the least. Positive floats are in the order of their bits.
    progress: f64,
    ends: BinaryHeap<Reverse<(u64, RequestId)>>,
    counted_us: u64,
    /// Of the plan for the next end; earlier ones are void.
    generation: u64,
    /// Requests that came since the count was taken last.
    came: u64,
}

/// When the next request ends, if nothing comes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) in_us: u64,
    pub(super) generation: u64,
}

impl Node {
    /// Per microsecond, for each request present.
    fn speed(&self, curve: &Curve) -> f64 {
        let present = self.ends.len() as f64;
        curve.rate(present) / present / 1e6
    }

    fn count(&mut self, now_us: u64, curve: &Curve) {
        if !self.ends.is_empty() {
            self.progress += (now_us - self.counted_us) as f64 * self.speed(curve);
        }
        self.counted_us = now_us;
    }

    /// `work`: 1 on average.
    pub(super) fn on_request(&mut self, now_us: u64, id: RequestId, work: f64, curve: &Curve) {
        self.count(now_us, curve);
        let end = self.progress + work;
        self.ends.push(Reverse((end.to_bits(), id)));
        self.came += 1;
    }

    /// A request that has ended, if the plan is still in force.
    pub(super) fn on_end(
        &mut self,
        now_us: u64,
        generation: u64,
        curve: &Curve,
    ) -> Option<RequestId> {
        if generation != self.generation {
            return None;
        }
        self.count(now_us, curve);
        self.ends.pop().map(|Reverse((_, id))| id)
    }

    /// To be called after each change.
    pub(super) fn plan(&mut self, curve: &Curve) -> Option<Plan> {
        self.generation += 1;
        let Reverse((end, _)) = self.ends.peek()?;
        let left = (f64::from_bits(*end) - self.progress).max(0.0);
        Some(Plan {
            in_us: (left / self.speed(curve)).round() as u64,
            generation: self.generation,
        })
    }

    pub(super) fn present(&self) -> usize {
        self.ends.len()
    }

    /// Requests that came since this was asked last.
    pub(super) fn take_came(&mut self) -> u64 {
        std::mem::take(&mut self.came)
    }
}

#[cfg(test)]
mod tests {
    use super::super::curve::Point;
    use super::*;

    /// 1,000 per second alone, 1,600 of two.
    fn curve() -> Curve {
        let point = |clients, ops_per_second| Point {
            clients,
            ops_per_second,
            latency_us_p50: 1.0,
            latency_us_p99: 1.0,
            weight: 1.0,
        };
        Curve::of_endpoint(&[point(1.0, 1_000.0), point(2.0, 1_600.0)], 1).unwrap()
    }

    #[test]
    fn requests_share_what_the_node_completes() {
        let curve = curve();
        let mut node = Node::default();
        node.on_request(0, 7, 1.0, &curve);
        let alone = node.plan(&curve).unwrap();
        assert_eq!(alone.in_us, 1_000);
        // Half of the first is done when the second comes; then each gets 800 per second.
        node.on_request(500, 8, 1.0, &curve);
        let first = node.plan(&curve).unwrap();
        assert_eq!(first.in_us, 625);
        assert_eq!(node.on_end(1_000, alone.generation, &curve), None, "void");
        assert_eq!(node.on_end(1_125, first.generation, &curve), Some(7));
        // Half of the second is left, alone.
        let second = node.plan(&curve).unwrap();
        assert_eq!(second.in_us, 500);
        assert_eq!(node.on_end(1_625, second.generation, &curve), Some(8));
        assert_eq!(node.plan(&curve), None);
        assert_eq!(
            (node.present(), node.take_came(), node.take_came()),
            (0, 2, 0)
        );
    }
}
