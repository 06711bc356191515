//! Decides if a page of a scan, or an aggregate, is read in parts of the ring, and in which.
//!
//! How many rows lie on a stretch of the ring is learned from the pages before.

use helenus_policy::predict::{Pace, RING, SlowestPace, TableSize};
use helenus_policy::ring::Ring;
use helenus_policy::token::Partitioner;

use crate::exec::context::ExecContext;
use crate::exec::scan::token_splits::{
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
/// How long the sample takes at most, where the size of the table is known, in microseconds.
const SAMPLE_US: u32 = 100_000;
/// How far the rows on a stretch may be from what is expected, as a share of the page. At least the first
/// is left to the last piece; a page that may be off by more than the second is not cut at all.
const ERROR_MIN: f64 = 0.01;
const ERROR_MAX: f64 = 0.5;

/// A filtering scan that takes less than this is not cut, in microseconds.
const SHORT_US: u32 = 20_000;
/// A stretch is longer by this where nobody would have to wait for it, and where only scans would.
const STRETCH_ALONE: u32 = 4;
const STRETCH_AMONG_SCANS: u32 = 2;
const STRETCH_ANY_US: u32 = 1_000_000;
/// The first stretch of a statement of which a scan has timed out: the ring divided by this, and no more
/// than the second share of what is left.
const FIRST_AFTER_TIMEOUT: u64 = 1_024;
const FIRST_OF_LEFT: u64 = 16;
/// The first stretch of which only the pace of its table is known: the ring divided by this at most.
const FIRST_OF_TABLE: u64 = 128;

/// The ring, if a query may be read in parts at all.
fn ring_to_cut<'a>(cx: &'a ExecContext<'_>) -> Option<&'a Ring> {
    let may = cx.engine.shared.config.scheduling.in_parts();
    ring_of(cx).filter(|_| may)
}

/// The ring, if a query may be read over stretches of it.
fn ring_of<'a>(cx: &'a ExecContext<'_>) -> Option<&'a Ring> {
    let learned = cx.learned()?;
    let ring = cx.engine.snapshot.nodes().ring()?;
    let may = ring.partitioner() == Partitioner::Murmur3
        // The node has something to say about that.
        && !cx.query.consistency.is_serial()
        && !learned.suspension.is_in_force(cx.engine.now);
    options(cx.query)?;
    may.then_some(ring)
}

/// Cuts a page of which `wanted` rows are missing on `left`, if that is worth it and sure enough: where
/// one owner ends and the next begins, so that each part is read where it is kept and nothing is read
/// in vain; and further where that is too much at a time.
pub(in crate::exec) fn plan_page(
    cx: &ExecContext<'_>,
    wanted: Option<usize>,
    left: Option<Stretch>,
) -> Option<Cuts> {
    let learned = cx.learned()?;
    let ring = ring_to_cut(cx)?;
    let scheduling = &cx.engine.shared.config.scheduling;
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
    } else if cx.others_lately() || cx.scans_about() {
        tokens(learned.piece_rows(scheduling.piece_kib * 1024, scheduling.piece_us()))
    } else {
        // Twice as many as can be in flight: those that come back early make room.
        span / (2 * cx.scan_permits_idle()).max(1)
    };
    let tokens = cuts(ring, left.first(span), least, most);
    (tokens.len() > 1).then_some(Cuts {
        tokens,
        to_end,
        rows: span as f64 * density,
    })
}

/// How a filtering scan is read stretch by stretch.
pub(in crate::exec) struct StretchPlan {
    /// Tokens of the first one.
    pub tokens: u64,
    /// True if nobody else wants the nodes.
    pub alone: bool,
}

