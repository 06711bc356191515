//! Stretches of the ring, and where they are cut.
//!
//! How many rows lie on a stretch of the ring is learned from the pages before.

use helenus_cql::Op;
use helenus_policy::predict::Estimate;
use helenus_policy::ring::Ring;
use helenus_policy::token::{Token, murmur3_token};
use helenus_wire::{ExecuteView, Opcode, Options, PageStart, QueryView, Version, query_flags};

use crate::pipeline::query::Query;
use crate::rewrite::values::token;
use crate::statement::prepared::Statement;

/// Rows per part of an aggregate, until that would make more than this number of parts.
const AGGREGATE_ROWS: f64 = 5_000.0;
const AGGREGATE_PARTS: f64 = 256.0;
/// Beyond that, parts grow up to this predicted work, in microseconds: well below the nodes' time-outs.
const AGGREGATE_PART_US: f64 = 2_000_000.0;
/// Most parts of an aggregate, whatever the number of nodes and tokens. Where owners have more stretches
/// than that, neighbouring ones share a part.
pub(crate) const AGGREGATE_PARTS_MAX: u64 = 1_024;

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

    /// The part of it behind a token.
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
    /// True if nothing that is asked for is behind the last.
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
        let value = token(&relation.term, &options.values, names, statement)?;
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

/// A query's options for its parts, and whether metadata must be left out afterwards.
pub(crate) fn options(query: &Query) -> Option<(Options<'_>, bool)> {
    match query.opcode {
        Opcode::Query => {
            let mut options = QueryView::parse(&query.body, query.version).ok()?.options;
            let skips = options.flags & query_flags::SKIP_METADATA != 0;
            options.flags &= !query_flags::SKIP_METADATA;
            Some((options, skips))
        }
        Opcode::Execute => {
            let view = ExecuteView::parse(&query.body, query.version).ok()?;
            let prepared = query.prepared.as_ref()?;
            let known = prepared.result_metadata_id.as_deref();
            if view.result_metadata_id.is_some() && view.result_metadata_id != known {
                return None;
            }
            // Who may know the statement with other columns gets them, as from `Link::push`.
            let skips = view.options.flags & query_flags::SKIP_METADATA != 0
                && !(query.version < Version::V5 && prepared.may_have_changed());
            let mut options = view.options;
            options.flags &= !query_flags::SKIP_METADATA;
            Some((options, skips))
        }
        _ => None,
    }
}

