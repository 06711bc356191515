//! Lets conditional writes of one partition run one at a time instead of colliding.
//!
//! Formula: per key one item runs, and the others queue, first come, first served. When the running
//! item ends, the head of the queue runs next. But if its condition did not hold, its owner has
//! just learned the partition's current state, and only the owner's next attempt is likely to
//! succeed: the key is reserved for the owner for `grace_us`, during which the owner's next item
//! skips the queue, once. Credit decides whether such a grace is granted: a used one raises it, an
//! unused one lowers it, and below zero none is granted until [`GRACE_REST`] turns have passed. An
//! item waits for at most `wait_max_us`, then it proceeds without a turn. An item that has run for as
//! long is taken for lost: until it ends, the others of its key proceed without turns.
//!
//! Turns are of no use where clients read a value and then write on the condition that it is still
//! there: what waits is out of date by its turn. So they stand aside from a key of which conditions
//! fail again and again while others wait: a failed one counts one, one that held takes
//! [`HELD_COUNTS`] back, and at [`STALE_MAX`] all items of the key proceed without turns for
//! [`ASIDE_MIN_US`]. Then turns are tried again, up to [`STALE_AGAIN_MAX`] only, and if they are still of no use they
//! stand aside for twice as long, up to [`ASIDE_MAX_US`].
//!
//! Evidence: `turns/tests.rs` runs random schedules: at most one item with a turn per key, none
//! lost or duplicated, order and bound kept. `helenus bench aggregation` measures compare-and-set
//! on one row (`cas_vs_direct`, `cas_queue_on_vs_off`).
//!
//! Limits: turns only save work; correctness is Paxos's alone. Several proxies, and clients that
//! bypass them, still compete with each other.
//!
//! Source: proposers that keep preempting each other are the known weakness of Paxos without a
//! leader (L. Lamport, "Paxos Made Simple", section 2.4); a lock in the proxy is proposed as future
//! work by Kawanami et al.

use std::collections::{BTreeMap, VecDeque};

#[cfg(test)]
mod tests;

/// Bounds of [`Turns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLimits {
    /// Longest wait of an item, in microseconds.
    pub wait_max_us: u64,
    /// How long a key is reserved for an owner whose condition did not hold, in microseconds; 0:
    /// never.
    pub grace_us: u64,
    /// Maximum number of items waiting for one key.
    pub waiting_max: usize,
    /// Maximum number of keys in use.
    pub keys_max: usize,
}

/// Turns without a grace after too many graces went unused.
pub const GRACE_REST: u32 = 64;
const GRACE_CREDIT_MAX: i32 = 8;

/// Conditions that fail while others wait, less those that hold, from which on turns stand aside.
pub const STALE_MAX: u32 = 8;
/// [`STALE_MAX`] where turns have stood aside of late.
pub const STALE_AGAIN_MAX: u32 = 2;
/// How many failed ones a condition makes good that holds: with a grace for each, one in two fails.
pub const HELD_COUNTS: u32 = 2;
/// How long turns stand aside from a key, at first.
pub const ASIDE_MIN_US: u64 = 1_000_000;
/// And at last.
pub const ASIDE_MAX_US: u64 = 32_000_000;

/// The result of [`Turns::enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an item that was not kept must be dealt with"]
pub enum Entered<T> {
    /// It runs; [`Turns::leave`] must follow.
    Run(T),
    /// Queued; `leave`, `end_grace` or `give_up` returns it later.
    Waits,
    /// A bound is reached: it proceeds without a turn, and without `leave`.
    NoTurn(T),
}

/// The outcome of the condition of an item that has run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// It was answered, and applied.
    Held,
    /// It was answered, but not applied.
    Failed,
    /// Nobody knows: it timed out, or was given up.
    #[default]
    Unknown,
}

/// The result of [`Turns::leave`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the next item must run, a grace must be ended"]
pub enum Left<T> {
    /// This one runs now.
    Next(T),
    /// Nothing waits.
    Idle,
    /// Reserved for the owner; call [`Turns::end_grace`] at this time.
    Grace { until_us: u64 },
    /// Turns stand aside: all that have waited proceed without a turn, and without `leave`.
    Aside(Vec<T>),
}

