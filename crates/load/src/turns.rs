//! One cell, measured on several arms that take turns.
//!
//! Every round gives each arm the same measured time, in one piece or in slices; the order of the
//! arms moves on by one with each round and slice. So drift of the machine meets all arms alike.

use crate::measure::Phase;
use crate::process::Watched;
use crate::progress::Progress;
use crate::run::{Limit, Plan, Workload, take_closed, take_open};
use crate::spread::rotation;
use crate::taken::Taken;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Each client sends its next operation when the last one is answered.
    Closed,
    /// Operations a second at fixed moments, answered or not.
    Open(f64),
}

/// An arm's workload and the processes that are watched while it has its turn.
#[derive(Clone, Debug)]
pub struct Turn<W> {
    pub workload: Arc<W>,
    pub watched: Vec<Watched>,
}

#[derive(Clone, Debug)]
pub struct Turns {
    pub clients: usize,
    pub load: Load,
    /// Measured time of an arm in a round.
    pub time: Duration,
    /// Turns of an arm in a round.
    pub slices: usize,
    /// Before an arm's first turn of all.
    pub warmup_first: Duration,
    /// Before every other turn.
    pub warmup: Duration,
    pub seed: u64,
    pub progress: Arc<Progress>,
}

impl Turns {
    /// Runs a round and returns a phase for each arm. `say` hears whose turn it is.
    pub async fn round<W: Workload>(
        &self,
        arms: &[Turn<W>],
        round: usize,
        say: &mut dyn FnMut(usize),
    ) -> Vec<Phase> {
        let mut merged: Vec<Option<Taken>> = arms.iter().map(|_| None).collect();
        let slices = self.slices.max(1);
        for slice in 0..slices {
            for arm in rotation(arms.len(), round + slice) {
                say(arm);
                let mut plan = Plan::new(self.clients, Limit::Time(self.time / slices as u32));
                let is_first = round == 0 && slice == 0;
                plan.warmup = if is_first {
                    self.warmup_first
                } else {
                    self.warmup
                };
                // The same keys in the same order for every arm.
                plan.seed = self.seed.wrapping_add((round * slices + slice) as u64);
                plan.watched = arms[arm].watched.clone();
                plan.progress = self.progress.clone();
                let taken = take(&arms[arm].workload, self.load, &plan).await;
                match &mut merged[arm] {
                    Some(earlier) => earlier.merge(taken),
                    first => *first = Some(taken),
                }
            }
        }
        let pairs = arms.iter().zip(merged);
        pairs
            .filter_map(|(arm, taken)| Some(taken?.into_phase(&arm.workload.kinds())))
            .collect()
    }
}

pub async fn take<W: Workload>(workload: &Arc<W>, load: Load, plan: &Plan) -> Taken {
    match load {
        Load::Closed => take_closed(workload, plan).await,
        Load::Open(rate) => take_open(workload, rate, plan).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::ErrorKind;
    use rand_chacha::ChaCha8Rng;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Counting(AtomicU64);

    impl Workload for Counting {
        fn kinds(&self) -> Vec<&str> {
            vec!["count"]
        }

        async fn call(&self, _: usize, _: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(1)).await;
            (0, Ok(()))
        }
    }

    #[tokio::test]
    async fn arms_alternate_and_each_gets_its_whole_time() {
        let turns = Turns {
            clients: 2,
            load: Load::Closed,
            time: Duration::from_millis(60),
            slices: 3,
            warmup_first: Duration::from_millis(5),
            warmup: Duration::ZERO,
            seed: 1,
            progress: Arc::default(),
        };
        let arm = || Turn {
            workload: Arc::new(Counting::default()),
            watched: Vec::new(),
        };
        let arms = [arm(), arm()];
        let mut order = Vec::new();
        let phases = turns.round(&arms, 0, &mut |arm| order.push(arm)).await;
        assert_eq!(order, [0, 1, 1, 0, 0, 1]);
        assert_eq!(phases.len(), 2);
        for (arm, phase) in arms.iter().zip(&phases) {
            assert!(phase.seconds >= 0.06, "{phase:?}");
            let called = arm.workload.0.load(Ordering::Relaxed);
            assert!(
                phase.ops > 0 && phase.ops <= called,
                "{} of {called}",
                phase.ops
            );
        }
    }
}
