//! What `helenus layouts status` shows of layouts in place of replicas.

use anyhow::Result;
use helenus_rows::TableName;

use super::super::catalogue::{Mode, Partition};
use super::nodes;
use super::stage::{self, Stage, Standing};
use crate::online::cluster::Cluster;
use crate::online::table;

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
        if let Some(Stage::Open | Stage::InUse) = stage {
            problems.extend(without_list(cluster, name, (partition, &standing)).await);
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
            (Mode::Replacing, _) => {
                "rows are being copied, and clients use the table: unless `create` is at work, run it again, or drop them"
            }
            (_, Some(Stage::Filling)) => {
                "clients WAIT until the copies are compared with the table: unless `create` is at work, run it again, or \
                 drop them"
            }
            (_, Some(Stage::Draining)) => {
                "clients WAIT until the rows are back in the table: unless `drop --all` is at work, run it again"
            }
            (_, Some(Stage::Open)) => {
                "clients use the copies, but the table is not empty yet: unless `create` is at work, run it again"
            }
            (_, Some(Stage::InUse)) => "in place of replicas: clients use the copies",
            (_, None) => "in place of replicas; they were not made by `create`",
        }
    }
}

/// Owners of parts of the ring for which there is no list: clients cannot use these parts.
async fn without_list(
    cluster: &Cluster,
    name: &TableName,
    (partition, standing): (&Partition, &Standing),
) -> Vec<String> {
    let expected = async {
        let mut data_centers = Vec::new();
        for entry in &partition.entries {
            let keyspace = entry.table(name).keyspace;
            let found = table::find_keyspace(cluster, &keyspace).await?;
            let (replication, _) = found.unwrap_or_default();
            let of_keyspace = replication.into_keys().filter(|key| key != "class");
            data_centers.extend(of_keyspace);
        }
        // While nodes do not agree on the ring, nothing is wrong yet.
        let ring = nodes::read(cluster).await?;
        nodes::groups(&ring, &data_centers)
    };
    let expected: Result<Vec<Vec<String>>> = expected.await;
    let groups = expected.unwrap_or_default().into_iter();
    let missing = groups.filter(|owners| standing.lists.iter().all(|row| row.owners != *owners));
    let told = missing.map(|owners| {
        format!(
            "there is no list of the copies on {}, which own a part of the ring: clients cannot use it",
            owners.join(", ")
        )
    });
    told.collect()
}
