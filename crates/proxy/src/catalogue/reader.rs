//! Reading flags and catalogue over a connection of its own: what waits for a schema to be read on the control
//! connection must not cost the lease.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use helenus_catalogue::stored::{self, EARLIER, is_earlier};
use helenus_catalogue::{Catalogue, Feature, Flag, SELECT_FLAGS, waits};
use helenus_cql::quote_text;
use helenus_engine::upstream::connect::greeting::startup_options;
use helenus_policy::ring::Replication;
use helenus_wire::{Consistency, ResultKind, Version, code, result_kind};

use super::dictionaries::{Dictionaries, DictionaryKey};
use super::schema::Schema;
use crate::config::Config;
use crate::conn::{Conn, ConnError, Dialer};
use crate::control::rows::Rows;
use crate::control::schema::string_map;

/// How long a node may take for one query. Several nodes must fit into a lease.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// An open connection.
pub(crate) struct Reader {
    conn: Conn,
    pub address: SocketAddr,
}

/// The features that a proxy takes part in.
pub(crate) fn features(config: &Config) -> Vec<Feature> {
    let is_on = |feature: &Feature| match feature {
        Feature::Layouts => config.layouts.enabled,
        Feature::Encodings => config.payload.enabled,
    };
    Feature::ALL.into_iter().filter(is_on).collect()
}

/// The flags that one node has.
pub(crate) struct Flags {
    /// When it was asked.
    pub sent: Instant,
    pub flags: BTreeSet<Flag>,
}

/// The catalogue as one node has told it.
pub(crate) struct Reading {
    /// When it was asked.
    pub sent: Instant,
    /// `None`: the node does not know its table.
    pub catalogue: Option<Catalogue>,
}

/// Why what a node has cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Conn(#[from] ConnError),
    #[error("{EARLIER}")]
    Earlier,
}

impl Reader {
    pub(crate) async fn connect(
        config: &Config,
        dialer: &Dialer,
        address: SocketAddr,
        version: Version,
    ) -> Result<Reader, ReadError> {
        let opening = async {
            let mut conn = dialer.dial(address, version).await?;
            conn.open(
                &startup_options(&config.payload),
                config.control_token().as_deref(),
            )
            .await?;
            Ok(Reader { conn, address })
        };
        let mut reader = in_time(opening).await?;
        let tables = reader.rows(stored::SELECT_TABLES, Consistency::ONE).await?;
        let names = tables.rows.iter();
        let names: Vec<String> = names
            .filter_map(|row| tables.text(row, "table_name"))
            .collect();
        match is_earlier(names.iter().map(String::as_str)) {
            true => Err(ReadError::Earlier),
            false => Ok(reader),
        }
    }

    pub(crate) async fn flags(&mut self) -> Result<Flags, ConnError> {
        let sent = Instant::now();
        let found = self.rows(SELECT_FLAGS, Consistency::ONE).await?;
        let names = found.rows.iter();
        let names = names.filter_map(|row| found.text(row, "type_name"));
        Ok(Flags {
            sent,
            flags: names.filter_map(|name| Flag::parse(&name)).collect(),
        })
    }

    /// Reads the catalogue at a quorum: of this data center's replicas, if it has any.
    pub(crate) async fn catalogue(&mut self, local_dc: &str) -> Result<Reading, ConnError> {
        let level = self.level(local_dc).await?;
        let sent = Instant::now();
        let rows = self.known(stored::SELECT, "catalogue", level).await?;
        let catalogue = rows.map(|rows| Catalogue::of_rows(super::stored::stored(&rows)));
        Ok(Reading { sent, catalogue })
    }

    /// At which level all that commands have changed is seen: they make sure of a quorum in each data center.
    pub(super) async fn level(&mut self, local_dc: &str) -> Result<Consistency, ConnError> {
        Ok(level_of(&self.replication().await?, local_dc))
    }

    /// At which level something is written that all proxies of all data centres are to see.
    pub(super) async fn level_of_all(&mut self) -> Result<Consistency, ConnError> {
        // Each data centre has replicas of its own, or all of them share some.
        Ok(match self.replication().await? {
            Replication::NetworkTopology(_) => Consistency::EACH_QUORUM,
            _ => Consistency::QUORUM,
        })
    }

