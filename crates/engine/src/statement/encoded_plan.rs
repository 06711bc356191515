//! What a statement becomes where its table has encoded columns: its text, its values, its answer.
//!
//! In a text column's place stands the column of encoded values where that is written; the other one of the
//! two is deleted with it. A selection gets the encoded values behind its own columns. What cannot be done on
//! encoded values, such as a condition on them, is refused.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use helenus_cql::lexer::{Lexer, TokenKind};
use helenus_cql::{
    Assigned, Facts, JsonDocument, Kind, Literal, Modification, Name, SelectFacts, Selected, Term,
    fold_identifier, modification, quote_identifier,
};

use crate::encodings::coding::Coding;
use crate::encodings::json::{hex, stored_document};
use crate::encodings::shown::{Behind, BehindText, Counts, Shown};
use crate::encodings::{EncodedColumn, EncodedTable, Written};
use crate::statement::layout_plan::OfText;

/// A statement and the encoded columns of its table.
#[derive(Debug)]
pub(crate) struct EncodedPlan<S> {
    pub table: Arc<EncodedTable>,
    pub plan: Arc<Plan<S>>,
}

impl<S> Clone for EncodedPlan<S> {
    fn clone(&self) -> Self {
        EncodedPlan {
            table: self.table.clone(),
            plan: self.plan.clone(),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Plan<S> {
    /// As it came.
    AsItCame,
    /// The same, and its answer may have all columns of the table.
    All,
    Changed(Changed<S>),
    /// Why it cannot be carried out.
    Refused(Box<str>),
}

/// A statement as it is on the nodes.
#[derive(Debug)]
pub(crate) struct Changed<S> {
    pub text: Box<str>,
    pub sources: Box<[Source]>,
    /// Those with encoded columns, by number.
    pub tables: Box<[Arc<EncodedTable>]>,
    pub shown: Shown,
    statement: OnceLock<Arc<S>>,
}

/// Where the value of a marker comes from. Numbers are those of the client's markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Own(u16),
    /// It is encoded, for that column.
    Encoded(u16, ColumnNumber),
    /// Null, or not set if the client's is not set.
    Emptied(u16),
    /// It is a row of the table with that number, as a JSON document.
    Json(u16, usize),
    /// Null if the client's is null, else not set; null in protocols that know no such thing.
    Cleared(u16),
}

/// A column of one of a statement's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnNumber {
    pub table: usize,
    pub column: usize,
}

impl<S: OfText> Changed<S> {
    /// As a statement that the nodes can prepare.
    pub(crate) fn statement(&self) -> &Arc<S> {
        let made = || Arc::new(S::of_text(&self.text));
        self.statement.get_or_init(made)
    }
}

impl<S: OfText> EncodedPlan<S> {
    pub(crate) fn of(
        table: &Arc<EncodedTable>,
        text: &str,
        facts: &Facts,
        coding: &mut Coding,
    ) -> EncodedPlan<S> {
        let mut change = Change::new((0, table), text, coding);
        let found = match facts.kind {
            Kind::Select => change.select(facts),
            Kind::Insert | Kind::Update | Kind::Delete => change
                .modify(facts)
                .map(|found| found.map(|()| Shown::ByName)),
            _ => Ok(None),
        };
        let selects_all = |select: &SelectFacts| select.columns == Selected::All;
        let shows_all = facts.lwt || facts.select.as_deref().is_some_and(selects_all);
        let plan = match found {
            Ok(_) if shows_all && table.misfit().is_some() => Plan::Refused(
                table
                    .misfit()
                    .map_or(String::new(), |of| misfits(table, of))
                    .into(),
            ),
            Ok(None) if shows_all => Plan::All,
            Ok(None) => Plan::AsItCame,
            Err(why) => Plan::Refused(why.into()),
            Ok(Some(shown)) => change.finish(facts, shown),
        };
        EncodedPlan {
            table: table.clone(),
            plan: Arc::new(plan),
        }
    }
}

/// What a batch that is one text becomes; `None` if it writes no encoded column. By statement: its table, if
/// that has encoded columns. What it becomes depends on no keyspace in force.
///
/// # Errors
/// Why it is refused.
pub(crate) fn text_batch<S>(
    tables: &[Option<&Arc<EncodedTable>>],
    in_force: Option<&str>,
    text: &str,
    facts: &Facts,
    coding: &mut Coding,
) -> Result<Option<Changed<S>>, String> {
    let mut pieces = Vec::new();
    let of_inner: usize = facts.inner.iter().map(|f| usize::from(f.markers)).sum();
    let mut from = usize::from(facts.markers).saturating_sub(of_inner);
    // Those of USING come first.
    let mut sources: Vec<Source> = own(0..from).collect();
    let mut is_changed = false;
    let mut encoded: Vec<Arc<EncodedTable>> = Vec::new();
    for (inner, table) in facts.inner.iter().zip(tables) {
        let markers = from..from + usize::from(inner.markers);
        if let (None, Some(keyspace), Some(span)) =
            (&inner.keyspace, in_force, inner.spans.table.clone())
        {
            let keyspace = quote_identifier(keyspace);
            pieces.push((span.start..span.start, format!("{keyspace}.")));
        }
        let changed = match table {
            Some(table) => {
                if let Some(of) = table.misfit().filter(|_| inner.lwt) {
                    return Err(misfits(table, of));
                }
                let known = encoded.iter().position(|of| Arc::ptr_eq(of, table));
                let number = known.unwrap_or_else(|| {
                    encoded.push((*table).clone());
                    encoded.len() - 1
                });
                let mut change = Change::new((number, table), text, coding);
                let found = change.modify(inner)?;
                found.map(|()| (change.sources(inner, from), change.pieces))
            }
            None => None,
        };
        is_changed |= changed.is_some();
        match changed {
            Some((of, own_pieces)) => {
                sources.extend(of);
                pieces.extend(own_pieces);
            }
            None => sources.extend(own(markers.clone())),
        }
        from = markers.end;
    }
    if !is_changed {
        return Ok(None);
    }
    let text = splice(text, facts.spans.statement.clone(), pieces);
    Ok(Some(Changed {
        text: text.ok_or(NOT_UNDERSTOOD)?.into(),
        sources: sources.into(),
        tables: encoded.into(),
        shown: Shown::ByName,
        statement: OnceLock::new(),
    }))
}

fn own(markers: Range<usize>) -> impl Iterator<Item = Source> {
    markers.map(|at| Source::Own(u16::try_from(at).unwrap_or(u16::MAX)))
}

/// Why nothing is done with a column that is not as the catalogue says.
fn misfits(table: &EncodedTable, column: &EncodedColumn) -> String {
    format!(
        "{}.{}.{} is stored encoded, but it or the column of its encoded values is not as the catalogue says, so \
         it can be neither read nor written: see `helenus payload status {}.{}`",
        table.keyspace, table.name, column.name, table.keyspace, table.name
    )
}

const NOT_UNDERSTOOD: &str = "Helenus does not understand this statement, whose table has encoded columns: write it another way";

/// A statement that is being changed.
struct Change<'a> {
    /// Its number, among those of the statement, and the table.
    number: usize,
    table: &'a Arc<EncodedTable>,
    text: &'a str,
    coding: &'a mut Coding,
    pieces: Vec<(Range<usize>, String)>,
    /// Markers of the statement whose values are encoded, and the column.
    encoded: Vec<(u16, usize)>,
    added: Vec<Added>,
    /// The first marker is a row as a JSON document.
    has_json: bool,
}

