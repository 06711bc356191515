//! What nodes are busy with, in runs in which work takes them time.

use helenus_wire::Opcode;

use super::{Event, World};
use crate::chaos::cassandra::{Health, asked_of};
use crate::chaos::coverage::Kind;
use crate::chaos::cql::Asked;
use crate::chaos::load::{Job, Load};
use crate::dice::Dice;

/// In one of so many runs nodes are busy, beside those with an aggressor.
const BUSY_RUNS: u64 = 8;

/// What nodes are busy with in a run, if they are.
pub(super) fn loads(seed: u64, nodes: usize) -> Vec<Load> {
    let mut dice = Dice::of(seed, 8, 0);
    if dice.below(BUSY_RUNS) > 0 {
        return Vec::new();
    }
    let slower = [10.0, 60.0][dice.below(2) as usize];
    (0..nodes).map(|_| Load::new(2, slower)).collect()
}

impl World {
    /// A message has come to a node.
    pub(super) fn arrive(&mut self, node: usize, job: Box<Job>) {
        if self.cluster.nodes[node].health == Health::Down {
            return;
        }
        if let Some(job) = self.loads[node].enter(job) {
            self.begin_work(node, job);
        }
    }

    fn begin_work(&mut self, node: usize, job: Box<Job>) {
        let asked = asked_of(&job.header, &job.body);
        let rows = match &asked {
            Some(
                Asked::Scan(above, up_to)
                | Asked::Filter(above, up_to)
                | Asked::Count(above, up_to),
            ) => self.cluster.keys_in(*above, *up_to).count(),
            _ => 1,
        };
        let kind = match Opcode::from_number(job.header.opcode) {
            Some(Opcode::Prepare) => Some(Kind::Prepare),
            Some(Opcode::Batch) => Some(Kind::Batch),
            _ => asked.map(|asked| asked.kind()),
        };
        let load = &self.loads[node];
        let (life, work_us) = (load.life, load.work_us(kind, rows, &mut self.dice));
        self.events.plan(work_us, Event::Work(node, life, job));
    }

    /// A thread of a node is done with a message, unless the node has begun anew since.
    pub(super) fn end_work(&mut self, node: usize, life: u32, job: Box<Job>) {
        if self.loads[node].life != life {
            return;
        }
        if let Health::Frozen(until_us) = self.cluster.nodes[node].health {
            let wait_us = until_us.saturating_sub(self.now_us()) + 1;
            return self.events.plan(wait_us, Event::Work(node, life, job));
        }
        if let Some(next) = self.loads[node].leave() {
            self.begin_work(node, next);
        }
        self.serve(job.connection, &job.header, &job.body);
    }
}
