//! Reading and writing rows of documents, each by its key.

use super::documents::Collection;
use super::experiment::{Coding, Contender, Stored};
use super::tables::{KEY, KEYSPACE, table_name};
use crate::client::{ClientKind, Clients, Response};
use crate::measure::ErrorKind;
use crate::workload::Workload;
use crate::workload::fill::fill;
use anyhow::{Context, Result, anyhow};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Index of a statement, and of its kind of operation.
const READ: usize = 0;
const WRITE: usize = 1;
pub(super) const KINDS: [&str; 2] = ["read", "write"];

pub(super) const WRONG: ErrorKind = "wrong answer";
pub(super) const MISSING: ErrorKind = "row missing";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Read,
    Write,
    /// Half of each.
    Both,
}

/// One arm's sessions with the table of a collection.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    clients: Arc<Clients>,
    collection: Arc<Collection>,
    /// If the client encodes.
    coding: Option<Arc<dyn Coding>>,
    job: Job,
    /// Number of writes to a row: that of a write, and the greatest that reads may find.
    writes: u64,
}

impl Rows {
    /// `number` is that of the collection.
    pub(super) async fn open(
        contender: &Contender,
        collection: &Arc<Collection>,
        number: usize,
    ) -> Result<Self> {
        let endpoint = &contender.arm.endpoint;
        let table = format!(
            "{KEYSPACE}.{}",
            table_name(&collection.name, &endpoint.name)
        );
        let names = collection.columns.join(", ");
        let markers = ", ?".repeat(collection.columns.len());
        let read = format!("SELECT {names} FROM {table} WHERE {KEY} = ?");
        let write = format!("INSERT INTO {table} ({KEY}, {names}) VALUES (?{markers})");
        let statements = [&*read, &*write];
        let clients = Clients::open(endpoint, ClientKind::Driver, &statements, 1).await?;
        let coding = match &contender.stored {
            Stored::Plain | Stored::ByProxy(_) => None,
            Stored::ByClient(codings) => {
                let coding = codings.get(number).cloned();
                Some(coding.context("the client has no coding for the collection")?)
            }
        };
        Ok(Self {
            clients: Arc::new(clients),
            collection: collection.clone(),
            coding,
            job: Job::Both,
            writes: 0,
        })
    }

    /// These sessions for another job. `writes`: the number of a write, and the greatest that reads may find.
    pub(super) fn with_job(&self, job: Job, writes: u64) -> Self {
        Self {
            job,
            writes,
            ..self.clone()
        }
    }

    /// Writes every row once; what fails is tried again.
    pub(super) async fn fill(&self, clients: usize) -> Result<()> {
        let rows = self.clone();
        fill(self.len(), clients, move |key| {
            let rows = rows.clone();
            async move { rows.write(0, key).await.map_err(|error| anyhow!(error)) }
        })
        .await
    }

    /// Reads every row once.
    pub(super) async fn check(&self, clients: usize) -> Result<()> {
        let rows = self.clone();
        fill(self.len(), clients, move |key| {
            let rows = rows.clone();
            async move {
                let read = rows.read(0, key).await;
                read.map_err(|error| anyhow!("row {key}: {error}"))
            }
        })
        .await
    }

    fn len(&self) -> u64 {
        self.collection.rows.len() as u64
    }

    async fn write(&self, client: usize, key: u64) -> Result<(), ErrorKind> {
        let documents = self.collection.row(key, self.writes);
        let key = key.to_be_bytes();
        let encoded: Vec<Vec<u8>>;
        let mut cells: Vec<&[u8]> = vec![&key];
        match &self.coding {
            None => cells.extend(documents.iter().map(String::as_bytes)),
            Some(coding) => {
                let documents = documents.iter().enumerate();
                let stored = documents.map(|(column, document)| {
                    let mut stored = Vec::with_capacity(document.len());
                    coding.encode(column, document, &mut stored);
                    stored
                });
                encoded = stored.collect();
                cells.extend(encoded.iter().map(Vec::as_slice));
            }
        }
        self.clients.execute(client, WRITE, &cells).await.map(drop)
    }

    /// The documents must be those that one of the writes so far has stored, to the byte.
    async fn read(&self, client: usize, key: u64) -> Result<(), ErrorKind> {
        let values: [&[u8]; 1] = [&key.to_be_bytes()];
        let response = self.clients.execute(client, READ, &values).await?;
        if response.rows == 0 {
            return Err(MISSING);
        }
        let found = self.documents(&response).ok_or(WRONG)?;
        match self.collection.was_written(key, self.writes, &found) {
            true => Ok(()),
            false => Err(WRONG),
        }
    }

    /// None if there is a null, or bytes that cannot be decoded.
    fn documents(&self, response: &Response) -> Option<Vec<Vec<u8>>> {
        let columns = 0..self.collection.columns.len();
        let document = |column| {
            let cell = response.cell(column)?;
            let Some(coding) = &self.coding else {
                return Some(cell.to_vec());
            };
            let mut out = String::new();
            let is_known = coding.decode(column, cell, &mut out);
            is_known.then(|| out.into_bytes())
        };
        columns.map(document).collect()
    }
}

impl Workload for Rows {
    fn kinds(&self) -> Vec<&str> {
        KINDS.to_vec()
    }

    async fn call(&self, client: usize, rng: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let key = rng.random_range(0..self.len().max(1));
        let is_read = match self.job {
            Job::Read => true,
            Job::Write => false,
            Job::Both => rng.random::<bool>(),
        };
        match is_read {
            true => (READ, self.read(client, key).await),
            false => (WRITE, self.write(client, key).await),
        }
    }
}
