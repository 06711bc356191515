//! Where a page of a scan or an aggregate is cut, and what is asked of each part.
//!
//! How many rows lie on a stretch of the ring is learned from the pages before.

use helenus_cql::Op;
use helenus_policy::predict::Estimate;
use helenus_policy::ring::Ring;
use helenus_policy::token::{Partitioner, Token, murmur3_token};
use helenus_wire::{ExecuteView, Opcode, Options, PageStart, QueryView, Version, query_flags};

use crate::engine::{Engine, NodeState, RequestKey};
use crate::execution::paged_scan::integer;
use crate::request::Request;
use crate::statement::prepared::Statement;

/// A part of a page has at least `parallel_rows` divided by this.
const PARTS: usize = 8;
/// Parts of a page at most.
const PAGE_PARTS_MAX: u64 = 64;
/// How far the rows on a stretch may be from what is expected, as a share of the page. At least the first
/// is left to the last piece; a page that may be off by more than the second is not cut at all.
const ERROR_MIN: f64 = 0.01;
const ERROR_MAX: f64 = 0.5;
/// Larger pages are read piece by piece, so that parts do not pile up.
const PAGE_ROWS_MAX: usize = 100_000;
/// Rows per part of an aggregate, until that would make more than this number of parts.
const AGGREGATE_ROWS: f64 = 5_000.0;
const AGGREGATE_PARTS: f64 = 256.0;
/// Beyond that, parts grow up to this predicted work, in microseconds: well below the nodes' time-outs.
const AGGREGATE_PART_US: f64 = 2_000_000.0;
/// Most parts of an aggregate, whatever the number of nodes and tokens. Where owners have more stretches
/// than that, neighbouring ones share a part.
pub(crate) const AGGREGATE_PARTS_MAX: u64 = 1_024;
/// The share of the ring that is read first when nothing is known of an aggregate's rows: 1 ÷ this.
const SAMPLE: u64 = 64;

/// A stretch of the ring: above one token, up to another, which is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub above: i64,
    pub up_to: i64,
}

impl Stretch {
    pub(crate) const WHOLE: Stretch = Stretch {
        above: i64::MIN,
        up_to: i64::MAX,
    };

    /// `None` if it would be empty.
    pub(crate) fn new(above: i64, up_to: i64) -> Option<Stretch> {
        (above < up_to).then_some(Stretch { above, up_to })
    }

    /// How many tokens it has.
    pub(crate) fn tokens(self) -> u64 {
        self.up_to.wrapping_sub(self.above) as u64
    }

    /// Its first `tokens` tokens; it must have that many.
    pub(crate) fn first(self, tokens: u64) -> Stretch {
        Stretch {
            above: self.above,
            up_to: self.above.wrapping_add_unsigned(tokens),
        }
    }

    /// What lies behind a token of it.
    pub(crate) fn behind(self, token: i64) -> Option<Stretch> {
        Stretch::new(token, self.up_to)
    }

    /// `None` if it has only one token.
    pub(crate) fn halves(self) -> Option<[Stretch; 2]> {
        let first = self.first(self.tokens() / 2);
        let second = self.behind(first.up_to)?;
        (first.up_to > first.above).then_some([first, second])
    }
}

/// How a page is cut.
pub(crate) struct Cuts {
    /// The tokens up to which each part goes.
    pub tokens: Vec<i64>,
    /// Whether nothing that is asked for is behind the last.
    pub to_end: bool,
    /// Rows expected.
    pub rows: f64,
}

/// How an aggregate is read.
pub(crate) enum AggregatePlan {
    /// As it came.
    AsItIs,
    /// It is not known how many rows it goes over: a sample will tell.
    Sample {
        sample: Stretch,
        rest: Stretch,
    },
    Parts {
        parts: Vec<Stretch>,
        rows: f64,
    },
}

/// The statement's own bounds on the ring.
pub(crate) fn bounds(
    statement: &Statement,
    options: &Options<'_>,
    names: &[Box<str>],
) -> Option<Stretch> {
    let tokens = &statement.facts.select.as_deref()?.tokens;
    let Stretch {
        mut above,
        mut up_to,
    } = Stretch::WHOLE;
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
    Stretch::new(above, up_to)
}

