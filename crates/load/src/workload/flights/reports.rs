//! Travellers look up single flights while analysts read thousands at a time.

use super::queries::{FlightQueries, PreparedSession};
use crate::client::failure::error_kind;
use crate::measure::ErrorKind;
use crate::workload::Workload;
use crate::workload::kv::prepare;
use anyhow::Result;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use scylla::response::PagingState;
use scylla::statement::prepared::PreparedStatement;
use std::sync::Arc;

/// Flights per report: one page, by the default page size of drivers.
pub const REPORT_FLIGHTS: i32 = 5_000;
/// Reports start in this first part of the ring, so that enough rows follow.
const BEGIN_SHARE: f64 = 0.9;

/// The kinds of [`Reports`].
pub const REPORT_KINDS: [&str; 2] = ["one flight", "report"];

/// Look-ups of single flights, like [`FlightQueries`]', and reports.
#[derive(Clone)]
pub struct Reports {
    queries: Arc<FlightQueries>,
    report: Arc<Vec<PreparedStatement>>,
    who: Who,
}

/// Who asks for reports.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    /// All clients but the first so many.
    AllBut(usize),
    /// Every client, with this probability.
    Everyone(f64),
}

impl Reports {
    /// The first `travellers` clients look up flights, the others read reports.
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
            queries: Arc::new(queries),
            report: Arc::new(report),
            who: Who::AllBut(travellers),
        })
    }

    /// These queries, but any client asks for either: in an open loop, a request is not a client's next one.
    pub fn with_share(&self, of_reports: f64) -> Self {
        Self {
            who: Who::Everyone(of_reports),
            ..self.clone()
        }
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
        let looks_up = match self.who {
            Who::AllBut(travellers) => client < travellers,
            Who::Everyone(of_reports) => rng.random::<f64>() >= of_reports,
        };
        if looks_up {
            let FlightQueries { sessions, data, .. } = &*self.queries;
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
