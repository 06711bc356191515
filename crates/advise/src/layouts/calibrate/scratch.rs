//! The keyspace in which queries are timed: made for one run, and dropped when it ends.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use helenus_cql::quote_text;
use helenus_migrate::nodes::cluster::Cluster;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;
use scylla::value::CqlValue;

use super::queries::{DISTINCT_C, FILLER_BYTES, PARTITIONS, PER_A, Rows};

const PREFIX: &str = "helenus_calibrate_";
/// Rows of one batch, as of those that fill layouts.
const BATCH_ROWS: usize = 32;
/// How long rows stay in memory before they are written to files, from which most reads come.
const FLUSH_PERIOD: Duration = Duration::from_secs(2);
/// How long to wait for that after the last row.
const FLUSH_MAX: Duration = Duration::from_secs(8);
/// A DROP that takes longer has failed.
const DROP_MAX: Duration = Duration::from_secs(60);

pub(super) struct Scratch {
    keyspace: String,
}

impl Scratch {
    /// Creates keyspace and table. If that fails, nothing of them is left.
    pub(super) async fn create(cluster: &Cluster) -> Result<Scratch> {
        let number = RandomState::new().build_hasher().finish();
        let scratch = Scratch {
            keyspace: format!("{PREFIX}{number:016x}"),
        };
        let found: Vec<(String,)> = cluster
            .rows("SELECT data_center FROM system.local WHERE key = 'local'")
            .await?;
        let (data_center,) = found
            .into_iter()
            .next()
            .context("the node has no data center")?;
        // Not IF NOT EXISTS: nothing that others have made is ever used, or dropped.
        let create = format!(
            "CREATE KEYSPACE {} WITH replication = {{'class': 'NetworkTopologyStrategy', {}: 1}}",
            scratch.keyspace,
            quote_text(&data_center)
        );
        let created = cluster.session.query_unpaged(create, ()).await;
        let made = match created {
            Ok(_) => scratch.create_table(cluster).await,
            Err(error) if is_refusal(&error) => return Err(refused(error)),
            // A node may have created it all the same.
            Err(error) => Err(anyhow::Error::new(error)
                .context("the keyspace of the calibration could not be created")),
        };
        match made {
            Ok(()) => Ok(scratch),
            Err(error) => {
                scratch.drop(cluster).await?;
                Err(error)
            }
        }
    }

    async fn create_table(&self, cluster: &Cluster) -> Result<()> {
        // Known since 4.1.
        let found: Vec<(String,)> = cluster
            .rows(
                "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'system_schema' AND \
                 table_name = 'tables' AND column_name = 'allow_auto_snapshot'",
            )
            .await?;
        let no_snapshot = match found.is_empty() {
            true => "",
            false => " AND allow_auto_snapshot = false",
        };
        let create = format!(
            "CREATE TABLE {} (p int, a int, b int, c int, v bigint, filler blob, PRIMARY KEY (p, a, b, c)) WITH \
             comment = 'helenus layouts calibrate: may be dropped' AND memtable_flush_period_in_ms = {} AND \
             compaction = {{'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}}{no_snapshot}",
            self.table(),
            FLUSH_PERIOD.as_millis(),
        );
        cluster.run(&create).await
    }

    pub(super) fn table(&self) -> String {
        format!("{}.rows", self.keyspace)
    }

    /// Writes the rows batch by batch, with a pause after each. Returns the median time for one narrow row,
    /// in microseconds.
    pub(super) async fn fill(&self, cluster: &Cluster) -> Result<f64> {
        let mut times_us = Vec::new();
        for kind in Rows::ALL {
            let columns = match kind {
                Rows::Narrow => "(p, a, b, c, v) VALUES (?, ?, ?, ?, ?)",
                Rows::Wide => "(p, a, b, c, v, filler) VALUES (?, ?, ?, ?, ?, ?)",
            };
            let text = format!("INSERT INTO {} {columns}", self.table());
            let mut insert = cluster.session.prepare(text).await?;
            insert.set_is_idempotent(true);
            for partition in 0..PARTITIONS {
                // One partition after the other, so that each lies in few files.
                let rows: Vec<Vec<CqlValue>> = rows(kind, partition).collect();
                for rows in rows.chunks(BATCH_ROWS) {
                    let took = write(cluster, &insert, rows).await?;
                    if kind == Rows::Narrow && rows.len() == BATCH_ROWS {
                        times_us.push(took.as_secs_f64() * 1e6 / BATCH_ROWS as f64);
                    }
                    tokio::time::sleep(took).await;
                }
            }
        }
        times_us.sort_unstable_by(f64::total_cmp);
        let median = times_us.get(times_us.len() / 2).copied();
        median.context("no row was written")
    }

