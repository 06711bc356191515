//! What `create` makes, and what it copies, before proxies know of the copies.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use helenus_rows::{Table, TableName, literal};

use super::super::catalogue::{self, Entry, Partition};
use super::super::create_args::CreateArgs;
use super::super::following::copy_grants;
use super::super::work::Work;
use super::super::{backfill, definition, verdict};
use super::checks::{self, NewCopy};
use super::nodes;
use crate::online::cluster::Cluster;
use crate::online::reading::Reader;
use crate::online::settle::Settle;
use crate::online::{grants, table};

/// What has been done.
#[derive(Default)]
pub(super) struct Done {
    pub copied: u64,
    pub rows: Option<u64>,
    pub repaired: u64,
    /// How long it took from when the copies were to join until all were in sync.
    pub joined: Option<Duration>,
}

pub(super) struct Job<'a> {
    pub args: &'a CreateArgs,
    pub cluster: &'a Cluster,
    pub name: &'a TableName,
    pub copies: &'a [NewCopy],
    pub settle: Settle,
}

impl Job<'_> {
    /// Keyspaces and tables of copies that are not in the catalogue.
    pub(super) async fn make_tables(&self, table: &Table, known: &Partition) -> Result<()> {
        let (cluster, name) = (self.cluster, self.name);
        let options = definition::options(cluster, name).await?;
        let own = table::find_keyspace(cluster, &name.keyspace).await?;
        let durable = own.is_none_or(|(_, durable)| durable);
        for copy in self.copies {
            let is_known = known.entry(&copy.name).is_some();
            if let Some(other) = catalogue::original(cluster, &copy.table).await?
                && other != *name
            {
                bail!(
                    "{} holds a layout of {other}: choose another name for the layout",
                    copy.table
                );
            }
            self.make_keyspace(copy, durable).await?;
            if !is_known && !table::exists(cluster, &copy.table.keyspace, &copy.table.table).await?
            {
                let create = definition::create(table, &options, &copy.table, &copy.clustering);
                cluster.run(&create).await?;
            }
            let found = table::load(cluster, &copy.table).await?;
            if is_known {
                // What the table has got since is added later.
                if !table.has_keys_of(&found, &copy.clustering) {
                    checks::check_copy(table, &found, &copy.clustering)?;
                }
                continue;
            }
            checks::check_copy(table, &found, &copy.clustering)?;
            if super::has_rows(cluster, &copy.table).await? {
                bail!(
                    "{} exists, is not in the catalogue and has rows: if a `drop` that was interrupted has left it, drop its \
                     keyspace by hand (DROP KEYSPACE {}); otherwise choose another name for the layout",
                    copy.table,
                    copy.table.keyspace
                );
            }
        }
        Ok(())
    }

    async fn make_keyspace(&self, copy: &NewCopy, durable: bool) -> Result<()> {
        let keyspace = &copy.table.keyspace;
        match table::find_keyspace(self.cluster, keyspace).await? {
            None => {
                let create = format!(
                    "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {{'class': 'NetworkTopologyStrategy', {}: 1}} \
                     AND durable_writes = {durable}",
                    keyspace.to_cql(),
                    literal(&copy.data_center)
                );
                self.cluster.run(&create).await
            }
            Some((replication, _)) => {
                let class = replication.get("class").map_or("", String::as_str);
                let is_it = class.ends_with("NetworkTopologyStrategy")
                    && replication.len() == 2
                    && replication
                        .get(&copy.data_center)
                        .is_some_and(|count| count == "1");
                let tables = table::names(self.cluster, keyspace).await?;
                if is_it && tables.iter().all(|table| **table == *copy.table.table) {
                    return Ok(());
                }
                bail!(
                    "keyspace {keyspace} exists, and is not that of a copy in data center {}: choose another name for \
                     layout {}",
                    copy.data_center,
                    copy.name
                )
            }
        }
    }

    /// Clients' roles may use the copies as they may use the table; those of proxies also keep them and the table equal.
    pub(super) async fn allow(&self, but: Option<&str>) -> Result<()> {
        let grants_are_checked = grants::are_checked(self.cluster).await;
        let tables: Vec<TableName> = self.copies.iter().map(|copy| copy.table.clone()).collect();
        let mut roles = self.args.proxy_role.clone();
        if roles.is_empty() {
            roles.extend(self.cluster.role.clone());
        }
        roles.retain(|_| grants_are_checked);
        for role in &roles {
            grants::let_keep_table(self.cluster, role, self.name).await?;
        }
        copy_grants(self.cluster, self.name, &tables, but).await?;
        for role in &roles {
            for table in &tables {
                grants::let_keep(self.cluster, role, &table.keyspace).await?;
            }
        }
        Ok(())
    }

    /// Copies the rows while clients go on, and repairs what has changed until then. The less is left for later.
    pub(super) async fn copy(
        &self,
        table: &Table,
        entries: &[Entry],
        (work, done): (&Work, &mut Done),
    ) -> Result<()> {
        let own = self.name;
        let reader = Reader::new(self.cluster, table, own, work.level()).await?;
        if reader.is_empty().await? {
            done.rows = Some(0);
            return Ok(());
        }
        let copied = backfill::fill(self.cluster, table, own, entries, work).await?;
        done.copied = copied.rows;
        let compared = verdict::verify(self.cluster, (table, own), entries, work, true).await;
        let (compared, _) = compared?;
        done.rows = Some(compared.rows);
        verdict::keep_counts(self.cluster, own, &compared).await
    }

    /// The ranges by their owners, and which start of each node that is.
    pub(super) async fn now(&self) -> Result<(nodes::Groups, BTreeMap<String, i32>)> {
        let data_centers = self.copies.iter().map(|copy| copy.data_center.clone());
        let data_centers: Vec<String> = data_centers.collect();
        let ring = nodes::read(self.cluster).await?;
        let groups = nodes::groups(&ring, &data_centers)?;
        Ok((groups, nodes::boots(self.cluster).await?))
    }
}
