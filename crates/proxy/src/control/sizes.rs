//! How large tables are, as the node of the control connection estimates it for its own part of the ring
//! (`system.size_estimates`): what is predicted of scans that nothing is known of. Nodes estimate every
//! five minutes, from their files.
//!
//! A table at a time, over a connection that is there for nothing else, and for a limited time: what is
//! not known by then stays as it was. If the node does not tell, nothing else is missing.

use std::net::SocketAddr;
use std::time::Duration;

use helenus_policy::predict::{RING, TableSize};
use helenus_policy::ring::Ring;
use helenus_policy::token::Partitioner;
use helenus_wire::Version;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::config::Config;
use crate::conn::{ConnError, Dialer};
use crate::control::rows::{Rows, query};
use crate::process::Process;
use helenus_engine::snapshot::Snapshot;
use helenus_engine::snapshot::table_sizes::TableSizes;
use helenus_engine::upstream::connect::greeting::startup_options;

const EVERY: Duration = Duration::from_secs(600);
const TIME_MAX: Duration = Duration::from_secs(60);
const TABLES_MAX: usize = 4_096;

/// A query in progress, and when the last one began.
#[derive(Default)]
pub(super) struct Measuring {
    tasks: JoinSet<TableSizes>,
    begun: Option<Instant>,
}

impl Measuring {
    /// Asks a node, unless it was asked a while ago.
    pub(super) fn begin(&mut self, shared: &Process, node: SocketAddr, version: Version) {
        let now = Instant::now();
        let snapshot = shared.snapshot.load();
        let is_recent = self.begun.is_some_and(|begun| now < begun + EVERY);
        // Only there is it known what share of the ring a range is.
        let partitioner = snapshot.nodes().ring().map(Ring::partitioner);
        if is_recent || !self.tasks.is_empty() || partitioner != Some(Partitioner::Murmur3) {
            return;
        }
        self.begun = Some(now);
        let names = tables(&snapshot);
        let dialer = (**shared.dialer.load()).clone();
        let config = shared.settings.load_full();
        let known = snapshot.schema().sizes().clone();
        self.tasks.spawn(async move {
            let mut sizes = TableSizes::default();
            let asked = ask(&config, &dialer, node, version, &names, &mut sizes);
            match tokio::time::timeout(TIME_MAX, asked).await {
                Ok(Ok(())) => return sizes,
                Ok(Err(e)) => tracing::debug!(%node, "no sizes of tables: {e}"),
                Err(_) => tracing::debug!(%node, "the sizes of some tables took too long"),
            }
            merged(&known, &sizes, &names)
        });
    }

    /// A snapshot with other sizes, once the node has told; `None` immediately if no query is running.
    pub(super) async fn next(&mut self, shared: &Process) -> Option<Snapshot> {
        while let Some(ended) = self.tasks.join_next().await {
            let Ok(sizes) = ended else { continue };
            let snapshot = shared.snapshot.load_full();
            if sizes.is_empty() || sizes == **snapshot.schema().sizes() {
                continue;
            }
            tracing::debug!(tables = sizes.len(), "the sizes of tables are known");
            return Some(snapshot.successor().sizes(sizes).build());
        }
        None
    }
}

/// The sizes known before, with those that a node has told of some of these tables since.
fn merged(known: &TableSizes, told: &TableSizes, names: &[(String, String)]) -> TableSizes {
    let mut sizes = known.clone();
    for (keyspace, table) in names {
        if let Some(size) = told.get(keyspace, table) {
            sizes.insert(keyspace, table, size);
        }
    }
    sizes
}

/// Keyspaces and tables of users, up to a number.
fn tables(snapshot: &Snapshot) -> Vec<(String, String)> {
    let tables = snapshot.schema().tables();
    let of_users = tables.filter(|(keyspace, _)| !keyspace.starts_with("system"));
    of_users
        .map(|(keyspace, table)| (keyspace.to_owned(), table.to_owned()))
        .take(TABLES_MAX)
        .collect()
}

async fn ask(
    config: &Config,
    dialer: &Dialer,
    node: SocketAddr,
    version: Version,
    names: &[(String, String)],
    sizes: &mut TableSizes,
) -> Result<(), ConnError> {
    let mut conn = dialer.dial(node, version).await?;
    conn.open(
        &startup_options(&config.payload),
        config.control_token().as_deref(),
    )
    .await?;
    for (keyspace, table) in names {
        let cql = format!(
            "SELECT range_start, range_end, partitions_count, mean_partition_size \
             FROM system.size_estimates WHERE keyspace_name = '{keyspace}' AND table_name = '{table}'"
        );
        if let Some(size) = size_of(&query(&mut conn, &cql).await?) {
            sizes.insert(keyspace, table, size);
        }
    }
    Ok(())
}