    /// Waits until the rows are in files. False if that could not be seen.
    pub(super) async fn flushed(&self, cluster: &Cluster) -> bool {
        let text = format!(
            "SELECT mebibytes FROM system_views.disk_usage WHERE keyspace_name = {} AND table_name = 'rows'",
            quote_text(&self.keyspace)
        );
        let begin = Instant::now();
        // The last writes are due then, on each node.
        tokio::time::sleep(FLUSH_PERIOD + Duration::from_millis(500)).await;
        while begin.elapsed() < FLUSH_MAX {
            for node in cluster.nodes() {
                let found: Result<Vec<(i64,)>> = cluster.rows_of(&node, &text).await;
                if found.is_ok_and(|rows| rows.iter().any(|(mebibytes,)| *mebibytes > 0)) {
                    return true;
                }
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        false
    }

    /// Drops the keyspace.
    pub(super) async fn drop(&self, cluster: &Cluster) -> Result<()> {
        let text = format!("DROP KEYSPACE IF EXISTS {}", self.keyspace);
        let dropped = tokio::time::timeout(DROP_MAX, cluster.run(&text)).await;
        let dropped = dropped.unwrap_or_else(|_| Err(anyhow!("not done in {DROP_MAX:?}")));
        dropped.with_context(|| {
            format!(
                "the keyspace of the calibration could not be dropped, and is not needed any more: run {text} \
                 with cqlsh"
            )
        })
    }
}

/// Keyspaces of runs that were killed, or are not done yet.
pub(super) async fn others(cluster: &Cluster) -> Result<Vec<String>> {
    let found: Vec<(String,)> = cluster
        .rows("SELECT keyspace_name FROM system_schema.keyspaces")
        .await?;
    let names = found.into_iter().map(|(name,)| name);
    Ok(names.filter(|name| name.starts_with(PREFIX)).collect())
}

/// True if a node has said that it does not create the keyspace, not if it said nothing or something failed.
fn is_refusal(error: &ExecutionError) -> bool {
    let ExecutionError::LastAttemptError(RequestAttemptError::DbError(said, _)) = error else {
        return false;
    };
    matches!(
        said,
        DbError::Unauthorized
            | DbError::Invalid
            | DbError::ConfigError
            | DbError::SyntaxError
            | DbError::AlreadyExists { .. }
    )
}

fn refused(error: ExecutionError) -> anyhow::Error {
    let is_unauthorized = matches!(
        error,
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Unauthorized, _))
    );
    let what = match is_unauthorized {
        true => {
            "the role may not create a keyspace, and the calibration needs one of its own for a minute. GRANT \
             CREATE ON ALL KEYSPACES to the role, name another with --user, or calibrate a cluster of the same \
             machines and take its file"
        }
        false => {
            "the calibration needs a keyspace of its own with one replica, and the cluster does not create it"
        }
    };
    anyhow::Error::new(error).context(what)
}

/// All rows of a partition.
fn rows(kind: Rows, partition: i32) -> impl Iterator<Item = Vec<CqlValue>> {
    (0..kind.distinct_a() * PER_A).map(move |number| {
        let mut noise = u64::from(number as u32) << 8 | u64::from(partition as u32);
        let mut next = || {
            noise = mix(noise);
            noise
        };
        let c = (next() % DISTINCT_C as u64) as i32;
        let keys = [kind.partition(partition), number / PER_A, number % PER_A, c];
        let mut row: Vec<CqlValue> = keys.map(CqlValue::Int).into();
        row.push(CqlValue::BigInt(number.into()));
        if kind == Rows::Wide {
            // Nothing can be compressed here, so that a block is one on disk as well.
            let words = (0..FILLER_BYTES.div_ceil(8)).flat_map(|_| next().to_le_bytes());
            row.push(CqlValue::Blob(words.take(FILLER_BYTES).collect()));
        }
        row
    })
}

/// SplitMix64.
fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

async fn write(
    cluster: &Cluster,
    insert: &PreparedStatement,
    rows: &[Vec<CqlValue>],
) -> Result<Duration> {
    let mut batch = Batch::new(BatchType::Unlogged);
    batch.set_is_idempotent(true);
    batch.set_consistency(Consistency::LocalOne);
    for _ in rows {
        batch.append_statement(insert.clone());
    }
    let begin = Instant::now();
    let written = cluster.session.batch(&batch, rows).await;
    written.context("cannot write rows of the calibration")?;
    Ok(begin.elapsed())
}

/// The version of a node.
pub(super) async fn version(cluster: &Cluster) -> Result<String> {
    let text = "SELECT release_version FROM system.local WHERE key = 'local'";
    let found: Vec<(String,)> = cluster.rows(Statement::new(text)).await?;
    Ok(found
        .into_iter()
        .next()
        .map(|(version,)| version)
        .unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_no_means_that_there_is_no_keyspace() {
        let said = |error| {
            let attempt = RequestAttemptError::DbError(error, String::new());
            is_refusal(&ExecutionError::LastAttemptError(attempt))
        };
        assert!(said(DbError::Unauthorized) && said(DbError::ConfigError));
        assert!(!said(DbError::ServerError) && !said(DbError::Overloaded));
        let lost = std::time::Duration::from_secs(1);
        assert!(!is_refusal(&ExecutionError::RequestTimeout(lost)));
    }

    #[test]
    fn filters_find_some_rows_of_each_slice() {
        let with = |kind: Rows, value: i32| {
            let is_it = |row: &Vec<CqlValue>| row[3].as_int() == Some(value);
            rows(kind, 0).filter(is_it).count()
        };
        for kind in Rows::ALL {
            let all = rows(kind, 0).count();
            assert_eq!(all as i32, kind.distinct_a() * PER_A);
            for value in 0..DISTINCT_C {
                let expected = all / DISTINCT_C as usize;
                let found = with(kind, value);
                assert!(
                    found > expected / 2 && found < expected * 2,
                    "{found} for {value}"
                );
            }
        }
    }
}