/// The first stretch of a page of a scan that filters; `None` if it is not to be read stretch by stretch.
pub(in crate::exec) fn plan_stretches(cx: &ExecContext<'_>, left: Stretch) -> Option<StretchPlan> {
    let scheduling = &cx.engine.shared.config.scheduling;
    if !scheduling.in_pieces() || scheduling.piece_us() == 0 || !cx.filters() {
        return None;
    }
    ring_of(cx)?;
    let learned = cx.learned()?;
    let table = cx.query.table.as_ref();
    let known = KnownPaces {
        own: learned.pace(),
        alike: learned.pace_alike(),
        size: cx.table_size(),
        table: table.map(|table| table.pace()).unwrap_or_default(),
        may_be_long: learned.may_be_long(cx.engine.now),
    };
    let alone = !cx.others_lately() && !cx.scans_about();
    let tokens = known.first_stretch(left.tokens(), stretch_us(cx, alone))?;
    Some(StretchPlan { tokens, alone })
}

/// Speeds of filtering scans, as far as they are known.
struct KnownPaces {
    own: Pace,
    /// Of statements alike.
    alike: Option<Pace>,
    size: Option<TableSize>,
    table: SlowestPace,
    /// Some of its values may take far longer than others.
    may_be_long: bool,
}

impl KnownPaces {
    /// Tokens of the first stretch of so many that are left; `None` if these are read whole.
    fn first_stretch(&self, left: u64, target_us: u32) -> Option<u64> {
        let own_us = self.own.us_of(left);
        // Neither by what a node has estimated nor by other statements of its table is a scan short: it
        // may read far more.
        if own_us.is_some_and(|us| us < SHORT_US) && !self.may_be_long {
            return None;
        }
        // A speed at which the table was scanned is better than an estimate, which may be far too little.
        let size = self.size.filter(|_| self.table.us_of(left).is_none());
        let pace = own_us.map(|_| self.own).or(self.alike);
        let mut tokens = match (pace, size) {
            (Some(pace), _) => pace.tokens_in(target_us),
            (None, Some(size)) => size.tokens_in(target_us / 2),
            (None, None) => {
                let tokens = self.table.tokens_in(target_us / 2);
                tokens.min(RING / FIRST_OF_TABLE)
            }
        };
        // A read that times out teaches no pace, so the known one says nothing of it.
        if self.may_be_long {
            let most = (RING / FIRST_AFTER_TIMEOUT).min(left / FIRST_OF_LEFT);
            tokens = tokens.min(most.max(1));
        }
        (tokens < left).then_some(tokens)
    }
}

/// Short scans of small stretches say little of the table: what they take is mostly not reading.
pub(in crate::exec) fn note_table_pace(cx: &ExecContext<'_>, tokens: u64, us: u32) {
    if let Some(table) = &cx.query.table
        && (tokens >= RING / 4 || us >= SHORT_US)
    {
        table.note_pace(tokens, us);
    }
}

