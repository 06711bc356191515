//! What a statement becomes where its table has encoded columns: its text, its values, its answer.
//!
//! In a text column's place stands the column of encoded values where that is written; the other one of the
//! two is deleted with it. A selection gets the encoded values behind its own columns. What cannot be done on
//! encoded values, such as a condition on them, is refused.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use helenus_cql::lexer::{Lexer, TokenKind};
use helenus_cql::{
    Assigned, Facts, Kind, Literal, Modification, Name, SelectFacts, Selected, Term,
    fold_identifier, modification, quote_identifier,
};

use crate::encodings::answer::Shown;
use crate::encodings::coding::Coding;
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
    pub shown: Shown,
    statement: OnceLock<Arc<S>>,
}

/// Where the value of a marker comes from. Numbers are those of the client's markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Own(u16),
    /// It is encoded, for the column with this number.
    Encoded(u16, usize),
    /// Null, or not set if the client's is not set.
    Emptied(u16),
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
        let mut change = Change::new(table, text, coding);
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
/// that has encoded columns.
///
/// # Errors
/// Why it is refused.
pub(crate) fn text_batch<S>(
    tables: &[Option<&Arc<EncodedTable>>],
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
    for (inner, table) in facts.inner.iter().zip(tables) {
        let markers = from..from + usize::from(inner.markers);
        let changed = match table {
            Some(table) => {
                let mut change = Change::new(table, text, coding);
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
        shown: Shown::ByName,
        statement: OnceLock::new(),
    }))
}

fn own(markers: Range<usize>) -> impl Iterator<Item = Source> {
    markers.map(|at| Source::Own(u16::try_from(at).unwrap_or(u16::MAX)))
}

const NOT_UNDERSTOOD: &str = "Helenus does not understand this statement, whose table has encoded columns: write it another way";

/// A statement that is being changed.
struct Change<'a> {
    table: &'a Arc<EncodedTable>,
    text: &'a str,
    coding: &'a mut Coding,
    pieces: Vec<(Range<usize>, String)>,
    /// Markers of the statement whose values are encoded, and the column.
    encoded: Vec<(u16, usize)>,
    added: Vec<Added>,
}

/// A marker that is added for the column in which the client does not put a value.
struct Added {
    /// It stands behind so many of the statement's own.
    behind: u16,
    /// The marker whose value decides on its own.
    of: u16,
    /// The column for which that value is encoded; if none, it is emptied.
    encoded: Option<usize>,
}

impl<'a> Change<'a> {
    fn new(table: &'a Arc<EncodedTable>, text: &'a str, coding: &'a mut Coding) -> Self {
        Change {
            table,
            text,
            coding,
            pieces: Vec::new(),
            encoded: Vec::new(),
            added: Vec::new(),
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
                shown,
                statement: OnceLock::new(),
            }),
            None => Plan::Refused(NOT_UNDERSTOOD.into()),
        }
    }

    /// Where the values of the statement's markers come from, of which the client's begin with this one.
    fn sources(&self, facts: &Facts, from: usize) -> Vec<Source> {
        let number = |at: u16| u16::try_from(from + usize::from(at)).unwrap_or(u16::MAX);
        let mut sources = Vec::with_capacity(usize::from(facts.markers) + self.added.len());
        let added_behind = |count: u16| {
            let here = self.added.iter().filter(move |of| of.behind == count);
            here.map(move |added| match added.encoded {
                Some(column) => Source::Encoded(number(added.of), column),
                None => Source::Emptied(number(added.of)),
            })
        };
        for at in 0..facts.markers {
            sources.extend(added_behind(at));
            let encoded = self.encoded.iter().find(|(of, _)| *of == at);
            sources.push(match encoded {
                Some((_, column)) => Source::Encoded(number(at), *column),
                None => Source::Own(number(at)),
            });
        }
        sources.extend(added_behind(facts.markers));
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
            Selected::All if select.json => Err(self.refused_json()),
            Selected::All => Ok(None),
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
            if select.json {
                return Err(self.refused_json());
            }
            let place = behind.iter().position(|of| *of == column);
            let place = place.unwrap_or_else(|| {
                behind.push(column);
                behind.len() - 1
            });
            texts.push((at, place));
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
        Ok(Some(Shown::Behind {
            count: behind.len(),
            texts: texts.into(),
        }))
    }

    /// `None`: it says nothing of encoded columns.
    fn modify(&mut self, facts: &Facts) -> Result<Option<()>, String> {
        let start = facts.spans.statement.start;
        let Some(modified) = modification(self.text, facts) else {
            return Err(NOT_UNDERSTOOD.to_owned());
        };
        if facts.kind == Kind::Insert && modified.lists_end.is_none() {
            return Err(self.refused_json());
        }
        if let Some(clause) = &facts.spans.where_clause {
            let behind = clause.start..facts.spans.statement.end;
            self.refuse_mention(behind, "restrict it or make it a condition")?;
        }
        // A value of another form than Cassandra takes: it says so.
        let mut is_wrong = false;
        let mut is_changed = false;
        for changed in &modified.changed {
            let is_whole = modified
                .assigned
                .iter()
                .any(|of| of.column == changed.column);
            is_wrong |= self.column(&changed.column).is_some() && !is_whole;
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
        if column.written == Written::EncodedOnly {
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
                encoded: is_both.then_some(at),
            });
        }
        Ok(true)
    }

    fn column(&self, name: &Name) -> Option<usize> {
        self.table.columns.iter().position(|of| *name == *of.name)
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

    fn refused_json(&self) -> String {
        format!(
            "{}.{} has encoded columns, which INSERT JSON and SELECT JSON do not know: name the columns",
            self.table.keyspace, self.table.name
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

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 + 2 * bytes.len());
    out.push_str("0x");
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    out
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
