//! One airport's flights asked by three keys: by day, by destination, by aircraft.
//!
//! The table sorts the flights of a month by day. So those of a destination or of an aircraft are found
//! by reading the whole month, unless some copy of it is sorted by these ([`LAYOUTS`]).

use super::dataset::{Dataset, Day, Flight, cql_date};
use super::tables::{self, ROWS_PER_BATCH, patiently, write_rows};
use crate::client::endpoint::Endpoint;
use crate::client::failure::error_kind;
use crate::measure::ErrorKind;
use crate::run::{Limit, Plan, Progress, run_closed};
use crate::workload::Workload;
use crate::workload::kv::prepare;
use anyhow::{Result, ensure};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub const TABLE: &str = "departures";
/// The airport whose flights are loaded: 111,279 of them.
const AIRPORT: &str = "JFK";
/// Names of layouts, and the order in which each sorts the flights of a month.
pub const LAYOUTS: [(&str, &[&str]); 2] = [
    (
        "dest",
        &[
            "dest",
            "day",
            "tailnum",
            "sched_dep_time",
            "carrier",
            "flight",
        ],
    ),
    (
        "tailnum",
        &[
            "tailnum",
            "day",
            "dest",
            "sched_dep_time",
            "carrier",
            "flight",
        ],
    ),
];
const DEFINITION: &str = "(origin text, month int, day date, dest text, tailnum text, \
    sched_dep_time int, carrier text, flight int, dep_delay int, arr_delay int, distance int, \
    PRIMARY KEY ((origin, month), day, dest, tailnum, sched_dep_time, carrier, flight))";
const KINDS: [&str; 3] = ["by day", "by destination", "by aircraft"];
/// First days of the months of 2013, and of the next one.
const MONTHS: [Day; 13] = [
    15_706, 15_737, 15_765, 15_796, 15_826, 15_857, 15_887, 15_918, 15_949, 15_979, 16_010, 16_040,
    16_071,
];

pub async fn create_table(session: &Session, keyspace: &str) -> Result<()> {
    tables::create_table(session, keyspace, TABLE, DEFINITION).await
}

/// Writes the airport's flights; `progress` counts batches. Returns the number of flights.
pub async fn fill(
    endpoint: &Endpoint,
    keyspace: &str,
    data: &Arc<Dataset>,
    clients: usize,
    progress: Arc<Progress>,
) -> Result<usize> {
    let session = endpoint.connect().await?;
    let text = format!(
        "INSERT INTO {keyspace}.{TABLE} (origin, month, day, dest, tailnum, sched_dep_time, carrier, \
         flight, dep_delay, arr_delay, distance) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    );
    let loader = Arc::new(Loader {
        insert: prepare(&session, &text).await?,
        session,
        data: data.clone(),
        batches: batches(data),
        next: AtomicUsize::new(0),
    });
    let plan = Plan {
        progress,
        ..Plan::new(clients, Limit::Ops(loader.batches.len() as u64))
    };
    tables::check("loading the flights", &run_closed(&loader, &plan).await)?;
    Ok(flights(data).count())
}

/// The number of batches that [`fill`] writes.
pub fn batch_count(data: &Dataset) -> u64 {
    batches(data).len() as u64
}

fn flights(data: &Dataset) -> impl Iterator<Item = &Flight> {
    let of_airport = data.flights.iter().filter(|day| day.origin == AIRPORT);
    of_airport.flat_map(|day| &day.rows)
}

/// From 1.
fn month_of(day: Day) -> i32 {
    MONTHS.partition_point(|first| *first <= day) as i32
}

fn aircraft(flight: &Flight) -> &str {
    flight.tailnum.as_deref().unwrap_or("unknown")
}

/// A day, and the number of the first flight of a batch.
fn batches(data: &Dataset) -> Vec<(usize, usize)> {
    let days = data.flights.iter().enumerate();
    let days = days.filter(|(_, day)| day.origin == AIRPORT);
    days.flat_map(|(at, day)| {
        (0..day.rows.len())
            .step_by(ROWS_PER_BATCH)
            .map(move |from| (at, from))
    })
    .collect()
}

struct Loader {
    session: Session,
    insert: PreparedStatement,
    data: Arc<Dataset>,
    batches: Vec<(usize, usize)>,
    next: AtomicUsize,
}

impl Loader {
    async fn write(&self, day: usize, from: usize) -> Result<(), ErrorKind> {
        let rows = &self.data.flights[day].rows;
        let rows = &rows[from..rows.len().min(from + ROWS_PER_BATCH)];
        let values = rows.iter().map(values_of).collect();
        let written = write_rows(&self.session, &self.insert, values).await;
        written.map_err(|error| error_kind(&error))
    }
}

fn values_of(flight: &Flight) -> impl SerializeRow + '_ {
    (
        flight.origin.as_str(),
        month_of(flight.day),
        cql_date(flight.day),
        flight.dest.as_str(),
        aircraft(flight),
        flight.sched_dep_time,
        flight.carrier.as_str(),
        flight.flight,
        flight.dep_delay,
        flight.arr_delay,
        flight.distance,
    )
}

