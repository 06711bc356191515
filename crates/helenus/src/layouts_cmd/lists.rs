//! The lists of copies in sync and of proxies, as the catalogue has them: their tables, and what they say.
//!
//! What those who change and read these lists rely on:
//!
//! - A list is changed by one compare-and-set on its version at SERIAL, committed at QUORUM. Where that was
//!   answered with "applied", a majority of the replicas has it, and every read at QUORUM that is sent
//!   afterwards finds it.
//! - A change without that answer (a time-out, a lost connection, a commit that too few acknowledged) may
//!   be on a minority of the replicas: one read at QUORUM finds it, the next one does not. A read at SERIAL
//!   completes it, or makes sure that it never happens, before it answers. So a version that was not known
//!   before is believed only from a read at SERIAL, or from a change of one's own that was applied. Reads at
//!   QUORUM say no more than that a known version is still the last one: they renew leases.
//! - So no list is ever put together from replicas that have seen different changes, and it does not matter
//!   what read repair writes. The list of copies of a group of ranges is one row, and all of its columns
//!   are written by each change; that of proxies is one partition.
//! - A sign of life (`beat`) and the intents are written without conditions, to columns that no
//!   compare-and-set writes, and under the start of their proxy: a proxy that takes a number again begins
//!   with neither, whatever its clock says.
//!
//! Reads ask one replica more than they need (`speculative_retry`): one that stands still must not cost
//! leases.

mod show;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use helenus_layout::insync::{self, BadList, Copies, Proxies, Ranges, Stored, StoredProxy};
use helenus_rows::TableName;
use scylla::cluster::Node;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use scylla::value::{CqlTimestamp, CqlValue};

use crate::online::cluster::Cluster;
use crate::online::compare_and_set::place;
use crate::online::keyspace;

/// The copies of a table, a row for each group of ranges whose copies have the same owners. Copies have the
/// numbers of their owners in the list of these. A change that concerns several groups, as when a node is lost, is one
/// batch with a condition for each. `ranges` tells where the ranges begin and end that the list is about: where nodes
/// own others by now, nobody relies on it, and proxies make other ones from it
/// ([`helenus_layout::insync::regroup()`]). What all of them have in common tells how far a command is (`replace::stage`);
/// proxies do not look at it.
const COPIES: &str = "CREATE TABLE IF NOT EXISTS helenus.copies (\
    keyspace_name text, table_name text, owners frozen<list<uuid>>, \
    version bigint, in_sync frozen<set<int>>, joining frozen<set<int>>, \
    since frozen<list<bigint>>, boot frozen<list<int>>, ranges frozen<list<bigint>>, changed timestamp, left map<int, timestamp>, \
    created bigint static, stage text static, sources frozen<set<int>> static, \
    boots frozen<map<uuid, int>> static, ring bigint static, begun bigint static, \
    PRIMARY KEY ((keyspace_name, table_name), owners)) WITH speculative_retry = 'ALWAYS'";
/// All proxies, a row for each start of one: in the partition [`PROXIES_NAME`]. A number is that of one start
/// at a time; who takes one again removes the row of the start before.
const PROXIES: &str = "CREATE TABLE IF NOT EXISTS helenus.proxies (\
    name text, start uuid, version bigint static, number int, address text, release text, \
    state text, since bigint, changed timestamp, beat bigint, \
    PRIMARY KEY (name, start)) WITH speculative_retry = 'ALWAYS'";
const PROXIES_NAME: &str = "proxies";
/// In which buckets of the ring a start of a proxy has writes that not all copies may have. Written with the
/// number of the change as timestamp, so that the last change counts in whatever order they arrive.
const INTENTS: &str = "CREATE TABLE IF NOT EXISTS helenus.intents (\
    start uuid, bucket int, recorded boolean, \
    PRIMARY KEY (start, bucket)) WITH speculative_retry = 'ALWAYS'";

/// Tables that proxies change.
pub(super) const CHANGED: [&str; 3] = ["copies", "proxies", "intents"];

/// Columns that earlier versions do not have.
pub(super) const ADDED: [(&str, &str); 8] = [
    ("ranges", "frozen<list<bigint>>"),
    ("left", "map<int, timestamp>"),
    ("created", "bigint static"),
    ("stage", "text static"),
    ("sources", "frozen<set<int>> static"),
    ("boots", "frozen<map<uuid, int>> static"),
    ("ring", "bigint static"),
    ("begun", "bigint static"),
];

/// The statements that create their tables.
pub(super) fn create() -> [String; 3] {
    [COPIES, PROXIES, INTENTS].map(str::to_owned)
}

/// Adds the columns of `helenus.copies` that this version reads, where an earlier one has made the table.
pub(super) async fn complete(cluster: &Cluster) -> Result<()> {
    let known = keyspace::columns(cluster, "copies").await?;
    if known.is_empty() || ADDED.iter().all(|(name, _)| known.contains(*name)) {
        return Ok(());
    }
    let added = keyspace::add_columns(cluster, "copies", &ADDED).await;
    added.context(
        "helenus.copies was made by an earlier version and lacks columns: run this as a role that may ALTER it",
    )
}

/// What the catalogue says of copies and proxies.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub copies: Vec<CopiesRow>,
    /// None if no proxy has ever joined.
    pub proxies: Option<ProxiesList>,
    /// Addresses of nodes by host id.
    pub addresses: BTreeMap<String, String>,
    /// The layouts of tables, in the order of the numbers of their copies.
    pub layouts: BTreeMap<String, Vec<String>>,
}

