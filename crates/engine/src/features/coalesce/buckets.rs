//! Which reads are alike, and how many of them are under way.

use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

use helenus_wire::{Opcode, flags};
use rustc_hash::FxHasher;

use crate::config::Aggregation;
use crate::keys::ClientRequestKey;
use crate::pipeline::arrival::Arrival;
use crate::pipeline::query::Query;
use crate::statement::prepared::Statement;

/// Reads remembered. Two that meet in one bucket are not shared, which is harmless.
const BUCKETS: usize = 4_096;
/// Longest wait for an identical read to come back.
const PARKED_MAX: Duration = Duration::from_millis(100);

/// A request's part in sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ticket {
    /// It is counted as in flight at this bucket.
    Sent(usize),
    /// It waits at this bucket.
    Parked(usize),
}

/// A request's state.
pub(in crate::features) type Slot = Option<Ticket>;

/// True if it waits for an identical read to come back.
#[inline]
pub(in crate::features) fn is_parked(slot: Slot) -> bool {
    matches!(slot, Some(Ticket::Parked(_)))
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    hash: u64,
    /// Identical reads in flight.
    in_flight: usize,
    /// The last of them, which may not have left yet.
    newest: Option<ClientRequestKey>,
    /// One more, which waits for one of them to come back.
    parked: Option<ClientRequestKey>,
}

/// The reads of one worker that others may join.
#[derive(Default)]
pub(crate) struct Coalescing {
    enabled: bool,
    /// Empty until they are needed.
    buckets: Box<[Bucket]>,
    in_flight_max: usize,
    parked: Vec<(ClientRequestKey, Instant)>,
}

impl Coalescing {
    pub(crate) fn is_waiting(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Reads that are counted as in flight or wait for one that is.
    pub(crate) fn counted(&self) -> usize {
        let of_bucket = |bucket: &Bucket| bucket.in_flight + usize::from(bucket.parked.is_some());
        self.buckets.iter().map(of_bucket).sum()
    }

    /// Puts other settings in force. Reads that have been shared stay so.
    pub(crate) fn adopt(&mut self, settings: &Aggregation) {
        self.enabled = settings.share_reads;
        self.in_flight_max = match settings.share_in_flight_max {
            0 => usize::MAX,
            max => max,
        };
        if self.enabled && self.buckets.is_empty() {
            self.buckets = vec![Bucket::default(); BUCKETS].into();
        }
    }
}

/// The result of looking for identical reads.
pub(crate) enum Found {
    /// Other reads have its bucket, or it may not be shared.
    Nothing,
    /// At this bucket; one of these requests, if it has not left yet, may be joined.
    Bucket(usize, [Option<ClientRequestKey>; 2]),
}

impl Coalescing {
    /// The bucket of a read.
    pub(crate) fn find(&mut self, statement: Option<&Statement>, read: &Read<'_>) -> Found {
        let own = flags::TRACING | flags::CUSTOM_PAYLOAD;
        if !self.enabled
            || !statement.is_some_and(|s| s.shareable)
            || read.arrival.header.flags & own != 0
            || !matches!(read.arrival.opcode, Opcode::Query | Opcode::Execute)
        {
            return Found::Nothing;
        }
        let hash = read.hash();
        let at = hash as usize % BUCKETS;
        let bucket = &mut self.buckets[at];
        if bucket.hash == hash {
            return Found::Bucket(at, [bucket.parked, bucket.newest]);
        }
        if bucket.in_flight > 0 || bucket.parked.is_some() {
            return Found::Nothing;
        }
        *bucket = Bucket {
            hash,
            ..Bucket::default()
        };
        Found::Bucket(at, [None, None])
    }

    /// How a read that joins no other goes on.
    pub(crate) fn ticket(&self, at: usize) -> Ticket {
        let bucket = &self.buckets[at];
        match bucket.in_flight >= self.in_flight_max && bucket.parked.is_none() {
            true => Ticket::Parked(at),
            false => Ticket::Sent(at),
        }
    }

    /// Notes a request that goes on alone; true if it must wait for an identical one to come back.
    pub(crate) fn enter(
        &mut self,
        now: Instant,
        request: ClientRequestKey,
        ticket: Ticket,
    ) -> bool {
        match ticket {
            Ticket::Sent(at) => {
                let bucket = &mut self.buckets[at];
                bucket.in_flight += 1;
                bucket.newest = Some(request);
                false
            }
            Ticket::Parked(at) => {
                self.buckets[at].parked = Some(request);
                self.parked.push((request, now));
                true
            }
        }
    }

    /// A request with a ticket has ended; who waits for it may go.
    pub(crate) fn leave(
        &mut self,
        request: ClientRequestKey,
        ticket: Ticket,
    ) -> Option<ClientRequestKey> {
        match ticket {
            Ticket::Parked(at) => {
                let bucket = &mut self.buckets[at];
                if bucket.parked == Some(request) {
                    bucket.parked = None;
                }
                None
            }
            Ticket::Sent(at) => {
                let bucket = &mut self.buckets[at];
                bucket.in_flight -= 1;
                if bucket.newest == Some(request) {
                    bucket.newest = None;
                }
                bucket.parked
            }
        }
    }

    /// The reads that have waited for too long.
    pub(crate) fn take_late(
        &mut self,
        now: Instant,
        is_parked: impl Fn(ClientRequestKey) -> bool,
    ) -> Vec<ClientRequestKey> {
        let mut late = Vec::new();
        self.parked.retain(|(key, since)| {
            let parked = is_parked(*key);
            let is_late = parked && now.saturating_duration_since(*since) >= PARKED_MAX;
            if is_late {
                late.push(*key);
            }
            parked && !is_late
        });
        late
    }

    /// A read waits no longer.
    pub(crate) fn unpark(&mut self, key: ClientRequestKey, at: usize) -> Ticket {
        let bucket = &mut self.buckets[at];
        bucket.parked = None;
        bucket.in_flight += 1;
        bucket.newest = Some(key);
        Ticket::Sent(at)
    }
}

/// A read as its bytes: those of two clients are identical or they are not.
pub(crate) struct Read<'a> {
    pub arrival: &'a Arrival<'a>,
    /// Where the body holds the client's default timestamp. Drivers send one with reads, too, where it
    /// means nothing.
    pub timestamp_at: Option<usize>,
}

impl Read<'_> {
    fn hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        let (before, behind) = self.around_timestamp(self.arrival.body);
        hasher.write(before);
        hasher.write(behind);
        (
            self.arrival.pool,
            self.arrival.opcode as u8,
            self.arrival.version as u8,
        )
            .hash(&mut hasher);
        self.arrival.keyspace.hash(&mut hasher);
        // The multiplication leaves the entropy in the high bits; buckets are taken from the low.
        let hash = hasher.finish();
        hash ^ (hash >> 32)
    }

    fn around_timestamp<'b>(&self, body: &'b [u8]) -> (&'b [u8], &'b [u8]) {
        match self.timestamp_at {
            Some(at) if at + 8 <= body.len() => (&body[..at], &body[at + 8..]),
            _ => (body, &[]),
        }
    }

    pub(crate) fn same_as(&self, other: &Query) -> bool {
        // With all before it equal, flags and values, the other's timestamp is at the same bucket.
        self.arrival.body.len() == other.body.len()
            && self.around_timestamp(self.arrival.body) == self.around_timestamp(&other.body)
            && self.arrival.opcode == other.opcode
            && self.arrival.version == other.version
            && self.arrival.pool == other.pool
            && self.arrival.header.flags == other.header_flags
            && self.arrival.keyspace == other.keyspace.as_ref()
    }
}
