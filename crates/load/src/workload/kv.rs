//! A key-value table: point reads and writes of opaque values.

use crate::client::endpoint::Endpoint;
use crate::client::{ClientKind, Clients};
use crate::measure::ErrorKind;
use crate::run::{Limit, Plan, Progress, run_closed};
use crate::workload::Workload;
use crate::workload::fill::{ATTEMPTS, pause_before};
use crate::workload::keys::Keys;
use anyhow::{Context, Result, ensure};
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
        let done = session.query_unpaged(self.definition(), ()).await;
        done.with_context(|| format!("cannot create table {}.{}", self.keyspace, self.table))?;
        Ok(())
    }

    /// CQL that creates keyspace and table if they are missing.
    pub fn definitions(&self) -> Result<[String; 2]> {
        let keyspace = keyspace_definition(&self.keyspace, self.replication)?;
        Ok([keyspace, self.definition()])
    }

    fn definition(&self) -> String {
        let Self {
            keyspace, table, ..
        } = self;
        format!("CREATE TABLE IF NOT EXISTS {keyspace}.{table} (k bigint PRIMARY KEY, v blob)")
    }

    /// Writes every key once, `clients` at a time; what fails is tried again.
    pub async fn fill(
        &self,
        endpoint: &Endpoint,
        clients: usize,
        progress: Arc<Progress>,
    ) -> Result<()> {
        self.fill_as(ClientKind::Driver, endpoint, clients, progress)
            .await
    }

    /// [`Self::fill`] with clients of this kind, plain ones with a connection each.
    pub async fn fill_as(
        &self,
        client: ClientKind,
        endpoint: &Endpoint,
        clients: usize,
        progress: Arc<Progress>,
    ) -> Result<()> {
        let sessions = client.sessions(clients);
        let keys = Keys::uniform(self.keys);
        let filling =
            KeyValue::open_as(client, endpoint, self, keys, Mix::WRITES, sessions).await?;
        let filling = Arc::new(KeyValue {
            next: Some(Arc::new(AtomicU64::new(0))),
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
    let text = keyspace_definition(keyspace, replication)?;
    let done = session.query_unpaged(text, ()).await;
    done.with_context(|| format!("cannot create keyspace {keyspace}"))?;
    Ok(())
}

/// CQL that creates a keyspace with SimpleStrategy if it is missing.
pub(crate) fn keyspace_definition(keyspace: &str, replication: usize) -> Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    ensure!(
        !keyspace.is_empty() && keyspace.chars().all(plain),
        "the keyspace name {keyspace:?} may only hold letters, digits and underscores"
    );
    Ok(format!(
        "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
         {{'class': 'SimpleStrategy', 'replication_factor': {replication}}}"
    ))
}

/// Weights of the kinds of operation; only their ratios matter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    pub read: f64,
    pub write: f64,
    /// Reads of [`KeyValue::range_rows`] consecutive rows in token order.
    pub range: f64,
}

impl Mix {
    pub const READS: Mix = Mix::of_reads(1.0);
    pub const WRITES: Mix = Mix::of_reads(0.0);

    /// Reads and writes only.
    pub const fn of_reads(share: f64) -> Self {
        Self {
            read: share,
            write: 1.0 - share,
            range: 0.0,
        }
    }

    fn draw(self, rng: &mut impl Rng) -> usize {
        let point = rng.random::<f64>() * (self.read + self.write + self.range);
        if point < self.read {
            READ
        } else if point < self.read + self.write || self.range == 0.0 {
            WRITE
        } else {
            RANGE
        }
    }
}

/// Reads and writes of a [`Table`] over one or more sessions, one for each simulated application.
#[derive(Clone, Debug)]
pub struct KeyValue {
    clients: Arc<Clients>,
    keys: Keys,
    value_bytes: usize,
    mix: Mix,
    range_rows: i32,
    /// Set while the table is filled: keys in order, writes only.
    next: Option<Arc<AtomicU64>>,
}

pub const KINDS: [&str; 3] = ["read", "write", "range"];
/// Indices of the kinds of operation, and of their statements.
const READ: usize = 0;
const WRITE: usize = 1;
const RANGE: usize = 2;

impl KeyValue {
    /// Sends through sessions of the driver.
    pub async fn open(
        endpoint: &Endpoint,
        table: &Table,
        keys: Keys,
        mix: Mix,
        sessions: usize,
    ) -> Result<Self> {
        Self::open_as(ClientKind::Driver, endpoint, table, keys, mix, sessions).await
    }

    pub async fn open_as(
        client: ClientKind,
        endpoint: &Endpoint,
        table: &Table,
        keys: Keys,
        mix: Mix,
        sessions: usize,
    ) -> Result<Self> {
        let name = format!("{}.{}", table.keyspace, table.table);
        let read = format!("SELECT v FROM {name} WHERE k = ?");
        let write = format!("INSERT INTO {name} (k, v) VALUES (?, ?)");
        let range = format!("SELECT k, v FROM {name} WHERE token(k) >= token(?) LIMIT ?");
        let statements = [&*read, &*write, &*range];
        let clients = Clients::open(endpoint, client, &statements, sessions).await?;
        Ok(Self {
            clients: Arc::new(clients),
            keys,
            value_bytes: table.value_bytes,
            mix,
            range_rows: 100,
            next: None,
        })
    }