    /// Writes something. Returns whether it was applied, as all is but what has a condition.
    pub(super) async fn write(&mut self, cql: &str, level: Consistency) -> Result<bool, ConnError> {
        let message = in_time(self.conn.query_at(cql, level)).await?;
        let content = message.content()?;
        if result_kind(content)? != ResultKind::Rows {
            return Ok(true);
        }
        let answer = Rows::parse(content)?;
        let row = answer.rows.first();
        let applied = row.and_then(|row| answer.cell(row, "[applied]"));
        Ok(applied.is_none_or(|applied| applied == [1]))
    }

    /// Of the catalogue's keyspace.
    async fn replication(&mut self) -> Result<Replication, ConnError> {
        const SELECT: &str =
            "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = 'helenus'";
        let found = self.rows(SELECT, Consistency::ONE).await?;
        let cell = found
            .rows
            .first()
            .and_then(|row| found.cell(row, "replication"));
        let options = cell.map(string_map).unwrap_or_default();
        let options = options.iter().map(|(name, value)| (&**name, &**value));
        Ok(Replication::from_options(options))
    }

    /// Reads what is not known yet of what was learned of the columns of the catalogue. `None`: the node knows no table
    /// of dictionaries.
    pub(crate) async fn dictionaries(
        &mut self,
        known: &Dictionaries,
        catalogue: &Catalogue,
        local_dc: &str,
    ) -> Result<Option<Dictionaries>, ConnError> {
        let mut known = known.clone();
        let mut listed = Vec::new();
        let tables = catalogue.tables.iter();
        let encoded = tables.filter(|(_, of)| {
            let columns = of.encodings.as_ref().map(|of| &of.columns);
            columns.is_some_and(|columns| !columns.is_empty())
        });
        let encoded: Vec<_> = encoded.map(|(table, _)| table).collect();
        if encoded.is_empty() {
            known.adopt(&[], |_| false);
            return Ok(Some(known));
        }
        let level = self.level(local_dc).await?;
        for table in &encoded {
            let select = format!(
                "SELECT id FROM helenus.dictionaries WHERE keyspace_name = {} AND table_name = {}",
                quote_text(&table.keyspace),
                quote_text(&table.table)
            );
            let Some(rows) = self.known(&select, "dictionaries", level).await? else {
                return Ok(None);
            };
            let ids = rows.rows.iter().filter_map(|row| rows.int(row, "id"));
            listed.extend(ids.map(|id| DictionaryKey {
                keyspace: table.keyspace.clone(),
                table: table.table.clone(),
                id,
            }));
        }
        let is_encoded = |key: &DictionaryKey| {
            let mut tables = encoded.iter();
            tables.any(|of| (&of.keyspace, &of.table) == (&key.keyspace, &key.table))
        };
        for key in known.adopt(&listed, is_encoded) {
            let select = format!(
                "SELECT learned FROM helenus.dictionaries WHERE keyspace_name = {} AND table_name = {} AND id = {}",
                quote_text(&key.keyspace),
                quote_text(&key.table),
                key.id
            );
            let rows = self.rows(&select, level).await?;
            let row = rows.rows.first();
            let learned = row.and_then(|row| rows.cell(row, "learned"));
            known.put(key, learned);
        }
        Ok(Some(known))
    }

