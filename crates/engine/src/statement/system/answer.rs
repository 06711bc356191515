//! The RESULT of a selection from the tables that show the proxies.

use helenus_cql::{SelectFacts, Selected};
use helenus_wire::{flags, query_flags, write};

use super::asked::Asked;
use super::query::{SystemQuery, Table};
use super::rows::{Proxies, rows};
use crate::snapshot::{Snapshot, SystemTable};

/// Cassandra's warning when rows of no particular partition are counted.
const COUNT_WARNING: &str = "Aggregation query used without partition key";
/// Flags of the metadata of rows.
const GLOBAL_TABLE: u32 = 1;
const MORE_PAGES: u32 = 2;
const NO_METADATA: u32 = 4;
const METADATA_CHANGED: u32 = 8;
/// The type `bigint` in metadata.
const BIGINT: &[u8] = &[0, 2];

/// A RESULT in the nodes' version.
#[derive(Debug)]
pub(crate) struct SystemAnswer {
    pub header_flags: u8,
    pub body: Vec<u8>,
}

/// An answer's columns: told, or known to the client.
enum Columns<'a> {
    Told,
    /// Nothing: the client knows them.
    Known,
    /// The client knows others; these have this id.
    Changed(&'a [u8]),
}

/// The answer, or `None` if a node has to give it.
pub(crate) fn answer(
    query: SystemQuery,
    asked: Asked<'_>,
    snapshot: &Snapshot,
    proxies: &Proxies,
) -> Option<SystemAnswer> {
    if !asked.is_plain() {
        return None;
    }
    let table = match query.table {
        Table::Local => snapshot.system_tables().local(),
        Table::Peers => snapshot.system_tables().peers(),
        Table::PeersV2 => snapshot.system_tables().peers_v2(),
    };
    if table.columns.is_empty() {
        return None;
    }
    let select = asked.facts.select.as_deref()?;
    let limit = asked.limit(select)?;
    let mut rows = rows(query.table, table, snapshot, proxies);
    for condition in &asked.facts.key_terms {
        let column = condition.column.as_str();
        let at = table.columns.iter().position(|c| c.name == column)?;
        let wanted = asked.value(&condition.term, column)?;
        rows.retain(|row| row.cells[at].as_deref() == Some(&*wanted));
    }
    if select.is_count_rows() {
        // It would say how many rows were counted for earlier pages.
        if asked.options.paging_state.is_some() {
            return None;
        }
        let count = (rows.len() as i64).to_be_bytes();
        let mut answer = SystemAnswer::of_rows(
            &asked,
            query.table,
            &[(count_name(select), BIGINT)],
            &[vec![Some(count.as_slice())]],
            None,
        );
        if asked.facts.key_terms.is_empty() {
            answer.warn(COUNT_WARNING);
        }
        return Some(answer);
    }
    let state = asked.cut_page(query.table, &mut rows, limit)?;
    let chosen = chosen(select, table)?;
    let columns: Vec<(&str, &[u8])> = chosen
        .iter()
        .map(|(at, name)| (*name, table.columns[*at].type_raw.as_slice()))
        .collect();
    let mut cells = Vec::with_capacity(rows.len());
    for row in &rows {
        let chosen = chosen.iter().map(|(at, _)| row.cells[*at].as_deref());
        cells.push(chosen.collect());
    }
    Some(SystemAnswer::of_rows(
        &asked,
        query.table,
        &columns,
        &cells,
        state.as_deref(),
    ))
}

/// Position in the table and name of each column of the result.
fn chosen<'a>(select: &'a SelectFacts, table: &'a SystemTable) -> Option<Vec<(usize, &'a str)>> {
    let all = table.columns.iter().map(|c| c.name.as_str()).enumerate();
    let Selected::Columns(columns) = &select.columns else {
        return Some(all.collect());
    };
    columns
        .iter()
        .map(|item| {
            let column = item.column.as_ref()?;
            let (at, _) = all.clone().find(|(_, name)| column == *name)?;
            let name = item.alias.as_ref().unwrap_or(column);
            Some((at, name.as_str()))
        })
        .collect()
}

fn count_name(select: &SelectFacts) -> &str {
    match &select.columns {
        Selected::Columns(columns) => columns.first().and_then(|item| item.alias.as_ref()),
        Selected::All => None,
    }
    .map_or("count", |alias| alias.as_str())
}

impl SystemAnswer {
    /// These rows, and the state behind them if there may be more.
    fn of_rows(
        asked: &Asked<'_>,
        table: Table,
        columns: &[(&str, &[u8])],
        rows: &[Vec<Option<&[u8]>>],
        state: Option<&[u8]>,
    ) -> SystemAnswer {
        let mut metadata = Vec::with_capacity(512);
        write::string(&mut metadata, "system");
        write::string(&mut metadata, table.name());
        for (name, type_raw) in columns {
            write::string(&mut metadata, name);
            metadata.extend_from_slice(type_raw);
        }
        let told = Columns::told(asked, &metadata);
        let said = match told {
            Columns::Told => 0,
            Columns::Known => NO_METADATA,
            Columns::Changed(_) => METADATA_CHANGED,
        };
        let more = state.map_or(0, |_| MORE_PAGES);
        let mut body = Vec::with_capacity(1024);
        write::i32(&mut body, 2);
        write::u32(&mut body, GLOBAL_TABLE | more | said);
        write::u32(&mut body, columns.len() as u32);
        if let Some(state) = state {
            write::bytes(&mut body, Some(state));
        }
        if let Columns::Changed(id) = told {
            write::short_bytes(&mut body, id);
        }
        if !matches!(told, Columns::Known) {
            body.extend_from_slice(&metadata);
        }
        write::u32(&mut body, rows.len() as u32);
        for cell in rows.iter().flatten() {
            write::bytes(&mut body, *cell);
        }
        SystemAnswer {
            header_flags: 0,
            body,
        }
    }

    fn warn(&mut self, warning: &str) {
        let mut body = Vec::with_capacity(self.body.len() + 64);
        write::string_list(&mut body, &[warning]);
        body.append(&mut self.body);
        self.body = body;
        self.header_flags |= flags::WARNING;
    }
}

impl<'a> Columns<'a> {
    /// The columns' form for a client that asks like this.
    fn told(asked: &Asked<'a>, metadata: &[u8]) -> Self {
        let skip = asked.options.flags & query_flags::SKIP_METADATA != 0;
        let Some(prepared) = asked.prepared else {
            return if skip { Columns::Known } else { Columns::Told };
        };
        match (prepared.client_metadata_id, prepared.metadata_id) {
            (Some(known), Some(id)) if known != id => Columns::Changed(id),
            // Among nodes of several versions, that which prepared it may have other columns.
            _ if skip && !prepared.may_have_changed && prepared.metadata == metadata => {
                Columns::Known
            }
            _ => Columns::Told,
        }
    }
}
