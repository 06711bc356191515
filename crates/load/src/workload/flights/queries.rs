//! The query mix of a flight-information service, beside a key-value table.

use super::dataset::{Dataset, Flight, Partition, cql_date};
use crate::client::failure::error_kind;
use crate::measure::ErrorKind;
use crate::workload::Workload;
use crate::workload::kv::{KeyValue, prepare};
use anyhow::{Result, bail};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use std::sync::Arc;

/// Queries that users of a flight-information service send, and a key-value table beside them.
pub struct FlightQueries {
    pub(super) sessions: Vec<PreparedSession>,
    kv: KeyValue,
    pub(super) data: Arc<Dataset>,
}

pub(super) struct PreparedSession {
    pub(super) session: Arc<Session>,
    flight: PreparedStatement,
    departures: PreparedStatement,
    weather: PreparedStatement,
}

const KINDS: [&str; 5] = [
    "one flight",
    "departures of a day",
    "weather of a day",
    "key-value read",
    "key-value write",
];

impl FlightQueries {
    /// Uses the sessions of `kv`, one for each simulated application.
    pub async fn open(keyspace: &str, data: Arc<Dataset>, kv: KeyValue) -> Result<Self> {
        if data.flights.is_empty() || data.weather.is_empty() {
            bail!("the data set is empty");
        }
        let flight = format!(
            "SELECT dep_time, arr_delay, tailnum, dest, distance FROM {keyspace}.flights \
             WHERE origin = ? AND day = ? AND sched_dep_time = ? AND carrier = ? AND flight = ?"
        );
        let departures = format!(
            "SELECT sched_dep_time, carrier, flight, dest, dep_delay FROM {keyspace}.flights \
             WHERE origin = ? AND day = ?"
        );
        let weather = format!(
            "SELECT time, temp, wind_speed, visib FROM {keyspace}.weather WHERE origin = ? AND day = ?"
        );
        let mut sessions = Vec::new();
        for session in kv.sessions() {
            sessions.push(PreparedSession {
                flight: prepare(session, &flight).await?,
                departures: prepare(session, &departures).await?,
                weather: prepare(session, &weather).await?,
                session: session.clone(),
            });
        }
        Ok(Self { sessions, kv, data })
    }
}

impl PreparedSession {
    pub(super) async fn look_up(&self, flight: &Flight) -> Result<(), ErrorKind> {
        let key = (
            flight.origin.as_str(),
            cql_date(flight.day),
            flight.sched_dep_time,
            flight.carrier.as_str(),
            flight.flight,
        );
        let response = self.session.execute_unpaged(&self.flight, key).await;
        let rows = response
            .map_err(|error| error_kind(&error))?
            .into_rows_result()
            .map_err(|_| "unreadable answer")?;
        type Row<'a> = (Option<i32>, Option<i32>, Option<&'a str>, &'a str, i32);
        let row = rows
            .maybe_first_row::<Row>()
            .map_err(|_| "unreadable answer")?;
        let expected: Row = (
            flight.dep_time,
            flight.arr_delay,
            flight.tailnum.as_deref(),
            &flight.dest,
            flight.distance,
        );
        match row {
            Some(row) if row == expected => Ok(()),
            Some(_) => Err("wrong answer"),
            None => Err("row missing"),
        }
    }

    async fn list<T>(
        &self,
        statement: &PreparedStatement,
        partition: &Partition<T>,
    ) -> Result<(), ErrorKind> {
        let response = self
            .session
            .execute_unpaged(
                statement,
                (partition.origin.as_str(), cql_date(partition.day)),
            )
            .await;
        let rows = response
            .map_err(|error| error_kind(&error))?
            .into_rows_result()
            .map_err(|_| "unreadable answer")?;
        if rows.rows_num() == partition.rows.len() {
            Ok(())
        } else {
            Err("wrong number of rows")
        }
    }
}

impl Workload for FlightQueries {
    fn kinds(&self) -> Vec<&str> {
        KINDS.to_vec()
    }

    async fn call(&self, client: usize, rng: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let session = &self.sessions[client % self.sessions.len()];
        match rng.random_range(0..100) {
            0..45 => {
                let partition = &self.data.flights[rng.random_range(0..self.data.flights.len())];
                let flight = &partition.rows[rng.random_range(0..partition.rows.len())];
                (0, session.look_up(flight).await)
            }
            45..50 => {
                let partition = &self.data.flights[rng.random_range(0..self.data.flights.len())];
                (1, session.list(&session.departures, partition).await)
            }
            50..60 => {
                let partition = &self.data.weather[rng.random_range(0..self.data.weather.len())];
                (2, session.list(&session.weather, partition).await)
            }
            _ => {
                let (kind, outcome) = self.kv.call(client, rng).await;
                (3 + kind, outcome)
            }
        }
    }
}
