//! The tables and queries of a flight-information service over [`crate::flights`].

use crate::endpoint::Endpoint;
use crate::failure::error_kind;
use crate::flights::{Dataset, Day, Flight, Hour, cql_date, cql_timestamp};
use crate::kv::{KeyValue, create_keyspace, prepare};
use crate::measure::ErrorKind;
use crate::run::{Limit, Plan, Progress, Workload, run_closed};
use anyhow::{Context, Result, bail, ensure};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::MaybeUnset;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

mod reports;

pub use reports::{REPORT_FLIGHTS, REPORT_KINDS, Reports};

/// Rows of one partition written by one statement: below the size at which Cassandra warns (5 KiB).
const ROWS_PER_BATCH: usize = 20;
/// Fresh nodes on a small machine may time out once while they compile their code.
const ATTEMPTS: usize = 4;

const FLIGHTS_TABLE: &str = "(origin text, day date, sched_dep_time int, carrier text, flight int, \
    dep_time int, dep_delay int, arr_time int, sched_arr_time int, arr_delay int, tailnum text, \
    dest text, air_time int, distance int, \
    PRIMARY KEY ((origin, day), sched_dep_time, carrier, flight))";
const WEATHER_TABLE: &str = "(origin text, day date, time timestamp, temp double, dewp double, \
    humid double, wind_dir double, wind_speed double, wind_gust double, precip double, \
    pressure double, visib double, PRIMARY KEY ((origin, day), time))";

pub async fn create_tables(session: &Session, keyspace: &str, replication: usize) -> Result<()> {
    create_keyspace(session, keyspace, replication).await?;
    for (table, definition) in [("flights", FLIGHTS_TABLE), ("weather", WEATHER_TABLE)] {
        let text = format!("CREATE TABLE IF NOT EXISTS {keyspace}.{table} {definition}");
        session
            .query_unpaged(text, ())
            .await
            .with_context(|| format!("cannot create table {keyspace}.{table}"))?;
    }
    Ok(())
}

/// Writes the whole data set; `progress` counts batches, of which there are [`batches`].
pub async fn fill(
    endpoint: &Endpoint,
    keyspace: &str,
    data: &Arc<Dataset>,
    clients: usize,
    progress: Arc<Progress>,
) -> Result<()> {
    let filling = Arc::new(Filling::open(endpoint, keyspace, data.clone()).await?);
    let plan = Plan {
        progress,
        ..Plan::new(clients, Limit::Ops(filling.pieces.len() as u64))
    };
    let phase = run_closed(&filling, &plan).await;
    ensure!(
        phase.errors.is_empty(),
        "loading the flights failed: {:?}",
        phase.errors
    );
    Ok(())
}

/// How many batches [`fill`] writes.
pub fn batches(data: &Dataset) -> u64 {
    pieces(data).len() as u64
}

/// Counts the rows of every partition and compares each with the data set. Returns all flights.
pub async fn verify(endpoint: &Endpoint, keyspace: &str, data: &Arc<Dataset>) -> Result<u64> {
    let session = endpoint.connect().await?;
    let text = format!("SELECT count(*) FROM {keyspace}.flights WHERE origin = ? AND day = ?");
    let counting = Arc::new(Counting {
        count: prepare(&session, &text).await?,
        session,
        data: data.clone(),
        next: AtomicUsize::new(0),
        total: AtomicUsize::new(0),
    });
    let plan = Plan::new(16, Limit::Ops(data.flights.len() as u64));
    let phase = run_closed(&counting, &plan).await;
    ensure!(
        phase.errors.is_empty(),
        "counting the flights failed: {:?}",
        phase.errors
    );
    Ok(counting.total.load(Ordering::Relaxed) as u64)
}

/// Which rows of which group: one batch.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Flights { group: usize, from: usize },
    Weather { group: usize, from: usize },
}

fn pieces(data: &Dataset) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (group, rows) in data.flights.iter().enumerate() {
        let starts = (0..rows.rows.len()).step_by(ROWS_PER_BATCH);
        pieces.extend(starts.map(|from| Piece::Flights { group, from }));
    }
    for (group, rows) in data.weather.iter().enumerate() {
        let starts = (0..rows.rows.len()).step_by(ROWS_PER_BATCH);
        pieces.extend(starts.map(|from| Piece::Weather { group, from }));
    }
    pieces
}

struct Filling {
    session: Session,
    flight: PreparedStatement,
    hour: PreparedStatement,
    data: Arc<Dataset>,
    pieces: Vec<Piece>,
    next: AtomicUsize,
}

