//! Many clients increment one row by compare-and-set (a lightweight transaction).
//!
//! Each client writes the value it last saw plus one, on condition that the value has not changed.
//! It learns the value from the response to a rejected attempt, or reads it at SERIAL before each
//! attempt, as most applications do ([`Learns`]). Every success adds one, so at the
//! end the row must equal the number of successes. An attempt with an unknown outcome (a time-out)
//! may or may not have been applied; such attempts are counted separately.

use crate::client::endpoint::Endpoint;
use crate::client::failure::is_unknown;
use crate::client::{ClientKind, Clients};
use crate::measure::ErrorKind;
use crate::workload::Workload;
use crate::workload::kv::create_keyspace;
use anyhow::{Context, Result};
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

pub const KINDS: [&str; 2] = ["applied", "refused"];
const APPLIED: usize = 0;
const REFUSED: usize = 1;

/// How a client comes to know the current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learns {
    /// From the responses to its attempts.
    FromAttempts,
    /// By a read before each attempt.
    ByReading,
}

/// The table `counters` in a keyspace.
#[derive(Clone, Debug)]
pub struct Counters {
    pub keyspace: String,
    pub replication: usize,
}

impl Counters {
    /// Creates keyspace and table if they are missing.
    pub async fn create(&self, session: &Session) -> Result<()> {
        create_keyspace(session, &self.keyspace, self.replication).await?;
        let keyspace = &self.keyspace;
        let text = format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.counters (k bigint PRIMARY KEY, v bigint)"
        );
        let done = session.query_unpaged(text, ()).await;
        done.with_context(|| format!("cannot create table {keyspace}.counters"))?;
        Ok(())
    }
}

#[derive(Debug)]
pub struct Cas {
    clients: Clients,
    session: Arc<Session>,
    read: PreparedStatement,
    table: String,
    row: AtomicI64,
    reads: AtomicBool,
    /// The value each client last saw.
    seen: Vec<AtomicI64>,
    applied: AtomicU64,
    unknown: AtomicU64,
}

/// Successes and unknown outcomes against the value the row ended with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    pub applied: u64,
    pub unknown: u64,
    pub value: u64,
}

impl Balance {
    /// Successes missing from the row.
    pub fn lost(self) -> u64 {
        self.applied.saturating_sub(self.value)
    }

    /// Increments that neither a success nor an unknown outcome explains.
    pub fn surplus(self) -> u64 {
        self.value.saturating_sub(self.applied + self.unknown)
    }
}

impl Cas {
    pub async fn open(endpoint: &Endpoint, counters: &Counters, count: usize) -> Result<Self> {
        let table = format!("{}.counters", counters.keyspace);
        let update = format!("UPDATE {table} SET v = ? WHERE k = ? IF v = ?");
        let clients = Clients::open(endpoint, ClientKind::Driver, &[&*update], 1).await?;
        let session = clients.sessions().next().context("no session")?.clone();
        let text = format!("SELECT v FROM {table} WHERE k = ?");
        let mut read = session.prepare(&*text).await?;
        read.set_consistency(Consistency::Serial);
        Ok(Self {
            clients,
            session,
            read,
            table,
            row: AtomicI64::new(0),
            reads: AtomicBool::new(false),
            seen: (0..count.max(1)).map(|_| AtomicI64::new(0)).collect(),
            applied: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
        })
    }

    /// Resets the counts and starts over with this row at zero.
    pub async fn begin(&self, row: i64, learns: Learns) -> Result<()> {
        self.row.store(row, Ordering::Relaxed);
        let reads = learns == Learns::ByReading;
        self.reads.store(reads, Ordering::Relaxed);
        for seen in &self.seen {
            seen.store(0, Ordering::Relaxed);
        }
        self.applied.store(0, Ordering::Relaxed);
        self.unknown.store(0, Ordering::Relaxed);
        // Also conditional: a plain write's timestamp is not ordered with those of the increments.
        for text in [
            format!("DELETE FROM {} WHERE k = {row} IF EXISTS", self.table),
            format!(
                "INSERT INTO {} (k, v) VALUES ({row}, 0) IF NOT EXISTS",
                self.table
            ),
        ] {
            let done = self.session.query_unpaged(text.clone(), ()).await;
            done.with_context(|| format!("cannot execute: {text}"))?;
        }
        Ok(())
    }