    /// The driver's sessions, for workloads that share them.
    pub fn sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.clients.sessions()
    }

    /// These sessions with another mix.
    pub fn with_mix(&self, mix: Mix) -> Self {
        Self {
            mix,
            ..self.clone()
        }
    }

    /// These sessions with another key distribution.
    pub fn with_keys(&self, keys: Keys) -> Self {
        Self {
            keys,
            ..self.clone()
        }
    }

    /// These sessions with another number of rows per range; the default is 100.
    pub fn with_range_rows(&self, range_rows: i32) -> Self {
        Self {
            range_rows,
            ..self.clone()
        }
    }

    async fn write(&self, client: usize, key: u64, rng: &mut impl Rng) -> Result<(), ErrorKind> {
        let value = value_of(key, self.value_bytes, rng);
        let cells: [&[u8]; 2] = [&key.to_be_bytes(), &value];
        self.clients.execute(client, WRITE, &cells).await.map(drop)
    }

    /// Every value carries its key, so that a response meant for another request is detected.
    pub(crate) async fn read(&self, client: usize, key: u64) -> Result<(), ErrorKind> {
        let response = self
            .clients
            .execute(client, READ, &[&key.to_be_bytes()])
            .await?;
        match response.cell(0) {
            Some(value) if is_value_of(key, value, self.value_bytes) => Ok(()),
            Some(_) => Err("wrong answer"),
            None => Err("row missing"),
        }
    }

    /// The first row must be the key's own. Fewer rows than the limit mean the end of the ring.
    async fn range(&self, client: usize, key: u64) -> Result<(), ErrorKind> {
        let (key_bytes, limit) = (key.to_be_bytes(), self.range_rows.to_be_bytes());
        let response = self
            .clients
            .execute(client, RANGE, &[&key_bytes, &limit])
            .await?;
        let (first, value) = (response.cell(0), response.cell(1));
        match (first, value) {
            (None, _) => Err("row missing"),
            (Some(first), Some(value))
                if first == key_bytes && is_value_of(key, value, self.value_bytes) =>
            {
                Ok(())
            }
            _ => Err("wrong answer"),
        }
    }
}

impl Workload for KeyValue {
    fn kinds(&self) -> Vec<&str> {
        KINDS.to_vec()
    }

    async fn call(&self, client: usize, rng: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        if let Some(next) = &self.next {
            let key = next.fetch_add(1, Ordering::Relaxed);
            let mut outcome = self.write(client, key, rng).await;
            for attempt in 1..ATTEMPTS {
                if outcome.is_ok() {
                    break;
                }
                pause_before(attempt).await;
                outcome = self.write(client, key, rng).await;
            }
            return (WRITE, outcome);
        }
        let key = self.keys.draw(rng);
        let kind = self.mix.draw(rng);
        let outcome = match kind {
            READ => self.read(client, key).await,
            WRITE => self.write(client, key, rng).await,
            _ => self.range(client, key).await,
        };
        (kind, outcome)
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

pub(crate) fn is_value_of(key: u64, value: &[u8], value_bytes: usize) -> bool {
    let marked = value_bytes.min(8);
    value.len() == value_bytes && value[..marked] == key.to_be_bytes()[8 - marked..]
}

/// The key's last bytes, then random ones that compress equally badly in every arm.
pub(crate) fn value_of(key: u64, bytes: usize, rng: &mut impl Rng) -> Vec<u8> {
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
        assert!(is_value_of(0x0102_0304_0506_0708, &value, 12));
        assert!(!is_value_of(0x0102_0304_0506_0709, &value, 12));
        assert!(!is_value_of(0x0102_0304_0506_0708, &value[..11], 12));
        assert!(!is_value_of(0x0102_0304_0506_0708, &[], 12));
    }

    #[test]
    fn kinds_are_drawn_in_their_proportions() {
        let mix = Mix {
            read: 6.0,
            write: 3.0,
            range: 1.0,
        };
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut seen = [0u32; 3];
        for _ in 0..100_000 {
            seen[mix.draw(&mut rng)] += 1;
        }
        for (seen, expected) in seen.into_iter().zip([60_000.0, 30_000.0, 10_000.0]) {
            // Six standard deviations.
            let slack = 6.0 * f64::sqrt(expected * (1.0 - expected / 1e5));
            assert!((f64::from(seen) - expected).abs() < slack, "seed 5: {seen}");
        }
        assert!((0..1000).all(|_| Mix::READS.draw(&mut rng) == READ));
        assert!((0..1000).all(|_| Mix::WRITES.draw(&mut rng) == WRITE));
    }
}