/// A request's options for its parts, and whether metadata must be left out afterwards.
pub(crate) fn options(request: &Request) -> Option<(Options<'_>, bool)> {
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
            // Who may know the statement with other columns gets them, as from `Engine::transmit`.
            let skips = view.options.flags & query_flags::SKIP_METADATA != 0
                && !(request.version < Version::V5 && prepared.may_have_changed());
            let mut options = view.options;
            options.flags &= !query_flags::SKIP_METADATA;
            Some((options, skips))
        }
        _ => None,
    }
}

impl Engine {
    /// The ring, if a request may be read in parts at all.
    fn ring_to_cut(&self, request: &Request) -> Option<&Ring> {
        let learned = &request.statement.as_ref()?.learned;
        let ring = self.cx.snapshot.ring.as_ref()?;
        let may = self.cx.shared.config.scheduling.in_parts()
            && ring.partitioner() == Partitioner::Murmur3
            // The node has something to say about that.
            && !request.consistency.is_serial()
            && !learned.is_suspended(self.cx.now);
        options(request)?;
        may.then_some(ring)
    }

    /// Cuts a page, if that is worth it and sure enough: where one owner ends and the next begins, so
    /// that each part is read where it is kept and nothing is read in vain; and further where that is
    /// too much at a time.
    pub(crate) fn plan_page(&self, key: RequestKey) -> Option<Cuts> {
        let request = self.requests.get(key)?;
        let scan = request.scan.as_ref()?;
        let learned = &request.statement.as_ref()?.learned;
        let ring = self.ring_to_cut(request)?;
        let scheduling = &self.cx.shared.config.scheduling;
        let rows_min = scheduling.parallel_rows;
        let wanted = scan.wanted()?;
        if !(rows_min..=PAGE_ROWS_MAX).contains(&wanted) {
            return None;
        }
        let left = scan.left()?;
        let density = learned.rows_per_token()?;
        // A partition that is a good part of a page makes parts either empty or too large.
        let error = learned.error_of(wanted).filter(|e| *e <= ERROR_MAX)?;
        let rows = wanted as f64 * (1.0 - error.max(ERROR_MIN));
        let span = (rows / density) as u64;
        let to_end = span >= left.tokens();
        let span = span.min(left.tokens());
        let tokens = |rows: usize| (rows as f64 / density) as u64;
        let least = tokens((rows_min / PARTS).max(1)).max(span / PAGE_PARTS_MAX);
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
        let tokens = cuts(ring, left.first(span), least, most);
        (tokens.len() > 1).then_some(Cuts {
            tokens,
            to_end,
            rows: span as f64 * density,
        })
    }

