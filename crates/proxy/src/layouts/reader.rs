//! Reading the catalogue over a connection of its own: what waits for a schema to be read on the control
//! connection must not cost the lease.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use helenus_engine::node::greeting::startup_options;
use helenus_wire::{Consistency, Version, code};

use super::catalogue::{self, Entry};
use super::tables::Schema;
use crate::config::Config;
use crate::conn::{Conn, ConnError, Dialer};
use crate::rows::Rows;

/// How long a node may take for one query. Several nodes must fit into a lease.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// An open connection.
pub(crate) struct Reader {
    conn: Conn,
    pub address: SocketAddr,
}

/// The catalogue as one node has told it.
pub(crate) struct Reading {
    /// When it was asked.
    pub sent: Instant,
    /// `None`: it knows no catalogue.
    pub entries: Option<Vec<Entry>>,
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
            conn.open(&startup_options(), config.control_token().as_deref())
                .await?;
            Ok(Reader { conn, address })
        };
        in_time(opening).await
    }

    pub(crate) async fn read(&mut self) -> Result<Reading, ConnError> {
        let sent = Instant::now();
        let entries = match self.rows(catalogue::SELECT, Consistency::QUORUM).await {
            Ok(rows) => Some(catalogue::entries(&rows)),
            Err(ConnError::Node { code, message }) if does_not_exist(code, &message) => None,
            Err(e) => return Err(e),
        };
        Ok(Reading { sent, entries })
    }

    /// The definitions of all tables in the keyspaces of these entries.
    pub(crate) async fn schema(&mut self, entries: &[Entry]) -> Result<Schema, ConnError> {
        let keyspaces: BTreeSet<&str> = entries.iter().map(|e| e.keyspace.as_str()).collect();
        let mut schema = Schema::default();
        for keyspace in keyspaces {
            let keyspace = keyspace.replace('\'', "''");
            let columns = format!(
                "SELECT keyspace_name, table_name, column_name, clustering_order, kind, position, type \
                 FROM system_schema.columns WHERE keyspace_name = '{keyspace}'"
            );
            let columns = self.rows(&columns, Consistency::ONE).await?;
            let indexes = format!(
                "SELECT keyspace_name, table_name FROM system_schema.indexes \
                 WHERE keyspace_name = '{keyspace}'"
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

/// Whether a node says that there is no catalogue: no layout was ever created, or the node lags behind.
fn does_not_exist(number: i32, message: &str) -> bool {
    let message = message.to_ascii_lowercase().replace('\'', "");
    let names = ["keyspace helenus", "table layouts", "table helenus.layouts"];
    let is_missing =
        message.ends_with("does not exist") && names.iter().any(|n| message.contains(n));
    number == code::INVALID && (is_missing || message == "unconfigured table layouts")
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
            assert!(does_not_exist(code::INVALID, message), "{message}");
            assert!(!does_not_exist(code::UNAUTHORIZED, message), "{message}");
        }
        for message in [
            "Undefined column name state in table helenus.layouts",
            "table other does not exist",
            "",
        ] {
            assert!(!does_not_exist(code::INVALID, message), "{message}");
        }
    }
}
