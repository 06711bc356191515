//! A read of the proxy's clients, and what becomes of it at the endpoints.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helenus_capture::{Answer, Value};
use helenus_wire::{Opcode, code};
use tokio::time::timeout;

use super::connections::{Connection, Connections};
use super::pages::{Pages, PagingStates};
use super::statements::{Known, Preparation, REFUSED_FOR};
use crate::client::failure::code_kind;
use crate::measure::ErrorKind;
use crate::replay::answers::{CLIENT_TIMEOUT, Got, Read, read};
use crate::replay::asking::ask_prepared;
use crate::replay::statements::{
    Asked, Prepared, Sizes, asked, not_prepared, prepare_unless_refused,
};
use crate::replay::step::Step;

/// A read.
#[derive(Debug)]
pub(crate) struct Request {
    pub step: Step,
    pub known: Arc<Known>,
    /// Of the client.
    pub connection: u64,
    /// The proxy's.
    pub answer: Answer,
}

/// An endpoint's answer, and its latency.
#[derive(Debug)]
pub(crate) struct Sample {
    pub took: Duration,
    pub read: Read,
}

/// The outcome of a read.
#[derive(Debug)]
pub(crate) enum Played {
    /// By endpoint.
    Answered(Vec<Sample>),
    Not(String),
}

/// An endpoint that reads are sent to.
#[derive(Debug)]
pub(crate) struct Target {
    /// Its place among the endpoints.
    place: usize,
    connections: Arc<Connections>,
    states: Mutex<PagingStates>,
}

/// Why a statement is not prepared.
enum Unprepared {
    /// The endpoint does not take it.
    Refused(String),
    Failed(ErrorKind),
}

impl Request {
    fn pages(&self) -> Pages {
        let mut hasher = DefaultHasher::new();
        self.step.parts.hash(&mut hasher);
        (self.connection, self.known.number, hasher.finish())
    }

    fn is_text(&self) -> bool {
        self.step.is_text(&self.known.statement)
    }

    /// None if its values are not known, or not those that the endpoint wants.
    fn asked(&self, prepared: Option<&Prepared>, state: Option<&[u8]>) -> Option<Asked> {
        let (_, values) = self.step.parts.first()?;
        let is_whole = values.iter().all(|value| !matches!(value, Value::Sized(_)));
        let fits = prepared.is_none_or(|of| of.markers.len() == values.len());
        if !is_whole || !fits {
            return None;
        }
        asked(
            &self.step,
            &self.known.statement,
            prepared,
            &Sizes::new(),
            state,
        )
    }
}

/// Sends a read to all endpoints at once.
pub(crate) async fn play(request: &Request, targets: &[Arc<Target>]) -> Played {
    let mut ready = Vec::with_capacity(targets.len());
    for target in targets {
        match target.make_ready(request).await {
            Ok(asked) => ready.push(asked),
            Err(why) => return Played::Not(why),
        }
    }
    let mut asking = targets
        .iter()
        .zip(&ready)
        .map(|(target, ready)| target.ask(request, ready));
    let samples = match (asking.next(), asking.next()) {
        (Some(one), Some(other)) => {
            let (one, other) = tokio::join!(one, other);
            vec![one, other]
        }
        (Some(one), None) => vec![one.await],
        (None, _) => Vec::new(),
    };
    Played::Answered(samples)
}

/// The request to send, or the reason why none can be.
type Ready = Result<Asked, ErrorKind>;

impl Target {
    pub(crate) fn new(place: usize, connections: Arc<Connections>) -> Arc<Target> {
        Arc::new(Target {
            place,
            connections,
            states: Mutex::default(),
        })
    }

    fn name(&self) -> &str {
        &self.connections.endpoint().name
    }

