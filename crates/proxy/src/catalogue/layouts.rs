//! The layouts of the catalogue that fit their tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_catalogue::{Catalogue, LayoutState, TableKey};
use helenus_engine::features::layouts::Layouts;
use helenus_layout::Layout;
use helenus_layout::plan::{ClusteringColumn, Column, Copy, LogicalTable, may_hold_time};

use super::schema::{Definition, Schema};

#[cfg(test)]
mod tests;

/// Layouts as the catalogue and the schema tell of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub layouts: Arc<Layouts>,
    /// Layouts that are read.
    pub readable: usize,
    /// Layouts that are only written.
    pub written: usize,
    /// Layouts that are neither.
    pub rejected: usize,
    /// Problems, as sentences; of a layout that is not even written, or should be read and is not.
    pub problems: Vec<String>,
}

/// One layout, as the catalogue describes it.
#[derive(Clone, Copy)]
struct Entry<'a> {
    table: &'a TableKey,
    /// All of its table's.
    all: &'a helenus_catalogue::Layouts,
    layout: &'a helenus_catalogue::Layout,
}

/// The layouts of the catalogue that fit their tables. A layout of which only the description is wrong, or which has
/// other columns outside of the key, is written nevertheless: rows that it misses would be wrong answers once it is
/// read. A write that names a column which the layout does not have fails as a whole.
pub(crate) fn known(catalogue: &Catalogue, schema: &Schema) -> Known {
    let mut known = Known::default();
    let mut layouts = Layouts::default();
    for (key, of) in &catalogue.tables {
        let Some(all) = &of.layouts else {
            continue;
        };
        let mut table: Option<LogicalTable> = None;
        for layout in &all.layouts {
            let entry = Entry {
                table: key,
                all,
                layout,
            };
            let others = table.as_ref().map_or(&[][..], |table| &table.copies);
            let (definition, copy, complaint) = match judge(entry, schema, others) {
                Ok(judged) => judged,
                Err(why) => {
                    known.rejected += 1;
                    known.problems.push(problem(entry, "not written", &why));
                    continue;
                }
            };
            if let Some(why) = complaint {
                known.problems.push(problem(entry, "not read", &why));
            }
            let table = table.get_or_insert_with(|| logical(entry, definition));
            if layout.state() == Some(LayoutState::Behind) {
                let held_in = layout.keyspace_in(key);
                layouts.set_aside(held_in, &layout.physical, Arc::new(table.clone()));
                continue;
            }
            match copy.readable {
                true => known.readable += 1,
                false => known.written += 1,
            }
            table.copies.push(copy);
        }
        if let Some(table) = table {
            layouts.add(Arc::new(table));
        }
    }
    known.layouts = Arc::new(layouts);
    known
}

fn problem(entry: Entry<'_>, what: &str, why: &str) -> String {
    format!(
        "layout {} of {} is {what}: {why}; `helenus layouts status {}` says what to do",
        entry.layout.name, entry.table, entry.table
    )
}

/// A copy to write to, and why it must not be read although the catalogue says so; or why it is no copy.
fn judge<'a>(
    entry: Entry<'_>,
    schema: &'a Schema,
    others: &[Copy],
) -> Result<(&'a Definition, Copy, Option<String>), String> {
    let TableKey { keyspace, table } = entry.table;
    let physical = &entry.layout.physical;
    let held_in = entry.layout.keyspace_in(entry.table);
    let own = schema
        .table(keyspace, table)
        .ok_or_else(|| format!("there is no table {keyspace}.{table}"))?;
    if (held_in, physical) == (keyspace, table) {
        return Err("its table is the table itself".to_owned());
    }
    let is_held_there = |copy: &Copy| {
        let other = copy.keyspace.as_deref().unwrap_or(keyspace);
        (other, &copy.physical) == (held_in, physical)
    };
    if others.iter().any(is_held_there) {
        return Err(format!(
            "its table {held_in}.{physical} is that of another layout"
        ));
    }
    let copy = schema
        .table(held_in, physical)
        .ok_or_else(|| format!("its table {held_in}.{physical} does not exist"))?;
    if let Some(difference) = difference(own, copy) {
        return Err(format!("its table {held_in}.{physical} {difference}"));
    }
    let position = |name: &String| own.clustering.values().position(|(own, ..)| own == name);
    let order: Option<Vec<usize>> = copy.clustering.values().map(|c| position(&c.0)).collect();
    let layout = order.and_then(|order| Layout::new(&order));
    let layout = layout.ok_or("it has more clustering columns than a layout may")?;
    let said = &entry.layout.clustering;
    let is_as_said = copy.clustering.values().map(|c| &c.0).eq(said);
    let state = entry.layout.state();
    let complaint = match state {
        None => Some(format!("its state {:?} is unknown", entry.layout.state)),
        Some(LayoutState::Behind) => Some(
            "it has missed writes, and is not written either until `helenus layouts sweep` has compared it"
                .to_owned(),
        ),
        _ if !is_as_said => Some(format!(
            "its table sorts by ({}), but the catalogue says ({})",
            names(copy),
            said.join(", ")
        )),
        _ if directions(own) != directions(copy) => Some(
            "its table sorts a column upwards that the table sorts downwards, or the reverse"
                .into(),
        ),
        _ => other_options(own, copy)
            .or_else(|| other_columns(own, copy))
            .or_else(|| other_drop(own, copy, entry.layout)),
    };
    let copy = Copy {
        keyspace: entry.layout.keyspace.clone(),
        physical: physical.clone(),
        layout,
        readable: state == Some(LayoutState::Ready) && complaint.is_none(),
        further: columns(further(own, copy)),
        outlived: outlived(own, copy),
    };
    Ok((own, copy, complaint))
}

