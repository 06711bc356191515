//! Whether a page of a scan, or an aggregate, is read in parts of the ring, and in which.
//!
//! How many rows lie on a stretch of the ring is learned from the pages before.

use helenus_policy::ring::Ring;
use helenus_policy::token::Partitioner;

use crate::execution::surroundings::Surroundings;
use crate::execution::token_splits::{
    AggregatePlan, Cuts, Stretch, cut_aggregate, cuts, options, stretches_for,
};

/// A part of a page has at least `parallel_rows` divided by this.
const PARTS: usize = 8;
/// Parts of a page at most.
const PAGE_PARTS_MAX: u64 = 64;
/// Larger pages are read piece by piece, so that parts do not pile up.
const PAGE_ROWS_MAX: usize = 100_000;
/// The share of the ring that is read first when nothing is known of an aggregate's rows: 1 ÷ this.
const SAMPLE: u64 = 64;
/// How far the rows on a stretch may be from what is expected, as a share of the page. At least the first
/// is left to the last piece; a page that may be off by more than the second is not cut at all.
const ERROR_MIN: f64 = 0.01;
const ERROR_MAX: f64 = 0.5;

/// The ring, if a query may be read in parts at all.
fn ring_to_cut<'a>(around: &'a Surroundings<'_>) -> Option<&'a Ring> {
    let learned = around.learned()?;
    let ring = around.cx.snapshot.ring.as_ref()?;
    let may = around.cx.shared.config.scheduling.in_parts()
        && ring.partitioner() == Partitioner::Murmur3
        // The node has something to say about that.
        && !around.query.consistency.is_serial()
        && !learned.suspension.is_in_force(around.cx.now);
    options(around.query)?;
    may.then_some(ring)
}

/// Cuts a page of which `wanted` rows are missing on `left`, if that is worth it and sure enough: where
/// one owner ends and the next begins, so that each part is read where it is kept and nothing is read
/// in vain; and further where that is too much at a time.
pub(super) fn plan_page(
    around: &Surroundings<'_>,
    wanted: Option<usize>,
    left: Option<Stretch>,
) -> Option<Cuts> {
    let learned = around.learned()?;
    let ring = ring_to_cut(around)?;
    let scheduling = &around.cx.shared.config.scheduling;
    let rows_min = scheduling.parallel_rows;
    let wanted = wanted?;
    if scheduling.order().parallel() {
        return plan_as_published(ring, wanted, left?, learned.spread.rows_per_token()?);
    }
    if !(rows_min..=PAGE_ROWS_MAX).contains(&wanted) {
        return None;
    }
    let left = left?;
    let density = learned.spread.rows_per_token()?;
    // A partition that is a good part of a page makes parts either empty or too large.
    let error = learned
        .spread
        .error_of(wanted)
        .filter(|e| *e <= ERROR_MAX)?;
    let rows = wanted as f64 * (1.0 - error.max(ERROR_MIN));
    let span = (rows / density) as u64;
    let to_end = span >= left.tokens();
    let span = span.min(left.tokens());
    let tokens = |rows: usize| (rows as f64 / density) as u64;
    let least = tokens((rows_min / PARTS).max(1)).max(span / PAGE_PARTS_MAX);
    let most = if !scheduling.in_pieces() {
        u64::MAX
    } else if around.others_lately() || around.scans_about() {
        tokens(learned.piece_rows(scheduling.piece_kib * 1024, scheduling.piece_us()))
    } else {
        // Twice as many as can be in flight: those that come back early make room.
        span / (2 * around.scan_permits_idle()).max(1)
    };
    let tokens = cuts(ring, left.first(span), least, most);
    (tokens.len() > 1).then_some(Cuts {
        tokens,
        to_end,
        rows: span as f64 * density,
    })
}

/// The parts of a page as Fukuda et al. ask for them: all nodes at once that are predicted to hold the
/// rows between them, whatever the number of rows.
fn plan_as_published(ring: &Ring, wanted: usize, left: Stretch, density: f64) -> Option<Cuts> {
    if !(1..=PAGE_ROWS_MAX).contains(&wanted) {
        return None;
    }
    let tokens = stretches_for(ring, left, wanted as f64, density, PAGE_PARTS_MAX as usize);
    let end = *tokens.last()?;
    (tokens.len() > 1).then_some(Cuts {
        to_end: end == left.up_to,
        rows: end.wrapping_sub(left.above) as u64 as f64 * density,
        tokens,
    })
}

/// How an aggregate over a stretch is to be read.
pub(super) fn plan_aggregate(around: &Surroundings<'_>, left: Option<Stretch>) -> AggregatePlan {
    let plan = || {
        let learned = around.learned()?;
        let ring = ring_to_cut(around)?;
        let left = left?;
        if let Some(density) = learned.spread.rows_per_token() {
            let parts = cut_aggregate(ring, left, density, &learned.pieces());
            let rows = left.tokens() as f64 * density;
            return (parts.len() > 1).then_some(AggregatePlan::Parts { parts, rows });
        }
        // A client that asks for less than a sample splits the ring itself.
        if left.tokens() < Stretch::WHOLE.tokens() / SAMPLE {
            return None;
        }
        let sample = left.first(left.tokens() / SAMPLE);
        let rest = left.behind(sample.up_to)?;
        Some(AggregatePlan::Sample { sample, rest })
    };
    plan().unwrap_or(AggregatePlan::AsItIs)
}
