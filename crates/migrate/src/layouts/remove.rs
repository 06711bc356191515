//! `helenus layouts drop`: takes layouts out of use, then drops their tables.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use helenus_catalogue::change::{self, Change};
use helenus_catalogue::{Feature, Flag, Layout, LayoutState};
use helenus_console::cells::print_error;
use helenus_cql::Name;
use helenus_rows::TableName;
use serde_json::json;

use super::entry::{PROGRESS, begun_anew, check_free, check_unchanged, put, table_of};
use super::{home, names, ranges, tables};
use crate::catalogue::claim::look_right_before;
use crate::catalogue::settle::Settle;
use crate::catalogue::{self, Known, flags};
use crate::common::Common;
use crate::nodes::access::Access;
use crate::nodes::cluster::Cluster;
use crate::nodes::{grants, hints, table};

/// A write to a table with layouts in its keyspace is one mutation for all of them, and so is its hint. A node that gets
/// a hint with a table that no longer exists throws the whole of it away, what is in it for the table itself included. A
/// hint for a derived layout is about that alone.
const HINTS_LEFT: &str = "the layout's table cannot be dropped yet, because hints of writes to the table would \
     be lost with it. The layout is neither read nor written any more";

/// Drop layouts of a table. The table itself is not touched.
///
/// What an interrupted run has left is dropped by the same command; with --all, also what is left of layouts that the
/// catalogue has lost.
#[derive(Args)]
pub struct DropArgs {
    /// KEYSPACE.TABLE
    table: TableName,
    /// The layout; may be repeated
    #[arg(long = "layout", value_name = "NAME", required_unless_present = "all")]
    layouts: Vec<String>,
    /// All layouts of the table
    #[arg(long, conflicts_with = "layouts")]
    all: bool,
    /// Where to look also for layouts that the catalogue does not have any more [default: the table's keyspace, and that
    /// with __layouts]
    #[arg(long, value_name = "NAME", value_parser = home::parse_keyspace)]
    keyspace: Option<Name>,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    common: Common,
}

pub async fn run(args: DropArgs) -> Result<()> {
    let cluster = args.access.connect().await?;
    let table = &args.table;
    let mut lost = catalogue::lost(&cluster).await?;
    // Those of all layouts are dropped together.
    lost.retain(|flag| args.all && is_of(flag, table));
    let known = catalogue::read_with_losses(&cluster, table).await?;
    let layouts = chosen(&cluster, &args, &known, !lost.is_empty()).await?;
    let mut emptied = None;
    if !layouts.is_empty() {
        drop_layouts(&cluster, &args, &known, &layouts).await?;
        emptied = drop_keyspace(&cluster, table, &layouts).await?;
    }
    let is_last = flags::lower(&cluster, table, Feature::Layouts, &lost).await?;
    if is_last {
        forget_sweeps(&cluster, table).await?;
    }
    if layouts.is_empty() && !is_last {
        bail!("{table} has no layouts");
    }
    let names: Vec<&str> = layouts.iter().map(|layout| &*layout.name).collect();
    let mut text = match names.is_empty() {
        true => format!("dropped what was left of the layouts of {table}"),
        false => format!("dropped from {table}: {}", names.join(", ")),
    };
    if let Some(keyspace) = &emptied {
        text += &format!("\ndropped the keyspace {keyspace}, which held nothing else");
    }
    let report = json!({
        "table": table.to_string(),
        "dropped": names,
        "keyspace_dropped": emptied.as_deref(),
    });
    args.common.print(&report, &text);
    Ok(())
}

/// Nobody will compare its partitions with layouts any more.
async fn forget_sweeps(cluster: &Cluster, table: &TableName) -> Result<()> {
    let tables = catalogue::tables_of_keyspace(cluster).await?;
    let key = catalogue::key(table);
    for (name, forget) in [
        ("layout_doubts", change::forget_doubts(&key)),
        ("layout_sweeps", change::forget_sweeps(&key, None)),
    ] {
        if tables.contains(name) {
            cluster.run(&forget).await?;
        }
    }
    Ok(())
}

fn is_of(flag: &Flag, table: &TableName) -> bool {
    flag.feature == Feature::Layouts && flag.table == catalogue::key(table)
}

/// A layout that is to be dropped.
struct Chosen {
    name: String,
    held_in: TableName,
}

impl Chosen {
    fn is_derived(&self, table: &TableName) -> bool {
        self.held_in.keyspace != table.keyspace
    }
}

