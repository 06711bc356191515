//! The tables of the [data set](super::dataset): creation, loading and verification.

use super::dataset::{Dataset, Day, Flight, WeatherHour, cql_date, cql_timestamp};
use crate::client::endpoint::Endpoint;
use crate::client::failure::error_kind;
use crate::measure::{ErrorKind, Phase};
use crate::run::{Limit, Plan, Progress, run_closed};
use crate::workload::Workload;
use crate::workload::fill::{ATTEMPTS, pause_before};
use crate::workload::kv::{create_keyspace, prepare};
use anyhow::{Context, Result, ensure};
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::MaybeUnset;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows per batch, all of one partition: stays below the batch size at which Cassandra warns (5
/// KiB).
pub(super) const ROWS_PER_BATCH: usize = 20;
/// Errors that a retry would not cure.
const FINAL: [ErrorKind; 3] = ["invalid", "unauthorized", "protocol error"];
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
        create_table(session, keyspace, table, definition).await?;
    }
    Ok(())
}

pub(super) async fn create_table(
    session: &Session,
    keyspace: &str,
    table: &str,
    definition: &str,
) -> Result<()> {
    let text = format!("CREATE TABLE IF NOT EXISTS {keyspace}.{table} {definition}");
    let created = session.query_unpaged(text, ()).await;
    created.with_context(|| format!("cannot create table {keyspace}.{table}"))?;
    Ok(())
}

/// Writes the whole data set; `progress` counts batches, [`batch_count`] in total.
pub async fn fill(
    endpoint: &Endpoint,
    keyspace: &str,
    data: &Arc<Dataset>,
    clients: usize,
    progress: Arc<Progress>,
) -> Result<()> {
    let loader = Arc::new(Loader::open(endpoint, keyspace, data.clone()).await?);
    let plan = Plan {
        progress,
        ..Plan::new(clients, Limit::Ops(loader.batches.len() as u64))
    };
    check("loading the flights", &run_closed(&loader, &plan).await)
}

/// Fails if a part of the work did, in spite of [`patiently`].
pub(super) fn check(work: &str, phase: &Phase) -> Result<()> {
    let kinds = phase.errors.iter();
    let kinds: Vec<String> = kinds
        .map(|(kind, times)| format!("{kind} ({times})"))
        .collect();
    ensure!(
        kinds.is_empty(),
        "{work} failed: {} of {} requests did not succeed in up to {ATTEMPTS} attempts each; the last \
         answers: {}",
        phase.errors_total(),
        phase.ops + phase.errors_total(),
        kinds.join(", ")
    );
    Ok(())
}

/// The number of batches that [`fill`] writes.
pub fn batch_count(data: &Dataset) -> u64 {
    batches(data).len() as u64
}

/// Compares the row count of every partition with the data set. Returns the total of flights.
pub async fn verify(endpoint: &Endpoint, keyspace: &str, data: &Arc<Dataset>) -> Result<u64> {
    let session = endpoint.connect().await?;
    let text = format!("SELECT count(*) FROM {keyspace}.flights WHERE origin = ? AND day = ?");
    let verifier = Arc::new(Verifier {
        count: prepare(&session, &text).await?,
        session,
        data: data.clone(),
        next: AtomicUsize::new(0),
        total: AtomicUsize::new(0),
    });
    let plan = Plan::new(16, Limit::Ops(data.flights.len() as u64));
    check("counting the flights", &run_closed(&verifier, &plan).await)?;
    Ok(verifier.total.load(Ordering::Relaxed) as u64)
}

/// One batch: rows of a partition, starting at index `from`.
#[derive(Clone, Copy, Debug)]
enum BatchRows {
    Flights { partition: usize, from: usize },
    Weather { partition: usize, from: usize },
}

fn batches(data: &Dataset) -> Vec<BatchRows> {
    let mut batches = Vec::new();
    for (partition, rows) in data.flights.iter().enumerate() {
        let starts = (0..rows.rows.len()).step_by(ROWS_PER_BATCH);
        batches.extend(starts.map(|from| BatchRows::Flights { partition, from }));
    }
    for (partition, rows) in data.weather.iter().enumerate() {
        let starts = (0..rows.rows.len()).step_by(ROWS_PER_BATCH);
        batches.extend(starts.map(|from| BatchRows::Weather { partition, from }));
    }
    batches
}

