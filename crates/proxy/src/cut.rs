//! Where a page of a scan is cut, and what is asked of each part.
//!
//! How many rows lie on a stretch of the ring is learned from the pages before.

use helenus_cql::Op;
use helenus_policy::ring::Ring;
use helenus_policy::token::{Partitioner, Token, murmur3_token};
use helenus_wire::{ExecuteView, Opcode, Options, PageStart, QueryView, query_flags};

use crate::prepared::Statement;
use crate::request::Request;
use crate::scan::integer;
use crate::worker::{Key, NodeState, State};

/// A part has at least `parallel_rows` divided by this.
const PARTS: usize = 8;
const PARTS_MAX: u64 = 64;
/// How far the rows on the ring may be from what is expected, least and most, as part of the page: so
/// much of it is left to the last piece.
const ERROR_MIN: f64 = 0.01;
const ERROR_MAX: f64 = 0.5;
/// Rows that one part counts, and how many parts a count has at most.
const COUNTED_ROWS: f64 = 5_000.0;
const COUNTS_MAX: u64 = 256;
/// Larger pages are read piece by piece, so that parts do not pile up.
const PAGE_ROWS_MAX: usize = 100_000;

/// How a page is cut.
pub struct Cuts {
    /// The tokens up to which each part goes.
    pub tokens: Vec<i64>,
    /// Whether nothing that is asked for is behind the last.
    pub to_end: bool,
    /// Rows expected.
    pub rows: f64,
}

/// The statement's own bounds on the ring: above the first, up to the second.
pub fn bounds(
    statement: &Statement,
    options: &Options<'_>,
    names: &[Box<str>],
) -> Option<(i64, i64)> {
    let tokens = &statement.facts.select.as_deref()?.tokens;
    let (mut above, mut up_to) = (i64::MIN, i64::MAX);
    for relation in tokens {
        let value = integer(&relation.term, &options.values, names, statement)?;
        match relation.op {
            Op::Greater => above = value,
            Op::GreaterEqual => above = value.checked_sub(1)?,
            Op::LessEqual => up_to = value,
            Op::Less => up_to = value.checked_sub(1)?,
            _ => return None,
        }
    }
    (above < up_to).then_some((above, up_to))
}

/// A request's options for its parts, and whether metadata must be left out afterwards.
pub fn options(request: &Request) -> Option<(Options<'_>, bool)> {
    match request.opcode {
        Opcode::Query => {
            let view = QueryView::parse(&request.body, request.version).ok()?;
            Some((view.options, false))
        }
        Opcode::Execute => {
            let view = ExecuteView::parse(&request.body, request.version).ok()?;
            let prepared = request.prepared.as_ref()?;
            let known = prepared.result_metadata_id.as_deref();
            if view.result_metadata_id.is_some() && view.result_metadata_id != known {
                return None;
            }
            let skips = view.options.flags & query_flags::SKIP_METADATA != 0;
            let mut options = view.options;
            options.flags &= !query_flags::SKIP_METADATA;
            Some((options, skips))
        }
        _ => None,
    }
}

impl State {
    /// Cuts a page or a count, if that is worth it: where one owner ends and the next begins, so that
    /// each part is read where it is kept and nothing is read in vain; and further where that is too
    /// much at a time.
    pub fn plan_fan(&self, key: Key) -> Option<Cuts> {
        let request = self.requests.get(key.index as usize)?;
        let scan = request.scan.as_ref()?;
        let learned = &request.statement.as_ref()?.learned;
        let ring = self.snapshot.ring.as_ref()?;
        let scheduling = &self.shared.config.scheduling;
        let rows_min = scheduling.parallel_rows;
        if !scheduling.in_parts()
            || ring.partitioner() != Partitioner::Murmur3
            || learned.not_in_parts()
        {
            return None;
        }
        options(request)?;
        let (begin, end) = scan.ends().filter(|(begin, end)| begin < end)?;
        let left = beyond(end, begin);
        if scan.is_folded() {
            let density = learned.rows_per_token();
            let most = density.map_or(left / PARTS_MAX, |d| (COUNTED_ROWS / d) as u64);
            let most = most.max(left / COUNTS_MAX).max(1);
            let tokens = cuts(ring, (begin, end), most / 8, most);
            return (tokens.len() > 1).then_some(Cuts {
                tokens,
                to_end: true,
                rows: density.map_or(0.0, |d| left as f64 * d),
            });
        }
        let wanted = scan.wanted()?;
        if !(rows_min..=PAGE_ROWS_MAX).contains(&wanted) {
            return None;
        }
        let density = learned.rows_per_token()?;
        let error = learned.error_of(wanted).clamp(ERROR_MIN, ERROR_MAX);
        let rows = wanted as f64 * (1.0 - error);
        let span = (rows / density) as u64;
        let to_end = span >= left;
        let span = span.min(left);
        let last = begin.wrapping_add_unsigned(span);
        let tokens = |rows: usize| (rows as f64 / density) as u64;
        let least = tokens((rows_min / PARTS).max(1)).max(span / PARTS_MAX);
        let most = if !scheduling.in_pieces() {
            u64::MAX
        } else if self.others_lately() || self.scans_about() {
            tokens(learned.rows_of(scheduling.piece_kib * 1024))
        } else {
            // Twice as many as can be in flight: those that come back early make room.
            let slots = |node: &NodeState| u64::from(node.schedule.settings().scan_slots_idle);
            let at_once: u64 = self.nodes.iter().map(slots).sum();
            span / (2 * at_once).max(1)
        };
        let tokens = cuts(ring, (begin, last), least, most);
        (tokens.len() > 1).then_some(Cuts {
            tokens,
            to_end,
            rows: span as f64 * density,
        })
    }
}

