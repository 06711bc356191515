//! Which load to measure next.
//!
//! The *peak* is the highest throughput of all loads that break no limit. The *knee* is the least
//! load that reaches it but for a tolerance: more load only waits longer.
//!
//! 1. **Grow**: the load doubles, one window each, until two doublings together bring almost
//!    nothing, throughput collapses, or a limit is broken. The last three loads are then measured
//!    again, in turn, and growth goes on if that was noise.
//! 2. **Refine**: bisection, by geometric means, between the last good and the first broken load,
//!    beside the peak, and below the knee. Candidate and peak are measured in turn.
//! 3. **Confirm**: the knee, its neighbours and the peak are measured anew, in turn; earlier windows
//!    of theirs no longer count, because nodes get faster as they warm up. If the knee moves, what
//!    is beside it now is refined and confirmed as well.
//!
//! A load is judged by the median of its windows, and broken if most of them are, so a minority of
//! disturbed windows decides nothing. The order of loads rotates within these rounds, so drift
//! affects all of them alike.
//!
//! Limits: throughput is expected to have one maximum. With a narrow second one between two
//! doublings, the wrong one may be found.

use super::steps::{Broken, Limits, Load, Steps, Window};
use crate::report::spread::rotation;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub struct Policy {
    pub load_min: Load,
    pub load_max: Load,
    /// Factor between the loads while they grow.
    pub growth: f64,
    /// Throughput has stopped growing if two steps together add less than this share.
    pub gain_min: f64,
    /// Throughput has collapsed if a step loses more than this share.
    pub loss_max: f64,
    /// How far below the peak, as a share of it, the knee may be.
    pub tolerance: f64,
    /// Bisection ends when neighbouring loads differ by less than this factor.
    pub resolution: f64,
    /// Windows of a load that decides anything.
    pub windows: usize,
    /// Windows of the knee, its neighbours and the peak.
    pub confirmations: usize,
    /// Different loads; when there are so many, refining ends.
    pub loads_max: usize,
    pub limits: Limits,
}

impl Policy {
    pub fn new(load_min: Load, load_max: Load, limits: Limits) -> Self {
        Self {
            load_min: load_min.max(1),
            load_max: load_max.max(load_min).max(1),
            growth: 2.0,
            gain_min: 0.05,
            loss_max: 0.2,
            tolerance: 0.03,
            resolution: 1.2,
            windows: 3,
            confirmations: 7,
            loads_max: 40,
            limits,
        }
    }
}

/// Why throughput is not higher than at the peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// More load brings no more throughput.
    Flat,
    /// A higher load breaks a limit, while throughput was still growing.
    Broken(Broken),
    /// Throughput was still growing at the greatest load allowed.
    LoadMax,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knee {
    pub load: Load,
    pub peak: Load,
    pub ended: Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Grow,
    Refine,
    Done,
}

#[derive(Clone, Debug)]
pub struct Search {
    policy: Policy,
    steps: Steps,
    queue: VecDeque<Load>,
    stage: Stage,
    is_confirming: bool,
    is_limited_by_load_max: bool,
}

