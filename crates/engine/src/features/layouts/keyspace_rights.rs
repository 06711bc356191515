//! GRANT and REVOKE on a keyspace whose tables have derived layouts: they are carried out on the keyspaces of these before, so
//! that a role has there what it has on the tables.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use helenus_cql::lexer::{Lexer, Token, TokenKind};
use helenus_cql::{Name, fold_identifier, quote_identifier};

use crate::features::layouts::Layouts;
use crate::features::layouts::carried::Carried;
use crate::features::layouts::refusals::aside_refused;
use crate::snapshot::Snapshot;
use crate::statement::words::is_one_of;

/// The statement on each keyspace that holds layouts of the tables, and then as it came; nothing if there are none.
///
/// # Errors
/// One of these would not get it, or it would give rights on something else.
pub(crate) fn keyspace_rights(text: &str, snapshot: &Snapshot) -> Result<Option<Carried>, String> {
    let layouts = &snapshot.features().layouts;
    let Some((span, named)) = keyspace_of_rights(text) else {
        return Ok(None);
    };
    let keyspace = named.as_str();
    let Some(table) = layouts.derived_in(keyspace) else {
        return Ok(None);
    };
    let tables = layouts.tables_of(keyspace);
    if let Some(why) = tables
        .iter()
        .find_map(|table| aside_refused((keyspace, &table.name), layouts))
    {
        return Err(why);
    }
    let copies = tables
        .iter()
        .flat_map(|table| table.copies.iter().filter_map(|of| of.keyspace.as_deref()));
    let homes: BTreeSet<&str> = copies.collect();
    if let Some(home) = homes
        .iter()
        .find(|home| !holds_nothing_else(home, keyspace, snapshot, layouts))
    {
        return Err(format!(
            "{keyspace}.{table} has layouts in the keyspace {home}, which has other tables as well, and these would get the \
             rights, too: grant or revoke them on the tables, one by one"
        ));
    }
    let parts = text.get(..span.start).zip(text.get(span.end..));
    let first = tables.iter().find(|table| table.is_derived());
    let (Some((before, behind)), Some(first)) = (parts, first) else {
        return Ok(None);
    };
    let on = |home: &&str| format!("{before}{}{behind}", quote_identifier(home));
    let texts = homes.iter().map(on).collect();
    Ok(Some(Carried::layouts_first(Arc::clone(first), texts)))
}

/// Whether all tables of a keyspace hold layouts of tables of another.
fn holds_nothing_else(home: &str, keyspace: &str, snapshot: &Snapshot, layouts: &Layouts) -> bool {
    let mut names = snapshot.schema().tables_in(home);
    names.all(|name| {
        let of = layouts.table_of_layout(home, name);
        of.is_some_and(|of| of.keyspace == keyspace)
    })
}

/// Where a GRANT or REVOKE names a keyspace, and which: `… ON [ALL TABLES IN] KEYSPACE keyspace …`.
fn keyspace_of_rights(text: &str) -> Option<(Range<usize>, Name)> {
    let word = |token: &Token| text.get(token.start..token.end).unwrap_or_default();
    let is =
        |token: &Token, any: &[&str]| token.kind == TokenKind::Word && is_one_of(word(token), any);
    let mut tokens = Lexer::new(text);
    tokens
        .next()
        .filter(|first| is(first, &["grant", "revoke"]))?;
    tokens.find(|token| is(token, &["on"]))?;
    let mut next = tokens.next()?;
    if is(&next, &["all"]) {
        tokens.next().filter(|of| is(of, &["tables"]))?;
        tokens.next().filter(|of| is(of, &["in"]))?;
        next = tokens.next()?;
    }
    if !is(&next, &["keyspace"]) {
        return None;
    }
    let named = tokens
        .next()
        .filter(|named| matches!(named.kind, TokenKind::Word | TokenKind::QuotedName))?;
    Some((named.start..named.end, fold_identifier(word(&named))))
}