impl Filling {
    async fn open(endpoint: &Endpoint, keyspace: &str, data: Arc<Dataset>) -> Result<Self> {
        let session = endpoint.connect().await?;
        let flight = format!(
            "INSERT INTO {keyspace}.flights (origin, day, sched_dep_time, carrier, flight, dep_time, \
             dep_delay, arr_time, sched_arr_time, arr_delay, tailnum, dest, air_time, distance) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        );
        let hour = format!(
            "INSERT INTO {keyspace}.weather (origin, day, time, temp, dewp, humid, wind_dir, \
             wind_speed, wind_gust, precip, pressure, visib) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        );
        Ok(Self {
            flight: prepare(&session, &flight).await?,
            hour: prepare(&session, &hour).await?,
            session,
            pieces: pieces(&data),
            data,
            next: AtomicUsize::new(0),
        })
    }

    async fn write(&self, piece: Piece) -> Result<(), ExecutionError> {
        match piece {
            Piece::Flights { group, from } => {
                let rows = &self.data.flights[group].rows;
                let rows = &rows[from..rows.len().min(from + ROWS_PER_BATCH)];
                self.write_rows(&self.flight, rows.iter().map(flight_values).collect())
                    .await
            }
            Piece::Weather { group, from } => {
                let rows = &self.data.weather[group].rows;
                let rows = &rows[from..rows.len().min(from + ROWS_PER_BATCH)];
                self.write_rows(&self.hour, rows.iter().map(hour_values).collect())
                    .await
            }
        }
    }

    /// All rows lie in one partition, so that the batch is a single mutation.
    async fn write_rows(
        &self,
        insert: &PreparedStatement,
        rows: Vec<impl SerializeRow>,
    ) -> Result<(), ExecutionError> {
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_is_idempotent(true);
        for _ in &rows {
            batch.append_statement(insert.clone());
        }
        self.session.batch(&batch, rows).await.map(drop)
    }
}

fn flight_values(flight: &Flight) -> impl SerializeRow + '_ {
    (
        flight.origin.as_str(),
        cql_date(flight.day),
        flight.sched_dep_time,
        flight.carrier.as_str(),
        flight.flight,
        known(flight.dep_time),
        known(flight.dep_delay),
        known(flight.arr_time),
        flight.sched_arr_time,
        known(flight.arr_delay),
        known(flight.tailnum.as_deref()),
        flight.dest.as_str(),
        known(flight.air_time),
        flight.distance,
    )
}

fn hour_values(hour: &Hour) -> impl SerializeRow + '_ {
    (
        hour.origin.as_str(),
        cql_date(hour.day),
        cql_timestamp(hour.time_ms),
        known(hour.temp),
        known(hour.dewp),
        known(hour.humid),
        known(hour.wind_dir),
        known(hour.wind_speed),
        known(hour.wind_gust),
        known(hour.precip),
        known(hour.pressure),
        known(hour.visib),
    )
}

/// Writing a null would store a tombstone.
fn known<T: scylla::serialize::value::SerializeValue>(value: Option<T>) -> MaybeUnset<T> {
    value.map_or(MaybeUnset::Unset, MaybeUnset::Set)
}

impl Workload for Filling {
    fn kinds(&self) -> Vec<&str> {
        vec!["batch"]
    }

    async fn call(&self, _client: usize, _: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let Some(&piece) = self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
            return (0, Err("nothing left to write"));
        };
        let mut outcome = Ok(());
        for _ in 0..ATTEMPTS {
            outcome = self.write(piece).await.map_err(|error| error_kind(&error));
            if outcome.is_ok() {
                break;
            }
        }
        (0, outcome)
    }
}

struct Counting {
    session: Session,
    count: PreparedStatement,
    data: Arc<Dataset>,
    next: AtomicUsize,
    total: AtomicUsize,
}

impl Workload for Counting {
    fn kinds(&self) -> Vec<&str> {
        vec!["count"]
    }

    async fn call(&self, _client: usize, _: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let Some(group) = self
            .data
            .flights
            .get(self.next.fetch_add(1, Ordering::Relaxed))
        else {
            return (0, Err("nothing left to count"));
        };
        let mut outcome = Err("not asked");
        for _ in 0..ATTEMPTS {
            outcome = count_rows(&self.session, &self.count, &group.origin, group.day).await;
            if outcome.is_ok() {
                break;
            }
        }
        let checked = outcome.and_then(|rows| {
            self.total.fetch_add(rows, Ordering::Relaxed);
            if rows == group.rows.len() {
                Ok(())
            } else {
                Err("wrong number of rows")
            }
        });
        (0, checked)
    }
}

