//! `helenus layouts create --mode replace`: the rows of a table go over to its copies, while clients use it.
//!
//! 1. The copies' tables are made, and the rows copied to them, while clients use the table.
//! 2. The catalogue says `replace`, and there are no lists of copies: proxies neither write nor read the table. Once
//!    nothing that was sent before can arrive any more, what has changed since is repaired.
//! 3. The lists are added, all copies in sync: proxies use the copies.
//! 4. The table, which nobody reads any more, is emptied.
//!
//! The same command goes on with what was interrupted. In step 1 the copies are not known to proxies at all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use helenus_rows::{Table, TableName, literal};
use scylla::statement::Consistency;
use serde_json::json;

use super::super::catalogue::{self, Change, Entry, Mode, Partition, State};
use super::super::create_args::CreateArgs;
use super::super::following::{add_columns, copy_grants};
use super::super::request::Wanted;
use super::super::verdict::{self, Verdict};
use super::super::work::Work;
use super::super::{backfill, definition, ranges};
use super::checks::{self, NewCopy};
use super::proxies::is_proxy_alive;
use super::stage::{self, Claim, Stage};
use super::{check_tables, nodes};
use crate::online::cluster::Cluster;
use crate::online::compare_and_set::later_than;
use crate::online::reading::Reader;
use crate::online::settle::{Emptying, Settle};
use crate::online::{grants, hints, table};

/// With `commitlog_sync: periodic` a node has on disk what it has acknowledged so long ago, by default.
const COMMIT_LOG_SYNC: Duration = Duration::from_secs(10);
const HINTS_LEFT: &str = "the copies cannot be compared with the table yet, because a hint could bring a write to the \
     table later";

/// What has been done.
#[derive(Default)]
struct Done {
    copied: u64,
    rows: Option<u64>,
    repaired: u64,
    /// For how long clients could not use the table.
    stopped: Option<Duration>,
}

struct Job<'a> {
    args: &'a CreateArgs,
    cluster: &'a Cluster,
    name: &'a TableName,
    copies: &'a [NewCopy],
    settle: Settle,
}

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
    let is_replaced = !known.entries.is_empty() && known.mode(name)? == Mode::Replace;
    let stage = standing.stage(name)?;
    let done = match (is_replaced, stage) {
        (true, Some(Stage::InUse)) => Done::default(),
        (true, Some(Stage::Open)) => {
            let with = (args.work.level(), job.settle, true);
            empty(cluster, name, &known.entries, with).await?;
            Done::default()
        }
        (_, Some(Stage::Draining)) => {
            bail!(
                "{name} is being dropped: finish that first (helenus layouts drop {name} --all), or give it up (helenus \
                 layouts drop {name} --undo)"
            )
        }
        _ if !standing.lists.is_empty() => bail!(
            "helenus.copies has lists of copies of {name} that this command has not made: see `helenus layouts status`"
        ),
        _ => {
            if is_replaced && stage.is_none() {
                let copies = known.entries.iter().map(|entry| entry.table(name));
                super::check_has_rows(cluster, name, &copies.collect::<Vec<_>>()).await?;
            }
            if let Some(remark) = checks::remark(table, &copies) {
                eprintln!("helenus: {remark}");
            }
            job.make(table, known, &standing).await?
        }
    };
    job.report(&done, begun.elapsed())
}

