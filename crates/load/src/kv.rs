//! A key-value table: point reads and writes of opaque values.

use crate::endpoint::Endpoint;
use crate::failure::error_kind;
use crate::keys::Keys;
use crate::measure::ErrorKind;
use crate::run::{Limit, Plan, Progress, Workload, run_closed};
use anyhow::{Context, Result, bail, ensure};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The table and its data.
#[derive(Clone, Debug)]
pub struct Table {
    pub keyspace: String,
    pub table: String,
    /// Replicas of each row, by SimpleStrategy.
    pub replication: usize,
    pub keys: u64,
    pub value_bytes: usize,
}

impl Table {
    /// Creates keyspace and table if they are missing.
    pub async fn create(&self, session: &Session) -> Result<()> {
        create_keyspace(session, &self.keyspace, self.replication).await?;
        let Self {
            keyspace, table, ..
        } = self;
        session
            .query_unpaged(
                format!(
                    "CREATE TABLE IF NOT EXISTS {keyspace}.{table} (k bigint PRIMARY KEY, v blob)"
                ),
                (),
            )
            .await
            .with_context(|| format!("cannot create table {keyspace}.{table}"))?;
        Ok(())
    }

    /// Writes every key once, `clients` at a time.
    pub async fn fill(
        &self,
        endpoint: &Endpoint,
        clients: usize,
        progress: Arc<Progress>,
    ) -> Result<()> {
        let filling = KeyValue::open(endpoint, self, Keys::uniform(self.keys), 0.0, 1).await?;
        let filling = Arc::new(KeyValue {
            next: Some(AtomicU64::new(0)),
            ..filling
        });
        let plan = Plan {
            progress,
            ..Plan::new(clients, Limit::Ops(self.keys))
        };
        let phase = run_closed(&filling, &plan).await;
        ensure!(
            phase.errors.is_empty() && phase.ops == self.keys,
            "filling {}.{} failed: {:?}",
            self.keyspace,
            self.table,
            phase.errors
        );
        Ok(())
    }
}

/// Creates a keyspace with SimpleStrategy if it is missing.
pub async fn create_keyspace(session: &Session, keyspace: &str, replication: usize) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    ensure!(
        !keyspace.is_empty() && keyspace.chars().all(plain),
        "the keyspace name {keyspace:?} may only hold letters, digits and underscores"
    );
    session
        .query_unpaged(
            format!(
                "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
                 {{'class': 'SimpleStrategy', 'replication_factor': {replication}}}"
            ),
            (),
        )
        .await
        .with_context(|| format!("cannot create keyspace {keyspace}"))?;
    Ok(())
}

/// Reads and writes of a [`Table`] over one or more sessions, which stand for as many applications.
#[derive(Debug)]
pub struct KeyValue {
    applications: Arc<[Application]>,
    keys: Keys,
    value_bytes: usize,
    read_share: f64,
    /// Set while the table is filled: keys in order, writes only.
    next: Option<AtomicU64>,
}

#[derive(Debug)]
struct Application {
    session: Arc<Session>,
    read: PreparedStatement,
    write: PreparedStatement,
}

const READ: usize = 0;
const WRITE: usize = 1;

impl KeyValue {
    pub async fn open(
        endpoint: &Endpoint,
        table: &Table,
        keys: Keys,
        read_share: f64,
        sessions: usize,
    ) -> Result<Self> {
        let Table {
            keyspace,
            table: name,
            ..
        } = table;
        let mut applications = Vec::with_capacity(sessions);
        for _ in 0..sessions {
            let session = endpoint.connect().await?;
            let read = format!("SELECT v FROM {keyspace}.{name} WHERE k = ?");
            let write = format!("INSERT INTO {keyspace}.{name} (k, v) VALUES (?, ?)");
            applications.push(Application {
                read: prepare(&session, &read).await?,
                write: prepare(&session, &write).await?,
                session: Arc::new(session),
            });
        }
        if applications.is_empty() {
            bail!("at least one session is needed");
        }
        Ok(Self {
            applications: applications.into(),
            keys,
            value_bytes: table.value_bytes,
            read_share,
            next: None,
        })
    }

    /// The sessions in use, for workloads that share them.
    pub fn sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.applications
            .iter()
            .map(|application| &application.session)
    }

    /// The same sessions with another share of reads.
    pub fn with_read_share(&self, read_share: f64) -> Self {
        Self {
            applications: self.applications.clone(),
            keys: self.keys.clone(),
            value_bytes: self.value_bytes,
            read_share,
            next: None,
        }
    }
}

impl Workload for KeyValue {
    fn kinds(&self) -> &[&'static str] {
        &["read", "write"]
    }

    async fn call(&self, client: usize, rng: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let application = &self.applications[client % self.applications.len()];
        let Application {
            session,
            read,
            write,
        } = application;
        if let Some(next) = &self.next {
            let key = next.fetch_add(1, Ordering::Relaxed);
            let value = value_of(key, self.value_bytes, rng);
            return (WRITE, write_row(session, write, key, &value).await);
        }
        let key = self.keys.draw(rng);
        if rng.random::<f64>() < self.read_share {
            (READ, read_row(session, read, key, self.value_bytes).await)
        } else {
            let value = value_of(key, self.value_bytes, rng);
            (WRITE, write_row(session, write, key, &value).await)
        }
    }
}

pub(crate) async fn prepare(session: &Session, text: &str) -> Result<PreparedStatement> {
    let mut statement = session
        .prepare(text)
        .await
        .with_context(|| format!("cannot prepare: {text}"))?;
    statement.set_is_idempotent(true);
    Ok(statement)
}

async fn write_row(
    session: &Session,
    write: &PreparedStatement,
    key: u64,
    value: &[u8],
) -> Result<(), ErrorKind> {
    let done = session.execute_unpaged(write, (key as i64, value)).await;
    done.map(drop).map_err(|error| error_kind(&error))
}

/// Every value carries its key, so that an answer to somebody else's question is noticed.
async fn read_row(
    session: &Session,
    read: &PreparedStatement,
    key: u64,
    value_bytes: usize,
) -> Result<(), ErrorKind> {
    let answer = session
        .execute_unpaged(read, (key as i64,))
        .await
        .map_err(|error| error_kind(&error))?
        .into_rows_result()
        .map_err(|_| "unreadable answer")?;
    let row = answer
        .maybe_first_row::<(&[u8],)>()
        .map_err(|_| "unreadable answer")?;
    let Some((value,)) = row else {
        return Err("row missing");
    };
    let marked = value_bytes.min(8);
    if value.len() != value_bytes || value[..marked] != key.to_be_bytes()[8 - marked..] {
        return Err("wrong answer");
    }
    Ok(())
}

/// The key's last bytes, then random ones that compress equally badly in every arm.
fn value_of(key: u64, bytes: usize, rng: &mut impl Rng) -> Vec<u8> {
    let mut value = vec![0; bytes];
    rng.fill_bytes(&mut value);
    let marked = bytes.min(8);
    value[..marked].copy_from_slice(&key.to_be_bytes()[8 - marked..]);
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn values_carry_their_key_and_have_their_size() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let value = value_of(0x0102_0304_0506_0708, 12, &mut rng);
        assert_eq!(value.len(), 12);
        assert_eq!(value[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(value_of(0x0102_0304, 2, &mut rng), [3, 4]);
        assert!(value_of(9, 0, &mut rng).is_empty());
    }
}
