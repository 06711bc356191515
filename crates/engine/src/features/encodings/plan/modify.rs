//! Writes: in a text column's place stands the column of encoded values where that is written; the other one of
//! the two is deleted with it.

use helenus_catalogue::Written;
use std::ops::Range;

use helenus_cql::{
    Assigned, Facts, JsonDocument, Kind, Literal, Modification, Name, Term, modification,
    quote_identifier,
};

use super::change::{Added, AddedValue, Change, NOT_UNDERSTOOD, misfits};
use crate::features::encodings::EncodedColumn;
use crate::features::encodings::json::{hex, stored_document};

impl Change<'_> {
    /// `None`: it says nothing of encoded columns.
    pub(super) fn modify(&mut self, facts: &Facts) -> Result<Option<()>, String> {
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
                _ => is_wrong |= !self.assign(start, at, column, assigned, &modified)?,
            }
        }
        Ok((is_changed && !is_wrong).then_some(()))
    }

    /// Puts a value into one of two columns and takes it out of the other. False if it is no value of a text.
    fn assign(
        &mut self,
        start: usize,
        at: usize,
        column: &EncodedColumn,
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
}
