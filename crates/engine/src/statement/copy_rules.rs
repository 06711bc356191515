//! What may be done with tables that have copies in sync in place of replicas, beside writing rows.

use helenus_cql::Kind;
use helenus_layout::plan::{Copy, LogicalTable};
use helenus_wire::{Consistency, write};

use crate::execution::renaming::renamed;
use crate::layouts::Layouts;
use crate::statement::layout_rules::{changes_rights, may_write, table_of_rights};
use crate::statement::prepared::Statement;
use crate::statement::words::{is_one_of, words};

/// Why a request that names a keyspace and table is refused; `None` also for reads and writes of rows, which may
/// be refused for what they say.
pub(crate) fn refused(
    kind: Kind,
    statement: Option<&Statement>,
    table: Option<(&str, &str)>,
    in_force: Option<&str>,
    layouts: &Layouts,
) -> Option<String> {
    if (may_write(kind) || kind == Kind::Ddl)
        && let Some(of) = table.and_then(|(keyspace, table)| layouts.table_of_copy(keyspace, table))
    {
        let (keyspace, physical) = table?;
        let own = name_of(of);
        return Some(format!(
            "{keyspace}.{physical} is a copy of {own} that is kept in sync: write to {own}"
        ));
    }
    let replaced = table.and_then(|(keyspace, table)| layouts.replaced(keyspace, table));
    match (kind, replaced) {
        (Kind::Select | Kind::Insert | Kind::Update | Kind::Delete, _) => None,
        (Kind::Truncate, Some(table)) => Some(because(
            table,
            "TRUNCATE cannot empty all of them at the same moment; delete its partitions",
        )),
        (Kind::Ddl, Some(table)) => Some(because(
            table,
            "its definition cannot be changed while it has them",
        )),
        (Kind::Ddl, None) => keyspace_refused(statement?, layouts),
        (Kind::Auth, _) => rights_refused(statement?, in_force, layouts),
        (Kind::Opaque, _) => opaque_refused(statement?, in_force, layouts),
        _ => None,
    }
}

/// The fields of UNAVAILABLE: the level, how many it asks for, and how many are there.
pub(crate) fn unavailable(level: Consistency, needed: usize, alive: usize) -> Vec<u8> {
    let mut fields = Vec::with_capacity(10);
    write::u16(&mut fields, level.0);
    write::i32(&mut fields, needed as i32);
    write::i32(&mut fields, alive as i32);
    fields
}

/// Why a batch is refused that has a statement about this table.
pub(crate) fn batch_refused(named: Option<(&str, &str)>, layouts: &Layouts) -> Option<String> {
    let named = named?;
    let replaced = layouts.replaced(named.0, named.1);
    let table = replaced.or_else(|| layouts.table_of_copy(named.0, named.1))?;
    Some(because(
        table,
        "a batch is not written to all of them yet; write its statements one by one",
    ))
}

/// Why a statement that Helenus does not understand is refused: it may write such a table.
pub(crate) fn opaque_refused(
    statement: &Statement,
    in_force: Option<&str>,
    layouts: &Layouts,
) -> Option<String> {
    if layouts.replaced.is_empty() {
        return None;
    }
    let lower = statement.text.to_ascii_lowercase();
    // In a text, quotes in names are doubled.
    let contains = |name: &str| lower.contains(&name.to_ascii_lowercase().replace('"', "\"\""));
    let named = |keyspace: &str, table: &str| {
        (in_force == Some(keyspace) || contains(keyspace)) && contains(table)
    };
    let is_named = |table: &&LogicalTable| {
        let mut copies = table.copies.iter();
        named(&table.keyspace, &table.name)
            || copies.any(|copy| named(&copy.keyspace, &copy.physical))
    };
    let table = all(layouts).find(is_named)?;
    Some(because(
        table,
        "Helenus does not understand this statement, which names it; write it another way",
    ))
}

/// How many copies of a row a level asks for; `None` if it is none for a write.
pub(crate) fn needed(level: Consistency, copies: usize) -> Option<usize> {
    match level {
        Consistency::ANY | Consistency::ONE | Consistency::LOCAL_ONE => Some(1),
        Consistency(2) => Some(2),
        Consistency(3) => Some(3),
        Consistency::QUORUM | Consistency::LOCAL_QUORUM | Consistency::EACH_QUORUM => {
            Some(copies / 2 + 1)
        }
        Consistency::ALL => Some(copies),
        _ => None,
    }
}

/// The level at which the table itself is written while it is listed beside its copies.
pub(crate) fn at_least_quorum(level: Consistency) -> Consistency {
    match level {
        Consistency::ANY
        | Consistency::ONE
        | Consistency::LOCAL_ONE
        | Consistency(2)
        | Consistency::LOCAL_QUORUM => Consistency::QUORUM,
        level => level,
    }
}

