//! `helenus layouts create`: makes layouts of a table while it is in use.
//!
//! The table of each layout is created; the catalogue says `writing`; once every proxy writes to it, the
//! rows there were are copied, and compared; then the catalogue says `ready`. The same command goes on
//! with what was interrupted.

mod args;
pub(super) mod request;

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use helenus_catalogue::{Feature, Layout, LayoutState};
use helenus_cql::Name;
use helenus_rows::TableName;
use serde_json::json;

pub use self::args::CreateArgs;
use super::entry::{PROGRESS, begun_anew, put, table_of, tables_of};
use super::fill::{self, Filled};
use super::following::{add_columns, copy_grants};
use super::replication::hinted::Hinted;
use super::{home, ranges, rules, tables};
use crate::catalogue::settle::{Emptying, Settle};
use crate::catalogue::{self, Known, Needs, flags};
use crate::nodes::cluster::Cluster;
use crate::nodes::table;

pub async fn run(args: CreateArgs) -> Result<()> {
    let wanted = match &args.design {
        Some(path) => request::of_design(path, &args.table)?,
        None => args.layouts.clone(),
    };
    let cluster = args.access.connect().await?;
    cluster.check_partitioner().await?;
    args.work.check_nodes(&cluster).await?;
    let table = table::load(&cluster, &args.table).await?;
    rules::check(&table, &cluster).await?;
    request::check(&wanted, &table)?;
    let known = catalogue::read(&cluster, &args.table).await?;
    check_not_encoded(&known, &args.table)?;
    if let Some(original) = catalogue::original(&cluster, &args.table).await? {
        bail!(
            "{} holds a layout of {original}, and what is written to it as such is not copied further: make \
             layouts of {original}",
            args.table
        );
    }
    let layouts = home::entries(&wanted, &args.said(), &args.table, &known)?;
    let news = news(&layouts, &known)?;
    if news.is_empty() {
        report(&args, &layouts, None);
        return Ok(());
    }
    if news.iter().any(|layout| layout.is_derived()) {
        rules::check_derived(&table)?;
        if let Some(replication) = &args.replication {
            let replicated_in = replication.data_centers(&cluster.data_centers());
            let hinted = Hinted::of(&cluster).await;
            hinted.check(&args.table, table.gc_grace_seconds, &replicated_in)?;
        }
    }
    // Of one that is written already, rows that it misses are found when it is compared.
    if news
        .iter()
        .any(|layout| known.layout(&layout.name).is_none())
    {
        rules::refuse_untimed(&cluster, &table, &args.table, &args.work).await?;
    }
    let homes = layouts
        .iter()
        .filter_map(|layout| layout.keyspace.as_deref());
    for home in homes.collect::<BTreeSet<_>>() {
        home::refuse_shared(&cluster, &Name::from_stored(home), &args.table).await?;
    }
    tables::make_keyspaces(&cluster, &layouts, args.replication.as_ref()).await?;
    tables::make(&cluster, &table, &layouts, &known).await?;
    let tables = tables_of(news.iter().copied(), &args.table);
    let needs = Needs::Layouts {
        progress: PROGRESS,
        are_derived: news.iter().any(|layout| layout.is_derived()),
    };
    catalogue::create(&cluster, &args.table, &args.proxy_role, needs).await?;
    // Before proxies write the layouts: a role that may not write one could not write the table any more.
    let role = cluster.role.as_deref();
    copy_grants(&cluster, &args.table, &tables, role).await?;
    let known = catalogue::read(&cluster, &args.table).await?;
    check_not_encoded(&known, &args.table)?;
    let entries = writing(&layouts, &known)?;
    put(&cluster, &args.table, &known, &entries).await?;
    flags::raise(&cluster, &args.table, Feature::Layouts).await?;
    let taken_over = take_over(&cluster, &args.table, &known, &entries).await?;
    let is_begun = |entry: &Layout| known.layout(&entry.name).is_some();
    let others = args.common.others(entries.iter().any(is_begun));
    let settle = Settle::of(&cluster, others).await;
    let settle = settle.with_derived(entries.iter().any(Layout::is_derived));
    let more = settle.for_emptying(taken_over);
    settle
        .wait_longer(more, "the layouts are being announced")
        .await;
    // Again: what was granted, revoked or added until all proxies knew reached the table alone.
    copy_grants(&cluster, &args.table, &tables, role).await?;
    let orders = news.iter().map(|layout| &*layout.clustering);
    let orders: Vec<_> = tables.iter().cloned().zip(orders).collect();
    let table = add_columns(&cluster, &table, &orders, &args.work).await?;
    let filled = fill::fill(&cluster, &table, &entries, &args.work).await?;
    fill::finish(&cluster, &table, &entries, &filled).await?;
    report(&args, &layouts, Some(&filled));
    Ok(())
}

