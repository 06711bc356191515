//! That a command is still the one at work: it is asked for before something is written.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use helenus_rows::TableName;
use tokio::sync::Mutex;

use super::super::catalogue::{self, Entry};
use super::stage::Stage;
use crate::online::cluster::Cluster;
use crate::online::compare_and_set::place;

/// For so long a command relies on the answer that it is still the one at work. Who takes over waits longer.
const CHECK_MAX: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(in crate::layouts_cmd) struct Claim {
    table: TableName,
    to: To,
    /// When it was last asked for.
    asked: Mutex<Option<Instant>>,
}

/// What must still be so.
#[derive(Debug)]
enum To {
    /// The stage, with the number of the command.
    Stage(i64, Stage),
    /// The layout, with its number.
    Layout(Entry),
}

impl Claim {
    pub(in crate::layouts_cmd) fn new(table: &TableName, created: i64, stage: Stage) -> Claim {
        Claim::to(table, To::Stage(created, stage))
    }

    pub(super) fn of_layout(table: &TableName, entry: &Entry) -> Claim {
        Claim::to(table, To::Layout(entry.clone()))
    }

    fn to(table: &TableName, to: To) -> Claim {
        Claim {
            table: table.clone(),
            to,
            asked: Mutex::default(),
        }
    }

    /// Fails if another command has taken over. What is sent right after it was asked has arrived before the other one
    /// relies on that.
    pub(in crate::layouts_cmd) async fn check(&self, cluster: &Cluster) -> Result<()> {
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|asked| asked.elapsed() < CHECK_MAX) {
            return Ok(());
        }
        let begun = Instant::now();
        match &self.to {
            To::Stage(created, stage) => self.check_stage(cluster, (*created, *stage)).await?,
            To::Layout(entry) => {
                let now = catalogue::read(cluster, &self.table).await?;
                now.check_unchanged(&self.table, std::slice::from_ref(entry))?;
            }
        }
        *asked = Some(begun);
        Ok(())
    }

    async fn check_stage(&self, cluster: &Cluster, (of, in_stage): (i64, Stage)) -> Result<()> {
        let select = format!(
            "SELECT created, stage FROM helenus.copies WHERE {} LIMIT 1",
            place(&self.table)
        );
        let rows: Vec<(Option<i64>, Option<String>)> = cluster.rows(select).await?;
        let (created, stage) = rows.into_iter().next().unwrap_or_default();
        if (created, stage.as_deref()) != (Some(of), Some(in_stage.name())) {
            bail!(
                "another command is at work on {}: see `helenus layouts status {}`",
                self.table,
                self.table
            );
        }
        Ok(())
    }
}
