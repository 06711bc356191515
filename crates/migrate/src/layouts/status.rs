//! `helenus layouts status`: which layouts there are, and whether they are as they should be.

use std::collections::{BTreeSet, HashMap};

use anyhow::{Result, bail};
use clap::Args;
use comfy_table::{Table as TextTable, presets};
use helenus_catalogue::{Feature, Layout, LayoutState};
use helenus_cql::Name;
use helenus_rows::{Column, Table, TableName};
use serde_json::{Value, json};

use super::entry::table_of;
use super::ranges;
use super::replication::hinted::{Hinted, data_centers};
use super::sweep::Swept;
use super::{home, names};
use crate::catalogue::{self, Known, told_lost};
use crate::nodes::access::Access;
use crate::nodes::cluster::Cluster;
use crate::nodes::grants::{self, Differing};
use crate::nodes::table;

/// Show the layouts of a table, or of all tables.
///
/// Exit codes: 0 all are as they should be, 1 something is wrong.
#[derive(Args)]
pub struct StatusArgs {
    /// KEYSPACE.TABLE [default: all tables with layouts]
    table: Option<TableName>,
    #[command(flatten)]
    access: Access,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A layout with its problems, progress and rights.
struct Shown {
    entry: Layout,
    held_in: TableName,
    /// Of the keyspace that holds it, if that is there.
    replication: Option<String>,
    problems: Vec<String>,
    /// Ranges copied and all ranges, while it is being filled.
    progress: Option<(usize, u64)>,
    rights: Differing,
}

struct Of {
    name: TableName,
    known: Known,
    layouts: Vec<Shown>,
    /// Of derived ones that are read.
    swept: Option<Swept>,
    /// Tables that are named as those of layouts, and are none: of an interrupted `drop`, as a rule.
    left_behind: Vec<TableName>,
    /// The advice if the catalogue has lost the table's entries.
    lost: Option<String>,
}

impl Of {
    /// The last layout was dropped, and the command was interrupted then.
    fn is_interrupted(&self) -> bool {
        self.layouts.is_empty() && self.known.flag(Feature::Layouts).is_some()
    }
}

pub async fn run(args: StatusArgs) -> Result<()> {
    let cluster = args.access.connect().await?;
    let names: Vec<TableName> = match &args.table {
        Some(name) => {
            table::load(&cluster, name).await?;
            vec![name.clone()]
        }
        None => {
            let tables = catalogue::tables(&cluster, Feature::Layouts).await?;
            tables.iter().map(catalogue::name).collect()
        }
    };
    let lost = catalogue::lost(&cluster).await?;
    let hinted = Hinted::of(&cluster).await;
    let mut tables = Vec::new();
    for name in names {
        let known = catalogue::read_with_losses(&cluster, &name).await?;
        let mut layouts = Vec::new();
        for entry in known.layouts() {
            layouts.push(layout(&cluster, &name, entry, &hinted).await?);
        }
        let key = catalogue::key(&name);
        let mut lost = lost.iter().filter(|flag| flag.feature == Feature::Layouts);
        tables.push(Of {
            left_behind: left_behind(&cluster, &name, &known).await?,
            lost: lost.find(|flag| flag.table == key).map(told_lost),
            swept: Swept::of(&cluster, &name, known.layouts()).await?,
            name,
            known,
            layouts,
        });
    }
    match args.json {
        true => println!(
            "{:#}",
            json!({ "tables": tables.iter().map(as_json).collect::<Vec<_>>() })
        ),
        false => print_text(&tables),
    }
    let lost = tables.iter().filter(|table| table.lost.is_some()).count();
    if lost > 0 {
        bail!("the catalogue has lost what it said of {lost} tables");
    }
    let left: usize = tables.iter().map(|table| table.left_behind.len()).sum();
    if left > 0 {
        bail!(
            "{left} tables of layouts are in no catalogue: whoever had rights on them can read there what they had when \
             they were left"
        );
    }
    let layouts = tables.iter().flat_map(|table| &table.layouts);
    let wrong = layouts.filter(|layout| !layout.problems.is_empty()).count();
    if wrong > 0 {
        bail!("{wrong} layouts are not as they should be");
    }
    let swept = tables.iter().filter_map(|table| table.swept.as_ref());
    let unswept = swept.filter(|swept| !swept.problems().is_empty()).count();
    if unswept > 0 {
        bail!("the derived layouts of {unswept} tables are not compared as they should be");
    }
    Ok(())
}

async fn layout(
    cluster: &Cluster,
    name: &TableName,
    entry: &Layout,
    hinted: &Hinted,
) -> Result<Shown> {
    let copy_name = table_of(entry, name);
    let has_keyspace = table::keyspace_exists(cluster, &copy_name.keyspace).await?;
    let mut found = Shown {
        entry: entry.clone(),
        held_in: copy_name.clone(),
        replication: match has_keyspace {
            true => Some(table::replication(cluster, &copy_name.keyspace).await?),
            false => None,
        },
        problems: Vec::new(),
        progress: None,
        rights: Differing::default(),
    };
    if entry.state().is_none() {
        let state = &entry.state;
        found.problems.push(format!(
            "its state {state:?} is unknown: it was made by another version of helenus"
        ));
    }
    if entry.state() == Some(LayoutState::Behind) {
        found.problems.push(
            "it has missed writes, and is neither read nor written: `helenus layouts sweep` compares it, or `helenus layouts \
             rebuild` fills it anew"
                .to_owned(),
        );
    }
    if !table::exists(cluster, &copy_name.keyspace, &copy_name.table).await? {
        let advice = match (entry.is_derived(), has_keyspace) {
            (false, _) => "drop the layout and create it again",
            (true, true) => "`helenus layouts rebuild` makes it anew",
            (true, false) => {
                "nor does its keyspace: `helenus layouts rebuild` with --replication makes both anew"
            }
        };
        found.problems.push(format!(
            "its table {} does not exist: {advice}",
            copy_name.to_cql()
        ));
        return Ok(found);
    }
    let copy = table::load(cluster, &copy_name).await?;
    if entry.is_derived() {
        let options = table::replication_options(cluster, &copy_name.keyspace).await?;
        let replicated_in = data_centers(&options, &cluster.data_centers());
        let problems = hinted.problems(name, copy.gc_grace_seconds, &replicated_in);
        found.problems.extend(problems);
    }
    if !table::exists(cluster, &name.keyspace, &name.table).await? {
        found.problems.push(format!(
            "there is no table {name} any more: drop its layouts (helenus layouts drop {name} --all)"
        ));
        return Ok(found);
    }
    match table::load(cluster, name).await {
        Ok(own) if own.has_keys_of(&copy, &entry.clustering) => {
            found.problems.extend(differing_columns(&own, &copy));
            found.problems.extend(differing_ttl(&own, &copy));
            let dropped = [
                table::dropped(cluster, name).await?,
                table::dropped(cluster, &copy_name).await?,
            ];
            let differing = differing_drop(&own, &copy, entry, &dropped);
            found.problems.extend(differing);
            for table in [&own, &copy] {
                found.problems.extend(masks(cluster, table).await?);
            }
        }
        Ok(_) => found.problems.push(format!(
            "{copy_name} does not have the keys of {name} in the order of the layout: drop the layout and create \
             it again"
        )),
        Err(e) => found.problems.push(format!(
            "{name} could not be looked at: {e:#}; run this again"
        )),
    }
    if entry.state() == Some(LayoutState::Writing) {
        let (done, all) = ranges::done(cluster, name, entry).await?;
        found.progress = all.map(|all| (done.len(), all));
    }
    if grants::are_checked(cluster).await {
        match grants::differing(cluster, name, &copy_name).await {
            Ok(rights) => found.rights = rights,
            Err(e) => found.problems.push(format!("rights cannot be read: {e:#}")),
        }
        let full = copy_name.to_cql();
        found.problems.extend(problems_of(&found.rights, &full));
        match excess_of_keyspace(cluster, name, &copy_name.keyspace).await {
            Ok(problems) => found.problems.extend(problems),
            Err(e) => found.problems.push(format!("rights cannot be read: {e:#}")),
        }
    }
    Ok(found)
}

/// A role that has a right on the keyspace of layouts and not on that of their tables. What it lacks there shows as lacking on
/// the layout.
async fn excess_of_keyspace(
    cluster: &Cluster,
    table: &TableName,
    home: &Name,
) -> Result<Vec<String>> {
    if !home::holds_nothing_else(cluster, &table.keyspace, home, &[]).await? {
        return Ok(Vec::new());
    }
    let full = home.to_cql();
    let mut problems = Vec::new();
    for (on, rights) in grants::differing_keyspaces(cluster, &table.keyspace, home).await? {
        let excess = Differing {
            excess: rights.excess,
            ..Differing::default()
        };
        problems.extend(problems_of(&excess, &format!("{on} {full}")));
    }
    Ok(problems)
}

/// Of an ALTER TABLE past the proxies, or one that was carried out in part.
fn differing_columns(own: &Table, copy: &Table) -> Vec<String> {
    let (name, copy_name) = (&own.name, &copy.name);
    let listed = |differing: Vec<(&Column, bool)>| {
        let differing = differing.into_iter().map(|(column, is_static)| {
            let kind = if is_static { " static" } else { "" };
            format!("{} {}{kind}", column.to_cql(), column.cql_type)
        });
        differing.collect::<Vec<_>>().join(", ")
    };
    let mut problems = Vec::new();
    let lacking: Vec<(&Column, bool)> = own.lacking(copy).collect();
    let further: Vec<(&Column, bool)> = copy.lacking(own).collect();
    let is_new = |(column, _): &(&Column, bool)| copy.others().all(|c| c.name != column.name);
    if !lacking.is_empty() && lacking.iter().all(is_new) {
        let columns = listed(lacking);
        problems.push(format!(
            "{copy_name} does not have {columns} as {name} does, so that it is not read, and writes of that fail: \
             if nobody has written it since, ALTER TABLE {copy_name} ADD ({columns}); otherwise drop the layout and \
             create it again"
        ));
    } else if !lacking.is_empty() || !further.is_empty() {
        let columns = listed(further);
        problems.push(format!(
            "{copy_name} has {columns}, and {name} has not, so that it is not read: if that lasts, an ALTER TABLE \
             was carried out in part, or past the proxies: drop the layout and create it again"
        ));
    }
    problems
}

/// Of an ALTER TABLE … DROP that was carried out in part, before the column was added again. `dropped`: when columns were
/// dropped of the table and of the layout.
fn differing_drop(
    own: &Table,
    copy: &Table,
    entry: &Layout,
    dropped: &[HashMap<String, i64>; 2],
) -> Option<String> {
    let mut both = own
        .others()
        .filter(|column| copy.others().any(|of| of.name == column.name));
    let column = both.find(|column| {
        let [own_ms, copy_ms] = [0, 1].map(|at: usize| dropped[at].get(&column.name).copied());
        !entry.hides_what_its_table_hides(own_ms, copy_ms)
    })?;
    Some(format!(
        "column {} of {} was not dropped when that of {} was, and may show other values, so that the layout is not read: \
         `helenus layouts rebuild` fills it anew",
        column.to_cql(),
        copy.name,
        own.name
    ))
}

/// Rows that are written without a time to live would expire in one of the two only.
fn differing_ttl(own: &Table, copy: &Table) -> Option<String> {
    (own.default_ttl != copy.default_ttl).then(|| {
        format!(
            "{} has default_time_to_live = {}, and {} has {}, so that the layout is not read: drop it and create it \
             again",
            copy.name, copy.default_ttl, own.name, own.default_ttl
        )
    })
}

async fn masks(cluster: &Cluster, table: &Table) -> Result<Option<String>> {
    let masked = table::masked(table, cluster).await?;
    Ok((!masked.is_empty()).then(|| {
        format!(
            "{} of {} is masked, and masks are not carried over to layouts, so that the layout is not read: drop the \
             mask or the layout",
            masked.join(", "),
            table.name
        )
    }))
}

/// A role that lacks a right on the layout cannot use the table; one that has too many reads the table's rows.
fn problems_of(rights: &Differing, full: &str) -> Vec<String> {
    let listed = |permissions: &BTreeSet<String>| {
        let names: Vec<&str> = permissions.iter().map(String::as_str).collect();
        names.join(", ")
    };
    let missing = rights.missing.iter().map(|(role, permissions)| {
        let permissions = listed(permissions);
        format!("{role} has {permissions} on the table and not on the layout: GRANT it on {full}")
    });
    let excess = rights.excess.iter().map(|(role, permissions)| {
        let permissions = listed(permissions);
        format!("{role} has {permissions} on the layout and not on the table: REVOKE it on {full}")
    });
    missing.chain(excess).collect()
}

/// In the table's keyspace, and in those that hold derived layouts of it, or would.
async fn left_behind(cluster: &Cluster, name: &TableName, known: &Known) -> Result<Vec<TableName>> {
    let mut places = vec![
        name.keyspace.clone(),
        names::derived_keyspace(&name.keyspace),
    ];
    for entry in known.layouts() {
        let place = table_of(entry, name).keyspace;
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let mut left = Vec::new();
    for keyspace in places {
        for table in table::names(cluster, &keyspace).await? {
            let layout = names::layout_of(&name.table, &table);
            if layout.is_none_or(|layout| known.layout(layout).is_some()) {
                continue;
            }
            let held_in = TableName {
                keyspace: keyspace.clone(),
                table: Name::from_stored(table),
            };
            // Tables of the same name in other keyspaces may have layouts there as well.
            if catalogue::original(cluster, &held_in).await?.is_none() {
                left.push(held_in);
            }
        }
    }
    Ok(left)
}

/// As people are shown it: without the keyspace if that is the table's own.
fn short(held_in: &TableName, table: &TableName) -> String {
    match held_in.keyspace == table.keyspace {
        true => held_in.table.to_string(),
        false => held_in.to_string(),
    }
}

/// As JSON names it.
fn kind(entry: &Layout) -> &'static str {
    match entry.is_derived() {
        true => "derived",
        false => "in_keyspace",
    }
}

fn as_json(table: &Of) -> Value {
    let layouts = table.layouts.iter().map(|layout| {
        json!({
            "name": layout.entry.name,
            "state": layout.entry.state,
            "kind": kind(&layout.entry),
            "keyspace": &*layout.held_in.keyspace,
            "replication": layout.replication,
            "physical": layout.entry.physical,
            "clustering": layout.entry.clustering,
            "created_ms": layout.entry.created,
            "ranges_copied": layout.progress.map(|(done, _)| done),
            "ranges": layout.progress.map(|(_, all)| all),
            "grants_missing": layout.rights.missing,
            "grants_excess": layout.rights.excess,
            "problems": layout.problems,
        })
    });
    let counted = table.known.of.layouts.as_ref();
    let distinct = counted.into_iter().flat_map(|of| &of.distinct);
    json!({
        "table": table.name.to_string(),
        "rows": counted.and_then(|of| of.rows),
        "distinct_values": distinct.map(|(name, n)| (name.clone(), json!(n)))
            .collect::<serde_json::Map<_, _>>(),
        "sweep": table.swept.as_ref().map(Swept::as_json),
        "lost": table.lost,
        "interrupted_drop": table.is_interrupted(),
        "layouts": layouts.collect::<Vec<_>>(),
        "left_behind": table.left_behind.iter().map(|left| short(left, &table.name))
            .collect::<Vec<_>>(),
    })
}

fn print_text(tables: &[Of]) {
    if tables.is_empty() {
        println!("there are no layouts");
    }
    for table in tables {
        let rows = match table.known.of.layouts.as_ref().and_then(|of| of.rows) {
            Some(rows) => format!(", {rows} rows when last counted"),
            None => String::new(),
        };
        println!("{}: {} layouts{rows}", table.name, table.layouts.len());
        if let Some(lost) = &table.lost {
            println!("  problem: {lost}");
        }
        if table.is_interrupted() {
            println!(
                "  they were being dropped; unless a command is at work, `helenus layouts drop {} --all` goes on",
                table.name
            );
        }
        for left in &table.left_behind {
            let layout = names::layout_of(&table.name.table, &left.table).unwrap_or_default();
            let place = match left.keyspace == table.name.keyspace {
                true => String::new(),
                false => format!(" --keyspace {}", left.keyspace.to_cql()),
            };
            println!(
                "  {} is in no catalogue: unless a command is at work, `helenus layouts drop {} --layout {layout}{place}` \
                 drops it",
                short(left, &table.name),
                table.name
            );
        }
        if table.layouts.is_empty() {
            continue;
        }
        let mut lines = TextTable::new();
        lines.load_style(presets::NOTHING);
        for layout in &table.layouts {
            let entry = &layout.entry;
            let copied = match layout.progress {
                Some((done, all)) => format!("{done} of {all} ranges copied"),
                None => String::new(),
            };
            lines.add_row([
                entry.name.clone(),
                entry.state.clone(),
                entry.clustering.join(", "),
                short(&layout.held_in, &table.name),
                match (entry.is_derived(), &layout.replication) {
                    (true, Some(replication)) => format!("derived, {replication}"),
                    (true, None) => "derived".to_owned(),
                    (false, _) => "in the table's keyspace".to_owned(),
                },
                copied,
            ]);
        }
        println!("{lines}");
        if let Some(swept) = &table.swept {
            println!("  {}", swept.line());
            for problem in swept.problems() {
                println!("  problem: {problem}");
            }
        }
        for layout in &table.layouts {
            for problem in &layout.problems {
                println!("  problem with {}: {problem}", layout.entry.name);
            }
        }
    }
}