impl Job<'_> {
    /// All of it, or what is left of it.
    async fn make(
        &self,
        table: &Table,
        known: Partition,
        standing: &stage::Standing,
    ) -> Result<Done> {
        let Job { cluster, name, .. } = self;
        let (cluster, mut done) = (*cluster, Done::default());
        let numbers = known.entries.iter().map(|entry| entry.created);
        let last = numbers.chain(standing.created).max().unwrap_or_default();
        let created = later_than(last);
        stage::claim(cluster, name, (standing, Stage::Filling), created).await?;
        let claim = Arc::new(Claim::new(name, created, Stage::Filling));
        let is_replaced = !known.entries.is_empty() && known.mode(name)? == Mode::Replace;
        let entries: Vec<Entry> = self
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
            self.make_tables(table, &known).await?;
            self.allow(cluster.role.as_deref()).await?;
            let mut changes = vec![Change::Mode(Some(Mode::Replacing))];
            changes.extend(entries.iter().map(Change::Put));
            catalogue::change(cluster, name, &known, &changes).await?;
            for entry in &entries {
                if let Some(before) = known.entry(&entry.layout) {
                    ranges::take_over(cluster, name, before, entry).await?;
                }
            }
            let mut work = self.args.work.clone();
            work.claim = Some(claim.clone());
            done.copied = self.copy(table, &entries, &work).await?;
        }
        let entries = self.stop(entries).await?;
        let stopped = Instant::now();
        if self.settle.is_needed() {
            eprintln!(
                "helenus: clients cannot use {name} from now on, until its copies are compared"
            );
        }
        let mut work = self.args.work.clone();
        (work.claim, work.rows_per_second) = (Some(claim), None);
        if let Err(why) = self.hand_over(table, &entries, &work, &mut done).await {
            return Err(match self.go_back(&entries).await {
                Ok(()) => why.context(format!(
                    "clients use {name} itself again, as before, and it has all rows: run this again when the reason is gone"
                )),
                Err(error) => why.context(format!(
                    "clients may wait until this is run again, or `helenus layouts drop {name} --all` gives it up: see \
                     `helenus layouts status {name}` ({error:#})"
                )),
            });
        }
        done.stopped = Some(stopped.elapsed());
        if self.settle.is_needed() {
            eprintln!("helenus: clients can use {name} again, and with it its copies");
        }
        let with = (self.args.work.level(), self.settle, false);
        empty(cluster, name, &entries, with).await?;
        Ok(done)
    }

    /// Keyspaces and tables of copies that are not in the catalogue.
    async fn make_tables(&self, table: &Table, known: &Partition) -> Result<()> {
        let (cluster, name) = (self.cluster, self.name);
        let options = definition::options(cluster, name).await?;
        let own = table::find_keyspace(cluster, &name.keyspace).await?;
        let durable = own.is_none_or(|(_, durable)| durable);
        for copy in self.copies {
            let is_known = known.entry(&copy.name).is_some();
            if let Some(other) = catalogue::original(cluster, &copy.table).await?
                && other != *name
            {
                bail!(
                    "{} holds a layout of {other}: choose another name for the layout",
                    copy.table
                );
            }
            self.make_keyspace(copy, durable).await?;
            if !is_known && !table::exists(cluster, &copy.table.keyspace, &copy.table.table).await?
            {
                let create = definition::create(table, &options, &copy.table, &copy.clustering);
                cluster.run(&create).await?;
            }
            let found = table::load(cluster, &copy.table).await?;
            if is_known {
                // What the table has got since is added later.
                if !table.has_keys_of(&found, &copy.clustering) {
                    checks::check_copy(table, &found, &copy.clustering)?;
                }
                continue;
            }
            checks::check_copy(table, &found, &copy.clustering)?;
            if super::has_rows(cluster, &copy.table).await? {
                bail!(
                    "{} exists, is not in the catalogue and has rows: if a `drop` that was interrupted has left it, drop its \
                     keyspace by hand (DROP KEYSPACE {}); otherwise choose another name for the layout",
                    copy.table,
                    copy.table.keyspace
                );
            }
        }
        Ok(())
    }

    async fn make_keyspace(&self, copy: &NewCopy, durable: bool) -> Result<()> {
        let keyspace = &copy.table.keyspace;
        match table::find_keyspace(self.cluster, keyspace).await? {
            None => {
                let create = format!(
                    "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {{'class': 'NetworkTopologyStrategy', {}: 1}} \
                     AND durable_writes = {durable}",
                    keyspace.to_cql(),
                    literal(&copy.data_center)
                );
                self.cluster.run(&create).await
            }
            Some((replication, _)) => {
                let class = replication.get("class").map_or("", String::as_str);
                let is_it = class.ends_with("NetworkTopologyStrategy")
                    && replication.len() == 2
                    && replication
                        .get(&copy.data_center)
                        .is_some_and(|count| count == "1");
                let tables = table::names(self.cluster, keyspace).await?;
                if is_it && tables.iter().all(|table| **table == *copy.table.table) {
                    return Ok(());
                }
                bail!(
                    "keyspace {keyspace} exists, and is not that of a copy in data center {}: choose another name for \
                     layout {}",
                    copy.data_center,
                    copy.name
                )
            }
        }
    }

    /// Clients' roles may use the copies as they may use the table; those of proxies also keep them equal.
    async fn allow(&self, but: Option<&str>) -> Result<()> {
        let tables: Vec<TableName> = self.copies.iter().map(|copy| copy.table.clone()).collect();
        copy_grants(self.cluster, self.name, &tables, but).await?;
        if !grants::are_checked(self.cluster).await {
            return Ok(());
        }
        let mut roles = self.args.proxy_role.clone();
        if roles.is_empty() {
            roles.extend(self.cluster.role.clone());
        }
        for role in &roles {
            for table in &tables {
                grants::let_keep(self.cluster, role, &table.keyspace).await?;
            }
        }
        Ok(())
    }

    /// Copies the rows while clients go on, and repairs what has changed until then. The less is left for later.
    async fn copy(&self, table: &Table, entries: &[Entry], work: &Work) -> Result<u64> {
        let own = self.name;
        let reader = Reader::new(self.cluster, table, own, work.level()).await?;
        if reader.is_empty().await? {
            return Ok(0);
        }
        let copied = backfill::fill(self.cluster, table, own, entries, work).await?;
        verdict::verify(self.cluster, (table, own), entries, work, true).await?;
        Ok(copied)
    }

    /// From now on proxies neither write nor read the table. What the entries are then.
    async fn stop(&self, entries: Vec<Entry>) -> Result<Vec<Entry>> {
        let known = catalogue::read(self.cluster, self.name).await?;
        let mut changes = vec![Change::Mode(Some(Mode::Replace))];
        if known.mode(self.name)? != Mode::Replace {
            known.check_unchanged(self.name, &entries)?;
        }
        let ready = entries.into_iter().map(|entry| Entry {
            state: State::Ready.name().to_owned(),
            ..entry
        });
        let ready: Vec<Entry> = ready.collect();
        changes.extend(ready.iter().map(Change::Put));
        catalogue::change(self.cluster, self.name, &known, &changes).await?;
        Ok(ready)
    }

    /// Once nobody writes the table, the copies are made equal to it, and the lists added.
    async fn hand_over(
        &self,
        table: &Table,
        entries: &[Entry],
        work: &Work,
        done: &mut Done,
    ) -> Result<()> {
        let (cluster, name) = (self.cluster, self.name);
        if self.settle.is_needed() {
            self.settle.wait("writes to the table end").await;
            let quiet = hints::unseen_max(cluster);
            hints::wait_for_none(cluster, quiet, HINTS_LEFT).await?;
        }
        let targets: Vec<(TableName, &[String])> = entries
            .iter()
            .map(|entry| (entry.table(name), &*entry.clustering))
            .collect();
        let table = add_columns(cluster, table, &targets, work).await?;
        check_tables(cluster, &table, entries).await?;
        self.allow(cluster.role.as_deref()).await?;
        let before = self.now().await?;
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
        if self.now().await? != before {
            bail!(
                "a node was restarted, or the ring has changed, while copies of {name} were compared: wait \
                 until all nodes are up"
            );
        }
        self.allow(None).await?;
        if self.settle.is_needed() && !is_proxy_alive(cluster).await? {
            bail!(
                "no proxy is in the list of proxies and gives signs of life, and without one clients could not use the \
                 copies of {name}: start one with layouts.enabled = true and cluster.allow_remote_dc = true, whose role has \
                 its rights on the keyspace helenus (--proxy-role); its log tells what it lacks"
            );
        }
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
        stage::open(cluster, name, &standing, (&groups, &all), &boots).await
    }

    /// Clients use the table again. It has all rows as long as there have been no lists.
    async fn go_back(&self, entries: &[Entry]) -> Result<()> {
        let (cluster, name) = (self.cluster, self.name);
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

    /// The ranges by their owners, and which start of each node that is.
    async fn now(&self) -> Result<(nodes::Groups, std::collections::BTreeMap<String, i32>)> {
        let data_centers = self.copies.iter().map(|copy| copy.data_center.clone());
        let data_centers: Vec<String> = data_centers.collect();
        let ring = nodes::read(self.cluster).await?;
        let groups = nodes::groups(&ring, &data_centers)?;
        Ok((groups, nodes::boots(self.cluster).await?))
    }

    fn report(&self, done: &Done, took: Duration) -> Result<()> {
        if self.args.json {
            let layouts = self.copies.iter().map(|copy| {
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
                "table": self.name.to_string(),
                "mode": Mode::Replace.name(),
                "layouts": layouts.collect::<Vec<_>>(),
                "rows": done.rows,
                "rows_copied": done.copied,
                "rows_repaired": done.repaired,
                "stopped_s": done.stopped.map(|stopped| stopped.as_secs_f64()),
                "seconds": took.as_secs_f64(),
            });
            println!("{report:#}");
            return Ok(());
        }
        for copy in self.copies {
            println!(
                "{} {}: in {}, sorted by {} ({})",
                self.name,
                copy.name,
                copy.data_center,
                copy.clustering.join(", "),
                copy.table
            );
        }
        match (done.rows, done.stopped) {
            (Some(rows), Some(stopped)) => println!(
                "{rows} rows, copied and compared in {:.1} s; clients could not use the table for {:.1} s of these",
                took.as_secs_f64(),
                stopped.as_secs_f64()
            ),
            _ => println!("they were there already"),
        }
        Ok(())
    }
}