#[derive(Debug)]
struct Waiter<O, T> {
    owner: O,
    item: T,
    since_us: u64,
}

#[derive(Debug)]
struct KeyState<O, T> {
    waiting: VecDeque<Waiter<O, T>>,
    /// The owner of the running item, or the owner the key is reserved for.
    owner: O,
    /// When the running item began.
    since_us: u64,
    /// If set, the key is reserved until then and nothing runs.
    grace_until_us: Option<u64>,
    /// The running item has used a grace; no second one in a row.
    graced: bool,
    credit: i32,
    /// Turns left without a grace.
    rest: u32,
    /// Conditions that failed while others waited, less those that held.
    stale: u32,
}

/// A key from which turns stand aside, or have lately.
#[derive(Debug)]
struct Aside {
    until_us: u64,
    /// How long it is, or was.
    for_us: u64,
}

/// Which item may run, by key. `O` identifies an owner (a client connection), `T` is an item (a
/// request).
#[derive(Debug)]
pub struct Turns<K, O, T> {
    limits: TurnLimits,
    keys: BTreeMap<K, KeyState<O, T>>,
    aside: BTreeMap<K, Aside>,
    /// When some of them may be forgotten next.
    aside_next_us: u64,
    waiting: usize,
}

impl<K: Copy + Ord, O: Copy + Eq, T> Turns<K, O, T> {
    pub fn new(limits: TurnLimits) -> Self {
        Turns {
            limits,
            keys: BTreeMap::new(),
            aside: BTreeMap::new(),
            aside_next_us: 0,
            waiting: 0,
        }
    }

    /// Changes the bounds, also for items that already wait.
    pub fn set_limits(&mut self, limits: TurnLimits) {
        self.limits = limits;
    }

    /// An item wants to run.
    pub fn enter(&mut self, key: K, owner: O, item: T, now_us: u64) -> Entered<T> {
        let is_aside = |aside: &Aside| aside.until_us > now_us;
        if self.aside.get(&key).is_some_and(is_aside) {
            return Entered::NoTurn(item);
        }
        let full = self.keys.len() >= self.limits.keys_max;
        let Some(turn) = self.keys.get_mut(&key) else {
            if full {
                return Entered::NoTurn(item);
            }
            self.keys.insert(
                key,
                KeyState {
                    waiting: VecDeque::new(),
                    owner,
                    since_us: now_us,
                    grace_until_us: None,
                    graced: false,
                    credit: 1,
                    rest: 0,
                    stale: 0,
                },
            );
            return Entered::Run(item);
        };
        if turn.grace_until_us.is_some() && turn.owner == owner {
            turn.grace_until_us = None;
            turn.since_us = now_us;
            turn.graced = true;
            turn.credit = (turn.credit + 1).min(GRACE_CREDIT_MAX);
            return Entered::Run(item);
        }
        if turn.waiting.len() >= self.limits.waiting_max || turn.is_lost(now_us, &self.limits) {
            return Entered::NoTurn(item);
        }
        turn.waiting.push_back(Waiter {
            owner,
            item,
            since_us: now_us,
        });
        self.waiting += 1;
        Entered::Waits
    }

