//! Travellers look up single flights while analysts read thousands at a time.

use super::queries::{FlightQueries, PreparedSession};
use crate::failure::error_kind;
use crate::kv::prepare;
use crate::measure::ErrorKind;
use crate::workload::Workload;
use anyhow::Result;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use scylla::response::PagingState;
use scylla::statement::prepared::PreparedStatement;

/// Flights per report: one page, by the default page size of drivers.
pub const REPORT_FLIGHTS: i32 = 5_000;
/// Reports start in this first part of the ring, so that enough rows follow.
const BEGIN_SHARE: f64 = 0.9;

/// The kinds of [`Reports`].
pub const REPORT_KINDS: [&str; 2] = ["one flight", "report"];

/// The first `travellers` clients look up single flights, like [`FlightQueries`]; the others read
/// reports.
pub struct Reports {
    queries: FlightQueries,
    report: Vec<PreparedStatement>,
    travellers: usize,
}

impl Reports {
    pub async fn open(keyspace: &str, queries: FlightQueries, travellers: usize) -> Result<Self> {
        let text = format!(
            "SELECT origin, day, carrier, dest, dep_delay, arr_delay, distance FROM {keyspace}.flights \
             WHERE token(origin, day) > ? LIMIT {REPORT_FLIGHTS}"
        );
        let mut report = Vec::new();
        for each in &queries.sessions {
            let mut statement = prepare(&each.session, &text).await?;
            statement.set_page_size(REPORT_FLIGHTS);
            report.push(statement);
        }
        Ok(Self {
            queries,
            report,
            travellers,
        })
    }

    async fn read(&self, client: usize, begin: i64) -> Result<(), ErrorKind> {
        let at = client % self.report.len();
        let PreparedSession { session, .. } = &self.queries.sessions[at];
        let statement = &self.report[at];
        let response = session
            .execute_single_page(statement, (begin,), PagingState::start())
            .await;
        let (page, _) = response.map_err(|error| error_kind(&error))?;
        let rows = page.into_rows_result().map_err(|_| "unreadable answer")?;
        if rows.rows_num() == REPORT_FLIGHTS as usize {
            Ok(())
        } else {
            Err("wrong number of rows")
        }
    }
}

impl Workload for Reports {
    fn kinds(&self) -> Vec<&str> {
        REPORT_KINDS.to_vec()
    }

    async fn call(&self, client: usize, rng: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        if client < self.travellers {
            let FlightQueries { sessions, data, .. } = &self.queries;
            let session = &sessions[client % sessions.len()];
            let partition = &data.flights[rng.random_range(0..data.flights.len())];
            let flight = &partition.rows[rng.random_range(0..partition.rows.len())];
            return (0, session.look_up(flight).await);
        }
        let share: f64 = rng.random_range(0.0..BEGIN_SHARE);
        let begin = (share * u64::MAX as f64) as u64;
        let begin = i64::MIN.wrapping_add(begin as i64);
        (1, self.read(client, begin).await)
    }
}
