//! `helenus layouts verify` of layouts in place of replicas: the copies that are in sync are compared with one of them.

use anyhow::{Result, bail};
use helenus_rows::Table;

use super::super::catalogue::{Entry, Partition};
use super::super::lists;
use super::super::verdict::{self, Verdict};
use super::super::work::Work;
use super::{check_tables, in_sync_everywhere, ring};
use crate::online::cluster::Cluster;

pub(in crate::layouts_cmd) async fn run(
    cluster: &Cluster,
    (table, known): (&Table, &Partition),
    (layouts, work, as_json): (&[String], &Work, bool),
) -> Result<()> {
    let name = &table.name;
    verdict::chosen(&known.entries, layouts, name)?;
    check_tables(cluster, table, &known.entries).await?;
    lists::complete(cluster).await?;
    let rows = lists::read_copies(cluster, name).await?;
    ring::check(cluster, (name, known), &rows).await?;
    let in_sync = in_sync_everywhere(&rows, known.entries.len());
    let in_sync: Vec<Entry> = in_sync
        .iter()
        .filter_map(|number| known.entries.get(*number).cloned())
        .collect();
    let Some((first, others)) = in_sync.split_first() else {
        bail!(
            "no copy of {name} is in sync in all ranges: wait until one is (helenus layouts status {name})"
        );
    };
    let others: Vec<Entry> = others
        .iter()
        .filter(|entry| layouts.is_empty() || layouts.contains(&entry.layout))
        .cloned()
        .collect();
    for entry in known
        .entries
        .iter()
        .filter(|entry| !in_sync.contains(entry))
    {
        eprintln!(
            "helenus: {} is not in sync in all ranges, and was not compared: proxies compare it before it comes back",
            entry.layout
        );
    }
    if !as_json {
        println!("compared with {}:", super::described(first, name));
    }
    let of_first = first.table(name);
    let compared = verdict::verify(cluster, (table, &of_first), &others, work, false).await;
    let (compared, verdicts) = compared?;
    verdict::keep_counts(cluster, name, &compared).await?;
    match as_json {
        true => println!("{:#}", verdict::as_json(name, &compared, &verdicts)),
        false => verdict::print_text(name, &compared, &verdicts, false),
    }
    let differing: u64 = verdicts.iter().map(Verdict::differing).sum();
    if differing > 0 {
        bail!(
            "{differing} rows of copies of {name} that are in sync differ: find out which copy is wrong, and take it out \
             with `helenus layouts rebuild {name} --layout NAME`"
        );
    }
    Ok(())
}