    /// `None`: the node does not know the table.
    pub(super) async fn known(
        &mut self,
        select: &str,
        table: &str,
        level: Consistency,
    ) -> Result<Option<Rows>, ConnError> {
        match self.rows(select, level).await {
            Ok(rows) => Ok(Some(rows)),
            Err(ConnError::Node { code, message }) if does_not_exist(code, &message, table) => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// The definitions of all tables in the keyspaces of the catalogue's tables and layouts.
    pub(crate) async fn schema(&mut self, catalogue: &Catalogue) -> Result<Schema, ConnError> {
        let mut schema = Schema::default();
        for keyspace in catalogue.keyspaces() {
            let keyspace = quote_text(keyspace);
            let columns = format!(
                "SELECT keyspace_name, table_name, column_name, clustering_order, kind, position, type \
                 FROM system_schema.columns WHERE keyspace_name = {keyspace}"
            );
            let columns = self.rows(&columns, Consistency::ONE).await?;
            let indexes = format!(
                "SELECT keyspace_name, table_name FROM system_schema.indexes \
                 WHERE keyspace_name = {keyspace}"
            );
            let indexes = self.rows(&indexes, Consistency::ONE).await?;
            schema.add(&columns, &indexes);
            let tables = format!(
                "SELECT keyspace_name, table_name, default_time_to_live FROM system_schema.tables \
                 WHERE keyspace_name = {keyspace}"
            );
            let tables = self.rows(&tables, Consistency::ONE).await?;
            let masks = format!(
                "SELECT keyspace_name, table_name FROM system_schema.column_masks \
                 WHERE keyspace_name = {keyspace}"
            );
            let masks = self.known(&masks, "column_masks", Consistency::ONE).await?;
            let dropped = format!(
                "SELECT keyspace_name, table_name, column_name, dropped_time FROM \
                 system_schema.dropped_columns WHERE keyspace_name = {keyspace}"
            );
            let dropped = self.rows(&dropped, Consistency::ONE).await?;
            schema.add_options(&tables, &dropped, masks.as_ref());
        }
        Ok(schema)
    }

    pub(super) async fn rows(
        &mut self,
        cql: &str,
        consistency: Consistency,
    ) -> Result<Rows, ConnError> {
        let message = in_time(self.conn.query_at(cql, consistency)).await?;
        Rows::parse(message.content()?)
    }
}

/// A quorum of the local data center's replicas suffices where each data center has its own.
fn level_of(replication: &Replication, local_dc: &str) -> Consistency {
    match replication {
        Replication::NetworkTopology(replicas)
            if replicas.get(local_dc).is_some_and(|n| *n > 0) =>
        {
            Consistency::LOCAL_QUORUM
        }
        _ => Consistency::QUORUM,
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, ConnError>>) -> Result<T, ConnError> {
    let limit = waits::scaled(ANSWER_MAX);
    let done = tokio::time::timeout(limit, work).await;
    done.unwrap_or(Err(ConnError::Timeout(limit)))
}

/// True if a node says that it does not know a table: nothing was ever put into the catalogue, or the node lags
/// behind or is of an older version.
fn does_not_exist(number: i32, message: &str, table: &str) -> bool {
    let message = message.to_ascii_lowercase().replace('\'', "");
    let names = [
        "keyspace helenus",
        &format!("table {table}"),
        &format!("table helenus.{table}"),
        &format!("table system_schema.{table}"),
    ];
    let is_missing =
        message.ends_with("does not exist") && names.iter().any(|n| message.contains(n));
    number == code::INVALID && (is_missing || message == format!("unconfigured table {table}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_quorum_suffices_where_the_data_center_has_replicas() {
        let options = |options: &[(&str, &str)]| Replication::from_options(options.iter().copied());
        let simple = options(&[("class", "SimpleStrategy"), ("replication_factor", "3")]);
        assert_eq!(level_of(&simple, "dc1"), Consistency::QUORUM);
        let two = options(&[
            ("class", "NetworkTopologyStrategy"),
            ("dc1", "3"),
            ("dc2", "3"),
        ]);
        assert_eq!(level_of(&two, "dc1"), Consistency::LOCAL_QUORUM);
        assert_eq!(level_of(&two, "dc3"), Consistency::QUORUM);
    }

    #[test]
    fn only_a_missing_catalogue_is_none() {
        for message in [
            "unconfigured table layouts",
            "keyspace helenus does not exist",
            "Keyspace 'helenus' does not exist",
            "table layouts does not exist",
        ] {
            assert!(
                does_not_exist(code::INVALID, message, "layouts"),
                "{message}"
            );
            assert!(
                !does_not_exist(code::UNAUTHORIZED, message, "layouts"),
                "{message}"
            );
        }
        for message in [
            "Undefined column name state in table helenus.layouts",
            "table other does not exist",
            "",
        ] {
            assert!(
                !does_not_exist(code::INVALID, message, "layouts"),
                "{message}"
            );
        }
    }
}
