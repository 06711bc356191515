//! `helenus layouts sweep`: compares derived layouts with their tables, again and again, and repairs them.
//!
//! A table and its derived layouts are written by requests of their own, so a layout can miss what its table has. What that
//! may have happened to, proxies note; a sweep looks there first, and then slowly everywhere:
//!
//! 1. *Partitions in doubt* (`helenus.layout_doubts`), which proxies read from the table: compared, and taken out of doubt.
//! 2. Layouts that are *behind*, which proxies neither read nor write: written again, compared as a whole, and read again.
//! 3. *Rounds*: all ranges of the ring, that which was compared longest ago first. What cannot be repaired at once
//!    is put in doubt.
//!
//! The table is the truth. Rows that only a layout has are deleted with their own times, after which the same row with the
//! same time cannot be written any more. A write that the table may still get must not be taken for missing: so nothing is
//! deleted before requests have ended that were under way when the partition was put in doubt, and while any node keeps hints.

mod behind;
pub(super) mod doubts;
mod how;
mod of_table;
mod parts;
mod round;
mod shown;
mod told;
mod view;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use futures::stream::{FuturesUnordered, StreamExt};
use helenus_catalogue::stored::CREATE_SWEEPS;
use helenus_catalogue::waits::lease;
use helenus_catalogue::{Layout, TableKey};
use helenus_console::quantities::parse_time;
use helenus_console::terminal::{Interrupted, Stop};
use helenus_rows::TableName;
use serde_json::{Value, json};

use self::how::How;
use self::of_table::{Done, OfTable};
pub(super) use self::shown::Swept;
use self::told::Told;
use super::work::{Level, Work};
use crate::catalogue::settle::request_max;
use crate::catalogue::{self, entries_of_all};
use crate::nodes::access::Access;
use crate::nodes::cluster::Cluster;
use crate::nodes::hints;

/// How often it is looked which tables have derived layouts, and how long it is waited after an error.
const PAUSE: Duration = Duration::from_secs(10);

/// Compare derived layouts with their tables slowly, for as long as it runs, and repair them.
///
/// Where tables have derived layouts (layouts create --replication), it must run all the time, once for the cluster: what is
/// in doubt is read from the table until it has been compared. It goes on where an earlier one has stopped. No range of the
/// ring is compared more often than every ten minutes, unless with --once.
///
/// Exit codes: 0 it was stopped, or with --once all is equal; 1 something could not be made equal, or failed.
#[derive(Args)]
pub struct SweepArgs {
    /// KEYSPACE.TABLE; several may be named [default: all tables with derived layouts]
    tables: Vec<TableName>,
    /// Compare all of it once, and end
    #[arg(long)]
    once: bool,
    /// How often to look for partitions in doubt
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    doubts_every: Duration,
    /// Replicas that must answer each read and write; less than all finds what layouts miss, and deletes nothing from them
    #[arg(long, value_enum, default_value = "all")]
    consistency: Level,
    /// Ranges of the ring, or partitions, that are compared at the same time
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    parallel: u8,
    /// Rows to read in a second in a round, at most
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    rows_per_second: u32,
    #[command(flatten)]
    access: Access,
    /// Do not wait for proxies, because none is running
    #[arg(long, hide = true)]
    no_proxies: bool,
    /// With --once: print JSON.
    #[arg(long, requires = "once")]
    json: bool,
}

pub async fn run(args: SweepArgs) -> Result<()> {
    let mut stop = Stop::new()?;
    let swept = tokio::select! {
        swept = sweep(&args) => return swept,
        () = stop.asked() => args.once,
    };
    match swept {
        true => Err(Interrupted.into()),
        false => Ok(()),
    }
}

async fn sweep(args: &SweepArgs) -> Result<()> {
    let cluster = args.access.connect().await?;
    cluster.check_partitioner().await?;
    for name in &args.tables {
        check_derived(&cluster, name).await?;
    }
    let how = how(args, &cluster).await;
    match args.once {
        true => once(args, &cluster, &how).await,
        false => for_ever(args, &cluster, &how).await,
    }
}

async fn how(args: &SweepArgs, cluster: &Cluster) -> How {
    let (settled_after, request_max) = match args.no_proxies {
        true => (Duration::ZERO, Duration::ZERO),
        false => {
            let request_max = request_max(cluster).await;
            (lease() + request_max, request_max)
        }
    };
    How {
        work: Work {
            consistency: args.consistency,
            parallel: args.parallel,
            rows_per_second: Some(args.rows_per_second),
        },
        no_proxies: args.no_proxies,
        doubts_every: args.doubts_every.max(Duration::from_millis(10)),
        request_max,
        settled_after,
        hints_unseen: hints::unseen_max(cluster),
    }
}

