//! `helenus layouts create --mode replace`: the rows of a table go over to its copies, while clients use it.
//!
//! 1. The copies' tables are made, and the rows copied to them.
//! 2. The lists are added, with the table itself alone in sync; then the catalogue says `replace`, and proxies go by them.
//! 3. Once all do, and nothing that was sent before can arrive any more, the copies may join: proxies compare them with
//!    the table and with each other, and they are in sync.
//! 4. The table is taken out of all lists at once, and emptied.
//!
//! The same command goes on with what was interrupted. In step 1 the copies are not known to proxies at all. Where no
//! proxy runs, the command compares the copies itself ([`super::offline`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use helenus_rows::Table;
use serde_json::json;

use super::super::catalogue::{self, Change, Entry, Mode, Partition, State};
use super::super::create_args::CreateArgs;
use super::super::ranges;
use super::super::request::Wanted;
use super::checks;
use super::claim::Claim;
use super::emptying::{empty, empty_again};
use super::making::{Done, Job};
use super::overtaken::if_overtaken;
use super::stage::{self, Stage};
use super::{joining, nodes, offline};
use crate::online::cluster::Cluster;
use crate::online::settle::Settle;

pub(in crate::layouts_cmd) async fn run(
    args: &CreateArgs,
    cluster: &Cluster,
    (table, wanted): (&Table, Vec<Wanted>),
) -> Result<()> {
    let begun = Instant::now();
    let name = &table.name;
    args.work.check_all("mode `replace`")?;
    checks::check(table, cluster).await?;
    let ring = nodes::read(cluster).await?;
    let copies = checks::copies(table, &wanted, &args.data_centers, &ring)?;
    let of_copies: Vec<String> = copies.iter().map(|copy| copy.data_center.clone()).collect();
    nodes::groups(&ring, &of_copies)?;
    let known = catalogue::read(cluster, name).await?;
    checks::check_known(&known, &copies, name)?;
    // The lists are about the nodes of these data centers, and nobody else would notice.
    let there = super::data_centers(cluster, name, &known.entries).await?;
    if !known.entries.is_empty() && there != of_copies {
        bail!(
            "the copies of {name} are in {}, in the order of the layouts' names, and not in {}: repeat the command that has \
             begun, or drop them first (helenus layouts drop {name} --all)",
            there.join(", "),
            of_copies.join(", ")
        );
    }
    let job = Job {
        args,
        cluster,
        name,
        copies: &copies,
        settle: Settle::of(cluster, args.no_proxies).await,
    };
    catalogue::create(cluster, name, &args.proxy_role).await?;
    let standing = stage::read(cluster, name).await?;
    let created = standing.next(&known);
    let done = carry_out(&job, table, (known, created), standing).await?;
    report(&job, &done, begun.elapsed())
}

/// From wherever it is to the end, as the command of that number.
async fn carry_out(
    job: &Job<'_>,
    table: &Table,
    (known, created): (Partition, i64),
    standing: stage::Standing,
) -> Result<Done> {
    let (cluster, name) = (job.cluster, job.name);
    let is_replaced = !known.entries.is_empty() && known.mode(name)? == Mode::Replace;
    let stage = standing.stage(name)?;
    Ok(match (is_replaced, stage) {
        (true, Some(Stage::InUse)) => Done::default(),
        (true, Some(Stage::Open)) => {
            let with = (job.args.work.level(), job.settle);
            empty_again(cluster, (name, &known, created), &standing, with).await?;
            Done::default()
        }
        (_, Some(stage @ (Stage::Draining | Stage::Returning | Stage::Closing))) => {
            let undo = match stage {
                Stage::Closing => String::new(),
                _ => format!(", or give it up (helenus layouts drop {name} --undo)"),
            };
            bail!(
                "{name} is being dropped: finish that first (helenus layouts drop {name} --all){undo}"
            )
        }
        (_, Some(Stage::Joining)) if !job.settle.is_needed() => bail!(
            "the copies of {name} are coming back, for which proxies are needed: run this without --no-proxies"
        ),
        (_, Some(Stage::Joining)) => {
            stage::claim(cluster, name, (&standing, Stage::Joining), created).await?;
            let done = go_on(job, table, (known, created)).await;
            if_overtaken(cluster, name, created, done).await?
        }
        _ if !standing.lists.is_empty() => bail!(
            "helenus.copies has lists of copies of {name} that this command has not made: see `helenus layouts status`"
        ),
        _ => {
            if is_replaced && stage.is_none() {
                let copies = known.entries.iter().map(|entry| entry.table(name));
                super::check_has_rows(cluster, name, &copies.collect::<Vec<_>>()).await?;
            }
            if let Some(remark) = checks::remark(table, job.copies) {
                eprintln!("helenus: {remark}");
            }
            stage::claim(cluster, name, (&standing, Stage::Filling), created).await?;
            let done = make(job, table, (known, created)).await;
            if_overtaken(cluster, name, created, done).await?
        }
    })
}

