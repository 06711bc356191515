//! The end of `create` where no proxy runs, and so nobody uses the table: the copies are compared with it, and are in
//! sync at once.

use std::sync::Arc;

use anyhow::{Result, bail};
use helenus_rows::{Table, TableName};

use super::super::catalogue::{self, Change, Entry, Mode, State};
use super::super::following::add_columns;
use super::super::verdict::{self, Verdict};
use super::super::work::Work;
use super::check_tables;
use super::claim::Claim;
use super::making::{Done, Job};
use super::stage::{self, Stage};
use crate::online::compare_and_set::later_than;

/// What the entries are then.
pub(super) async fn hand_over(
    job: &Job<'_>,
    (table, entries): (&Table, Vec<Entry>),
    (claim, done): (Arc<Claim>, &mut Done),
) -> Result<Vec<Entry>> {
    let name = job.name;
    let entries = stop(job, entries).await?;
    let mut work = job.args.work.clone();
    (work.claim, work.rows_per_second) = (Some(claim), None);
    if let Err(why) = compare_and_open(job, table, &entries, (&work, done)).await {
        return Err(match go_back(job, &entries).await {
            Ok(()) => why.context(format!(
                "clients use {name} itself again, as before, and it has all rows: run this again when the reason is gone"
            )),
            Err(error) => why.context(format!(
                "clients may wait until this is run again, or `helenus layouts drop {name} --all` gives it up: see \
                 `helenus layouts status {name}` ({error:#})"
            )),
        });
    }
    Ok(entries)
}

/// From now on proxies neither write nor read the table. What the entries are then.
async fn stop(job: &Job<'_>, entries: Vec<Entry>) -> Result<Vec<Entry>> {
    let known = catalogue::read(job.cluster, job.name).await?;
    let mut changes = vec![Change::Mode(Some(Mode::Replace))];
    if known.mode(job.name)? != Mode::Replace {
        known.check_unchanged(job.name, &entries)?;
    }
    let ready = entries.into_iter().map(|entry| Entry {
        state: State::Ready.name().to_owned(),
        ..entry
    });
    let ready: Vec<Entry> = ready.collect();
    changes.extend(ready.iter().map(Change::Put));
    catalogue::change(job.cluster, job.name, &known, &changes).await?;
    Ok(ready)
}

/// Nobody writes the table: the copies are made equal to it, and the lists added.
async fn compare_and_open(
    job: &Job<'_>,
    table: &Table,
    entries: &[Entry],
    (work, done): (&Work, &mut Done),
) -> Result<()> {
    let (cluster, name) = (job.cluster, job.name);
    let targets: Vec<(TableName, &[String])> = entries
        .iter()
        .map(|entry| (entry.table(name), &*entry.clustering))
        .collect();
    let table = add_columns(cluster, table, &targets, work).await?;
    check_tables(cluster, &table, entries).await?;
    job.allow(cluster.role.as_deref()).await?;
    let before = job.now().await?;
    let compared = verdict::verify(cluster, (&table, name), entries, work, true).await;
    let (compared, verdicts) = compared?;
    let left: u64 = verdicts.iter().map(Verdict::left).sum();
    let unsettled: u64 = verdicts.iter().map(|verdict| verdict.unsettled).sum();
    if left + unsettled > 0 {
        bail!(
            "{left} rows of copies of {name} cannot be made those of the table, and {unsettled} are written to all \
             the time, past the proxies"
        );
    }
    done.repaired = verdicts.iter().map(|verdict| verdict.repaired).sum();
    done.rows = Some(compared.rows);
    if job.now().await? != before {
        bail!(
            "a node was restarted, or the ring has changed, while copies of {name} were compared: wait \
             until all nodes are up"
        );
    }
    job.allow(None).await?;
    verdict::keep_counts(cluster, name, &compared).await?;
    let now = catalogue::read(cluster, name).await?;
    now.check_unchanged(name, entries)?;
    let standing = stage::read(cluster, name).await?;
    let created = entries.first().map(|entry| entry.created);
    if standing.created != created || standing.stage(name)? != Some(Stage::Filling) {
        bail!("another command is at work on {name}: see `helenus layouts status {name}`");
    }
    let (groups, boots) = before;
    let all: Vec<usize> = (0..entries.len()).collect();
    let in_sync = (all.into_iter().collect(), Stage::Open);
    stage::open(cluster, name, &standing, (&groups, &boots), in_sync).await
}

/// Clients use the table again. It has all rows as long as there have been no lists.
async fn go_back(job: &Job<'_>, entries: &[Entry]) -> Result<()> {
    let (cluster, name) = (job.cluster, job.name);
    let standing = stage::read(cluster, name).await?;
    let created = entries.first().map(|entry| entry.created);
    let is_filling = standing.stage(name)? == Some(Stage::Filling);
    if !is_filling || standing.created != created || !standing.lists.is_empty() {
        bail!("another command is at work, or the lists are there");
    }
    // A change whose answer was lost can no longer add the lists.
    let number = later_than(created.unwrap_or_default());
    stage::claim(cluster, name, (&standing, Stage::Filling), number).await?;
    let known = catalogue::read(cluster, name).await?;
    known.check_unchanged(name, entries)?;
    let writing = entries.iter().map(|entry| Entry {
        state: State::Writing.name().to_owned(),
        ..entry.clone()
    });
    let writing: Vec<Entry> = writing.collect();
    let mut changes = vec![Change::Mode(Some(Mode::Replacing))];
    changes.extend(writing.iter().map(Change::Put));
    catalogue::change(cluster, name, &known, &changes).await
}