fn check_not_encoded(known: &Known, table: &TableName) -> Result<()> {
    match known.encodings().first() {
        None => Ok(()),
        Some(encoding) => bail!(
            "column {} of {table} is encoded, and its values would be missing in a layout: a table can have layouts or \
             encoded columns (helenus payload disable)",
            encoding.column
        ),
    }
}

/// Those that are not ready yet. Fails if a layout of that name has another order, or is held elsewhere.
fn news<'a>(wanted: &'a [Layout], known: &Known) -> Result<Vec<&'a Layout>> {
    let mut news = Vec::new();
    for layout in wanted {
        let Some(entry) = known.layout(&layout.name) else {
            news.push(layout);
            continue;
        };
        if entry.clustering != layout.clustering {
            bail!(
                "there is a layout {} already, with another order: {}. Drop it first, or choose another name",
                entry.name,
                entry.clustering.join(", ")
            );
        }
        if entry.keyspace != layout.keyspace {
            bail!(
                "layout {} was created by somebody else meanwhile, in another keyspace: look with `helenus layouts \
                 status`, and run this again",
                entry.name
            );
        }
        if entry.state() != Some(LayoutState::Ready) {
            news.push(layout);
        }
    }
    let same = |layout: &Layout| {
        let mut others = known.layouts().iter();
        others.find(|e| e.name != layout.name && e.clustering == layout.clustering)
    };
    if let Some((layout, other)) = news.iter().find_map(|l| Some((l, same(l)?))) {
        bail!(
            "layout {} would have the order of layout {}",
            layout.name,
            other.name
        );
    }
    let is_of_other_kind = |layout: &Layout| {
        let mut others = known.layouts().iter();
        others.any(|other| other.is_derived() != layout.is_derived())
    };
    if news.iter().any(|layout| is_of_other_kind(layout)) {
        bail!("a table's layouts are all of one kind: look with `helenus layouts status`");
    }
    Ok(news)
}

/// The entries to fill. One that is being filled already gets a new number: whoever was at it, and may only
/// be slow, notices.
fn writing(wanted: &[Layout], known: &Known) -> Result<Vec<Layout>> {
    let entry = |layout: &Layout| match known.layout(&layout.name) {
        Some(entry) => begun_anew(entry),
        None => layout.clone(),
    };
    Ok(news(wanted, known)?.into_iter().map(entry).collect())
}

/// Goes on with what others have begun: what they have copied counts. What they were doing to those that
/// have nothing yet is not known: a `rebuild` may be emptying them.
async fn take_over(
    cluster: &Cluster,
    table: &TableName,
    known: &Known,
    entries: &[Layout],
) -> Result<Emptying> {
    let mut found = Emptying::No;
    for entry in entries {
        let Some(before) = known.layout(&entry.name) else {
            continue;
        };
        if ranges::take_over(cluster, table, before, entry).await? == 0 {
            found = Emptying::Perhaps;
        }
    }
    Ok(found)
}

