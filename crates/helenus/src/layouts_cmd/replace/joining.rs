//! The end of `create` while clients go on: the table is put into the lists, copies come in sync beside it, and it is
//! taken out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use helenus_layout::insync::{Copies, Members, State as CopyState, TABLE};
use helenus_proxy::LAYOUTS_LEASE;
use helenus_rows::{Table, TableName};

use super::super::catalogue::{self, Change, Entry, Mode, State};
use super::super::following::add_columns;
use super::super::lists::CopiesRow;
use super::age::is_too_old;
use super::making::{Done, Job};
use super::proxies::is_proxy_alive;
use super::stage::{self, Stage, Standing};
use super::switch::{Switch, without};
use super::waiting::{PAUSE, Waiting};
use super::{check_tables, emptied_copies, nodes, ring};
use crate::online::hints;
use crate::online::settle::Emptying;

/// Proxies that take part have read new lists by then, and may go by them.
const LISTS_KNOWN: Duration = Duration::from_secs(4);
/// Once a proxy has heard of the table.
const PROXY_JOINS_MAX: Duration = Duration::from_secs(20);
const HINTS_LEFT: &str = "clients use the table as before, but its copies cannot be compared with it yet, because a hint \
     could bring a write to it later";

/// From wherever it is up to all copies in sync, and the table out. What the entries are then. `announced`: when this
/// command has told proxies of the table.
pub(super) async fn hand_over(
    job: &Job<'_>,
    (table, entries): (&Table, Vec<Entry>),
    (created, announced): (i64, Option<Instant>),
    done: &mut Done,
) -> Result<Vec<Entry>> {
    loop {
        list(job, &entries, (created, announced)).await?;
        if use_lists(job, &entries, created).await? {
            break;
        }
    }
    let entries = let_join(job, (table, entries), created).await?;
    let begun = Instant::now();
    bring_in_sync(job, (table, &entries), created).await?;
    done.joined = Some(begun.elapsed());
    Ok(entries)
}

/// How far it is, if this command is still the one at work.
async fn standing(job: &Job<'_>, created: i64) -> Result<Standing> {
    let name = job.name;
    let standing = stage::read(job.cluster, name).await?;
    let is_it = matches!(standing.stage(name)?, Some(Stage::Filling | Stage::Joining));
    match is_it && standing.created == Some(created) {
        true => Ok(standing),
        false => bail!("another command is at work on {name}: see `helenus layouts status {name}`"),
    }
}

async fn check_proxies(job: &Job<'_>) -> Result<()> {
    let begun = Instant::now();
    while !is_proxy_alive(job.cluster).await? {
        if begun.elapsed() < PROXY_JOINS_MAX {
            continue;
        }
        bail!(
            "no proxy is in the list of proxies and gives signs of life, and without one nobody brings the copies of {} in \
             sync: start one with layouts.enabled = true and cluster.allow_remote_dc = true, whose role has its rights on \
             the keyspace helenus (--proxy-role); its log tells what it lacks. Clients use the table as before",
            job.name
        );
    }
    Ok(())
}

/// Makes the lists, with the table alone in sync.
async fn list(
    job: &Job<'_>,
    entries: &[Entry],
    (created, announced): (i64, Option<Instant>),
) -> Result<()> {
    let (cluster, name) = (job.cluster, job.name);
    if !standing(job, created).await?.lists.is_empty() {
        return Ok(());
    }
    let known = catalogue::read(cluster, name).await?;
    if known.mode(name)? == Mode::Replace {
        // An earlier version has stopped clients here. No copy may join before all proxies go by the lists.
        let writing = with_state(&known.entries, State::Writing, created);
        put(job, &writing, Mode::Replace).await?;
        job.settle.wait("no copy joins").await;
    } else {
        known.check_unchanged(name, entries)?;
        // By then proxies know that they are to take part.
        let since = announced.map_or(LAYOUTS_LEASE, |at| at.elapsed());
        tokio::time::sleep(LAYOUTS_LEASE.saturating_sub(since)).await;
    }
    check_proxies(job).await?;
    let (groups, boots) = job.now().await?;
    let standing = standing(job, created).await?;
    let with = (Members::of(TABLE), Stage::Joining);
    stage::open(cluster, name, &standing, (&groups, &boots), with).await
}

