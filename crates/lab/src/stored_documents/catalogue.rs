//! Which columns Helenus encodes.

use super::coding::ByColumn;
use anyhow::{Context, Result, ensure};
use helenus_catalogue::Written;
use helenus_load::experiments::payload::{Collection, KEYSPACE, table_name};
use helenus_load::scrape::Metrics;
use helenus_migrate::nodes::access::Access;
use helenus_migrate::nodes::cluster::Cluster;
use helenus_migrate::payload::beforehand;
use helenus_payload::Codec;
use helenus_rows::TableName;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const KNOWN_WITHIN: Duration = Duration::from_secs(60);

/// Connects to the nodes, and takes out of the catalogue what an earlier run has left there.
pub(crate) async fn open(nodes: &[String]) -> Result<Cluster> {
    let cluster = Access::to(nodes.to_vec()).connect().await?;
    beforehand::forget(&cluster, KEYSPACE).await?;
    Ok(cluster)
}

/// Has all columns of an arm's empty table encoded with a codec. Returns their number.
pub(crate) async fn encode(
    cluster: &Cluster,
    collection: &Collection,
    arm: &str,
    codec: Codec,
    learned: &ByColumn,
) -> Result<usize> {
    let table: TableName = format!("{KEYSPACE}.{}", table_name(&collection.name, arm)).parse()?;
    let columns = collection.columns.iter().map(String::as_str);
    let columns = columns.zip(learned.iter().map(|one| &**one));
    let encoded = beforehand::encode(cluster, &table, codec, columns).await;
    encoded.with_context(|| format!("{table} cannot be encoded: leave {codec} out"))?;
    Ok(collection.columns.len())
}

/// Waits until a proxy knows of at least so many encoded columns.
pub(crate) async fn known(admin: SocketAddr, columns: usize) -> Result<()> {
    let began = Instant::now();
    let labels = format!("state=\"{}\"", Written::EncodedOnly.name());
    loop {
        let metrics = Metrics::of(admin).await?;
        let known = metrics.get("helenus_encoded_columns", &labels);
        if known.unwrap_or(0.0) >= columns as f64 {
            return Ok(());
        }
        ensure!(
            began.elapsed() < KNOWN_WITHIN,
            "Helenus knows of {} encoded columns where {columns} were made",
            known.unwrap_or(0.0)
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
