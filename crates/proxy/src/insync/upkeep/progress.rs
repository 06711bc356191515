//! How far the comparison of a copy has come. What is to be looked at next, and when all of it is equal: decisions
//! without sockets and without a clock.

use helenus_rows::Range;

use super::comparing::Counts;

/// Rows with values that are about to expire are looked at again so often: by then those are gone, and what is written
/// with a short life all the time holds nothing up.
pub(super) const EXPIRING_LOOKS_MAX: u32 = 3;
/// If no more ranges than these were repaired in a last pass, only they are looked at again.
const REPAIRED_FEW: usize = 64;

/// What must not change while a copy is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Its number, and since which version it is joining.
    pub newcomer: (usize, u64),
    /// The same of the one in sync that it is compared with.
    pub source: (usize, u64),
}

#[derive(Debug, Default)]
pub(super) struct Progress {
    /// What it is about, if that is known; with something else it begins again.
    of: Option<Standing>,
    /// When the newcomer was last in sync, if that was asked for: None if nobody knows.
    left_ms: Option<Option<i64>>,
    parts: Vec<Range>,
    /// What this pass has not looked at yet, the next range last. Each lies within a part.
    todo: Vec<Range>,
    /// Ranges with rows that could not be made equal, and with values that are about to expire.
    given_up: Vec<Range>,
    expiring: Vec<Range>,
    /// In which rows were repaired in this pass.
    repaired: Vec<Range>,
    rows_given_up: u64,
    expiring_looks: u32,
    /// What this pass finds equal stays so: nothing was on its way to the newcomer when it began but what is waited for.
    /// Otherwise all parts are looked at once more.
    is_last_pass: bool,
    /// Ranges that were finished.
    steps: u64,
    pub counts: Counts,
}

/// What was sent to a newcomer before it was out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// It has arrived, or never will.
    Over,
    /// It may arrive yet.
    Late,
}

/// All ranges of a pass were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// They are equal, and have been all the time.
    Equal,
    /// They are looked at again, because some were not.
    Again,
    /// So many rows could not be made equal: only where these are is looked again.
    GivenUp(u64),
    /// The same where values were about to expire, once they are gone.
    Expiring,
}

impl Progress {
    /// Parts that are equal.
    pub(super) fn done(&self) -> usize {
        let part = |range: &Range| self.parts.partition_point(|part| part.end <= range.after);
        let mut open: Vec<usize> = self.todo.iter().map(part).collect();
        open.dedup();
        self.parts.len().saturating_sub(open.len())
    }

    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Grows with each range that is finished.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    pub(super) fn of(&self) -> Option<Standing> {
        self.of
    }

    /// When the newcomer was last in sync, if that was asked for since it is about this.
    pub(super) fn left_ms(&self, of: Standing) -> Option<Option<i64>> {
        self.left_ms.filter(|_| self.of == Some(of))
    }

    pub(super) fn note_left(&mut self, left_ms: Option<i64>) {
        self.left_ms = Some(left_ms);
    }

    pub(super) fn is_of(&self, parts: &[Range]) -> bool {
        self.parts == parts
    }

    /// Goes on, if it is about the same. `past`: what was sent to the newcomer before it joined.
    pub(super) fn resume(&mut self, of: Standing, parts: Vec<Range>, past: Past) {
        if self.of != Some(of) || self.parts != parts {
            *self = Progress {
                of: Some(of),
                todo: parts.iter().rev().copied().collect(),
                parts,
                is_last_pass: past == Past::Over,
                steps: self.steps,
                counts: self.counts,
                ..Progress::default()
            };
        }
    }

    /// What is to be looked at next.
    pub(super) fn next(&self) -> Option<Range> {
        self.todo.last().copied()
    }

    /// The next range was looked at up to and with this token; what was counted before.
    pub(super) fn on_step(&mut self, end: i64, before: Counts) {
        let Some(next) = self.todo.pop() else {
            return;
        };
        if end < next.end {
            self.todo.push(Range { after: end, ..next });
        }
        self.steps += 1;
        let range = Range { end, ..next };
        if self.counts.given_up > before.given_up {
            self.rows_given_up += self.counts.given_up - before.given_up;
            push(&self.parts, &mut self.given_up, range);
        }
        if self.counts.expiring > before.expiring {
            push(&self.parts, &mut self.expiring, range);
        }
        if self.counts.repaired > before.repaired {
            push(&self.parts, &mut self.repaired, range);
        }
    }

