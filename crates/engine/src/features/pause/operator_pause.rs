//! Pauses that operators ask for (`POST /api/pause`): requests of a role or about a keyspace wait in the proxy,
//! instead of failing, while something is done to the cluster that they would trip over.
//!
//! Bounded in time and in number: a pause ends by itself, and requests beyond its bound get OVERLOADED. Exact
//! over all workers: the number of those that wait is one atomic, and so is the number of their bytes. What
//! waits counts for `limits.memory_max`, of which it may take one in [`MEMORY_SHARE`].

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::stats::add;

/// Pauses at a time.
const HOLDS_MAX: usize = 16;
/// A pause is no longer than this.
pub const HOLD_MAX: Duration = Duration::from_secs(600);
/// Requests that wait because of one pause at most.
pub const HELD_MAX: u32 = 100_000;
/// All that waits because of pauses takes at most this part of `limits.memory_max`.
pub(crate) const MEMORY_SHARE: usize = 8;

/// Something was paused or resumed.
#[derive(Clone, Copy, Debug)]
pub struct Changed;

/// Whose requests a pause is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paused {
    Role(Box<str>),
    /// Requests about it and its tables, and those that may be.
    Keyspace(Box<str>),
}

impl std::fmt::Display for Paused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Paused::Role(role) => write!(f, "role {role}"),
            Paused::Keyspace(keyspace) => write!(f, "keyspace {keyspace}"),
        }
    }
}

/// Why there is no pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoHold {
    #[error("it is paused already: resume it first")]
    Paused,
    #[error("there may be {HOLDS_MAX} pauses at a time: resume another first")]
    TooMany,
}

/// A pause.
#[derive(Debug)]
pub struct Hold {
    pub of: Paused,
    /// When it ends by itself.
    pub until: Instant,
    pub requests_max: u32,
    is_ended: AtomicBool,
    waiting: AtomicU32,
    /// Bytes of all requests that wait, for whichever pause.
    bytes: Arc<AtomicUsize>,
    /// Requests that have waited or wait, and those that were refused.
    pub held: AtomicU64,
    pub refused: AtomicU64,
}

impl Hold {
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.until || self.is_ended.load(Ordering::Acquire)
    }

    /// Requests that wait now, over all workers.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Lets one more request wait, of so many bytes, if all together are not more than may be.
    ///
    /// # Errors
    /// Why it must not.
    pub(crate) fn admit(
        self: &Arc<Hold>,
        bytes: usize,
        bytes_max: usize,
    ) -> Result<HeldPlace, String> {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Dropped, it takes back the bytes of one too many.
        let bytes = HeldBytes(self.bytes.clone(), bytes);
        if before.saturating_add(bytes.1) > bytes_max {
            add(&self.refused, 1);
            return Err(format!(
                "Helenus: {} is paused by an operator, and the requests that wait take as many bytes as they \
                 may ({bytes_max}, a part of limits.memory_max)",
                self.of
            ));
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.requests_max {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            add(&self.refused, 1);
            return Err(format!(
                "Helenus: {} is paused by an operator, and as many requests wait as may ({})",
                self.of, self.requests_max
            ));
        }
        add(&self.held, 1);
        Ok(HeldPlace {
            hold: self.clone(),
            _bytes: bytes,
        })
    }

    /// The error's text for a request that has waited for longer than it may.
    pub(crate) fn too_long(&self, limit: Duration) -> String {
        format!(
            "Helenus: {} is paused by an operator, and this request has waited for {limit:?}",
            self.of
        )
    }
}

/// A request's place among those that wait, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct HeldPlace {
    hold: Arc<Hold>,
    _bytes: HeldBytes,
}

/// Bytes of requests that wait, and how many of them are one's own.
#[derive(Debug)]
struct HeldBytes(Arc<AtomicUsize>, usize);

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        self.hold.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The pauses of one proxy.
#[derive(Debug, Default)]
pub struct Holds {
    list: Mutex<Vec<Arc<Hold>>>,
    bytes: Arc<AtomicUsize>,
}

