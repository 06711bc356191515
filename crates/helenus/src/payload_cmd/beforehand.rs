//! Encodes columns before any proxy runs, with what the caller has learned: for `bench` and `demo`.

use anyhow::{Result, ensure};
use helenus_payload::{Codec, Learned};

use super::catalogue::{self, Entry};
use super::journey::Journey;
use super::pace::Pace;
use super::{dictionary, target};
use crate::online::cluster::Cluster;
use crate::online::names::TableName;
use crate::online::settle::Settle;
use crate::online::table::Table;

/// The same way as `helenus payload enable` goes, but that no proxy is waited for.
pub(crate) async fn encode(
    cluster: &Cluster,
    name: &TableName,
    column: &str,
    codec: Codec,
    learned: &Learned,
) -> Result<()> {
    catalogue::create(cluster, name, &[]).await?;
    let table = Table::load(cluster, name).await?;
    let dictionary = match codec.is_learned() {
        true => {
            ensure!(
                learned.suffices_for(codec),
                "{name}, column {column}: there are too few documents to learn {codec} from"
            );
            Some(dictionary::store(cluster, name, (column, codec), learned).await?)
        }
        false => None,
    };
    let entry = Entry {
        codec: codec.name().to_owned(),
        dictionary,
        ..Entry::announced(column, &target::free_name(cluster, &table, column).await?)
    };
    let known = catalogue::read(cluster, name).await?;
    catalogue::put(cluster, name, &known, &entry).await?;
    let pace = Pace {
        parallel: 4,
        rows_per_second: None,
        any_timestamps: false,
    };
    let mut journey = Journey {
        cluster,
        table: &table,
        entry,
        settle: Settle::of(cluster, true).await,
        has_proxies: false,
        pace: &pace,
    };
    journey.encode().await.map(drop)
}

/// Takes the tables of a keyspace that was dropped out of the catalogue.
pub(crate) async fn forget(cluster: &Cluster, keyspace: &str) -> Result<()> {
    let tables = catalogue::tables(cluster).await?.into_iter();
    for table in tables.filter(|table| &*table.keyspace == keyspace) {
        loop {
            let known = catalogue::read(cluster, &table).await?;
            let Some(entry) = known.entries.first() else {
                break;
            };
            catalogue::remove(cluster, &table, &known, &entry.column).await?;
        }
    }
    Ok(())
}
