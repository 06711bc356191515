//! Reads of copies: those that one copy answers never go back.

use std::collections::BTreeMap;

use super::super::World;
use crate::chaos::cassandra::Came;
use crate::chaos::coverage;
use crate::chaos::wide::{Row, Scan, all_rows};

/// Which copy has answered, and since which version it was in its state by then.
type By = (usize, u64);

/// What has been read, as far as it is known which copy has answered.
#[derive(Default)]
pub(in crate::chaos::world) struct ReadsOfCopies {
    /// By partition and the time at which its client has asked: whoever has carried it out.
    carried_out: BTreeMap<(i64, i64), Vec<By>>,
    /// Whose nodes have answered with an error.
    failed: BTreeMap<(i64, i64), Vec<usize>>,
    /// When reads of a row have ended, and when what they gave was written; the latest of each time.
    seen: BTreeMap<(By, i64, Row), Vec<(u64, i64)>>,
}

impl World {
    /// Nodes have answered reads.
    pub(in crate::chaos::world) fn note_copy_reads(&mut self) {
        for read in std::mem::take(&mut self.cluster.copy_reads) {
            let group = self
                .lists
                .as_ref()
                .and_then(|lists| lists.group_of(read.partition));
            let Some(list) = group.map(|group| group.list) else {
                continue;
            };
            let by = (read.copy, list.since(read.copy));
            let name = (read.partition, read.asked_us);
            let reads = &mut self.reads_of_copies;
            if read.came == Came::Error {
                reads.failed.entry(name).or_default().push(read.copy);
                continue;
            }
            reads.carried_out.entry(name).or_default().push(by);
            let failed = reads.failed.get(&name);
            if failed.is_some_and(|failed| failed.iter().any(|copy| *copy != read.copy)) {
                self.count(coverage::READ_AGAIN);
            }
        }
    }

    /// A read has been answered. Where two copies have carried it out nobody knows which one was believed.
    pub(in crate::chaos::world) fn judge_copy_read(
        &mut self,
        scan: &Scan,
        rows: &[(Row, i64)],
        more: bool,
        (begun_us, ended_us): (u64, u64),
    ) -> Result<(), String> {
        let partition = scan.partition;
        let carried_out = &self.reads_of_copies.carried_out;
        let by = match carried_out
            .get(&(partition, begun_us as i64))
            .map(Vec::as_slice)
        {
            Some([by]) => *by,
            _ => return Ok(()),
        };
        let is_whole = !more && scan.last.is_none() && scan.select.limit.is_none();
        for row in all_rows().filter(|row| scan.select.matches(row)) {
            let value = rows
                .iter()
                .find(|(of, _)| *of == row)
                .map(|(_, value)| *value);
            let seen = self
                .reads_of_copies
                .seen
                .entry((by, partition, row))
                .or_default();
            let before = seen.iter().filter(|(ended, _)| *ended < begun_us);
            let least = before.map(|(_, written)| *written).max();
            let written = value.and_then(|value| self.histories.time_of(partition, value));
            match (written, least) {
                (Some(written), Some(least)) if written < least => {
                    return Err(format!(
                        "copy {by:?} gives row {row:?} of {written}, and gave it of {least} before"
                    ));
                }
                (None, Some(least))
                    if is_whole && !self.histories.may_be_deleted(partition, &row, least) =>
                {
                    return Err(format!(
                        "copy {by:?} does not give row {row:?}, and gave it of {least} before"
                    ));
                }
                _ => {}
            }
            if let Some(written) = written
                && seen.iter().all(|(_, known)| *known < written)
            {
                seen.push((ended_us, written));
            }
        }
        Ok(())
    }
}
