//! The driver's metadata of the cluster before and beside the user's queries.

use std::collections::HashSet;

use anyhow::{Context as _, Result, ensure};

use crate::harness::{Checks, eventually};
use crate::{Context, equal};

pub(crate) async fn run(checks: &mut Checks, c: &Context) {
    checks.run("hosts", hosts(c)).await;
    checks.run("replicas", replicas(c)).await;
    checks.run("schema_agreement", schema_agreement(c)).await;
    checks.run("schema_refresh", schema_refresh(c)).await;
    checks.run("system_tables", system_tables(c)).await;
}

async fn hosts(c: &Context) -> Result<()> {
    let state = c.session.get_cluster_state();
    let nodes = state.get_nodes_info();
    ensure!(!nodes.is_empty(), "no nodes");
    if c.expect_nodes > 0 {
        equal!(nodes.len(), c.expect_nodes, "nodes");
    }
    for node in nodes {
        equal!(
            node.datacenter.as_deref(),
            Some("datacenter1"),
            "data centre"
        );
        ensure!(node.rack.is_some(), "{node:?} has no rack");
        eventually("connected", async || Ok(node.is_connected())).await?;
    }
    Ok(())
}

async fn replicas(c: &Context) -> Result<()> {
    c.run(
        format!(
            "CREATE TABLE {} (k int PRIMARY KEY, v text)",
            c.table("owned")
        ),
        (),
    )
    .await?;
    c.session.refresh_metadata().await?;
    let state = c.session.get_cluster_state();
    let mut owners = HashSet::new();
    for key in 0..200_i32 {
        let found = state.get_endpoints(&c.keyspace, "owned", &(key,))?;
        equal!(found.len(), 1, format!("replicas of key {key}"));
        owners.insert(found[0].0.host_id);
    }
    equal!(
        owners.len(),
        state.get_nodes_info().len(),
        "nodes that own one of 200 keys"
    );
    // A prepared statement goes to the owner, by the driver's own routing.
    let mut coordinators = HashSet::new();
    let insert = c
        .session
        .prepare(format!(
            "INSERT INTO {} (k, v) VALUES (?, ?)",
            c.table("owned")
        ))
        .await?;
    for key in 0..200_i32 {
        let answer = c.session.execute_unpaged(&insert, (key, "v")).await?;
        coordinators.insert(answer.request_coordinator().node().host_id);
    }
    equal!(coordinators, owners, "coordinators");
    Ok(())
}

async fn schema_agreement(c: &Context) -> Result<()> {
    c.run(
        format!(
            "CREATE TABLE {} (k int PRIMARY KEY, v text)",
            c.table("agreed")
        ),
        (),
    )
    .await?;
    c.session.await_schema_agreement().await?;
    ensure!(
        c.session.check_schema_agreement().await?.is_some(),
        "no agreement when asked for"
    );
    let state = c.session.get_cluster_state();
    let keyspace = state
        .get_keyspace(&c.keyspace)
        .context("the keyspace is not in the metadata")?;
    let table = keyspace
        .tables
        .get("agreed")
        .context("the table is not in the metadata")?;
    equal!(table.partition_key, vec!["k".to_owned()], "partition key");
    Ok(())
}

/// This driver does not act on schema events by itself; it reads the schema again when asked to.
async fn schema_refresh(c: &Context) -> Result<()> {
    let other = c.open_direct().await?;
    let columns = async || -> Result<Option<usize>> {
        c.session.refresh_metadata().await?;
        let state = c.session.get_cluster_state();
        let keyspace = state.get_keyspace(&c.keyspace);
        let table = keyspace.and_then(|keyspace| keyspace.tables.get("by_another"));
        Ok(table.map(|table| table.columns.len()))
    };
    let table = c.table("by_another");
    other
        .query_unpaged(
            format!("CREATE TABLE {table} (k int PRIMARY KEY, v text)"),
            (),
        )
        .await?;
    eventually(
        "CREATE TABLE seen",
        async || Ok(columns().await? == Some(2)),
    )
    .await?;
    other
        .query_unpaged(format!("ALTER TABLE {table} ADD w int"), ())
        .await?;
    eventually("ALTER TABLE seen", async || Ok(columns().await? == Some(3))).await?;
    other
        .query_unpaged(format!("DROP TABLE {table}"), ())
        .await?;
    eventually("DROP TABLE seen", async || Ok(columns().await?.is_none())).await
}

async fn system_tables(c: &Context) -> Result<()> {
    let local = c
        .rows("SELECT key, partitioner, tokens FROM system.local", ())
        .await?;
    let (key, partitioner, tokens) = local.single_row::<(String, String, HashSet<String>)>()?;
    equal!(key, "local", "key");
    ensure!(partitioner.ends_with("Murmur3Partitioner"), "{partitioner}");
    ensure!(!tokens.is_empty(), "no tokens");
    let nodes = c.session.get_cluster_state().get_nodes_info().len();
    for peers in ["system.peers", "system.peers_v2"] {
        let found = c.rows(format!("SELECT peer FROM {peers}"), ()).await?;
        equal!(found.rows_num(), nodes - 1, peers);
    }
    Ok(())
}