async fn chosen(
    cluster: &Cluster,
    args: &DropArgs,
    known: &Known,
    is_lost: bool,
) -> Result<Vec<Chosen>> {
    let table = &args.table;
    let of_entry = |layout: &Layout| Chosen {
        name: layout.name.clone(),
        held_in: table_of(layout, table),
    };
    let places = places(args);
    let mut chosen = Vec::new();
    if !args.all {
        for name in &args.layouts {
            chosen.push(match known.layout(name) {
                Some(layout) => of_entry(layout),
                // Its entry may be gone already, and only its table be left.
                None => left_behind(cluster, table, name, &places).await?,
            });
        }
        return Ok(chosen);
    }
    chosen.extend(known.layouts().iter().map(of_entry));
    let is_interrupted = chosen.is_empty() && known.flag(Feature::Layouts).is_some();
    if !is_lost && !is_interrupted {
        return Ok(chosen);
    }
    for place in &places {
        for held_in in table::names(cluster, place).await? {
            let name = names::layout_of(&table.table, &held_in);
            let Some(name) = name.filter(|name| known.layout(name).is_none()) else {
                continue;
            };
            match left_behind(cluster, table, name, std::slice::from_ref(place)).await {
                Ok(left) => chosen.push(left),
                Err(why) => eprintln!("helenus: {why:#}"),
            }
        }
    }
    Ok(chosen)
}

/// The keyspaces in which tables of layouts may be left.
fn places(args: &DropArgs) -> Vec<Name> {
    let own = &args.table.keyspace;
    let by_default = [own, &names::derived_keyspace(own)];
    let mut places: Vec<Name> = Vec::new();
    for keyspace in args.keyspace.iter().chain(by_default) {
        if !places.contains(keyspace) {
            places.push(keyspace.clone());
        }
    }
    places
}

/// Drops the keyspace in which derived layouts are held unless another is named, if nothing is left there.
async fn drop_keyspace(
    cluster: &Cluster,
    table: &TableName,
    layouts: &[Chosen],
) -> Result<Option<Name>> {
    let keyspace = names::derived_keyspace(&table.keyspace);
    let was_there = layouts.iter().any(|of| of.held_in.keyspace == keyspace);
    let is_dropped = was_there && tables::drop_keyspace_if_empty(cluster, &keyspace).await?;
    Ok(is_dropped.then_some(keyspace))
}

/// Takes layouts out of the catalogue, then drops their tables.
async fn drop_layouts(
    cluster: &Cluster,
    args: &DropArgs,
    known: &Known,
    layouts: &[Chosen],
) -> Result<()> {
    let table = &args.table;
    let entries: Vec<&Layout> = layouts
        .iter()
        .filter_map(|of| known.layout(&of.name))
        .collect();
    let is_filling = |entry: &&Layout| entry.state() != Some(LayoutState::Ready);
    let others = args.common.others(entries.iter().any(is_filling));
    let settle = Settle::of(cluster, others).await;
    let settle = settle.with_derived(layouts.iter().any(|of| of.is_derived(table)));
    // Also those that are not read: a command that fills one must not open it any more.
    let closed: Vec<Layout> = entries.into_iter().map(begun_anew).collect();
    if closed.is_empty() {
        // An interrupted run may have made the change a moment ago.
        known.spread(cluster).await?;
    } else {
        put(cluster, table, known, &closed).await?;
    }
    settle.wait("no longer read").await;
    let known = catalogue::read_with_losses(cluster, table).await?;
    check_ours(&known, table, layouts, &closed)?;
    take_reading(cluster, table, layouts).await;
    if !closed.is_empty() {
        let changes = closed.iter().map(|layout| &*layout.name);
        let changes: Vec<Change<'_>> = changes.map(Change::RemoveLayout).collect();
        catalogue::change(cluster, table, &known, &changes).await?;
    }
    settle.wait("no longer written").await;
    if layouts.iter().any(|of| !of.is_derived(table)) {
        let quiet = match args.common.no_proxies {
            true => Duration::ZERO,
            false => hints::unseen_max(cluster),
        };
        hints::wait_for_none(cluster, quiet, HINTS_LEFT).await?;
    }
    let has_notes = catalogue::tables_of_keyspace(cluster)
        .await?
        .contains(PROGRESS.name);
    for Chosen { name, held_in } in layouts {
        let full = held_in.to_cql();
        if names::is_of_layout(&table.table, name, &held_in.table) {
            look_right_before(async || check_unused(cluster, table, name, held_in).await).await?;
            cluster.run(&format!("DROP TABLE IF EXISTS {full}")).await?;
        } else {
            // Whatever wrote that: the table of somebody else is not dropped.
            eprintln!(
                "helenus: the catalogue had {full} as the table of a layout of {table}, which layouts are never named: \
                 it is not dropped"
            );
        }
        if has_notes {
            ranges::forget(cluster, table, name).await?;
        }
    }
    Ok(())
}

