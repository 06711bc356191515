//! Reads a sample of a table's rows from a CSV file.

use std::path::Path;

use anyhow::{Context, Result, bail};
use helenus_layout::{Collector, ColumnSet, Statistics, Table, Value};

use super::schema::Schema;
use super::values;

/// Statistics of the rows that were read.
pub(super) struct Rows {
    pub statistics: Statistics,
    /// Rows in the file.
    pub read: u64,
    /// Mean length of a row's fields.
    pub field_bytes: f64,
}

/// How many rows to keep, and of how many they are.
pub(super) struct Limits {
    pub rows_max: usize,
    pub rows_total: Option<u64>,
    pub seed: u64,
}

pub(super) fn read(
    path: &Path,
    schema: &Schema,
    table: &Table,
    sets: Vec<ColumnSet>,
    limits: &Limits,
) -> Result<Rows> {
    let shown = path.display();
    let mut reader =
        csv::Reader::from_path(path).with_context(|| format!("cannot read {shown}"))?;
    let header = reader
        .headers()
        .with_context(|| format!("cannot read {shown}"))?
        .clone();
    let columns = columns(&header, schema, table).with_context(|| shown.to_string())?;
    let mut collector = Collector::new(table.columns(), sets, limits.rows_max, limits.seed);
    let mut bytes = 0;
    for record in reader.records() {
        let record = record.with_context(|| format!("cannot read {shown}"))?;
        let line = record.position().map_or(0, csv::Position::line);
        bytes += record.iter().map(str::len).sum::<usize>();
        let mut row: Vec<Value> = Vec::with_capacity(columns.len());
        for (number, (field, ty)) in columns.iter().enumerate() {
            let name = table.name(number);
            let field = record.get(*field).unwrap_or_default();
            let value = values::of_field(field, ty)
                .with_context(|| format!("{shown}, line {line}, column {name}"))?;
            let in_key = table.clustering_columns().union(table.partition_columns());
            if value == Value::Null && in_key.contains(number) && !is_text(ty) {
                bail!("{shown}, line {line}: column {name} of the key is empty");
            }
            row.push(value);
        }
        collector.add(row)?;
    }
    let read = collector.rows_seen();
    if read == 0 {
        bail!("{shown} has no rows; a sample of a few thousand says enough");
    }
    Ok(Rows {
        statistics: collector.finish(limits.rows_total)?,
        read,
        field_bytes: bytes as f64 / read as f64,
    })
}

/// An empty text is a value.
fn is_text(ty: &str) -> bool {
    matches!(ty, "text" | "varchar" | "ascii" | "blob")
}

/// For each column of the table, its place in the file and its type.
fn columns(
    header: &csv::StringRecord,
    schema: &Schema,
    table: &Table,
) -> Result<Vec<(usize, String)>> {
    let mut columns = Vec::new();
    for number in 0..table.columns() {
        let name = table.name(number);
        let Some(place) = header.iter().position(|field| field.trim() == name) else {
            let found: Vec<&str> = header.iter().collect();
            bail!(
                "the first line must name the columns, {name} among them; it is {:?}. With cqlsh: \
                 COPY {} TO 'rows.csv' WITH HEADER = TRUE",
                found.join(","),
                schema.full_name
            );
        };
        let ty = schema.type_of(name).unwrap_or("text");
        columns.push((place, ty.to_owned()));
    }
    Ok(columns)
}