    /// The current value, as a read that completes Paxos rounds in flight tells it.
    async fn read(&self) -> Result<i64> {
        let row = self.row.load(Ordering::Relaxed);
        let response = self.session.execute_unpaged(&self.read, (row,)).await?;
        Ok(response.into_rows_result()?.single_row::<(i64,)>()?.0)
    }

    /// Call it when no client is running.
    pub async fn balance(&self) -> Result<Balance> {
        Ok(Balance {
            applied: self.applied.load(Ordering::Relaxed),
            unknown: self.unknown.load(Ordering::Relaxed),
            value: u64::try_from(self.read().await?)?,
        })
    }
}

/// The outcome of a conditional update: `None` for success, otherwise the current value.
fn cas_result(applied: Option<&[u8]>, value: Option<&[u8]>) -> Result<Option<i64>, ErrorKind> {
    match (applied, value) {
        (Some([1]), _) => Ok(None),
        (Some([0]), Some(value)) => {
            let value = value.try_into().map_err(|_| "unreadable answer")?;
            Ok(Some(i64::from_be_bytes(value)))
        }
        (Some([0]), None) => Err("row missing"),
        _ => Err("unreadable answer"),
    }
}

impl Workload for Cas {
    fn kinds(&self) -> Vec<&str> {
        KINDS.to_vec()
    }

    async fn call(&self, client: usize, _: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let seen = &self.seen[client % self.seen.len()];
        if self.reads.load(Ordering::Relaxed) {
            match self.read().await {
                Ok(value) => seen.store(value, Ordering::Relaxed),
                Err(_) => return (REFUSED, Err("read failed")),
            }
        }
        let old = seen.load(Ordering::Relaxed);
        let (new, row) = (old + 1, self.row.load(Ordering::Relaxed));
        let cells = [new.to_be_bytes(), row.to_be_bytes(), old.to_be_bytes()];
        let cells: Vec<&[u8]> = cells.iter().map(|cell| &cell[..]).collect();
        let outcome = self.clients.execute(client, 0, &cells).await;
        let outcome = outcome.and_then(|response| cas_result(response.cell(0), response.cell(1)));
        match outcome {
            Ok(None) => {
                self.applied.fetch_add(1, Ordering::Relaxed);
                seen.store(new, Ordering::Relaxed);
                (APPLIED, Ok(()))
            }
            Ok(Some(current)) => {
                seen.store(current, Ordering::Relaxed);
                (REFUSED, Ok(()))
            }
            Err(error) => {
                if is_unknown(error) {
                    self.unknown.fetch_add(1, Ordering::Relaxed);
                }
                (REFUSED, Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_outcomes_may_or_may_not_have_been_applied() {
        let lost_and_surplus = |applied, unknown, value| {
            let balance = Balance {
                applied,
                unknown,
                value,
            };
            (balance.lost(), balance.surplus())
        };
        assert_eq!(lost_and_surplus(10, 0, 10), (0, 0));
        assert_eq!(lost_and_surplus(10, 3, 10), (0, 0));
        assert_eq!(lost_and_surplus(10, 3, 13), (0, 0));
        assert_eq!(lost_and_surplus(10, 3, 14), (0, 1));
        assert_eq!(lost_and_surplus(10, 3, 8), (2, 0));
    }

    #[test]
    fn responses_mean_success_or_carry_the_current_value() {
        assert_eq!(cas_result(Some(&[1]), None), Ok(None));
        assert_eq!(
            cas_result(Some(&[0]), Some(&7i64.to_be_bytes())),
            Ok(Some(7))
        );
        assert_eq!(cas_result(Some(&[0]), None), Err("row missing"));
        assert_eq!(cas_result(None, None), Err("unreadable answer"));
        assert_eq!(cas_result(Some(&[0]), Some(&[7])), Err("unreadable answer"));
    }
}
