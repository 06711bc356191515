//! The rounds: cell after cell, and in each cell the arms in turn.

use super::cells::{Reads, SYNTHETIC};
use super::declared::Job;
use super::experiment::{Layouts, Nodes, Open};
use crate::experiments::experiment::Measured;
use crate::report::Report;
use anyhow::Result;
use scylla::statement::Consistency;
use std::ops::ControlFlow;

impl Layouts {
    pub(super) async fn run_rounds(
        &self,
        open: &[Open],
        nodes: &mut Option<&mut dyn Nodes>,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let experiment = self.declared(nodes.is_some());
        let measured = experiment.run(report, say, async |cell, round, report, say| {
            match cell.job {
                Job::Read(reads) => {
                    for arm in cell.turns(round) {
                        say(experiment.turn(cell, arm, round));
                        self.take_turn(arm, &reads, round, open, nodes, report)
                            .await?;
                    }
                }
                Job::Synthetic(at) => {
                    say(format!(
                        "round {}/{}: {}",
                        round + 1,
                        self.rounds,
                        cell.name
                    ));
                    let direct = self.arms[0].arm.endpoint.at(Consistency::One);
                    let phase = self.synthetic[at]
                        .measure(&direct, self.repetitions)
                        .await?;
                    report.add(SYNTHETIC, &cell.name, phase);
                }
            }
            Measured::Ok(ControlFlow::Continue(()))
        });
        measured.await?;
        self.correlate(report);
        Ok(())
    }

    async fn take_turn(
        &self,
        arm: usize,
        reads: &Reads,
        round: usize,
        open: &[Open],
        nodes: &mut Option<&mut dyn Nodes>,
        report: &mut Report,
    ) -> Result<()> {
        match nodes {
            Some(nodes) if reads.node_paused => {
                nodes.pause()?;
                let read = self.read(arm, &open[arm], reads, round, report).await;
                nodes.resume()?;
                read?;
                self.settle(&open[0], report).await;
                Ok(())
            }
            _ => self.read(arm, &open[arm], reads, round, report).await,
        }
    }
}
