//! Clients' view of tables: nothing of those that they do not see, unless they ask for one by its name.

use helenus_cql::Kind;
use helenus_wire::{ExecuteView, Opcode, QueryView, Reader};

use crate::context::Context;
use crate::features::{self, Arrived};
use crate::rewrite::schema_read::{Asking, Hidden, SchemaForm, SchemaRead};
use crate::shared::EventKind;

/// Tables and columns that clients do not see, by what is known now.
pub(crate) struct HiddenFromClients<'a>(pub(crate) &'a Context);

impl Hidden for HiddenFromClients<'_> {
    fn table(&self, keyspace: &str, table: &str) -> bool {
        features::hides_table(self.0, keyspace, table)
    }

    fn column(&self, keyspace: Option<&str>, table: Option<&str>, column: &str) -> bool {
        features::hides_column(&self.0.snapshot, keyspace, table, column)
    }
}

/// The form of a request that asks for the definitions of tables; `None` if it is no such request.
pub(crate) fn schema_read(request: &Arrived<'_>) -> Option<SchemaForm> {
    let (arrival, analysis) = (request.arrival, request.analysis);
    let statement = request.statement?;
    let table = analysis.table(Some(statement));
    let is_about_schema = match statement.facts.kind {
        Kind::Select => table.is_some_and(|(keyspace, _)| keyspace == "system_schema"),
        Kind::Describe => true,
        _ => false,
    };
    if !is_about_schema {
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
    Some(SchemaForm { read, instead })
}

/// True if an event is about a table that clients do not see.
pub(crate) fn is_hidden_event(cx: &Context, kind: EventKind, body: &[u8]) -> bool {
    if kind != EventKind::Schema || !features::hides(&cx.shared.config) {
        return false;
    }
    let mut reader = Reader::new(body);
    let mut next = || reader.string().ok();
    let (_event, _change) = (next(), next());
    match (next(), next(), next()) {
        (Some("TABLE"), Some(keyspace), Some(table)) => features::hides_table(cx, keyspace, table),
        _ => false,
    }
}
