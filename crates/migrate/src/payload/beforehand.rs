//! Encodes the columns of an empty table before any proxy runs, with what the caller has learned: for `bench` and
//! `demo`. There is nobody to wait for and nothing to move, so the columns are in their last state at once.

use anyhow::{Result, ensure};
use helenus_catalogue::change::Change;
use helenus_catalogue::{Feature, Written};
use helenus_cql::Name;
use helenus_payload::{Codec, Learned};
use helenus_rows::TableName;

use super::entry::{PROGRESS, announced};
use super::{dictionary, entry, target};
use crate::catalogue::{self, Needs, flags};
use crate::nodes::cluster::Cluster;
use crate::nodes::table;

/// Columns and what was learned of them.
pub async fn encode<'a>(
    cluster: &Cluster,
    name: &TableName,
    codec: Codec,
    columns: impl IntoIterator<Item = (&'a str, &'a Learned)>,
) -> Result<()> {
    let needs = Needs::Encodings { progress: PROGRESS };
    catalogue::create(cluster, name, &[], needs).await?;
    let table = table::load(cluster, name).await?;
    let mut entries = Vec::new();
    for (column, learned) in columns {
        let mut entry = announced(column, &target::free_name(cluster, &table, column).await?);
        entry.codec = codec.name().to_owned();
        entry.state = Written::EncodedOnly.name().to_owned();
        if codec.is_learned() {
            ensure!(
                learned.suffices_for(codec),
                "{name}, column {column}: there are too few documents to learn {codec} from"
            );
            let id = dictionary::store(cluster, name, column, codec, learned).await?;
            entry.dictionary = Some(id);
        }
        entries.push(entry);
    }
    let hidden = entries.iter().map(|entry| &*entry.hidden);
    let hidden: Vec<String> = hidden
        .map(|name| format!("{} blob", Name::from_stored(name).to_cql()))
        .collect();
    let add = format!("ALTER TABLE {} ADD ({})", name.to_cql(), hidden.join(", "));
    cluster.run(&add).await?;
    cluster.agree().await?;
    for entry in &entries {
        let known = catalogue::read(cluster, name).await?;
        entry::put(cluster, name, &known, entry).await?;
    }
    flags::raise(cluster, name, Feature::Encodings).await
}

/// Takes the tables of a keyspace that was dropped out of the catalogue.
pub async fn forget(cluster: &Cluster, keyspace: &str) -> Result<()> {
    let lost = catalogue::lost(cluster).await?;
    let tables = catalogue::tables(cluster, Feature::Encodings).await?;
    for table in tables.iter().filter(|table| table.keyspace == keyspace) {
        let table = catalogue::name(table);
        let known = catalogue::read_with_losses(cluster, &table).await?;
        let columns = known.encodings().iter().map(|of| &*of.column);
        let removed: Vec<Change<'_>> = columns.map(Change::RemoveEncoding).collect();
        if !removed.is_empty() {
            catalogue::change(cluster, &table, &known, &removed).await?;
        }
        flags::lower(cluster, &table, Feature::Encodings, &lost).await?;
    }
    Ok(())
}
