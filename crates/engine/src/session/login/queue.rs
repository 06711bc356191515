//! Limits how many logins the nodes judge at a time, and decides which is next.
//!
//! Judging a password costs a node tens of milliseconds of CPU, whoever requests it. So the number
//! of logins being judged at a time is bounded, in total and per address, and the others wait.
//! Waiting addresses are served round-robin, so many logins of one address delay another's by at
//! most one. If logins from an address keep being refused, they are judged one at a time: a flood
//! of wrong passwords uses no more than one core of the cluster, and a correct one among them still
//! gets through.
//!
//! An address is an IPv4 address or an IPv6 /64, because a single host usually has a whole /64.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use crate::config::Limits;
use crate::keys::SessionKey;
use crate::support::sync::{Mutex, MutexGuard, PoisonError};

/// Bounds on waiting logins, in total and per address.
const WAITING_MAX: usize = 8_192;
const WAITING_PER_ADDRESS_MAX: usize = 2_048;
/// Refusals after which logins of an address are judged one at a time; each is forgotten after a
/// while.
const REFUSALS_MAX: u32 = 10;
const REFUSALS_KEPT_MAX: u32 = 60;
const REFUSAL_KEPT: Duration = Duration::from_secs(1);
/// Addresses remembered for their refusals.
const ADDRESSES_MAX: usize = 4_096;

/// `limits.logins_max` and `limits.logins_per_address_max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoginLimits {
    pub total: usize,
    /// 0: addresses are not distinguished.
    pub per_address: usize,
}

/// A login: its worker and its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Applicant {
    pub worker: usize,
    pub session: SessionKey,
}

/// The result of requesting a permit. One that is granted is to be returned by [`Logins::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Go,
    /// A [`Notice`] will tell.
    Wait,
    /// Too many are waiting already.
    Refused,
}

/// A notice to a login that has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub to: Applicant,
    /// It has its permit; otherwise its place was given to another login.
    pub is_granted: bool,
}

/// The queue of a proxy, shared by all workers.
#[derive(Default)]
pub struct Logins {
    queue: Mutex<Queue>,
}

impl LoginLimits {
    pub(crate) fn of(limits: &Limits) -> LoginLimits {
        LoginLimits {
            total: limits.logins_max,
            per_address: limits.logins_per_address_max,
        }
    }
}

impl Logins {
    /// Requests a permit. The notices are for others.
    pub(crate) fn ask(
        &self,
        applicant: Applicant,
        peer: IpAddr,
        limits: LoginLimits,
        now: Instant,
    ) -> (Admission, Vec<Notice>) {
        self.with(now, |queue| queue.ask(applicant, peer, limits))
    }

    /// A login has been judged, or nobody waits for it any more; `refused`: a node has refused the
    /// credentials.
    pub(crate) fn end(&self, applicant: Applicant, refused: bool, now: Instant) -> Vec<Notice> {
        self.with(now, |queue| queue.end(applicant, refused)).1
    }

    /// Grants what has become free by itself, or by the end of a worker.
    pub(crate) fn grant(&self, now: Instant) -> Vec<Notice> {
        self.with(now, Queue::grant).1
    }

    /// A worker has ended, and its logins with it. Other workers notice by their next
    /// [`Logins::grant`].
    pub(crate) fn forget_worker(&self, worker: usize) {
        self.queue().forget_worker(worker);
    }

    /// Logins being judged, and waiting.
    pub fn counts(&self) -> (usize, usize) {
        let queue = self.queue();
        (queue.under_way, queue.waiting)
    }

    /// The logins of a worker, and whether they have a permit.
    pub(crate) fn of_worker(&self, worker: usize) -> BTreeMap<SessionKey, bool> {
        let queue = self.queue();
        let places = queue.places.iter();
        let its = places.filter(|(applicant, _)| applicant.worker == worker);
        its.map(|(applicant, place)| (applicant.session, place.has_permit))
            .collect()
    }

