//! The experiment `payload`: JSON documents stored as text, encoded by clients, and encoded by Helenus.
//!
//! It repeats the comparison of serializations of the paper on scaling under heavy load (user profiles of five
//! columns, 500 to 600 bytes each), and adds real collections of documents, a trained dictionary, a codec that
//! learns the documents' shape, and columns that stay text for clients.
//!
//! - **Alike for all arms.** The same documents, in tables that differ only in the type of their columns, the
//!   same driver and clients. Arms take turns in slices, in an order that rotates with each slice and round.
//! - **Right answers.** Rows are numbered, and each write gives a row the documents of another one. Every read
//!   is compared with what the writes so far may have stored, to the byte; a wrong answer ends the run. Before
//!   the first round each arm reads all rows, and the nodes are asked what is stored: where Helenus encodes
//!   there must be no text.
//! - **Disk.** What tables take is measured once, when they are filled, flushed and merged into one file each.
//! - **Codecs** are measured on the same documents without a cluster, once in each round.

use crate::experiments::arms::{Arm, TOKEN_AWARE};
use crate::experiments::prepare::turns;
use crate::interleaved::{Interleaved, LoadModel};
use crate::measure::Phase;
use crate::report::Report;
use crate::run::{Limit, Plan, run_closed};
use anyhow::{Context, Result, bail, ensure};
use cells::{
    DATA_BYTES, DECODE_US, DOCUMENT_BYTES, ENCODE_UNVERIFIED_US, ENCODE_US, ROWS, Task,
    VALUE_BYTES, codec_arm, codecs, figures, size,
};
use rows::{Job, MISSING, Rows, WRONG};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod cells;
mod declared;
mod documents;
mod experiment;
mod rows;
mod tables;

pub use cells::{
    DATA_BYTES as DATA_BYTES_FIGURE, VALUE_BYTES as VALUE_BYTES_FIGURE, reads as reads_cell,
    size as size_cell, writes as writes_cell,
};
pub use documents::Collection;
pub use experiment::{CodecTimes, Codecs, Coding, Contender, Disks, Payload, Stored};
pub use tables::{KEYSPACE, create, create_table, table_name};

/// One arm's turn in the warm-up before the first round.
const WARMUP_TURN: Duration = Duration::from_secs(1);
/// The shortest measured time of a slice.
const SLICE_MIN: Duration = Duration::from_millis(200);
/// Time for starting and ending a slice.
const SLICE_OVERHEAD: Duration = Duration::from_millis(20);

/// An arm's sessions, one for each collection.
pub struct Open(Vec<Rows>);

