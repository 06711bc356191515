//! What a client's bytes ask for: statement, place on the ring, and what follows from them.

use std::sync::Arc;

use helenus_policy::ring::ReplicaSets;
use helenus_wire::{
    BatchChild, BatchView, Consistency, ExecuteView, Malformed, Opcode, PrepareView, QueryView,
    Values, Version,
};

use crate::prepared::{Prepared, Recipe, Statement};
use crate::stats::{TableStats, add};
use crate::system::SystemQuery;
use crate::turns::partition_name;
use crate::worker::{Key, State};

/// Tables whose counters a worker finds without asking. Clients choose the names, so there is a bound.
const TABLES_KNOWN_MAX: usize = 4_096;
/// Longer texts are mostly unique (literals in bulk): not worth their memory.
const TEXT_KEPT_MAX: usize = 16 * 1024;

/// What the body of a request told.
#[derive(Default)]
pub struct Understood {
    pub statement: Option<Arc<Statement>>,
    pub prepared: Option<Arc<Prepared>>,
    pub consistency: Option<Consistency>,
    pub place: Option<Place>,
    pub idempotent: bool,
    pub lwt: bool,
    /// Position of the client's default timestamp in the body behind the payload.
    pub timestamp_at: Option<usize>,
}

/// Where a partition belongs.
pub struct Place {
    /// Slot of the ring.
    pub slot: usize,
    /// The owners of each slot, for the partition's keyspace.
    pub owners: Arc<ReplicaSets>,
}

impl Understood {
    /// Keyspace and table that a request is about, if there is just one.
    pub fn table<'a>(
        &'a self,
        statement: Option<&'a Statement>,
        session: Option<&'a str>,
    ) -> Option<(&'a str, &'a str)> {
        match &self.prepared {
            Some(prepared) => {
                let (keyspace, table) = prepared.table.as_ref()?;
                Some((keyspace, table))
            }
            None => statement?.table(session),
        }
    }
}

impl State {
    /// Parses a request's body behind its payload.
    pub fn understand(
        &mut self,
        opcode: Opcode,
        content: &[u8],
        version: Version,
        session: Option<&str>,
    ) -> Result<Understood, Malformed> {
        let stats = &self.shared.stats.global;
        match opcode {
            Opcode::Query => {
                add(&stats.requests_query, 1);
                self.understand_query(content, version, session)
            }
            Opcode::Execute => {
                add(&stats.requests_execute, 1);
                self.understand_execute(content, version)
            }
            Opcode::Batch => {
                add(&stats.requests_batch, 1);
                self.understand_batch(content, version, session)
            }
            _ => {
                add(&stats.requests_prepare, 1);
                self.understand_prepare(content, version)
            }
        }
    }

    /// The partition of a conditional write, if those take turns. Its key was built just now.
    pub fn partition_of_lwt(
        &self,
        understood: &Understood,
        statement: Option<&Statement>,
        session: Option<&str>,
    ) -> Option<u64> {
        if !understood.lwt || !self.shared.config.aggregation.lwt_turns {
            return None;
        }
        understood.place.as_ref()?;
        let (keyspace, table) = understood.table(statement, session)?;
        Some(partition_name(keyspace, table, &self.key_buf))
    }

    fn understand_query(
        &mut self,
        body: &[u8],
        version: Version,
        session: Option<&str>,
    ) -> Result<Understood, Malformed> {
        let view = QueryView::parse(body, version)?;
        let statement = self.statement(view.text);
        let keyspace = view.options.keyspace.or(session);
        let place = self.place_of_text(&statement, keyspace, &view.options.values);
        Ok(Understood {
            idempotent: statement.idempotent(),
            lwt: statement.facts.lwt,
            statement: Some(statement),
            consistency: Some(view.options.consistency),
            place,
            prepared: None,
            timestamp_at: view.options.timestamp_at(),
        })
    }

    fn understand_execute(
        &mut self,
        body: &[u8],
        version: Version,
    ) -> Result<Understood, Malformed> {
        let view = ExecuteView::parse(body, version)?;
        let consistency = Some(view.options.consistency);
        let Some(prepared) = self.prepared(view.id) else {
            self.shared.recall(view.id);
            return Ok(Understood {
                consistency,
                ..Understood::default()
            });
        };
        let place = self.place_of_prepared(&prepared, &view.options.values);
        Ok(Understood {
            idempotent: prepared.statement.idempotent(),
            lwt: prepared.statement.facts.lwt,
            consistency,
            place,
            prepared: Some(prepared),
            statement: None,
            timestamp_at: view.options.timestamp_at(),
        })
    }

    fn understand_batch(
        &mut self,
        body: &[u8],
        version: Version,
        session: Option<&str>,
    ) -> Result<Understood, Malformed> {
        let view = BatchView::parse(body, version)?;
        let keyspace = view.options.keyspace.or(session);
        let mut understood = Understood {
            consistency: Some(view.options.consistency),
            idempotent: view.batch_type != 2,
            ..Understood::default()
        };
        for (at, child) in view.children.iter().enumerate() {
            let (statement, place) = match child {
                BatchChild::Text(text, values) => {
                    let statement = self.statement(text);
                    let place = (at == 0)
                        .then(|| self.place_of_text(&statement, keyspace, values))
                        .flatten();
                    (Some(statement), place)
                }
                BatchChild::Prepared(id, values) => match self.prepared(id) {
                    Some(prepared) => {
                        let place = (at == 0)
                            .then(|| self.place_of_prepared(&prepared, values))
                            .flatten();
                        if at == 0 {
                            understood.prepared = Some(prepared.clone());
                        }
                        (Some(prepared.statement.clone()), place)
                    }
                    None => (None, None),
                },
            };
            understood.idempotent &= statement.as_ref().is_some_and(|s| s.idempotent());
            understood.lwt |= statement.as_ref().is_some_and(|s| s.facts.lwt);
            if place.is_some() {
                understood.place = place;
            }
        }
        Ok(understood)
    }