/// All of it, or what is left of it.
async fn make(job: &Job<'_>, table: &Table, (known, created): (Partition, i64)) -> Result<Done> {
    let Job { cluster, name, .. } = *job;
    let mut done = Done::default();
    let claim = Arc::new(Claim::new(name, created, Stage::Filling));
    let is_replaced = !known.entries.is_empty() && known.mode(name)? == Mode::Replace;
    let mut announced = None;
    let entries: Vec<Entry> = job
        .copies
        .iter()
        .map(|copy| Entry {
            layout: copy.name.clone(),
            physical: copy.table.table.to_string(),
            keyspace: Some(copy.table.keyspace.to_string()),
            clustering: copy.clustering.clone(),
            state: State::Writing.name().to_owned(),
            created,
        })
        .collect();
    if !is_replaced {
        job.make_tables(table, &known).await?;
        job.allow(cluster.role.as_deref()).await?;
        let mut changes = vec![Change::Mode(Some(Mode::Replacing))];
        changes.extend(entries.iter().map(Change::Put));
        catalogue::change(cluster, name, &known, &changes).await?;
        announced = Some(Instant::now());
        for entry in &entries {
            if let Some(before) = known.entry(&entry.layout) {
                ranges::take_over(cluster, name, before, entry).await?;
            }
        }
        let mut work = job.args.work.clone();
        work.claim = Some(claim.clone());
        job.copy(table, &entries, (&work, &mut done)).await?;
    }
    let entries = match job.settle.is_needed() {
        true => {
            let of = (table, entries);
            joining::hand_over(job, of, (created, announced), &mut done).await?
        }
        false => offline::hand_over(job, (table, entries), (claim, &mut done)).await?,
    };
    let with = (job.args.work.level(), job.settle, false);
    empty(cluster, (name, &entries, created), with).await?;
    Ok(done)
}

/// After the lists were made.
async fn go_on(job: &Job<'_>, table: &Table, (known, created): (Partition, i64)) -> Result<Done> {
    let Job { cluster, name, .. } = *job;
    let mut done = Done::default();
    let known = super::take_over(cluster, name, &known, created).await?;
    let of = (table, known.entries);
    let entries = joining::hand_over(job, of, (created, None), &mut done).await?;
    let with = (job.args.work.level(), job.settle, false);
    empty(cluster, (name, &entries, created), with).await?;
    Ok(done)
}

fn report(job: &Job<'_>, done: &Done, took: Duration) -> Result<()> {
    if job.args.json {
        let layouts = job.copies.iter().map(|copy| {
            json!({
                "name": copy.name,
                "keyspace": &*copy.table.keyspace,
                "physical": &*copy.table.table,
                "data_center": copy.data_center,
                "clustering": copy.clustering,
                "state": State::Ready.name(),
            })
        });
        let report = json!({
            "table": job.name.to_string(),
            "mode": Mode::Replace.name(),
            "layouts": layouts.collect::<Vec<_>>(),
            "rows": done.rows,
            "rows_copied": done.copied,
            "rows_repaired": done.repaired,
            "joined_s": done.joined.map(|joined| joined.as_secs_f64()),
            "seconds": took.as_secs_f64(),
        });
        println!("{report:#}");
        return Ok(());
    }
    for copy in job.copies {
        println!(
            "{} {}: in {}, sorted by {} ({})",
            job.name,
            copy.name,
            copy.data_center,
            copy.clustering.join(", "),
            copy.table
        );
    }
    match (done.rows, done.joined) {
        (Some(rows), _) => println!(
            "{rows} rows, copied and compared in {:.1} s",
            took.as_secs_f64()
        ),
        (None, Some(_)) => println!("in use after {:.1} s", took.as_secs_f64()),
        (None, None) => println!("they were there already"),
    }
    Ok(())
}