/// Fails if another command is at work on one of the layouts: its rights are that command's business then, too.
fn check_ours(
    known: &Known,
    table: &TableName,
    layouts: &[Chosen],
    closed: &[Layout],
) -> Result<()> {
    check_unchanged(known, table, closed)?;
    let has_entry = |of: &&Chosen| closed.iter().any(|layout| layout.name == of.name);
    for Chosen { name, held_in } in layouts.iter().filter(|of| !has_entry(of)) {
        check_free(known, table, name, held_in)?;
    }
    Ok(())
}

/// Whatever becomes of this command, nobody is to read in a table that it leaves behind what they may no longer read of the
/// table itself.
async fn take_reading(cluster: &Cluster, table: &TableName, layouts: &[Chosen]) {
    if !grants::are_checked(cluster).await {
        return;
    }
    for Chosen { name, held_in } in layouts {
        // The catalogue may say anything.
        if !names::is_of_layout(&table.table, name, &held_in.table) {
            continue;
        }
        if let Err(why) = grants::take_reading(cluster, held_in).await {
            print_error(&why.context(format!(
                "until it is dropped, {held_in} can be read by those who had the right to"
            )));
        }
    }
}

/// Fails if the catalogue has it again. Since it was taken out, or was found in no catalogue, minutes may
/// have passed, and `create` takes over an empty table that is a copy.
async fn check_unused(
    cluster: &Cluster,
    table: &TableName,
    layout: &str,
    held_in: &TableName,
) -> Result<()> {
    let now = catalogue::read_with_losses(cluster, table).await?;
    check_free(&now, table, layout, held_in)?;
    match catalogue::original(cluster, held_in).await? {
        None => Ok(()),
        Some(other) => bail!("{held_in} is not dropped: it holds a layout of {other}"),
    }
}

/// The table of a layout that the catalogue does not have, if that is what it is: in the first of these keyspaces that has
/// one.
async fn left_behind(
    cluster: &Cluster,
    table: &TableName,
    layout: &str,
    places: &[Name],
) -> Result<Chosen> {
    names::check_layout(layout)?;
    let physical = names::physical(&table.table, layout)?;
    let mut found = None;
    for keyspace in places {
        if table::exists(cluster, keyspace, &physical).await? {
            found = Some(keyspace.clone());
            break;
        }
    }
    let Some(keyspace) = found else {
        bail!("{table} has no layout {layout}: `helenus layouts status {table}` lists them");
    };
    let held_in = TableName {
        keyspace,
        table: Name::from_stored(physical),
    };
    check_unused(cluster, table, layout, &held_in).await?;
    let own = table::load(cluster, table).await?;
    let found = table::load(cluster, &held_in).await?;
    let order: Vec<String> = found.clustering.iter().map(|c| c.name.clone()).collect();
    // It may lack what the table has got since.
    if !own.has_keys_of(&found, &order) || found.lacking(&own).next().is_some() {
        bail!("{held_in} is not in the catalogue and no copy of {table}: it is not touched");
    }
    Ok(Chosen {
        name: layout.to_owned(),
        held_in,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layouts::entry::in_state;
    use crate::layouts::testing::known;

    #[test]
    fn a_drop_notices_that_another_command_has_taken_over() {
        let table: TableName = "shop.orders".parse().expect("a name");
        let layout = |name: &str| Layout {
            name: name.to_owned(),
            keyspace: None,
            physical: format!("orders__layout_{name}"),
            state: LayoutState::Writing.name().to_owned(),
            created: 7,
            ..Layout::default()
        };
        let (closed, left) = (layout("a"), layout("b"));
        let chosen = [&closed, &left].map(|of| Chosen {
            name: of.name.clone(),
            held_in: table_of(of, &table),
        });
        // The second has no entry any more.
        let check = |entries: &[&Layout]| {
            let ours = std::slice::from_ref(&closed);
            check_ours(&known(entries), &table, &chosen, ours)
        };
        assert!(check(&[&closed]).is_ok());
        assert!(check(&[&closed, &left]).is_err(), "it was created again");
        let opened = in_state(&closed, LayoutState::Ready);
        for others in [&[][..], &[&opened], &[&begun_anew(&closed)]] {
            assert!(check(others).is_err(), "{others:?}");
        }
    }
}
