//! Writes rows to layouts: statements prepared once, in unlogged batches of one partition each, which are
//! one mutation for every replica.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use helenus_rows::{Kind, Row, Table, TableName, Write, apart, batches, copy};
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::Mutex;

use super::work::Work;
use crate::catalogue::claim::Claim;
use crate::nodes::asked::Asked;
use crate::nodes::cluster::{Cluster, patiently};
use crate::nodes::row::Values;

/// Batches of one page in flight.
const BATCHES: usize = 16;
/// Kinds of statements to prepare; further ones are taken apart.
const KINDS_MAX: usize = 200;

pub(super) struct Writer<'a> {
    cluster: &'a Cluster,
    table: &'a Table,
    /// Full names.
    into: Vec<String>,
    work: &'a Work,
    claim: &'a Claim<'a>,
    /// One statement for each table.
    prepared: Mutex<HashMap<Kind, Arc<[PreparedStatement]>>>,
}

impl<'a> Writer<'a> {
    /// `into`: the tables of the layouts.
    pub(super) fn new(
        cluster: &'a Cluster,
        table: &'a Table,
        into: &[TableName],
        work: &'a Work,
        claim: &'a Claim<'a>,
    ) -> Writer<'a> {
        Writer {
            cluster,
            table,
            into: into.iter().map(TableName::to_cql).collect(),
            work,
            claim,
            prepared: Mutex::default(),
        }
    }

    /// Copies rows that were asked for at that time; neighbours are of one partition, as a rule.
    pub(super) async fn copy(&self, rows: &[Row], asked: Asked) -> Result<()> {
        let sent = batches(rows).into_iter().map(|batch| {
            // Each attempt anew: meanwhile values come nearer to their end, and some expire.
            patiently(move || async move {
                let age = asked.age()?;
                let copies = batch.iter().flat_map(|row| copy(self.table, row, age));
                let writes = self.of_few_kinds(copies.collect()).await;
                self.send_once(writes).await
            })
        });
        stream::iter(sent)
            .buffer_unordered(BATCHES)
            .try_collect()
            .await
    }

    /// Statements of a new kind are taken apart once there are many kinds.
    async fn of_few_kinds(&self, writes: Vec<Write>) -> Vec<Write> {
        let prepared = self.prepared.lock().await;
        let is_good =
            |write: &Write| prepared.len() < KINDS_MAX || prepared.contains_key(&write.kind);
        let parts = writes.into_iter().flat_map(|write| match is_good(&write) {
            true => vec![write],
            false => apart(self.table, write),
        });
        parts.collect()
    }

    /// Sends statements for one partition, as one mutation.
    pub(super) async fn send(&self, writes: Vec<Write>) -> Result<()> {
        patiently(|| self.send_once(writes.clone())).await
    }

    async fn send_once(&self, writes: Vec<Write>) -> Result<()> {
        if writes.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(self.work.level());
        batch.set_is_idempotent(true);
        let mut values: Vec<Values> = Vec::new();
        for write in writes {
            for statement in self.prepare(&write.kind).await?.iter() {
                batch.append_statement(statement.clone());
                values.push(Values(write.values.clone()));
            }
        }
        // A table that the other command empties or drops must not be written.
        self.claim.renew().await?;
        let done = self.cluster.session.batch(&batch, &values).await;
        done.map(|_| ())
            .with_context(|| format!("cannot write to {}", self.into.join(" and ")))
    }

    async fn prepare(&self, kind: &Kind) -> Result<Arc<[PreparedStatement]>> {
        let mut prepared = self.prepared.lock().await;
        if let Some(known) = prepared.get(kind) {
            return Ok(known.clone());
        }
        let mut statements = Vec::new();
        for into in &self.into {
            let text = kind.text(self.table, into);
            let statement = self.cluster.session.prepare(&*text).await;
            statements.push(statement.with_context(|| format!("cannot prepare: {text}"))?);
        }
        let statements: Arc<[PreparedStatement]> = statements.into();
        prepared.insert(kind.clone(), statements.clone());
        Ok(statements)
    }
}
