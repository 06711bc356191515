//! What a client's bytes ask for: statement, place on the ring, and what follows from them.

use std::sync::Arc;

use helenus_policy::ring::ReplicaSets;
use helenus_wire::{
    BatchChild, BatchView, Consistency, ExecuteView, Header, Malformed, Opcode, PrepareView,
    QueryView, Values, Version, flags,
};

use crate::engine::{Engine, SessionKey};
use crate::gates::lwt_queue::partition_name;
use crate::output::Output;
use crate::statement::prepared::{Prepared, Recipe, Statement, Text};
use crate::statement::system::{self, Asked};
use crate::stats::{TableStats, add};

/// Tables whose counters a worker finds without asking. Clients choose the names, so there is a bound.
const TABLES_KNOWN_MAX: usize = 4_096;
/// Longer texts are mostly unique (literals in bulk): not worth their memory.
const TEXT_KEPT_MAX: usize = 16 * 1024;

/// What the body of a request told.
#[derive(Default)]
pub(crate) struct Understood<'a> {
    /// Keyspace of names without one, but for those in prepared statements.
    pub keyspace: Option<&'a str>,
    pub statement: Option<Arc<Statement>>,
    pub prepared: Option<Arc<Prepared>>,
    pub consistency: Option<Consistency>,
    pub serial_consistency: Option<Consistency>,
    pub place: Option<Place>,
    pub idempotent: bool,
    pub lwt: bool,
    /// Position of the client's default timestamp in the body behind the payload.
    pub timestamp_at: Option<usize>,
}

/// Where a partition belongs.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Slot of the ring.
    pub slot: usize,
    /// The owners of each slot, for the partition's keyspace.
    pub owners: Arc<ReplicaSets>,
}

impl Understood<'_> {
    /// Keyspace and table that a request is about, if there is just one.
    pub(crate) fn table<'s>(
        &'s self,
        statement: Option<&'s Statement>,
    ) -> Option<(&'s str, &'s str)> {
        match &self.prepared {
            Some(prepared) => {
                let (keyspace, table) = prepared.table.as_ref()?;
                Some((keyspace, table))
            }
            None => statement?.table(self.keyspace),
        }
    }
}

impl Engine {
    /// Parses a request's body behind its payload.
    pub(crate) fn understand<'a>(
        &mut self,
        opcode: Opcode,
        content: &'a [u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Understood<'a>, Malformed> {
        let stats = &self.cx.shared.stats.global;
        match opcode {
            Opcode::Query => {
                add(&stats.requests_query, 1);
                self.understand_query(content, version, session)
            }
            Opcode::Execute => {
                add(&stats.requests_execute, 1);
                self.understand_execute(content, version, session)
            }
            Opcode::Batch => {
                add(&stats.requests_batch, 1);
                self.understand_batch(content, version, session)
            }
            _ => {
                add(&stats.requests_prepare, 1);
                self.understand_prepare(content, version, session)
            }
        }
    }

    /// The partition of a conditional write, if those take turns. Its key was built just now.
    pub(crate) fn partition_of_lwt(
        &self,
        understood: &Understood<'_>,
        statement: Option<&Statement>,
    ) -> Option<u64> {
        if !understood.lwt || !self.cx.shared.config.aggregation.lwt_turns {
            return None;
        }
        understood.place.as_ref()?;
        let (keyspace, table) = understood.table(statement)?;
        Some(partition_name(keyspace, table, &self.key_buf))
    }

    fn understand_query<'a>(
        &mut self,
        body: &'a [u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Understood<'a>, Malformed> {
        let view = QueryView::parse(body, version)?;
        let statement = self.statement(view.text);
        let keyspace = view.options.keyspace.or(session);
        let place = self.place_of_text(&statement, keyspace, &view.options.values);
        Ok(Understood {
            keyspace,
            idempotent: statement.idempotent(),
            lwt: statement.facts.lwt,
            statement: Some(statement),
            consistency: Some(view.options.consistency),
            serial_consistency: view.options.serial_consistency,
            place,
            prepared: None,
            timestamp_at: view.options.timestamp_at(),
        })
    }

    fn understand_execute<'a>(
        &mut self,
        body: &[u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Understood<'a>, Malformed> {
        let view = ExecuteView::parse(body, version)?;
        let consistency = Some(view.options.consistency);
        let serial_consistency = view.options.serial_consistency;
        let Some(prepared) = self.prepared(view.id) else {
            if self.cx.shared.wants_recall(view.id, self.cx.now) {
                self.cx.ask(Output::Recall(view.id.into()));
            }
            return Ok(Understood {
                keyspace: session,
                consistency,
                serial_consistency,
                ..Understood::default()
            });
        };
        let place = self.place_of_prepared(&prepared, &view.options.values);
        Ok(Understood {
            keyspace: session,
            idempotent: prepared.statement.idempotent(),
            lwt: prepared.statement.facts.lwt,
            consistency,
            serial_consistency,
            place,
            prepared: Some(prepared),
            statement: None,
            timestamp_at: view.options.timestamp_at(),
        })
    }

