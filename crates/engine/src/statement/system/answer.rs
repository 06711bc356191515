//! The RESULT of a selection from the tables that show the proxies.

use std::borrow::Cow;

use helenus_cql::{Facts, Literal, SelectFacts, Selected, Term, encode_literal};
use helenus_wire::{Consistency, Options, ValueRef, flags, query_flags, write};

use super::paging::Position;
use super::rows::{Proxies, Row, rows};
use super::{SystemQuery, Table};
use crate::snapshot::{Snapshot, SystemTable};
use crate::statement::prepared::Prepared;

/// What Cassandra remarks when rows of no particular partition are counted.
const COUNT_WARNING: &str = "Aggregation query used without partition key";
/// Flags of the metadata of rows.
const GLOBAL_TABLE: u32 = 1;
const MORE_PAGES: u32 = 2;
const NO_METADATA: u32 = 4;
const METADATA_CHANGED: u32 = 8;
/// The type `bigint` in metadata.
const BIGINT: &[u8] = &[0, 2];
/// The name under which Cassandra binds a limit.
const LIMIT: &str = "[limit]";

/// How a selection is asked.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// Of its statement.
    pub facts: &'a Facts,
    pub options: &'a Options<'a>,
    /// What it is an EXECUTE of, and the id of the result's metadata that the client knows (v5).
    pub prepared: Option<(&'a Prepared, Option<&'a [u8]>)>,
}

/// A RESULT in the nodes' version.
#[derive(Debug)]
pub(crate) struct SystemAnswer {
    pub header_flags: u8,
    pub body: Vec<u8>,
}

/// What an answer says of its columns.
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
        Table::Local => &snapshot.local,
        Table::Peers => &snapshot.peers,
        Table::PeersV2 => &snapshot.peers_v2,
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
        let mut answer = asked.write(
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
    Some(asked.write(query.table, &columns, &cells, state.as_deref()))
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

impl<'a> Asked<'a> {
    /// Whether Cassandra would take the options, and give one node's rows whatever they say.
    fn is_plain(&self) -> bool {
        let consistency = matches!(
            self.options.consistency,
            Consistency::ONE
                | Consistency::QUORUM
                | Consistency::ALL
                | Consistency::LOCAL_QUORUM
                | Consistency::EACH_QUORUM
                | Consistency::SERIAL
                | Consistency::LOCAL_SERIAL
                | Consistency::LOCAL_ONE
        );
        // Values by name may be more than there are markers.
        let values = self.options.values;
        let fit = values.named || values.count == self.facts.markers;
        consistency && fit && self.options.page_size != Some(0)
    }

    /// Most rows of the result.
    fn limit(&self, select: &SelectFacts) -> Option<u32> {
        let limit: i32 = match &select.limit {
            None => i32::MAX,
            Some(Term::Literal(Literal::Int(text))) => text.to_string().parse().ok()?,
            Some(term) => {
                let value = self.value(term, LIMIT)?;
                i32::from_be_bytes(*value.first_chunk()?)
            }
        };
        u32::try_from(limit).ok().filter(|limit| *limit > 0)
    }

    /// Leaves the rows of the page that is asked for and says, if there may be more, the state behind
    /// them. `None` if the client's own state is none of this table.
    fn cut_page(&self, table: Table, rows: &mut Vec<Row>, limit: u32) -> Option<Option<Vec<u8>>> {
        let begin = match self.options.paging_state {
            None => None,
            Some(state) => Some(Position::parse(state, table)?),
        };
        let Some(size) = self
            .options
            .page_size
            .and_then(|size| u32::try_from(size).ok())
        else {
            // Who wants no pages gets all rows, wherever the state points.
            rows.truncate(limit as usize);
            return Some(None);
        };
        let mut left = limit;
        if let Some(begin) = begin {
            rows.retain(|row| begin.is_before(row.address));
            left = left.min(begin.remaining);
        }
        rows.truncate(size.min(left) as usize);
        left -= rows.len() as u32;
        // As Cassandra, which takes a full page for the last one only if its partition has no clustering.
        let full = rows.len() == size as usize;
        let one_row = table.key().len() == 1 && !self.facts.key_terms.is_empty();
        let last = rows.last().filter(|_| full && left > 0 && !one_row);
        Some(last.map(|last| Position::behind(table, last.address, left).to_bytes(table)))
    }

    fn write(
        &self,
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
        let told = self.columns(&metadata);
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

    fn columns(&self, metadata: &[u8]) -> Columns<'a> {
        let skip = self.options.flags & query_flags::SKIP_METADATA != 0;
        let Some((prepared, known)) = self.prepared else {
            return if skip { Columns::Known } else { Columns::Told };
        };
        match (known, prepared.result_metadata_id.as_deref()) {
            (Some(known), Some(id)) if known != id => Columns::Changed(id),
            // Among nodes of several versions, that which prepared it may have other columns.
            _ if skip && !prepared.may_have_changed() && *prepared.result_metadata == *metadata => {
                Columns::Known
            }
            _ => Columns::Told,
        }
    }

    /// The value of a literal or a marker for this column; `None` if Cassandra would refuse it.
    fn value(&self, term: &Term, column: &str) -> Option<Cow<'a, [u8]>> {
        let value = match term {
            Term::Literal(literal) => Cow::Owned(encode_literal(literal, type_of(column))?),
            Term::Marker(at) | Term::NamedMarker(at) => match self.bound(*at, column)? {
                ValueRef::Set(bytes) => Cow::Borrowed(bytes),
                ValueRef::Null | ValueRef::Unset => return None,
            },
            Term::Other => return None,
        };
        let fits = match type_of(column) {
            "text" => !value.is_empty() && std::str::from_utf8(&value).is_ok(),
            "inet" => matches!(value.len(), 4 | 16),
            _ => value.len() == 4,
        };
        fits.then_some(value)
    }

    /// What is bound to a marker for this column.
    fn bound(&self, marker: u16, column: &str) -> Option<ValueRef<'a>> {
        let values = self.options.values;
        if !values.named {
            return values.get(usize::from(marker));
        }
        let mut names = self.facts.named_markers.iter();
        let own = names.find(|(_, at)| *at == marker);
        // A marker without a name goes by its column's.
        values.named(own.map_or(column, |(name, _)| name.as_str()))
    }
}

impl SystemAnswer {
    fn warn(&mut self, warning: &str) {
        let mut body = Vec::with_capacity(self.body.len() + 64);
        write::string_list(&mut body, &[warning]);
        body.append(&mut self.body);
        self.body = body;
        self.header_flags |= flags::WARNING;
    }
}

/// CQL type of a column of a key, or of a limit.
fn type_of(column: &str) -> &'static str {
    match column {
        "key" => "text",
        "peer" => "inet",
        _ => "int",
    }
}
