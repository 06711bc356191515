//! Keyspaces, tables and functions from the schema tables.

use std::sync::Arc;

use helenus_cql::Fold;
use helenus_policy::ring::{ReplicaSets, Replication, Ring};
use helenus_wire::Reader;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::control::rows::Rows;
use helenus_engine::snapshot::KeyColumn;
use helenus_engine::snapshot::list_columns::ListColumns;

/// The replicas of each keyspace; equal replications share one allocation.
pub(super) fn replica_sets(keyspaces: &Rows, ring: &Ring) -> FxHashMap<String, Arc<ReplicaSets>> {
    let mut found = FxHashMap::default();
    let mut shared: Vec<(Replication, Arc<ReplicaSets>)> = Vec::new();
    for row in &keyspaces.rows {
        let Some(name) = keyspaces.text(row, "keyspace_name") else {
            continue;
        };
        let options = keyspaces
            .cell(row, "replication")
            .map(string_map)
            .unwrap_or_default();
        let replication =
            Replication::from_options(options.iter().map(|(k, v)| (k.as_str(), v.as_str())));
        let sets = match shared.iter().find(|(r, _)| *r == replication) {
            Some((_, sets)) => Arc::clone(sets),
            None => {
                let sets = Arc::new(ring.replica_sets(&replication));
                shared.push((replication, sets.clone()));
                sets
            }
        };
        found.insert(name, sets);
    }
    found
}

/// Keyspaces with a function of their own, named in `column`, that has the name of an aggregate which
/// the proxy computes.
pub(super) fn shadowing_folds(functions: &Rows, column: &str) -> Vec<String> {
    let shadowing = functions.rows.iter().filter(|row| {
        let name = functions.text(row, column).unwrap_or_default();
        Fold::ALL.iter().any(|fold| fold.name() == name)
    });
    shadowing
        .filter_map(|row| functions.text(row, "keyspace_name"))
        .collect()
}

/// A cell of type `map<text, text>`.
pub(crate) fn string_map(cell: &[u8]) -> Vec<(String, String)> {
    let mut reader = Reader::new(cell);
    let n = reader.i32().unwrap_or(0);
    let mut next = || {
        let bytes = reader.bytes().ok().flatten()?;
        String::from_utf8(bytes.to_vec()).ok()
    };
    (0..n).map_while(|_| Some((next()?, next()?))).collect()
}

/// True if a node's `MIN` and `MAX` compare the values of descending clustering columns by the reversed type: those
/// of 5.0 did before 5.0.4 (CASSANDRA-20295).
pub(super) fn compares_reversed_types(release_version: &str) -> bool {
    let Some(patch) = release_version.strip_prefix("5.0") else {
        return false;
    };
    let Some(patch) = patch.strip_prefix('.') else {
        // Such as 5.0-rc1.
        return patch.is_empty() || patch.starts_with('-');
    };
    let digits = patch.find(|c: char| !c.is_ascii_digit());
    let number = &patch[..digits.unwrap_or(patch.len())];
    number.parse().is_ok_and(|patch: u32| patch < 4)
}

/// The clustering columns in descending order, by keyspace and table.
pub(super) fn descending_columns(
    columns: &Rows,
) -> FxHashMap<String, FxHashMap<String, Vec<String>>> {
    let mut found: FxHashMap<String, FxHashMap<String, Vec<String>>> = FxHashMap::default();
    for row in &columns.rows {
        let order = columns.cell(row, "clustering_order");
        let text = |name: &str| columns.text(row, name);
        if let Some(b"desc") = order
            && let (Some(keyspace), Some(table), Some(column)) = (
                text("keyspace_name"),
                text("table_name"),
                text("column_name"),
            )
        {
            let of_keyspace = found.entry(keyspace).or_default();
            of_keyspace.entry(table).or_default().push(column);
        }
    }
    found
}

pub(super) type Tables = FxHashMap<String, FxHashMap<String, Arc<[KeyColumn]>>>;

/// `masks`: the columns that have one.
pub(super) fn partition_keys(columns: &Rows, masks: &Rows) -> Tables {
    let masked: FxHashSet<[String; 3]> = masks
        .rows
        .iter()
        .filter_map(|row| {
            let text = |name: &str| masks.text(row, name);
            let (keyspace, table) = (text("keyspace_name")?, text("table_name")?);
            Some([keyspace, table, text("column_name")?])
        })
        .collect();
    let mut found: FxHashMap<(String, String), Vec<(i32, KeyColumn)>> = FxHashMap::default();
    for row in &columns.rows {
        if columns.cell(row, "kind") != Some(b"partition_key") {
            continue;
        }
        let text = |name: &str| columns.text(row, name);
        let position = columns
            .cell(row, "position")
            .and_then(|c| c.try_into().ok())
            .map_or(0, i32::from_be_bytes);
        let (Some(keyspace), Some(table), Some(name), Some(cql_type)) = (
            text("keyspace_name"),
            text("table_name"),
            text("column_name"),
            text("type"),
        ) else {
            continue;
        };
        let place = [keyspace, table, name];
        let is_masked = masked.contains(&place);
        let [keyspace, table, name] = place;
        let column = KeyColumn {
            name,
            cql_type,
            is_masked,
        };
        found
            .entry((keyspace, table))
            .or_default()
            .push((position, column));
    }
    let mut tables = Tables::default();
    for ((keyspace, table), mut key) in found {
        key.sort_by_key(|(position, _)| *position);
        let key = key.into_iter().map(|(_, column)| column).collect();
        tables.entry(keyspace).or_default().insert(table, key);
    }
    tables
}

/// Which columns are lists of several cells.
pub(super) fn list_columns(columns: &Rows) -> ListColumns {
    let mut known = ListColumns::default();
    for row in &columns.rows {
        let text = |name: &str| columns.text(row, name).unwrap_or_default();
        let (keyspace, table) = (text("keyspace_name"), text("table_name"));
        known.note(&keyspace, &table, &text("column_name"), &text("type"));
    }
    known
}
