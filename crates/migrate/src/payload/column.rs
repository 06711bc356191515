//! Reads a sample of a column from the nodes: from ranges of tokens that are spread over the ring, until
//! there are enough values.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, stream};
use helenus_cql::{Name, quote_text};
use helenus_payload::{Decoder, DictionaryId, Learned};
use helenus_rows::{Range, TableName};
use scylla::deserialize::row::ColumnIterator;
use scylla::response::PagingState;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

use super::sample::{SAMPLE_BYTES_MAX, Sample};
use crate::nodes::cluster::{Cluster, patiently};
use crate::nodes::ring;

/// Documents may be large.
const PAGE_ROWS: i32 = 200;
/// Ranges that are read at the same time.
const PARALLEL: usize = 4;
/// As in the proxies.
const TEXT_BYTES_MAX: usize = 256 << 20;
const RANGES_MAX: u64 = 1 << 16;
/// Each range gives at most so much of the sample, so that large partitions do not make up all of it.
const RANGE_SHARE: usize = 16;

/// A column, and that of its encoded values with what these are read with, if it has one.
pub struct Source<'a> {
    pub table: &'a TableName,
    pub column: &'a Name,
    pub encoded: Option<(String, BTreeMap<DictionaryId, Arc<Learned>>)>,
}

pub async fn read(cluster: &Cluster, source: &Source<'_>, count: usize) -> Result<Sample> {
    cluster.check_partitioner().await?;
    let Source { table, column, .. } = source;
    let select = select(cluster, source).await?;
    let ranges_count = (ring::suitable(cluster, table).await * 64).min(RANGES_MAX);
    let all = helenus_rows::split(ranges_count);
    let places = ring::spread(ranges_count, 1);
    let ranges = places.filter_map(|at| all.get(at as usize).copied());
    let range_max = (count / RANGE_SHARE).max(PAGE_ROWS as usize);
    let parts = ranges.map(|range| values(cluster, source, &select, range, range_max));
    let mut parts = std::pin::pin!(stream::iter(parts).buffered(PARALLEL));
    let mut sample = Sample {
        name: format!("{table} {column}"),
        column: Some(argument(table, column)),
        documents: Vec::new(),
        is_cut: false,
    };
    let mut bytes = 0;
    while let Some(part) = parts.next().await {
        let (values, is_cut) = part?;
        sample.is_cut |= is_cut;
        for value in values {
            bytes += value.len();
            sample.documents.push(value);
        }
        if sample.documents.len() >= count || bytes >= SAMPLE_BYTES_MAX {
            sample.is_cut = true;
            break;
        }
    }
    sample.documents.truncate(count);
    Ok(sample)
}

/// As a shell hands it over: quotation marks are kept by others.
fn argument(table: &TableName, column: &Name) -> String {
    let all = format!("{} {}", table.to_cql(), column.to_cql());
    match all.contains('"') {
        true => format!("'{}' '{}'", table.to_cql(), column.to_cql()),
        false => all,
    }
}

/// The statement that reads a range. Refuses what cannot hold documents.
async fn select(cluster: &Cluster, source: &Source<'_>) -> Result<PreparedStatement> {
    let Source {
        table,
        column,
        encoded,
    } = source;
    let columns: Vec<(String, String, String, i32)> = cluster
        .rows(format!(
            "SELECT column_name, type, kind, position FROM system_schema.columns \
             WHERE keyspace_name = {} AND table_name = {}",
            quote_text(&table.keyspace),
            quote_text(&table.table)
        ))
        .await?;
    check(table, column, &columns)?;
    let mut partition: Vec<(i32, String)> = columns
        .iter()
        .filter(|(_, _, kind, _)| kind == "partition_key")
        .map(|(name, _, _, position)| {
            (
                *position,
                Name::from_stored(name.as_str()).to_cql().into_owned(),
            )
        })
        .collect();
    partition.sort();
    let partition: Vec<String> = partition.into_iter().map(|(_, name)| name).collect();
    let token = format!("token({})", partition.join(", "));
    let mut selected = column.to_cql().into_owned();
    if let Some((hidden, _)) = encoded
        && columns.iter().any(|(name, ..)| name == hidden)
    {
        let hidden = Name::from_stored(hidden.as_str());
        selected.push_str(&format!(", {}", hidden.to_cql()));
    }
    let text = format!(
        "SELECT {selected} FROM {} WHERE {token} > ? AND {token} <= ?",
        table.to_cql()
    );
    let prepared = cluster.session.prepare(&*text).await;
    let mut prepared = prepared.with_context(|| format!("cannot prepare: {text}"))?;
    // Some replica's values are as good as all of theirs.
    prepared.set_consistency(Consistency::LocalOne);
    prepared.set_page_size(PAGE_ROWS);
    prepared.set_is_idempotent(true);
    Ok(prepared)
}

