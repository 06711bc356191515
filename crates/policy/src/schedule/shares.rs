//! Decides which tenant of a node is next, over all the queues that have something waiting for it: each
//! worker has a queue of its own.
//!
//! Formula: each tenant has a tag, the work served to it from any queue. The tenant with the smallest tag is
//! next, and its tag grows by the work of the item served. A tenant that begins to wait starts at the virtual
//! time, which is the smallest tag of all that waited at the last service, or at its own tag if that is later:
//! absence earns no credit, and a tenant that always queues one item at a time still pays for what it got.
//! When nobody waits any more, all start afresh.
//!
//! A queue looks at tags of its own tenants without a lock: they only grow. The lock is taken when something
//! that has waited is served, when a tenant begins or ceases to wait in a queue, and when something might be
//! refused because too much waits; never for what passes without waiting.
//!
//! Evidence: `schedule/tests/shares.rs`, and `scheduler/tests.rs` of the engine with the scan permits of a
//! node.
//!
//! Limits: shares are of predicted work, within a class. Which queue serves is not decided here, except that
//! [`Shares::next`] says whose turn it is. Of tenants that are not waiting, at most [`ABSENT_MAX`] are
//! remembered.
//!
//! Source: start-time fair queueing, P. Goyal, H. Vin, H. Cheng (SIGCOMM 1996).

use std::collections::{BTreeMap, BTreeSet};

use super::Class;
use super::numbers::Numbers;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use super::numbers::NUMBERED_MAX;

/// Maximum of tenants remembered, per class, that have nothing waiting but have had more than their share.
const ABSENT_MAX: usize = 256;

/// The work of one node for its tenants, from all queues that share it.
#[derive(Debug, Default)]
pub struct Shares {
    classes: [Mutex<OfClass>; Class::COUNT],
}

#[derive(Debug, Default)]
struct OfClass {
    waiting: BTreeMap<u32, Waiting>,
    /// Those that wait, by tag; the first is served next.
    by_tag: BTreeSet<(u64, u32)>,
    absent: BTreeMap<u32, u64>,
    virtual_us: u64,
}

/// A tenant that waits in some queues.
#[derive(Debug)]
struct Waiting {
    tag: Arc<AtomicU64>,
    queues: usize,
    /// Which, as far as they can be [`Shares::next`].
    numbers: Numbers,
}

impl Shares {
    /// The queue that the next item of a class is to come from: of those that are able to serve one, that of
    /// the tenant that was served least. If it waits in several, they take turns: the first behind `last`.
    pub fn next(
        &self,
        class: Class,
        last: usize,
        is_able: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let of = self.of(class);
        of.by_tag.iter().find_map(|(_, id)| {
            let numbers = of.waiting.get(id)?.numbers;
            numbers.in_turn(last).find(|queue| is_able(*queue))
        })
    }

    /// [`Self::next`], but `None` if nobody is to be served before all that wait in `queue`.
    pub fn next_before(
        &self,
        class: Class,
        queue: usize,
        is_able: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if queue >= NUMBERED_MAX {
            return None;
        }
        let of = self.of(class);
        let tenants = of.by_tag.iter().filter_map(|(_, id)| of.waiting.get(id));
        tenants
            .take_while(|tenant| !tenant.numbers.contains(queue))
            .find_map(|tenant| tenant.numbers.in_turn(queue).find(|queue| is_able(*queue)))
    }

    /// Tenants that wait, counted once for each class.
    pub fn waiting(&self) -> usize {
        let all = Class::ALL.into_iter();
        all.map(|class| self.of(class).waiting.len()).sum()
    }

    /// The tag of a tenant, or the one that it would begin to wait with.
    pub(super) fn tag_of(&self, class: Class, id: u32) -> u64 {
        let of = self.of(class);
        match of.waiting.get(&id) {
            Some(tenant) => tenant.tag.load(Ordering::Relaxed),
            None => {
                let had = of.absent.get(&id).copied();
                had.unwrap_or(0).max(of.virtual_us)
            }
        }
    }

    /// A tenant begins to wait in a queue in which it had nothing: its tag.
    pub(super) fn enter(&self, class: Class, queue: usize, id: u32) -> Arc<AtomicU64> {
        let mut of = self.of(class);
        let of = &mut *of;
        let tenant = of.waiting.entry(id).or_insert_with(|| {
            let tag = of.absent.remove(&id).unwrap_or(0).max(of.virtual_us);
            of.by_tag.insert((tag, id));
            Waiting {
                tag: Arc::new(AtomicU64::new(tag)),
                queues: 0,
                numbers: Numbers::default(),
            }
        });
        tenant.queues += 1;
        tenant.numbers.insert(queue);
        tenant.tag.clone()
    }

    /// A tenant that waits is served so much work.
    pub(super) fn charge(&self, class: Class, id: u32, work_us: u32) {
        let mut of = self.of(class);
        let of = &mut *of;
        // A due item may be served although another tenant is next; virtual time follows the tenant
        // that was next.
        if let Some(&(tag, _)) = of.by_tag.first() {
            of.virtual_us = of.virtual_us.max(tag);
        }
        if let Some(tenant) = of.waiting.get(&id) {
            let tag = tenant.tag.load(Ordering::Relaxed);
            let now = tag.saturating_add(u64::from(work_us.max(1)));
            of.by_tag.remove(&(tag, id));
            of.by_tag.insert((now, id));
            tenant.tag.store(now, Ordering::Relaxed);
        }
    }

    /// A tenant has nothing more waiting in a queue.
    pub(super) fn leave(&self, class: Class, queue: usize, id: u32) {
        let mut of = self.of(class);
        let of = &mut *of;
        let Some(tenant) = of.waiting.get_mut(&id) else {
            debug_assert!(false, "a tenant leaves that does not wait");
            return;
        };
        tenant.queues -= 1;
        tenant.numbers.remove(queue);
        if tenant.queues > 0 {
            return;
        }
        let tag = tenant.tag.load(Ordering::Relaxed);
        of.waiting.remove(&id);
        of.by_tag.remove(&(tag, id));
        of.remember(id, tag);
    }

    fn of(&self, class: Class) -> MutexGuard<'_, OfClass> {
        let of = self.classes[class as usize].lock();
        of.unwrap_or_else(PoisonError::into_inner)
    }
}

impl OfClass {
    /// Remembers a leaving tenant's tag, so that it cannot return as a new one.
    fn remember(&mut self, id: u32, tag: u64) {
        if self.waiting.is_empty() {
            self.absent.clear();
            self.virtual_us = 0;
        } else if tag > self.virtual_us {
            if self.absent.len() >= ABSENT_MAX {
                let now = self.virtual_us;
                self.absent.retain(|_, tag| *tag > now);
                if self.absent.len() >= ABSENT_MAX {
                    self.absent.clear();
                }
            }
            self.absent.insert(id, tag);
        }
    }
}
