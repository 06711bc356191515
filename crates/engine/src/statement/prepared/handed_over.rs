//! A prepared statement as a value: for another process whose clients have prepared it here.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::pipeline::retry::resendable::OfSchema;
use crate::snapshot::Snapshot;
use crate::statement::in_keys::InKeys;
use crate::statement::prepared::description::Description;
use crate::statement::prepared::standing::Standing;
use crate::statement::prepared::{Prepared, Statement};
use crate::statement::routing_key::Recipe;

/// Everything but what can be found again in its text. See also
/// [`STATE_VERSION`](crate::session::handover::passed::STATE_VERSION).
#[derive(Debug, Deserialize, Serialize)]
pub struct PassedStatement {
    #[serde(with = "serde_bytes")]
    id: Box<[u8]>,
    text: Box<str>,
    keyspace: Option<Box<str>>,
    table: Option<(Box<str>, Box<str>)>,
    #[serde(with = "serde_bytes")]
    result_metadata_id: Option<Box<[u8]>>,
    #[serde(with = "serde_bytes")]
    result_metadata: Box<[u8]>,
    /// Of a process that does not know it, it is like no other.
    #[serde(default)]
    description: Description,
    columns_changed: bool,
    #[serde(default)]
    untold: bool,
    key: Recipe,
    names: Vec<Box<str>>,
}

impl PassedStatement {
    pub(crate) fn of(prepared: &Prepared) -> PassedStatement {
        PassedStatement {
            id: prepared.id.clone(),
            text: prepared.statement.text.clone(),
            keyspace: prepared.keyspace.clone(),
            table: prepared.table.clone(),
            result_metadata_id: prepared.result_metadata_id.clone(),
            result_metadata: prepared.result_metadata.clone(),
            description: prepared.description,
            columns_changed: prepared.may_have_changed(),
            untold: prepared.standing.is_untold(),
            key: prepared.key.clone(),
            names: prepared.names.clone(),
        }
    }

    #[cfg(test)]
    pub(crate) fn id(&self) -> &[u8] {
        &self.id
    }

    /// Bytes that it takes, roughly.
    pub fn byte_len(&self) -> usize {
        let names: usize = self.names.iter().map(|name| name.len()).sum();
        size_of::<PassedStatement>() + self.text.len() + self.result_metadata.len() + names
    }

    /// The statement, as it was known there.
    pub(crate) fn prepared(self, snapshot: &Snapshot) -> Prepared {
        let statement = Arc::new(Statement::new(&self.text));
        let table = self.table.as_ref();
        let in_keys = table.and_then(|(keyspace, table)| {
            InKeys::of(
                &statement.facts,
                snapshot.schema().partition_key(keyspace, table)?,
            )
        });
        Prepared {
            id: self.id,
            statement,
            keyspace: self.keyspace,
            table: self.table,
            result_metadata_id: self.result_metadata_id,
            result_metadata: self.result_metadata,
            description: self.description,
            standing: Standing::passed(self.columns_changed, self.untold),
            key: self.key,
            in_keys,
            names: self.names,
            asked: Arc::default(),
            replaces_list: OfSchema::default(),
            timed_form: OnceLock::new(),
        }
    }
}
