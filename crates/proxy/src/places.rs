//! Places for connections of strangers: so many in all, and so many for each address.
//!
//! Whoever only connects must not keep others out. So where there is no place left, one that has been quiet for long
//! enough makes room: of the new one's own address if that has too many, else of the address with the most, and there
//! the one that has been quiet for longest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
    connections: BTreeMap<u64, Connection>,
}

struct Connection {
    /// Of whoever has connected; none over a Unix socket.
    address: Option<IpAddr>,
    /// Something is being done for it.
    is_busy: bool,
    quiet_since: Instant,
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
        self.places.taken().connections.remove(&self.number);
    }
}

impl Place {
    /// Something is being done for the connection from now on, or no longer.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        if let Some(of) = self.places.taken().connections.get_mut(&self.number) {
            (of.is_busy, of.quiet_since) = (is_busy, Instant::now());
        }
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
        address: Option<IpAddr>,
        now: Instant,
    ) -> Option<(Place, oneshot::Receiver<()>)> {
        let mut taken = self.taken();
        taken.make_room(self.bounds, address, now)?;
        let number = taken.next;
        taken.next += 1;
        let (stays, replaced) = oneshot::channel();
        let connection = Connection {
            address,
            is_busy: false,
            quiet_since: now,
            _stays: stays,
        };
        taken.connections.insert(number, connection);
        let place = Place {
            places: self.clone(),
            number,
        };
        Some((place, replaced))
    }
}

impl Taken {
    /// None if nobody can make room.
    fn make_room(&mut self, bounds: Bounds, address: Option<IpAddr>, now: Instant) -> Option<()> {
        if self.connections.len() < bounds.address.min(bounds.all) {
            return Some(());
        }
        let mut of_addresses: HashMap<Option<IpAddr>, usize> = HashMap::new();
        for connection in self.connections.values() {
            *of_addresses.entry(connection.address).or_default() += 1;
        }
        let count_of = |address: &Option<IpAddr>| of_addresses.get(address).copied().unwrap_or(0);
        let is_own_too_many = count_of(&address) >= bounds.address;
        if self.connections.len() < bounds.all && !is_own_too_many {
            return Some(());
        }
        let quiet = self.connections.iter().filter(|(_, of)| {
            let is_meant = !is_own_too_many || of.address == address;
            is_meant && !of.is_busy && now.saturating_duration_since(of.quiet_since) >= bounds.quiet
        });
        let (number, _) = quiet.max_by_key(|(number, of)| {
            (count_of(&of.address), Reverse((of.quiet_since, **number)))
        })?;
        let number = *number;
        self.connections.remove(&number);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    fn has_ended(replaced: &mut oneshot::Receiver<()>) -> bool {
        replaced.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    fn bounds(all: usize, address: usize, seconds: u64) -> Bounds {
        Bounds {
            all,
            address,
            quiet: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn the_quietest_of_the_address_with_the_most_makes_room_and_none_that_is_busy() {
        let places = Places::new(bounds(4, 4, 0));
        let take = |of| places.take(address(of), Instant::now()).expect("a place");
        let (_probe, mut probe_ends) = take(1);
        let (first, mut first_ends) = take(2);
        let (_second, mut second_ends) = take(2);
        let (_third, mut third_ends) = take(2);
        first.set_busy(true);
        let (_fourth, mut fourth_ends) = take(3);
        assert!(has_ended(&mut second_ends), "the first is busy");
        assert!(!has_ended(&mut first_ends) && !has_ended(&mut third_ends));
        first.set_busy(false);
        let (_fifth, _fifth_ends) = take(3);
        assert!(has_ended(&mut third_ends), "the first was busy until now");
        assert!(!has_ended(&mut first_ends) && !has_ended(&mut fourth_ends));
        assert!(!has_ended(&mut probe_ends), "its address has one");
    }

    #[test]
    fn an_address_that_has_its_share_gets_no_other_ones_place() {
        let places = Places::new(bounds(10, 2, 5));
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let (_other, mut other_ends) = places.take(address(1), at(0)).expect("a place");
        let (_first, mut first_ends) = places.take(address(2), at(0)).expect("a place");
        let (_second, mut second_ends) = places.take(address(2), at(1)).expect("a place");
        assert!(
            places.take(address(2), at(4)).is_none(),
            "none is quiet for 5 s"
        );
        assert!(places.take(address(2), at(5)).is_some());
        assert!(has_ended(&mut first_ends) && !has_ended(&mut second_ends));
        assert!(!has_ended(&mut other_ends));
    }

    #[test]
    fn nobody_is_taken_while_all_are_busy_and_the_place_of_one_that_ends_is_free() {
        let places = Places::new(bounds(1, 1, 0));
        let (place, _replaced) = places.take(None, Instant::now()).expect("a place");
        place.set_busy(true);
        assert!(places.take(None, Instant::now()).is_none());
        drop(place);
        assert!(places.take(None, Instant::now()).is_some());
    }
}