    /// An error says why the read is not played anywhere.
    async fn make_ready(&self, request: &Request) -> Result<Ready, String> {
        let state = match request.step.continues {
            true => Some(self.states().get(&request.pages()).ok_or(
                "further pages of reads that ended before, were not sent from their beginning, or whose page before is \
                 not answered yet",
            )?),
            false => None,
        };
        let prepared = match request.is_text() {
            true => None,
            false => match self.prepared(request).await {
                Ok(prepared) => Some(prepared),
                Err(Unprepared::Failed(kind)) => return Ok(Err(kind)),
                Err(Unprepared::Refused(why)) => {
                    return Err(not_prepared(self.name(), &why, &request.known.statement));
                }
            },
        };
        let asked = request.asked(prepared.as_deref(), state.as_deref());
        asked.map(Ok).ok_or_else(|| {
            "requests whose values were not recorded, or are not those that the endpoint wants"
                .to_owned()
        })
    }

    /// The statement as the endpoint knows it.
    async fn prepared(&self, request: &Request) -> Result<Arc<Prepared>, Unprepared> {
        let limit = self.connections.endpoint().request_timeout;
        // Another request may be preparing it, at an endpoint that does not answer.
        let waiting = timeout(limit, request.known.prepared[self.place].lock()).await;
        let mut preparation = waiting.map_err(|_| Unprepared::Failed(CLIENT_TIMEOUT))?;
        match &*preparation {
            Preparation::Done(prepared) => return Ok(prepared.clone()),
            Preparation::Refused { why, until } if Instant::now() < *until => {
                return Err(Unprepared::Refused(why.clone()));
            }
            Preparation::Refused { .. } | Preparation::Unknown => {}
        }
        let connection = self.connection(request).map_err(Unprepared::Failed)?;
        let preparing = prepare_unless_refused(&connection.session, &request.known.statement);
        let prepared = timeout(limit, preparing).await;
        connection.note(prepared.is_ok());
        match prepared {
            Err(_) => Err(Unprepared::Failed(CLIENT_TIMEOUT)),
            Ok(Err(_)) => Err(Unprepared::Failed("cannot be prepared")),
            Ok(Ok(Ok(prepared))) => {
                let prepared = Arc::new(prepared);
                *preparation = Preparation::Done(prepared.clone());
                Ok(prepared)
            }
            Ok(Ok(Err(refused))) => match refused.code {
                code::INVALID | code::SYNTAX | code::UNAUTHORIZED => {
                    let until = Instant::now() + REFUSED_FOR;
                    let why = refused.why(&request.known.statement);
                    *preparation = Preparation::Refused {
                        why: why.clone(),
                        until,
                    };
                    Err(Unprepared::Refused(why))
                }
                other => Err(Unprepared::Failed(code_kind(other))),
            },
        }
    }

    async fn ask(&self, request: &Request, ready: &Ready) -> Sample {
        let asked = match ready {
            Ok(asked) => asked,
            &Err(kind) => return self.failed(request, kind),
        };
        let connection = match self.connection(request) {
            Ok(connection) => connection,
            Err(kind) => return self.failed(request, kind),
        };
        let of = (asked.opcode == Opcode::Execute).then_some(&request.known.statement);
        let limit = self.connections.endpoint().request_timeout;
        let sent = Instant::now();
        let answer = timeout(
            limit,
            ask_prepared(&connection.session, asked, of.as_slice()),
        )
        .await;
        let took = sent.elapsed();
        connection.note(answer.is_ok());
        let read = read(answer);
        self.states().note(request.pages(), read.state.clone());
        // The prepared statement is outdated; it has been prepared again once already, and has another id now.
        if read.has_new_metadata || read.got == Got::Error(code::UNPREPARED) {
            *request.known.prepared[self.place].lock().await = Preparation::Unknown;
        }
        Sample { took, read }
    }

    /// It was not sent, so there is nothing to go on from.
    fn failed(&self, request: &Request, kind: ErrorKind) -> Sample {
        self.states().note(request.pages(), None);
        let read = Read::of(Got::Nothing(kind));
        let took = Duration::ZERO;
        Sample { took, read }
    }

    fn connection(&self, request: &Request) -> Result<Arc<Connection>, ErrorKind> {
        self.connections
            .get(request.connection)
            .ok_or("no connection")
    }

    fn states(&self) -> MutexGuard<'_, PagingStates> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
