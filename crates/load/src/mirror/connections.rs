//! Connections to an endpoint: a fixed number of them, opened anew when they break, so that an endpoint may go and
//! come back.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::backoff::pause;
use crate::client::endpoint::Endpoint;
use crate::client::shared::{OPENING_MAX, Session};

/// A connection over which so many requests in a row got no answer in time is given up.
const SILENT_MAX: u32 = 16;
/// One that is of no use any more before it is so old counts as one that could not be opened.
const SHORT_LIFE: Duration = Duration::from_secs(5);

/// A connection that is open.
#[derive(Debug)]
pub(crate) struct Connection {
    pub session: Session,
    /// Requests in a row without an answer in time.
    silent: AtomicU32,
    opened: Instant,
    /// Failures in a row before it.
    failures: u32,
}

impl Connection {
    fn new(session: Session, failures: u32) -> Arc<Connection> {
        Arc::new(Connection {
            session,
            silent: AtomicU32::new(0),
            opened: Instant::now(),
            failures,
        })
    }

    /// A request got an answer, or none in time.
    pub(crate) fn note(&self, is_answered: bool) {
        match is_answered {
            true => self.silent.store(0, Ordering::Relaxed),
            false => _ = self.silent.fetch_add(1, Ordering::Relaxed),
        }
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.session.is_broken() && self.silent.load(Ordering::Relaxed) < SILENT_MAX
    }
}

#[derive(Debug)]
enum Slot {
    Open(Arc<Connection>),
    Opening,
    /// Until then it is not tried again, after so many failures in a row.
    Closed {
        until: Instant,
        failures: u32,
    },
}

impl Slot {
    fn failed(failures: u32) -> Slot {
        let until = Instant::now() + pause(failures);
        Slot::Closed { until, failures }
    }
}

/// The connections to one endpoint.
#[derive(Debug)]
pub(crate) struct Connections {
    endpoint: Endpoint,
    slots: Vec<Mutex<Slot>>,
    /// So many are opened at a time.
    places: Semaphore,
}

impl Connections {
    /// Opens the first of so many connections; the others are opened when they are wanted.
    ///
    /// # Errors
    /// None of these can be opened: why the first cannot.
    pub(crate) async fn open(endpoint: &Endpoint, number: usize) -> Result<Arc<Connections>> {
        let mut opening = JoinSet::new();
        for slot in 0..number.min(OPENING_MAX) {
            let endpoint = endpoint.clone();
            opening.spawn(async move { (slot, Session::to(&endpoint, slot).await) });
        }
        let now = Instant::now();
        let closed = |_| Slot::Closed {
            until: now,
            failures: 0,
        };
        let mut slots: Vec<Slot> = (0..number).map(closed).collect();
        let (mut is_reached, mut error) = (false, None);
        while let Some(opened) = opening.join_next().await {
            match opened.context("opening a connection failed")? {
                (slot, Ok(session)) => {
                    is_reached = true;
                    slots[slot] = Slot::Open(Connection::new(session, 0));
                }
                (slot, Err(e)) => {
                    slots[slot] = Slot::failed(1);
                    error = error.or(Some(e));
                }
            }
        }
        if let Some(error) = error.filter(|_| !is_reached) {
            return Err(error.context(format!("endpoint {}", endpoint.name)));
        }
        Ok(Arc::new(Connections {
            endpoint: endpoint.clone(),
            slots: slots.into_iter().map(Mutex::new).collect(),
            places: Semaphore::new(OPENING_MAX),
        }))
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The connection of this number, or another one that is open. None if there is none; those that are closed are
    /// opened meanwhile.
    pub(crate) fn get(self: &Arc<Connections>, number: u64) -> Option<Arc<Connection>> {
        let (all, first) = (self.slots.len(), number % self.slots.len() as u64);
        let mut places = (0..all).map(|more| (first as usize + more) % all);
        places.find_map(|place| self.at(place))
    }

    fn at(self: &Arc<Connections>, place: usize) -> Option<Arc<Connection>> {
        let mut slot = self.slot(place);
        let failures = match &*slot {
            Slot::Open(connection) if connection.is_usable() => return Some(connection.clone()),
            Slot::Open(connection) if connection.opened.elapsed() < SHORT_LIFE => {
                *slot = Slot::failed(connection.failures.saturating_add(1));
                return None;
            }
            Slot::Open(_) => 0,
            Slot::Closed { until, failures } if *until <= Instant::now() => *failures,
            Slot::Opening | Slot::Closed { .. } => return None,
        };
        *slot = Slot::Opening;
        let all = self.clone();
        tokio::spawn(async move {
            let _place = all.places.acquire().await;
            let opened = Session::to(&all.endpoint, place).await;
            *all.slot(place) = match opened {
                Ok(session) => Slot::Open(Connection::new(session, failures)),
                Err(_) => Slot::failed(failures.saturating_add(1)),
            };
        });
        None
    }

    fn slot(&self, place: usize) -> MutexGuard<'_, Slot> {
        let slot = &self.slots[place];
        slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
