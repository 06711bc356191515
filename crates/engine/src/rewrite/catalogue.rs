//! The keyspace of the catalogue, and statements that may write what it is about.

use helenus_cql::Kind;

use crate::statement::words::{is_one_of, words};

/// True if statements of a kind write rows, or take them away.
pub(crate) fn may_write(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch | Kind::Truncate
    )
}

/// [`may_write`] for a statement that nobody here understands.
pub(crate) fn begins_as_write(text: &str) -> bool {
    let writes = ["insert", "update", "delete", "begin", "truncate"];
    words(text)
        .next()
        .is_some_and(|first| is_one_of(first, &writes))
}

/// Keyspaces of Cassandra's own, and that of the catalogue: the catalogue says nothing of their tables.
pub(crate) fn is_systems(keyspace: &str) -> bool {
    matches!(
        keyspace,
        "system"
            | "system_auth"
            | "system_distributed"
            | "system_schema"
            | "system_traces"
            | "system_views"
            | "system_virtual_schema"
            | CATALOGUE
    )
}

/// The keyspace of the catalogue.
pub(crate) const CATALOGUE: &str = "helenus";

/// If it were lost, all proxies would refuse all writes.
pub(crate) const CATALOGUE_REFUSED: &str = "keyspace helenus is the catalogue of layouts and encoded columns, which \
                                           is changed by the commands of `helenus layouts` and `helenus payload` \
                                           only";
