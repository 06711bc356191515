//! Asking the paper's queries, and checking every answer.

use super::orders::cents;
use super::queries::{Instances, KINDS, Kind};
use super::tables::Copies;
use crate::client::endpoint::Endpoint;
use crate::client::failure::error_kind;
use crate::measure::ErrorKind;
use crate::workload::Workload;
use crate::workload::kv::prepare;
use anyhow::Result;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::response::query_result::QueryResult;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlDecimal;
use std::sync::Arc;

pub(super) const WRONG: ErrorKind = "wrong answer";
const UNREADABLE: ErrorKind = "unreadable answer";

/// A session that reads one arm's tables.
pub(super) struct Reader {
    session: Session,
    statements: [PreparedStatement; 2],
    instances: Arc<Instances>,
}

impl Reader {
    pub(super) async fn open(
        endpoint: &Endpoint,
        copies: &Copies,
        instances: &Arc<Instances>,
    ) -> Result<Arc<Self>> {
        let session = endpoint.connect().await?;
        let text = |kind: Kind| kind.text(&copies.table(copies.reads[kind as usize]));
        let statements = [
            prepare(&session, &text(Kind::Q1)).await?,
            prepare(&session, &text(Kind::Q2)).await?,
        ];
        Ok(Arc::new(Self {
            session,
            statements,
            instances: instances.clone(),
        }))
    }

    /// The answer must be the one that the generated orders give, to the last row and in their order.
    pub(super) async fn ask(&self, kind: Kind, number: usize) -> Result<(), ErrorKind> {
        let instance = &self.instances.0[number];
        let statement = &self.statements[kind as usize];
        let answered = match kind {
            Kind::Q1 => {
                let values = instance.values_q1();
                self.session.execute_unpaged(statement, values).await
            }
            Kind::Q2 => {
                let values = instance.values_q2();
                self.session.execute_unpaged(statement, values).await
            }
        };
        let answer = prices(answered.map_err(|error| error_kind(&error))?)?;
        match answer == instance.answers[kind as usize] {
            true => Ok(()),
            false => Err(WRONG),
        }
    }
}

fn prices(result: QueryResult) -> Result<Vec<i64>, ErrorKind> {
    let rows = result.into_rows_result().map_err(|_| UNREADABLE)?;
    let rows = rows.rows::<(CqlDecimal,)>().map_err(|_| UNREADABLE)?;
    let price = |row| {
        let (price,): (CqlDecimal,) = row?;
        Ok(cents(&price))
    };
    let prices: Result<Option<Vec<i64>>, scylla::errors::DeserializationError> =
        rows.map(price).collect();
    prices.map_err(|_| UNREADABLE)?.ok_or(UNREADABLE)
}

/// Instances of one query, drawn at random.
pub(super) struct Reads {
    pub(super) reader: Arc<Reader>,
    pub(super) kind: Kind,
}

impl Workload for Reads {
    fn kinds(&self) -> Vec<&str> {
        KINDS.to_vec()
    }

    async fn call(&self, _: usize, rng: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let number = rng.random_range(0..self.reader.instances.0.len());
        let outcome = self.reader.ask(self.kind, number).await;
        (self.kind as usize, outcome)
    }
}
