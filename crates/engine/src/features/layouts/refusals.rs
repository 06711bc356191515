//! Refusals of statements on tables that have layouts, beside reads and writes of rows.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_cql::lexer::{Lexer, Token, TokenKind};
use helenus_cql::{Name, fold_identifier};
use helenus_layout::naming::divide;
use helenus_layout::plan::{Copy, LogicalTable, qualified};
use helenus_wire::code;

use crate::features::layouts::Layouts;
use crate::features::layouts::alter::alter_layouts;
use crate::features::layouts::carried::Carried;
use crate::memory::NO_MEMORY;
use crate::rewrite::catalogue::{CATALOGUE, CATALOGUE_REFUSED};
use crate::rewrite::leases::{Leases, Need};
use crate::rewrite::refusal::Refusal;
use crate::snapshot::Snapshot;
use crate::statement::definition::Definition;
use crate::statement::prepared::Statement;
use crate::statement::words::{is_one_of, words};

/// The name of the feature in refusals.
pub(super) const LAYOUTS: &str = "layouts";

/// It is not known well enough which layouts there are.
pub(super) fn fenced(leases: &Leases, need: Need, now: Instant) -> Refusal {
    let refused = "writes, definitions, GRANT, REVOKE and reads at SERIAL";
    Refusal::unknown(LAYOUTS, refused, leases, need, now)
}

/// A write that would have so many bytes, with what it writes to layouts.
pub(super) fn too_large(bytes: usize, max: usize) -> Refusal {
    Refusal::invalid(format!(
        "the write has {bytes} bytes or more together with those on the layouts of its tables, more \
         than {max} (limits.request_bytes_max): divide it"
    ))
}

pub(super) fn no_memory() -> Refusal {
    Refusal::new(code::OVERLOADED, NO_MEMORY)
}

/// A statement that only the nodes know.
pub(super) fn unprepared(id: &[u8]) -> Refusal {
    Refusal::unprepared(
        id,
        "Helenus does not know this prepared statement, which may write a table with layouts: \
         prepare it again",
    )
}

/// True if a statement about roles may change permissions on a table.
pub(crate) fn changes_rights(text: &str) -> bool {
    words(text)
        .next()
        .is_some_and(|first| is_one_of(first, &["grant", "revoke"]))
}

/// True if a text in lower case may name something. In a text, quotes in names are doubled.
fn contains(lower: &str, name: &str) -> bool {
    lower.contains(&name.to_ascii_lowercase().replace('"', "\"\""))
}

/// Why rows of a table are not written: it is a layout of another.
pub(crate) fn write_refused(table: Option<(&str, &str)>, layouts: &Layouts) -> Option<String> {
    let (keyspace, physical) = table?;
    if keyspace == CATALOGUE {
        return Some(CATALOGUE_REFUSED.to_owned());
    }
    let table = layouts.table_of_layout(keyspace, physical)?;
    Some(format!(
        "{keyspace}.{physical} is a layout of {}.{}: write to that, and the layout follows",
        table.keyspace, table.name
    ))
}

/// TRUNCATE of a table with layouts: derived ones are emptied after it.
///
/// # Errors
/// One is written together with the table. Cassandra empties one table after the other, and what is written meanwhile would
/// stay in one of them.
pub(crate) fn truncation(
    table: Option<(&str, &str)>,
    layouts: &Layouts,
) -> Result<Option<Carried>, String> {
    let followed = table.and_then(|(keyspace, table)| layouts.followed(keyspace, table));
    let Some(table) = followed else {
        return Ok(None);
    };
    let LogicalTable { keyspace, name, .. } = &**table;
    if table.copies.iter().all(Copy::is_derived) {
        return Ok(Some(Carried::truncate(table.clone())));
    }
    Err(format!(
        "{keyspace}.{name} has layouts, which TRUNCATE cannot empty at the same moment as the table: run `helenus layouts \
         truncate {keyspace}.{name}`, or delete partitions"
    ))
}

