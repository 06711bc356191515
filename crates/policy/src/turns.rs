//! Lets conditional writes of one partition take turns instead of colliding.
//!
//! Picture: a shop with one fitting room. Whoever comes while it is free walks in; the others queue
//! at its door, first come first served. Somebody whose dress did not fit may fetch another and come
//! back before the next in the queue, once, if that takes only a moment. Nobody queues for ever:
//! after `wait_max_us` one stops waiting and tries the public rooms.
//!
//! Formula: one item of a key runs at a time. When it ends, the head of the queue runs; but when its
//! condition did not hold, its owner has just learned the partition's present state, and only the
//! owner's next attempt is likely to succeed. So the key is kept for the owner for `grace_us`, and
//! the owner's next item overtakes the queue, once. Graces that nobody uses are soon not granted any
//! more: of the last ones, used count up, unused down, and below zero none is granted until
//! [`GRACE_REST`] turns have passed.
//!
//! An item waits for at most `wait_max_us`, then it goes on without a turn. Taking turns only spares
//! work: what keeps conditional writes correct is Paxos, and stays so.
//!
//! Source: two proposers that preempt each other again and again are the well-known weakness of
//! Paxos without a leader (L. Lamport, "Paxos Made Simple", section 2.4); a lock in the proxy is
//! proposed as future work by Kawanami et al.

use std::collections::{BTreeMap, VecDeque};

#[cfg(test)]
mod tests;

/// Bounds of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLimits {
    /// Longest wait of an item, in microseconds.
    pub wait_max_us: u64,
    /// How long a key is kept for an owner whose condition did not hold, in microseconds; 0: never.
    pub grace_us: u64,
    /// Items waiting for one key at most.
    pub waiting_max: usize,
    /// Keys with a turn at most.
    pub keys_max: usize,
}

/// Turns without a grace after graces went unused.
pub const GRACE_REST: u32 = 64;
const GRACE_CREDIT_MAX: i32 = 8;

/// What became of an item that wants its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an item that was not kept must be dealt with"]
pub enum Entered<T> {
    /// It runs; [`Turns::leave`] must follow.
    Run(T),
    /// Kept; it comes out of `leave`, `end_grace` or `give_up` later.
    Waits,
    /// A bound is reached: it goes on without a turn, and without `leave`.
    NoTurn(T),
}

/// What follows when an item has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the next item must run, a grace must be ended"]
pub enum Left<T> {
    /// This one runs now.
    Next(T),
    /// Nobody waits.
    Idle,
    /// Kept for the owner; call [`Turns::end_grace`] at this time.
    Grace { until_us: u64 },
}

#[derive(Debug)]
struct Waiter<O, T> {
    owner: O,
    item: T,
    since_us: u64,
}

#[derive(Debug)]
struct Turn<O, T> {
    waiting: VecDeque<Waiter<O, T>>,
    /// Who runs, or for whom the key is kept.
    owner: O,
    /// Kept until then, nobody runs.
    grace_until_us: Option<u64>,
    /// The one who runs has used a grace: not another one in a row.
    graced: bool,
    credit: i32,
    rest: u32,
}

/// Who may run, by key. `O` names an owner (a client connection), `T` an item (a request).
#[derive(Debug)]
pub struct Turns<K, O, T> {
    limits: TurnLimits,
    keys: BTreeMap<K, Turn<O, T>>,
    waiting: usize,
}

impl<K: Copy + Ord, O: Copy + Eq, T> Turns<K, O, T> {
    pub fn new(limits: TurnLimits) -> Self {
        Turns {
            limits,
            keys: BTreeMap::new(),
            waiting: 0,
        }
    }

    /// Puts other bounds in force, also for what waits already.
    pub fn set_limits(&mut self, limits: TurnLimits) {
        self.limits = limits;
    }

    /// An item wants to run.
    pub fn enter(&mut self, key: K, owner: O, item: T, now_us: u64) -> Entered<T> {
        let full = self.keys.len() >= self.limits.keys_max;
        let Some(turn) = self.keys.get_mut(&key) else {
            if full {
                return Entered::NoTurn(item);
            }
            self.keys.insert(
                key,
                Turn {
                    waiting: VecDeque::new(),
                    owner,
                    grace_until_us: None,
                    graced: false,
                    credit: 1,
                    rest: 0,
                },
            );
            return Entered::Run(item);
        };
        if turn.grace_until_us.is_some() && turn.owner == owner {
            turn.grace_until_us = None;
            turn.graced = true;
            turn.credit = (turn.credit + 1).min(GRACE_CREDIT_MAX);
            return Entered::Run(item);
        }
        if turn.waiting.len() >= self.limits.waiting_max {
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

    /// The item that runs has ended. `condition_failed`: it was answered, and not applied.
    ///
    /// Leaving a key that nobody has is harmless.
    pub fn leave(&mut self, key: K, condition_failed: bool, now_us: u64) -> Left<T> {
        let Some(turn) = self.keys.get_mut(&key) else {
            return Left::Idle;
        };
        if turn.waiting.is_empty() {
            self.keys.remove(&key);
            return Left::Idle;
        }
        let may = condition_failed && !turn.graced && self.limits.grace_us > 0;
        if may && turn.rest > 0 {
            turn.rest -= 1;
        } else if may {
            let until_us = now_us + self.limits.grace_us;
            turn.grace_until_us = Some(until_us);
            return Left::Grace { until_us };
        }
        match self.next(key) {
            Some(item) => Left::Next(item),
            None => Left::Idle,
        }
    }

    /// Ends a grace whose time has come; returns who runs now. Nothing if it was used or prolonged.
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
        self.next(key)
    }

    /// Takes out who has waited for too long: they go on without a turn, and without `leave`.
    pub fn give_up(&mut self, now_us: u64) -> Vec<T> {
        let mut late = Vec::new();
        if self.waiting == 0 {
            return late;
        }
        let (wait_max_us, waiting) = (self.limits.wait_max_us, &mut self.waiting);
        self.keys.retain(|_, turn| {
            let in_time = |w: &Waiter<O, T>| now_us.saturating_sub(w.since_us) < wait_max_us;
            let count = turn.waiting.iter().take_while(|w| !in_time(w)).count();
            *waiting -= count;
            late.extend(turn.waiting.drain(..count).map(|w| w.item));
            // A grace without a queue is for nobody's good.
            !(turn.waiting.is_empty() && turn.grace_until_us.is_some())
        });
        late
    }

    /// Items waiting, of all keys.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Keys that somebody has.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    fn next(&mut self, key: K) -> Option<T> {
        let turn = self.keys.get_mut(&key)?;
        turn.grace_until_us = None;
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