async fn count_rows(
    session: &Session,
    count: &PreparedStatement,
    origin: &str,
    day: Day,
) -> Result<usize, ErrorKind> {
    let answer = session
        .execute_unpaged(count, (origin, cql_date(day)))
        .await;
    let rows = answer
        .map_err(|error| error_kind(&error))?
        .into_rows_result()
        .map_err(|_| "unreadable answer")?;
    let (count,) = rows
        .single_row::<(i64,)>()
        .map_err(|_| "unreadable answer")?;
    usize::try_from(count).map_err(|_| "unreadable answer")
}

/// What the users of a flight-information service ask, and a key-value table beside it.
pub struct Trips {
    applications: Vec<Application>,
    kv: KeyValue,
    data: Arc<Dataset>,
}

struct Application {
    session: Arc<Session>,
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

impl Trips {
    /// Uses the sessions of `kv`, each of which stands for an application.
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
        let mut applications = Vec::new();
        for session in kv.sessions() {
            applications.push(Application {
                flight: prepare(session, &flight).await?,
                departures: prepare(session, &departures).await?,
                weather: prepare(session, &weather).await?,
                session: session.clone(),
            });
        }
        Ok(Self {
            applications,
            kv,
            data,
        })
    }
}

impl Application {
    async fn look_up(&self, flight: &Flight) -> Result<(), ErrorKind> {
        let key = (
            flight.origin.as_str(),
            cql_date(flight.day),
            flight.sched_dep_time,
            flight.carrier.as_str(),
            flight.flight,
        );
        let answer = self.session.execute_unpaged(&self.flight, key).await;
        let rows = answer
            .map_err(|error| error_kind(&error))?
            .into_rows_result()
            .map_err(|_| "unreadable answer")?;
        type Row<'a> = (Option<i32>, Option<i32>, Option<&'a str>, &'a str, i32);
        let row = rows
            .maybe_first_row::<Row>()
            .map_err(|_| "unreadable answer")?;
        let right: Row = (
            flight.dep_time,
            flight.arr_delay,
            flight.tailnum.as_deref(),
            &flight.dest,
            flight.distance,
        );
        match row {
            Some(row) if row == right => Ok(()),
            Some(_) => Err("wrong answer"),
            None => Err("row missing"),
        }
    }

    async fn list(
        &self,
        statement: &PreparedStatement,
        origin: &str,
        day: Day,
        rows_expected: usize,
    ) -> Result<(), ErrorKind> {
        let answer = self
            .session
            .execute_unpaged(statement, (origin, cql_date(day)))
            .await;
        let rows = answer
            .map_err(|error| error_kind(&error))?
            .into_rows_result()
            .map_err(|_| "unreadable answer")?;
        if rows.rows_num() == rows_expected {
            Ok(())
        } else {
            Err("wrong number of rows")
        }
    }
}

impl Workload for Trips {
    fn kinds(&self) -> Vec<&str> {
        KINDS.to_vec()
    }

    async fn call(&self, client: usize, rng: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let application = &self.applications[client % self.applications.len()];
        match rng.random_range(0..100) {
            0..45 => {
                let group = &self.data.flights[rng.random_range(0..self.data.flights.len())];
                let flight = &group.rows[rng.random_range(0..group.rows.len())];
                (0, application.look_up(flight).await)
            }
            45..50 => {
                let group = &self.data.flights[rng.random_range(0..self.data.flights.len())];
                let asked = &application.departures;
                (
                    1,
                    application
                        .list(asked, &group.origin, group.day, group.rows.len())
                        .await,
                )
            }
            50..60 => {
                let group = &self.data.weather[rng.random_range(0..self.data.weather.len())];
                let asked = &application.weather;
                (
                    2,
                    application
                        .list(asked, &group.origin, group.day, group.rows.len())
                        .await,
                )
            }
            _ => {
                let (kind, outcome) = self.kv.call(client, rng).await;
                (3 + kind, outcome)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flights::Group;

    #[test]
    fn pieces_cover_every_row_once_and_never_cross_a_partition() {
        let hour = Hour {
            origin: "JFK".into(),
            day: 1,
            time_ms: 0,
            temp: None,
            dewp: None,
            humid: None,
            wind_dir: None,
            wind_speed: None,
            wind_gust: None,
            precip: None,
            pressure: None,
            visib: None,
        };
        let group = |rows| Group {
            origin: "JFK".into(),
            day: 1,
            rows: vec![hour.clone(); rows],
        };
        let data = Dataset {
            flights: Vec::new(),
            weather: vec![group(20), group(41), group(0)],
        };
        let starts: Vec<(usize, usize)> = pieces(&data)
            .into_iter()
            .map(|piece| match piece {
                Piece::Weather { group, from } | Piece::Flights { group, from } => (group, from),
            })
            .collect();
        assert_eq!(starts, [(0, 0), (1, 0), (1, 20), (1, 40)]);
        assert_eq!(batches(&data), 4);
    }
}
