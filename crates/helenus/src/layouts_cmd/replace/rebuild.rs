//! `helenus layouts rebuild` of a layout in place of a replica: the copy is taken out and emptied, and the proxies bring
//! it back.
//!
//! 1. The catalogue says `writing`: proxies do not read the copy, and do not let it join.
//! 2. It is taken out of all lists, in none of which it may be the last one in sync, and emptied.
//! 3. The catalogue says `ready`: proxies let it join, and compare it with another one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use helenus_layout::insync::{Copies, State as CopyState, Stored};
use helenus_rows::TableName;
use serde_json::json;

use super::super::catalogue::{self, Change, Entry, Partition, State};
use super::super::lists::{self, CopiesRow};
use super::proxies::is_proxy_alive;
use super::stage::{self, Stage, Standing};
use super::waiting::{PAUSE, Waiting};
use super::{check_tables, checks, described, nodes, ring};
use crate::online::cluster::Cluster;
use crate::online::compare_and_set::{now_ms, place};
use crate::online::settle::{Emptying, Settle};
use crate::online::table;

/// When this has passed after a copy was taken out, no proxy reads it: the lease of the lists, and twice as long again.
pub(super) const LISTS_LEASE_OVER: Duration = Duration::from_secs(3);
/// Lists that are changed at the same time.
const AT_A_TIME: usize = 32;
/// Attempts to take a copy out of all lists, which proxies may change meanwhile.
const ATTEMPTS: usize = 32;

pub(in crate::layouts_cmd) async fn run(
    cluster: &Cluster,
    (name, layout): (&TableName, &str),
    known: Partition,
    (no_proxies, as_json): (bool, bool),
) -> Result<()> {
    let begun = Instant::now();
    let number = known
        .entries
        .iter()
        .position(|entry| entry.layout == layout);
    let Some(number) = number else {
        let all: Vec<&str> = known.entries.iter().map(|entry| &*entry.layout).collect();
        bail!("{name} has no layout {layout}, only {}", all.join(", "));
    };
    let before = &known.entries[number];
    checks::check_name(name, before)?;
    let table = table::load(cluster, name).await?;
    check_tables(cluster, &table, &known.entries).await?;
    let standing = stage::read(cluster, name).await?;
    if standing.stage(name)? != Some(Stage::InUse) {
        bail!(
            "{name} does not use its copies as `create` leaves them: see `helenus layouts status {name}`, and finish \
             what was interrupted"
        );
    }
    check_others(&known, layout, name)?;
    // One that was interrupted has to be made an end of, even if it can no longer be taken out.
    if before.state == State::Ready.name() {
        ring::check(cluster, (name, &known), &standing.lists).await?;
        check_kept(cluster, (name, number), &standing.lists).await?;
        evicted(name, number, &standing.lists)?;
    }
    if !is_proxy_alive(cluster).await? {
        bail!(
            "no proxy is in the list of proxies and gives signs of life, and only proxies bring a copy back: start one, \
             with layouts.enabled = true"
        );
    }
    // Another command may have emptied it a moment ago, or be about to.
    let emptying = match before.state == State::Ready.name() {
        true => Emptying::No,
        false => Emptying::Perhaps,
    };
    let closed = before.begun_anew();
    catalogue::change(cluster, name, &known, &[Change::Put(&closed)]).await?;
    let settle = Settle::of(cluster, no_proxies).await;
    let more = settle.for_emptying(emptying);
    settle.wait_longer(more, "no longer read").await;
    if let Err(why) = take_out(cluster, name, number).await {
        return not_emptied(cluster, name, &closed, why).await;
    }
    tokio::time::sleep(LISTS_LEASE_OVER).await;
    let now = catalogue::read(cluster, name).await?;
    now.check_unchanged(name, std::slice::from_ref(&closed))?;
    let now = stage::read(cluster, name).await?;
    check_in_use(name, &standing, &now)?;
    // The ring may have changed meanwhile.
    if let Err(why) = ring::check(cluster, (name, &known), &now.lists).await {
        return not_emptied(cluster, name, &closed, why).await;
    }
    let of_copy = closed.table(name);
    let truncate = format!("TRUNCATE {}", of_copy.to_cql());
    cluster.run(&truncate).await.with_context(|| {
        format!(
            "{of_copy} is out of use, and may be empty or not: run this again when all nodes are up"
        )
    })?;
    let ready = open(cluster, name, &closed).await?;
    wait_until_back(cluster, (name, &ready), number).await?;
    let seconds = begun.elapsed().as_secs_f64();
    match as_json {
        true => println!(
            "{:#}",
            json!({ "table": name.to_string(), "rebuilt": [layout], "seconds": seconds })
        ),
        false => println!("rebuilt {layout} of {name}: it is in sync again after {seconds:.1} s"),
    }
    Ok(())
}

