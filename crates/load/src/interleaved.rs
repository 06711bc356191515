//! One cell, measured on several arms in turn.
//!
//! Every round gives each arm the same measured time, in one piece or in slices, and the order of
//! the arms rotates by one with each round and slice. So drift of the machine affects all arms
//! alike.

use crate::measure::Phase;
use crate::process::Watched;
use crate::progress::Progress;
use crate::recording::Recording;
use crate::report::spread::rotation;
use crate::run::{Limit, Plan, record_closed, record_open};
use crate::workload::Workload;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadModel {
    /// Each client sends its next operation when the previous one is answered.
    Closed,
    /// Operations per second, sent on a fixed schedule whether or not earlier ones are answered.
    Open(f64),
}

/// An arm's workload and the processes watched during its turns.
#[derive(Clone, Debug)]
pub struct ArmRun<W> {
    pub workload: Arc<W>,
    pub watched: Vec<Watched>,
}

#[derive(Clone, Debug)]
pub struct Interleaved {
    pub clients: usize,
    pub load: LoadModel,
    /// Measured time per arm and round.
    pub time: Duration,
    /// Turns per arm and round.
    pub slices: usize,
    /// Before an arm's very first turn.
    pub warmup_first: Duration,
    /// Before every other turn.
    pub warmup: Duration,
    pub seed: u64,
    pub progress: Arc<Progress>,
}

impl Interleaved {
    /// A closed loop whose arms are warm by half a second, and by a fifth of one in later turns.
    pub fn closed(clients: usize, time: Duration, slices: usize, seed: u64) -> Interleaved {
        Interleaved {
            clients,
            load: LoadModel::Closed,
            time,
            slices,
            warmup_first: Duration::from_millis(500),
            warmup: Duration::from_millis(200),
            seed,
            progress: Arc::default(),
        }
    }

    /// Runs a round and returns a phase for each arm. `on_turn` is called with the arm of each
    /// turn.
    pub async fn round<W: Workload>(
        &self,
        arms: &[ArmRun<W>],
        round: usize,
        on_turn: &mut dyn FnMut(usize),
    ) -> Vec<Phase> {
        let time = Limit::Time(self.time / self.slices.max(1) as u32);
        let phases = self.round_of_turns(arms, round, time, on_turn).await;
        phases.into_iter().flatten().collect()
    }

    /// [`Self::round`] with a limit for each turn. None for an arm that had no turn, because the run was
    /// stopped.
    pub async fn round_of_turns<W: Workload>(
        &self,
        arms: &[ArmRun<W>],
        round: usize,
        turn: Limit,
        on_turn: &mut dyn FnMut(usize),
    ) -> Vec<Option<Phase>> {
        let mut merged: Vec<Option<Recording>> = arms.iter().map(|_| None).collect();
        let slices = self.slices.max(1);
        for slice in 0..slices {
            for arm in rotation(arms.len(), round + slice) {
                if self.progress.is_stopped() {
                    continue;
                }
                on_turn(arm);
                let mut plan = Plan::new(self.clients, turn);
                let is_first = round == 0 && slice == 0;
                plan.warmup = if is_first {
                    self.warmup_first
                } else {
                    self.warmup
                };
                // Every arm gets the same keys in the same order.
                plan.seed = self.seed.wrapping_add((round * slices + slice) as u64);
                plan.watched = arms[arm].watched.clone();
                plan.progress = self.progress.clone();
                let recording = record(&arms[arm].workload, self.load, &plan).await;
                match &mut merged[arm] {
                    Some(earlier) => earlier.merge(recording),
                    first => *first = Some(recording),
                }
            }
        }
        let pairs = arms.iter().zip(merged);
        pairs
            .map(|(arm, recording)| Some(recording?.into_phase(&arm.workload.kinds())))
            .collect()
    }
}

pub async fn record<W: Workload>(workload: &Arc<W>, load: LoadModel, plan: &Plan) -> Recording {
    match load {
        LoadModel::Closed => record_closed(workload, plan).await,
        LoadModel::Open(rate) => record_open(workload, rate, plan).await,
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
    async fn arms_alternate_and_each_is_measured_for_its_full_time() {
        let interleaved = Interleaved {
            clients: 2,
            load: LoadModel::Closed,
            time: Duration::from_millis(60),
            slices: 3,
            warmup_first: Duration::from_millis(5),
            warmup: Duration::ZERO,
            seed: 1,
            progress: Arc::default(),
        };
        let arm = || ArmRun {
            workload: Arc::new(Counting::default()),
            watched: Vec::new(),
        };
        let arms = [arm(), arm()];
        let mut order = Vec::new();
        let phases = interleaved
            .round(&arms, 0, &mut |arm| order.push(arm))
            .await;
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
    #[tokio::test]
    async fn turns_end_after_their_operations_and_there_are_none_once_stopped() {
        let interleaved = Interleaved {
            clients: 2,
            load: LoadModel::Closed,
            time: Duration::ZERO,
            slices: 1,
            warmup_first: Duration::ZERO,
            warmup: Duration::ZERO,
            seed: 1,
            progress: Arc::default(),
        };
        let arms = [0, 1].map(|_| ArmRun {
            workload: Arc::new(Counting::default()),
            watched: Vec::new(),
        });
        let turn = Limit::Ops(7);
        let stop_at_second = &mut |arm| {
            if arm == 1 {
                interleaved.progress.stop();
            }
        };
        let phases = interleaved
            .round_of_turns(&arms, 0, turn, stop_at_second)
            .await;
        let ops: Vec<u64> = phases.iter().flatten().map(|phase| phase.ops).collect();
        assert_eq!(ops, [7, 0]);
        let phases = interleaved
            .round_of_turns(&arms, 1, turn, &mut |_| panic!("no turn"))
            .await;
        assert_eq!(phases, [None, None]);
    }
}
