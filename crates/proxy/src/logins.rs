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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoginLimits {
    pub total: usize,
    /// 0: addresses are not distinguished.
    pub per_address: usize,
}

/// Shared by all workers.
#[derive(Default)]
pub(crate) struct Logins {
    queue: Mutex<Queue>,
}

/// The result of requesting a permit.
pub(crate) enum Admission {
    Go(Permit),
    Wait(Waiting),
    /// Too many are waiting already.
    Refused,
}

/// A permit for a login being judged by a node; dropping it admits the next one.
pub(crate) struct Permit {
    logins: Arc<Logins>,
    address: IpAddr,
    refused: bool,
}

/// A login waiting for its permit; dropping it gives up the place in the queue.
pub(crate) struct Waiting {
    logins: Arc<Logins>,
    address: IpAddr,
    granted: oneshot::Receiver<()>,
}

impl Logins {
    pub(crate) fn ask(
        self: &Arc<Self>,
        peer: IpAddr,
        limits: LoginLimits,
        now: Instant,
    ) -> Admission {
        let address = match limits.per_address {
            0 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            _ => block_of(peer),
        };
        let logins = self.clone();
        let mut queue = self.queue();
        queue.limits = limits;
        queue.now = now;
        if queue.waiting == 0 && queue.has_room(address) {
            queue.begin(address);
            return Admission::Go(Permit::new(logins, address));
        }
        let (grant, mut granted) = oneshot::channel();
        if !queue.enqueue(address, grant) {
            return Admission::Refused;
        }
        // All waiting logins may be of addresses that are at their limit.
        queue.grant();
        if granted.try_recv().is_ok() {
            return Admission::Go(Permit::new(logins, address));
        }
        Admission::Wait(Waiting {
            logins,
            address,
            granted,
        })
    }

    /// Logins being judged, and waiting.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let queue = self.queue();
        (queue.under_way, queue.waiting)
    }

    fn end(&self, address: IpAddr, refused: bool, now: Instant) {
        let mut queue = self.queue();
        queue.now = now;
        queue.end(address, refused);
        queue.grant();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    fn new(logins: Arc<Logins>, address: IpAddr) -> Permit {
        Permit {
            logins,
            address,
            refused: false,
        }
    }

    /// Records that a node has refused the credentials.
    pub(crate) fn refused(mut self) {
        self.refused = true;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let refused = self.refused;
        self.logins.end(self.address, refused, Instant::now());
    }
}

impl Waiting {
    /// `None` if its place was given to another login.
    pub(crate) async fn permit(mut self) -> Option<Permit> {
        (&mut self.granted).await.ok()?;
        // From here on the permit returns what was granted.
        self.granted.close();
        Some(Permit::new(self.logins.clone(), self.address))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.granted.close();
        if self.granted.try_recv().is_ok() {
            self.logins.end(self.address, false, Instant::now());
        }
    }
}

struct Queue {
    limits: LoginLimits,
    now: Instant,
    under_way: usize,
    waiting: usize,
    addresses: BTreeMap<IpAddr, Address>,
    /// Addresses with waiting logins; the front is next.
    turns: VecDeque<IpAddr>,
}

struct Address {
    under_way: usize,
    waiting: VecDeque<oneshot::Sender<()>>,
    /// Refusals not forgotten yet, and since when the next one is decaying.
    refusals: u32,
    refused: Instant,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            limits: LoginLimits {
                total: 1,
                per_address: 1,
            },
            now: Instant::now(),
            under_way: 0,
            waiting: 0,
            addresses: BTreeMap::new(),
            turns: VecDeque::new(),
        }
    }
}

impl Queue {
    fn address(&mut self, address: IpAddr) -> &mut Address {
        let now = self.now;
        let entry = self.addresses.entry(address).or_insert_with(|| Address {
            under_way: 0,
            waiting: VecDeque::new(),
            refusals: 0,
            refused: now,
        });
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

    fn begin(&mut self, address: IpAddr) {
        self.under_way += 1;
        self.address(address).under_way += 1;
    }

    fn end(&mut self, address: IpAddr, refused: bool) {
        self.under_way -= 1;
        let now = self.now;
        let of_address = self.address(address);
        of_address.under_way -= 1;
        if refused {
            if of_address.refusals == 0 {
                of_address.refused = now;
            }
            of_address.refusals = (of_address.refusals + 1).min(REFUSALS_KEPT_MAX);
        }
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
    }

    /// Queues a login behind those of its address; false if too many are waiting, there or in
    /// total.
    fn enqueue(&mut self, address: IpAddr, grant: oneshot::Sender<()>) -> bool {
        let share = match self.limits.per_address {
            0 => WAITING_MAX,
            _ => WAITING_PER_ADDRESS_MAX,
        };
        if self.address(address).waiting.len() >= share {
            self.forget_gone(address);
        }
        let waiting = self.address(address).waiting.len();
        if waiting >= share || self.waiting >= WAITING_MAX && !self.displace(waiting) {
            return false;
        }
        if waiting == 0 {
            self.turns.push_back(address);
        }
        self.address(address).waiting.push_back(grant);
        self.waiting += 1;
        true
    }

    /// Removes the logins of an address whose clients have disconnected.
    fn forget_gone(&mut self, address: IpAddr) {
        let waiting = &mut self.address(address).waiting;
        let before = waiting.len();
        waiting.retain(|grant| !grant.is_closed());
        let after = waiting.len();
        self.waiting -= before - after;
        if after == 0 {
            self.turns.retain(|turn| *turn != address);
        }
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
        self.address(address).waiting.pop_back();
        self.waiting -= 1;
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
            let before = waiting.len();
            // The client may have disconnected.
            let granted =
                std::iter::from_fn(|| waiting.pop_front()).any(|grant| grant.send(()).is_ok());
            let after = waiting.len();
            self.waiting -= before - after;
            if granted {
                self.begin(address);
            }
            if after > 0 {
                self.turns.push_back(address);
            }
        }
    }
}

impl Address {
    fn is_idle(&self) -> bool {
        self.under_way == 0 && self.waiting.is_empty()
    }

    fn forget_refusals(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.refused);
        let forgotten = (since.as_millis() / REFUSAL_KEPT.as_millis()).min(u128::from(u32::MAX));
        let forgotten = forgotten as u32;
        if forgotten > 0 {
            self.refusals = self.refusals.saturating_sub(forgotten);
            self.refused += REFUSAL_KEPT * forgotten;
        }
    }
}

fn block_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests;
