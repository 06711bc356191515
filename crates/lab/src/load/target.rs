//! Endpoints, data and workload, as the options say.

use super::connection::for_writing;
use super::live::show;
use super::nodes::LocalCluster;
use super::options::{Client, Distribution, Preference, TargetArgs};
use super::parse::Arm;
use crate::node_storage;
use anyhow::{Context, Result, ensure};
use helenus_load::client::endpoint::{Endpoint, Policy};
use helenus_load::client::{ClientKind, SchemaClient};
use helenus_load::report::machine::Machine;
use helenus_load::run::Progress;
use helenus_load::workload::any_workload::AnyWorkload;
use helenus_load::workload::keys::Keys;
use helenus_load::workload::kv::{KeyValue, Table};
use helenus_load::workload::script::{self, Script, ScriptWorkload};
use helenus_load::workload::ycsb::{UserTable, Ycsb};
use std::path::Path;
use std::sync::Arc;

/// Clients of the driver that fill a table.
const FILLING_CLIENTS: usize = 256;
/// Plain connections that do.
const FILLING_CONNECTIONS: usize = 64;

/// This machine, with the storage of the nodes if they are on it.
pub(super) async fn describe(cluster: Option<&LocalCluster>, anew: bool) -> Result<Machine> {
    let Some(cluster) = cluster else {
        ensure!(
            !anew,
            "--measure-storage needs nodes of `helenus cluster` on this machine: give one of the default \
             cluster's nodes with --contact"
        );
        return Ok(Machine::here(Path::new("/")));
    };
    let storage = node_storage::look(&cluster.dir, node_storage::measure(anew)).await?;
    Ok(Machine::here(&cluster.dir).with_storage(storage))
}

impl TargetArgs {
    /// The endpoints and the process ids given with them.
    pub(super) fn endpoints(&self) -> Result<Vec<(Endpoint, Option<u32>)>> {
        super::fits::check(&self.connection, self)?;
        let given = match self.arms.is_empty() {
            true => vec![Arm {
                name: self.contact_name(),
                contact_points: self.contact.clone(),
                pid: None,
            }],
            false => self.arms.clone(),
        };
        let mut endpoints: Vec<(Endpoint, Option<u32>)> = Vec::new();
        for arm in given {
            ensure!(
                endpoints.iter().all(|(other, _)| other.name != arm.name),
                "two arms are named {}",
                arm.name
            );
            let policy = match self.policy {
                Preference::TokenAware => Policy::TokenAware,
                Preference::RoundRobin => Policy::RoundRobin,
            };
            let mut endpoint = Endpoint::new(arm.name, arm.contact_points, policy);
            endpoint.connections_per_host = self.connections;
            self.connection.apply(&mut endpoint)?;
            if let Some(user) = &self.username {
                let password = std::env::var("HELENUS_LOAD_PASSWORD")
                    .context("--username needs the password in HELENUS_LOAD_PASSWORD")?;
                endpoint.credentials = Some((user.clone(), password));
            }
            endpoints.push((endpoint, arm.pid));
        }
        Ok(endpoints)
    }

    fn contact_name(&self) -> String {
        match &self.contact[..] {
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
            [] => "nothing".into(),
        }
    }

    pub(super) fn read_script(&self) -> Result<Option<Script>> {
        let Some(path) = &self.statements else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let script =
            script::parse(&text).with_context(|| format!("{} is wrong", path.display()))?;
        Ok(Some(script))
    }

    /// Goes through the first endpoint: all of them are expected to lead to the same cluster.
    pub(super) async fn prepare_data(
        &self,
        endpoint: &Endpoint,
        script: Option<&Script>,
    ) -> Result<()> {
        if self.no_fill {
            return Ok(());
        }
        let endpoint = &for_writing(endpoint);
        let client = self.client_kind();
        if let (Some(script), Some(path)) = (script, &self.statements) {
            let done = script.set_up(endpoint, client).await;
            return done.with_context(|| format!("{}: @setup failed", path.display()));
        }
        let progress = Arc::new(Progress::default());
        let filling = format!("filling {} rows", self.keys);
        let mut schema = SchemaClient::open(endpoint, client).await?;
        if self.ycsb.is_some() {
            let table = self.user_table();
            for text in table.definitions()? {
                schema.execute(&text).await?;
            }
            let shown = show(progress.clone(), filling);
            table.fill_as(client, endpoint, progress).await?;
            shown.stop();
        } else {
            let table = self.table();
            for text in table.definitions()? {
                schema.execute(&text).await?;
            }
            let shown = show(progress.clone(), filling);
            let clients = match self.client {
                Client::Driver => FILLING_CLIENTS,
                Client::Raw => FILLING_CONNECTIONS,
            };
            table.fill_as(client, endpoint, clients, progress).await?;
            shown.stop();
        }
        Ok(())
    }

    fn client_kind(&self) -> ClientKind {
        match self.client {
            Client::Driver => ClientKind::Driver,
            Client::Raw => ClientKind::Raw,
        }
    }

    /// With so many driver sessions or plain connections. `operations`: about as many as will follow.
    pub(super) async fn workload(
        &self,
        endpoint: &Endpoint,
        script: Option<&Script>,
        sessions: u32,
        operations: u64,
    ) -> Result<AnyWorkload> {
        let sessions = sessions as usize;
        let client = self.client_kind();
        if let (Some(script), Some(path)) = (script, &self.statements) {
            let opened = ScriptWorkload::open(client, endpoint, script, sessions).await;
            let opened = opened.with_context(|| format!("{} does not fit", path.display()))?;
            return Ok(AnyWorkload::Script(opened));
        }
        if let Some(core) = self.ycsb {
            let (table, shape) = (self.user_table(), core.shape());
            // YCSB allows for twice the inserts implied by its operation count.
            let inserts = (2.0 * shape.shares[2] * operations as f64) as u64;
            let opened = Ycsb::open(client, endpoint, &table, shape, inserts, sessions).await?;
            return Ok(AnyWorkload::Ycsb(opened));
        }
        let mut keys = match self.distribution {
            Distribution::Uniform => Keys::uniform(self.keys),
            Distribution::Zipfian => Keys::zipfian(self.keys),
            Distribution::Gaussian => Keys::gaussian(self.keys),
            Distribution::LogNormal => Keys::lognormal(self.keys),
            Distribution::Exponential => Keys::exponential(self.keys),
            Distribution::Latest => Keys::latest(self.keys),
        };
        if let Some(share) = self.hot_key {
            keys = keys.with_hot_key(share);
        }
        let table = self.table();
        let opened = KeyValue::open_as(client, endpoint, &table, keys, self.mix, sessions).await?;
        Ok(AnyWorkload::KeyValue(
            opened.with_range_rows(self.range_rows),
        ))
    }

    fn table(&self) -> Table {
        Table {
            keyspace: self.keyspace.clone(),
            table: "kv".into(),
            replication: self.replication,
            keys: self.keys,
            value_bytes: self.value_bytes,
        }
    }

    fn user_table(&self) -> UserTable {
        UserTable {
            keyspace: self.keyspace.clone(),
            replication: self.replication,
            records: self.keys,
        }
    }
}