    fn understand_prepare(
        &mut self,
        body: &[u8],
        version: Version,
    ) -> Result<Understood, Malformed> {
        let view = PrepareView::parse(body, version)?;
        let statement = self.statement(view.text);
        Ok(Understood {
            statement: Some(statement),
            idempotent: true,
            ..Understood::default()
        })
    }

    /// The facts of a text, remembered up to a bound.
    fn statement(&mut self, text: &str) -> Arc<Statement> {
        if let Some(found) = self.statements.get(text) {
            return found.clone();
        }
        let statement = match self.statements_old.remove(text) {
            Some(found) => found,
            None => Arc::new(Statement::new(text)),
        };
        if text.len() <= TEXT_KEPT_MAX {
            if self.statements.len() >= self.shared.config.limits.statements_max.div_ceil(2) {
                self.statements_old = std::mem::take(&mut self.statements);
            }
            self.statements.insert(text.into(), statement.clone());
        }
        statement
    }

    /// A prepared statement by id: known to this worker, or to any other.
    pub fn prepared(&mut self, id: &[u8]) -> Option<Arc<Prepared>> {
        if let Some(found) = self.prepared.get(id) {
            return Some(found.clone());
        }
        let max = self.shared.config.limits.prepared_max;
        let found = self.shared.prepared.lock().ok()?.get(id, max)?;
        self.remember_prepared(&found);
        Some(found)
    }

    pub fn remember_prepared(&mut self, prepared: &Arc<Prepared>) {
        if self.prepared.len() >= self.shared.config.limits.prepared_max {
            self.prepared.clear();
        }
        self.prepared.insert(prepared.id.clone(), prepared.clone());
    }

    fn place_of_text(
        &mut self,
        statement: &Statement,
        keyspace: Option<&str>,
        values: &Values<'_>,
    ) -> Option<Place> {
        let recipe = statement.recipe(keyspace, &self.snapshot);
        let facts = statement.facts.inner.first().unwrap_or(&statement.facts);
        let keyspace = facts.keyspace.as_ref().map(|k| k.as_str()).or(keyspace)?;
        self.place(&recipe, values, &[], keyspace)
    }

    fn place_of_prepared(&mut self, prepared: &Prepared, values: &Values<'_>) -> Option<Place> {
        let (keyspace, _) = prepared.table.as_ref()?;
        self.place(&prepared.key, values, &prepared.names, keyspace)
    }

    fn place(
        &mut self,
        recipe: &Recipe,
        values: &Values<'_>,
        names: &[Box<str>],
        keyspace: &str,
    ) -> Option<Place> {
        let mut key = std::mem::take(&mut self.key_buf);
        let slot = recipe
            .build(values, names, &mut key)
            .then(|| self.snapshot.ring.as_ref()?.slot_of_key(&key))
            .flatten();
        self.key_buf = key;
        let owners = self.snapshot.keyspaces.get(keyspace)?.clone();
        Some(Place {
            slot: slot?,
            owners,
        })
    }

    pub fn system_query(
        &self,
        statement: &Statement,
        keyspace: Option<&str>,
    ) -> Option<SystemQuery> {
        let query = statement.system.as_ref()?;
        (query.qualified || keyspace == Some("system")).then(|| query.clone())
    }

    pub fn answer_system(
        &mut self,
        key: Key,
        stream: i16,
        opcode: Opcode,
        content: &[u8],
        version: Version,
        query: &SystemQuery,
    ) -> bool {
        let values = match opcode {
            Opcode::Query => QueryView::parse(content, version).map(|v| v.options.values),
            Opcode::Execute => ExecuteView::parse(content, version).map(|v| v.options.values),
            _ => return false,
        };
        let Ok(values) = values else { return false };
        let snapshot = self.snapshot.clone();
        let Some(body) = query.answer(&snapshot, &self.proxies, &values) else {
            return false;
        };
        self.answer_converted(key, stream, Opcode::Result, 0, &body, snapshot.version);
        true
    }

    pub fn table_stats(
        &mut self,
        understood: &Understood,
        statement: Option<&Statement>,
        keyspace: Option<&str>,
        opcode: Opcode,
    ) -> Option<Arc<TableStats>> {
        if opcode == Opcode::Prepare {
            return None;
        }
        let (keyspace, table) = understood.table(statement, keyspace)?;
        let known = self.tables.get(keyspace).and_then(|of| of.get(table));
        if let Some(found) = known {
            return Some(found.clone());
        }
        let max = self.shared.config.admin.tables_max;
        let found = self.shared.stats.table(keyspace, table, max);
        if self.tables_known >= TABLES_KNOWN_MAX {
            self.tables.clear();
            self.tables_known = 0;
        }
        let of_keyspace = self.tables.entry(keyspace.into()).or_default();
        of_keyspace.insert(table.into(), found.clone());
        self.tables_known += 1;
        Some(found)
    }
}
