//! The cells of the experiment.

use super::documents::Collection;
use super::experiment::{Contender, Payload, Stored};
use super::rows::{Job, KINDS};
use crate::experiments::arms::describe;
use crate::experiments::experiment::Cell;
use crate::measure::{Phase, Recorder};
use crate::report::Report;
use std::time::Duration;

/// Further figures of the cell of sizes.
pub const DATA_BYTES: &str = "data_bytes";
pub const VALUE_BYTES: &str = "value_bytes";
pub(super) const DOCUMENT_BYTES: &str = "document_bytes";
pub(super) const ROWS: &str = "rows";
/// The size of an arm's data over that of plain JSON.
pub(super) const DATA_SHARE: &str = "data_share";
/// Further figures of the cell of codecs.
pub(super) const ENCODE_US: &str = "encode_us_per_kib";
pub(super) const ENCODE_UNVERIFIED_US: &str = "encode_unverified_us_per_kib";
pub(super) const DECODE_US: &str = "decode_us_per_kib";

/// What is measured in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Codecs by themselves, without a cluster.
    Codecs,
    /// Writes or reads of the collection with this number.
    Rows(usize, Job),
}

pub fn reads(collection: &str) -> String {
    format!("{collection}: reads")
}

pub fn writes(collection: &str) -> String {
    format!("{collection}: writes")
}

/// The cell of the tables' sizes on disk.
pub fn size(collection: &str) -> String {
    format!("{collection}: size")
}

/// CPU times of codecs, without a cluster.
pub(super) fn codecs(collection: &str) -> String {
    format!("{collection}: codecs")
}

/// The arm under which a codec's CPU times are reported.
pub(super) fn codec_arm(codec: &str) -> String {
    format!("codec-{codec}")
}

/// A phase of further figures only.
pub(super) fn figures<'a>(figures: impl IntoIterator<Item = (&'a str, f64)>) -> Phase {
    let mut phase = Recorder::new(KINDS.len()).into_phase(&KINDS, Duration::ZERO, None);
    let figures = figures.into_iter();
    phase.extra = figures.map(|(name, value)| (name.into(), value)).collect();
    phase
}

impl Payload {
    /// Of one round, in this order: reads find what the writes before them have stored.
    pub(super) fn cells(&self) -> Vec<Cell<Task>> {
        let mut cells = vec![Cell::of_all("codecs".into(), Task::Codecs, 0)];
        for (number, Collection { name, .. }) in self.collections.iter().map(|of| &**of).enumerate()
        {
            for (name, job) in [(writes(name), Job::Write), (reads(name), Job::Read)] {
                let task = Task::Rows(number, job);
                cells.push(Cell::of_all(name, task, self.arms.len()));
            }
        }
        cells
    }

    pub(super) fn describe(&self, report: &mut Report) {
        let settings = [
            ("clients", self.clients.to_string()),
            (
                "seconds per cell at most",
                self.cell_time.as_secs_f64().to_string(),
            ),
            ("slices of a cell", self.slices.to_string()),
        ];
        let endpoint = &self.arms[0].arm.endpoint;
        describe(report, endpoint, self.replication, self.seed, settings);
        for collection in &self.collections {
            let name = format!("collection {}", collection.name);
            report.settings.insert(name, describe_rows(collection));
        }
        for contender in &self.arms {
            let name = format!("arm {}", contender.arm.endpoint.name);
            report.settings.insert(name, describe_arm(contender));
        }
        for line in [
            "Every answer is compared with the documents that were written; a wrong one ends the run.",
            "A write replaces the documents of a random row by those of another, a read returns all columns \
             of a random row.",
            "Clients that encode verify each value, as Helenus does: each codec does the same work on \
             either side.",
            "Sizes are of the files of data (Data.db), after a flush and a major compaction; dictionaries, \
             which do not grow with the table, are listed beside.",
        ] {
            report.notes.push(line.into());
        }
    }
}

fn describe_rows(collection: &Collection) -> String {
    let (rows, columns) = (collection.rows.len(), collection.columns.len());
    let documents = (rows * columns).max(1);
    format!(
        "{rows} rows of {columns} documents, {} bytes each; learned from {} other rows",
        collection.bytes() / documents as u64,
        collection.samples.len()
    )
}

fn describe_arm(contender: &Contender) -> String {
    match &contender.stored {
        Stored::Plain => "plain JSON, stored as text".into(),
        Stored::ByClient(_) => "encoded by the client, stored as blob".into(),
        Stored::ByProxy(codec) => format!("text for clients, encoded by Helenus ({codec})"),
    }
}
