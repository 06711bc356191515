//! Looks up prepared statements that were not prepared through this proxy: a client brought the id
//! from another proxy, or from before a restart.
//!
//! The nodes know such an id, so the request itself proceeds without delay. But the text is needed
//! to route by key, and to prepare the statement again on a node that has forgotten it. Nodes keep
//! the texts in a table of their own.

use std::sync::Arc;

use helenus_wire::{Opcode, PreparedView, Version, write};

use super::connection::Control;
use crate::conn::ConnError;
use crate::control::rows::{ANSWER_MAX, Rows};
use crate::process::Process;
use helenus_engine::statement::prepared::{Prepared, Statement};
use helenus_engine::stats::add;

/// Ids waiting to be looked up.
pub(crate) const RECALLS_MAX: usize = 64;
impl Control {
    /// Looks an id up and makes the statement known to all workers.
    pub(super) async fn recall(&mut self, common: &Process, id: &[u8]) -> Result<(), ConnError> {
        let found = tokio::time::timeout(ANSWER_MAX, self.find(common, id))
            .await
            .map_err(|_| ConnError::Timeout(ANSWER_MAX))?;
        match found {
            Ok(Some(prepared)) => {
                common.publish_prepared(&Arc::new(prepared));
                add(&common.stats.global.prepared_recalled, 1);
                Ok(())
            }
            Ok(None) => Ok(()),
            // The role may not read the table, or the statement can no longer be prepared.
            Err(ConnError::Node { code, message }) => {
                tracing::debug!(
                    "an unknown prepared statement could not be looked up: {message} ({code:#x})"
                );
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    async fn find(&mut self, common: &Process, id: &[u8]) -> Result<Option<Prepared>, ConnError> {
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let rows = self
            .table(&format!(
                "SELECT logged_keyspace, query_string FROM system.prepared_statements \
                 WHERE prepared_id = 0x{hex}"
            ))
            .await?;
        let Some((text, keyspace)) = statement_of(&rows) else {
            return Ok(None);
        };
        let statement = Arc::new(Statement::new(&text));
        // If the text names a keyspace, the connection's keyspace is irrelevant.
        let keyspace = keyspace.filter(|_| statement.facts.keyspace.is_none());
        let version = self.conn.version;
        let mut body = Vec::with_capacity(text.len() + 32);
        write::long_string(&mut body, &text);
        match (&keyspace, version) {
            (Some(keyspace), Version::V5) => {
                write::u32(&mut body, 1);
                write::string(&mut body, keyspace);
            }
            (None, Version::V5) => write::u32(&mut body, 0),
            // It would need a USE on this connection.
            (Some(_), _) => return Ok(None),
            (None, _) => {}
        }
        let answer = self.conn.call(Opcode::Prepare, &body).await?;
        let view = PreparedView::parse(answer.content()?, version)?;
        let snapshot = common.snapshot.load_full();
        // The id is a digest over keyspace and text: another one means another keyspace.
        if view.id != id {
            return Ok(None);
        }
        let prepared = Prepared::new(statement, keyspace.as_deref(), &view, &snapshot);
        // It is unknown which columns clients have prepared it with.
        prepared.note_changed();
        Ok(Some(prepared))
    }
}

/// Text and keyspace.
fn statement_of(rows: &Rows) -> Option<(String, Option<String>)> {
    let row = rows.rows.first()?;
    let text = rows.text(row, "query_string")?;
    Some((text, rows.text(row, "logged_keyspace")))
}