    /// Nothing is left to be looked at in this pass.
    pub(super) fn on_pass(&mut self) -> Pass {
        if !self.given_up.is_empty() {
            self.todo = reversed(&mut self.given_up);
            return Pass::GivenUp(std::mem::take(&mut self.rows_given_up));
        }
        if !self.expiring.is_empty() && self.expiring_looks < EXPIRING_LOOKS_MAX {
            self.expiring_looks += 1;
            self.todo = reversed(&mut self.expiring);
            return Pass::Expiring;
        }
        self.expiring.clear();
        let mut repaired = united(&mut self.repaired);
        if self.is_last_pass && repaired.is_empty() {
            return Pass::Equal;
        }
        if !self.is_last_pass || repaired.len() > REPAIRED_FEW {
            repaired.clone_from(&self.parts);
        }
        self.todo = reversed(&mut repaired);
        self.is_last_pass = true;
        Pass::Again
    }
}

/// Neighbours within one of the parts become one.
fn push(parts: &[Range], ranges: &mut Vec<Range>, range: Range) {
    let starts_part = parts.iter().any(|part| part.after == range.after);
    match ranges.last_mut() {
        Some(last) if last.end == range.after && !starts_part => last.end = range.end,
        _ => ranges.push(range),
    }
}

/// In the order of the ring, each token once.
fn united(ranges: &mut Vec<Range>) -> Vec<Range> {
    let mut ranges = std::mem::take(ranges);
    ranges.sort_unstable();
    let mut united: Vec<Range> = Vec::new();
    for range in ranges {
        match united.last_mut() {
            Some(last) if range.after < last.end => last.end = last.end.max(range.end),
            _ => united.push(range),
        }
    }
    united
}