/// A GRANT or REVOKE on a table with layouts, as it is on each of these. A role that keeps rights on a
/// layout could read there what it may not read of the table.
pub(crate) fn rights(
    text: &str,
    session: Option<&str>,
    layouts: &Layouts,
) -> Option<(Arc<LogicalTable>, Vec<String>)> {
    let (span, keyspace, table) = table_of_rights(text)?;
    let keyspace = keyspace.as_ref().map(Name::as_str).or(session)?;
    let table = layouts.table(keyspace, table.as_str())?;
    let (before, behind) = (text.get(..span.start)?, text.get(span.end..)?);
    let on = |copy: &Copy| format!("{before}{}{behind}", qualified(table, copy));
    Some((table.clone(), table.copies.iter().map(on).collect()))
}

/// Why a definition of a table, or rights on it, are refused while one of its layouts is behind: that would not get them.
pub(crate) fn aside_refused(table: (&str, &str), layouts: &Layouts) -> Option<String> {
    let physical = layouts.aside(table.0, table.1)?;
    let (keyspace, name) = table;
    let layout = divide(physical).map_or("NAME", |(_, layout)| layout);
    Some(format!(
        "{keyspace}.{name} has a layout, {physical}, that has missed writes and would miss this, too: wait until `helenus layouts \
         sweep` has compared it, or drop it (helenus layouts drop {keyspace}.{name} --layout {layout})"
    ))
}

/// The table that a GRANT or REVOKE is about.
pub(crate) fn rights_on(text: &str, session: Option<&str>) -> Option<(String, String)> {
    let (_, keyspace, table) = table_of_rights(text)?;
    let keyspace = keyspace.as_ref().map(Name::as_str).or(session)?;
    Some((keyspace.to_owned(), table.as_str().to_owned()))
}

/// Where a GRANT or REVOKE names a table, and which: `GRANT … ON [TABLE] [keyspace.]table TO …`.
fn table_of_rights(text: &str) -> Option<(Range<usize>, Option<Name>, Name)> {
    let word = |token: &Token| text.get(token.start..token.end).unwrap_or_default();
    let is =
        |token: &Token, any: &[&str]| token.kind == TokenKind::Word && is_one_of(word(token), any);
    let mut tokens = Lexer::new(text).peekable();
    tokens
        .next()
        .filter(|first| is(first, &["grant", "revoke"]))?;
    tokens.find(|token| is(token, &["on"]))?;
    tokens.next_if(|token| is(token, &["table"]));
    let first = tokens.next()?;
    let name = |token: &Token| match token.kind {
        TokenKind::Word | TokenKind::QuotedName => Some(fold_identifier(word(token))),
        _ => None,
    };
    let is_qualified = tokens
        .next_if(|token| token.kind == TokenKind::Dot)
        .is_some();
    let second = if is_qualified { tokens.next() } else { None };
    // Otherwise it is ALL TABLES IN KEYSPACE, KEYSPACE, ROLE, FUNCTION, MBEAN and the like.
    tokens.next().filter(|next| is(next, &["to", "from"]))?;
    match second {
        Some(second) => Some((first.start..second.end, Some(name(&first)?), name(&second)?)),
        None => Some((first.start..first.end, None, name(&first)?)),
    }
}

/// Why a read at SERIAL of a table with layouts is refused: a conditional write that was left unfinished before
/// there were layouts would be completed by it, on the table alone.
pub(crate) fn serial_read_refused(table: &LogicalTable) -> String {
    format!(
        "{}.{} has layouts: a read at SERIAL or LOCAL_SERIAL may complete an old conditional write on the table \
         alone; read at QUORUM or LOCAL_QUORUM, or drop the layouts",
        table.keyspace, table.name
    )
}

/// Why a table is not created: it would be taken for a layout.
pub(crate) fn creation_refused(
    statement: &Statement,
    keyspace: Option<&str>,
    snapshot: &Snapshot,
) -> Option<String> {
    if Definition::of(&statement.text) != Definition::CreatesTable {
        return None;
    }
    let (keyspace, name) = (keyspace?, statement.facts.table.as_ref()?.as_str());
    let (table, _) = divide(name)?;
    snapshot.schema().partition_key(keyspace, table)?;
    Some(format!(
        "{keyspace}.{name} is named like a layout of {keyspace}.{table}: layouts are created by `helenus \
         layouts create`; give other tables another name"
    ))
}

