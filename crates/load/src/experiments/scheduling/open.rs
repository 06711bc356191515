//! Sessions and contents that are open during a run, and the queries of a cell.

use super::experiment::{KINDS, Scheduling};
use super::further::queries::{Contents, Statements};
use super::mix::Mix;
use super::plain::queries::{PlainConnections, PlainQueries};
use super::queries::{Queries, QueryPattern, Sessions};
use super::tables::Index;
use crate::measure::Phase;
use crate::recording::Recording;
use crate::run::Limit;
use std::sync::Arc;
use std::time::Duration;

/// The open sessions of the arms, and the contents of the tables.
pub(super) struct Open {
    pub index: Arc<Index>,
    pub sessions: Vec<Arc<Sessions>>,
    /// By arm; none for those that do not take part in the plain client's cells.
    pub plain: Vec<Option<Arc<PlainConnections>>>,
    /// Contents of the tables of the further cells, and each arm's statements for them.
    pub further: Option<(Arc<Contents>, Vec<Arc<Statements>>)>,
    /// Queries per second of the open loop that is being measured.
    pub rate: Option<f64>,
}

impl Scheduling {
    pub(super) fn queries(
        &self,
        open: &Open,
        arm: usize,
        pattern: QueryPattern,
        round: u64,
    ) -> Arc<Queries> {
        let seed = self.seed.wrapping_add(round);
        let (sessions, index) = (open.sessions[arm].clone(), open.index.clone());
        Arc::new(Queries::new(sessions, index, pattern, self.time_out, seed))
    }

    pub(super) fn plain_queries(
        &self,
        connections: &Arc<PlainConnections>,
        mix: Mix,
        apart: bool,
        round: u64,
    ) -> Arc<PlainQueries> {
        let seed = self.seed.wrapping_add(round);
        let queries = PlainQueries::new(connections.clone(), mix, apart, self.time_out, seed);
        Arc::new(queries)
    }

    pub(super) fn phase(&self, recording: Recording) -> Phase {
        recording.into_phase_at_cost(&KINDS, Some(self.time_out))
    }
}

pub(super) fn limit(ops: u64, time: Option<Duration>) -> Limit {
    match time {
        Some(time) => Limit::Within { ops, time },
        None => Limit::Ops(ops),
    }
}
