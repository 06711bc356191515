//! What is refused of tables with encoded columns because it names them: definitions, and what is not understood.

use helenus_cql::lexer::{Lexer, TokenKind};
use helenus_cql::{Facts, Kind, fold_identifier};

use crate::encodings::{EncodedTable, Encodings};
use crate::statement::prepared::Statement;
use crate::statement::words::{is_one_of, words};

/// Why a definition is refused: it takes a column away, or needs values that nodes cannot read.
pub(crate) fn definition_refused(statement: &Statement, table: &EncodedTable) -> Option<String> {
    let text = &statement.text;
    let mut words = words(text);
    let (verb, what) = (words.next()?, words.next().unwrap_or_default());
    if is_one_of(verb, &["drop"]) || is_one_of(verb, &["create"]) && is_one_of(what, &["table"]) {
        return None;
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

/// Whether a text names something so.
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
    let mut words = words(text);
    let (verb, what) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let is_view = is_one_of(verb, &["create"]) && is_one_of(what, &["materialized"]);
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