fn reversed(ranges: &mut Vec<Range>) -> Vec<Range> {
    let mut ranges = std::mem::take(ranges);
    ranges.reverse();
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANDING: Standing = Standing {
        newcomer: (2, 5),
        source: (0, 1),
    };

    fn range(after: i64, end: i64) -> Range {
        Range { after, end }
    }

    fn begun() -> Progress {
        let mut progress = Progress::default();
        progress.resume(
            STANDING,
            vec![range(0, 10), range(10, 20), range(20, 30)],
            Past::Late,
        );
        progress
    }

    /// Looks at the next range up to a token, with so many rows repaired, given up and about to expire.
    fn step(progress: &mut Progress, end: i64, (repaired, given_up, expiring): (u64, u64, u64)) {
        let before = progress.counts;
        progress.counts.repaired += repaired;
        progress.counts.given_up += given_up;
        progress.counts.expiring += expiring;
        progress.on_step(end, before);
    }

    fn pass(progress: &mut Progress) -> Pass {
        while let Some(next) = progress.next() {
            step(progress, next.end, (0, 0, 0));
        }
        progress.on_pass()
    }

    #[test]
    fn a_large_part_goes_on_where_it_was() {
        let mut progress = begun();
        assert_eq!((progress.done(), progress.parts()), (0, 3));
        step(&mut progress, 4, (0, 0, 0));
        assert_eq!(progress.next(), Some(range(4, 10)));
        assert_eq!((progress.done(), progress.steps()), (0, 1));
        progress.resume(
            STANDING,
            vec![range(0, 10), range(10, 20), range(20, 30)],
            Past::Late,
        );
        assert_eq!(progress.next(), Some(range(4, 10)), "about the same");
        step(&mut progress, 10, (0, 0, 0));
        assert_eq!((progress.done(), progress.next()), (1, Some(range(10, 20))));
    }

    #[test]
    fn a_comparison_with_another_source_or_ring_begins_again() {
        let mut progress = begun();
        step(&mut progress, 10, (0, 1, 0));
        let other = Standing {
            source: (1, 1),
            ..STANDING
        };
        progress.resume(
            other,
            vec![range(0, 10), range(10, 20), range(20, 30)],
            Past::Late,
        );
        assert_eq!(progress.done(), 0);
        step(&mut progress, 10, (0, 0, 0));
        progress.note_left(Some(77));
        assert_eq!(progress.left_ms(STANDING), None, "of another one");
        assert_eq!(progress.left_ms(other), Some(Some(77)));
        progress.resume(other, vec![range(0, 5)], Past::Late);
        assert_eq!((progress.done(), progress.parts()), (0, 1));
        assert_eq!(pass(&mut progress), Pass::Again, "nothing of before counts");
    }

    #[test]
    fn a_copy_is_equal_after_a_pass_that_repairs_nothing() {
        let mut progress = begun();
        assert_eq!(
            pass(&mut progress),
            Pass::Again,
            "a first pass proves nothing"
        );
        step(&mut progress, 10, (3, 0, 0));
        assert_eq!(
            pass(&mut progress),
            Pass::Again,
            "something has happened to it"
        );
        assert_eq!(progress.todo, [range(0, 10)], "and to nothing else");
        assert_eq!(pass(&mut progress), Pass::Equal);
    }

    #[test]
    fn one_pass_is_enough_if_nothing_of_before_can_arrive() {
        let parts = || vec![range(0, 10), range(10, 20)];
        let mut progress = Progress::default();
        progress.resume(STANDING, parts(), Past::Over);
        assert_eq!(pass(&mut progress), Pass::Equal);
        let mut progress = Progress::default();
        progress.resume(STANDING, parts(), Past::Over);
        step(&mut progress, 10, (3, 0, 0));
        assert_eq!(
            pass(&mut progress),
            Pass::Again,
            "what was repaired is looked at again"
        );
        assert_eq!(progress.todo, [range(0, 10)]);
        assert_eq!(pass(&mut progress), Pass::Equal);
        // That it is over by now says nothing of what was looked at before.
        let mut progress = Progress::default();
        progress.resume(STANDING, parts(), Past::Late);
        step(&mut progress, 10, (0, 0, 0));
        progress.resume(STANDING, parts(), Past::Over);
        assert_eq!(pass(&mut progress), Pass::Again);
        assert_eq!(progress.todo.len(), 2);
    }

    #[test]
    fn what_was_repaired_in_many_ranges_is_all_looked_at_again() {
        let parts: Vec<Range> = (0..100).map(|at| range(at * 10, at * 10 + 10)).collect();
        for (count, is_all) in [(REPAIRED_FEW, false), (REPAIRED_FEW + 1, true)] {
            let mut progress = Progress::default();
            progress.resume(STANDING, parts.clone(), Past::Late);
            assert_eq!(pass(&mut progress), Pass::Again);
            for part in &parts[..count] {
                step(&mut progress, part.end, (1, 0, 0));
            }
            assert_eq!(pass(&mut progress), Pass::Again);
            let expected = if is_all { parts.len() } else { count };
            assert_eq!(progress.todo.len(), expected);
        }
    }

    #[test]
    fn ranges_of_neighbouring_parts_stay_apart() {
        let mut progress = begun();
        for end in [4, 10, 15, 20] {
            step(&mut progress, end, (0, 1, 0));
        }
        assert_eq!(pass(&mut progress), Pass::GivenUp(4));
        assert_eq!(progress.todo, [range(10, 20), range(0, 10)]);
        assert_eq!(progress.done(), 1);
        let mut twice = vec![range(5, 8), range(0, 10), range(10, 20), range(5, 8)];
        assert_eq!(united(&mut twice), [range(0, 10), range(10, 20)]);
    }

    #[test]
    fn only_what_was_given_up_is_looked_at_again() {
        let mut progress = begun();
        step(&mut progress, 3, (0, 0, 0));
        step(&mut progress, 6, (0, 2, 0));
        step(&mut progress, 8, (0, 1, 0));
        step(&mut progress, 10, (0, 0, 0));
        step(&mut progress, 20, (0, 1, 0));
        assert_eq!(pass(&mut progress), Pass::GivenUp(4));
        assert_eq!(progress.todo, [range(10, 20), range(3, 8)]);
        assert_eq!(progress.done(), 1);
        step(&mut progress, 8, (0, 1, 0));
        assert_eq!(pass(&mut progress), Pass::GivenUp(1));
        assert_eq!(progress.todo, [range(3, 8)]);
        assert_eq!(pass(&mut progress), Pass::Again, "all of it at last");
        assert_eq!(progress.next(), Some(range(0, 10)));
        assert_eq!(pass(&mut progress), Pass::Equal);
    }

    #[test]
    fn what_is_about_to_expire_is_looked_at_again_a_few_times() {
        let mut progress = begun();
        step(&mut progress, 10, (0, 0, 1));
        for _ in 0..EXPIRING_LOOKS_MAX {
            assert_eq!(pass(&mut progress), Pass::Expiring);
            assert_eq!(progress.todo, [range(0, 10)]);
            step(&mut progress, 10, (0, 0, 1));
        }
        assert_eq!(
            pass(&mut progress),
            Pass::Again,
            "it is written all the time"
        );
        assert_eq!(pass(&mut progress), Pass::Equal);
    }
}