impl Workload for Loader {
    fn kinds(&self) -> Vec<&str> {
        vec!["batch"]
    }

    async fn call(&self, _client: usize, _: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let Some(&(day, from)) = self.batches.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
            return (0, Err("nothing left to write"));
        };
        (0, patiently(|| self.write(day, from)).await)
    }
}

/// Flights of a month by one of the three keys, each asked for as often as the others.
pub struct ThreeKeys {
    sessions: Vec<(Session, [PreparedStatement; 3])>,
    data: Arc<Dataset>,
    /// The days of the airport.
    days: Vec<usize>,
    /// How many flights each answer has.
    expected: Expected,
}

#[derive(Default)]
struct Expected {
    by_day: BTreeMap<Day, usize>,
    by_dest: BTreeMap<(i32, String), usize>,
    by_aircraft: BTreeMap<(i32, String), usize>,
}

impl ThreeKeys {
    pub async fn open(
        endpoint: &Endpoint,
        keyspace: &str,
        data: Arc<Dataset>,
        sessions: usize,
    ) -> Result<Self> {
        let text = |column: &str, filters: &str| {
            format!(
                "SELECT day, dest, tailnum, carrier, flight, arr_delay FROM {keyspace}.{TABLE} \
                 WHERE origin = ? AND month = ? AND {column} = ?{filters}"
            )
        };
        let filters = " ALLOW FILTERING";
        let mut opened = Vec::new();
        for _ in 0..sessions {
            let session = endpoint.connect().await?;
            let statements = [
                prepare(&session, &text("day", "")).await?,
                prepare(&session, &text("dest", filters)).await?,
                prepare(&session, &text("tailnum", filters)).await?,
            ];
            opened.push((session, statements));
        }
        let mut expected = Expected::default();
        for flight in flights(&data) {
            let month = month_of(flight.day);
            *expected.by_day.entry(flight.day).or_default() += 1;
            let dest = (month, flight.dest.clone());
            *expected.by_dest.entry(dest).or_default() += 1;
            let aircraft = (month, aircraft(flight).to_owned());
            *expected.by_aircraft.entry(aircraft).or_default() += 1;
        }
        let days = data.flights.iter().enumerate();
        let days = days.filter(|(_, day)| day.origin == AIRPORT && !day.rows.is_empty());
        let days: Vec<usize> = days.map(|(at, _)| at).collect();
        ensure!(
            !days.is_empty(),
            "the data set has no flights from {AIRPORT}"
        );
        Ok(Self {
            sessions: opened,
            days,
            expected,
            data,
        })
    }

    /// One query about a flight; whether it has as many rows as it must.
    async fn ask(&self, client: usize, kind: usize, flight: &Flight) -> Result<(), ErrorKind> {
        let (session, statements) = &self.sessions[client % self.sessions.len()];
        let month = month_of(flight.day);
        let statement = &statements[kind];
        let answer = match kind {
            0 => {
                session
                    .execute_unpaged(statement, (AIRPORT, month, cql_date(flight.day)))
                    .await
            }
            1 => {
                session
                    .execute_unpaged(statement, (AIRPORT, month, &flight.dest))
                    .await
            }
            _ => {
                session
                    .execute_unpaged(statement, (AIRPORT, month, aircraft(flight)))
                    .await
            }
        };
        let rows = answer
            .map_err(|error| error_kind(&error))?
            .into_rows_result()
            .map_err(|_| "unreadable answer")?;
        let expected = match kind {
            0 => self.expected.by_day.get(&flight.day),
            1 => self.expected.by_dest.get(&(month, flight.dest.clone())),
            _ => self
                .expected
                .by_aircraft
                .get(&(month, aircraft(flight).to_owned())),
        };
        match expected {
            Some(expected) if rows.rows_num() == *expected => Ok(()),
            _ => Err("wrong number of rows"),
        }
    }
}

impl Workload for ThreeKeys {
    fn kinds(&self) -> Vec<&str> {
        KINDS.to_vec()
    }

    async fn call(&self, client: usize, rng: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let day = &self.data.flights[self.days[rng.random_range(0..self.days.len())]];
        let flight = &day.rows[rng.random_range(0..day.rows.len())];
        let kind = rng.random_range(0..KINDS.len());
        (kind, self.ask(client, kind, flight).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_where_the_calendar_says() {
        assert_eq!(month_of(MONTHS[0]), 1);
        assert_eq!(month_of(MONTHS[1] - 1), 1);
        assert_eq!(month_of(MONTHS[1]), 2);
        assert_eq!(month_of(MONTHS[12] - 1), 12);
        let lengths: Vec<Day> = MONTHS.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(lengths, [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]);
    }

    #[test]
    fn every_layout_has_all_clustering_columns() {
        let mut own: Vec<&str> = DEFINITION
            .split("PRIMARY KEY ((origin, month), ")
            .nth(1)
            .map(|columns| columns.trim_end_matches("))").split(", ").collect())
            .expect("a primary key");
        own.sort_unstable();
        for (name, order) in LAYOUTS {
            let mut order = order.to_vec();
            order.sort_unstable();
            assert_eq!(order, own, "{name}");
        }
    }
}
