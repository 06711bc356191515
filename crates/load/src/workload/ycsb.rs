//! The core workloads A to F of YCSB, as its CQL binding runs them.
//!
//! Table, statements and distributions are those of YCSB 0.17: `usertable` has a text key and ten
//! text fields of 100 bytes; an update writes one field, a read reads all; keys are `user` and the
//! hash of the record's number; a scan reads 1 to 100 rows in token order; [`choice`] picks the
//! records. Differences: the Zipf distribution is sampled exactly rather than by Gray's
//! approximation, and statements run at the endpoint's consistency level (YCSB: QUORUM).

use crate::client::endpoint::Endpoint;
use crate::client::{ClientKind, Clients, SchemaClient};
use crate::measure::ErrorKind;
use crate::run::{Limit, Plan, Progress, client_rng, run_closed};
use crate::workload::Workload;
use crate::workload::fill::{ATTEMPTS, pause_before};
use crate::workload::kv::keyspace_definition;
use anyhow::{Result, ensure};
use choice::{Choice, Inserts, fnv_hash};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

mod choice;

pub use choice::RequestDistribution;

const FIELDS: usize = 10;
pub const FIELD_BYTES: usize = 100;
pub const SCAN_ROWS_MAX: i32 = 100;
/// Clients that fill the table: rows are ten times as large as those of the key-value table.
const FILL_CLIENTS: usize = 64;

/// A core workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    A,
    B,
    C,
    D,
    E,
    F,
}

/// Shares of the operations, in the order of [`KINDS`], and how records are picked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub shares: [f64; 5],
    pub request: RequestDistribution,
}

pub const KINDS: [&str; 5] = ["read", "update", "insert", "scan", "read-modify-write"];
pub(crate) const READ: usize = 0;
const UPDATE: usize = 1;
const INSERT: usize = 2;
pub(crate) const SCAN: usize = 3;

impl Core {
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "a" => Self::A,
            "b" => Self::B,
            "c" => Self::C,
            "d" => Self::D,
            "e" => Self::E,
            "f" => Self::F,
            _ => return None,
        })
    }

    pub fn shape(self) -> Shape {
        let (shares, request) = match self {
            Self::A => ([0.5, 0.5, 0.0, 0.0, 0.0], RequestDistribution::Zipfian),
            Self::B => ([0.95, 0.05, 0.0, 0.0, 0.0], RequestDistribution::Zipfian),
            Self::C => ([1.0, 0.0, 0.0, 0.0, 0.0], RequestDistribution::Zipfian),
            Self::D => ([0.95, 0.0, 0.05, 0.0, 0.0], RequestDistribution::Latest),
            Self::E => ([0.0, 0.0, 0.05, 0.95, 0.0], RequestDistribution::Zipfian),
            Self::F => ([0.5, 0.0, 0.0, 0.0, 0.5], RequestDistribution::Zipfian),
        };
        Shape { shares, request }
    }
}

impl Shape {
    fn draw(&self, rng: &mut impl Rng) -> usize {
        let mut point = rng.random::<f64>();
        for (kind, share) in self.shares.iter().enumerate() {
            if point < *share {
                return kind;
            }
            point -= share;
        }
        // Reached only through rounding.
        self.shares
            .iter()
            .position(|&share| share > 0.0)
            .unwrap_or(READ)
    }
}

/// `usertable` in a keyspace.
#[derive(Clone, Debug)]
pub struct UserTable {
    pub keyspace: String,
    /// Replicas of each row, by SimpleStrategy.
    pub replication: usize,
    pub records: u64,
}

impl UserTable {
    /// Creates keyspace and table if they are missing.
    pub async fn create(&self, endpoint: &Endpoint) -> Result<()> {
        let mut client = SchemaClient::open(endpoint, ClientKind::Driver).await?;
        for text in self.definitions()? {
            client.execute(&text).await?;
        }
        Ok(())
    }

