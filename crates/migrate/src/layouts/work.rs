//! Which layouts a command is about, and how it fills and compares them.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use helenus_catalogue::Layout;
use helenus_rows::TableName;
use scylla::statement::Consistency;

use crate::catalogue::Known;
use crate::nodes::cluster::Cluster;

#[derive(Args)]
pub(super) struct Choice {
    /// KEYSPACE.TABLE
    pub table: TableName,
    /// Only this layout; may be repeated [default: all]
    #[arg(long = "layout", value_name = "NAME")]
    layouts: Vec<String>,
}

impl Choice {
    /// The chosen entries of the catalogue.
    pub(super) fn among(&self, known: &Known) -> Result<Vec<Layout>> {
        chosen(known, &self.layouts, &self.table)
    }
}

/// The entries with these names, or all; those whose table is not there count as wrong.
pub(super) fn chosen<N: AsRef<str>>(
    known: &Known,
    names: &[N],
    table: &TableName,
) -> Result<Vec<Layout>> {
    let entries = known.layouts();
    if entries.is_empty() {
        bail!("{table} has no layouts");
    }
    if names.is_empty() {
        return Ok(entries.to_vec());
    }
    let find = |name: &str| match known.layout(name) {
        Some(entry) => Ok(entry.clone()),
        None => {
            let all: Vec<&str> = entries.iter().map(|entry| &*entry.name).collect();
            bail!("{table} has no layout {name}, only {}", all.join(", "))
        }
    };
    names.iter().map(|name| find(name.as_ref())).collect()
}

#[derive(Args, Clone, Debug)]
pub(super) struct Work {
    /// Replicas that must answer each read and write: all, so that a layout has also what was written to
    /// one replica only, or a majority while nodes are away
    #[arg(long, value_enum, default_value = "all")]
    pub consistency: Level,
    /// Ranges of the ring that are read at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub parallel: u8,
    /// Rows to read in a second, at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rows_per_second: Option<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Level {
    All,
    Quorum,
}

impl Work {
    /// Fails if a node is away on which the work would fail, before anything has been changed.
    pub(super) async fn check_nodes(&self, cluster: &Cluster) -> Result<()> {
        let away = cluster.away().await;
        if matches!(self.consistency, Level::All) && !away.is_empty() {
            bail!(
                "{} cannot be reached, and each row is read from all of its replicas: wait until all nodes \
                 are up, or see --consistency quorum and what it does not guarantee",
                away.join(", ")
            );
        }
        Ok(())
    }

    /// True if rows that the table does not have may be deleted from a layout. A write that one replica alone has
    /// is seen by a read of a majority, or not; deleted with its own time from the layout, it would be
    /// lost there when the others get it.
    pub(super) fn may_delete(&self) -> bool {
        matches!(self.consistency, Level::All)
    }

    pub(super) fn level(&self) -> Consistency {
        match self.consistency {
            Level::All => Consistency::All,
            Level::Quorum => Consistency::Quorum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_all_replicas_were_asked_for_is_deleted() {
        for (consistency, may_delete) in [(Level::All, true), (Level::Quorum, false)] {
            let work = Work {
                consistency,
                parallel: 1,
                rows_per_second: None,
            };
            assert_eq!(work.may_delete(), may_delete);
        }
    }
}
