//! `helenus layouts verify` of layouts in place of replicas: the copies that are in sync are compared with one of them.

use anyhow::{Result, bail};
use helenus_rows::Table;

use super::super::catalogue::{Entry, Partition};
use super::super::lists;
use super::super::verify::{self, Verdict, VerifyArgs};
use super::{check_tables, in_sync_everywhere};
use crate::online::cluster::Cluster;

pub(in crate::layouts_cmd) async fn run(
    args: &VerifyArgs,
    cluster: &Cluster,
    (table, known): (&Table, &Partition),
) -> Result<()> {
    let name = &table.name;
    if args.repair {
        bail!(
            "the layouts of {name} are in place of its replicas, and each of them may be the one that is right: take \
             the one that is wrong out with `helenus layouts rebuild {name} --layout NAME`, and proxies make it what the \
             others are"
        );
    }
    verify::chosen(&known.entries, &args.layouts, name)?;
    check_tables(cluster, table, &known.entries).await?;
    let rows = lists::read_copies(cluster, name).await?;
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
        .filter(|entry| args.layouts.is_empty() || args.layouts.contains(&entry.layout))
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
    if !args.json {
        println!("compared with {}:", super::described(first, name));
    }
    let of_first = first.table(name);
    let compared = verify::verify(cluster, (table, &of_first), &others, &args.work, false).await;
    let (compared, verdicts) = compared?;
    verify::keep_counts(cluster, name, &compared).await?;
    match args.json {
        true => println!("{:#}", verify::as_json(name, &compared, &verdicts)),
        false => verify::print_text(name, &compared, &verdicts, false),
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
