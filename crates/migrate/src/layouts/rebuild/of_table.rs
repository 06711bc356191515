//! `helenus layouts rebuild --table`: fills a table whose replicas were lost from a derived layout, which has replicas of
//! its own.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use helenus_catalogue::{Layout, LayoutState};
use helenus_rows::TableName;
use serde_json::json;

use super::super::entry::{claim, table_of};
use super::super::verdict::check_copies;
use super::super::work::{Work, chosen};
use super::super::{backfill, rules};
use crate::catalogue;
use crate::common::Common;
use crate::nodes::cluster::Cluster;
use crate::nodes::table;

/// What was copied.
pub(super) struct Restored {
    table: TableName,
    layout: String,
    rows: u64,
    time: Duration,
}

/// Copies the rows of the layout `from` to the table, with their times.
///
/// # Errors
/// Nobody has agreed to what that cannot bring back; the layout is not derived, or another command is at work on it.
pub(super) async fn run(
    cluster: &Cluster,
    name: &TableName,
    from: &str,
    work: &Work,
    has_agreed: bool,
) -> Result<Restored> {
    let begin = Instant::now();
    let table = table::load(cluster, name).await?;
    rules::check(&table, cluster).await?;
    let known = catalogue::read(cluster, name).await?;
    let entries = chosen(&known, &[from], name)?;
    let Some(entry) = entries.first() else {
        bail!("{name} has no layout {from}");
    };
    check_derived(entry, name)?;
    if !has_agreed {
        bail!("{}", warning(entry, name));
    }
    work.check_nodes(cluster).await?;
    check_copies(cluster, &table, &entries).await?;
    let held_in = table_of(entry, name);
    rules::refuse_untimed(cluster, &table, &held_in, work).await?;
    // Whoever empties the layout meanwhile puts in another number, and this ends.
    let claim = claim(cluster, name, &entries);
    let copied = backfill::restore(cluster, &table, entry, work, &claim).await;
    Ok(Restored {
        table: name.clone(),
        layout: entry.name.clone(),
        rows: claim.explained(copied).await?,
        time: begin.elapsed(),
    })
}

fn check_derived(entry: &Layout, table: &TableName) -> Result<()> {
    match entry.is_derived() {
        true => Ok(()),
        false => bail!(
            "layout {} of {table} is held by the same replicas as the table, and has lost what they have lost: only a \
             derived layout can fill its table",
            entry.name
        ),
    }
}

/// What the table will not be afterwards.
fn warning(entry: &Layout, table: &TableName) -> String {
    let unfilled = match entry.state() {
        Some(LayoutState::Ready) => "",
        _ => " The layout is not read at present, because it may not be filled.",
    };
    format!(
        "rows of layout {} would be written to {table}, with the times at which they were written. What the layout never \
         got, {table} will not have; deletions are not carried, so rows that were deleted come back where the layout \
         still has them; and clients go on writing meanwhile.{unfilled} A repair or a backup of {table} is better where \
         there is one. To go on: --yes",
        entry.name
    )
}

impl Restored {
    pub(super) fn print(&self, common: &Common) {
        let (table, layout, rows) = (self.table.to_string(), &self.layout, self.rows);
        let seconds = self.time.as_secs_f64();
        let text = format!(
            "{rows} rows of layout {layout} written to {table} in {seconds:.1} s; compare them with `helenus layouts \
             verify {table}`"
        );
        let report = json!({ "table": table, "from": layout, "rows": rows, "seconds": seconds });
        common.print(&report, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_filled_from_a_derived_layout_after_a_warning() {
        let table: TableName = "shop.orders".parse().expect("a name");
        let beside = Layout {
            name: "a".to_owned(),
            state: LayoutState::Ready.name().to_owned(),
            ..Layout::default()
        };
        assert!(check_derived(&beside, &table).is_err());
        let ready = Layout {
            keyspace: Some("shop__layouts".to_owned()),
            ..beside
        };
        assert!(check_derived(&ready, &table).is_ok());
        let told = warning(&ready, &table);
        for part in [
            "will not have",
            "deletions are not carried",
            "go on writing",
            "--yes",
        ] {
            assert!(told.contains(part), "{told}");
        }
        assert!(!told.contains("may not be filled"), "{told}");
        let filling = Layout {
            state: LayoutState::Writing.name().to_owned(),
            ..ready
        };
        assert!(warning(&filling, &table).contains("may not be filled"));
    }
}