    fn with<R>(&self, now: Instant, act: impl FnOnce(&mut Queue) -> R) -> (R, Vec<Notice>) {
        let mut queue = self.queue();
        queue.now = Some(now);
        let result = act(&mut queue);
        (result, std::mem::take(&mut queue.notices))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Queue {
    limits: LoginLimits,
    /// Set by every call that needs it.
    now: Option<Instant>,
    under_way: usize,
    waiting: usize,
    places: BTreeMap<Applicant, Place>,
    addresses: BTreeMap<IpAddr, Address>,
    /// Addresses with waiting logins; the front is next.
    turns: VecDeque<IpAddr>,
    notices: Vec<Notice>,
}

struct Place {
    address: IpAddr,
    has_permit: bool,
}

#[derive(Default)]
struct Address {
    under_way: usize,
    waiting: VecDeque<Applicant>,
    /// Refusals not forgotten yet, and since when the next one is decaying.
    refusals: u32,
    refused: Option<Instant>,
}

impl Queue {
    fn ask(&mut self, applicant: Applicant, peer: IpAddr, limits: LoginLimits) -> Admission {
        let address = match limits.per_address {
            0 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            _ => block_of(peer),
        };
        self.limits = limits;
        if self.waiting == 0 && self.has_room(address) {
            let has_permit = false;
            let place = Place {
                address,
                has_permit,
            };
            self.places.insert(applicant, place);
            self.begin(applicant, address);
            return Admission::Go;
        }
        if !self.enqueue(applicant, address) {
            return Admission::Refused;
        }
        // All waiting logins may be of addresses that are at their limit.
        self.grant();
        let own = Notice {
            to: applicant,
            is_granted: true,
        };
        match self.notices.iter().position(|notice| *notice == own) {
            Some(at) => {
                self.notices.remove(at);
                Admission::Go
            }
            None => Admission::Wait,
        }
    }

    fn address(&mut self, address: IpAddr) -> &mut Address {
        let now = self.now;
        let entry = self.addresses.entry(address).or_default();
        entry.forget_refusals(now);
        entry
    }

    fn has_room(&mut self, address: IpAddr) -> bool {
        let LoginLimits { total, per_address } = self.limits;
        let under_way = self.under_way;
        let of_address = self.address(address);
        let share = match per_address {
            0 => total,
            _ if of_address.refusals >= REFUSALS_MAX => 1,
            _ => per_address,
        };
        under_way < total && of_address.under_way < share
    }

    fn begin(&mut self, applicant: Applicant, address: IpAddr) {
        if let Some(place) = self.places.get_mut(&applicant) {
            place.has_permit = true;
        }
        self.under_way += 1;
        self.address(address).under_way += 1;
    }

    /// Takes back a permit, or a place among those that wait.
    fn end(&mut self, applicant: Applicant, refused: bool) {
        let Some(Place {
            address,
            has_permit,
        }) = self.places.remove(&applicant)
        else {
            return;
        };
        let now = self.now;
        if has_permit {
            self.under_way -= 1;
            let of_address = self.address(address);
            of_address.under_way -= 1;
            if refused {
                if of_address.refusals == 0 {
                    of_address.refused = now;
                }
                of_address.refusals = (of_address.refusals + 1).min(REFUSALS_KEPT_MAX);
            }
        } else {
            self.stop_waiting(applicant, address);
        }
        let of_address = self.address(address);
        if of_address.is_idle() && of_address.refusals == 0 {
            self.addresses.remove(&address);
        }
        if self.addresses.len() > ADDRESSES_MAX {
            self.addresses.retain(|_, address| {
                address.forget_refusals(now);
                !address.is_idle() || address.refusals > 0
            });
        }
        if self.addresses.len() > ADDRESSES_MAX {
            self.addresses.retain(|_, address| !address.is_idle());
        }
        self.grant();
    }

    fn forget_worker(&mut self, worker: usize) {
        let its = self.places.keys().filter(|place| place.worker == worker);
        for applicant in its.copied().collect::<Vec<_>>() {
            let Some(place) = self.places.remove(&applicant) else {
                continue;
            };
            if place.has_permit {
                self.under_way -= 1;
                self.address(place.address).under_way -= 1;
            } else {
                self.stop_waiting(applicant, place.address);
            }
        }
    }

    fn stop_waiting(&mut self, applicant: Applicant, address: IpAddr) {
        let waiting = &mut self.address(address).waiting;
        let before = waiting.len();
        waiting.retain(|other| *other != applicant);
        let after = waiting.len();
        self.waiting -= before - after;
        if after == 0 {
            self.turns.retain(|turn| *turn != address);
        }
    }

    /// Queues a login behind those of its address; false if too many are waiting, there or in
    /// total.
    fn enqueue(&mut self, applicant: Applicant, address: IpAddr) -> bool {
        let share = match self.limits.per_address {
            0 => WAITING_MAX,
            _ => WAITING_PER_ADDRESS_MAX,
        };
        let waiting = self.address(address).waiting.len();
        if waiting >= share || self.waiting >= WAITING_MAX && !self.displace(waiting) {
            return false;
        }
        if waiting == 0 {
            self.turns.push_back(address);
        }
        self.address(address).waiting.push_back(applicant);
        let has_permit = false;
        let place = Place {
            address,
            has_permit,
        };
        self.places.insert(applicant, place);
        self.waiting += 1;
        true
    }

    /// Makes room for a login of an address that has few waiting, by removing one of an address
    /// that has many more.
    fn displace(&mut self, few: usize) -> bool {
        let many = self.addresses.iter().map(|(a, of)| (of.waiting.len(), *a));
        let Some((most, address)) = many.max() else {
            return false;
        };
        if most <= few + 1 {
            return false;
        }
        if let Some(to) = self.address(address).waiting.pop_back() {
            self.waiting -= 1;
            self.places.remove(&to);
            let is_granted = false;
            self.notices.push(Notice { to, is_granted });
        }
        true
    }

    /// Grants permits as far as the limits allow.
    fn grant(&mut self) {
        let mut without_room = 0;
        while self.under_way < self.limits.total && without_room < self.turns.len() {
            let Some(address) = self.turns.pop_front() else {
                return;
            };
            if !self.has_room(address) {
                self.turns.push_back(address);
                without_room += 1;
                continue;
            }
            without_room = 0;
            let waiting = &mut self.address(address).waiting;
            let next = waiting.pop_front();
            let is_last = waiting.is_empty();
            if let Some(to) = next {
                self.waiting -= 1;
                self.begin(to, address);
                let is_granted = true;
                self.notices.push(Notice { to, is_granted });
            }
            if !is_last {
                self.turns.push_back(address);
            }
        }
    }
}

impl Address {
    fn is_idle(&self) -> bool {
        self.under_way == 0 && self.waiting.is_empty()
    }

    fn forget_refusals(&mut self, now: Option<Instant>) {
        let (Some(now), Some(refused)) = (now, self.refused) else {
            return;
        };
        let since = now.saturating_duration_since(refused);
        let forgotten = (since.as_millis() / REFUSAL_KEPT.as_millis()).min(u128::from(u32::MAX));
        let forgotten = forgotten as u32;
        if forgotten > 0 {
            self.refusals = self.refusals.saturating_sub(forgotten);
            self.refused = Some(refused + REFUSAL_KEPT * forgotten);
        }
    }
}

/// The address that counts as one: an IPv4 address, also written as IPv6, or an IPv6 /64.
pub fn block_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) >> 64 << 64).into(),
        v4 => v4,
    }
}

// Named, as `crates/interleavings` finds this file by its path.
#[cfg(test)]
#[path = "queue/tests.rs"]
mod tests;
