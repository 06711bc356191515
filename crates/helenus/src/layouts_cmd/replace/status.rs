//! What `helenus layouts status` shows of layouts in place of replicas.

use anyhow::Result;
use helenus_rows::TableName;

use super::super::catalogue::{Mode, Partition, State};
use super::ring;
use super::stage::{self, Stage, Standing};
use crate::online::cluster::Cluster;

/// How far a table is with layouts in place of its replicas.
pub(in crate::layouts_cmd) struct InPlace {
    mode: Mode,
    pub stage: Option<Stage>,
    pub problems: Vec<String>,
}

impl InPlace {
    /// None if it has none.
    pub(in crate::layouts_cmd) async fn of(
        cluster: &Cluster,
        name: &TableName,
        partition: &Partition,
    ) -> Result<Option<InPlace>> {
        // One that this version does not know is told of by each layout's state.
        let mode = partition.mode(name).unwrap_or(Mode::Add);
        if partition.entries.is_empty() || mode == Mode::Add {
            return Ok(None);
        }
        let standing = stage::read(cluster, name).await?;
        let stage = standing.stage(name)?;
        let mut problems = Vec::new();
        let are_used = |stage: &Stage| !matches!(stage, Stage::Filling | Stage::Draining);
        if mode == Mode::Replace && stage.as_ref().is_some_and(are_used) {
            problems.extend(ring::problems(cluster, name, (partition, &standing.lists)).await);
        }
        if let Some(Stage::Open | Stage::InUse) = stage {
            problems.extend(unread(partition, &standing));
        }
        Ok(Some(InPlace {
            mode,
            stage,
            problems,
        }))
    }

    /// What clients can do, and what is to be done.
    pub(in crate::layouts_cmd) fn told(&self) -> &'static str {
        match (self.mode, self.stage) {
            (_, Some(Stage::Joining)) => {
                "clients use the table, and proxies bring the copies in sync: unless `create` is at work, run it again, or \
                 drop them"
            }
            (_, Some(Stage::Returning)) => {
                "clients use the copies, or the table once it is in sync, too: unless `drop --all` is at work, run it again, \
                 or give it up (`drop --undo`)"
            }
            (_, Some(Stage::Closing)) => {
                "clients use the table, and the copies are about to be dropped: unless `drop --all` is at work, run it again"
            }
            (Mode::Replacing, _) => {
                "rows are being copied, and clients use the table: unless `create` is at work, run it again, or drop them"
            }
            (_, Some(Stage::Filling)) => {
                "clients WAIT until the copies are compared with the table: unless `create` is at work, run it again, or \
                 drop them"
            }
            (_, Some(Stage::Draining)) => {
                "clients WAIT until the rows are back in the table: unless `drop --all` is at work, run it again, or give \
                 it up (`drop --undo`)"
            }
            (_, Some(Stage::Open)) => {
                "clients use the copies, but the table is not empty yet: unless a command is at work, run it again, or \
                 `drop --undo`, which ends with the copies in use"
            }
            (_, Some(Stage::InUse)) => "in place of replicas: clients use the copies",
            (_, None) => "in place of replicas; they were not made by `create`",
        }
    }
}

/// Layouts that are in sync, and not read, because a `rebuild` has begun.
fn unread(partition: &Partition, standing: &Standing) -> Vec<String> {
    let in_sync = |number: usize| {
        let mut lists = standing
            .lists
            .iter()
            .filter_map(|row| row.list.as_ref().ok());
        lists.any(|list| list.state(number) == helenus_layout::insync::State::InSync)
    };
    let entries = partition.entries.iter().enumerate();
    let unread =
        entries.filter(|(number, entry)| entry.state != State::Ready.name() && in_sync(*number));
    let told = unread.map(|(_, entry)| {
        format!(
            "layout {} is in sync and not read: unless `rebuild` is at work, run it again",
            entry.layout
        )
    });
    told.collect()
}
