//! An endpoint, and pieces of a capture played against it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use helenus_capture::Statement;
use helenus_wire::Opcode;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::answers::{Got, read};
use super::asking::ask_prepared;
use super::options::Options;
use super::statements::{
    Asked, Prepared, Sizes, asked, asked_batch, not_prepared, prepare_unless_refused,
};
use super::step::Step;
use super::traffic::Traffic;
use crate::client::endpoint::Endpoint;
use crate::client::shared::{OPENING_MAX, Session};

/// Requests that wait for answers at the recorded times, and bytes of these.
const WAITING_MAX: usize = 200_000;
const WAITING_BYTES_MAX: usize = 1 << 30;

/// The outcome of a step.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub step: usize,
    /// Also of what its client waited before it left.
    pub took: Duration,
    /// How much later than due it left; None in a closed loop.
    pub late: Option<Duration>,
    pub got: Got,
    /// Of the request.
    pub bytes: usize,
}

/// Timers are so imprecise; what leaves within it has left in time.
const TIMER: Duration = Duration::from_millis(2);

/// From when a request's latency counts, and how late it left. One that leaves late has kept its client waiting.
pub(super) fn begin(due: Option<Instant>, sent: Instant) -> (Instant, Option<Duration>) {
    let Some(due) = due else {
        return (sent, None);
    };
    let late = sent.saturating_duration_since(due);
    match late <= TIMER {
        true => (sent, Some(late)),
        false => (due, Some(late)),
    }
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
    /// Paging states of the answers before, by reads ([`Step::read`]).
    states: Mutex<HashMap<usize, Vec<u8>>>,
}