fn report(args: &CreateArgs, layouts: &[Layout], filled: Option<&Filled>) {
    let table = args.table.to_string();
    let ready = layouts.iter().map(|layout| {
        let order = layout.clustering.join(", ");
        format!("{table} {}: ready, sorted by {order}", layout.name)
    });
    let mut lines: Vec<String> = ready.collect();
    lines.push(match filled {
        Some(filled) => format!(
            "{} rows, copied and compared in {:.1} s",
            filled.rows,
            filled.time.as_secs_f64()
        ),
        None => "they were there already".to_owned(),
    });
    if layouts.iter().any(Layout::is_derived) {
        lines.push(
            "derived layouts are compared with their table by `helenus layouts sweep`, which must run from now on, once for \
             the cluster (systemctl enable --now helenus-sweep)"
                .to_owned(),
        );
    }
    let layouts = layouts.iter().map(|layout| {
        json!({
            "name": layout.name,
            "keyspace": &*table_of(layout, &args.table).keyspace,
            "physical": layout.physical,
            "clustering": layout.clustering,
            "state": LayoutState::Ready.name(),
        })
    });
    let report = json!({
        "table": table,
        "layouts": layouts.collect::<Vec<_>>(),
        "rows": filled.map(|filled| filled.rows),
        "rows_copied": filled.map(|filled| filled.copied),
        "rows_repaired": filled.map(|filled| filled.repaired),
        "seconds": filled.map(|filled| filled.time.as_secs_f64()),
    });
    args.common.print(&report, &lines.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layouts::entry::check_unchanged;
    use crate::layouts::home::Said;
    use crate::layouts::testing::known;

    #[test]
    fn what_is_taken_over_gets_a_new_number() {
        let table: TableName = "shop.orders".parse().expect("a name");
        let wanted =
            ["a=day,clerk", "b=clerk,day", "c=id,day"].map(|w| request::parse(w).expect(w));
        let entry = |at: usize, state: LayoutState| Layout {
            name: wanted[at].name.clone(),
            keyspace: None,
            physical: format!("orders__layout_{}", wanted[at].name),
            clustering: wanted[at].clustering.clone(),
            state: state.name().to_owned(),
            created: 7,
        };
        let begun = entry(1, LayoutState::Writing);
        let before = known(&[&entry(0, LayoutState::Ready), &begun]);
        let wanted = home::entries(&wanted, &Said::default(), &table, &before);
        let wanted = wanted.expect("they are of one kind");
        let entries = writing(&wanted, &before).expect("they can be made");
        let names: Vec<&str> = entries.iter().map(|entry| &*entry.name).collect();
        assert_eq!(names, ["b", "c"], "the first is ready");
        // Whoever had begun it stops.
        let entries: Vec<&Layout> = entries.iter().collect();
        assert!(check_unchanged(&known(&entries), &table, &[begun]).is_err());
    }
    #[test]
    fn layouts_that_another_command_has_made_elsewhere_are_noticed() {
        let layout = |name: &str, keyspace: Option<&str>, order: [&str; 2]| Layout {
            name: name.to_owned(),
            keyspace: keyspace.map(str::to_owned),
            physical: format!("orders__layout_{name}"),
            clustering: order.map(str::to_owned).to_vec(),
            state: LayoutState::Writing.name().to_owned(),
            created: 7,
        };
        let wanted = [layout("a", Some("far"), ["x", "y"])];
        let of = |others: &[&Layout]| writing(&wanted, &known(others));
        assert!(of(&[]).is_ok());
        assert!(of(&[&layout("b", Some("near"), ["y", "x"])]).is_ok());
        for keyspace in [None, Some("near")] {
            assert!(of(&[&layout("a", keyspace, ["x", "y"])]).is_err());
        }
        let mixed = of(&[&layout("b", None, ["y", "x"])]).expect_err("another kind");
        assert!(mixed.to_string().contains("all of one kind"), "{mixed}");
    }
}