    /// CQL that creates keyspace and table if they are missing.
    pub fn definitions(&self) -> Result<[String; 2]> {
        let fields = (0..FIELDS).map(|field| format!(", field{field} varchar"));
        let keyspace = &self.keyspace;
        let table = format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.usertable (y_id varchar PRIMARY KEY{})",
            fields.collect::<String>()
        );
        Ok([keyspace_definition(keyspace, self.replication)?, table])
    }

    /// Inserts every record once; what fails is tried again.
    pub async fn fill(&self, endpoint: &Endpoint, progress: Arc<Progress>) -> Result<()> {
        self.fill_as(ClientKind::Driver, endpoint, progress).await
    }

    /// [`Self::fill`] with clients of this kind, plain ones with a connection each.
    pub async fn fill_as(
        &self,
        client: ClientKind,
        endpoint: &Endpoint,
        progress: Arc<Progress>,
    ) -> Result<()> {
        let shape = Shape {
            shares: [0.0, 0.0, 1.0, 0.0, 0.0],
            request: RequestDistribution::Uniform,
        };
        let empty = UserTable {
            records: 0,
            ..self.clone()
        };
        let sessions = client.sessions(FILL_CLIENTS);
        let mut filling = Ycsb::open(client, endpoint, &empty, shape, 0, sessions).await?;
        filling.insert_attempts = ATTEMPTS;
        let plan = Plan {
            progress,
            ..Plan::new(FILL_CLIENTS, Limit::Ops(self.records))
        };
        let phase = run_closed(&Arc::new(filling), &plan).await;
        ensure!(
            phase.errors.is_empty() && phase.ops == self.records,
            "filling {}.usertable failed: {:?}",
            self.keyspace,
            phase.errors
        );
        Ok(())
    }
}

#[derive(Debug)]
pub struct Ycsb {
    clients: Arc<Clients>,
    shape: Shape,
    choice: Choice,
    inserts: Arc<Inserts>,
    scan_rows_max: i32,
    /// More than one only while the table is filled.
    insert_attempts: u32,
}

/// Indices of the prepared statements; the update of field `n` is `UPDATE_FIRST + n`.
const SELECT_ONE: usize = 0;
const INSERT_ONE: usize = 1;
const SELECT_FROM: usize = 2;
const UPDATE_FIRST: usize = 3;

impl Ycsb {
    /// `inserts_expected`: records that the run will add, which YCSB derives from its operation
    /// count. The popular records of the Zipf distribution are spread over them too.
    pub async fn open(
        client: ClientKind,
        endpoint: &Endpoint,
        table: &UserTable,
        shape: Shape,
        inserts_expected: u64,
        sessions: usize,
    ) -> Result<Self> {
        let name = format!("{}.usertable", table.keyspace);
        let fields: Vec<String> = (0..FIELDS).map(|field| format!("field{field}")).collect();
        let mut statements = vec![
            format!("SELECT * FROM {name} WHERE y_id = ? LIMIT 1"),
            format!(
                "INSERT INTO {name} (y_id, {}) VALUES (?{})",
                fields.join(", "),
                ", ?".repeat(FIELDS)
            ),
            format!("SELECT * FROM {name} WHERE token(y_id) >= token(?) LIMIT ?"),
        ];
        let update = |field: &String| format!("UPDATE {name} SET {field} = ? WHERE y_id = ?");
        statements.extend(fields.iter().map(update));
        let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
        let clients = Clients::open(endpoint, client, &statements, sessions).await?;
        Ok(Self {
            clients: Arc::new(clients),
            shape,
            choice: Choice::new(shape.request, table.records + inserts_expected),
            inserts: Arc::new(Inserts::after(table.records)),
            scan_rows_max: SCAN_ROWS_MAX,
            insert_attempts: 1,
        })
    }

    /// Results are read in pages of so many rows. Only before the sessions are shared.
    pub fn paged(mut self, rows: i32) -> Self {
        if let Some(clients) = Arc::get_mut(&mut self.clients) {
            clients.set_page_rows(rows);
        }
        self
    }

    /// These sessions with another maximum of rows per scan; the default is YCSB's, 100.
    pub fn with_scan_rows(mut self, max: i32) -> Self {
        self.scan_rows_max = max.max(1);
        self
    }

    /// Another workload over the same sessions. It sees the records that this one has inserted.
    pub fn with_shape(&self, shape: Shape, inserts_expected: u64) -> Self {
        let records = self.inserts.visible();
        Self {
            clients: self.clients.clone(),
            shape,
            choice: Choice::new(shape.request, records + inserts_expected),
            inserts: self.inserts.clone(),
            scan_rows_max: self.scan_rows_max,
            insert_attempts: 1,
        }
    }

