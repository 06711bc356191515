//! `drop --all` while clients go on: the rows come back to the table beside the copies, the table is in sync, and the
//! copies are taken out.
//!
//! 1. The rows of a copy in sync are copied to the empty table, while clients use the copies.
//! 2. The table joins: proxies compare it with the copies, and it is in sync.
//! 3. All copies are taken out of all lists at once: clients use the table, by the lists.
//! 4. The catalogue forgets the copies: clients use the table by itself. Once all proxies know, nobody goes by the lists,
//!    and they are taken away; then the copies' tables are dropped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use helenus_layout::insync::{Copies, State as CopyState, TABLE};
use helenus_rows::{Table, TableName};

use super::super::catalogue::{self, Change, Entry, Partition, State};
use super::super::verdict;
use super::super::work::Work;
use super::super::{backfill, ranges};
use super::age::{is_too_old, with_least_grace};
use super::claim::Claim;
use super::emptying::empty_again;
use super::nodes::{self, Started};
use super::overtaken::if_overtaken;
use super::proxies::is_proxy_alive;
use super::ring;
use super::sources::{check_nodes, check_read_repair, listed_boots, source};
use super::stage::{self, Stage, Standing};
use super::switch::{ATTEMPTS, Switch, table_alone};
use super::taking_out::LISTS_LEASE_OVER;
use super::waiting::{PAUSE, Waiting};
use super::{check_masks, in_sync_everywhere};
use crate::online::cluster::Cluster;
use crate::online::compare_and_set::now_ms;
use crate::online::reading::Reader;
use crate::online::settle::Settle;
use crate::online::{grants, hints};

/// Under which the rows that have been copied back are noted: no layout has such a name.
pub(super) const BACK: &str = "(table)";
const HINTS_LEFT: &str = "clients use the copies as before, but the table cannot be compared with them yet, because a \
     hint could bring it a row later";
/// When proxies have taken the table out because it could not be compared, it joins again after this time,
const AGAIN: Duration = Duration::from_secs(5);
/// and after twice as long each time, up to so long.
const AGAIN_MAX: Duration = Duration::from_secs(60);

/// The table, as something that rows are copied to.
pub(super) fn back(name: &TableName, created: i64) -> Entry {
    Entry {
        layout: BACK.to_owned(),
        physical: name.table.to_string(),
        keyspace: None,
        clustering: Vec::new(),
        state: State::Writing.name().to_owned(),
        created,
    }
}

/// What the command before has copied to the table counts for this one.
pub(super) async fn take_over_notes(
    cluster: &Cluster,
    name: &TableName,
    before: &Standing,
    created: i64,
) -> Result<()> {
    if let (Some(last), Some(Stage::Returning)) = (before.created, before.stage(name)?) {
        ranges::take_over(cluster, name, &back(name, last), &back(name, created)).await?;
    }
    Ok(())
}

struct Job<'a> {
    cluster: &'a Cluster,
    name: &'a TableName,
    settle: Settle,
    created: i64,
}

/// Clients use the table at the end, and the copies can be dropped. The rows that it has got, and the number for [`end`].
pub(super) async fn bring_back(
    cluster: &Cluster,
    (table, known): (&Table, Partition),
    standing: Standing,
    settle: Settle,
) -> Result<(Option<u64>, i64)> {
    let name = &table.name;
    check_nodes(cluster, name).await?;
    check_read_repair(cluster, name).await?;
    check_masks(cluster, table, &known.entries).await?;
    ring::check(cluster, (name, &known), &standing.lists).await?;
    if !is_proxy_alive(cluster).await? {
        bail!(
            "no proxy is in the list of proxies and gives signs of life, and proxies compare {name} with its copies: start \
             one with layouts.enabled = true, or name a copy that is to be taken as it is (--from LAYOUT), while no client \
             uses the table"
        );
    }
    let created = standing.next(&known);
    let job = Job {
        cluster,
        name,
        settle,
        created,
    };
    if !is_listed(&standing) {
        check_rights(cluster, name, &known).await?;
    }
    let table = &with_least_grace(cluster, table, &known.entries).await?;
    let known = job.begin((table, known), &standing).await?;
    let brought = job.bring(table, known, &standing).await;
    let (rows, known) = if_overtaken(cluster, name, created, brought).await?;
    let closing = close(cluster, (name, known), settle).await?;
    Ok((rows, closing))
}

