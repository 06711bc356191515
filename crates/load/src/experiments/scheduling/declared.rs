//! The experiment as data: its cells. What is told of them is in `ratios` and `charts`.

use super::cells::{self, Job, SEVERAL_CLIENTS};
use super::experiment::Scheduling;
use crate::experiments::arms::{Arm, ROUND_ROBIN};
use crate::experiments::experiment::{Cell, Experiment};

impl Scheduling {
    pub(super) fn declared(&self) -> Experiment<Job> {
        let cells = self.jobs().into_iter().map(|job| {
            let arms = self.arms.iter().map(Arm::name);
            let takes_part = arms.map(|arm| self.takes_part(arm, job));
            let cell = Cell::of_some(self.name(job), job, takes_part);
            let rounds = if self.is_short(job) { 1 } else { usize::MAX };
            Cell { rounds, ..cell }
        });
        let cells: Vec<Cell<Job>> = cells.collect();
        let ratios = self.ratios(&cells);
        Experiment {
            arms: self.arms.clone(),
            rounds: self.rounds,
            until: self.until,
            watched: self.watched.clone(),
            cells,
            ratios,
            charts: self.charts(),
        }
    }

    /// The storm comes last, so that its backlog on the nodes affects no other cell of its round.
    fn jobs(&self) -> Vec<Job> {
        let mut jobs = vec![Job::IdleScan, Job::IdleAggregates];
        jobs.extend(SEVERAL_CLIENTS.map(Job::Several));
        jobs.extend(self.mixed.iter().copied().map(Job::Mixed));
        let plain = self.plain.iter().flat_map(|plain| plain.cells());
        jobs.extend(plain.map(Job::Plain));
        let further = self.further.iter().flat_map(|further| further.cells());
        jobs.extend(further.map(Job::Further));
        if let Some(storm) = self.storm {
            jobs.extend([Job::Unloaded(storm), Job::Storm(storm)]);
        }
        jobs.retain(|job| self.kinds.contains(&job.kind()));
        jobs
    }

    fn name(&self, job: Job) -> String {
        match job {
            Job::Mixed(mixed) => cells::mixed_name(mixed.mix, mixed.clients),
            Job::IdleScan => cells::IDLE.into(),
            Job::IdleAggregates => cells::IDLE_AGGREGATES.into(),
            Job::Several(clients) => cells::several(clients),
            Job::Unloaded(storm) => cells::unloaded(storm),
            Job::Storm(storm) => cells::storm_points(storm),
            Job::Plain(cell) => cell.name(),
            Job::Further(cell) => {
                let further = self.further.as_ref();
                further.map_or_else(String::new, |further| further.name(cell))
            }
        }
    }

    fn takes_part(&self, arm: &str, job: Job) -> bool {
        match job {
            Job::Unloaded(storm) | Job::Storm(storm) => !storm.short || arm != ROUND_ROBIN,
            Job::Plain(_) => self.plain.iter().all(|plain| plain.takes_part(arm)),
            Job::Further(_) => self.further.iter().all(|further| further.takes_part(arm)),
            _ => true,
        }
    }

    /// Only the first round has it.
    fn is_short(&self, job: Job) -> bool {
        match job {
            Job::Unloaded(storm) | Job::Storm(storm) => storm.short,
            Job::Further(_) => self.further.iter().any(|further| further.short),
            _ => false,
        }
    }
}
