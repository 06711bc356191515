//! Names of keyspaces, tables and columns: how CQL folds and quotes them.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;

/// A name as Cassandra stores it: without quotes, lower case unless it was quoted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<str>);

impl Name {
    /// A name already in Cassandra's own form, for example from a schema table.
    pub fn from_stored(stored: impl Into<Box<str>>) -> Self {
        Name(stored.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as it must be written in CQL: see [`quote_identifier`].
    pub fn to_cql(&self) -> Cow<'_, str> {
        quote_identifier(&self.0)
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

/// Displays the stored form; use [`Name::to_cql`] for text that Cassandra will parse.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The stored form of a name as written in CQL: `"MyTable"` keeps its case and loses its quotes,
/// `MyTable` becomes `mytable`.
pub fn fold_identifier(written: &str) -> Name {
    let inner = written
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    Name(match inner {
        Some(inner) => inner.replace("\"\"", "\"").into_boxed_str(),
        None => written.to_ascii_lowercase().into_boxed_str(),
    })
}

/// Keyspace and table of a name as written in CQL, `keyspace.table`. None if it is not of that form.
pub fn qualified_name(written: &str) -> Option<(Name, Name)> {
    let quoted_end = |text: &str| text.strip_prefix('"').and_then(|rest| rest.find("\"."));
    let dot = match quoted_end(written) {
        Some(end) => end + 2,
        None => written.find('.')?,
    };
    let (keyspace, table) = (written.get(..dot)?, written.get(dot + 1..)?);
    let is_named = !keyspace.is_empty() && !table.is_empty();
    is_named.then(|| (fold_identifier(keyspace), fold_identifier(table)))
}

/// How a stored name must be written in CQL: quoted if it contains anything but lower-case letters,
/// digits and underscores, does not start with a letter, or is a reserved word.
pub fn quote_identifier(stored: &str) -> Cow<'_, str> {
    let mut bytes = stored.bytes();
    let plain = bytes.next().is_some_and(|b| b.is_ascii_lowercase())
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !is_reserved(stored);
    if plain {
        Cow::Borrowed(stored)
    } else {
        Cow::Owned(format!("\"{}\"", stored.replace('"', "\"\"")))
    }
}

/// A text as a constant in CQL.
pub fn quote_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// True if CQL forbids this word as an unquoted name, in any case.
pub fn is_reserved(word: &str) -> bool {
    let mut upper = [0u8; LONGEST_RESERVED];
    let Some(upper) = upper.get_mut(..word.len()) else {
        return false;
    };
    upper.copy_from_slice(word.as_bytes());
    upper.make_ascii_uppercase();
    RESERVED
        .binary_search_by(|probe| probe.as_bytes().cmp(upper))
        .is_ok()
}

const LONGEST_RESERVED: usize = 12;

/// Sorted. The words that 5.0 reserves, the two booleans, and those that only 4.1 reserves
/// (DEFAULT, MBEAN, MBEANS, REPLACE, UNSET): unnecessary quotes are harmless.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "ADD", "ALLOW", "ALTER", "AND", "APPLY", "ASC", "AUTHORIZE", "BATCH", "BEGIN", "BY",
    "COLUMNFAMILY", "CREATE", "DEFAULT", "DELETE", "DESC", "DESCRIBE", "DROP", "ENTRIES",
    "EXECUTE", "FALSE", "FROM", "FULL", "GRANT", "IF", "IN", "INDEX", "INFINITY", "INSERT",
    "INTO", "IS", "KEYSPACE", "LIMIT", "MATERIALIZED", "MBEAN", "MBEANS", "MODIFY", "NAN",
    "NORECURSIVE", "NOT", "NULL", "OF", "ON", "OR", "ORDER", "PRIMARY", "RENAME", "REPLACE",
    "REVOKE", "SCHEMA", "SELECT", "SET", "TABLE", "TO", "TOKEN", "TRUE", "TRUNCATE", "UNLOGGED",
    "UNSET", "UPDATE", "USE", "USING", "VIEW", "WHERE", "WITH",
];
