//! Which node is to be asked for its facts next. Each question costs the node a login, as dear as a client's: so few
//! are asked at a time, none twice in a short while, and other proxies ask at other times.

use std::hash::Hasher;
use std::time::Duration;

use rustc_hash::FxHasher;
use tokio::time::Instant;

/// Nodes that are asked at a time.
const ASKED_MAX: usize = 4;
/// A node that has responded this often without its processors is then asked only at the longer
/// interval.
const ANSWERS_MAX: u8 = 6;
/// A node with complete facts is asked again after this time, and up to a quarter of it later.
const AGE_MAX: Duration = Duration::from_secs(300);
/// A node with incomplete facts, or that has not answered, is asked again after this time.
const RETRY: Duration = Duration::from_secs(10);
/// All proxies hear at the same time that a node is back, and clients log in there: it is asked within this time.
const SPREAD: Duration = Duration::from_secs(10);

/// When nodes were asked, by their index.
pub(super) struct Due {
    /// Differs from that of other proxies.
    seed: u32,
    nodes: Vec<Asked>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    is_under_way: bool,
    last: Option<Instant>,
    not_before: Option<Instant>,
    /// Its last answer is good until then; None if there is none, or it may have changed.
    fresh_until: Option<Instant>,
    /// The answer under way may have changed already.
    is_doubted: bool,
    /// Responses without the processors.
    in_vain: u8,
}

impl Due {
    pub(super) fn new(seed: u32) -> Due {
        Due {
            seed,
            nodes: Vec::new(),
        }
    }

    /// Notes that a node's answer may have changed.
    pub(super) fn doubt(&mut self, index: usize, now: Instant) {
        let wait = self.share_of(SPREAD, index);
        if let Some(asked) = self.nodes.get_mut(index) {
            asked.fresh_until = None;
            asked.is_doubted = asked.is_under_way;
            asked.not_before = Some(now + wait);
        }
    }

    /// The node that is asked from now on; None if there is none, or enough are asked already. `known`: of each node,
    /// whether its processors are known; None for those that are not to be asked.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        known: impl Iterator<Item = Option<bool>>,
    ) -> Option<usize> {
        let known: Vec<Option<bool>> = known.collect();
        self.nodes.resize(known.len(), Asked::default());
        let under_way = self.nodes.iter().filter(|asked| asked.is_under_way);
        if under_way.count() >= ASKED_MAX {
            return None;
        }
        let nodes = self.nodes.iter().zip(known).enumerate();
        let due =
            nodes.filter(|(_, (asked, known))| known.is_some_and(|has| asked.is_due(now, has)));
        let (index, _) = due.min_by_key(|(_, (asked, _))| asked.last)?;
        let asked = &mut self.nodes[index];
        (asked.is_under_way, asked.last) = (true, Some(now));
        Some(index)
    }

    /// A node has told of itself, with its processors or without; None: it has not answered.
    pub(super) fn end(&mut self, index: usize, now: Instant, told: Option<bool>) {
        let fresh_until = now + AGE_MAX + self.share_of(AGE_MAX / 4, index);
        let Some(asked) = self.nodes.get_mut(index) else {
            return;
        };
        asked.is_under_way = false;
        asked.not_before = asked.not_before.max(Some(now + RETRY));
        let Some(has_processors) = told else { return };
        if !has_processors {
            asked.in_vain = asked.in_vain.saturating_add(1);
        }
        asked.fresh_until = (!asked.is_doubted).then_some(fresh_until);
        asked.is_doubted = false;
    }

    /// A part of a time, for a node and this proxy always the same.
    fn share_of(&self, whole: Duration, index: usize) -> Duration {
        let mut hasher = FxHasher::default();
        hasher.write_u32(self.seed);
        hasher.write_usize(index);
        whole.mul_f64((hasher.finish() % 1_000) as f64 / 1e3)
    }
}

impl Asked {
    fn is_due(&self, now: Instant, has_processors: bool) -> bool {
        let is_known = has_processors || self.in_vain >= ANSWERS_MAX;
        let is_fresh = self.fresh_until.is_some_and(|until| now < until);
        let may_be_asked = self.not_before.is_none_or(|then| now >= then);
        !self.is_under_way && may_be_asked && !(is_known && is_fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nodes that begin to be asked now, of so many whose processors are known.
    fn begun(due: &mut Due, nodes: usize, now: Instant) -> Vec<usize> {
        let known = || std::iter::repeat_n(Some(true), nodes);
        std::iter::from_fn(|| due.begin(now, known())).collect()
    }

    /// Asks all that are due; they answer at once.
    fn asked(due: &mut Due, nodes: usize, now: Instant) -> Vec<usize> {
        let mut all = Vec::new();
        loop {
            let some = begun(due, nodes, now);
            if some.is_empty() {
                all.sort_unstable();
                return all;
            }
            assert!(some.len() <= ASKED_MAX);
            some.iter().for_each(|node| due.end(*node, now, Some(true)));
            all.extend(some);
        }
    }

    #[test]
    fn few_are_asked_at_a_time_and_those_that_do_not_answer_keep_nobody_waiting() {
        let mut due = Due::new(7);
        let began = Instant::now();
        let mut answered = Vec::new();
        for seconds in 0..30 {
            let now = began + Duration::from_secs(seconds);
            for node in begun(&mut due, 20, now) {
                // The first ten never answer.
                let told = (node >= 10).then_some(true);
                due.end(node, now, told);
                answered.extend(told.map(|_| node));
            }
        }
        answered.sort_unstable();
        assert_eq!(answered, Vec::from_iter(10..20));
    }

    #[test]
    fn a_node_is_asked_again_when_it_is_back_or_after_minutes_and_no_other() {
        let mut due = Due::new(7);
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        assert_eq!(asked(&mut due, 6, at(0)).len(), 6);
        assert_eq!(asked(&mut due, 6, at(200)), [0; 0]);
        due.doubt(3, at(200));
        assert_eq!(asked(&mut due, 6, at(200) + SPREAD), [3]);
        assert_eq!(asked(&mut due, 6, at(299)), [0; 0]);
        assert_eq!(asked(&mut due, 6, at(376)), [0, 1, 2, 4, 5]);
        // One that is new.
        assert_eq!(asked(&mut due, 7, at(377)), [6]);
    }

    #[test]
    fn what_is_doubted_while_it_is_told_is_asked_again() {
        let mut due = Due::new(7);
        let now = Instant::now();
        assert_eq!(begun(&mut due, 1, now), [0]);
        due.doubt(0, now);
        due.end(0, now, Some(true));
        assert_eq!(begun(&mut due, 1, now), [0; 0]);
        assert_eq!(asked(&mut due, 1, now + SPREAD + RETRY), [0]);
    }

    #[test]
    fn proxies_ask_at_different_times() {
        let waits: Vec<Duration> = (0..20)
            .map(|seed| Due::new(seed).share_of(SPREAD, 0))
            .collect();
        let (first, last) = (waits.iter().min(), waits.iter().max());
        assert!(
            last.zip(first)
                .is_some_and(|(last, first)| *last - *first > SPREAD / 2)
        );
    }
}
