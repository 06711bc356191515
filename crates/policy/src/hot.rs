//! Finds the partitions that are asked for most, within a fixed number of bytes.
//!
//! Formula: a [`Sketch`] has a fixed number of places. A request to a partition that has one adds its
//! predicted work to it. A request to any other partition takes the place with the least work, and begins
//! with what was there: as much as it may have had before without being seen. So, for a sketch of `k` places
//! and `N` units of work in all:
//!
//! ```text
//! work − error ≤ true work ≤ work        error ≤ N ÷ k
//! ```
//!
//! and a partition with more than `N ÷ k` always has a place. Work decays exponentially: what was asked for
//! one half-life ago counts half. Instead of shrinking all that is there, what is added grows, and all is
//! scaled down now and then; the bounds above hold for decayed work, too.
//!
//! Of the requests, one in [`SAMPLED_ONE_OF`] is looked at ([`Sampler`]) and counts for so many. Sketches of
//! several workers or proxies are merged as [`Summary`]: places are added, and whoever has none in a sketch
//! may have had there what its least place has.
//!
//! [`HotSet`] says which partitions alone are a notable part of a node's work; reads of those need not stay
//! on the replica that has them in its caches.
//!
//! Evidence: `hot/tests.rs` compares with exact counters. `cargo run -p helenus-benches` counts instructions.
//!
//! Limits: the bounds are those of the sample. A partition that makes up a share `p` of `n` looked at is
//! off by about `√(p (1 − p) ÷ n)`. Reads, writes and bytes of a partition are counted since it got its
//! place, so they are never too many but may be too few.
//!
//! Source: Space-Saving, A. Metwally, D. Agrawal, A. El Abbadi (ICDT 2005); decay, G. Cormode et al.,
//! "Forward decay" (ICDE 2009); merging, P. Agarwal et al., "Mergeable summaries" (PODS 2012).

mod index;
mod sample;
mod set;
mod sketch;
mod summary;

#[cfg(test)]
mod tests;

pub use sample::{SAMPLED_ONE_OF, Sampler};
pub use set::HotSet;
pub use sketch::Sketch;
pub use summary::{Entry, Rates, Summary, Use};

/// A partition of a table, as one role asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// Numbers of table and role, as the caller counts them.
    pub table: u32,
    pub role: u32,
    /// The Murmur3 token of the partition's key.
    pub token: i64,
}
