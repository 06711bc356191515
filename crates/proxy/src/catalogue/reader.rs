//! Reading the catalogue over a connection of its own: what waits for a schema to be read on the control
//! connection must not cost the lease.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use helenus_engine::node::greeting::startup_options;
use helenus_wire::{Consistency, Version, code};

use super::dictionaries::Dictionaries;
use super::schema::Schema;
use super::{encoding_rows, layout_rows};
use crate::config::Config;
use crate::conn::{Conn, ConnError, Dialer};
use crate::rows::Rows;
use helenus_rows::literal;

/// How long a node may take for one query. Several nodes must fit into a lease.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// An open connection.
pub(crate) struct Reader {
    conn: Conn,
    pub address: SocketAddr,
}

/// Which parts of the catalogue are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub layouts: bool,
    pub encodings: bool,
}

impl Parts {
    pub(crate) fn of(config: &Config) -> Parts {
        Parts {
            layouts: config.layouts.enabled,
            encodings: config.payload.enabled,
        }
    }
}

/// The catalogue as one node has told it.
pub(crate) struct Reading {
    /// When it was asked.
    pub sent: Instant,
    pub entries: Entries,
}

/// What the catalogue's tables hold. `None`: the node does not know the table. One that is not asked for
/// is as good as empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Entries {
    pub layouts: Option<Vec<layout_rows::Entry>>,
    pub encodings: Option<Vec<encoding_rows::Entry>>,
}

impl Entries {
    pub(crate) fn layouts(&self) -> &[layout_rows::Entry] {
        self.layouts.as_deref().unwrap_or_default()
    }

    pub(crate) fn encodings(&self) -> &[encoding_rows::Entry] {
        self.encodings.as_deref().unwrap_or_default()
    }

    /// The keyspaces of the tables that they are about.
    fn keyspaces(&self) -> BTreeSet<&str> {
        let layouts = self.layouts().iter().map(|entry| &*entry.keyspace);
        let encodings = self.encodings().iter().map(|entry| &*entry.keyspace);
        layouts.chain(encodings).collect()
    }
}

impl Reader {
    pub(crate) async fn connect(
        config: &Config,
        dialer: &Dialer,
        address: SocketAddr,
        version: Version,
    ) -> Result<Reader, ConnError> {
        let opening = async {
            let mut conn = dialer.dial(address, version).await?;
            conn.open(
                &startup_options(&config.payload),
                config.control_token().as_deref(),
            )
            .await?;
            Ok(Reader { conn, address })
        };
        in_time(opening).await
    }

    pub(crate) async fn read(&mut self, parts: Parts) -> Result<Reading, ConnError> {
        let sent = Instant::now();
        let layouts = match parts.layouts {
            true => self.catalogue(layout_rows::SELECT, "layouts").await?,
            false => Some(Rows::default()),
        };
        let encodings = match parts.encodings {
            true => self.catalogue(encoding_rows::SELECT, "encodings").await?,
            false => Some(Rows::default()),
        };
        let entries = Entries {
            layouts: layouts.map(|rows| layout_rows::entries(&rows)),
            encodings: encodings.map(|rows| encoding_rows::entries(&rows)),
        };
        Ok(Reading { sent, entries })
    }

    /// Reads what is not known yet of what was learned of these columns. `None`: the node knows no table
    /// of dictionaries.
    pub(crate) async fn dictionaries(
        &mut self,
        known: &Dictionaries,
        entries: &[encoding_rows::Entry],
    ) -> Result<Option<Dictionaries>, ConnError> {
        if entries.is_empty() {
            return Ok(Some(Dictionaries::default()));
        }
        let select = encoding_rows::SELECT_DICTIONARIES;
        let Some(listed) = self.catalogue(select, "dictionaries").await? else {
            return Ok(None);
        };
        let listed = encoding_rows::dictionaries(&listed);
        let mut known = known.clone();
        let missing = known.adopt(&listed, |key| {
            let mut entries = entries.iter();
            entries.any(|of| (&of.keyspace, &of.table) == (&key.keyspace, &key.table))
        });
        for key in missing {
            let select = encoding_rows::select_learned(&key);
            let rows = self.rows(&select, Consistency::QUORUM).await?;
            let row = rows.rows.first();
            let learned = row.and_then(|row| rows.cell(row, "learned"));
            known.put(key, learned);
        }
        Ok(Some(known))
    }

    /// `None`: the node does not know the table.
    async fn catalogue(&mut self, select: &str, table: &str) -> Result<Option<Rows>, ConnError> {
        match self.rows(select, Consistency::QUORUM).await {
            Ok(rows) => Ok(Some(rows)),
            Err(ConnError::Node { code, message }) if does_not_exist(code, &message, table) => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// The definitions of all tables in the keyspaces of these entries.
    pub(crate) async fn schema(&mut self, entries: &Entries) -> Result<Schema, ConnError> {
        let mut schema = Schema::default();
        for keyspace in entries.keyspaces() {
            let keyspace = literal(keyspace);
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
        }
        Ok(schema)
    }

    async fn rows(&mut self, cql: &str, consistency: Consistency) -> Result<Rows, ConnError> {
        let message = in_time(self.conn.query_at(cql, consistency)).await?;
        Rows::parse(message.content()?)
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, ConnError>>) -> Result<T, ConnError> {
    let done = tokio::time::timeout(ANSWER_MAX, work).await;
    done.unwrap_or(Err(ConnError::Timeout(ANSWER_MAX)))
}

/// Whether a node says that it does not know a table of the catalogue: nothing was ever put into it, or the
/// node lags behind.
fn does_not_exist(number: i32, message: &str, table: &str) -> bool {
    let message = message.to_ascii_lowercase().replace('\'', "");
    let names = [
        "keyspace helenus",
        &format!("table {table}"),
        &format!("table helenus.{table}"),
    ];
    let is_missing =
        message.ends_with("does not exist") && names.iter().any(|n| message.contains(n));
    number == code::INVALID && (is_missing || message == format!("unconfigured table {table}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