    fn understand_batch<'a>(
        &mut self,
        body: &'a [u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Understood<'a>, Malformed> {
        let view = BatchView::parse(body, version)?;
        let keyspace = view.options.keyspace.or(session);
        let mut understood = Understood {
            keyspace,
            consistency: Some(view.options.consistency),
            serial_consistency: view.options.serial_consistency,
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

    fn understand_prepare<'a>(
        &mut self,
        body: &'a [u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Understood<'a>, Malformed> {
        let view = PrepareView::parse(body, version)?;
        let statement = self.statement(view.text);
        Ok(Understood {
            keyspace: view.keyspace.or(session),
            statement: Some(statement),
            idempotent: true,
            ..Understood::default()
        })
    }

    /// The facts of a text, remembered up to a bound.
    fn statement(&mut self, text: &str) -> Arc<Statement> {
        if let Some(found) = self.statements.get(text) {
            return found;
        }
        let statement = Arc::new(Statement::new(text));
        if text.len() <= TEXT_KEPT_MAX {
            let weight = statement.byte_len();
            let text = Text(statement.clone());
            self.statements.insert(text, statement.clone(), weight);
        }
        statement
    }

    /// A prepared statement by id: known to this worker, or to any other.
    pub(crate) fn prepared(&mut self, id: &[u8]) -> Option<Arc<Prepared>> {
        if let Some(found) = self.prepared.get(id) {
            return Some(found);
        }
        let found = self.cx.shared.prepared.lock().ok()?.get(id)?.0.clone();
        self.remember_prepared(&found);
        Some(found)
    }

    pub(crate) fn remember_prepared(&mut self, prepared: &Arc<Prepared>) {
        let (id, weight) = (prepared.id.clone(), prepared.byte_len());
        self.prepared.insert(id, prepared.clone(), weight);
    }

    fn place_of_text(
        &mut self,
        statement: &Statement,
        keyspace: Option<&str>,
        values: &Values<'_>,
    ) -> Option<Place> {
        let recipe = statement.recipe(keyspace, &self.cx.snapshot);
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
            .then(|| self.cx.snapshot.ring.as_ref()?.slot_of_key(&key))
            .flatten();
        self.key_buf = key;
        let owners = self.cx.snapshot.keyspaces.get(keyspace)?.clone();
        Some(Place {
            slot: slot?,
            owners,
        })
    }

    /// Answers a read of the tables that show the proxies; false if it is none, or a node has to.
    pub(crate) fn answer_system(
        &mut self,
        key: SessionKey,
        header: Header,
        opcode: Opcode,
        content: &[u8],
        version: Version,
        (statement, understood): (&Statement, &Understood<'_>),
    ) -> bool {
        let Some(query) = statement.system else {
            return false;
        };
        // Traces and what a payload asks for are a node's business.
        if header.flags & (flags::TRACING | flags::CUSTOM_PAYLOAD) != 0 {
            return false;
        }
        let asked = match (opcode, &understood.prepared) {
            (Opcode::Query, _) if query.applies(understood.keyspace) => {
                QueryView::parse(content, version).map(|view| (view.options, None))
            }
            (Opcode::Execute, Some(prepared)) if query.applies(prepared.keyspace.as_deref()) => {
                ExecuteView::parse(content, version).map(|view| {
                    let known = view.result_metadata_id;
                    (view.options, Some((&**prepared, known)))
                })
            }
            _ => return false,
        };
        let Ok((options, prepared)) = asked else {
            return false;
        };
        let asked = Asked {
            facts: &statement.facts,
            options: &options,
            prepared,
        };
        let Some(answer) = system::answer(query, asked, &self.cx.snapshot, &self.proxies) else {
            return false;
        };
        let version = self.cx.snapshot.version;
        add(&self.cx.shared.stats.global.requests_system, 1);
        self.answer_converted(
            key,
            header.stream,
            Opcode::Result,
            answer.header_flags,
            &answer.body,
            version,
        );
        true
    }

    pub(crate) fn table_stats(
        &mut self,
        understood: &Understood<'_>,
        statement: Option<&Statement>,
        opcode: Opcode,
    ) -> Option<Arc<TableStats>> {
        if opcode == Opcode::Prepare {
            return None;
        }
        let (keyspace, table) = understood.table(statement)?;
        let known = self.tables.get(keyspace).and_then(|of| of.get(table));
        if let Some(found) = known {
            return Some(found.clone());
        }
        // Only what exists: clients may write any name, of any length.
        self.cx.snapshot.partition_key(keyspace, table)?;
        let max = self.cx.shared.config.admin.tables_max;
        let found = self.cx.shared.stats.table(keyspace, table, max);
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
