//! The tables: one for each collection and arm.

use super::documents::{Collection, identifier};
use super::experiment::Stored;
use crate::workload::kv::{create_keyspace, prepare};
use anyhow::{Context, Result};
use scylla::client::session::Session;
use scylla::deserialize::row::ColumnIterator;
use scylla::frame::response::result::{ColumnType, NativeType};
use scylla::response::PagingState;
use std::ops::ControlFlow;

pub const KEYSPACE: &str = "helenus_payload";
/// The column with the number of the row.
pub(super) const KEY: &str = "k";
/// Documents may be large.
const PAGE_ROWS: i32 = 100;

/// Such as `profiles_helenus_shape`.
pub fn table_name(collection: &str, arm: &str) -> String {
    format!("{collection}_{}", identifier(arm))
}

/// Creates the keyspace anew.
pub async fn create(session: &Session, replication: usize) -> Result<()> {
    run(session, &format!("DROP KEYSPACE IF EXISTS {KEYSPACE}")).await?;
    create_keyspace(session, KEYSPACE, replication).await
}

pub async fn create_table(
    session: &Session,
    collection: &Collection,
    arm: &str,
    stored: &Stored,
) -> Result<()> {
    run(session, &create_text(collection, arm, stored)).await
}

fn create_text(collection: &Collection, arm: &str, stored: &Stored) -> String {
    let column_type = match stored {
        Stored::Plain | Stored::ByProxy(_) => "text",
        Stored::ByClient(_) => "blob",
    };
    let columns = collection.columns.iter();
    let columns: Vec<String> = columns
        .map(|name| format!("{name} {column_type}"))
        .collect();
    format!(
        "CREATE TABLE {KEYSPACE}.{} ({KEY} bigint PRIMARY KEY, {})",
        table_name(&collection.name, arm),
        columns.join(", ")
    )
}

async fn run(session: &Session, statement: &str) -> Result<()> {
    let done = session.query_unpaged(statement, ()).await;
    done.with_context(|| format!("cannot run: {statement}"))?;
    Ok(())
}

/// Bytes of a table's values as they are stored, without the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    pub rows: u64,
    pub text_bytes: u64,
    pub blob_bytes: u64,
}

/// Reads all rows of a table, straight from the nodes.
pub(super) async fn values(session: &Session, table: &str) -> Result<Values> {
    let text = format!("SELECT * FROM {KEYSPACE}.{table}");
    let mut statement = prepare(session, &text).await?;
    statement.set_page_size(PAGE_ROWS);
    let mut found = Values::default();
    let mut state = PagingState::start();
    loop {
        let page = session.execute_single_page(&statement, (), state).await;
        let (page, next) = page.with_context(|| format!("cannot read {table}"))?;
        let page = page.into_rows_result()?;
        for row in page.rows::<ColumnIterator>()? {
            found.rows += 1;
            for column in row? {
                let column = column?;
                let bytes = column
                    .slice
                    .map_or(0, |slice| slice.as_slice().len() as u64);
                match column.spec.typ() {
                    ColumnType::Native(NativeType::Text) => found.text_bytes += bytes,
                    ColumnType::Native(NativeType::Blob) => found.blob_bytes += bytes,
                    _ => {}
                }
            }
        }
        match next.into_paging_control_flow() {
            ControlFlow::Break(()) => return Ok(found),
            ControlFlow::Continue(next) => state = next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_that_encode_see_blobs() {
        let collection = Collection::profiles(1, 0, 1);
        let text = |stored| create_text(&collection, "helenus-shape", &stored);
        assert!(text(Stored::ByProxy("shape".into())).starts_with(
            "CREATE TABLE helenus_payload.profiles_helenus_shape (k bigint PRIMARY KEY, \
                 items_viewed text, items_purchased text, "
        ));
        assert_eq!(
            text(Stored::Plain),
            text(Stored::ByProxy("shape".into())),
            "what the proxy encodes is text for clients"
        );
        assert!(text(Stored::ByClient(Vec::new())).ends_with(", geolocation blob)"));
    }
}