struct Loader {
    session: Session,
    insert_flight: PreparedStatement,
    insert_weather: PreparedStatement,
    data: Arc<Dataset>,
    batches: Vec<BatchRows>,
    next: AtomicUsize,
}

impl Loader {
    async fn open(endpoint: &Endpoint, keyspace: &str, data: Arc<Dataset>) -> Result<Self> {
        let session = endpoint.connect().await?;
        let flight = format!(
            "INSERT INTO {keyspace}.flights (origin, day, sched_dep_time, carrier, flight, dep_time, \
             dep_delay, arr_time, sched_arr_time, arr_delay, tailnum, dest, air_time, distance) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        );
        let weather = format!(
            "INSERT INTO {keyspace}.weather (origin, day, time, temp, dewp, humid, wind_dir, \
             wind_speed, wind_gust, precip, pressure, visib) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        );
        Ok(Self {
            insert_flight: prepare(&session, &flight).await?,
            insert_weather: prepare(&session, &weather).await?,
            session,
            batches: batches(&data),
            data,
            next: AtomicUsize::new(0),
        })
    }

    async fn write(&self, batch: BatchRows) -> Result<(), ErrorKind> {
        let written = match batch {
            BatchRows::Flights { partition, from } => {
                let rows = &self.data.flights[partition].rows;
                let rows = &rows[from..rows.len().min(from + ROWS_PER_BATCH)];
                let values = rows.iter().map(flight_values).collect();
                write_rows(&self.session, &self.insert_flight, values).await
            }
            BatchRows::Weather { partition, from } => {
                let rows = &self.data.weather[partition].rows;
                let rows = &rows[from..rows.len().min(from + ROWS_PER_BATCH)];
                let values = rows.iter().map(weather_values).collect();
                write_rows(&self.session, &self.insert_weather, values).await
            }
        };
        written.map_err(|error| error_kind(&error))
    }
}

/// All rows are in one partition, so that the batch is a single mutation.
pub(super) async fn write_rows(
    session: &Session,
    insert: &PreparedStatement,
    rows: Vec<impl SerializeRow>,
) -> Result<(), ExecutionError> {
    let mut batch = Batch::new(BatchType::Unlogged);
    batch.set_is_idempotent(true);
    for _ in &rows {
        batch.append_statement(insert.clone());
    }
    session.batch(&batch, rows).await.map(drop)
}

/// Tries a few times, with growing pauses: on a small machine fresh nodes may time out while their JIT
/// compiler warms up, and Helenus refuses writes while the nodes do not even let it read its catalogue.
pub(super) async fn patiently<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, ErrorKind>
where
    F: Future<Output = Result<T, ErrorKind>>,
{
    let mut outcome = Err("not sent");
    for number in 1..=ATTEMPTS {
        outcome = attempt().await;
        let is_final = |kind: &ErrorKind| FINAL.contains(kind);
        if number == ATTEMPTS || outcome.as_ref().err().is_none_or(is_final) {
            break;
        }
        pause_before(number).await;
    }
    outcome
}

fn flight_values(flight: &Flight) -> impl SerializeRow + '_ {
    (
        flight.origin.as_str(),
        cql_date(flight.day),
        flight.sched_dep_time,
        flight.carrier.as_str(),
        flight.flight,
        set_or_unset(flight.dep_time),
        set_or_unset(flight.dep_delay),
        set_or_unset(flight.arr_time),
        flight.sched_arr_time,
        set_or_unset(flight.arr_delay),
        set_or_unset(flight.tailnum.as_deref()),
        flight.dest.as_str(),
        set_or_unset(flight.air_time),
        flight.distance,
    )
}

fn weather_values(hour: &WeatherHour) -> impl SerializeRow + '_ {
    (
        hour.origin.as_str(),
        cql_date(hour.day),
        cql_timestamp(hour.time_ms),
        set_or_unset(hour.temp),
        set_or_unset(hour.dewp),
        set_or_unset(hour.humid),
        set_or_unset(hour.wind_dir),
        set_or_unset(hour.wind_speed),
        set_or_unset(hour.wind_gust),
        set_or_unset(hour.precip),
        set_or_unset(hour.pressure),
        set_or_unset(hour.visib),
    )
}