    /// Keys and numbers of rows that requests would have, for a client elsewhere.
    pub(crate) fn draw_requests(&self, seed: u64, count: usize) -> Vec<(String, i32)> {
        let mut rng = client_rng(seed, 0);
        let mut draw = || {
            let record = self.choice.draw(self.inserts.visible(), &mut rng);
            (key_of(record), scan_rows(self.scan_rows_max, &mut rng))
        };
        (0..count).map(|_| draw()).collect()
    }

    async fn read(&self, client: usize, record: u64) -> Result<(), ErrorKind> {
        let key = key_of(record);
        let response = self
            .clients
            .execute(client, SELECT_ONE, &[key.as_bytes()])
            .await?;
        check_row(response.cell(0), &key)
    }

    async fn update(
        &self,
        client: usize,
        record: u64,
        rng: &mut impl Rng,
    ) -> Result<(), ErrorKind> {
        let (key, value) = (key_of(record), text(rng));
        let statement = UPDATE_FIRST + rng.random_range(0..FIELDS);
        let values: [&[u8]; 2] = [&value, key.as_bytes()];
        self.clients
            .execute(client, statement, &values)
            .await
            .map(drop)
    }

    async fn insert(&self, client: usize, rng: &mut impl Rng) -> Result<(), ErrorKind> {
        let number = self.inserts.begin();
        let key = key_of(number);
        let fields: Vec<Vec<u8>> = (0..FIELDS).map(|_| text(rng)).collect();
        let mut values: Vec<&[u8]> = vec![key.as_bytes()];
        values.extend(fields.iter().map(Vec::as_slice));
        let mut attempt = 1;
        let outcome = loop {
            let outcome = self.clients.execute(client, INSERT_ONE, &values).await;
            if outcome.is_ok() || attempt == self.insert_attempts {
                break outcome.map(drop);
            }
            pause_before(attempt).await;
            attempt += 1;
        };
        // Even after a failure, as in YCSB: otherwise one failure would stop the growth for good.
        self.inserts.end(number);
        outcome
    }

    async fn scan(&self, client: usize, record: u64, rng: &mut impl Rng) -> Result<(), ErrorKind> {
        let key = key_of(record);
        let rows = scan_rows(self.scan_rows_max, rng).to_be_bytes();
        let values: [&[u8]; 2] = [key.as_bytes(), &rows];
        let response = self.clients.execute(client, SELECT_FROM, &values).await?;
        check_row(response.cell(0), &key)
    }
}

fn scan_rows(max: i32, rng: &mut impl Rng) -> i32 {
    rng.random_range(1..=max)
}

fn check_row(key_cell: Option<&[u8]>, key: &str) -> Result<(), ErrorKind> {
    match key_cell {
        Some(cell) if cell == key.as_bytes() => Ok(()),
        Some(_) => Err("wrong answer"),
        None => Err("row missing"),
    }
}

fn key_of(record: u64) -> String {
    format!("user{}", fnv_hash(record))
}

/// Printable, but random enough to compress badly.
fn text(rng: &mut impl Rng) -> Vec<u8> {
    let mut value = vec![0; FIELD_BYTES];
    rng.fill_bytes(&mut value);
    for byte in &mut value {
        *byte = b' ' + (*byte & 0x3f);
    }
    value
}

impl Workload for Ycsb {
    fn kinds(&self) -> Vec<&str> {
        KINDS.to_vec()
    }

    async fn call(&self, client: usize, rng: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let kind = self.shape.draw(rng);
        if kind == INSERT {
            return (kind, self.insert(client, rng).await);
        }
        let record = self.choice.draw(self.inserts.visible(), rng);
        let outcome = match kind {
            READ => self.read(client, record).await,
            UPDATE => self.update(client, record, rng).await,
            SCAN => self.scan(client, record, rng).await,
            _ => match self.read(client, record).await {
                Ok(()) => self.update(client, record, rng).await,
                failed => failed,
            },
        };
        (kind, outcome)
    }
}

#[cfg(test)]
mod tests;
