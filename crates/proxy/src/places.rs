//! Places for connections of strangers: so many in all, and so many for each address (of IPv6, each /64).
//!
//! Whoever only connects must not keep others out. So where there is no place left, one that has been quiet for long
//! enough makes room: of the new one's own address if that has too many, else of the address with the most, and there
//! the one that has been quiet for longest. One for which something is being done is not quiet, up to a limit: whoever
//! has asked and then does not go on must not keep others out, either.
//!
//! All listeners of a kind share one lock, and strangers decide how often it is taken: nothing under it takes longer
//! the more connections there are, but for the depth of trees.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helenus_engine::session::login::queue::block_of;
use tokio::sync::oneshot;

/// How many connections there may be, and from which silence on one may be closed for another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub all: usize,
    pub address: usize,
    pub quiet: Duration,
}

pub(crate) struct Places {
    bounds: Bounds,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    connections: HashMap<u64, Connection>,
    of_addresses: HashMap<Address, BTreeSet<Quiet>>,
    /// The quietest of each address, by how many that has.
    quietest: BTreeMap<usize, BTreeSet<Quiet>>,
}

/// An IPv4 address or an IPv6 /64; none over a Unix socket.
type Address = Option<IpAddr>;

/// Since when a connection is quiet, or from when on it will be, and its number.
type Quiet = (Instant, u64);

struct Connection {
    address: Address,
    quiet_since: Instant,
    /// How much is being done for it.
    busy: usize,
    /// The connection ends when this is dropped.
    _stays: oneshot::Sender<()>,
}

/// The place of a connection, until this is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().remove(self.number);
    }
}

/// Something is being done for a connection, until this is dropped.
pub(crate) struct Busy(Arc<Place>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0
            .places
            .taken()
            .end_busy(self.0.number, Instant::now());
    }
}

impl Place {
    /// The connection is not quiet while something is done for it, for so long at most.
    pub(crate) fn busy(self: &Arc<Self>, at_most: Duration) -> Busy {
        let quiet_from = Instant::now() + at_most;
        self.places.taken().begin_busy(self.number, quiet_from);
        Busy(self.clone())
    }
}

impl Places {
    pub(crate) fn new(bounds: Bounds) -> Arc<Places> {
        Arc::new(Places {
            bounds,
            taken: Mutex::default(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection, and what ends when another one gets the place. None if there is none left.
    pub(crate) fn take(
        self: &Arc<Self>,
        peer: Option<IpAddr>,
        now: Instant,
    ) -> Option<(Place, oneshot::Receiver<()>)> {
        let address = peer.map(block_of);
        let mut taken = self.taken();
        taken.make_room(self.bounds, address, now)?;
        let (stays, replaced) = oneshot::channel();
        let number = taken.insert(Connection {
            address,
            quiet_since: now,
            busy: 0,
            _stays: stays,
        });
        let place = Place {
            places: self.clone(),
            number,
        };
        Some((place, replaced))
    }
}

impl Taken {
    /// None if nobody can make room.
    fn make_room(&mut self, bounds: Bounds, address: Address, now: Instant) -> Option<()> {
        let own = self.of_addresses.get(&address);
        let is_own_too_many = own.is_some_and(|own| own.len() >= bounds.address);
        if self.connections.len() < bounds.all && !is_own_too_many {
            return Some(());
        }
        let is_quiet = |of: &&Quiet| {
            let quiet = now.checked_duration_since(of.0);
            quiet.is_some_and(|quiet| quiet >= bounds.quiet)
        };
        let leaves = match own.filter(|_| is_own_too_many) {
            Some(own) => own.first().filter(is_quiet),
            None => {
                let mut most = self.quietest.values().rev();
                most.find_map(|quietest| quietest.first().filter(is_quiet))
            }
        };
        let (_, number) = *leaves?;
        self.remove(number);
        Some(())
    }

    fn insert(&mut self, connection: Connection) -> u64 {
        let number = self.next;
        self.next += 1;
        let quiet = (connection.quiet_since, number);
        self.change(connection.address, |own| own.insert(quiet));
        self.connections.insert(number, connection);
        number
    }

    fn remove(&mut self, number: u64) {
        if let Some(of) = self.connections.remove(&number) {
            self.change(of.address, |own| own.remove(&(of.quiet_since, number)));
        }
    }

    fn begin_busy(&mut self, number: u64, quiet_from: Instant) {
        if let Some(of) = self.connections.get_mut(&number) {
            of.busy += 1;
            let quiet_since = of.quiet_since.max(quiet_from);
            self.set_quiet_since(number, quiet_since);
        }
    }

    fn end_busy(&mut self, number: u64, now: Instant) {
        if let Some(of) = self.connections.get_mut(&number) {
            of.busy -= 1;
            if of.busy == 0 {
                self.set_quiet_since(number, now);
            }
        }
    }

    fn set_quiet_since(&mut self, number: u64, quiet_since: Instant) {
        if let Some(of) = self.connections.get_mut(&number) {
            let (address, before) = (of.address, of.quiet_since);
            of.quiet_since = quiet_since;
            self.change(address, |own| {
                own.remove(&(before, number));
                own.insert((quiet_since, number))
            });
        }
    }

    /// Changes what an address has, and keeps account of its quietest.
    fn change(&mut self, address: Address, act: impl FnOnce(&mut BTreeSet<Quiet>) -> bool) {
        let own = self.of_addresses.entry(address).or_default();
        if let Some(first) = own.first()
            && let Some(quietest) = self.quietest.get_mut(&own.len())
        {
            quietest.remove(first);
            if quietest.is_empty() {
                self.quietest.remove(&own.len());
            }
        }
        act(own);
        match own.first() {
            Some(first) => {
                self.quietest.entry(own.len()).or_default().insert(*first);
            }
            None => {
                self.of_addresses.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests;
