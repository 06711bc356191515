//! One query for all clients that ask the same before it is sent.
//!
//! A read may join another only while that one has not left the proxy: then the node looks at its
//! data after both clients have asked, and either could have got that answer alone. A read that is
//! already on its way is never joined, or a client might not see its own write.

use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::time::{Duration, Instant};

use helenus_wire::{Header, Opcode, Version, flags};
use rustc_hash::FxHasher;

use crate::config::Aggregation;
use crate::engine::{ClientRequestKey, Engine, PoolKey, SessionKey};
use crate::request::{Caller, Query, Stage};
use crate::statement::prepared::Statement;
use crate::stats::add;

/// Reads remembered. Two that meet in one place are not shared, which is harmless.
const PLACES: usize = 4_096;
/// Longest wait for an identical read to come back.
const PARKED_MAX: Duration = Duration::from_millis(100);

/// A request's part in sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ticket {
    /// It is counted as in flight at this place.
    Sent(usize),
    /// It waits at this place.
    Parked(usize),
}

#[derive(Clone, Copy, Default)]
struct Place {
    hash: u64,
    /// Identical reads in flight.
    in_flight: usize,
    /// The last of them, which may not have left yet.
    newest: Option<ClientRequestKey>,
    /// One more, which waits for one of them to come back.
    parked: Option<ClientRequestKey>,
}

/// The reads of one worker that others may join.
pub(crate) struct Shares {
    enabled: bool,
    /// Empty until they are needed.
    places: Box<[Place]>,
    in_flight_max: usize,
    parked: Vec<(ClientRequestKey, Instant)>,
}

/// How a read goes on.
pub(crate) enum Sharing {
    /// It has joined another: nothing more to do.
    Joined,
    /// As a request of its own.
    Alone(Option<Ticket>),
}

impl Shares {
    pub(crate) fn is_waiting(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Reads that are counted as in flight or wait for one that is.
    pub(crate) fn counted(&self) -> usize {
        let of_place = |place: &Place| place.in_flight + usize::from(place.parked.is_some());
        self.places.iter().map(of_place).sum()
    }

    pub(crate) fn new(settings: &Aggregation) -> Shares {
        let mut shares = Shares {
            enabled: false,
            places: Box::default(),
            in_flight_max: 0,
            parked: Vec::new(),
        };
        shares.adopt(settings);
        shares
    }

    /// Puts other settings in force. What has been shared stays so.
    pub(crate) fn adopt(&mut self, settings: &Aggregation) {
        self.enabled = settings.share_reads;
        self.in_flight_max = match settings.share_in_flight_max {
            0 => usize::MAX,
            max => max,
        };
        if self.enabled && self.places.is_empty() {
            self.places = vec![Place::default(); PLACES].into();
        }
    }
}

/// A read as its bytes: those of two clients are identical or they are not.
pub(crate) struct Read<'a> {
    pub session: SessionKey,
    pub header: Header,
    pub opcode: Opcode,
    pub version: Version,
    pub keyspace: Option<&'a Rc<str>>,
    pub pool: PoolKey,
    pub body: &'a [u8],
    /// Where the body holds the client's default timestamp. Drivers send one with reads, too, where it
    /// means nothing.
    pub timestamp_at: Option<usize>,
}

impl Read<'_> {
    fn hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        let (before, behind) = self.around_timestamp(self.body);
        hasher.write(before);
        hasher.write(behind);
        (self.pool, self.opcode as u8, self.version as u8).hash(&mut hasher);
        self.keyspace.hash(&mut hasher);
        // The multiplication leaves the entropy in the high bits; places are taken from the low.
        let hash = hasher.finish();
        hash ^ (hash >> 32)
    }

    fn around_timestamp<'b>(&self, body: &'b [u8]) -> (&'b [u8], &'b [u8]) {
        match self.timestamp_at {
            Some(at) if at + 8 <= body.len() => (&body[..at], &body[at + 8..]),
            _ => (body, &[]),
        }
    }

    fn same_as(&self, other: &Query) -> bool {
        // With all before it equal, flags and values, the other's timestamp is at the same place.
        self.body.len() == other.body.len()
            && self.around_timestamp(self.body) == self.around_timestamp(&other.body)
            && self.opcode == other.opcode
            && self.version == other.version
            && self.pool == other.pool
            && self.header.flags == other.header_flags
            && self.keyspace == other.keyspace.as_ref()
    }
}

