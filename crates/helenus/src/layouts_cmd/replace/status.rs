//! What `helenus layouts status` shows of layouts in place of replicas.

use anyhow::Result;
use helenus_layout::insync::State as CopyState;
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

/// Layouts that are not read because a `rebuild` has begun.
fn unread(partition: &Partition, standing: &Standing) -> Vec<String> {
    let in_sync = |number: usize| {
        let mut lists = standing
            .lists
            .iter()
            .filter_map(|row| row.list.as_ref().ok());
        lists.any(|list| list.state(number) == CopyState::InSync)
    };
    let entries = partition.entries.iter().enumerate();
    let unread = entries.filter(|(_, entry)| entry.state != State::Ready.name());
    let told = unread.map(|(number, entry)| {
        let is = match in_sync(number) {
            true => "in sync and not read",
            false => "out, and does not come back by itself",
        };
        format!(
            "layout {} is {is}: unless `rebuild` is at work, run it again",
            entry.layout
        )
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{Copies, LISTED_MAX, Members};

    use super::super::super::lists::CopiesRow;
    use super::super::tests::entry;
    use super::*;

    #[test]
    fn a_rebuild_that_was_interrupted_is_told_wherever_it_was() {
        let partition = Partition {
            entries: vec![entry("a", State::Ready, 1), entry("b", State::Writing, 2)],
            ..Partition::default()
        };
        let both = Copies::new(Members::first(2), [7; LISTED_MAX]);
        let told = |list: Copies| {
            let row = CopiesRow {
                table: "shop.orders".to_owned(),
                owners: vec!["x".to_owned(), "y".to_owned()],
                ranges: None,
                list: Ok(list),
                changed_ms: None,
            };
            unread(&partition, &Standing::of(5, Stage::InUse, vec![row]))
        };
        let [in_sync] = &*told(both) else {
            panic!("one layout");
        };
        assert!(in_sync.starts_with("layout b is in sync and not read"));
        let [out] = &*told(both.evict(1).expect("another is in sync")) else {
            panic!("one layout");
        };
        assert!(out.starts_with("layout b is out"), "{out}");
    }
}