/// The copies of a group of ranges.
#[derive(Debug)]
pub(super) struct CopiesRow {
    pub table: String,
    /// Host ids.
    pub owners: Vec<String>,
    /// Those that the list is about. None if that cannot be so.
    pub ranges: Option<Ranges>,
    pub list: Result<Copies, BadList>,
    /// The last change, in milliseconds since 1970 by the clock of whoever made it.
    pub changed_ms: Option<i64>,
}

#[derive(Debug)]
pub(super) struct ProxiesList {
    pub rows: Vec<ProxyRow>,
    pub list: Result<Proxies, BadList>,
}

/// One start of a proxy.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ProxyRow {
    pub number: i32,
    pub start: String,
    pub address: String,
    pub release: String,
    pub state: String,
    pub since: i64,
    pub changed_ms: Option<i64>,
}

impl Lists {
    /// After all changes that were ever agreed on; of one table, or of all.
    pub(super) async fn read(cluster: &Cluster, of: Option<&TableName>) -> Result<Lists> {
        if !keyspace::has_all(cluster, &["copies", "proxies"]).await? {
            return Ok(Lists::default());
        }
        complete(cluster).await?;
        let names = match of {
            Some(name) => vec![name.clone()],
            None => keyspace::named_in(cluster, "copies").await?,
        };
        let mut copies = Vec::new();
        for name in names {
            copies.extend(read_copies(cluster, &name).await?);
        }
        let nodes = cluster.nodes().into_iter();
        let address = |node: &Arc<Node>| cluster.address(node).to_string();
        Ok(Lists {
            copies,
            layouts: BTreeMap::new(),
            proxies: read_proxies(cluster).await?,
            addresses: nodes
                .map(|node| (node.host_id.to_string(), address(&node)))
                .collect(),
        })
    }

    /// Lists that cannot be as they are.
    pub(super) fn wrong(&self) -> usize {
        let copies = self.copies.iter().filter(|row| row.list.is_err()).count();
        let proxies = self.proxies.iter().filter(|of| of.list.is_err()).count();
        copies + proxies
    }
}

pub(super) async fn read_copies(cluster: &Cluster, table: &TableName) -> Result<Vec<CopiesRow>> {
    type Row = (
        Option<CqlValue>,
        Option<i64>,
        Option<Vec<i32>>,
        Option<Vec<i32>>,
        Option<Vec<i64>>,
        Option<Vec<i32>>,
        Option<Vec<i64>>,
        Option<CqlTimestamp>,
    );
    let mut select = Statement::new(format!(
        "SELECT owners, version, in_sync, joining, since, boot, ranges, changed FROM helenus.copies WHERE {}",
        place(table)
    ));
    select.set_consistency(Consistency::Serial);
    let rows: Vec<Row> = cluster.rows(select).await?;
    let row = |(owners, version, in_sync, joining, since, boot, ranges, changed): Row| {
        // Without owners it is no list: only what is said of all of them.
        let owners = owners?;
        let owners = owners.as_list().into_iter().flatten();
        let owners: Vec<String> = owners.map(uuid_text).collect();
        let stored = Stored {
            version: version.unwrap_or_default(),
            in_sync: in_sync.unwrap_or_default(),
            joining: joining.unwrap_or_default(),
            since: since.unwrap_or_default(),
            boot: boot.unwrap_or_default(),
        };
        Some(CopiesRow {
            table: table.to_string(),
            list: stored.copies(owners.len()),
            ranges: Ranges::of_stored(&ranges.unwrap_or_default()),
            owners,
            changed_ms: changed.map(|changed| changed.0),
        })
    };
    Ok(rows.into_iter().filter_map(row).collect())
}

pub(super) async fn read_proxies(cluster: &Cluster) -> Result<Option<ProxiesList>> {
    type Row = (
        Option<i64>,
        Option<CqlValue>,
        Option<i32>,
        Option<String>,
        Option<String>,
        Option<String>,
        Option<i64>,
        Option<CqlTimestamp>,
    );
    let mut select = Statement::new(format!(
        "SELECT version, start, number, address, release, state, since, changed FROM helenus.proxies \
         WHERE name = '{PROXIES_NAME}'"
    ));
    select.set_consistency(Consistency::Serial);
    let found: Vec<Row> = cluster.rows(select).await?;
    let Some(version) = found.first().map(|row| row.0.unwrap_or_default()) else {
        return Ok(None);
    };
    // A row without a number is none.
    let row = |(_, start, number, address, release, state, since, changed): Row| {
        Some(ProxyRow {
            number: number?,
            start: start.as_ref().map(uuid_text).unwrap_or_default(),
            address: address.unwrap_or_default(),
            release: release.unwrap_or_default(),
            state: state.unwrap_or_default(),
            since: since.unwrap_or_default(),
            changed_ms: changed.map(|changed| changed.0),
        })
    };
    let mut rows: Vec<ProxyRow> = found.into_iter().filter_map(row).collect();
    rows.sort_by_key(|row| row.number);
    let stored: Vec<StoredProxy<'_>> = rows.iter().map(ProxyRow::stored).collect();
    let list = insync::proxies(version, &stored);
    Ok(Some(ProxiesList { rows, list }))
}

impl ProxyRow {
    fn stored(&self) -> StoredProxy<'_> {
        StoredProxy {
            number: self.number,
            state: &self.state,
            since: self.since,
        }
    }
}

pub(super) fn uuid_text(value: &CqlValue) -> String {
    value.as_uuid().map(|id| id.to_string()).unwrap_or_default()
}