/// Lets proxies read the copy, and let it join, if no other command has changed it.
async fn open(cluster: &Cluster, name: &TableName, closed: &Entry) -> Result<Entry> {
    let ready = Entry {
        state: State::Ready.name().to_owned(),
        ..closed.clone()
    };
    let now = catalogue::read(cluster, name).await?;
    now.check_unchanged(name, std::slice::from_ref(closed))?;
    catalogue::change(cluster, name, &now, &[Change::Put(&ready)]).await?;
    Ok(ready)
}

/// It has not been emptied: it is read again, where it is in sync, and comes back elsewhere.
async fn not_emptied(
    cluster: &Cluster,
    name: &TableName,
    closed: &Entry,
    why: anyhow::Error,
) -> Result<()> {
    match open(cluster, name, closed).await {
        Ok(_) => Err(why),
        Err(error) => Err(why.context(format!(
            "{} of {name} is not read until this is run again: {error:#}",
            closed.layout
        ))),
    }
}

/// Fails if the copies are no longer used as when this command began: the one that is taken out may be the one from
/// which rows are brought back to the table.
fn check_in_use(name: &TableName, before: &Standing, now: &Standing) -> Result<()> {
    let is_same = now.stage(name)? == Some(Stage::InUse) && now.created == before.created;
    if is_same && !now.lists.is_empty() {
        return Ok(());
    }
    bail!(
        "another command is at work on {name}, and its copies are not in use any more: see `helenus layouts status {name}`"
    )
}

/// Fails if another layout is not read: there might be none that is.
fn check_others(known: &Partition, layout: &str, name: &TableName) -> Result<()> {
    let mut others = known.entries.iter().filter(|entry| entry.layout != layout);
    match others.find(|entry| entry.state != State::Ready.name()) {
        None => Ok(()),
        Some(other) => bail!(
            "layout {} of {name} is being rebuilt: let that come to its end, or run it again if it was interrupted \
             (helenus layouts rebuild {name} --layout {})",
            other.layout,
            other.layout
        ),
    }
}

/// Fails unless each group of ranges keeps a copy in sync on a node that has not been restarted since.
async fn check_kept(
    cluster: &Cluster,
    (name, number): (&TableName, usize),
    rows: &[CopiesRow],
) -> Result<()> {
    let boots = nodes::boots(cluster).await?;
    match rows.iter().find(|row| !keeps_one(row, number, &boots)) {
        None => Ok(()),
        Some(row) => bail!(
            "no other copy of {name} is in sync on {} with a node that has not been restarted since: wait until one is \
             (helenus layouts status {name}); proxies find a restart by a write to each of its ranges",
            row.owners.join(", ")
        ),
    }
}

fn keeps_one(row: &CopiesRow, but: usize, boots: &BTreeMap<String, i32>) -> bool {
    let Ok(list) = &row.list else { return false };
    let mut others = row
        .owners
        .iter()
        .enumerate()
        .filter(|(copy, _)| *copy != but);
    others.any(|(copy, owner)| {
        let boot = boots.get(owner).and_then(|boot| u32::try_from(*boot).ok());
        list.state(copy) == CopyState::InSync && boot == Some(list.boot(copy))
    })
}

/// The lists without this copy, of those that have it. Fails if it is the last one in sync in one of them.
fn evicted(
    name: &TableName,
    number: usize,
    rows: &[CopiesRow],
) -> Result<Vec<(Vec<String>, Copies, Copies)>> {
    let mut changed = Vec::new();
    for row in rows {
        let known = row.list.as_ref();
        let known = *known.map_err(|why| {
            anyhow::anyhow!("a list of copies of {name} cannot be as it is: {why}")
        })?;
        if known.state(number) == CopyState::Out {
            continue;
        }
        let list = known.evict(number).map_err(|_| {
            anyhow::anyhow!(
                "copy {number} of {name} is the last one in sync on {}: wait until another one is back (helenus layouts \
                 status {name})",
                row.owners.join(", ")
            )
        })?;
        changed.push((row.owners.clone(), known, list));
    }
    Ok(changed)
}

/// Until no list has the copy.
async fn take_out(cluster: &Cluster, name: &TableName, number: usize) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let rows = lists::read_copies(cluster, name).await?;
        if rows.is_empty() {
            bail!(
                "another command has taken the lists of copies of {name} away: see `helenus layouts status {name}`"
            );
        }
        check_kept(cluster, (name, number), &rows).await?;
        let changed = evicted(name, number, &rows)?;
        if changed.is_empty() {
            return Ok(());
        }
        for some in changed.chunks(AT_A_TIME) {
            // Proxies may have changed one of them: then all are read again.
            let batch = eviction(name, number, some);
            let _ = cluster.is_applied(&batch).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    bail!("the lists of copies of {name} change all the time: run this again")
}