impl Player {
    /// Prepares the statements at each of the endpoint's addresses.
    pub(super) async fn open(endpoint: &Endpoint, traffic: &Traffic) -> Result<Player> {
        let (mut prepared, mut refused) = (HashMap::new(), HashMap::new());
        for number in 0..endpoint.contact_points.len() {
            let session = Session::to(endpoint, number).await;
            let session = session.with_context(|| format!("endpoint {}", endpoint.name))?;
            for of in traffic.to_prepare() {
                let statement = &traffic.statements[of];
                let why = match prepare_unless_refused(&session, statement).await {
                    Ok(Ok(known)) => {
                        prepared.insert(of, known);
                        continue;
                    }
                    Ok(Err(said)) => said.why(statement),
                    Err(e) => format!("{e:#}"),
                };
                refused.insert(of, why);
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

    pub(super) fn name(&self) -> &str {
        &self.endpoint.name
    }

    pub(super) fn prepared(&self) -> &HashMap<usize, Prepared> {
        &self.prepared
    }

    pub(super) async fn session(&self) -> Result<Session> {
        Session::to(&self.endpoint, 0).await
    }

    /// Why a step cannot be played here.
    pub(super) fn why_not(&self, step: &Step, traffic: &Traffic) -> Option<String> {
        if step.is_text(&traffic.statements[step.statement()]) {
            return None;
        }
        for (of, _) in &step.parts {
            if let Some(why) = self.refused.get(of) {
                return Some(not_prepared(self.name(), why, &traffic.statements[*of]));
            }
        }
        match self.asked(step, traffic, None) {
            Some(_) => None,
            None => Some(
                "requests with a value that cannot be made up, of its type or its size (16 MiB at most)".to_owned(),
            ),
        }
    }

    /// Plays some of the steps; returns when the last is answered.
    pub(super) async fn play(
        &mut self,
        traffic: &Traffic,
        piece: Range<usize>,
        options: &Options,
    ) -> Result<Vec<Sample>> {
        self.connect(&traffic.steps[piece.clone()]).await?;
        match options.is_closed {
            true => self.play_closed(traffic, piece).await,
            false => self.play_timed(traffic, piece, options.speed).await,
        }
    }

    /// At the recorded times, whatever is answered.
    async fn play_timed(
        &self,
        traffic: &Traffic,
        piece: Range<usize>,
        speed: f64,
    ) -> Result<Vec<Sample>> {
        let first = traffic
            .steps
            .get(piece.start)
            .map_or(Duration::ZERO, |step| step.due);
        let (mut waiting, mut samples) = (JoinSet::new(), Vec::with_capacity(piece.len()));
        let (began, mut bytes) = (Instant::now(), 0);
        for at in piece {
            let due = began + (traffic.steps[at].due - first).div_f64(speed);
            tokio::time::sleep_until(due.into()).await;
            while let Some(done) = waiting.try_join_next() {
                let sample: Sample = done.context("a request of the capture failed")?;
                bytes -= sample.bytes;
                samples.push(sample);
            }
            bytes += self.send(at, traffic, Some(due), &mut waiting).unwrap_or(0);
            ensure!(
                waiting.len() <= WAITING_MAX && bytes <= WAITING_BYTES_MAX,
                "{} requests wait for answers of endpoint {}, which cannot keep up: play with a smaller --speed, or \
                 with --closed",
                waiting.len(),
                self.endpoint.name
            );
        }
        while let Some(done) = waiting.join_next().await {
            samples.push(done.context("a request of the capture failed")?);
        }
        Ok(samples)
    }

    /// As many at a time on each connection as in the capture.
    async fn play_closed(&self, traffic: &Traffic, piece: Range<usize>) -> Result<Vec<Sample>> {
        let (mut waiting, mut samples) = (JoinSet::new(), Vec::with_capacity(piece.len()));
        let mut queues: BTreeMap<usize, VecDeque<usize>> = BTreeMap::new();
        for at in piece {
            let queue = queues.entry(traffic.steps[at].connection).or_default();
            queue.push_back(at);
        }
        for (connection, queue) in &mut queues {
            for _ in 0..traffic.widths[*connection] {
                self.send_next(queue, traffic, &mut waiting);
            }
        }
        while let Some(done) = waiting.join_next().await {
            let sample = done.context("a request of the capture failed")?;
            if let Some(queue) = queues.get_mut(&traffic.steps[sample.step].connection) {
                self.send_next(queue, traffic, &mut waiting);
            }
            samples.push(sample);
        }
        Ok(samples)
    }

    fn send_next(
        &self,
        queue: &mut VecDeque<usize>,
        traffic: &Traffic,
        waiting: &mut JoinSet<Sample>,
    ) {
        while let Some(at) = queue.pop_front() {
            if self.send(at, traffic, None, waiting).is_some() {
                return;
            }
        }
    }

    /// Sends a request, of so many bytes; None if it continues a page that was not played. `due`: when its client
    /// sent it.
    fn send(
        &self,
        at: usize,
        traffic: &Traffic,
        due: Option<Instant>,
        waiting: &mut JoinSet<Sample>,
    ) -> Option<usize> {
        let step = &traffic.steps[at];
        let connection = self.connections.get(&step.connection)?;
        let asked = self.body(step, traffic, connection)?;
        let bytes = asked.body.len();
        let connection = connection.clone();
        // Only to prepare them again.
        let statements = traffic.statements.clone();
        let mut parts = step.distinct_statements();
        parts.retain(|of| self.prepared.contains_key(of));
        let (read_number, limit) = (step.read, self.endpoint.request_timeout);
        waiting.spawn(async move {
            let (began, late) = begin(due, Instant::now());
            let of: Vec<&Statement> = parts.iter().map(|of| &statements[*of]).collect();
            let answer = timeout(limit, ask_prepared(&connection.session, &asked, &of)).await;
            let took = began.elapsed();
            let read = read(answer);
            connection.note(read_number, read.state);
            Sample {
                step: at,
                took,
                late,
                got: read.got,
                bytes,
            }
        });
        Some(bytes)
    }

    /// None if it continues a page that was not played.
    fn body(&self, step: &Step, traffic: &Traffic, connection: &Connection) -> Option<Asked> {
        let state = match step.continues {
            true => Some(connection.state(step.read)?),
            false => None,
        };
        self.asked(step, traffic, state.as_deref())
    }

    fn asked(&self, step: &Step, traffic: &Traffic, state: Option<&[u8]>) -> Option<Asked> {
        if step.opcode == Opcode::Batch {
            return asked_batch(step, &self.prepared, &self.sizes);
        }
        let number = step.statement();
        let (statement, prepared) = (&traffic.statements[number], self.prepared.get(&number));
        asked(step, statement, prepared, &self.sizes, state)
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
                session: session.with_context(|| format!("endpoint {}", self.endpoint.name))?,
                states: Mutex::default(),
            };
            self.connections.insert(number, Arc::new(connection));
        }
        Ok(())
    }
}

impl Connection {
    fn state(&self, read: usize) -> Option<Vec<u8>> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.get(&read).cloned()
    }

    fn note(&self, read: usize, state: Option<Vec<u8>>) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        match state {
            Some(state) => states.insert(read, state),
            None => states.remove(&read),
        };
    }
}