/// The difference that makes a table no copy of another.
fn difference(own: &Definition, copy: &Definition) -> Option<&'static str> {
    let sorted = |table: &Definition| {
        let columns = table.clustering.values();
        let mut columns: Vec<_> = columns
            .map(|(name, ty, _)| (name.clone(), ty.clone()))
            .collect();
        columns.sort();
        columns
    };
    if own.partition_key.values().ne(copy.partition_key.values()) {
        Some("has another partition key")
    } else if sorted(own) != sorted(copy) {
        Some("has other clustering columns")
    } else {
        None
    }
}

/// The option that makes rows live longer, or shows more of them, in a layout than in its table.
fn other_options(own: &Definition, copy: &Definition) -> Option<String> {
    let (of_own, of_copy) = (own.default_ttl_s, copy.default_ttl_s);
    if of_own != of_copy {
        return Some(format!(
            "its table has default_time_to_live = {of_copy}, and the table {of_own}"
        ));
    }
    (own.masked || copy.masked)
        .then(|| "columns are masked, and masks are not carried over to layouts".to_owned())
}

/// The problem with the columns outside of the key. While an ALTER TABLE … ADD goes from the layouts to the table,
/// there is one for a moment.
fn other_columns(own: &Definition, copy: &Definition) -> Option<String> {
    let lacking = own
        .others
        .iter()
        .find_map(|(name, of)| match copy.others.get(name) {
            None => Some(format!(
                "its table has no column {name}, and writes of that fail"
            )),
            Some(other) if other != of => Some(format!("its table has another column {name}")),
            Some(_) => None,
        });
    let lacks = || {
        let mut others = copy.others.keys();
        let name = others.find(|name| !own.others.contains_key(*name))?;
        Some(format!(
            "its table has a column {name}, which the table has not (yet)"
        ))
    };
    lacking.or_else(lacks)
}

/// A column that was dropped in one of the two and added again, and of which the other may show what was written before.
fn other_drop(
    own: &Definition,
    copy: &Definition,
    layout: &helenus_catalogue::Layout,
) -> Option<String> {
    let mut both = own
        .others
        .keys()
        .filter(|name| copy.others.contains_key(*name));
    let name = both.find(|name| {
        let dropped_ms = |table: &Definition| table.dropped.get(*name).copied();
        !layout.hides_what_its_table_hides(dropped_ms(own), dropped_ms(copy))
    })?;
    Some(format!(
        "its column {name} was not dropped when that of the table was, so that it may show other values; `helenus layouts \
         rebuild` fills it anew"
    ))
}

/// Columns of the copy that the table has not. One that was dropped there may have values here.
fn further<'a>(
    own: &'a Definition,
    copy: &'a Definition,
) -> impl Iterator<Item = (&'a String, &'a (String, bool))> {
    let others = copy.others.iter();
    others.filter(|(name, _)| !own.others.contains_key(*name) && !own.dropped.contains_key(*name))
}

/// Columns of the copy that the table has dropped.
fn outlived(own: &Definition, copy: &Definition) -> Vec<String> {
    let others = copy.others.keys();
    let outlived =
        others.filter(|name| !own.others.contains_key(*name) && own.dropped.contains_key(*name));
    outlived.cloned().collect()
}

fn columns<'a>(of: impl Iterator<Item = (&'a String, &'a (String, bool))>) -> Vec<Column> {
    of.map(|(name, (cql_type, is_static))| Column {
        name: name.clone(),
        cql_type: cql_type.clone(),
        is_static: *is_static,
    })
    .collect()
}

fn names(table: &Definition) -> String {
    let names = table.clustering.values().map(|(name, ..)| name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// Which clustering columns sort downwards.
fn directions(table: &Definition) -> BTreeMap<&str, bool> {
    let columns = table.clustering.values();
    columns
        .map(|(name, _, down)| (name.as_str(), *down))
        .collect()
}

fn logical(entry: Entry<'_>, table: &Definition) -> LogicalTable {
    let clustering = table.clustering.values();
    let others = table.others.iter();
    let of_key = table.partition_key.values().map(|(_, ty)| ty);
    let mut types = of_key
        .chain(clustering.clone().map(|(_, ty, _)| ty))
        .chain(others.clone().map(|(_, (ty, _))| ty));
    let distinct = entry.all.distinct.iter();
    LogicalTable {
        may_hold_times: types.any(|ty| may_hold_time(ty)),
        keyspace: entry.table.keyspace.clone(),
        name: entry.table.table.clone(),
        partition_key: table.partition_key.values().map(|c| c.0.clone()).collect(),
        clustering: clustering
            .map(|(name, cql_type, descending)| ClusteringColumn {
                name: name.clone(),
                cql_type: cql_type.clone(),
                descending: *descending,
            })
            .collect(),
        columns: columns(others),
        indexed: table.indexed,
        copies: Vec::new(),
        distinct: distinct
            .map(|(name, n)| (name.clone(), *n as f64))
            .collect(),
        rows: entry.all.rows.map(|rows| rows as f64),
    }
}