/// Cuts a stretch that an aggregate goes over.
pub(in crate::exec) fn cut_aggregate(
    ring: &Ring,
    stretch: Stretch,
    rows_per_token: f64,
    known: &Estimate,
) -> Vec<Stretch> {
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
        return vec![stretch];
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
    stretches.collect()
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
pub(in crate::exec) fn cuts(ring: &Ring, stretch: Stretch, least: u64, most: u64) -> Vec<i64> {
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

/// Where the first stretch of about `tokens` tokens ends: where an owner's does, if that is near.
pub(in crate::exec) fn end_of_first(ring: &Ring, left: Stretch, tokens: u64) -> i64 {
    // A short remainder goes with it.
    if tokens.saturating_add(tokens / 2) >= left.tokens() {
        return left.up_to;
    }
    let aim = left.first(tokens).up_to;
    let slot = ring.slot(&Token::Murmur3(aim));
    let ends = [ring.start_token(slot), ring.end_token(slot)]
        .into_iter()
        .flatten();
    let off = |end: i64| end.abs_diff(aim);
    let near = ends.filter_map(|end| match end {
        Token::Murmur3(end) => (off(end) <= tokens / 2 && end > left.above).then_some(end),
        Token::Bytes(_) => None,
    });
    near.min_by_key(|end| off(*end)).unwrap_or(aim)
}

/// The stretches of a ring that have to be asked, each of one owner, for `rows` rows: the tokens up to
/// which they go. The first counts for nothing, because the stretch may begin anywhere in it (Fukuda et
/// al., section IV.B). At most `most` of them.
pub(in crate::exec) fn stretches_for(
    ring: &Ring,
    stretch: Stretch,
    rows: f64,
    rows_per_token: f64,
    most: usize,
) -> Vec<i64> {
    let last = stretch.up_to;
    let owner = |slot| ring.owner(slot).or_else(|| ring.owner(0));
    let end_of = |slot, above| match ring.end_token(slot) {
        Some(Token::Murmur3(end)) if end > above && end < last => end,
        _ => last,
    };
    let (mut tokens, mut expected) = (Vec::new(), 0.0);
    let mut above = stretch.above;
    let mut slot = ring.slot(&Token::Murmur3(above.saturating_add(1)));
    loop {
        let mut end = end_of(slot, above);
        while end < last && owner(slot + 1) == owner(slot) {
            slot += 1;
            end = end_of(slot, above);
        }
        if !tokens.is_empty() {
            expected += end.wrapping_sub(above) as u64 as f64 * rows_per_token;
        }
        tokens.push(end);
        if end == last || expected >= rows || tokens.len() >= most {
            return tokens;
        }
        above = end;
        slot += 1;
    }
}

#[cfg(test)]
mod tests {
    use helenus_policy::ring::NodeSpec;

    use helenus_policy::token::Partitioner;

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
    fn a_paging_state_goes_on_behind_the_token_of_its_key() {
        let state = PageStart::behind_partition(b"key", 10).write();
        assert_eq!(token_of(&state), Some(murmur3_token(b"key")));
        let first = PageStart::behind_partition(b"", 10).write();
        assert_eq!(token_of(&first), None, "no key has come yet");
        assert_eq!(token_of(b"nonsense"), None);
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
    fn a_stretch_ends_where_an_owner_does_if_that_is_near() {
        let ring = ring(&[&[-1_000, 500], &[0, 2_000]]);
        let end = |above, up_to, tokens| end_of_first(&ring, Stretch { above, up_to }, tokens);
        assert_eq!(end(-900, i64::MAX, 800), 0, "a little more");
        assert_eq!(end(-900, i64::MAX, 1_000), 0, "a little less");
        assert_eq!(end(-900, i64::MAX, 100), -800, "far from both");
        assert_eq!(end(-900, i64::MAX, 1), -899);
        assert_eq!(end(0, 900, 700), 900, "the rest goes with it");
        assert_eq!(end(0, 1_900, 600), 500);
        assert_eq!(end(1_990, i64::MAX, 13), 2_000);
        // Behind the last token: the ring's end.
        assert_eq!(end(3_000, i64::MAX, 10), 3_010);
        assert_eq!(end(i64::MIN, i64::MAX, u64::MAX), i64::MAX);
    }

    #[test]
    fn nodes_are_asked_until_those_behind_the_first_are_enough() {
        let ring = ring(&[&[-1_000, 500], &[0, 2_000], &[600, 700]]);
        let asked =
            |above, up_to, rows| stretches_for(&ring, Stretch { above, up_to }, rows, 0.1, 64);
        // The first has 50 rows, which do not count; the second has 50 and the third 10 + 10.
        assert_eq!(asked(-500, i64::MAX, 50.0), [0, 500]);
        assert_eq!(asked(-500, i64::MAX, 51.0), [0, 500, 700]);
        assert_eq!(asked(-500, i64::MAX, 71.0), [0, 500, 700, 2_000]);
        assert_eq!(asked(-500, 650, 1_000.0), [0, 500, 650]);
        assert_eq!(asked(-500, -1, 1.0), [-1]);
        // The tokens behind the last one belong to the owner of the first.
        assert_eq!(asked(1_999, i64::MAX, 1e30), [2_000, i64::MAX]);
        assert_eq!(asked(5_000, i64::MAX, 1e30), [i64::MAX]);
        let whole = Stretch::WHOLE;
        let few = stretches_for(&ring, whole, f64::INFINITY, 0.1, 3);
        assert_eq!(few, [-1_000, 0, 500]);
        let alone = ring_of_one();
        assert_eq!(stretches_for(&alone, whole, 1e30, 1.0, 64), [i64::MAX]);
    }

    fn ring_of_one() -> Ring {
        ring(&[&[-5, 5, 500]])
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