/// A marker that is added for the column in which the client does not put a value.
struct Added {
    /// It stands behind so many of the statement's own.
    behind: u16,
    /// The marker whose value decides on its own.
    of: u16,
    value: AddedValue,
}

#[derive(Clone, Copy)]
enum AddedValue {
    /// That value encoded, for the column with this number.
    Encoded(usize),
    Emptied,
    Cleared,
}

impl<'a> Change<'a> {
    fn new(
        (number, table): (usize, &'a Arc<EncodedTable>),
        text: &'a str,
        coding: &'a mut Coding,
    ) -> Self {
        Change {
            number,
            table,
            text,
            coding,
            pieces: Vec::new(),
            encoded: Vec::new(),
            added: Vec::new(),
            has_json: false,
        }
    }

    fn finish<S>(mut self, facts: &Facts, shown: Shown) -> Plan<S> {
        let table = self.table;
        if let Some(span) = facts.spans.table.clone() {
            let keyspace = quote_identifier(&table.keyspace);
            let name = format!("{keyspace}.{}", quote_identifier(&table.name));
            self.pieces.push((span, name));
        }
        let sources = self.sources(facts, 0);
        match splice(self.text, facts.spans.statement.clone(), self.pieces) {
            Some(text) => Plan::Changed(Changed {
                text: text.into(),
                sources: sources.into(),
                tables: [table.clone()].into(),
                shown,
                statement: OnceLock::new(),
            }),
            None => Plan::Refused(NOT_UNDERSTOOD.into()),
        }
    }

    /// Where the values of the statement's markers come from, of which the client's begin with this one.
    fn sources(&mut self, facts: &Facts, from: usize) -> Vec<Source> {
        let table = self.number;
        let number = |at: u16| u16::try_from(from + usize::from(at)).unwrap_or(u16::MAX);
        let encoded = |at: u16, column| Source::Encoded(number(at), ColumnNumber { table, column });
        let mut sources = Vec::with_capacity(usize::from(facts.markers) + self.added.len());
        // Those at one place stay in their order.
        self.added.sort_by_key(|of| of.behind);
        self.encoded.sort_by_key(|(at, _)| *at);
        let mut added = self.added.iter().peekable();
        let mut own = self.encoded.iter().peekable();
        for at in 0..=facts.markers {
            while let Some(of) = added.next_if(|of| of.behind <= at) {
                sources.push(match of.value {
                    AddedValue::Encoded(column) => encoded(of.of, column),
                    AddedValue::Emptied => Source::Emptied(number(of.of)),
                    AddedValue::Cleared => Source::Cleared(number(of.of)),
                });
            }
            if at < facts.markers {
                sources.push(match own.next_if(|(of, _)| *of == at) {
                    Some((_, column)) => encoded(at, *column),
                    None if self.has_json && at == 0 => Source::Json(number(at), table),
                    None => Source::Own(number(at)),
                });
            }
        }
        sources
    }

    /// `None`: it says nothing of encoded columns.
    fn select(&mut self, facts: &Facts) -> Result<Option<Shown>, String> {
        let Some(select) = facts.select.as_deref() else {
            return Ok(None);
        };
        let spans = &facts.spans;
        let clauses = [&spans.where_clause, &spans.group_by, &spans.order_by];
        for clause in clauses.into_iter().flatten() {
            self.refuse_mention(clause.clone(), "restrict, group or order by it")?;
        }
        match &select.columns {
            Selected::All => Ok(select.json.then_some(Shown::Json(None))),
            Selected::Columns(_) => self.select_columns(facts, select),
        }
    }

    fn select_columns(
        &mut self,
        facts: &Facts,
        select: &SelectFacts,
    ) -> Result<Option<Shown>, String> {
        let Selected::Columns(selected) = &select.columns else {
            return Ok(None);
        };
        let mut texts = Vec::new();
        let mut behind: Vec<usize> = Vec::new();
        for (at, item) in selected.iter().enumerate() {
            let Some(name) = &item.column else {
                self.refuse_mention(item.span.clone(), "call functions of it")?;
                continue;
            };
            self.refuse_hidden(name)?;
            let column = self.column(name);
            let has_encoded = |at: &usize| {
                let column = self.table.columns.get(*at);
                column.is_some_and(|column| column.written.has_encoded())
            };
            let Some(column) = column.filter(has_encoded) else {
                continue;
            };
            let of = self.column_that_fits(column)?;
            let place = behind.iter().position(|of| *of == column);
            let place = place.unwrap_or_else(|| {
                behind.push(column);
                behind.len() - 1
            });
            texts.push(BehindText {
                at,
                behind: place,
                counts: Counts::of(of),
            });
        }
        if texts.is_empty() {
            return Ok(None);
        }
        let columns = behind.iter().filter_map(|at| self.table.columns.get(*at));
        let added: String = columns
            .map(|column| format!(", {}", quote_identifier(&column.hidden)))
            .collect();
        let end = facts.spans.selection.as_ref().ok_or(NOT_UNDERSTOOD)?.end;
        self.pieces.push((end..end, added));
        let behind = Behind {
            count: behind.len(),
            texts: texts.into(),
        };
        Ok(Some(match select.json {
            true => Shown::Json(Some(behind)),
            false => Shown::Behind(behind),
        }))
    }

    /// `None`: it says nothing of encoded columns.
    fn modify(&mut self, facts: &Facts) -> Result<Option<()>, String> {
        let start = facts.spans.statement.start;
        let Some(modified) = modification(self.text, facts) else {
            return Err(NOT_UNDERSTOOD.to_owned());
        };
        if let Some(document) = &modified.json {
            return self.json_document(start, document);
        }
        if let Some(clause) = &facts.spans.where_clause {
            let behind = clause.start..facts.spans.statement.end;
            self.refuse_mention(behind, "restrict it or make it a condition")?;
        }
        // A value of another form than Cassandra takes: it says so.
        let mut is_wrong = false;
        let mut is_changed = false;
        for column in &self.table.columns {
            let is_it = |name: &Name| *name == *column.name;
            let is_named = modified.changed.iter().any(|of| is_it(&of.column));
            is_wrong |= is_named && !modified.assigned.iter().any(|of| is_it(&of.column));
        }
        for changed in &modified.changed {
            self.refuse_hidden(&changed.column)?;
        }
        for assigned in &modified.assigned {
            self.refuse_hidden(&assigned.column)?;
            let Some(at) = self.column(&assigned.column) else {
                continue;
            };
            let table = self.table.clone();
            let column = table.columns.get(at);
            let Some(column) = column.filter(|column| column.written.has_encoded()) else {
                continue;
            };
            self.column_that_fits(at)?;
            is_changed = true;
            match facts.kind {
                Kind::Delete => {
                    let end = start + assigned.name.end;
                    let also = format!(", {}", quote_identifier(&column.hidden));
                    self.pieces.push((end..end, also));
                }
                _ => is_wrong |= !self.assign(start, (at, column), assigned, &modified)?,
            }
        }
        Ok((is_changed && !is_wrong).then_some(()))
    }

    /// Puts a value into one of two columns and takes it out of the other. False if it is no value of a text.
    fn assign(
        &mut self,
        start: usize,
        (at, column): (usize, &EncodedColumn),
        assigned: &Assigned,
        modified: &Modification,
    ) -> Result<bool, String> {
        let Some(value) = &assigned.value else {
            return Ok(false);
        };
        let is_encoded = column.written.is_encoded();
        let is_both = column.written == Written::Both;
        let shift = |span: &Range<usize>| start + span.start..start + span.end;
        let mut other_value = "null".to_owned();
        match &value.term {
            Term::Marker(marker) | Term::NamedMarker(marker) => {
                if is_encoded {
                    self.encoded.push((*marker, at));
                }
                "?".clone_into(&mut other_value);
            }
            Term::Literal(Literal::Text(text)) => {
                let stored = match is_encoded || is_both {
                    true => hex(&self.coding.encode(self.table, at, text)),
                    false => String::new(),
                };
                if is_encoded {
                    self.pieces.push((shift(&value.span), stored));
                } else if is_both {
                    other_value = stored;
                }
            }
            Term::Literal(Literal::Null) => {}
            Term::Literal(_) => return Ok(false),
            Term::Other => {
                return Err(format!(
                    "{}: its values are stored encoded, so it takes a text, null or a marker, and nothing that \
                     a node has to compute",
                    self.of(&column.name)
                ));
            }
        }
        let other = match is_encoded {
            true => &column.name,
            false => &column.hidden,
        };
        if is_encoded {
            let hidden = quote_identifier(&column.hidden).into_owned();
            self.pieces.push((shift(&assigned.name), hidden));
        }
        // A text that is there nevertheless would count again if there is no encoded value.
        let is_only = column.written == Written::EncodedOnly;
        if is_only && matches!(value.term, Term::Literal(Literal::Text(_))) {
            return Ok(true);
        }
        let other = quote_identifier(other);
        let last = modified.assigned.last().and_then(|of| of.value.as_ref());
        let markers_of_values = last.map_or(0, |value| value.markers);
        let markers = match modified.lists_end {
            Some((columns_end, values_end)) => {
                let (columns_end, values_end) = (start + columns_end, start + values_end);
                self.pieces
                    .push((columns_end..columns_end, format!(", {other}")));
                self.pieces
                    .push((values_end..values_end, format!(", {other_value}")));
                markers_of_values
            }
            None => {
                let end = start + value.span.end;
                self.pieces
                    .push((end..end, format!(", {other} = {other_value}")));
                value.markers
            }
        };
        if let Term::Marker(marker) | Term::NamedMarker(marker) = value.term {
            self.added.push(Added {
                behind: markers,
                of: marker,
                value: match column.written {
                    Written::Both => AddedValue::Encoded(at),
                    Written::EncodedOnly => AddedValue::Cleared,
                    _ => AddedValue::Emptied,
                },
            });
        }
        Ok(true)
    }

    fn json_document(
        &mut self,
        start: usize,
        document: &JsonDocument,
    ) -> Result<Option<()>, String> {
        if let Some(of) = self.table.misfit() {
            return Err(misfits(self.table, of));
        }
        match &document.text {
            Some(text) => {
                let Some(stored) = stored_document(self.coding, self.table, text)? else {
                    return Ok(None);
                };
                let span = start + document.span.start..start + document.span.end;
                let literal = format!("'{}'", stored.replace('\'', "''"));
                self.pieces.push((span, literal));
            }
            None => self.has_json = true,
        }
        Ok(Some(()))
    }

    fn column(&self, name: &Name) -> Option<usize> {
        self.table.columns.iter().position(|of| *name == *of.name)
    }

    fn column_that_fits(&self, at: usize) -> Result<&'a EncodedColumn, String> {
        let table = self.table;
        match table.columns.get(at) {
            Some(column) if column.fits => Ok(column),
            Some(column) => Err(misfits(table, column)),
            None => Err(NOT_UNDERSTOOD.to_owned()),
        }
    }