impl Search {
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            steps: Steps::default(),
            queue: VecDeque::new(),
            stage: Stage::Grow,
            is_confirming: false,
            is_limited_by_load_max: false,
        }
    }

    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The load to measure for one window; None when the knee is known, or that there is none.
    pub fn poll_load(&mut self) -> Option<Load> {
        while self.queue.is_empty() && self.stage != Stage::Done {
            match self.stage {
                Stage::Grow => self.grow(),
                Stage::Refine => self.refine(),
                Stage::Done => {}
            }
        }
        self.queue.pop_front()
    }

    /// Takes what the window at that load has shown.
    pub fn on_window(&mut self, load: Load, window: Window) {
        self.steps.add(load, window);
    }

    /// None if even the least load breaks a limit, or nothing was measured or has succeeded.
    pub fn knee(&self) -> Option<Knee> {
        let peak = self.peak()?;
        let usable = self.usable();
        let ended = match self.first_broken() {
            Some((_, why)) if usable.last() == Some(&peak) => Ended::Broken(why),
            None if self.is_limited_by_load_max && usable.last() == Some(&peak) => Ended::LoadMax,
            _ => Ended::Flat,
        };
        Some(Knee {
            load: self.knee_load(peak),
            peak,
            ended,
        })
    }

    /// The least load of which most windows break a limit.
    pub fn first_broken(&self) -> Option<(Load, Broken)> {
        let limits = &self.policy.limits;
        let mut loads = self.steps.loads();
        loads.find_map(|load| Some((load, self.steps.broken(load, limits)?)))
    }

    fn grow(&mut self) {
        let Some(top) = self.steps.loads().next_back() else {
            self.queue.push_back(self.policy.load_min);
            return;
        };
        let Policy { load_max, .. } = self.policy;
        let is_over = self.is_over(top);
        if !is_over && top < load_max {
            let next = (top as f64 * self.policy.growth).round() as Load;
            self.queue.push_back(next.max(top + 1).min(load_max));
            return;
        }
        let mut decisive: Vec<Load> = self.steps.loads().rev().take(3).collect();
        decisive.extend(self.first_broken().map(|(load, _)| load));
        if !self.measure(&decisive, self.policy.confirmations) {
            self.is_limited_by_load_max = !is_over;
            self.stage = Stage::Refine;
        }
    }

    /// True if a load above `top`, the greatest so far, is not worth measuring.
    fn is_over(&self, top: Load) -> bool {
        self.first_broken().is_some() || self.is_flat(top) || self.collapses(top)
    }

    /// True if the last two steps together have brought next to nothing.
    fn is_flat(&self, top: Load) -> bool {
        let Policy {
            growth, gain_min, ..
        } = self.policy;
        // A little more, because loads are rounded.
        let two_steps_below = top as f64 / (growth * growth) * 1.05 + 1e-9;
        let best = |is_wanted: &dyn Fn(f64) -> bool| {
            let loads = self.steps.loads();
            let wanted = loads.filter(|&load| is_wanted(load as f64));
            wanted
                .map(|load| self.steps.throughput(load))
                .reduce(f64::max)
        };
        let before = best(&|load| load <= two_steps_below);
        let since = best(&|load| load > two_steps_below);
        match (before, since) {
            (Some(before), Some(since)) => since < (1.0 + gain_min) * before,
            _ => false,
        }
    }

    fn collapses(&self, top: Load) -> bool {
        let loads = self.steps.loads();
        let best = loads
            .map(|load| self.steps.throughput(load))
            .fold(0.0, f64::max);
        self.steps.throughput(top) < (1.0 - self.policy.loss_max) * best
    }

    fn refine(&mut self) {
        let Some(peak) = self.peak() else {
            // Not even the least load is good: be sure of it.
            let least: Vec<Load> = self.steps.loads().take(1).collect();
            if !self.measure(&least, self.policy.confirmations) {
                self.stage = Stage::Done;
            }
            return;
        };
        let knee = self.knee_load(peak);
        let unsure = [
            Some(peak),
            Some(knee),
            self.first_broken().map(|(load, _)| load),
        ];
        let unsure: Vec<Load> = unsure.into_iter().flatten().collect();
        if self.measure(&unsure, self.policy.windows) {
            return;
        }
        if self.steps.loads().count() < self.policy.loads_max
            && let Some(candidate) = self.candidate(peak, knee)
        {
            for _ in 0..self.policy.windows {
                self.queue.extend([candidate, peak]);
            }
            return;
        }
        if let Some(top) = self.steps.loads().next_back()
            && !self.is_over(top)
            && top < self.policy.load_max
        {
            // The reason for ending the growth has turned out to be noise.
            self.stage = Stage::Grow;
            return;
        }
        let usable = self.usable();
        let mut contenders = self.rivals(peak);
        contenders.extend([knee, peak]);
        if let Some(at) = usable.iter().position(|&load| load == knee) {
            contenders.extend(at.checked_sub(1).map(|below| usable[below]));
            contenders.extend(usable.get(at + 1));
        }
        contenders.extend(self.first_broken().map(|(load, _)| load));
        if !self.is_confirming {
            self.is_confirming = true;
            self.steps.begin_anew();
        }
        if !self.measure(&contenders, self.policy.confirmations) {
            self.stage = Stage::Done;
        }
    }

    /// Loads that may be the peak in truth, if most of their windows were disturbed.
    fn rivals(&self, peak: Load) -> Vec<Load> {
        let throughput = self.steps.throughput(peak) * (1.0 + self.policy.gain_min);
        let best = |load: Load| {
            let spread = self.steps.spread(load, |window| window.ops_per_second);
            spread.map_or(0.0, |spread| spread.max)
        };
        let usable = self.usable().into_iter();
        usable.filter(|&load| best(load) > throughput).collect()
    }

    /// Queues further windows of these loads, in turn, until each has `windows`. False if all have.
    fn measure(&mut self, loads: &[Load], windows: usize) -> bool {
        let mut loads = loads.to_vec();
        loads.sort_unstable();
        loads.dedup();
        let count = |load: Load| match self.is_confirming {
            true => self.steps.fresh(load).len(),
            false => self.steps.windows(load).len(),
        };
        let missing = |&load: &Load| windows.saturating_sub(count(load));
        let rounds = loads.iter().map(missing).max().unwrap_or(0);
        for round in 0..rounds {
            let turns = rotation(loads.len(), round).map(|turn| loads[turn]);
            self.queue.extend(turns);
        }
        rounds > 0
    }

    /// A load worth measuring that has not been measured yet.
    fn candidate(&self, peak: Load, knee: Load) -> Option<Load> {
        let usable = self.usable();
        let below = |load: Load| usable.iter().rev().copied().find(|&other| other < load);
        let above = |load: Load| usable.iter().copied().find(|&other| other > load);
        let enough = self.steps.throughput(peak) * (1.0 - self.policy.tolerance);
        let resolution = self.policy.resolution;
        if let (Some((broken, _)), Some(&last)) = (self.first_broken(), usable.last())
            && self.steps.throughput(last) >= enough
            && let Some(load) = between(last, broken, resolution)
        {
            return Some(load);
        }
        // Throughput is flat around its maximum: whether it is here or 1.4 times higher hardly
        // matters.
        let coarse = self.policy.growth.sqrt() * 1.1;
        let beside = above(peak).and_then(|above| between(peak, above, coarse));
        beside
            .or_else(|| between(below(peak)?, peak, coarse))
            .or_else(|| between(below(knee)?, knee, resolution))
    }

    /// The loads below the first broken one.
    fn usable(&self) -> Vec<Load> {
        let end = self.first_broken().map_or(Load::MAX, |(load, _)| load);
        self.steps.loads().take_while(|&load| load < end).collect()
    }

    fn peak(&self) -> Option<Load> {
        let throughput = |load: &Load| self.steps.throughput(*load);
        let usable = self.usable().into_iter();
        let succeeds = usable.filter(|load| throughput(load) > 0.0);
        succeeds.max_by(|left, right| throughput(left).total_cmp(&throughput(right)))
    }

    fn knee_load(&self, peak: Load) -> Load {
        let enough = self.steps.throughput(peak) * (1.0 - self.policy.tolerance);
        let mut usable = self.usable().into_iter();
        usable
            .find(|&load| self.steps.throughput(load) >= enough)
            .unwrap_or(peak)
    }
}

/// The geometric mean, if the loads differ by more than the factor and there is one between them.
fn between(low: Load, high: Load, factor: f64) -> Option<Load> {
    if high <= low + 1 || high as f64 <= low as f64 * factor {
        return None;
    }
    let middle = (low as f64 * high as f64).sqrt().round() as Load;
    Some(middle.clamp(low + 1, high - 1))
}

#[cfg(test)]
mod tests;
