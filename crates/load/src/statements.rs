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
//! A named marker draws from the `@let` of its name; within one execution every marker of a name
//! gets the same value. [`generate`] lists the generators. Values are encoded for the types that
//! the cluster says the markers have.

use crate::ask::{Asker, ClientKind, Parameter};
use crate::endpoint::Endpoint;
use crate::measure::ErrorKind;
use crate::run::Workload;
use anyhow::{Context, Result, bail};
use generate::Generator;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

/// Rows of a page, as drivers have it by default.
const PAGE_ROWS: i32 = 5_000;

mod generate;
mod parse;

pub use generate::Value;
pub use parse::{Mistake, parse};

/// A file that has been read.
#[derive(Clone, Debug)]
pub struct Script {
    pub setup: Vec<Text>,
    pub statements: Vec<Statement>,
}

/// CQL and the line on which it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub line: usize,
    pub cql: String,
}

#[derive(Clone, Debug)]
pub struct Statement {
    pub name: String,
    pub weight: f64,
    pub text: Text,
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
    /// One source for each marker of the prepared statement, as an index into the sources, so that
    /// markers of one name share a drawn value.
    fn bind(&self, parameters: &[Parameter]) -> Result<Vec<usize>> {
        match self {
            Self::Positional(sources) if sources.len() == parameters.len() => {
                Ok((0..sources.len()).collect())
            }
            Self::Positional(sources) => bail!(
                "it has {} markers, but @values gives {}",
                parameters.len(),
                sources.len()
            ),
            Self::Named(sources) => {
                let place = |parameter: &Parameter| {
                    let named = |source: &Source| source.name.as_ref() == Some(&parameter.name);
                    sources.iter().position(named).with_context(|| {
                        format!("its marker {} has no @let of that name", parameter.name)
                    })
                };
                parameters.iter().map(place).collect()
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
    /// Executes what stands under `@setup`.
    pub async fn set_up(&self, endpoint: &Endpoint) -> Result<()> {
        if self.setup.is_empty() {
            return Ok(());
        }
        let session = endpoint.connect().await?;
        for Text { line, cql } in &self.setup {
            let done = session.query_unpaged(cql.as_str(), ()).await;
            done.with_context(|| format!("line {line}: {cql}"))?;
        }
        Ok(())
    }
}

/// A script over sessions of an endpoint.
#[derive(Debug)]
pub struct Scripted {
    asker: Asker,
    statements: Vec<Bound>,
    weight_total: f64,
}

#[derive(Debug)]
struct Bound {
    statement: Statement,
    parameters: Vec<Parameter>,
    sources: Vec<usize>,
}

impl Scripted {
    pub async fn open(
        client: ClientKind,
        endpoint: &Endpoint,
        script: &Script,
        sessions: usize,
    ) -> Result<Self> {
        let texts: Vec<&str> = script.statements.iter().map(|s| &*s.text.cql).collect();
        let mut asker = Asker::open(endpoint, client, &texts, sessions).await?;
        asker.page_by(PAGE_ROWS);
        let mut statements = Vec::new();
        let mut rng: ChaCha8Rng = rand::SeedableRng::seed_from_u64(0);
        for (number, statement) in script.statements.iter().enumerate() {
            let parameters = asker.parameters(number);
            let bound = Bound {
                sources: bind(statement, &parameters)?,
                statement: statement.clone(),
                parameters,
            };
            // Drawn once to see whether generators and types agree.
            bound
                .draw(&mut rng)
                .with_context(|| bound.statement.place())?;
            statements.push(bound);
        }
        Ok(Self {
            asker,
            weight_total: statements.iter().map(|each| each.statement.weight).sum(),
            statements,
        })
    }
}

fn bind(statement: &Statement, parameters: &[Parameter]) -> Result<Vec<usize>> {
    let bound = statement.values.bind(parameters);
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
        let pairs = self.parameters.iter().zip(&self.sources);
        let encoded = pairs.map(|(parameter, &source)| {
            let kind = parameter.kind.with_context(|| {
                format!(
                    "marker {} has a type for which no values can be drawn",
                    parameter.name
                )
            })?;
            let value = drawn[source].encode(kind);
            value.with_context(|| format!("marker {}", parameter.name))
        });
        encoded.collect()
    }
}

/// The index of the weight on which a point between 0 and the sum of all falls.
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

impl Workload for Scripted {
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
            self.asker.ask(client, number, &values).await.map(drop),
        )
    }
}

#[cfg(test)]
mod tests;
