//! Prepared statements that this proxy has not seen being prepared: a client brought the id from
//! another proxy, or from before a restart.
//!
//! The nodes know such an id, so the request itself needs no help and is not held up. But only who
//! knows the text can route by its key, and prepare it again on a node that has forgotten it. Nodes
//! keep the texts in a table of their own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_wire::{Opcode, PreparedView, Version, write};
use rustc_hash::FxHashMap;

use super::{ANSWER_MAX, Control};
use crate::conn::ConnError;
use crate::prepared::{Prepared, Statement};
use crate::rows::Rows;
use crate::shared::Common;
use crate::stats::add;

/// Ids that wait to be looked up.
pub(crate) const RECALLS_MAX: usize = 64;
/// An id is looked up at most this often.
const PAUSE: Duration = Duration::from_secs(10);
/// Bytes of an id at most: an MD5.
const ID_MAX: usize = 16;
const REMEMBERED_MAX: usize = 1024;

/// Ids that were looked up of late.
#[derive(Default)]
pub(crate) struct Recalled(FxHashMap<Box<[u8]>, Instant>);

impl Recalled {
    /// Whether this id is due, which is noted.
    pub(crate) fn is_due(&mut self, id: &[u8], now: Instant) -> bool {
        // No id of Cassandra's is longer; clients may send any.
        if id.len() > ID_MAX || self.0.get(id).is_some_and(|then| now < *then + PAUSE) {
            return false;
        }
        if self.0.len() >= REMEMBERED_MAX {
            self.0.retain(|_, then| now < *then + PAUSE);
            if self.0.len() >= REMEMBERED_MAX {
                return false;
            }
        }
        self.0.insert(id.into(), now);
        true
    }

    pub(crate) fn forget(&mut self, id: &[u8]) {
        self.0.remove(id);
    }
}

impl Control {
    /// Looks an id up and makes the statement known to all workers.
    pub(super) async fn recall(&mut self, common: &Common, id: &[u8]) -> Result<(), ConnError> {
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
                tracing::debug!("an unknown prepared statement stays so: {message} ({code:#x})");
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    async fn find(&mut self, common: &Common, id: &[u8]) -> Result<Option<Prepared>, ConnError> {
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
        // With a keyspace in the text the one of the connection says nothing.
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
            // It would take a USE on this connection.
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
        // Nobody here knows with which columns clients have it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_looked_up_once_in_a_while_and_not_too_many_at_all() {
        let mut recent = Recalled::default();
        let now = Instant::now();
        assert!(recent.is_due(b"a", now));
        assert!(!recent.is_due(b"a", now + PAUSE / 2));
        assert!(recent.is_due(b"a", now + PAUSE));
        recent.forget(b"a");
        assert!(recent.is_due(b"a", now));
        let due = (0..2 * REMEMBERED_MAX as u32)
            .filter(|id| recent.is_due(&id.to_be_bytes(), now))
            .count();
        assert_eq!(due, REMEMBERED_MAX - 1);
        assert!(recent.is_due(b"later", now + PAUSE));
    }
}