/// How long a stretch is to take, in microseconds.
pub(in crate::exec) fn stretch_us(cx: &ExecContext<'_>, alone: bool) -> u32 {
    let larger = match (cx.others_lately(), alone) {
        (true, _) => 1,
        (false, true) => STRETCH_ALONE,
        (false, false) => STRETCH_AMONG_SCANS,
    };
    match cx.engine.shared.config.scheduling.piece_us() {
        // Since it has begun, the settings have changed to any length.
        0 => STRETCH_ANY_US,
        piece_us => piece_us * larger,
    }
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
pub(in crate::exec) fn plan_aggregate(
    cx: &ExecContext<'_>,
    left: Option<Stretch>,
) -> AggregatePlan {
    let plan = || {
        let learned = cx.learned()?;
        let ring = ring_to_cut(cx)?;
        let left = left?;
        if let Some(density) = learned.rows_per_token() {
            let parts = cut_aggregate(ring, left, density, &learned.pieces());
            let rows = left.tokens() as f64 * density;
            return (parts.len() > 1).then_some(AggregatePlan::Parts { parts, rows });
        }
        // A client that asks for less than a sample splits the ring itself.
        if left.tokens() < Stretch::WHOLE.tokens() / SAMPLE {
            return None;
        }
        let sample = left.tokens() / SAMPLE;
        let sample = left.first(
            cx.table_size()
                .map_or(sample, |size| size.sample_in(SAMPLE_US).min(sample)),
        );
        let rest = left.behind(sample.up_to)?;
        Some(AggregatePlan::Sample { sample, rest })
    };
    plan().unwrap_or(AggregatePlan::AsItIs)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use helenus_wire::{Opcode, Version, code};

    use super::*;
    use crate::config::Config;
    use crate::testing::bench::{Asking, BIGINT, Bench, TABLE, no_rows};

    const TARGET_US: u32 = 10_000;

    fn known() -> KnownPaces {
        KnownPaces {
            own: Pace::default(),
            alike: None,
            size: None,
            table: SlowestPace::default(),
            may_be_long: false,
        }
    }

    fn of_ring(us: u32) -> Pace {
        let mut pace = Pace::default();
        pace.note(RING, us);
        pace
    }

    #[test]
    fn a_scan_that_has_timed_out_is_cut_however_short_it_was_before() {
        for us in [500, 2_000, 15_000, 60_000] {
            let own = of_ring(us);
            let mut known = KnownPaces { own, ..known() };
            let before = known.first_stretch(RING, TARGET_US);
            assert_eq!(before.is_none(), us < SHORT_US, "{us}: {before:?}");
            known.may_be_long = true;
            let tokens = known.first_stretch(RING, TARGET_US).expect("it is cut");
            assert!(tokens <= RING / FIRST_AFTER_TIMEOUT, "{us}: {tokens}");
            let few = RING / 10_000;
            let tokens = known.first_stretch(few, TARGET_US).expect("it is cut");
            assert!(tokens <= few / FIRST_OF_LEFT, "{us}: {tokens}");
            assert_eq!(known.first_stretch(1, TARGET_US), None);
        }
    }

    #[test]
    fn a_table_that_is_short_for_others_makes_no_scan_short() {
        let mut known = known();
        known.table.note(RING, 2_000);
        let first = known.first_stretch(RING, TARGET_US);
        assert_eq!(first, Some(RING / FIRST_OF_TABLE));
        known.own = of_ring(2_000);
        assert_eq!(
            known.first_stretch(RING, TARGET_US),
            None,
            "its own says so"
        );
    }

    /// A client asks for a filter by this value, with a text of its own; whether the node is asked for a
    /// stretch of it first, and on which stream.
    fn begin_filter(bench: &mut Bench, value: u32) -> (bool, i16) {
        let text = format!("SELECT total FROM app.orders WHERE total = {value} ALLOW FILTERING");
        let asking = Asking {
            page_size: Some(100),
            ..Asking::default()
        };
        bench.ask(Opcode::Query, 3, &asking.query(Version::V5, &text));
        let (opcode, stream, body) = bench.at_node().remove(0);
        assert_eq!(opcode, Opcode::Query);
        (body.windows(6).any(|bytes| bytes == b"token("), stream)
    }

    /// The node answers at once, and finds nothing, until the client has its page.
    fn end_filter(bench: &mut Bench, stream: i16) {
        let nothing = no_rows(TABLE, &[("total", BIGINT)]);
        let mut asked = vec![stream];
        while let Some(stream) = asked.pop() {
            bench.now += Duration::from_micros(100);
            bench.say(Opcode::Result, stream, &nothing);
            asked.extend(bench.at_node().iter().map(|(_, stream, _)| *stream));
        }
        assert_eq!(bench.answer(), (Opcode::Result, nothing));
    }

    #[test]
    fn after_a_filter_has_timed_out_the_next_text_like_it_is_cut() {
        let mut bench = Bench::with(Config::default(), (Version::V5, Version::V5));
        let (is_cut, stream) = begin_filter(&mut bench, 1);
        assert!(is_cut, "nothing is known of it");
        end_filter(&mut bench, stream);
        let (is_cut, stream) = begin_filter(&mut bench, 2);
        assert!(!is_cut, "the one before was short");
        let fields = [0, 6, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        bench.say_error(stream, code::READ_TIMEOUT, "too late", &fields);
        assert_eq!(bench.error().0, code::READ_TIMEOUT);
        let (is_cut, stream) = begin_filter(&mut bench, 3);
        assert!(is_cut, "it may take as long");
        end_filter(&mut bench, stream);
    }
}