impl Job<'_> {
    /// From when this command is at work until clients use the table. The rows that it has got.
    async fn bring(
        &self,
        table: &Table,
        known: Partition,
        standing: &Standing,
    ) -> Result<(Option<u64>, Partition)> {
        let rows = self.fill(table, &known, standing).await?;
        self.bring_in_sync(table, &known).await?;
        let of = (self.name, known);
        let known = let_none_join(self.cluster, of, self.settle).await?;
        self.switch(table, &known).await?;
        Ok((rows, known))
    }

    fn to(&self, stage: Stage, left: Option<(usize, i64)>) -> Switch<'_> {
        Switch {
            table: self.name,
            created: self.created,
            stage,
            left,
        }
    }

    async fn standing(&self) -> Result<Standing> {
        let standing = stage::read(self.cluster, self.name).await?;
        let is_it = standing.is(Some(self.created), Some(Stage::Returning));
        match is_it {
            true => Ok(standing),
            false => bail!(
                "another command is at work on {}: see `helenus layouts status {}`",
                self.name,
                self.name
            ),
        }
    }

    /// The table begins without rows: what was deleted from the copies since it had some would come back.
    async fn begin(
        &self,
        (table, known): (&Table, Partition),
        standing: &Standing,
    ) -> Result<Partition> {
        let (cluster, name) = (self.cluster, self.name);
        if standing.stage(name)? == Some(Stage::Returning) {
            // Whenever this is interrupted, the next one finds them.
            take_over_notes(cluster, name, standing, self.created).await?;
            stage::claim(cluster, name, (standing, Stage::Returning), self.created).await?;
            return super::take_over(cluster, name, &known, self.created).await;
        }
        // Nothing that is found now has changed anything.
        if is_too_old(Some(now_ms()), table) {
            bail!(
                "gc_grace_seconds of {name}, or of one of its copies, is {}, so what is deleted from its copies while its rows come back would be \
                 forgotten: set it to more than that takes, of the table and of its copies' tables, past the proxies",
                table.gc_grace_seconds
            );
        }
        let of = in_sync_everywhere(&standing.lists, known.entries.len());
        let boots = listed_boots(&standing.lists);
        let ring = nodes::read(cluster).await?;
        let source = source(cluster, (name, &known), (&of, &boots, None), &ring).await?;
        let work = Work::of_all();
        backfill::check_timed(cluster, table, &source.table(name), &work).await?;
        let reader = Reader::new(cluster, table, name, work.level()).await?;
        // Also one that another command may be emptying.
        if standing.stage(name)? == Some(Stage::Open) || !reader.is_empty().await? {
            let of = (name, &known, self.created);
            empty_again(cluster, of, standing, (work.level(), self.settle)).await?;
        }
        let standing = stage::read(cluster, name).await?;
        if standing.stage(name)? != Some(Stage::InUse) {
            bail!("another command is at work on {name}: see `helenus layouts status {name}`");
        }
        stage::claim(cluster, name, (&standing, Stage::Returning), self.created).await?;
        super::take_over(cluster, name, &known, self.created).await
    }

    /// Copies the rows to the table, unless it is listed already: then only proxies write to it.
    async fn fill(
        &self,
        table: &Table,
        known: &Partition,
        before: &Standing,
    ) -> Result<Option<u64>> {
        let (cluster, name) = (self.cluster, self.name);
        let standing = self.standing().await?;
        self.check_age(table, &standing)?;
        if is_listed(&standing) {
            return Ok(None);
        }
        let_keep(cluster, name, known).await?;
        let of = in_sync_everywhere(&standing.lists, known.entries.len());
        let boots = listed_boots(&standing.lists);
        let ring = nodes::read(cluster).await?;
        // Of these starts the lists are, or no source is found.
        let started = Started::read(cluster).await?;
        let source = source(cluster, (name, known), (&of, &boots, None), &ring).await?;
        let copy = source.table(name);
        let entry = back(name, self.created);
        // Also what the one before has noted since then.
        take_over_notes(cluster, name, before, self.created).await?;
        let work = Work {
            claim: Some(Arc::new(Claim::new(name, self.created, Stage::Returning))),
            started: Some(Arc::new(started)),
            ..Work::of_all()
        };
        // Once all is copied the table may have joined, and left: then it may have writes that are still on their way to
        // the copies, and comparing is for proxies.
        let is_filled = match ranges::done(cluster, name, &entry).await? {
            (done, Some(all)) => done.len() as u64 >= all,
            (_, None) => false,
        };
        let mut rows = None;
        if !is_filled {
            let entries = [entry];
            backfill::fill(cluster, table, &copy, &entries, &work).await?;
            let compared = verdict::verify(cluster, (table, &copy), &entries, &work, true).await;
            rows = Some(compared?.0.rows);
        }
        // What was sent and not answered may come later than what clients write once the table has joined.
        self.settle.wait("what was copied has arrived").await;
        hints::wait_for_old(cluster, hints::unseen_max(cluster), HINTS_LEFT).await?;
        Ok(rows)
    }

    fn check_age(&self, table: &Table, standing: &Standing) -> Result<()> {
        let name = self.name;
        match is_too_old(standing.begun, table) {
            false => Ok(()),
            true => bail!(
                "{name} was filled too long ago for its gc_grace_seconds: rows that were deleted since would come back. Give \
                 it up (helenus layouts drop {name} --undo), and run this again, with a larger gc_grace_seconds if need be"
            ),
        }
    }

    /// The copies are out.
    async fn switch(&self, table: &Table, known: &Partition) -> Result<()> {
        let of = (self.name, known);
        loop {
            // Still, or again, if the ring has changed.
            self.bring_in_sync(table, known).await?;
            let standing = self.standing().await?;
            if switch_to_table(self.cluster, of, (self.created, &standing)).await? {
                return Ok(());
            }
        }
    }

    /// Until the table is in sync everywhere, and nothing is left to be made good.
    async fn bring_in_sync(&self, table: &Table, known: &Partition) -> Result<()> {
        let (cluster, name) = (self.cluster, self.name);
        let mut waiting = Waiting::begin(cluster).await?;
        let mut again = (Instant::now(), AGAIN);
        loop {
            let standing = self.standing().await?;
            let of = (&[TABLE][..], "the table");
            let is_out = |list: &Copies| list.state(TABLE) == CopyState::Out;
            let mut lists = standing
                .lists
                .iter()
                .filter_map(|row| row.list.as_ref().ok());
            if lists.any(is_out) {
                self.check_age(table, &standing)?;
                if Instant::now() >= again.0 {
                    check_read_repair(cluster, name).await?;
                    let left = standing.begun.map(|begun| (TABLE, begun));
                    let join = |_: &[String], list: &Copies| match is_out(list) {
                        true => Ok(list.join(TABLE, 0)?),
                        false => Ok(*list),
                    };
                    let to = self.to(Stage::Returning, left);
                    to.is_made(cluster, &standing, join).await?;
                    again = (Instant::now() + again.1, (again.1 * 2).min(AGAIN_MAX));
                }
            }
            if waiting.look(cluster, (name, &standing.lists), of).await?
                && waiting
                    .is_over(cluster, (name, &known.entries), &standing.lists)
                    .await?
            {
                waiting.end();
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Fails if a role may use the copies and not the table: clients are to use it again. Who has more rights on the table than
/// on its copies is told.
pub(super) async fn check_rights(
    cluster: &Cluster,
    name: &TableName,
    known: &Partition,
) -> Result<()> {
    if !grants::are_checked(cluster).await {
        return Ok(());
    }
    let mut commands: BTreeSet<String> = BTreeSet::new();
    let mut further: BTreeSet<String> = BTreeSet::new();
    for entry in &known.entries {
        let differing = grants::use_differing(cluster, name, &entry.table(name)).await?;
        commands.extend(differing.granting(name));
        further.extend(differing.missing.into_keys());
    }
    if !commands.is_empty() {
        bail!(
            "roles have rights on copies of {name} that they do not have on {name}, which clients are to use again. Run these \
             past the proxies, or revoke the rights on the copies, and run this again:\n{}",
            commands.into_iter().collect::<Vec<_>>().join("\n")
        );
    }
    if !further.is_empty() {
        eprintln!(
            "helenus: these roles have rights on {name} that they do not have on all of its copies, and may use them again \
             when clients use {name}: {}",
            further.into_iter().collect::<Vec<_>>().join(", ")
        );
    }
    Ok(())
}

/// Proxies may read and write the table as they may its copies.
pub(super) async fn let_keep(cluster: &Cluster, name: &TableName, known: &Partition) -> Result<()> {
    if !grants::are_checked(cluster).await {
        return Ok(());
    }
    let mut roles = BTreeSet::new();
    for entry in &known.entries {
        roles.extend(grants::keepers(cluster, &entry.table(name).keyspace).await?);
    }
    for role in &roles {
        grants::let_keep_table(cluster, role, name).await?;
    }
    Ok(())
}

/// Whether a list has the table.
fn is_listed(standing: &Standing) -> bool {
    let mut lists = standing.lists.iter();
    lists.any(|row| {
        let list = row.list.as_ref();
        list.is_ok_and(|list| list.state(TABLE) != CopyState::Out)
    })
}

/// Takes all copies out of all lists, where the table is in sync in all. False if lists have changed meanwhile.
async fn switch_to_table(
    cluster: &Cluster,
    (name, known): (&TableName, &Partition),
    (created, standing): (i64, &Standing),
) -> Result<bool> {
    let copies = known.entries.len();
    let to = Switch {
        table: name,
        created,
        stage: Stage::Closing,
        left: None,
    };
    let alone = |_: &[String], list: &Copies| table_alone(name, list, copies);
    to.is_made(cluster, standing, alone).await
}

/// What `create` has not finished is given up: the table itself is in sync, and has all rows.
pub(super) async fn give_up(
    cluster: &Cluster,
    (name, known): (&TableName, Partition),
    standing: Standing,
    settle: Settle,
) -> Result<i64> {
    let created = standing.next(&known);
    stage::claim(cluster, name, (&standing, Stage::Joining), created).await?;
    let known = super::take_over(cluster, name, &known, created).await?;
    let known = let_none_join(cluster, (name, known), settle).await?;
    for _ in 0..ATTEMPTS {
        let standing = stage::read(cluster, name).await?;
        if !standing.is(Some(created), Some(Stage::Joining)) {
            bail!("another command is at work on {name}: see `helenus layouts status {name}`");
        }
        if switch_to_table(cluster, (name, &known), (created, &standing)).await? {
            return close(cluster, (name, known), settle).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
    bail!("the lists of copies of {name} change all the time: run this again")
}

/// All copies are in this state from now on.
pub(super) async fn set(
    cluster: &Cluster,
    (name, known): (&TableName, &Partition),
    state: State,
) -> Result<Partition> {
    let now = catalogue::read(cluster, name).await?;
    now.check_unchanged(name, &known.entries)?;
    let entries = known.entries.iter().map(|entry| Entry {
        state: state.name().to_owned(),
        ..entry.clone()
    });
    let entries: Vec<Entry> = entries.collect();
    let changes: Vec<Change<'_>> = entries.iter().map(Change::Put).collect();
    catalogue::change(cluster, name, &now, &changes).await?;
    let now = catalogue::read(cluster, name).await?;
    now.check_unchanged(name, &entries)?;
    Ok(now)
}

/// No copy joins any more: one that came in sync after the others were taken out would be read, and miss what proxies
/// write that know of no copies any more.
async fn let_none_join(
    cluster: &Cluster,
    (name, known): (&TableName, Partition),
    settle: Settle,
) -> Result<Partition> {
    let is_ready = |entry: &Entry| entry.state == State::Ready.name();
    let known = match known.entries.iter().any(is_ready) {
        true => set(cluster, (name, &known), State::Writing).await?,
        // Since a moment ago, perhaps.
        false => known,
    };
    settle.wait("copies do not join any more").await;
    Ok(known)
}

/// From when the copies are out until nobody goes by the lists any more. The number for [`end`].
pub(super) async fn close(
    cluster: &Cluster,
    (name, known): (&TableName, Partition),
    settle: Settle,
) -> Result<i64> {
    let standing = stage::read(cluster, name).await?;
    if standing.stage(name)? != Some(Stage::Closing) {
        bail!("another command is at work on {name}: see `helenus layouts status {name}`");
    }
    let created = standing.next(&known);
    stage::claim(cluster, name, (&standing, Stage::Closing), created).await?;
    if !known.entries.is_empty() {
        let now = super::take_over(cluster, name, &known, created).await?;
        // Who has forgotten the copies does not wait for them, and while somebody relies on a list with them he may read
        // them.
        tokio::time::sleep(LISTS_LEASE_OVER).await;
        forget(cluster, name, &now).await?;
    }
    settle.wait("proxies use the table without lists").await;
    check_closing(cluster, name, created).await?;
    Ok(created)
}

/// The copies' tables are dropped: the lists are taken away.
pub(super) async fn end(cluster: &Cluster, name: &TableName, created: i64) -> Result<()> {
    let standing = check_closing(cluster, name, created).await?;
    stage::forget(cluster, name, &standing).await
}

async fn check_closing(cluster: &Cluster, name: &TableName, created: i64) -> Result<Standing> {
    let standing = stage::read(cluster, name).await?;
    if !standing.is(Some(created), Some(Stage::Closing)) {
        bail!("another command is at work on {name}: see `helenus layouts status {name}`");
    }
    let known = catalogue::read(cluster, name).await?;
    if !known.entries.is_empty() {
        bail!(
            "another command has made layouts of {name} meanwhile: see `helenus layouts status {name}`"
        );
    }
    Ok(standing)
}

/// Takes the layouts out of the catalogue, if they are still what is known.
pub(super) async fn forget(cluster: &Cluster, name: &TableName, known: &Partition) -> Result<()> {
    if known.entries.is_empty() {
        return Ok(());
    }
    let entries = known.entries.iter();
    let mut changes = vec![Change::Mode(None)];
    changes.extend(entries.map(|entry| Change::Remove(&entry.layout)));
    catalogue::change(cluster, name, known, &changes).await
}
