//! The catalogue of encoded columns: written while the tables are empty and no proxy of this program runs, so
//! that nothing has to be moved or waited for.

use super::coding::ByColumn;
use anyhow::{Context, Result, ensure};
use helenus_load::kv::create_keyspace;
use helenus_load::payload::{Collection, KEYSPACE, table_name};
use helenus_load::scrape::Metrics;
use helenus_payload::Codec;
use scylla::client::session::Session;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const CATALOGUE: &str = "helenus";
const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS helenus.encodings (keyspace_name text, table_name text, column_name text, \
     version bigint static, hidden text, state text, codec text, dictionary int, created timestamp, \
     PRIMARY KEY ((keyspace_name, table_name), column_name))",
    "CREATE TABLE IF NOT EXISTS helenus.dictionaries (keyspace_name text, table_name text, id int, \
     column_name text, codec text, learned blob, created timestamp, \
     PRIMARY KEY ((keyspace_name, table_name), id))",
];
/// What the name of a column of encoded values ends with.
const SUFFIX: &str = "__encoded";
/// Only the encoded column is written, and no row has a text.
const STATE: &str = "encoded_only";
const KNOWN_WITHIN: Duration = Duration::from_secs(60);

/// Creates the catalogue if it is missing, and takes out what it says of tables that an earlier run has left.
pub(crate) async fn create(session: &Session, replication: usize) -> Result<()> {
    create_keyspace(session, CATALOGUE, replication).await?;
    for text in TABLES {
        run(session, text).await?;
    }
    for catalogue in ["encodings", "dictionaries"] {
        let text =
            format!("SELECT DISTINCT keyspace_name, table_name FROM {CATALOGUE}.{catalogue}");
        let found = session.query_unpaged(text, ()).await?.into_rows_result()?;
        for row in found.rows::<(String, String)>()? {
            let (keyspace, table) = row?;
            if keyspace == KEYSPACE {
                let delete = format!(
                    "DELETE FROM {CATALOGUE}.{catalogue} WHERE keyspace_name = '{keyspace}' AND \
                     table_name = '{table}'"
                );
                run(session, &delete).await?;
            }
        }
    }
    Ok(())
}

/// Has all columns of an arm's empty table encoded with a codec. Returns their number.
pub(crate) async fn encode(
    session: &Session,
    collection: &Collection,
    arm: &str,
    codec: Codec,
    learned: &ByColumn,
) -> Result<usize> {
    let table = table_name(&collection.name, arm);
    let insert = format!(
        "INSERT INTO {CATALOGUE}.dictionaries (keyspace_name, table_name, id, column_name, codec, learned, \
         created) VALUES ('{KEYSPACE}', '{table}', ?, ?, '{codec}', ?, toTimestamp(now()))"
    );
    let insert = session.prepare(&*insert).await.context(insert)?;
    let hidden = |column: &String| format!("{column}{SUFFIX}");
    let columns = collection.columns.iter();
    let added: Vec<String> = columns.map(|column| hidden(column) + " blob").collect();
    let alter = format!("ALTER TABLE {KEYSPACE}.{table} ADD ({})", added.join(", "));
    run(session, &alter).await?;
    for (number, (column, learned)) in collection.columns.iter().zip(learned.iter()).enumerate() {
        let id = number as i32 + 1;
        let dictionary = match codec.is_learned() {
            true => {
                ensure!(
                    learned.suffices_for(codec),
                    "{}, column {column}: {} documents are too few to learn {codec} from; leave it out of --codecs",
                    collection.name,
                    collection.samples.len()
                );
                let values = (id, column, learned.to_bytes());
                let done = session.execute_unpaged(&insert, values).await;
                done.context("cannot store what was learned")?;
                id.to_string()
            }
            false => "null".to_owned(),
        };
        let insert = format!(
            "INSERT INTO {CATALOGUE}.encodings (keyspace_name, table_name, column_name, version, hidden, state, \
             codec, dictionary, created) VALUES ('{KEYSPACE}', '{table}', '{column}', 1, '{}', '{STATE}', \
             '{codec}', {dictionary}, toTimestamp(now()))",
            hidden(column)
        );
        run(session, &insert).await?;
    }
    Ok(collection.columns.len())
}

/// Waits until a proxy knows of at least so many encoded columns.
pub(crate) async fn known(admin: SocketAddr, columns: usize) -> Result<()> {
    let began = Instant::now();
    let labels = format!("state=\"{STATE}\"");
    loop {
        let known = Metrics::of(admin)
            .await?
            .get("helenus_encoded_columns", &labels);
        if known.is_some_and(|known| known >= columns as f64) {
            return Ok(());
        }
        ensure!(
            began.elapsed() < KNOWN_WITHIN,
            "Helenus knows of {known:?} encoded columns where {columns} were made"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn run(session: &Session, text: &str) -> Result<()> {
    let done = session.query_unpaged(text, ()).await;
    done.with_context(|| format!("cannot run: {text}"))?;
    Ok(())
}
