//! A statement that is being changed: what has been found, and what all kinds of statements are refused for.

use std::ops::Range;
use std::sync::Arc;

use helenus_cql::lexer::{Lexer, TokenKind};
use helenus_cql::{Facts, Name, fold_identifier};

use super::changed::{ColumnNumber, Source};
use crate::features::encodings::coding::Coding;
use crate::features::encodings::{EncodedColumn, EncodedTable};

pub(super) const NOT_UNDERSTOOD: &str = "Helenus does not understand this statement, whose table has encoded columns: write it another way";

/// A statement that is being changed.
pub(super) struct Change<'a> {
    /// Its number, among those of the statement, and the table.
    pub(super) number: usize,
    pub(super) table: &'a Arc<EncodedTable>,
    pub(super) text: &'a str,
    pub(super) coding: &'a mut Coding,
    pub(super) pieces: Vec<(Range<usize>, String)>,
    /// Markers of the statement whose values are encoded, and the column.
    pub(super) encoded: Vec<(u16, usize)>,
    pub(super) added: Vec<Added>,
    /// The first marker is a row as a JSON document.
    pub(super) has_json: bool,
}

/// A marker that is added for the column in which the client does not put a value.
pub(super) struct Added {
    /// It stands behind so many of the statement's own.
    pub(super) behind: u16,
    /// The marker whose value decides on its own.
    pub(super) of: u16,
    pub(super) value: AddedValue,
}

#[derive(Clone, Copy)]
pub(super) enum AddedValue {
    /// That value encoded, for the column with this number.
    Encoded(usize),
    Emptied,
    Cleared,
}

impl<'a> Change<'a> {
    pub(super) fn new(
        number: usize,
        table: &'a Arc<EncodedTable>,
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

    /// Where the values of the statement's markers come from, of which the client's begin with this one.
    pub(super) fn sources(&mut self, facts: &Facts, from: usize) -> Vec<Source> {
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

    pub(super) fn column(&self, name: &Name) -> Option<usize> {
        self.table.columns.iter().position(|of| *name == *of.name)
    }

    pub(super) fn column_that_fits(&self, at: usize) -> Result<&'a EncodedColumn, String> {
        let table = self.table;
        match table.columns.get(at) {
            Some(column) if column.fits => Ok(column),
            Some(column) => Err(misfits(table, column)),
            None => Err(NOT_UNDERSTOOD.to_owned()),
        }
    }

    pub(super) fn refuse_hidden(&self, name: &Name) -> Result<(), String> {
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

    pub(super) fn of(&self, column: &str) -> String {
        format!("{}.{}.{column}", self.table.keyspace, self.table.name)
    }

    /// Refuses what names an encoded column there.
    pub(super) fn refuse_mention(&self, within: Range<usize>, what: &str) -> Result<(), String> {
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

/// Why nothing is done with a column that is not as the catalogue says.
pub(super) fn misfits(table: &EncodedTable, column: &EncodedColumn) -> String {
    format!(
        "{}.{}.{} is stored encoded, but it or the column of its encoded values is not as the catalogue says, so \
         it can be neither read nor written: see `helenus payload status {}.{}`",
        table.keyspace, table.name, column.name, table.keyspace, table.name
    )
}

/// The bytes `within` of the text, with pieces replaced. `None` if the spans do not fit.
pub(super) fn splice(
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
