//! A cluster grows and shrinks while clients read and write through Helenus: no request fails, every
//! acknowledged write is there, and the node that has joined gets its share of the reads.
//!
//! Replication is 1, where no other replica can stand in. The nodes' own time-outs are long, so that a slow
//! machine does not fail requests that were sent to the right place. Needs `cargo build -p helenus` in the
//! same profile, Java 17, and Maven for the first run.

mod clients;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use helenus_cluster::{Cluster, Consistency};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::Client;
use helenus_tests::{kinds, pool};

use clients::{Clients, KEYSPACE, Outcome, TABLE};

const CLIENTS: usize = 4;
/// The whole of a join or leave may take so long on a busy machine; also for what follows from it.
const PATIENCE: Duration = Duration::from_secs(120);

fn eventually(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !holds()? {
        ensure!(Instant::now() < end, "never happened: {what}");
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// A metric of one node; 0 if the proxy has none.
fn of_node(proxy: &Proxy, name: &str, node: SocketAddr) -> Result<f64> {
    let (_, page) = proxy.admin_get("/metrics", None)?;
    let begin = format!("{name}{{node=\"{node}\"}} ");
    let mut lines = page.lines().filter_map(|line| line.strip_prefix(&begin));
    Ok(lines.next().map_or(Ok(0.0), str::parse)?)
}

/// Through the proxy, which answers when all nodes have it.
fn make_table(proxy: &Proxy) -> Result<()> {
    let mut client = Client::ready(proxy.address, 5)?;
    client.query(&format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = \
         {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    ))?;
    client.query(&format!(
        "CREATE TABLE {KEYSPACE}.{TABLE} (k bigint PRIMARY KEY, v bigint)"
    ))?;
    Ok(())
}

/// The rows of the table, as the nodes themselves say.
fn rows(cluster: &Cluster) -> Result<BTreeMap<i64, i64>> {
    let mut node = cluster.connect(1)?;
    let cql = format!("SELECT k, v FROM {KEYSPACE}.{TABLE}");
    let rows = node.query(&cql, Consistency::All)?;
    let number = |cell: &Option<Vec<u8>>| -> Result<i64> {
        let bytes = cell.as_deref().context("no null")?;
        Ok(i64::from_be_bytes(bytes.try_into()?))
    };
    rows.iter()
        .map(|row| Ok((number(&row[0])?, number(&row[1])?)))
        .collect()
}

#[test]
fn nodes_are_added_and_removed_under_load() -> Result<()> {
    let mut cluster = pool::take(kinds::two()).context("the nodes do not start")?;
    let seen = grow_and_shrink_before_clients(&mut cluster);
    // Its ring may be another now.
    cluster.down(false)?;
    seen
}

fn grow_and_shrink_before_clients(cluster: &mut Cluster) -> Result<()> {
    let proxy = Proxy::start(&cluster.contact_points(), &[])?;
    make_table(&proxy)?;
    let clients = Clients::start(proxy.address, CLIENTS);
    let grown = grow_and_shrink(cluster, &proxy, &clients);
    let outcomes = clients.stop();
    // The clients' failures say more than how far it came.
    let failed: Vec<&String> = outcomes.iter().flat_map(|of| &of.failed).collect();
    ensure!(
        failed.is_empty(),
        "{} requests failed: {failed:#?}",
        failed.len()
    );
    grown?;
    let written: BTreeMap<i64, i64> = outcomes
        .iter()
        .flat_map(|of| &of.written)
        .map(|(k, v)| (*k, *v))
        .collect();
    ensure!(rows(cluster)? == written, "acknowledged writes are lost");
    let requests: u64 = outcomes.iter().map(|of: &Outcome| of.requests).sum();
    println!("{requests} requests, none failed");
    Ok(())
}

fn grow_and_shrink(cluster: &mut Cluster, proxy: &Proxy, clients: &Clients) -> Result<()> {
    let moved = |clients: &Clients| clients.requests.load(Ordering::Relaxed);
    eventually("clients work", || Ok(moved(clients) > 1_000))?;
    let begin = Instant::now();
    let number = cluster.add_node()?;
    println!("node {number} has joined after {:?}", begin.elapsed());
    let address = cluster.address(number)?;
    let reads = || of_node(proxy, "helenus_node_read_requests_total", address);
    eventually("the node that has joined serves reads", || {
        Ok(reads()? > 200.0)
    })?;
    let opened = of_node(proxy, "helenus_node_links_opened_total", address)?;
    ensure!(
        opened <= 16.0,
        "{opened} connections to a node that has joined"
    );

    let begin = Instant::now();
    cluster.remove_node(number)?;
    println!("node {number} has left after {:?}", begin.elapsed());
    let before = moved(clients);
    eventually("clients go on", || Ok(moved(clients) > before + 1_000))?;
    eventually("the proxy forgets it", || {
        Ok(of_node(proxy, "helenus_node_links_up", address)? == 0.0)
    })
}
