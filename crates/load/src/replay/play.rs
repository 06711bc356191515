//! An endpoint, and pieces of a capture played against it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Options;
use super::answers::Got;
use super::statements::{Prepared, Sizes, asked, prepare};
use super::traffic::{Step, Traffic};
use crate::client::shared::Session;
use crate::endpoint::Endpoint;

/// Connections that are opened at a time.
const OPENING_MAX: usize = 32;

/// What became of a step.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub step: usize,
    pub took: Duration,
    pub got: Got,
}

/// An endpoint with its connections.
pub(super) struct Player {
    endpoint: Endpoint,
    /// By the numbers of statements; or why not.
    prepared: Arc<HashMap<usize, Prepared>>,
    refused: HashMap<usize, String>,
    pub(super) sizes: Arc<Sizes>,
    /// By the connections' places.
    connections: HashMap<usize, Arc<Connection>>,
}

struct Connection {
    session: Session,
    /// Paging states of the answers before, by statement and key.
    states: Mutex<HashMap<(usize, Option<u64>), Vec<u8>>>,
}

impl Player {
    /// Prepares the statements at each of the endpoint's addresses.
    pub(super) async fn open(endpoint: &Endpoint, traffic: &Traffic) -> Result<Player> {
        let (mut prepared, mut refused) = (HashMap::new(), HashMap::new());
        for number in 0..endpoint.contact_points.len() {
            let session = Session::to(endpoint, number).await;
            let session = session.with_context(|| format!("endpoint {}", endpoint.name))?;
            for of in traffic.to_prepare() {
                match prepare(&session, &traffic.statements[of]).await {
                    Ok(known) => {
                        prepared.insert(of, known);
                    }
                    Err(e) => {
                        refused.insert(of, format!("{e:#}"));
                    }
                }
            }
        }
        let mut sizes = Sizes::new();
        for (of, values) in traffic.steps.iter().flat_map(|step| &step.parts) {
            if let Some(known) = prepared.get(of) {
                known.note_sizes(values, &mut sizes);
            }
        }
        Ok(Player {
            endpoint: endpoint.clone(),
            prepared: Arc::new(prepared),
            refused,
            sizes: Arc::new(sizes),
            connections: HashMap::new(),
        })
    }

    pub(super) fn prepared(&self) -> &HashMap<usize, Prepared> {
        &self.prepared
    }

    pub(super) async fn session(&self) -> Result<Session> {
        Session::to(&self.endpoint, 0).await
    }

    /// Why a step cannot be played here.
    pub(super) fn why_not(&self, step: &Step, traffic: &Traffic) -> Option<String> {
        if step.is_text(&traffic.statements) {
            return None;
        }
        for (of, _) in &step.parts {
            if let Some(why) = self.refused.get(of) {
                let text: String = traffic.statements[*of].text.chars().take(60).collect();
                let name = &self.endpoint.name;
                return Some(format!(
                    "requests of what {name} does not prepare ({why}): {text}"
                ));
            }
        }
        match asked(step, traffic, &self.prepared, &self.sizes, None) {
            Some(_) => None,
            None => Some("requests with a value of a type that cannot be made up".to_owned()),
        }
    }