    /// How an aggregate is to be read.
    pub(crate) fn plan_aggregate(&self, key: RequestKey) -> AggregatePlan {
        let plan = || {
            let request = self.requests.get(key)?;
            let scan = request.scan.as_ref()?;
            let learned = &request.statement.as_ref()?.learned;
            self.ring_to_cut(request)?;
            let left = scan.left()?;
            if let Some(density) = learned.rows_per_token() {
                let parts = self.cut_aggregate(left, density, &learned.pieces())?;
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

    /// Cuts a stretch that an aggregate goes over.
    pub(crate) fn cut_aggregate(
        &self,
        stretch: Stretch,
        rows_per_token: f64,
        known: &Estimate,
    ) -> Option<Vec<Stretch>> {
        let ring = self.cx.snapshot.ring.as_ref()?;
        let rows = stretch.tokens() as f64 * rows_per_token;
        let rows_in_time = match known.samples() {
            0 => f64::INFINITY,
            _ => AGGREGATE_PART_US / f64::from(known.row_us()),
        };
        let part_rows = (rows / AGGREGATE_PARTS)
            .min(rows_in_time)
            .max(AGGREGATE_ROWS);
        let most = (part_rows / rows_per_token) as u64;
        if most >= stretch.tokens() {
            return Some(vec![stretch]);
        }
        let bound = AGGREGATE_PARTS_MAX / 2 - 1;
        let most = most.max(stretch.tokens() / bound);
        let least = (most / 2).max(2 * (stretch.tokens() / bound));
        let mut above = stretch.above;
        let tokens = cuts(ring, stretch, least, most);
        let stretches = tokens.into_iter().filter_map(|up_to| {
            let part = Stretch::new(above, up_to);
            above = up_to;
            part
        });
        Some(stretches.collect())
    }
}

/// The token of the last row before a paging state's page.
pub(crate) fn token_of(state: &[u8]) -> Option<i64> {
    let start = PageStart::parse(state).ok()?;
    (!start.key.is_empty()).then(|| murmur3_token(start.key))
}

/// Cuts a stretch of the ring: the tokens up to which its parts go, the last one included. Stretches
/// of one owner that are smaller than half of `least` go together with their neighbours, those larger
/// than `most` are cut into equal parts. So the number of parts is at most
/// 2 · length ÷ `least` + length ÷ `most` + 1.
fn cuts(ring: &Ring, stretch: Stretch, least: u64, most: u64) -> Vec<i64> {
    let (least, most) = (least.max(1), most.max(least).max(1));
    let last = stretch.up_to;
    let mut tokens = Vec::new();
    let mut above = stretch.above;
    let mut slot = ring.slot(&Token::Murmur3(above.saturating_add(1)));
    loop {
        let mut owned = last;
        while let Some(Token::Murmur3(end)) = ring.end_token(slot)
            && end < last
            && owned == last
        {
            slot += 1;
            let long_enough = |part: Stretch| part.tokens() >= least.div_ceil(2);
            if Stretch::new(above, end).is_some_and(long_enough) {
                owned = end;
            }
        }
        let tokens_owned = owned.wrapping_sub(above) as u64;
        let parts = tokens_owned.div_ceil(most).max(1);
        let step = tokens_owned / parts;
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
        let whole = Stretch::WHOLE;
        let part = |above, up_to| Stretch { above, up_to };
        assert_eq!(
            cuts(&ring, whole, 1, u64::MAX),
            [-1_000, 0, 500, 2_000, i64::MAX]
        );
        assert_eq!(cuts(&ring, part(-500, 1_000), 1, 5_000), [0, 500, 1_000]);
        // Small neighbours together, large ones in equal parts.
        assert_eq!(cuts(&ring, part(-500, 1_000), 2_000, 5_000), [500, 1_000]);
        assert_eq!(
            cuts(&ring, part(-600, 1_000), 1, 300),
            [-300, 0, 250, 500, 750, 1_000]
        );
        assert_eq!(cuts(&ring, part(100, 200), 1, 1_000), [200]);
        let fine = cuts(&ring, whole, 1, 1 << 60);
        assert_eq!(fine.len(), 2 * 8 + 3);
        assert!(fine.is_sorted(), "{fine:?}");
    }

    #[test]
    fn the_number_of_parts_has_a_bound_whatever_the_number_of_owners() {
        // 300 nodes of 256 tokens each, spread as evenly as a multiplication does.
        let tokens: Vec<i64> = (0..300 * 256_i64)
            .map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64))
            .collect();
        let nodes: Vec<&[i64]> = tokens.chunks(256).collect();
        let ring = ring(&nodes);
        let bound = AGGREGATE_PARTS_MAX / 2 - 1;
        let step = Stretch::WHOLE.tokens() / bound;
        for most in [step, 4 * step, u64::MAX] {
            let parts = cuts(&ring, Stretch::WHOLE, 2 * step, most).len() as u64;
            assert!(parts <= AGGREGATE_PARTS_MAX, "{parts} parts");
        }
    }

    #[test]
    fn a_stretch_is_halved_until_one_token_is_left() {
        let mut stretch = Stretch::WHOLE;
        let mut halvings = 0;
        while let Some([first, second]) = stretch.halves() {
            assert_eq!(first.tokens() + second.tokens(), stretch.tokens());
            assert_eq!((first.above, second.up_to), (stretch.above, stretch.up_to));
            assert_eq!(first.up_to, second.above);
            stretch = second;
            halvings += 1;
        }
        assert_eq!((halvings, stretch.tokens()), (64, 1));
    }
}
