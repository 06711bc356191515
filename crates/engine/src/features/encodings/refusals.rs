//! Refusals of statements that name tables with encoded columns: definitions, and those that are not understood.

use std::time::Instant;

use helenus_catalogue::Written;
use helenus_cql::lexer::{Lexer, TokenKind};
use helenus_cql::{Facts, Kind, Name, fold_identifier};

use crate::features::encodings::{EncodedColumn, EncodedTable, Encodings};
use crate::rewrite::catalogue::{CATALOGUE, begins_as_write, may_write};
use crate::rewrite::leases::{Leases, Need};
use crate::rewrite::refusal::Refusal;
use crate::statement::definition::Definition;
use crate::statement::prepared::Statement;

/// The name of the feature in refusals.
pub(super) const ENCODED: &str = "encoded columns";

/// It is not known well enough which columns are encoded.
pub(super) fn blind(leases: &Leases, need: Need, now: Instant) -> Refusal {
    Refusal::unknown(ENCODED, "reads and writes", leases, need, now)
}

/// A statement that only the nodes know, and that may be about encoded columns.
pub(super) fn unprepared(id: &[u8]) -> Refusal {
    Refusal::unprepared(
        id,
        "Helenus does not know this prepared statement, whose table may have encoded columns: prepare it \
         again",
    )
}

/// Why a definition is refused: it takes a column away, or needs values that nodes cannot read.
pub(crate) fn definition_refused(statement: &Statement, table: &EncodedTable) -> Option<String> {
    let text = &statement.text;
    match Definition::of(text) {
        Definition::CreatesTable => return None,
        Definition::DropsTable => return Some(drop_refused(table)),
        _ => {}
    }
    let column = table
        .columns
        .iter()
        .find(|of| names(text, &of.name) || names(text, &of.hidden))?;
    Some(format!(
        "{}.{}.{} is stored encoded, so it cannot be altered, renamed, dropped, masked or indexed: take that back \
         first (helenus payload disable {}.{} {})",
        table.keyspace, table.name, column.name, table.keyspace, table.name, column.name
    ))
}

fn drop_refused(table: &EncodedTable) -> String {
    let EncodedTable { keyspace, name, .. } = table;
    let quickly = match truncate_refused(table) {
        None => format!("; that is quick after TRUNCATE {keyspace}.{name}"),
        Some(_) => String::new(),
    };
    format!(
        "{keyspace}.{name} has encoded columns, which the catalogue would go on to name: take these back first \
         (helenus payload disable {keyspace}.{name} COLUMN{quickly})"
    )
}

/// Why TRUNCATE is refused: a value that was read before it may be written in its new form behind it.
pub(crate) fn truncate_refused(table: &EncodedTable) -> Option<String> {
    let EncodedTable { keyspace, name, .. } = table;
    let may_move = |of: &&EncodedColumn| of.written != Written::EncodedOnly;
    let EncodedColumn { name: column, .. } = table.columns.iter().find(may_move)?;
    Some(format!(
        "values of {keyspace}.{name}.{column} are being encoded or taken back, and some of them could be there again \
         after TRUNCATE: wait until that is done (helenus payload status {keyspace}.{name}), or delete the \
         partitions"
    ))
}

/// True if a statement changes the tables that say which columns are encoded, and with what.
pub(crate) fn changes_catalogue(
    statement: &Statement,
    named: Option<(&str, &str)>,
    in_force: Option<&str>,
) -> bool {
    let of_facts = || statement.facts.keyspace.as_ref().map(Name::as_str);
    let keyspace = named.map(|(keyspace, _)| keyspace).or_else(of_facts);
    let is_catalogue = keyspace == Some(CATALOGUE);
    match statement.facts.kind {
        // Types are no tables, and flags are types.
        Kind::Ddl => is_catalogue || keyspace.is_none() && in_force == Some(CATALOGUE),
        Kind::Opaque => {
            let text = &statement.text;
            begins_as_write(text)
                && (is_catalogue || in_force == Some(CATALOGUE) || names(text, CATALOGUE))
        }
        Kind::Batch => statement.facts.inner.iter().any(|inner| {
            let keyspace = inner.keyspace.as_ref().map(Name::as_str).or(in_force);
            keyspace == Some(CATALOGUE)
        }),
        kind => may_write(kind) && is_catalogue,
    }
}

/// True if a text contains this name.
fn names(text: &str, name: &str) -> bool {
    Lexer::new(text).any(|token| {
        let is_name = matches!(token.kind, TokenKind::Word | TokenKind::QuotedName);
        let word = text.get(token.start..token.end).unwrap_or_default();
        is_name && fold_identifier(word) == name
    })
}

/// Why a statement that is not understood, or defines something of an unknown table, is refused: it names a
/// table with encoded columns.
pub(crate) fn opaque_refused(
    statement: &Statement,
    in_force: Option<&str>,
    encodings: &Encodings,
) -> Option<String> {
    let Facts { kind, .. } = statement.facts;
    let text = &statement.text;
    let definition = Definition::of(text);
    if definition == Definition::DropsKeyspace {
        let tables = encodings.tables.iter();
        let mut dropped = tables
            .filter(|(keyspace, _)| names(text, keyspace))
            .flat_map(|(_, tables)| tables.values());
        return dropped.next().map(|table| drop_refused(table));
    }
    let is_view = definition == Definition::CreatesView;
    if kind == Kind::Ddl && !is_view {
        return None;
    }
    let named = |keyspace: &str, table: &str| {
        names(text, table) && (in_force == Some(keyspace) || names(text, keyspace))
    };
    let mut tables = encodings
        .tables
        .iter()
        .flat_map(|(keyspace, tables)| tables.keys().map(move |table| (keyspace, table)));
    let (keyspace, table) = tables.find(|(keyspace, table)| named(keyspace, table))?;
    Some(match is_view {
        true => format!(
            "{keyspace}.{table} has encoded columns, which a view would not follow: take that back first \
             (helenus payload disable {keyspace}.{table} COLUMN)"
        ),
        false => format!(
            "Helenus does not understand this statement, which names {keyspace}.{table}, a table with encoded \
             columns: write it another way"
        ),
    })
}
