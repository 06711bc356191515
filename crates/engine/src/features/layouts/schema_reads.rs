//! What clients are told of tables: of the tables of layouts nothing, unless they ask for one by its name.

use helenus_cql::{Kind, Name};
use helenus_wire::{ExecuteView, Opcode, QueryView, Reader};

use crate::engine::Engine;
use crate::features::layouts::refusals::creation_refused;
use crate::features::layouts::schema_read::{Asking, Hidden, SchemaRead};
use crate::pipeline::arrival::Arrival;
use crate::rewrite::refusal::{Refusal, Rewriting, SchemaForm};
use crate::shared::EventKind;
use crate::snapshot::Snapshot;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;

/// What clients do not see of the schema, by what is known now.
pub(crate) struct HiddenFromClients<'a> {
    snapshot: &'a Snapshot,
    hides_tables: bool,
}

impl Hidden for HiddenFromClients<'_> {
    fn table(&self, keyspace: &str, table: &str) -> bool {
        self.hides_tables && self.snapshot.holds_layout(keyspace, table)
    }

    fn column(&self, keyspace: Option<&str>, table: Option<&str>, column: &str) -> bool {
        let is = |asked: Option<&str>, name: &str| asked.is_none_or(|asked| asked == name);
        let tables = &self.snapshot.encodings.tables;
        let of_keyspaces = tables.iter().filter(|(name, _)| is(keyspace, name));
        let mut of = of_keyspaces.flat_map(|(_, tables)| tables.values());
        of.any(|of| is(table, &of.name) && of.hidden_by(column).is_some())
    }
}

impl Engine {
    pub(crate) fn hidden(&self) -> HiddenFromClients<'_> {
        HiddenFromClients {
            snapshot: &self.cx.snapshot,
            hides_tables: self.cx.shared.config.layouts.hides_tables(),
        }
    }

    /// What becomes of a request that asks for the definitions of tables; `None` if it is no such request, or
    /// if clients see all of them.
    pub(crate) fn schema_read(
        &self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        statement: &Statement,
    ) -> Option<Rewriting> {
        let table = analysis.table(Some(statement));
        let is_about_schema = match statement.facts.kind {
            Kind::Select => table.is_some_and(|(keyspace, _)| keyspace == "system_schema"),
            Kind::Describe => true,
            _ => false,
        };
        let config = &self.cx.shared.config;
        let hides = config.layouts.hides_tables() || config.payload.enabled;
        if !is_about_schema || !hides {
            return None;
        }
        let (content, version) = (arrival.content, arrival.version);
        let options = match arrival.opcode {
            Opcode::Query => QueryView::parse(content, version).ok()?.options,
            Opcode::Execute => ExecuteView::parse(content, version).ok()?.options,
            _ => return None,
        };
        let asking = Asking {
            statement,
            table,
            prepared: analysis.prepared.as_ref(),
            options,
            version,
        };
        let (read, instead) = SchemaRead::begin(&asking)?;
        let instead = instead.map(|content| [arrival.payload(), &content].concat());
        Some(Rewriting::Schema(SchemaForm { read, instead }))
    }

    /// Refuses to create a table that would be taken for a layout, and that clients would not see.
    pub(crate) fn refuse_hidden_table(
        &self,
        analysis: &Analysis<'_>,
        statement: &Statement,
    ) -> Result<(), Box<Refusal>> {
        if statement.facts.kind != Kind::Ddl {
            return Ok(());
        }
        let keyspace = statement.facts.keyspace.as_ref().map(Name::as_str);
        let keyspace = keyspace.or(analysis.in_force());
        let refused = creation_refused(statement, keyspace, &self.cx.snapshot);
        refused.map_or(Ok(()), |why| Err(Box::new(Refusal::invalid(why))))
    }

    /// Whether an event is about a table that clients do not see.
    pub(crate) fn is_hidden_event(&self, kind: EventKind, body: &[u8]) -> bool {
        if kind != EventKind::Schema || !self.cx.shared.config.layouts.hides_tables() {
            return false;
        }
        let mut reader = Reader::new(body);
        let mut next = || reader.string().ok();
        let (_event, _change) = (next(), next());
        match (next(), next(), next()) {
            (Some("TABLE"), Some(keyspace), Some(table)) => {
                self.cx.snapshot.holds_layout(keyspace, table)
            }
            _ => false,
        }
    }
}