    fn refuse_hidden(&self, name: &Name) -> Result<(), String> {
        match self.table.hidden_by(name.as_str()) {
            None => Ok(()),
            Some(column) => Err(self.refused_hidden(column)),
        }
    }

    fn refused_hidden(&self, column: &EncodedColumn) -> String {
        format!(
            "{} holds encoded values of {}, which Helenus reads and writes in its place: name that",
            self.of(&column.hidden),
            column.name
        )
    }

    fn of(&self, column: &str) -> String {
        format!("{}.{}.{column}", self.table.keyspace, self.table.name)
    }

    /// Refuses what names an encoded column there.
    fn refuse_mention(&self, within: Range<usize>, what: &str) -> Result<(), String> {
        let piece = self.text.get(within).unwrap_or_default();
        let mut is_behind_colon = false;
        for token in Lexer::new(piece) {
            let is_marker = std::mem::replace(&mut is_behind_colon, token.kind == TokenKind::Colon);
            if is_marker || !matches!(token.kind, TokenKind::Word | TokenKind::QuotedName) {
                continue;
            }
            let name = fold_identifier(piece.get(token.start..token.end).unwrap_or_default());
            self.refuse_hidden(&name)?;
            if let Some(column) = self.table.column(name.as_str()) {
                return Err(format!(
                    "{}: its values are stored encoded, so nodes cannot {what}; do that in the client",
                    self.of(&column.name)
                ));
            }
        }
        Ok(())
    }
}

/// The bytes `within` of the text, with pieces replaced. `None` if the spans do not fit.
fn splice(
    text: &str,
    within: Range<usize>,
    mut pieces: Vec<(Range<usize>, String)>,
) -> Option<String> {
    // Those at one place stay in their order.
    pieces.sort_by_key(|(span, _)| span.start);
    let more: usize = pieces.iter().map(|(_, piece)| piece.len()).sum();
    let mut derived = String::with_capacity(within.len() + more);
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut append = |piece: &str| {
        // `SELECT"a"FROM` needs no blanks, but what takes the place of `"a"` may.
        if derived.ends_with(in_word) && piece.starts_with(in_word) {
            derived.push(' ');
        }
        derived.push_str(piece);
    };
    let mut at = within.start;
    for (span, piece) in &pieces {
        append(text.get(at..span.start)?);
        append(piece);
        at = span.end;
    }
    append(text.get(at..within.end)?);
    Some(derived)
}

#[cfg(test)]
mod tests;