/// Proxies go by the lists from when they hear of it; others use the table, too. False if the lists are to be made anew.
async fn use_lists(job: &Job<'_>, entries: &[Entry], created: i64) -> Result<bool> {
    let (cluster, name) = (job.cluster, job.name);
    let known = catalogue::read(cluster, name).await?;
    if known.mode(name)? == Mode::Replace {
        return Ok(true);
    }
    known.check_unchanged(name, entries)?;
    tokio::time::sleep(LISTS_KNOWN).await;
    check_proxies(job).await?;
    let standing = standing(job, created).await?;
    let is_whole = ring::is_whole(cluster, (name, entries), &standing.lists).await;
    let is_whole = is_whole.with_context(|| {
        format!("clients use {name} as before; run this again, and it goes on from here")
    })?;
    if !is_whole {
        // They are about another ring, and clients would wait until proxies have made others. Nobody goes by them yet.
        stage::unlist(cluster, name, &standing).await?;
        return Ok(false);
    }
    put(job, entries, Mode::Replace).await?;
    Ok(true)
}

/// Lets copies join, once all proxies go by the lists, and what was sent to the table before has arrived.
async fn let_join(
    job: &Job<'_>,
    (table, entries): (&Table, Vec<Entry>),
    created: i64,
) -> Result<Vec<Entry>> {
    let (cluster, name) = (job.cluster, job.name);
    let now = catalogue::read(cluster, name).await?.entries;
    if now.iter().all(|entry| entry.state == State::Ready.name()) {
        return Ok(now);
    }
    let begun = standing(job, created).await?.begun;
    // A command before may be emptying the copies.
    let emptying = match is_too_old(begun, table) {
        true => Emptying::Perhaps,
        false => Emptying::No,
    };
    let more = job.settle.for_emptying(emptying);
    job.settle
        .wait_longer(more, "proxies use the table by the lists")
        .await;
    hints::wait_for_old(cluster, hints::unseen_max(cluster), HINTS_LEFT).await?;
    let targets: Vec<(TableName, &[String])> = entries
        .iter()
        .map(|entry| (entry.table(name), &*entry.clustering))
        .collect();
    let table = add_columns(cluster, table, &targets, &job.args.work).await?;
    check_tables(cluster, &table, &entries).await?;
    job.allow(None).await?;
    if is_too_old(begun, &table) {
        eprintln!(
            "helenus: rows that were deleted since the copying began would come back, because gc_grace_seconds of {name} is \
             over: the copies are emptied, and the proxies fill them"
        );
        emptied_copies::empty(cluster, (name, &entries), created).await?;
    }
    standing(job, created).await?;
    let ready = with_state(&entries, State::Ready, created);
    put(job, &ready, Mode::Replace).await?;
    Ok(ready)
}

fn with_state(entries: &[Entry], state: State, created: i64) -> Vec<Entry> {
    let entries = entries.iter().map(|entry| Entry {
        state: state.name().to_owned(),
        created,
        ..entry.clone()
    });
    entries.collect()
}

/// Changes the entries of the same layouts, if no other command has.
async fn put(job: &Job<'_>, entries: &[Entry], mode: Mode) -> Result<()> {
    let (cluster, name) = (job.cluster, job.name);
    let known = catalogue::read(cluster, name).await?;
    let is_ours = |entry: &Entry| {
        let known = known.entry(&entry.layout);
        known.is_some_and(|known| known.created <= entry.created)
    };
    if known.entries.len() != entries.len() || !entries.iter().all(is_ours) {
        bail!("another command is at work on {name}: see `helenus layouts status {name}`");
    }
    let mut changes = vec![Change::Mode(Some(mode))];
    changes.extend(entries.iter().map(Change::Put));
    catalogue::change(cluster, name, &known, &changes).await
}