/// Name, type, kind and position of each column of the table.
fn check(
    table: &TableName,
    column: &Name,
    columns: &[(String, String, String, i32)],
) -> Result<()> {
    if columns.is_empty() {
        bail!(
            "there is no table {table}: write KEYSPACE.TABLE, with quotation marks if upper case counts"
        );
    }
    let found = columns.iter().find(|(name, ..)| *name == **column);
    let Some((_, ty, kind, _)) = found else {
        let texts = columns.iter().filter(|(_, ty, ..)| is_text(ty));
        let texts: Vec<&str> = texts.map(|(name, ..)| name.as_str()).collect();
        bail!(
            "{table} has no column {column}; its columns of text are: {}",
            if texts.is_empty() {
                "none".to_owned()
            } else {
                texts.join(", ")
            }
        );
    };
    if !is_text(ty) {
        bail!("column {column} is of type {ty}: only columns of type text can hold JSON documents");
    }
    if kind == "partition_key" || kind == "clustering" {
        bail!(
            "column {column} is part of the primary key, whose values are compared: they stay as they are"
        );
    }
    Ok(())
}

fn is_text(ty: &str) -> bool {
    matches!(ty, "text" | "varchar" | "ascii")
}

/// The values of a range, at most `values_max`, and whether there are more.
async fn values(
    cluster: &Cluster,
    source: &Source<'_>,
    select: &PreparedStatement,
    range: Range,
    values_max: usize,
) -> Result<(Vec<String>, bool)> {
    let mut values = Vec::new();
    let mut state = PagingState::start();
    loop {
        let page = || {
            let bounds = (range.after, range.end);
            cluster
                .session
                .execute_single_page(select, bounds, state.clone())
        };
        let page = patiently(page).await;
        let (page, next) = page.with_context(|| format!("cannot read {}", source.table))?;
        let page = page.into_rows_result()?;
        for row in page.rows::<ColumnIterator>()? {
            values.extend(text_of(row?, source)?);
        }
        match next.into_paging_control_flow() {
            std::ops::ControlFlow::Break(()) => return Ok((values, false)),
            std::ops::ControlFlow::Continue(_) if values.len() >= values_max => {
                return Ok((values, true));
            }
            std::ops::ControlFlow::Continue(next) => state = next,
        }
    }
}

/// The text of a row with one of the two columns, or both.
fn text_of(columns: ColumnIterator<'_, '_>, source: &Source<'_>) -> Result<Option<String>> {
    let mut cells = Vec::new();
    for column in columns {
        let slice = column.context("a row cannot be read")?.slice;
        cells.push(slice.map(|slice| slice.as_slice().to_vec()));
    }
    let mut cells = cells.into_iter();
    if let Some(text) = cells.next().flatten() {
        let text = String::from_utf8(text).context("a text is no UTF-8")?;
        return Ok(Some(text));
    }
    match (cells.next().flatten(), &source.encoded) {
        (Some(value), Some((_, dictionaries))) => {
            let mut text = String::new();
            let done = Decoder::default().decode(&value, dictionaries, TEXT_BYTES_MAX, &mut text);
            done.with_context(|| format!("an encoded value of {} cannot be read", source.table))?;
            Ok(Some(text))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use helenus_cql::fold_identifier;

    use super::*;

    #[test]
    fn only_texts_outside_the_key_are_read() {
        let table: TableName = "shop.users".parse().expect("a name");
        let column =
            |name: &str, ty: &str, kind: &str| (name.to_owned(), ty.to_owned(), kind.to_owned(), 0);
        let columns = [
            column("id", "text", "partition_key"),
            column("at", "text", "clustering"),
            column("profile", "text", "regular"),
            column("Shared", "ascii", "static"),
            column("age", "int", "regular"),
        ];
        let error = |name: &str| {
            let done = check(&table, &fold_identifier(name), &columns);
            done.err().map(|error| error.to_string())
        };
        assert_eq!(error("profile"), None);
        assert_eq!(error("PROFILE"), None);
        assert_eq!(error("\"Shared\""), None);
        assert!(error("age").expect("refused").contains("type int"));
        assert!(error("id").expect("refused").contains("primary key"));
        assert!(error("at").expect("refused").contains("primary key"));
        assert!(
            error("shared")
                .expect("refused")
                .contains("id, at, profile, Shared")
        );
        let none = check(&table, &fold_identifier("profile"), &[]);
        assert!(
            none.expect_err("refused")
                .to_string()
                .contains("no table shop.users")
        );
    }
}
