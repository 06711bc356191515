//! Travellers who look up one flight, beside analysts who read thousands at a time.

use super::{Application, Trips};
use crate::failure::error_kind;
use crate::kv::prepare;
use crate::measure::ErrorKind;
use crate::run::Workload;
use anyhow::Result;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use scylla::response::PagingState;
use scylla::statement::prepared::PreparedStatement;

/// Flights of a report: one page of a driver.
pub const REPORT_FLIGHTS: i32 = 5_000;
/// Reports begin in this part of the ring, so that each has all its rows behind it.
const BEGIN_SHARE: f64 = 0.9;

/// The kinds of [`Reports`].
pub const REPORT_KINDS: [&str; 2] = ["one flight", "report"];

/// Clients of which the first ask as [`Trips`] do for one flight, and the others for reports.
pub struct Reports {
    trips: Trips,
    report: Vec<PreparedStatement>,
    travellers: usize,
}

impl Reports {
    pub async fn open(keyspace: &str, trips: Trips, travellers: usize) -> Result<Self> {
        let text = format!(
            "SELECT origin, day, carrier, dest, dep_delay, arr_delay, distance FROM {keyspace}.flights \
             WHERE token(origin, day) > ? LIMIT {REPORT_FLIGHTS}"
        );
        let mut report = Vec::new();
        for application in &trips.applications {
            let mut statement = prepare(&application.session, &text).await?;
            statement.set_page_size(REPORT_FLIGHTS);
            report.push(statement);
        }
        Ok(Self {
            trips,
            report,
            travellers,
        })
    }

    async fn read(&self, client: usize, begin: i64) -> Result<(), ErrorKind> {
        let at = client % self.report.len();
        let Application { session, .. } = &self.trips.applications[at];
        let asked = &self.report[at];
        let answer = session
            .execute_single_page(asked, (begin,), PagingState::start())
            .await;
        let (answer, _) = answer.map_err(|error| error_kind(&error))?;
        let rows = answer.into_rows_result().map_err(|_| "unreadable answer")?;
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
            let trips = &self.trips;
            let application = &trips.applications[client % trips.applications.len()];
            let group = &trips.data.flights[rng.random_range(0..trips.data.flights.len())];
            let flight = &group.rows[rng.random_range(0..group.rows.len())];
            return (0, application.look_up(flight).await);
        }
        let share: f64 = rng.random_range(0.0..BEGIN_SHARE);
        let begin = (share * u64::MAX as f64) as u64;
        let begin = i64::MIN.wrapping_add(begin as i64);
        (1, self.read(client, begin).await)
    }
}