impl Payload {
    /// Connects all arms, fills the tables, has every arm read every row, and weighs what is stored. The tables
    /// must exist, and proxies must know of the columns that they encode.
    pub async fn prepare(
        &self,
        disks: &mut Option<&mut dyn Disks>,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<Vec<Open>> {
        self.check()?;
        self.describe(report);
        let mut all = Vec::new();
        for contender in &self.arms {
            let name = &contender.arm.endpoint.name;
            let mut open = Vec::new();
            for (number, collection) in self.collections.iter().enumerate() {
                say(format!("filling {}: {name}", collection.name));
                let rows = Rows::open(contender, collection, number).await;
                let rows = rows.with_context(|| name.clone())?;
                let filled = rows.fill(self.clients).await;
                filled.with_context(|| format!("filling {}: {name}", collection.name))?;
                open.push(rows);
            }
            all.push(Open(open));
        }
        for (contender, Open(open)) in self.arms.iter().zip(&all) {
            let name = &contender.arm.endpoint.name;
            for (collection, rows) in self.collections.iter().zip(open) {
                say(format!("checking {}: {name}", collection.name));
                let checked = rows.check(self.clients).await;
                checked.with_context(|| format!("checking {}: {name}", collection.name))?;
            }
        }
        if let Some(disks) = disks {
            say("compacting".into());
            disks.compact()?;
        }
        self.weigh(disks, report, say).await?;
        Ok(all)
    }

    /// Runs all rounds and fills `report`. `open` is what [`Self::prepare`] has returned.
    pub async fn run(
        &self,
        open: &[Open],
        codecs: &dyn Codecs,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        self.warm_up(open, say).await?;
        let experiment = self.declared(report);
        let mut cells_left = (experiment.cells.len() - 1) * self.rounds;
        let measured = experiment.measure(report, say, async |cell, round, report, say| {
            let is_late = round > 0 && self.is_late();
            let Task::Rows(collection, job) = cell.job else {
                if !is_late {
                    self.measure_codecs(codecs, round, report, say);
                }
                return Ok(ControlFlow::Continue(()));
            };
            let name = &cell.name;
            if is_late {
                return Ok(ControlFlow::Break(format!(
                    "The time was up in round {} at {name}: what would have come later is missing.",
                    round + 1
                )));
            }
            let plan = self.interleaved(cells_left);
            cells_left -= 1;
            // The round's writes are one further than those of the round before.
            let writes = round as u64 + 1;
            let rows = |arm: usize| Arc::new(open[arm].0[collection].with_job(job, writes));
            let phases = experiment.in_slices(&plan, cell, round, rows, report, say);
            let measured = phases.await?;
            for arm in self.arms().map(Arm::name) {
                for phase in report.phases(arm, name).iter().skip(round) {
                    refuse_wrong_answers(phase).with_context(|| format!("{arm}, {name}"))?;
                }
            }
            Ok(measured)
        });
        measured.await?;
        self.finish(report);
        Ok(())
    }

    async fn warm_up(&self, open: &[Open], say: &mut dyn FnMut(String)) -> Result<()> {
        for (arm, collection) in turns(self.warmup, WARMUP_TURN, open.len(), 0) {
            let name = &self.arms[arm].arm.endpoint.name;
            say(format!("warming up: {name}"));
            let Open(of_arm) = &open[arm];
            let rows = &of_arm[collection % of_arm.len()];
            let plan = Plan::new(self.clients, Limit::Time(WARMUP_TURN));
            let phase = run_closed(&Arc::new(rows.with_job(Job::Both, 0)), &plan).await;
            refuse_wrong_answers(&phase).with_context(|| format!("warming up: {name}"))?;
        }
        Ok(())
    }

    fn measure_codecs(
        &self,
        of: &dyn Codecs,
        round: usize,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) {
        for (number, collection) in self.collections.iter().enumerate() {
            for codec in of.names() {
                let name = &collection.name;
                say(format!("round {}: codec {codec}: {name}", round + 1));
                let times = of.measure(&codec, number);
                let phase = figures([
                    (ENCODE_US, times.encode_us),
                    (ENCODE_UNVERIFIED_US, times.encode_unverified_us),
                    (DECODE_US, times.decode_us),
                ]);
                report.add(&codec_arm(&codec), &codecs(name), phase);
            }
        }
    }

    /// Weighs the tables on disk, and their values by themselves.
    async fn weigh(
        &self,
        disks: &Option<&mut dyn Disks>,
        report: &mut Report,
        say: &mut dyn FnMut(String),
    ) -> Result<()> {
        let session = self.arms[0].arm.endpoint.connect().await?;
        for collection in &self.collections {
            for contender in &self.arms {
                let name = &contender.arm.endpoint.name;
                let table = table_name(&collection.name, name);
                say(format!("weighing {table}"));
                let values = tables::values(&session, &table).await?;
                let rows = collection.rows.len();
                ensure!(
                    values.rows == rows as u64,
                    "{table} has {} rows where {rows} were written",
                    values.rows
                );
                let is_encoded = values.text_bytes == 0 && values.blob_bytes > 0;
                ensure!(
                    is_encoded || matches!(contender.stored, Stored::Plain),
                    "{table} has {} bytes of text: its documents were not encoded",
                    values.text_bytes
                );
                let mut phase = figures([
                    (ROWS, rows as f64),
                    (DOCUMENT_BYTES, collection.bytes() as f64),
                    (VALUE_BYTES, (values.text_bytes + values.blob_bytes) as f64),
                ]);
                if let Some(disks) = disks {
                    let bytes = disks.data_bytes(&table)? as f64;
                    phase.extra.insert(DATA_BYTES.into(), bytes);
                }
                report.add(name, &size(&collection.name), phase);
            }
        }
        Ok(())
    }

    fn interleaved(&self, cells_left: usize) -> Interleaved {
        Interleaved {
            clients: self.clients,
            load: LoadModel::Closed,
            time: self.fitting_time(cells_left),
            slices: self.slices,
            warmup_first: self.cell_warmup,
            warmup: self.cell_warmup,
            seed: self.seed,
            progress: Arc::default(),
        }
    }

    fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// The configured time of a cell, or less if the remaining time, divided among the remaining cells, is
    /// less.
    fn fitting_time(&self, cells_left: usize) -> Duration {
        let Some(until) = self.until else {
            return self.cell_time;
        };
        let left = until.saturating_duration_since(Instant::now());
        let slices = self.slices.max(1) as u32;
        let turns = self.arms.len().max(1) * cells_left.max(1);
        let each = left.div_f64((turns * self.slices.max(1)) as f64);
        let slice = each.saturating_sub(self.cell_warmup + SLICE_OVERHEAD);
        let longest = self.cell_time / slices;
        slice.clamp(SLICE_MIN.min(longest), longest) * slices
    }

    fn check(&self) -> Result<()> {
        let names = self.arms().map(Arm::name);
        ensure!(
            names.clone().next() == Some(TOKEN_AWARE),
            "the first arm must be {TOKEN_AWARE}"
        );
        ensure!(!self.collections.is_empty(), "no documents to store");
        let mut tables = BTreeSet::new();
        for collection in &self.collections {
            ensure!(!collection.rows.is_empty(), "{} is empty", collection.name);
            for arm in names.clone() {
                let table = table_name(&collection.name, arm);
                if !tables.insert(table.clone()) {
                    bail!("two arms or files would share the table {table}: give them other names");
                }
            }
        }
        Ok(())
    }
}

/// Failed requests are counted; wrong answers make all figures worthless.
fn refuse_wrong_answers(phase: &Phase) -> Result<()> {
    for kind in [WRONG, MISSING] {
        if let Some(times) = phase.errors.get(kind) {
            bail!("{kind} ({times} times): documents do not come back as they were written");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
