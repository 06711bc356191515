//! Many clients increment one row by compare-and-set (a lightweight transaction).
//!
//! Each client sets the value it last saw plus one, on condition that the value is still the one it
//! saw; the answer to a refused attempt says what the value is now. Every success adds one, so after
//! the load the row must hold as many as there were successes. An attempt whose outcome nobody told
//! (a time-out) may have been carried out or not; such attempts are counted apart.

use crate::ask::{Asker, ClientKind};
use crate::endpoint::Endpoint;
use crate::failure::is_unknown;
use crate::kv::create_keyspace;
use crate::measure::ErrorKind;
use crate::run::Workload;
use anyhow::{Context, Result};
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::statement::{Consistency, Statement};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

pub const KINDS: [&str; 2] = ["applied", "refused"];
const APPLIED: usize = 0;
const REFUSED: usize = 1;

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
    asker: Asker,
    table: String,
    row: AtomicI64,
    /// What each client believes the value to be.
    seen: Vec<AtomicI64>,
    applied: AtomicU64,
    unknown: AtomicU64,
}

/// The books after a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    pub applied: u64,
    pub unknown: u64,
    pub value: u64,
}

impl Balance {
    /// Successes that the row does not show.
    pub fn lost(self) -> u64 {
        self.applied.saturating_sub(self.value)
    }

    /// Increments that neither a success nor an unknown outcome explains.
    pub fn surplus(self) -> u64 {
        self.value.saturating_sub(self.applied + self.unknown)
    }
}

impl Cas {
    pub async fn open(endpoint: &Endpoint, counters: &Counters, clients: usize) -> Result<Self> {
        let table = format!("{}.counters", counters.keyspace);
        let update = format!("UPDATE {table} SET v = ? WHERE k = ? IF v = ?");
        let asker = Asker::open(endpoint, ClientKind::Driver, &[&*update], 1).await?;
        Ok(Self {
            asker,
            table,
            row: AtomicI64::new(0),
            seen: (0..clients.max(1)).map(|_| AtomicI64::new(0)).collect(),
            applied: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
        })
    }

    /// Begins anew with a row of its own, at zero.
    pub async fn begin(&self, row: i64) -> Result<()> {
        self.row.store(row, Ordering::Relaxed);
        for seen in &self.seen {
            seen.store(0, Ordering::Relaxed);
        }
        self.applied.store(0, Ordering::Relaxed);
        self.unknown.store(0, Ordering::Relaxed);
        let session = self.asker.sessions().next().context("no session")?;
        // By the same means as the increments: a plain write's timestamp is not ordered with theirs.
        for text in [
            format!("DELETE FROM {} WHERE k = {row} IF EXISTS", self.table),
            format!(
                "INSERT INTO {} (k, v) VALUES ({row}, 0) IF NOT EXISTS",
                self.table
            ),
        ] {
            let done = session.query_unpaged(text.clone(), ()).await;
            done.with_context(|| format!("cannot execute: {text}"))?;
        }
        Ok(())
    }

    /// To be asked when no client is at work. Reads serially, which also settles what is under way.
    pub async fn balance(&self) -> Result<Balance> {
        let session = self.asker.sessions().next().context("no session")?;
        let row = self.row.load(Ordering::Relaxed);
        let mut read = Statement::new(format!("SELECT v FROM {} WHERE k = {row}", self.table));
        read.set_consistency(Consistency::Serial);
        let answer = session.query_unpaged(read, ()).await?.into_rows_result()?;
        let (value,) = answer.single_row::<(i64,)>()?;
        Ok(Balance {
            applied: self.applied.load(Ordering::Relaxed),
            unknown: self.unknown.load(Ordering::Relaxed),
            value: u64::try_from(value)?,
        })
    }
}

/// What an answer to a conditional update says: success, or the present value.
fn verdict(applied: Option<&[u8]>, value: Option<&[u8]>) -> Result<Option<i64>, ErrorKind> {
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
        let old = seen.load(Ordering::Relaxed);
        let (new, row) = (old + 1, self.row.load(Ordering::Relaxed));
        let cells = [new.to_be_bytes(), row.to_be_bytes(), old.to_be_bytes()];
        let cells: Vec<&[u8]> = cells.iter().map(|cell| &cell[..]).collect();
        let outcome = self.asker.ask(client, 0, &cells).await;
        let outcome = outcome.and_then(|answer| verdict(answer.cell(0), answer.cell(1)));
        match outcome {
            Ok(None) => {
                self.applied.fetch_add(1, Ordering::Relaxed);
                seen.store(new, Ordering::Relaxed);
                (APPLIED, Ok(()))
            }
            Ok(Some(now)) => {
                seen.store(now, Ordering::Relaxed);
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
    fn unknown_outcomes_may_have_happened_or_not() {
        let balance = |applied, unknown, value| {
            let books = Balance {
                applied,
                unknown,
                value,
            };
            (books.lost(), books.surplus())
        };
        assert_eq!(balance(10, 0, 10), (0, 0));
        assert_eq!(balance(10, 3, 10), (0, 0));
        assert_eq!(balance(10, 3, 13), (0, 0));
        assert_eq!(balance(10, 3, 14), (0, 1));
        assert_eq!(balance(10, 3, 8), (2, 0));
    }

    #[test]
    fn answers_say_success_or_the_present_value() {
        assert_eq!(verdict(Some(&[1]), None), Ok(None));
        assert_eq!(verdict(Some(&[0]), Some(&7i64.to_be_bytes())), Ok(Some(7)));
        assert_eq!(verdict(Some(&[0]), None), Err("row missing"));
        assert_eq!(verdict(None, None), Err("unreadable answer"));
        assert_eq!(verdict(Some(&[0]), Some(&[7])), Err("unreadable answer"));
    }
}