impl Engine {
    /// Lets a read join an identical one that has not left yet.
    pub(crate) fn share(&mut self, statement: Option<&Statement>, read: &Read<'_>) -> Sharing {
        let own = flags::TRACING | flags::CUSTOM_PAYLOAD;
        if !self.shares.enabled
            || !statement.is_some_and(|s| s.shareable)
            || read.header.flags & own != 0
            || !matches!(read.opcode, Opcode::Query | Opcode::Execute)
        {
            return Sharing::Alone(None);
        }
        let hash = read.hash();
        let at = hash as usize % PLACES;
        let place = self.shares.places[at];
        if place.hash != hash {
            if place.in_flight > 0 || place.parked.is_some() {
                return Sharing::Alone(None);
            }
            self.shares.places[at] = Place {
                hash,
                ..Place::default()
            };
        }
        for candidate in [place.parked, place.newest].into_iter().flatten() {
            if place.hash == hash && self.can_join(candidate) && self.join(candidate, read) {
                return Sharing::Joined;
            }
        }
        let place = &self.shares.places[at];
        if place.in_flight >= self.shares.in_flight_max && place.parked.is_none() {
            return Sharing::Alone(Some(Ticket::Parked(at)));
        }
        Sharing::Alone(Some(Ticket::Sent(at)))
    }

    /// Notes a request that goes on alone; true if it must wait for an identical one to come back.
    pub(crate) fn note_shared(&mut self, request: ClientRequestKey, ticket: Ticket) -> bool {
        match ticket {
            Ticket::Sent(at) => {
                let place = &mut self.shares.places[at];
                place.in_flight += 1;
                place.newest = Some(request);
                false
            }
            Ticket::Parked(at) => {
                self.shares.places[at].parked = Some(request);
                self.shares.parked.push((request, self.cx.now));
                add(&self.cx.shared.stats.global.reads_parked, 1);
                true
            }
        }
    }

    /// Whether a request is still in the proxy.
    fn can_join(&self, key: ClientRequestKey) -> bool {
        let Some(request) = self.requests.clients.get(key) else {
            return false;
        };
        if request.execution.has_rows() {
            return false;
        }
        if matches!(request.ticket, Some(Ticket::Parked(_))) {
            return true;
        }
        let whole = request.execution.whole();
        let Some(whole) = whole.and_then(|whole| self.requests.nodes.get(whole)) else {
            return false;
        };
        match &whole.stage {
            Stage::Queued(_) => true,
            Stage::InFlight(_, flight) => !self.links.has_left(flight),
            Stage::Unplaced | Stage::Admitted(_) => false,
        }
    }

    fn join(&mut self, key: ClientRequestKey, read: &Read<'_>) -> bool {
        let started = self.cx.now;
        let request = self.requests.clients.get_mut(key);
        let Some(request) = request.filter(|request| read.same_as(&request.query)) else {
            return false;
        };
        request.followers.push(Caller {
            session: read.session,
            stream: read.header.stream,
            started,
        });
        if let Some(session) = self.session(read.session) {
            session.in_flight += 1;
        }
        add(&self.cx.shared.stats.global.reads_shared, 1);
        true
    }

    /// A request with a ticket has ended: who waits for it may go.
    pub(crate) fn leave_share(&mut self, request: ClientRequestKey, ticket: Ticket) {
        match ticket {
            Ticket::Parked(at) => {
                let place = &mut self.shares.places[at];
                if place.parked == Some(request) {
                    place.parked = None;
                }
            }
            Ticket::Sent(at) => {
                let place = &mut self.shares.places[at];
                place.in_flight -= 1;
                if place.newest == Some(request) {
                    place.newest = None;
                }
                if let Some(parked) = place.parked {
                    self.unpark(parked);
                }
            }
        }
    }

    /// Sends the reads that have waited for too long.
    pub(crate) fn unpark_late(&mut self) {
        let now = self.cx.now;
        let mut late = Vec::new();
        let requests = &self.requests.clients;
        self.shares.parked.retain(|(key, since)| {
            let parked = requests
                .get(*key)
                .is_some_and(|r| matches!(r.ticket, Some(Ticket::Parked(_))));
            let is_late = parked && now.saturating_duration_since(*since) >= PARKED_MAX;
            if is_late {
                late.push(*key);
            }
            parked && !is_late
        });
        for key in late {
            self.unpark(key);
        }
    }

    fn unpark(&mut self, key: ClientRequestKey) {
        let Some(request) = self.requests.clients.get_mut(key) else {
            return;
        };
        let Some(Ticket::Parked(at)) = request.ticket else {
            return;
        };
        request.ticket = Some(Ticket::Sent(at));
        let place = &mut self.shares.places[at];
        place.parked = None;
        place.in_flight += 1;
        place.newest = Some(key);
        self.start(key);
    }
}