/// Until all copies are in sync everywhere, and the table is out.
async fn bring_in_sync(
    job: &Job<'_>,
    (table, entries): (&Table, &[Entry]),
    created: i64,
) -> Result<()> {
    let (cluster, name) = (job.cluster, job.name);
    let copies: Vec<usize> = (0..entries.len()).collect();
    let mut waiting = Waiting::begin(cluster).await?;
    let to = |stage| Switch {
        table: name,
        created,
        stage,
        left: None,
    };
    loop {
        let known = standing(job, created).await?;
        let of = (&*copies, "the copies");
        if waiting.look(cluster, (name, &known.lists), of).await? {
            let boots = match nodes::boots(cluster).await {
                Ok(boots) => boots,
                // It is waited for.
                Err(why) => {
                    waiting.goes_on(&format!("{why:#}"));
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let is_restarted = |row: &CopiesRow| {
                let list = row.list.as_ref();
                list.is_ok_and(|list| restarted(&row.owners, list, &boots).next().is_some())
            };
            if known.lists.iter().any(is_restarted) {
                // Nothing may have been written there since, so no proxy has noticed.
                let again = |owners: &[String], list: &Copies| {
                    without(list, restarted(owners, list, &boots))
                };
                to(Stage::Joining).is_made(cluster, &known, again).await?;
            } else if waiting
                .is_over(cluster, (name, entries), &known.lists)
                .await?
            {
                let alone = |_: &[String], list: &Copies| without(list, [TABLE].into_iter());
                if to(Stage::Open).is_made(cluster, &known, alone).await? {
                    waiting.end();
                    return Ok(());
                }
            }
        } else if is_too_old(known.begun, table) && has_out(&known.lists, &copies) {
            bail!(
                "copies of {name} are out of sync for almost gc_grace_seconds since they were filled, and do not join any \
                 more. Give it up (helenus layouts drop {name} --all), and set gc_grace_seconds to more than filling and \
                 comparing take"
            );
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn has_out(rows: &[CopiesRow], copies: &[usize]) -> bool {
    let lists = rows.iter().filter_map(|row| row.list.as_ref().ok());
    let mut states = lists.flat_map(|list| copies.iter().map(|copy| list.state(*copy)));
    states.any(|state| state == CopyState::Out)
}

/// Copies in sync whose nodes were restarted since.
pub(super) fn restarted(
    owners: &[String],
    list: &Copies,
    boots: &BTreeMap<String, i32>,
) -> impl Iterator<Item = usize> {
    let owners = owners.iter().enumerate();
    owners.filter_map(move |(copy, owner)| {
        let boot = boots.get(owner).and_then(|boot| u32::try_from(*boot).ok());
        let is_it = list.state(copy) == CopyState::InSync && boot != Some(list.boot(copy));
        is_it.then_some(copy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_whose_nodes_were_restarted_are_told() {
        let both = Copies::new(Members::first(2), [7, 8, 0, 0, 0, 0]);
        let owners = ["a".to_owned(), "b".to_owned()];
        let boots =
            |of: [i32; 2]| -> BTreeMap<String, i32> { owners.iter().cloned().zip(of).collect() };
        let told = |list: &Copies, boots: &BTreeMap<String, i32>| {
            restarted(&owners, list, boots).collect::<Vec<_>>()
        };
        assert_eq!(told(&both, &boots([7, 8])), [0; 0]);
        assert_eq!(told(&both, &boots([7, 9])), [1]);
        let out = both.evict(1).expect("another is in sync");
        assert_eq!(told(&out, &boots([7, 9])), [0; 0], "it is out already");
        assert_eq!(told(&both, &BTreeMap::new()), [0, 1], "nobody has answered");
    }
}