/// Unset rather than null: writing a null would store a tombstone.
fn set_or_unset<T: scylla::serialize::value::SerializeValue>(value: Option<T>) -> MaybeUnset<T> {
    value.map_or(MaybeUnset::Unset, MaybeUnset::Set)
}

impl Workload for Loader {
    fn kinds(&self) -> Vec<&str> {
        vec!["batch"]
    }

    async fn call(&self, _client: usize, _: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let Some(&batch) = self.batches.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
            return (0, Err("nothing left to write"));
        };
        (0, patiently(|| self.write(batch)).await)
    }
}

struct Verifier {
    session: Session,
    count: PreparedStatement,
    data: Arc<Dataset>,
    next: AtomicUsize,
    total: AtomicUsize,
}

impl Workload for Verifier {
    fn kinds(&self) -> Vec<&str> {
        vec!["count"]
    }

    async fn call(&self, _client: usize, _: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let Some(partition) = self
            .data
            .flights
            .get(self.next.fetch_add(1, Ordering::Relaxed))
        else {
            return (0, Err("nothing left to count"));
        };
        let (origin, day) = (&partition.origin, partition.day);
        let count = || count_rows(&self.session, &self.count, origin, day);
        let checked = patiently(count).await.and_then(|rows| {
            self.total.fetch_add(rows, Ordering::Relaxed);
            if rows == partition.rows.len() {
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
    let response = session
        .execute_unpaged(count, (origin, cql_date(day)))
        .await;
    let rows = response
        .map_err(|error| error_kind(&error))?
        .into_rows_result()
        .map_err(|_| "unreadable answer")?;
    let (count,) = rows
        .single_row::<(i64,)>()
        .map_err(|_| "unreadable answer")?;
    usize::try_from(count).map_err(|_| "unreadable answer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Recorder;
    use crate::workload::flights::dataset::Partition;
    use std::future::ready;
    use std::time::Duration;

    #[tokio::test]
    async fn what_is_refused_for_a_while_is_tried_again() {
        let mut attempts = 0;
        let outcome = patiently(|| {
            attempts += 1;
            ready(if attempts < 6 {
                Err("overloaded")
            } else {
                Ok(attempts)
            })
        });
        assert_eq!(outcome.await, Ok(6));
        let mut attempts = 0;
        let outcome: Result<(), _> = patiently(|| {
            attempts += 1;
            ready(Err("overloaded"))
        })
        .await;
        assert_eq!((outcome, attempts), (Err("overloaded"), ATTEMPTS));
        let mut attempts = 0;
        let outcome: Result<(), _> = patiently(|| {
            attempts += 1;
            ready(Err("invalid"))
        })
        .await;
        assert_eq!((outcome, attempts), (Err("invalid"), 1));
    }

    #[test]
    fn a_failure_says_what_was_answered_and_how_often() {
        let phase = |failed: &[ErrorKind]| {
            let mut recorder = Recorder::new(1);
            for _ in 0..7 {
                recorder.record(0, Duration::from_millis(1), Ok(()));
            }
            for kind in failed {
                recorder.record(0, Duration::from_millis(1), Err(kind));
            }
            recorder.into_phase(&["batch"], Duration::from_secs(1), None)
        };
        assert!(check("loading", &phase(&[])).is_ok());
        let failed = phase(&["overloaded", "write timeout", "overloaded"]);
        assert_eq!(
            check("loading", &failed).unwrap_err().to_string(),
            "loading failed: 3 of 10 requests did not succeed in up to 8 attempts each; the last answers: \
             overloaded (2), write timeout (1)"
        );
    }

    #[test]
    fn batches_cover_every_row_once_and_never_span_partitions() {
        let hour = WeatherHour {
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
        let partition = |rows| Partition {
            origin: "JFK".into(),
            day: 1,
            rows: vec![hour.clone(); rows],
        };
        let data = Dataset {
            flights: Vec::new(),
            weather: vec![partition(20), partition(41), partition(0)],
        };
        let starts: Vec<(usize, usize)> = batches(&data)
            .into_iter()
            .map(|batch| match batch {
                BatchRows::Weather { partition, from } | BatchRows::Flights { partition, from } => {
                    (partition, from)
                }
            })
            .collect();
        assert_eq!(starts, [(0, 0), (1, 0), (1, 20), (1, 40)]);
        assert_eq!(batch_count(&data), 4);
    }
}
