//! `helenus layouts rebuild` of a layout in place of a replica: the copy is taken out and emptied, and its rows are copied
//! from another one; then the proxies bring it back.
//!
//! 1. The catalogue says `writing`: proxies do not read the copy, and do not let it join.
//! 2. It is taken out of all lists, in none of which it may be the last one in sync, and emptied.
//! 3. Rows are copied from a copy in sync ([`super::refilling`]), unless clients cannot write at QUORUM while it is out.
//! 4. The catalogue says `ready`: proxies let it join, and compare it with another one.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use helenus_rows::TableName;
use serde_json::json;

use super::super::catalogue::{self, Change, Entry, Partition, State};
use super::super::lists;
use super::super::ranges;
use super::super::work::Work;
use super::age::with_least_grace;
use super::proxies::is_proxy_alive;
use super::refilling::{Content, Filler, Refill};
use super::stage::{self, Stage};
use super::taking_out::{Earlier, check_kept, evicted, out_for};
use super::waiting::Waiting;
use super::{check_tables, checks, described, ring};
use crate::online::cluster::Cluster;
use crate::online::settle::Settle;
use crate::online::table;

/// How often it is looked whether the copy is in sync again.
const PAUSE: Duration = Duration::from_millis(250);

pub(in crate::layouts_cmd) async fn run(
    cluster: &Cluster,
    (name, layout): (&TableName, &str),
    known: Partition,
    (work, as_json): (&Work, bool),
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
    let is_new = before.state == State::Ready.name();
    check_up(cluster).await?;
    // One that was interrupted has to be made an end of, even if it can no longer be taken out.
    if is_new {
        ring::check(cluster, (name, &known), &standing.lists).await?;
        check_kept(cluster, (name, number), &standing.lists).await?;
        evicted(name, number, &standing.lists)?;
    }
    check_proxies(cluster).await?;
    let table = with_least_grace(cluster, &table, &known.entries).await?;
    let closed = before.begun_anew();
    let filler = Filler::of(number, known.entries.len(), &standing.lists);
    if filler == Filler::Proxies {
        eprintln!(
            "helenus: writes at QUORUM need {layout} of {name}, which is therefore out for a moment only: its rows are not \
             copied by this command, but brought by the proxies, which takes longer"
        );
    }
    let refill = Refill {
        cluster,
        name,
        table: &table,
        known: &known,
        standing: &standing,
        number,
        entry: &closed,
        work,
        settle: Settle::of(cluster, false).await,
        filler,
    };
    catalogue::change(cluster, name, &known, &[Change::Put(&closed)]).await?;
    let content = match is_new {
        true => Content::Own,
        false => refill.taken_over(before).await?,
    };
    let earlier = match content {
        Content::Own => Earlier::Nothing,
        Content::Begun | Content::Unknown => {
            Earlier::Requests(refill.settle.for_emptying(content.emptying()))
        }
    };
    let out = out_for(
        cluster,
        (name, number),
        (refill.settle, earlier),
        filler.order(),
    );
    let taken_out = match out.await {
        Ok(at) => at,
        Err(why) => return Err(not_emptied(&refill, content, why).await),
    };
    let now = refill.at_work().await?;
    // The ring may have changed meanwhile, and nodes be lost.
    let source = async {
        ring::check(cluster, (name, &known), &now.lists).await?;
        check_up(cluster).await?;
        refill.source(&now.lists).await
    };
    let source = match source.await {
        Ok(source) => source,
        Err(why) => return Err(not_emptied(&refill, content, why).await),
    };
    let copied = refill.fill(source, (content, taken_out)).await?;
    refill.at_work().await?;
    let ready = open(cluster, name, &closed).await?;
    ranges::forget(cluster, name, layout).await?;
    wait_until_back(cluster, (name, &ready), number).await?;
    report((name, layout), copied, (begun.elapsed(), as_json));
    Ok(())
}

fn report((name, layout): (&TableName, &str), copied: u64, (took, as_json): (Duration, bool)) {
    let seconds = took.as_secs_f64();
    match as_json {
        true => println!(
            "{:#}",
            json!({
                "table": name.to_string(),
                "rebuilt": [layout],
                "rows_copied": copied,
                "seconds": seconds,
            })
        ),
        false => println!(
            "rebuilt {layout} of {name}: {copied} rows copied, and in sync again after {seconds:.1} s"
        ),
    }
}

async fn check_proxies(cluster: &Cluster) -> Result<()> {
    if !is_proxy_alive(cluster).await? {
        bail!(
            "no proxy is in the list of proxies and gives signs of life, and only proxies bring a copy back: start one, \
             with layouts.enabled = true"
        );
    }
    Ok(())
}

/// Fails unless all nodes are up: without one a TRUNCATE fails, and the copy would be out until it is back.
async fn check_up(cluster: &Cluster) -> Result<()> {
    let away = cluster.away().await;
    if !away.is_empty() {
        bail!(
            "{} cannot be reached, and a copy is emptied only while all nodes are up: wait until they are",
            away.join(", ")
        );
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

/// It has not been emptied: it is read again, where it is in sync, and comes back elsewhere. Not before nothing of an
/// interrupted command can arrive any more; if that is not sure, it is left as it is.
async fn not_emptied(refill: &Refill<'_>, content: Content, why: anyhow::Error) -> anyhow::Error {
    let Refill { cluster, name, .. } = *refill;
    let opened = async {
        if let Some(emptying) = content.before_opening() {
            // A node that stands still may find a TRUNCATE when it goes on.
            check_up(cluster).await?;
            let more = refill.settle.for_emptying(emptying);
            let what = "nothing of before is under way";
            refill.settle.wait_longer(more, what).await;
            refill.wait_for_late().await?;
        }
        open(cluster, name, refill.entry).await
    };
    match opened.await {
        Ok(_) => why,
        Err(error) => why.context(format!(
            "{} of {name} is not read until this is run again: {error:#}",
            refill.entry.layout
        )),
    }
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
    use super::super::tests::entry;
    use super::*;

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
}
