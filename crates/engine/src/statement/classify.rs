//! The scheduler's class of a request.

use helenus_cql::Kind;
use helenus_policy::schedule::Class;
use helenus_wire::Opcode;

use crate::snapshot::Snapshot;
use crate::statement::prepared::{Prepared, Statement};

/// A read of one partition with larger answers than this is no point read.
const POINT_BYTES_MAX: u32 = 16 * 1024;

/// `placed`: whether the partition is known.
pub(crate) fn class_of(
    snapshot: &Snapshot,
    opcode: Opcode,
    statement: Option<&Statement>,
    prepared: Option<&Prepared>,
    keyspace: Option<&str>,
    placed: bool,
    lwt: bool,
) -> Class {
    let Some(statement) = statement else {
        return match opcode {
            Opcode::Batch if lwt => Class::Lwt,
            Opcode::Batch => Class::Write,
            _ => Class::Other,
        };
    };
    let in_force = match (opcode, prepared) {
        (Opcode::Execute, Some(prepared)) => prepared.keyspace.as_deref(),
        _ => keyspace,
    };
    if opcode == Opcode::Prepare || statement.is_node_local(in_force) {
        return Class::System;
    }
    match statement.facts.kind {
        Kind::Select if placed => class_of_partition(statement),
        Kind::Select => class_of_unplaced(snapshot, statement, prepared, keyspace),
        Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch if lwt => Class::Lwt,
        Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch => Class::Write,
        _ => Class::Other,
    }
}

/// A read of one partition.
pub(crate) fn class_of_partition(statement: &Statement) -> Class {
    match statement.learned.answer_bytes() {
        0..=POINT_BYTES_MAX => Class::Point,
        _ => Class::Slice,
    }
}

/// A read whose partition is not known: of several, of all, or of one by a value that only the
/// node can compute.
fn class_of_unplaced(
    snapshot: &Snapshot,
    statement: &Statement,
    prepared: Option<&Prepared>,
    keyspace: Option<&str>,
) -> Class {
    let named = match prepared {
        Some(prepared) => prepared.table.as_ref().map(|(ks, t)| (&**ks, &**t)),
        None => statement.table(keyspace),
    };
    let Some((keyspace, table)) = named else {
        return Class::Other;
    };
    let Some(key) = snapshot.schema().partition_key(keyspace, table) else {
        return Class::Other;
    };
    let facts = &statement.facts;
    let one = |column: &str| facts.key_terms.iter().any(|t| t.column.as_str() == column);
    let several = |column: &str| {
        let mut ins = facts.select.iter().flat_map(|s| &s.ins);
        ins.any(|i| i.columns.iter().any(|c| c.as_str() == column))
    };
    if key.iter().all(|c| one(&c.name)) {
        Class::Point
    } else if key.iter().all(|c| one(&c.name) || several(&c.name)) {
        Class::Multi
    } else {
        Class::Scan
    }
}
