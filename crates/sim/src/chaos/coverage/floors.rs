//! How often each check was evaluated, and how often it could have failed: how much of everything there must be.
//!
//! One hit in 2,000 seeds is luck. So it is counted by seeds, and the floors are about half of what 2,000 seeds
//! have shown. Half of the seeds are others with each commit, so of what happens in few seeds the floors are lower: that it
//! is missed by chance is to be rarer than one commit in a hundred.

use std::fmt::Write as _;

named! {
    /// What is checked.
    Check {
        Register = "a read of a key is not stale",
        Conditional = "what conditional writes left is what they tell and show",
        Routed = "a partition is asked of its owners",
        Many = "keys of IN come all, in order",
        Page = "a scan of several pages has each key once",
        Count = "a count counts all",
        Role = "who asks sees the answer for its role",
        Columns = "cells are taken for those of their columns",
        Wait = "no wait is longer than the bounds in force",
        Cause = "an error has a cause in the trouble at hand",
        Served = "not everything is refused",
        Drained = "nobody who waits is sent away",
        Once = "what must not be executed twice is not",
        List = "a list has what was written to it, once",
        Refused = "what is said not to be executed is not",
        Books = "the books of an engine agree",
        Quiet = "everything is given back",
        Ring = "nothing fails because a ring changes",
        LayoutRows = "rows of the wide table are right",
        LayoutEqual = "layouts have what their table has",
        DerivedEqual = "derived layouts become equal to their table",
        DoubtRead = "no layout is read in a partition that is in doubt",
        DoubtWaits = "no partition is settled too soon",
        DeletedLate = "no row is deleted that a hint may bring",
        BehindRead = "no layout is read that is behind",
        ConditionalRow = "a conditional write of a row tells what the row had",
        Lease = "no write without a lease",
        Recovered = "whoever comes after trouble is served",
        Beside = "others fare well beside an aggressor",
    }
}

impl Check {
    /// In so many of 2,000 seeds it could have failed, at least.
    fn seeds_least(self) -> u64 {
        match self {
            Check::Register => 890,
            Check::Conditional => 790,
            Check::Routed => 100,
            Check::Many => 640,
            Check::Page => 640,
            Check::Count => 650,
            Check::Role => 440,
            Check::Columns => 190,
            Check::Wait => 88,
            Check::Cause => 870,
            Check::Served => 970,
            Check::Drained => 100,
            Check::Once => 340,
            Check::List => 190,
            Check::Refused => 880,
            Check::Books => 1000,
            Check::Quiet => 1000,
            Check::Ring => 5,
            Check::LayoutRows => 450,
            Check::LayoutEqual => 400,
            Check::DerivedEqual => 100,
            Check::DoubtRead => 1,
            Check::DoubtWaits => 100,
            Check::DeletedLate => 60,
            Check::BehindRead => 1,
            Check::ConditionalRow => 55,
            Check::Lease => 250,
            Check::Recovered => 970,
            Check::Beside => 24,
        }
    }
}

/// In so many of 2,000 seeds this has happened, at least.
const SEEDS_LEAST: [(&str, u64); 60] = [
    (super::BESIDE_PIPELINES, 2),
    (super::BESIDE_SCANS, 4),
    (super::BESIDE_NEVER_READS, 1),
    (super::BESIDE_LARGE_TEXTS, 1),
    (super::BESIDE_VANISHES, 3),
    (super::ASKED_AFTER_TROUBLE, 970),
    (super::WRITES_COMPARED, 1000),
    (super::WRITES_OF_ROLES, 500),
    (super::WRITES_LATE, 520),
    ("counter requests_overloaded", 720),
    ("counter requests_refused_by_rules", 260),
    ("counter requests_timed_out", 250),
    ("counter requests_cancelled", 350),
    ("counter requests_retried", 700),
    ("counter requests_paused", 220),
    ("counter requests_rescued", 300),
    ("counter requests_refused", 480),
    ("counter reads_hedged", 410),
    ("counter hedges_won", 400),
    ("counter reprepares", 620),
    ("counter prepares_ahead", 720),
    ("counter reads_shared", 640),
    ("counter reads_parked", 250),
    ("counter writes_merged", 100),
    ("counter write_batches_parted", 1),
    ("counter lwt_waited", 600),
    ("counter lwt_graces", 120),
    ("counter lwt_gave_up", 110),
    ("counter lwt_stood_aside", 5),
    ("counter scans_in_parts", 820),
    ("counter scans_in_pieces", 940),
    ("counter scans_in_stretches", 700),
    ("counter scan_parts_wasted", 300),
    ("counter scan_parts_retried", 400),
    ("counter scans_moved", 55),
    ("counter auth_refused", 290),
    ("counter auth_unjudged", 280),
    ("counter schema_agreements", 330),
    ("counter layout_reads_of_table", 440),
    ("counter layout_reads_sorted", 280),
    ("counter layout_reads_fallen_back", 150),
    ("counter layout_writes_fenced", 160),
    (super::LAYOUT_DROPPED, 180),
    (super::DOUBTED, 100),
    (super::SETTLED, 100),
    (super::STAYS_IN_DOUBT, 10),
    (super::SWEEP_REPAIRS, 80),
    (super::SWEEP_DELETES, 70),
    (super::HINTS_KEPT, 55),
    (super::HINTS_DELIVERED, 55),
    (super::HINTS_LOST, 10),
    (super::APPLIED, 45),
    (super::COMPLETED, 5),
    (super::SERIAL_READ, 90),
    (super::KILLED_WRITING, 20),
    (super::KILLED_BETWEEN, 1),
    (super::ROUND_FINDS, 2),
    (super::ONLY_HINTED, 10),
    (super::BEHIND, 5),
    (super::OPENED, 5),
];