/// The tables that are to be compared.
async fn names(args: &SweepArgs, cluster: &Cluster) -> Result<BTreeSet<TableKey>> {
    if !args.tables.is_empty() {
        return Ok(args.tables.iter().map(catalogue::key).collect());
    }
    let mut names = BTreeSet::new();
    for (table, layouts) in entries_of_all(cluster).await? {
        if layouts.iter().any(Layout::is_derived) {
            names.insert(table);
        }
    }
    Ok(names)
}

async fn once(args: &SweepArgs, cluster: &Cluster, how: &How) -> Result<()> {
    let names = names(args, cluster).await?;
    make_notes(cluster, &names).await?;
    let tables: Vec<OfTable<'_>> = names
        .into_iter()
        .map(|table| OfTable::new(cluster, catalogue::name(&table), how))
        .collect();
    let rounds = tables.iter().map(|table| async move {
        let done = table.once().await;
        done.map(|done| (&table.name, done))
    });
    // One that fails must not stop the others.
    let done = futures::future::join_all(rounds).await;
    let done = done.into_iter().collect::<Result<Vec<_>>>()?;
    report(args, &done);
    let left: u64 = done.iter().map(|(_, done)| done.left).sum();
    if left > 0 {
        bail!(
            "{left} partitions in doubt are not equal yet, and are read from their tables: if that lasts, see `helenus \
             layouts status` and `helenus layouts rebuild`"
        );
    }
    Ok(())
}

/// A table that somebody has named.
async fn check_derived(cluster: &Cluster, name: &TableName) -> Result<()> {
    let known = catalogue::read(cluster, name).await?;
    match known.layouts().iter().any(Layout::is_derived) {
        true => Ok(()),
        false => bail!("{name} has no derived layouts, and others cannot miss what it has"),
    }
}

/// Makes the table for what was compared when, if it is not there.
async fn make_notes(cluster: &Cluster, names: &BTreeSet<TableKey>) -> Result<()> {
    let tables = catalogue::tables_of_keyspace(cluster).await?;
    match names.is_empty() || tables.contains("layout_sweeps") {
        true => Ok(()),
        false => cluster.run(CREATE_SWEEPS).await,
    }
}

/// Tables come and go meanwhile.
async fn for_ever(args: &SweepArgs, cluster: &Cluster, how: &How) -> Result<()> {
    let told = RefCell::new(Told::default());
    let mut at_work: BTreeSet<TableKey> = BTreeSet::new();
    let mut running = FuturesUnordered::new();
    loop {
        let found = async {
            let names = names(args, cluster).await?;
            make_notes(cluster, &names).await?;
            Ok(names)
        };
        let found: Result<BTreeSet<TableKey>> = found.await;
        told.borrow_mut().hear("", &found);
        for table in found.unwrap_or_default() {
            if at_work.insert(table.clone()) {
                running.push(async move {
                    let of = OfTable::new(cluster, catalogue::name(&table), how);
                    of.while_it_has_layouts().await;
                    table
                });
            }
        }
        let pause = tokio::time::sleep(PAUSE);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => break,
                Some(ended) = running.next() => {
                    at_work.remove(&ended);
                }
            }
        }
    }
}

fn report(args: &SweepArgs, done: &[(&TableName, Done)]) {
    if args.json {
        let tables: Vec<Value> = done
            .iter()
            .map(|(name, done)| as_json(name, done))
            .collect();
        println!("{:#}", json!({ "tables": tables }));
        return;
    }
    if done.is_empty() {
        println!("there are no derived layouts");
    }
    for (name, done) in done {
        println!(
            "{name}: {} rows compared, {} rows of layouts repaired, {} partitions no longer in doubt, {} still",
            done.rows, done.repaired, done.settled, done.left
        );
    }
}

fn as_json(name: &TableName, done: &Done) -> Value {
    json!({
        "table": name.to_string(),
        "rows": done.rows,
        "rows_repaired": done.repaired,
        "layouts_read_again": done.opened,
        "partitions_settled": done.settled,
        "partitions_in_doubt": done.left,
    })
}