fn eviction(name: &TableName, number: usize, lists: &[(Vec<String>, Copies, Copies)]) -> String {
    let now_ms = now_ms();
    let mut batch = "BEGIN BATCH ".to_owned();
    for (owners, known, list) in lists {
        // Only who was in sync leaves: one that was joining has left before.
        let left = match known.state(number) {
            CopyState::InSync => format!(", left[{number}] = {now_ms}"),
            CopyState::Joining | CopyState::Out => String::new(),
        };
        batch.push_str(&format!(
            "UPDATE helenus.copies SET {}, changed = {now_ms}{left} WHERE {} AND owners = [{}] IF version = {}; ",
            Stored::of(list, owners.len()).assignments(),
            place(name),
            owners.join(", "),
            known.version()
        ));
    }
    batch.push_str("APPLY BATCH");
    batch
}

/// Shows in how many lists it is in sync again, until it is in all.
async fn wait_until_back(
    cluster: &Cluster,
    (name, entry): (&TableName, &Entry),
    number: usize,
) -> Result<()> {
    let mut waiting = Waiting::begin(cluster).await?;
    let what = described(entry, name);
    loop {
        let rows = lists::read_copies(cluster, name).await?;
        let of = (&[number][..], &*what);
        if waiting.look(cluster, (name, &rows), of).await? {
            waiting.end();
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{LISTED_MAX, Members};

    use super::super::tests::entry;
    use super::*;

    const OWNERS: [&str; 2] = [
        "11111111-1111-1111-1111-111111111111",
        "22222222-2222-2222-2222-222222222222",
    ];

    fn row(list: Copies) -> CopiesRow {
        CopiesRow {
            table: "shop.orders".to_owned(),
            owners: OWNERS.map(str::to_owned).to_vec(),
            ranges: None,
            list: Ok(list),
            changed_ms: None,
        }
    }

    #[test]
    fn nothing_is_emptied_once_another_command_has_begun() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let both = || vec![row(Copies::new(Members::first(2), [7; LISTED_MAX]))];
        let in_use = Standing::of(5, Stage::InUse, both());
        check_in_use(&name, &in_use, &in_use).expect("the same");
        for other in [
            Standing::of(5, Stage::InUse, Vec::new()),
            Standing::of(6, Stage::InUse, both()),
            Standing::of(6, Stage::Draining, Vec::new()),
            Standing::of(5, Stage::Draining, both()),
        ] {
            assert!(check_in_use(&name, &in_use, &other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn one_copy_is_rebuilt_at_a_time() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let known = Partition {
            entries: vec![entry("a", State::Writing, 1), entry("b", State::Ready, 1)],
            ..Partition::default()
        };
        check_others(&known, "a", &name).expect("it is gone on with");
        let refused = check_others(&known, "b", &name).expect_err("none would be read");
        assert!(refused.to_string().contains("--layout a"), "{refused}");
    }

    #[test]
    fn a_copy_whose_node_was_restarted_is_not_the_one_that_stays() {
        let both = row(Copies::new(Members::first(2), [7; LISTED_MAX]));
        let boots = |boot| OWNERS.map(|owner| (owner.to_owned(), boot)).into();
        assert!(keeps_one(&both, 1, &boots(7)));
        assert!(!keeps_one(&both, 1, &boots(8)));
        let alone = row(Copies::new(Members::first(2), [7; LISTED_MAX])
            .evict(0)
            .expect("two"));
        assert!(!keeps_one(&alone, 1, &boots(7)));
        assert!(keeps_one(&alone, 0, &boots(7)));
    }

    #[test]
    fn the_last_copy_in_sync_stays() {
        let name: TableName = "shop.orders".parse().expect("a name");
        let both = Copies::new(Members::first(2), [7; LISTED_MAX]);
        let alone = both.evict(0).expect("another is in sync");
        let changed = evicted(&name, 1, &[row(both)]).expect("another is in sync");
        assert_eq!(changed.len(), 1);
        let text = eviction(&name, 1, &changed);
        assert!(
            text.contains(
                "SET version = 2, in_sync = {0}, joining = {}, since = [1, 2], boot = [7, 7]"
            ),
            "{text}"
        );
        assert!(
            text.contains("left[1] = ") && text.contains("IF version = 1; "),
            "{text}"
        );
        let refused = evicted(&name, 1, &[row(both), row(alone)]).expect_err("it is the last one");
        assert!(
            refused.to_string().contains("the last one in sync"),
            "{refused}"
        );
        assert!(
            evicted(&name, 0, &[row(alone)])
                .expect("it is out")
                .is_empty()
        );
    }
}
