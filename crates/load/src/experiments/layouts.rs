//! The experiment `layouts`: heterogeneous replicas against the best single layout and against what
//! Cassandra offers itself.
//!
//! It repeats the evaluation of the paper on heterogeneous replicas (TPC-H's `orders`, two queries, the
//! best single clustering order against several) and adds SAI indexes, materialized views and tables
//! copied by hand, writes, disk, QUORUM and a paused node.
//!
//! - **Alike for all arms.** The same orders, driver, clients, instances of queries and warm-up. Cells of the
//!   arms alternate, and the order of arms rotates with each round.
//! - **Right answers.** Each answer is compared with the one computed from the generated orders. First the
//!   instances are asked once at consistency ALL, as many as each arm answers in [`Layouts::check_time`]; from
//!   then on a wrong answer ends the run.
//! - **Declared and best order.** The paper declares (custkey, orderdate, clerk) and compares with the best
//!   order that an expert would choose. Both are arms; the latter is the baseline.

use crate::experiments::arms::{TOKEN_AWARE, check};
use crate::report::Report;
use anyhow::{Result, ensure};
use scylla::statement::Consistency;
use std::sync::Arc;
use writes::Writer;

mod cells;
mod declared;
mod experiment;
mod filling;
mod orders;
mod queries;
mod reading;
mod reads;
mod recovery;
mod rounds;
mod synthetic;
mod tables;
mod writes;

pub use cells::{DISK, DISK_BYTES};
pub use declared::{DECLARED, DERIVED, EQUAL_DISK, HAND_COPIED, LAYOUTS_KEYS, SAI, VIEWS};
pub use experiment::{Contender, Layouts, Nodes, Open};
pub use orders::{CLUSTERING, Order, Orders, PARTITION, clerk_name};
pub use queries::{Instance, Instances, KINDS, Kind};
pub use recovery::{
    FILLING_SECONDS, LOST_BYTES, Losses, REBUILD, RECOVERY, RECOVERY_KEYS, REPAIR, Rebuilt,
};
pub use synthetic::{Restriction, Synthetic};
pub use tables::{ClusteringOrder, Copies, Derived, Form, create, data_center, primary_key};

impl Layouts {
    /// Connects all arms and fills the tables, but for the orders that are written in the rounds.
    /// [`create`] must have been called, and proxies have been started since.
    pub async fn prepare(
        &self,
        nodes: &mut Option<&mut dyn Nodes>,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<Vec<Open>> {
        self.check()?;
        self.describe(report);
        let open = self.connect(say).await?;
        self.fill(&open, report, say).await?;
        let direct = &self.arms[0].arm.endpoint;
        synthetic::create(&self.synthetic, direct, self.replication, say).await?;
        self.count(self.filled(), say).await?;
        if let Some(nodes) = nodes.as_mut().filter(|_| self.compacts) {
            say("compacting".into());
            nodes.flush()?;
            nodes.compact()?;
        }
        Ok(open)
    }

    /// Fills the tables of [`Self::recover`].
    pub async fn fill_for_recovery(
        &self,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        self.check_recovery()?;
        self.describe_recovery(report);
        let open = self.connect(say).await?;
        self.fill(&open, report, say).await?;
        self.count(self.filled(), say).await
    }

    /// Connects all arms.
    async fn connect(&self, say: &mut dyn FnMut(String)) -> Result<Vec<Open>> {
        let mut open = Vec::new();
        for arm in &self.arms {
            let endpoint = &arm.arm.endpoint;
            say(format!("connecting to {}", endpoint.name));
            let mut readers = Vec::new();
            for &level in &self.levels {
                readers.push(self.reader(arm, level).await?);
            }
            let writer = match arm.writes {
                true => {
                    let endpoint = endpoint.at(Consistency::Quorum);
                    let copies = &self.copies[arm.copies];
                    Some(Arc::new(
                        Writer::open(&endpoint, copies, &self.orders).await?,
                    ))
                }
                false => None,
            };
            open.push(Open { readers, writer });
        }
        Ok(open)
    }

    /// Runs all rounds and fills `report`. `open` is what [`Self::prepare`] has returned.
    pub async fn run(
        &self,
        open: &[Open],
        nodes: &mut Option<&mut dyn Nodes>,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        self.write(open, report, say).await?;
        if let Some(nodes) = nodes {
            say("flushing".into());
            nodes.flush()?;
            self.weigh(*nodes, report)?;
        }
        self.check_answers(report, say).await?;
        self.warm_up(open, say).await?;
        self.run_rounds(open, nodes, report, say).await
    }

    fn check(&self) -> Result<()> {
        check(self.arms.iter().map(|of| &of.arm), &[TOKEN_AWARE])?;
        ensure!(!self.levels.is_empty(), "no consistency level is given");
        for (at, copies) in self.copies.iter().enumerate() {
            let writers = self
                .arms
                .iter()
                .filter(|arm| arm.writes && arm.copies == at);
            ensure!(writers.count() == 1, "{} needs one writer", copies.keyspace);
        }
        let measured = self.rounds * self.measured_rows;
        ensure!(
            measured < self.orders.rows.len(),
            "{measured} orders are to be written in the rounds, but there are only {}: raise --scale",
            self.orders.rows.len()
        );
        ensure!(!self.instances.0.is_empty(), "no instances of queries");
        Ok(())
    }
}

#[cfg(test)]
mod tests;