impl Holds {
    /// Pauses something; workers are to be told ([`Changed`]).
    ///
    /// # Errors
    /// Why not.
    pub fn begin(
        &self,
        of: Paused,
        now: Instant,
        time: Duration,
        requests_max: u32,
    ) -> Result<Arc<Hold>, NoHold> {
        let mut holds = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        holds.retain(|hold| !hold.is_over(now));
        if holds.iter().any(|hold| hold.of == of) {
            return Err(NoHold::Paused);
        }
        if holds.len() >= HOLDS_MAX {
            return Err(NoHold::TooMany);
        }
        let hold = Arc::new(Hold {
            of,
            until: now + time.min(HOLD_MAX),
            requests_max: requests_max.min(HELD_MAX),
            is_ended: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
            bytes: self.bytes.clone(),
            held: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        holds.push(hold.clone());
        Ok(hold)
    }

    /// Ends the pause of this, or, of `None`, all; workers are to be told. Those that were in force.
    pub fn end(&self, of: Option<&Paused>, now: Instant) -> Vec<Arc<Hold>> {
        let mut holds = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        holds.retain(|hold| !hold.is_over(now));
        let is_meant = |hold: &Arc<Hold>| of.is_none_or(|of| hold.of == *of);
        let ended: Vec<Arc<Hold>> = holds
            .iter()
            .filter(|hold| is_meant(hold))
            .cloned()
            .collect();
        holds.retain(|hold| !is_meant(hold));
        for hold in &ended {
            hold.is_ended.store(true, Ordering::Release);
        }
        ended
    }

    /// Those in force.
    pub fn list(&self, now: Instant) -> Vec<Arc<Hold>> {
        let holds = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        holds
            .iter()
            .filter(|hold| !hold.is_over(now))
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn app() -> Paused {
        Paused::Keyspace("app".into())
    }

    #[test]
    fn a_pause_ends_by_itself_or_when_it_is_told_to() {
        let (holds, now) = (Holds::default(), crate::testing::begin());
        let hold = holds.begin(app(), now, S, 10).expect("a pause");
        assert_eq!(
            holds.begin(app(), now, S, 10).expect_err("twice"),
            NoHold::Paused
        );
        assert!(!hold.is_over(now) && hold.is_over(now + S));
        assert_eq!(holds.list(now).len(), 1);
        assert!(holds.list(now + S).is_empty());
        let again = holds
            .begin(app(), now + S, S, 10)
            .expect("the first is over");
        assert!(
            holds
                .end(Some(&Paused::Role("app".into())), now + S)
                .is_empty()
        );
        assert_eq!(holds.end(Some(&app()), now + S).len(), 1);
        assert!(again.is_over(now + S));
        let long = holds
            .begin(app(), now, 100 * HOLD_MAX, u32::MAX)
            .expect("a pause");
        assert_eq!((long.until, long.requests_max), (now + HOLD_MAX, HELD_MAX));
        for n in 1..HOLDS_MAX {
            let role = Paused::Role(n.to_string().into());
            assert!(holds.begin(role, now, S, 1).is_ok());
        }
        let role = Paused::Role("one more".into());
        assert_eq!(
            holds.begin(role, now, S, 1).expect_err("full"),
            NoHold::TooMany
        );
        assert_eq!(holds.end(None, now).len(), HOLDS_MAX);
    }

    #[test]
    fn places_are_counted_and_given_back() {
        let (holds, now) = (Holds::default(), crate::testing::begin());
        let hold = holds.begin(app(), now, S, 2).expect("a pause");
        let admit = |bytes| hold.admit(bytes, 100);
        let places = [admit(50).expect("room"), admit(50).expect("room")];
        let refused = admit(0).expect_err("full");
        assert!(refused.contains("keyspace app is paused"), "{refused}");
        assert_eq!(hold.waiting(), 2);
        drop(places);
        assert_eq!(hold.waiting(), 0);
        assert!(admit(100).is_ok());
        let refused = admit(101).expect_err("too many bytes");
        assert!(
            refused.contains("keyspace app is paused") && refused.contains("memory_max"),
            "{refused}"
        );
        // They are counted over all pauses, and what was refused is not.
        let other = holds.begin(Paused::Role("app".into()), now, S, 2);
        let other = other.expect("another pause");
        let place = other.admit(60, 100).expect("room");
        assert!(admit(41).is_err() && admit(40).is_ok());
        drop(place);
        assert!(admit(100).is_ok());
        assert_eq!(hold.held.load(Ordering::Relaxed), 5);
        assert_eq!(hold.refused.load(Ordering::Relaxed), 3);
    }
}