/// The size of a table, from its ranges of one node.
fn size_of(rows: &Rows) -> Option<TableSize> {
    let (mut partitions, mut bytes, mut tokens) = (0_u64, 0_u64, 0_u64);
    for row in &rows.rows {
        let number = |name| -> Option<u64> {
            let cell = rows.cell(row, name)?.try_into().ok()?;
            u64::try_from(i64::from_be_bytes(cell)).ok()
        };
        let token = |name| rows.text(row, name)?.parse::<i64>().ok();
        let (start, end) = (token("range_start")?, token("range_end")?);
        let (count, mean) = (number("partitions_count")?, number("mean_partition_size")?);
        // A node that has all of the ring tells one range, from a token around to itself.
        let length = match end.wrapping_sub(start) as u64 {
            0 => RING,
            length => length,
        };
        partitions = partitions.saturating_add(count);
        bytes = bytes.saturating_add(count.saturating_mul(mean));
        tokens = tokens.saturating_add(length);
    }
    TableSize::of_sample(partitions, bytes, tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_engine::snapshot::SystemColumn;

    fn rows(ranges: &[(&str, &str, i64, i64)]) -> Rows {
        let names = [
            "range_start",
            "range_end",
            "partitions_count",
            "mean_partition_size",
        ];
        let column = |name: &str| SystemColumn {
            name: name.to_owned(),
            type_raw: Vec::new(),
        };
        let row = |(start, end, count, mean): &(&str, &str, i64, i64)| {
            let text = |text: &str| Some(text.as_bytes().to_vec());
            let number = |n: &i64| Some(n.to_be_bytes().to_vec());
            vec![text(start), text(end), number(count), number(mean)]
        };
        Rows {
            columns: names.map(column).to_vec(),
            rows: ranges.iter().map(row).collect(),
        }
    }

    #[test]
    fn ranges_of_one_node_stand_for_the_ring() {
        let eighth = i64::MAX / 4;
        let last = i64::MAX.to_string();
        let from = (i64::MAX - eighth).to_string();
        let end = eighth.to_string();
        let told = rows(&[
            ("0", &end, 1_000, 200),
            (&from, &last, 3_000, 1_000),
            // Nothing in files.
            ("-9223372036854775808", "-4611686018427387904", 0, 0),
        ]);
        let size = size_of(&told).expect("a size");
        assert!((7_990..8_010).contains(&size.partitions), "{size:?}");
        let bytes = 2 * (1_000 * 200 + 3_000 * 1_000);
        assert!(size.bytes.abs_diff(bytes) < bytes / 100, "{size:?}");
        let around = size_of(&rows(&[("5", "5", 70, 100)])).expect("a size");
        assert_eq!(around.partitions, 70);
        let wraps = size_of(&rows(&[(&last, "-9223372036854775807", 1, 1)]));
        assert!(wraps.is_some(), "a range may go over the end");
    }

    #[test]
    fn a_node_that_breaks_off_takes_nothing_away() {
        let size = |partitions| TableSize {
            partitions,
            bytes: 1_000,
        };
        let name = |table: &str| ("app".to_owned(), table.to_owned());
        let names = [name("a"), name("b"), name("c")];
        let (mut known, mut told) = (TableSizes::default(), TableSizes::default());
        known.insert("app", "a", size(1));
        known.insert("app", "b", size(2));
        told.insert("app", "a", size(10));
        let sizes = merged(&known, &told, &names);
        assert_eq!(sizes.get("app", "a"), Some(size(10)));
        assert_eq!(sizes.get("app", "b"), Some(size(2)), "not asked again");
        assert_eq!(sizes.get("app", "c"), None);
    }

    #[test]
    fn what_a_node_does_not_know_is_not_known() {
        assert_eq!(size_of(&Rows::default()), None);
        assert_eq!(size_of(&rows(&[("0", "10", 0, 0)])), None);
        for broken in [("a", "0", 1, 1), ("0", "1", -1, 1), ("0", "1", 1, -1)] {
            assert_eq!(size_of(&rows(&[broken])), None, "{broken:?}");
        }
        let most = size_of(&rows(&[("0", "1", i64::MAX, i64::MAX)]));
        assert!(most.is_some(), "nonsense does no harm");
    }
}