    /// The running item has ended.
    ///
    /// Leaving a key that is not in use is harmless.
    pub fn leave(&mut self, key: K, condition: Condition, now_us: u64) -> Left<T> {
        let Some(turn) = self.keys.get_mut(&key) else {
            return Left::Idle;
        };
        if turn.waiting.is_empty() {
            self.keys.remove(&key);
            return Left::Idle;
        }
        turn.stale = match condition {
            Condition::Failed => turn.stale + 1,
            Condition::Held => turn.stale.saturating_sub(HELD_COUNTS),
            Condition::Unknown => turn.stale,
        };
        let stale_max = match self.aside.contains_key(&key) {
            true => STALE_AGAIN_MAX,
            false => STALE_MAX,
        };
        if turn.stale >= stale_max {
            return Left::Aside(self.stand_aside(key, now_us));
        }
        let has_failed = condition == Condition::Failed;
        let may_grace = has_failed && !turn.graced && self.limits.grace_us > 0;
        if may_grace && turn.rest > 0 {
            turn.rest -= 1;
        } else if may_grace {
            let until_us = now_us + self.limits.grace_us;
            turn.grace_until_us = Some(until_us);
            return Left::Grace { until_us };
        }
        match self.next(key, now_us) {
            Some(item) => Left::Next(item),
            None => Left::Idle,
        }
    }

    /// Ends an expired grace and returns the item that runs next. None if the grace was used or has
    /// not expired.
    pub fn end_grace(&mut self, key: K, now_us: u64) -> Option<T> {
        let turn = self.keys.get_mut(&key)?;
        if turn.grace_until_us.is_none_or(|until| until > now_us) {
            return None;
        }
        turn.credit -= 1;
        if turn.credit < 0 {
            turn.credit = 1;
            turn.rest = GRACE_REST;
        }
        self.next(key, now_us)
    }

    /// All that wait for the key go; returns them.
    fn stand_aside(&mut self, key: K, now_us: u64) -> Vec<T> {
        let again = self.aside.get(&key).map(|aside| 2 * aside.for_us);
        let for_us = again.unwrap_or(ASIDE_MIN_US).min(ASIDE_MAX_US);
        if again.is_some() || self.aside.len() < self.limits.keys_max {
            let until_us = now_us + for_us;
            self.aside.insert(key, Aside { until_us, for_us });
        }
        let waiting = self
            .keys
            .remove(&key)
            .map_or_else(VecDeque::new, |turn| turn.waiting);
        self.waiting -= waiting.len();
        waiting.into_iter().map(|w| w.item).collect()
    }

    /// Removes items that have waited too long: they proceed without a turn, and without `leave`. To be called now and
    /// then.
    pub fn give_up(&mut self, now_us: u64) -> Vec<T> {
        let mut late = Vec::new();
        // If turns have been of use for as long as they stood aside, that is forgotten.
        if now_us >= self.aside_next_us {
            self.aside
                .retain(|_, aside| aside.until_us + aside.for_us > now_us);
            self.aside_next_us = now_us + ASIDE_MIN_US;
        }
        if self.waiting == 0 {
            return late;
        }
        let (limits, waiting) = (&self.limits, &mut self.waiting);
        self.keys.retain(|_, turn| {
            let is_lost = turn.is_lost(now_us, limits);
            let in_time = |w: &Waiter<O, T>| {
                !is_lost && now_us.saturating_sub(w.since_us) < limits.wait_max_us
            };
            let count = turn.waiting.iter().take_while(|w| !in_time(w)).count();
            *waiting -= count;
            late.extend(turn.waiting.drain(..count).map(|w| w.item));
            // Without a queue, the reservation serves no purpose.
            !(turn.waiting.is_empty() && turn.grace_until_us.is_some())
        });
        late
    }

    /// Items waiting, over all keys.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Keys in use.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    fn next(&mut self, key: K, now_us: u64) -> Option<T> {
        let turn = self.keys.get_mut(&key)?;
        turn.grace_until_us = None;
        turn.since_us = now_us;
        turn.graced = false;
        match turn.waiting.pop_front() {
            Some(waiter) => {
                self.waiting -= 1;
                turn.owner = waiter.owner;
                Some(waiter.item)
            }
            None => {
                self.keys.remove(&key);
                None
            }
        }
    }
}

impl<O, T> KeyState<O, T> {
    /// True if the running item has run for so long that nobody should wait for it any more.
    fn is_lost(&self, now_us: u64, limits: &TurnLimits) -> bool {
        self.grace_until_us.is_none() && now_us.saturating_sub(self.since_us) >= limits.wait_max_us
    }
}