    /// Plays some of the steps; returns when the last is answered.
    pub(super) async fn play(
        &mut self,
        traffic: &Traffic,
        piece: Range<usize>,
        options: &Options,
    ) -> Result<Vec<Sample>> {
        let steps = &traffic.steps[piece.clone()];
        self.connect(steps).await?;
        let (speed, first) = (
            options.speed,
            steps.first().map_or(Duration::ZERO, |step| step.due),
        );
        let widths = traffic
            .widths
            .iter()
            .map(|width| Arc::new(Semaphore::new(*width)));
        let widths: Vec<_> = widths.collect();
        let mut waiting = JoinSet::new();
        let mut samples = Vec::with_capacity(steps.len());
        let began = Instant::now();
        for (at, step) in piece.zip(steps) {
            let Some(connection) = self.connections.get(&step.connection) else {
                continue;
            };
            if !options.is_closed {
                let due = began + (step.due - first).div_f64(speed);
                tokio::time::sleep_until(due.into()).await;
            }
            while let Some(done) = waiting.try_join_next() {
                samples.push(done.context("a request of the capture failed")?);
            }
            let Some(body) = self.body(step, traffic, connection) else {
                continue;
            };
            let (connection, prepared) = (connection.clone(), self.prepared.clone());
            let width = options.is_closed.then(|| widths[step.connection].clone());
            let statement = traffic.statements[step.statement()].clone();
            let (key, limit) = ((step.statement(), step.key), self.endpoint.request_timeout);
            // In a closed loop the order within a connection is that of the permits.
            let permit = match width {
                Some(width) => width.acquire_owned().await.ok(),
                None => None,
            };
            waiting.spawn(async move {
                let sent = Instant::now();
                let asking = connection.ask(body, &statement, (key.0, &prepared));
                let answer = timeout(limit, asking).await;
                let took = sent.elapsed();
                let (got, state) = Got::of(answer);
                connection.note(key, state);
                drop(permit);
                Sample {
                    step: at,
                    took,
                    got,
                }
            });
        }
        while let Some(done) = waiting.join_next().await {
            samples.push(done.context("a request of the capture failed")?);
        }
        Ok(samples)
    }

    /// None if it continues a page that was not played.
    fn body(
        &self,
        step: &Step,
        traffic: &Traffic,
        connection: &Connection,
    ) -> Option<super::statements::Asked> {
        let state = match step.continues {
            true => Some(connection.state((step.statement(), step.key))?),
            false => None,
        };
        asked(step, traffic, &self.prepared, &self.sizes, state.as_deref())
    }

    /// Opens the connections of these steps, and those again that have broken.
    async fn connect(&mut self, steps: &[Step]) -> Result<()> {
        self.connections.retain(|_, of| !of.session.is_broken());
        let mut numbers: Vec<usize> = steps.iter().map(|step| step.connection).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.retain(|number| !self.connections.contains_key(number));
        let mut opening = JoinSet::new();
        let places = Arc::new(Semaphore::new(OPENING_MAX));
        for number in numbers {
            let (endpoint, places) = (self.endpoint.clone(), places.clone());
            opening.spawn(async move {
                let _place = places.acquire().await;
                (number, Session::to(&endpoint, number).await)
            });
        }
        while let Some(opened) = opening.join_next().await {
            let (number, session) = opened.context("opening a connection failed")?;
            let connection = Connection {
                session: session?,
                states: Mutex::default(),
            };
            self.connections.insert(number, Arc::new(connection));
        }
        Ok(())
    }
}

impl Connection {
    /// Prepares the statement again, once, if the node no longer knows it.
    async fn ask(
        &self,
        asked: super::statements::Asked,
        statement: &helenus_capture::Statement,
        (number, prepared): (usize, &HashMap<usize, Prepared>),
    ) -> super::answers::Answered {
        let send = || {
            self.session
                .ask_kind(asked.opcode, |body| body.extend_from_slice(&asked.body))
        };
        let answer = send().await?;
        let is_forgotten = answer.code() == Some(helenus_wire::code::UNPREPARED);
        if !is_forgotten || !prepared.contains_key(&number) {
            return Ok(answer);
        }
        let again = prepare(&self.session, statement).await;
        again.map_err(|_| "connection broken")?;
        send().await
    }

    fn state(&self, of: (usize, Option<u64>)) -> Option<Vec<u8>> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.get(&of).cloned()
    }

    fn note(&self, of: (usize, Option<u64>), state: Option<Vec<u8>>) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        match state {
            Some(state) => states.insert(of, state),
            None => states.remove(&of),
        };
    }
}