/// Empties the table. All its rows are in the copies, and no proxy that knows the catalogue reads it.
pub(super) async fn empty(
    cluster: &Cluster,
    name: &TableName,
    entries: &[Entry],
    (level, settle, is_resumed): (Consistency, Settle, bool),
) -> Result<()> {
    let table = table::load(cluster, name).await?;
    let reader = Reader::new(cluster, &table, name, level).await?;
    if !reader.is_empty().await? {
        // What was copied last is in the commit logs by then.
        tokio::time::sleep(COMMIT_LOG_SYNC).await;
        let now = catalogue::read(cluster, name).await?;
        now.check_unchanged(name, entries)?;
        let standing = stage::read(cluster, name).await?;
        if now.mode(name)? != Mode::Replace || standing.stage(name)? != Some(Stage::Open) {
            bail!("another command is at work on {name}: see `helenus layouts status {name}`");
        }
        let truncate = format!("TRUNCATE {}", name.to_cql());
        cluster.run(&truncate).await.with_context(|| {
            format!(
                "clients use the copies of {name}, but the table itself is not empty yet: run this again"
            )
        })?;
    }
    if is_resumed && settle.is_needed() {
        // Whoever was at it may have sent a TRUNCATE, which must not come after a `drop`.
        let more = settle.for_emptying(Emptying::Perhaps);
        settle.wait_longer(more, "the table is emptied").await;
    }
    let standing = stage::read(cluster, name).await?;
    if standing.stage(name)? != Some(Stage::InUse) {
        stage::use_them(cluster, name, &standing).await?;
    }
    for entry in entries {
        ranges::forget(cluster, name, &entry.layout).await?;
    }
    Ok(())
}