/// How a definition is carried out on layouts, too; nothing if it does not touch them. `now_us`: in microseconds since 1970.
///
/// # Errors
/// Why it is refused, for the client.
pub(crate) fn definition(
    statement: &Statement,
    table: Option<(&str, &str)>,
    now_us: i64,
    hint_window: Duration,
    layouts: &Layouts,
) -> Result<Option<Carried>, String> {
    if let Some(why) = definition_refused(statement, table, layouts) {
        return Err(why);
    }
    let alters = Definition::of(&statement.text) == Definition::AltersTable;
    let table = table.and_then(|(keyspace, table)| layouts.table(keyspace, table));
    table.filter(|_| alters).map_or(Ok(None), |table| {
        alter_layouts(statement, table, now_us, hint_window)
    })
}

/// Why a definition is refused whatever it says.
fn definition_refused(
    statement: &Statement,
    table: Option<(&str, &str)>,
    layouts: &Layouts,
) -> Option<String> {
    let facts = &statement.facts;
    if let Some((keyspace, physical)) = table
        && let Some(table) = layouts.table_of_layout(keyspace, physical)
    {
        let (of, name) = (&table.keyspace, &table.name);
        let layout = divide(physical).map_or("NAME", |(_, layout)| layout);
        return Some(format!(
            "{keyspace}.{physical} is a layout of {of}.{name}: it is changed by the commands of `helenus \
             layouts` only (helenus layouts drop {of}.{name} --layout {layout})"
        ));
    }
    let definition = Definition::of(&statement.text);
    if definition == Definition::DropsKeyspace {
        let keyspace = facts.keyspace.as_ref()?.as_str();
        if let Some(table) = layouts.table_with_layouts_in(keyspace) {
            let (of, name) = (&table.keyspace, &table.name);
            return Some(format!(
                "keyspace {keyspace} holds layouts of {of}.{name}: drop these first (helenus layouts drop {of}.{name} --all)"
            ));
        }
        let mut names = layouts.names();
        let (_, table) = names.find(|(of, _)| *of == keyspace)?;
        return Some(format!(
            "keyspace {keyspace} has tables with layouts: drop these first (helenus layouts drop \
             {keyspace}.{table} --all)"
        ));
    }
    let (keyspace, table) = table.filter(|_| definition == Definition::DropsTable)?;
    layouts.table(keyspace, table)?;
    Some(format!(
        "{keyspace}.{table} has layouts, which would not be dropped with it: drop them first (helenus \
         layouts drop {keyspace}.{table} --all)"
    ))
}

/// Why a statement that is not understood, and may write, is refused: it may be about a table with layouts.
/// `table`: what the nodes have said that it is about. `in_force`: the keyspace of names without one.
pub(crate) fn opaque_refused(
    text: &str,
    table: Option<(&str, &str)>,
    in_force: Option<&str>,
    layouts: &Layouts,
) -> Option<String> {
    let known = table.filter(|(keyspace, table)| layouts.table(keyspace, table).is_some());
    let lower = text.to_ascii_lowercase();
    let named = |(keyspace, table): (&str, &str)| {
        let copies = layouts.table(keyspace, table).map(|table| &table.copies);
        let mut copies = copies.into_iter().flatten();
        let is_in_force = in_force == Some(keyspace) || contains(&lower, keyspace);
        is_in_force
            && (contains(&lower, table) || copies.any(|copy| contains(&lower, &copy.physical)))
    };
    let (keyspace, table) = known.or_else(|| layouts.names().find(|name| named(*name)))?;
    Some(format!(
        "Helenus does not understand this statement, which names {keyspace}.{table}, a table with \
         layouts: write it another way"
    ))
}