/// The token of the last row before a paging state's page.
pub fn token_of(state: &[u8]) -> Option<i64> {
    let start = PageStart::parse(state).ok()?;
    (!start.key.is_empty()).then(|| murmur3_token(start.key))
}

/// Tokens from one to another.
fn beyond(token: i64, above: i64) -> u64 {
    token.wrapping_sub(above) as u64
}

/// Cuts a stretch of the ring: the tokens up to which its parts go, the last one included. Stretches
/// of one owner that are smaller than half of `least` go together with their neighbours, those larger
/// than `most` are cut into equal parts.
fn cuts(ring: &Ring, (begin, last): (i64, i64), least: u64, most: u64) -> Vec<i64> {
    let (least, most) = (least.max(1), most.max(least).max(1));
    let mut tokens = Vec::new();
    let mut above = begin;
    let mut slot = ring.slot(&Token::Murmur3(begin.saturating_add(1)));
    loop {
        let mut owned = last;
        while let Some(Token::Murmur3(end)) = ring.end_token(slot)
            && end < last
            && owned == last
        {
            slot += 1;
            if end > above && beyond(end, above) >= least.div_ceil(2) {
                owned = end;
            }
        }
        let parts = beyond(owned, above).div_ceil(most).max(1);
        let step = beyond(owned, above) / parts;
        for _ in 1..parts {
            above = above.wrapping_add_unsigned(step);
            tokens.push(above);
        }
        above = owned;
        tokens.push(owned);
        if owned == last {
            return tokens;
        }
    }
}

#[cfg(test)]
mod tests {
    use helenus_policy::ring::NodeSpec;

    use super::*;

    fn ring(tokens: &[&[i64]]) -> Ring {
        let nodes: Vec<NodeSpec> = tokens
            .iter()
            .map(|tokens| NodeSpec {
                dc: "dc1".to_owned(),
                rack: "rack1".to_owned(),
                tokens: tokens.iter().map(|t| Token::Murmur3(*t)).collect(),
            })
            .collect();
        Ring::new(Partitioner::Murmur3, &nodes)
    }

    #[test]
    fn parts_end_where_owners_do() {
        let ring = ring(&[&[-1_000, 500], &[0, 2_000]]);
        let whole = (i64::MIN, i64::MAX);
        assert_eq!(
            cuts(&ring, whole, 1, u64::MAX),
            [-1_000, 0, 500, 2_000, i64::MAX]
        );
        assert_eq!(cuts(&ring, (-500, 1_000), 1, 5_000), [0, 500, 1_000]);
        // Small neighbours together, large ones in equal parts.
        assert_eq!(cuts(&ring, (-500, 1_000), 2_000, 5_000), [500, 1_000]);
        assert_eq!(
            cuts(&ring, (-600, 1_000), 1, 300),
            [-300, 0, 250, 500, 750, 1_000]
        );
        assert_eq!(cuts(&ring, (100, 200), 1, 1_000), [200]);
        let fine = cuts(&ring, whole, 1, 1 << 60);
        assert_eq!(fine.len(), 2 * 8 + 3);
        assert!(fine.is_sorted(), "{fine:?}");
    }
}
