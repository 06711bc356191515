//! An encoded column as the catalogue has it.

use anyhow::{Result, bail};
use helenus_catalogue::change::Change;
use helenus_catalogue::{Encoding, Form, Written};
use helenus_rows::TableName;

use crate::catalogue::claim::Claim;
use crate::catalogue::noted::{Notes, Task};
use crate::catalogue::{self, Known, later_than, now_ms};
use crate::nodes::cluster::Cluster;

/// The ranges whose values have been moved.
pub(super) const PROGRESS: Notes = Notes {
    name: "encoding_progress",
    item: "column_name",
};

pub(super) fn announced(column: &str, hidden: &str) -> Encoding {
    let mut encoding = Encoding {
        column: column.to_owned(),
        hidden: hidden.to_owned(),
        state: Written::Announced.name().to_owned(),
        created: now_ms(),
        ..Encoding::default()
    };
    encoding.set_off(Form::Encoded);
    encoding
}

/// The entry under a number that no command has seen yet. Whoever works on it under an older one notices.
pub(super) fn begun_anew(encoding: &Encoding, to: Form) -> Encoding {
    let mut anew = Encoding {
        created: later_than(encoding.created),
        ..encoding.clone()
    };
    anew.set_off(to);
    anew
}

/// True if another command may be at work on it.
pub(super) fn is_under_way(encoding: &Encoding) -> bool {
    let is_encoded = encoding.written() == Some(Written::EncodedOnly);
    !(is_encoded && encoding.is_to(Form::Encoded))
}

/// The notes of the moving of a column's values.
pub(super) fn task<'a>(encoding: &'a Encoding, table: &'a TableName) -> Task<'a> {
    Task {
        notes: PROGRESS,
        table,
        item: &encoding.column,
        created: encoding.created,
    }
}

/// Fails if it is no longer as it was put in: then another command is at work.
pub(super) fn check_unchanged(known: &Known, table: &TableName, ours: &Encoding) -> Result<()> {
    match known.encoding(&ours.column) == Some(ours) {
        true => Ok(()),
        false => bail!(
            "column {} of {table} was changed by somebody else meanwhile: look with `helenus payload status {table}`",
            ours.column
        ),
    }
}

/// To an entry as it was put in.
pub(super) fn claim<'a>(
    cluster: &'a Cluster,
    table: &'a TableName,
    ours: &'a Encoding,
) -> Claim<'a> {
    Claim::new(cluster, table, |known| check_unchanged(known, table, ours))
}

/// Adds or replaces an entry if nobody else has changed one of the table's since `known` was read.
pub(super) async fn put(
    cluster: &Cluster,
    table: &TableName,
    known: &Known,
    encoding: &Encoding,
) -> Result<()> {
    catalogue::change(cluster, table, known, &[Change::PutEncoding(encoding)]).await
}

/// Takes an entry out if nobody else has changed one of the table's since `known` was read.
pub(super) async fn remove(
    cluster: &Cluster,
    table: &TableName,
    known: &Known,
    column: &str,
) -> Result<()> {
    catalogue::change(cluster, table, known, &[Change::RemoveEncoding(column)]).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::testing::known;

    #[test]
    fn a_command_notices_that_another_has_begun() {
        let table: TableName = "shop.users".parse().expect("a name");
        let mut first = announced("profile", "profile__encoded");
        // The clock of whoever made it was ahead.
        first.created = i64::MAX - 5;
        let second = begun_anew(&first, Form::Text);
        assert!(second.created > first.created);
        assert!(second.is_to(Form::Text) && !second.is_to(Form::Encoded));
        assert!(check_unchanged(&known(&[&first]), &table, &first).is_ok());
        for others in [&[&second][..], &[]] {
            let refused = check_unchanged(&known(others), &table, &first);
            assert!(refused.is_err(), "{others:?}");
        }
    }
}
