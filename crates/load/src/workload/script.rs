//! A workload from a file of CQL statements.
//!
//! ```text
//! -- Comments run to the end of the line.
//! @let id = zipfian(1, 100000)
//! @let name = text(5, 20)
//!
//! @setup                                   -- the next statement is executed once, before the load
//! CREATE TABLE IF NOT EXISTS app.people (id bigint PRIMARY KEY, name text, seen timestamp);
//!
//! @statement look-up weight=9              -- a kind of operation and its share
//! SELECT name FROM app.people WHERE id = :id;
//!
//! @statement register
//! @values id, name, now()                  -- for positional markers, in order
//! INSERT INTO app.people (id, name, seen) VALUES (?, ?, ?);
//! ```
//!
//! A named marker draws from the `@let` of its name; within one execution all markers of one name
//! get the same value. [`generate`] lists the generators. Values are encoded for the types that the
//! cluster reports for the markers.

use crate::client::endpoint::Endpoint;
use crate::client::{BindMarker, ClientKind, Clients, SchemaClient};
use crate::measure::ErrorKind;
use crate::workload::Workload;
use anyhow::{Context, Result, bail};
use generate::Generator;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// The default page size of drivers.
const PAGE_ROWS: i32 = 5_000;

mod generate;
mod parse;

pub use generate::Value;
pub use parse::{ScriptError, parse};

/// A parsed file.
#[derive(Clone, Debug)]
pub struct Script {
    pub setup: Vec<CqlText>,
    pub statements: Vec<Statement>,
}

/// A statement's CQL and the line on which it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CqlText {
    pub line: usize,
    pub cql: String,
}

#[derive(Clone, Debug)]
pub struct Statement {
    pub name: String,
    pub weight: f64,
    pub text: CqlText,
    pub values: Values,
}

/// Where the markers of a statement take their values from.
#[derive(Clone, Debug)]
pub enum Values {
    /// One for each `?`.
    Positional(Vec<Source>),
    /// By the names of the markers.
    Named(Vec<Source>),
}

/// A generator and its `@let` name; an inline generator has none.
#[derive(Clone, Debug)]
pub struct Source {
    pub name: Option<String>,
    pub generator: Arc<Generator>,
}

impl Values {
    /// For each marker of the prepared statement the index of its source, so that markers of one
    /// name share a value.
    fn bind(&self, markers: &[BindMarker]) -> Result<Vec<usize>> {
        match self {
            Self::Positional(sources) if sources.len() == markers.len() => {
                Ok((0..sources.len()).collect())
            }
            Self::Positional(sources) => bail!(
                "it has {} markers, but @values gives {}",
                markers.len(),
                sources.len()
            ),
            Self::Named(sources) => {
                let place = |marker: &BindMarker| {
                    let named = |source: &Source| source.name.as_ref() == Some(&marker.name);
                    sources.iter().position(named).with_context(|| {
                        format!("its marker {} has no @let of that name", marker.name)
                    })
                };
                markers.iter().map(place).collect()
            }
        }
    }

    fn sources(&self) -> &[Source] {
        match self {
            Self::Positional(sources) | Self::Named(sources) => sources,
        }
    }
}

impl Script {
    /// Executes the `@setup` statements.
    pub async fn set_up(&self, endpoint: &Endpoint, client: ClientKind) -> Result<()> {
        if self.setup.is_empty() {
            return Ok(());
        }
        let mut client = SchemaClient::open(endpoint, client).await?;
        for CqlText { line, cql } in &self.setup {
            let done = client.execute(cql).await;
            done.with_context(|| format!("line {line}"))?;
        }
        Ok(())
    }
}

/// A script, prepared on an endpoint.
#[derive(Debug)]
pub struct ScriptWorkload {
    clients: Clients,
    statements: Vec<Bound>,
    weight_total: f64,
}

#[derive(Debug)]
struct Bound {
    statement: Statement,
    markers: Vec<BindMarker>,
    sources: Vec<usize>,
}

impl ScriptWorkload {
    pub async fn open(
        client: ClientKind,
        endpoint: &Endpoint,
        script: &Script,
        sessions: usize,
    ) -> Result<Self> {
        let texts: Vec<&str> = script.statements.iter().map(|s| &*s.text.cql).collect();
        let mut clients = Clients::open(endpoint, client, &texts, sessions).await?;
        clients.set_page_rows(PAGE_ROWS);
        let mut statements = Vec::new();
        let mut rng: ChaCha8Rng = rand::SeedableRng::seed_from_u64(0);
        for (number, statement) in script.statements.iter().enumerate() {
            let markers = clients.markers(number);
            let bound = Bound {
                sources: bind(statement, &markers)?,
                statement: statement.clone(),
                markers,
            };
            // Drawn once to check that generators and types agree.
            bound
                .draw(&mut rng)
                .with_context(|| bound.statement.place())?;
            statements.push(bound);
        }
        Ok(Self {
            clients,
            weight_total: statements.iter().map(|each| each.statement.weight).sum(),
            statements,
        })
    }
}

fn bind(statement: &Statement, markers: &[BindMarker]) -> Result<Vec<usize>> {
    let bound = statement.values.bind(markers);
    bound.with_context(|| statement.place())
}

impl Statement {
    fn place(&self) -> String {
        format!("line {}: statement {}", self.text.line, self.name)
    }
}

impl Bound {
    fn draw(&self, rng: &mut impl Rng) -> Result<Vec<Vec<u8>>> {
        let sources = self.statement.values.sources();
        let drawn: Vec<Value> = sources
            .iter()
            .map(|source| source.generator.draw(rng))
            .collect();
        let pairs = self.markers.iter().zip(&self.sources);
        let encoded = pairs.map(|(marker, &source)| {
            let cql_type = marker.cql_type.with_context(|| {
                format!(
                    "marker {} has a type for which no values can be drawn",
                    marker.name
                )
            })?;
            let value = drawn[source].encode(cql_type);
            value.with_context(|| format!("marker {}", marker.name))
        });
        encoded.collect()
    }
}

/// The index of the weight that `point`, between 0 and the sum of all weights, falls on.
fn weighted(weights: impl Iterator<Item = f64>, mut point: f64) -> usize {
    let mut last = 0;
    for (index, weight) in weights.enumerate() {
        last = index;
        if point < weight {
            break;
        }
        point -= weight;
    }
    last
}

impl Workload for ScriptWorkload {
    fn kinds(&self) -> Vec<&str> {
        self.statements
            .iter()
            .map(|each| &*each.statement.name)
            .collect()
    }

    async fn call(&self, client: usize, rng: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let point = rng.random::<f64>() * self.weight_total;
        let number = weighted(
            self.statements.iter().map(|each| each.statement.weight),
            point,
        );
        let Ok(values) = self.statements[number].draw(rng) else {
            return (number, Err("value does not fit its type"));
        };
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        (
            number,
            self.clients
                .execute(client, number, &values)
                .await
                .map(drop),
        )
    }
}

#[cfg(test)]
mod tests;
