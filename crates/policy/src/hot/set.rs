//! The partitions whose reads are spread over all replicas.
//!
//! Formula: a partition is hot if it has had, for certain, at least a [`BEGINS`]th of the work that is a
//! node's share, which is all work ÷ nodes; it stays hot until it has less than an [`ENDS`]th.
//!
//! Why: reads of a key normally stay on one replica, so that its pages are in one cache and not in several.
//! For few keys that are read all the time this saves nothing, and their reads would be seen there as a
//! queue first. Each worker sees only its own part of that queue, so what many workers and proxies send
//! there together would be noticed late.

use super::{Partition, Sketch};

/// Share of a node's work from which on a partition is hot, and below which it no longer is.
const BEGINS: f64 = 0.25;
const ENDS: f64 = 0.125;
/// Hot partitions at most: those with the most work.
const HOT_MAX: usize = 64;

/// The tokens of hot partitions, whatever their table and role.
#[derive(Clone, Debug, Default)]
pub struct HotSet {
    /// A bit for each of them, by the low bits of its token: most others are told apart by it.
    bits: u64,
    tokens: Vec<i64>,
    /// With their work; kept for its memory.
    scratch: Vec<(i64, f64)>,
}

impl HotSet {
    /// True if a partition with this token is hot.
    #[inline]
    pub fn contains(&self, token: i64) -> bool {
        self.bits >> (token & 63) & 1 == 1 && self.tokens.contains(&token)
    }

    /// At most 64.
    pub fn tokens(&self) -> &[i64] {
        &self.tokens
    }

    /// Nothing is hot.
    pub fn clear(&mut self) {
        self.bits = 0;
        self.tokens.clear();
    }

    /// Looks again. `nodes`: how many share the work.
    pub fn renew<T: Clone>(&mut self, sketch: &Sketch<T>, nodes: usize) {
        let mut found = std::mem::take(&mut self.scratch);
        found.clear();
        // A partition may be there several times, for several roles; each of them is a part of it.
        let of_token = sketch
            .shares()
            .map(|(Partition { token, .. }, share)| (token, share));
        found.extend(of_token);
        found.sort_unstable_by_key(|(token, _)| *token);
        found.dedup_by(|later, first| {
            let is_same = later.0 == first.0;
            if is_same {
                first.1 += later.1;
            }
            is_same
        });
        let of_node = 1.0 / nodes.max(1) as f64;
        found.retain(|(token, share)| {
            let part = if self.contains(*token) { ENDS } else { BEGINS };
            *share >= part * of_node
        });
        found.sort_unstable_by(|a, b| b.1.total_cmp(&a.1));
        found.truncate(HOT_MAX);
        self.clear();
        self.tokens.extend(found.iter().map(|(token, _)| *token));
        let bit = |token: &i64| 1 << (token & 63);
        self.bits = self.tokens.iter().fold(0, |bits, token| bits | bit(token));
        self.scratch = found;
    }
}