/// How a check was evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Evaluated {
    pub times: u64,
    pub could_fail: u64,
    /// Seeds in which it could have failed.
    pub seeds: u64,
}

impl super::Covered {
    pub(in crate::chaos) fn check(&mut self, check: Check, could_fail: bool) {
        let of = &mut self.checks[check as usize];
        of.times += 1;
        of.could_fail += u64::from(could_fail);
    }

    /// A run has ended.
    pub(in crate::chaos) fn close(&mut self) {
        self.runs = 1;
        for of in &mut self.checks {
            of.seeds = u64::from(of.could_fail > 0);
        }
        let happened = self.counts.iter().filter(|(_, times)| **times > 0);
        self.seeds = happened.map(|(what, _)| (what.clone(), 1)).collect();
    }

    /// The floors that so many seeds do not reach.
    pub(super) fn below_floors(&self) -> Vec<String> {
        let least = |of_2000: u64| (of_2000 * self.runs / 2_000).max(1);
        let checks = Check::ALL.iter().filter_map(|check| {
            let (seeds, least) = (
                self.checks[*check as usize].seeds,
                least(check.seeds_least()),
            );
            let name = check.name();
            (seeds < least)
                .then(|| format!("{name}: could have failed in {seeds} seeds, not {least}"))
        });
        let counts = SEEDS_LEAST.iter().filter_map(|(what, of_2000)| {
            let (seeds, least) = (self.seeds.get(*what).copied().unwrap_or(0), least(*of_2000));
            (seeds < least).then(|| format!("{what}: in {seeds} seeds, not {least}"))
        });
        checks.chain(counts).collect()
    }

    /// How often each check was evaluated, could have failed, and in how many seeds.
    pub(super) fn table_of_checks(&self) -> String {
        let mut out = format!(
            "{:<48} {:>10} {:>12} {:>8}\n",
            "check", "evaluated", "could fail", "in seeds"
        );
        for check in Check::ALL {
            let of = self.checks[*check as usize];
            let name = check.name();
            let _ = writeln!(
                out,
                "{name:<48} {:>10} {:>12} {:>8}",
                of.times, of.could_fail, of.seeds
            );
        }
        out.push('\n');
        for (what, _) in &SEEDS_LEAST {
            let times = self.counts.get(*what).copied().unwrap_or(0);
            let seeds = self.seeds.get(*what).copied().unwrap_or(0);
            let _ = writeln!(out, "{what:<48} {times:>10} {:>12} {seeds:>8}", "");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::coverage::Covered;

    #[test]
    fn a_check_that_could_fail_in_one_seed_only_is_below_its_floor() {
        let run = |could_fail| {
            let mut covered = Covered::default();
            covered.check(Check::Register, could_fail);
            covered.check(Check::Register, could_fail);
            covered.close();
            covered
        };
        let mut all = Covered::default();
        all.add(run(true));
        (1..2_000).for_each(|_| all.add(run(false)));
        let of = all.checks[Check::Register as usize];
        assert_eq!((of.times, of.could_fail, of.seeds), (4_000, 2, 1));
        let below = all.below_floors();
        let name = Check::Register.name();
        assert!(below.iter().any(|line| line.starts_with(name)), "{below:?}");
        assert!(all.table_of_checks().contains(name));
    }
}
