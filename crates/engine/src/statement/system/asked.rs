//! How a client asks for a selection from the tables that show the proxies: what is bound, how many
//! rows it wants and from where.

use std::borrow::Cow;

use helenus_cql::{Facts, Literal, SelectFacts, Term, encode_literal};
use helenus_wire::{Consistency, Options, ValueRef};

use super::paging::Position;
use super::query::Table;
use super::rows::Row;

/// The name under which Cassandra binds a limit.
const LIMIT: &str = "[limit]";

/// How a selection is asked.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// Of its statement.
    pub facts: &'a Facts,
    pub options: &'a Options<'a>,
    /// The result's columns, as far as the proxy knows them, if it is an EXECUTE.
    pub prepared: Option<PreparedColumns<'a>>,
}

/// The columns of a prepared selection's result.
#[derive(Clone, Copy)]
pub(crate) struct PreparedColumns<'a> {
    pub metadata: &'a [u8],
    pub metadata_id: Option<&'a [u8]>,
    /// The id that the client knows (v5).
    pub client_metadata_id: Option<&'a [u8]>,
    /// Clients may know it with other columns.
    pub may_have_changed: bool,
}

impl<'a> Asked<'a> {
    /// True if Cassandra would take the options, and give one node's rows whatever they say.
    pub(super) fn is_plain(&self) -> bool {
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
    pub(super) fn limit(&self, select: &SelectFacts) -> Option<u32> {
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
    pub(super) fn cut_page(
        &self,
        table: Table,
        rows: &mut Vec<Row>,
        limit: u32,
    ) -> Option<Option<Vec<u8>>> {
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

    /// The value of a literal or a marker for this column; `None` if Cassandra would refuse it.
    pub(super) fn value(&self, term: &Term, column: &str) -> Option<Cow<'a, [u8]>> {
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

    /// The value bound to a marker for this column.
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

/// CQL type of a column of a key, or of a limit.
fn type_of(column: &str) -> &'static str {
    match column {
        "key" => "text",
        "peer" => "inet",
        _ => "int",
    }
}