/// How many copies must be in sync for a read at this level, of which one answers; `None`: there are no such reads.
pub(crate) fn needed_in_sync(level: Consistency, copies: usize) -> Option<usize> {
    match level {
        Consistency::ANY => None,
        // A copy in sync has whatever was acknowledged at any level.
        Consistency::QUORUM | Consistency::LOCAL_QUORUM | Consistency::EACH_QUORUM => Some(1),
        level => needed(level, copies),
    }
}

/// What is told where fewer copies are there than a level asks for.
pub(crate) fn too_few(
    table: &LogicalTable,
    level: Consistency,
    (needed, alive): (usize, usize),
) -> String {
    let (name, level) = (name_of(table), level.name());
    format!("{name}: {alive} of {needed} copies that {level} asks for are in sync")
}

/// What copies are called, and what the client calls them.
pub(crate) fn names_of_copies(table: &LogicalTable) -> Vec<(String, String)> {
    let of_copy = |copy: &Copy| {
        let qualified = (
            format!("{}.{}", copy.keyspace, copy.physical),
            name_of(table),
        );
        let keyspace = (copy.keyspace.clone(), table.keyspace.clone());
        [
            qualified,
            keyspace,
            (copy.physical.clone(), table.name.clone()),
        ]
    };
    table.copies.iter().flat_map(of_copy).collect()
}

/// What a node has said of a copy, as its client is to hear it.
pub(crate) fn renamed_to_own(table: &LogicalTable, message: &str) -> String {
    renamed(message, &names_of_copies(table)).unwrap_or_else(|| message.to_owned())
}

/// What is told of such a table.
pub(crate) fn because(table: &LogicalTable, why: &str) -> String {
    format!("{} has copies in place of replicas: {why}", name_of(table))
}

fn name_of(table: &LogicalTable) -> String {
    format!("{}.{}", table.keyspace, table.name)
}

fn all(layouts: &Layouts) -> impl Iterator<Item = &LogicalTable> {
    let mut tables: Vec<&LogicalTable> = Vec::new();
    for of_keyspace in layouts.replaced.values() {
        tables.extend(of_keyspace.values().map(|table| &**table));
    }
    // Whatever is told is told of the same one each time.
    tables.sort_unstable_by_key(|table| (&table.keyspace, &table.name));
    tables.into_iter()
}

/// Dropping a keyspace would drop what is in it, and another replication would move it.
fn keyspace_refused(statement: &Statement, layouts: &Layouts) -> Option<String> {
    let mut words = words(&statement.text);
    let of_keyspace = is_one_of(words.next()?, &["drop", "alter"])
        && is_one_of(words.next()?, &["keyspace", "schema"]);
    let keyspace = statement.facts.keyspace.as_ref().filter(|_| of_keyspace)?;
    let is_in = |table: &&LogicalTable| {
        let mut copies = table.copies.iter();
        *keyspace == *table.keyspace || copies.any(|copy| *keyspace == *copy.keyspace)
    };
    let table = all(layouts).find(is_in)?;
    Some(because(
        table,
        "its keyspace, and those of its copies, cannot be changed while it has them",
    ))
}

fn rights_refused(
    statement: &Statement,
    in_force: Option<&str>,
    layouts: &Layouts,
) -> Option<String> {
    if !changes_rights(&statement.text) {
        return None;
    }
    let (_, keyspace, table) = table_of_rights(&statement.text)?;
    let keyspace = keyspace.as_ref().map(|name| name.as_str()).or(in_force)?;
    let table = layouts.replaced(keyspace, table.as_str())?;
    let copies = table.copies.iter();
    let names: Vec<String> = copies
        .map(|copy| format!("{}.{}", copy.keyspace, copy.physical))
        .collect();
    let names = names.join(", ");
    Some(because(
        table,
        &format!("a role needs the same rights on each of them; grant or revoke them on {names}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_count_copies() {
        let of = |level| needed(level, 3);
        assert_eq!(of(Consistency::ONE), Some(1));
        assert_eq!(of(Consistency::LOCAL_QUORUM), Some(2));
        assert_eq!(of(Consistency::EACH_QUORUM), Some(2));
        assert_eq!(needed(Consistency::QUORUM, 4), Some(3));
        assert_eq!(of(Consistency::ALL), Some(3));
        assert_eq!(of(Consistency(3)), Some(3));
        let in_sync = |level| needed_in_sync(level, 3);
        assert_eq!(in_sync(Consistency::ONE), Some(1));
        assert_eq!(in_sync(Consistency::QUORUM), Some(1));
        assert_eq!(in_sync(Consistency::EACH_QUORUM), Some(1));
        assert_eq!(in_sync(Consistency(2)), Some(2));
        assert_eq!(in_sync(Consistency::ALL), Some(3));
        assert_eq!(in_sync(Consistency::ANY), None);
        assert_eq!(of(Consistency::SERIAL), None);
        assert_eq!(of(Consistency(99)), None);
    }
}
