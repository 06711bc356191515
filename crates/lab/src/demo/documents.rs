//! The demo's JSON documents: what they take on disk as text, and encoded by Helenus.

use super::progress::{done, step};
use crate::stored_documents::catalogue;
use crate::stored_documents::coding::learn_columns;
use crate::stored_documents::disks::OwnDisks;
use crate::testbed::Proxy;
use anyhow::{Context, Result};
use helenus_cluster::Cluster;
use helenus_console::terminal::spinner;
use helenus_load::client::endpoint::{Endpoint, Policy};
use helenus_load::experiments::arms::{Arm, TOKEN_AWARE};
use helenus_load::experiments::payload::{
    Collection, Contender, DATA_BYTES_FIGURE, Disks, Payload, Stored, create, create_table,
    size_cell, table_name,
};
use helenus_load::report::Report;
use helenus_load::report::machine::Machine;
use helenus_payload::Codec;
use std::sync::Arc;
use std::time::Duration;

const ENCODED: &str = "helenus-shape";
const ROWS: usize = 2_000;
const SAMPLES: usize = 1_000;
const CODEC: Codec = Codec::Shape;

/// Tables and catalogue, made before Helenus starts: then it knows of the columns from the start.
pub(super) struct Documents {
    payload: Payload,
    columns: usize,
}

impl Documents {
    pub(super) async fn create(nodes: &[String], replication: usize) -> Result<Self> {
        let bar = spinner("learning what user profiles look like");
        let collection = Arc::new(Collection::profiles(ROWS, SAMPLES, 1));
        let of_learning = collection.clone();
        let learning = tokio::task::spawn_blocking(move || learn_columns(&of_learning));
        let learned = learning.await.context("learning stopped")?;
        bar.set_message("creating their tables");
        let arms = vec![
            contender(TOKEN_AWARE, nodes, Stored::Plain),
            contender(ENCODED, nodes, Stored::ByProxy(CODEC.name().into())),
        ];
        let session = arms[0].arm.endpoint.connect().await?;
        create(&session, replication).await?;
        for arm in &arms {
            create_table(&session, &collection, &arm.arm.endpoint.name, &arm.stored).await?;
        }
        let cluster = catalogue::open(nodes).await?;
        let columns = catalogue::encode(&cluster, &collection, ENCODED, CODEC, &learned).await?;
        bar.finish_and_clear();
        Ok(Self {
            payload: payload(collection, arms, replication),
            columns,
        })
    }

    /// Stores the profiles directly and through Helenus, reads all of them, and looks at the nodes' disks.
    pub(super) async fn store(mut self, cluster: &Cluster, proxy: &Proxy) -> Result<()> {
        step(format!(
            "{ROWS} user profiles of five JSON documents, as text and encoded by Helenus"
        ));
        let bar = spinner("storing");
        catalogue::known(proxy.admin, self.columns).await?;
        self.payload.arms[1].arm.endpoint.contact_points = vec![proxy.address.to_string()];
        // A few rows are in the nodes' memory until they are flushed, and then in one file.
        let merges = false;
        let mut disks = OwnDisks { cluster, merges };
        let mut report = Report::new("demo", String::new(), Machine::default(), 1);
        let mut say = |line: String| bar.set_message(line);
        let mut disks: Option<&mut dyn Disks> = Some(&mut disks);
        let prepared = self.payload.prepare(&mut disks, &mut report, &mut say);
        prepared.await?;
        bar.finish_and_clear();
        let collection = &self.payload.collections[0];
        let mebibytes = |arm: &str| {
            let phase = report.phases(arm, &size_cell(&collection.name)).first();
            let bytes = phase.and_then(|phase| phase.extra.get(DATA_BYTES_FIGURE));
            bytes.copied().unwrap_or(f64::NAN) / f64::from(1 << 20)
        };
        done(format!(
            "{:.1} MiB on disk as text, {:.1} MiB encoded; every document came back to the byte",
            mebibytes(TOKEN_AWARE),
            mebibytes(ENCODED)
        ));
        Ok(())
    }
}

fn contender(name: &str, nodes: &[String], stored: Stored) -> Contender {
    Contender {
        arm: Arm {
            endpoint: Endpoint::new(name, nodes.to_vec(), Policy::TokenAware),
            proxy_pid: None,
            admin: None,
        },
        stored,
    }
}

/// Only what filling needs: no rounds are run.
fn payload(collection: Arc<Collection>, arms: Vec<Contender>, replication: usize) -> Payload {
    Payload {
        collections: vec![collection],
        arms,
        replication,
        rounds: 0,
        clients: 64,
        warmup: Duration::ZERO,
        cell_warmup: Duration::ZERO,
        cell_time: Duration::ZERO,
        slices: 1,
        until: None,
        watched: Vec::new(),
        seed: 1,
    }
}

/// The table whose columns Helenus encodes.
pub(super) fn encoded_table() -> String {
    let keyspace = helenus_load::experiments::payload::KEYSPACE;
    format!("{keyspace}.{}", table_name("profiles", ENCODED))
}
