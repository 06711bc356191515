//! The waiting items of one class: fair shares between tenants, rank and arrival within a tenant.
//!
//! Formula: each tenant has a tag, the work served to it. The tenant with the smallest tag is next,
//! and its tag grows by the work of the item served. A new or returning tenant starts at the
//! queue's virtual time, which is the smallest tag at the last service, or at its own tag if that
//! is later: absence earns no credit, and a tenant that always queues one item at a time still pays
//! for what it got.
//!
//! Evidence: `schedule/tests.rs`: equal shares between tenants with many items and with one at a
//! time.
//!
//! Limits: shares are of predicted work, per worker and class. Of tenants that are not waiting, at
//! most [`ABSENT_MAX`] are remembered.
//!
//! Source: start-time fair queueing, P. Goyal, H. Vin, H. Cheng (SIGCOMM 1996).

use super::job::Job;
use super::standing::{Standing, is_pause};
use std::collections::{BTreeMap, BTreeSet};

/// Lower is served first; equal ranks by arrival.
pub(super) type Rank = (u32, u32);

/// The order within a tenant: target completion time, then rank, then arrival.
type SortKey = (u64, Rank, u64);

/// Maximum of tenants remembered that have nothing waiting but have had more than their share.
const ABSENT_MAX: usize = 256;

#[derive(Clone, Copy, Debug)]
pub(super) struct Queued<T> {
    pub item: T,
    pub job: Job,
    pub rank: Rank,
    /// Target completion time, where that matters more than the rank; otherwise 0.
    pub target_us: u64,
    /// The tenant that is charged; the same for all items where shares do not matter.
    pub tenant: u32,
    pub arrived_us: u64,
}

#[derive(Debug)]
pub(super) struct FairQueue<T> {
    /// By arrival number; the first is the oldest.
    items: BTreeMap<u64, Queued<T>>,
    tenants: BTreeMap<u32, Tenant>,
    /// Tenants by tag; the first is served next.
    by_tag: BTreeSet<(u64, u32)>,
    absent: BTreeMap<u32, u64>,
    virtual_us: u64,
    last_served_us: u64,
}

#[derive(Debug)]
struct Tenant {
    tag: u64,
    ranked: BTreeSet<SortKey>,
    standing: Standing,
}

impl<T> Queued<T> {
    fn sort_key(&self, seq: u64) -> SortKey {
        (self.target_us, self.rank, seq)
    }
}

impl<T: Copy> FairQueue<T> {
    pub(super) fn new() -> Self {
        FairQueue {
            items: BTreeMap::new(),
            tenants: BTreeMap::new(),
            by_tag: BTreeSet::new(),
            absent: BTreeMap::new(),
            virtual_us: 0,
            last_served_us: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn get(&self, seq: u64) -> Option<&Queued<T>> {
        self.items.get(&seq)
    }

    pub(super) fn oldest(&self) -> Option<(u64, &Queued<T>)> {
        self.items
            .first_key_value()
            .map(|(&seq, waiting)| (seq, waiting))
    }

    /// Rank and arrival number of the next item by fair share and rank.
    pub(super) fn head(&self) -> Option<(Rank, u64)> {
        let &(_, tenant) = self.by_tag.first()?;
        let &(_, rank, seq) = self.tenants.get(&tenant)?.ranked.first()?;
        Some((rank, seq))
    }

    /// `bound_us`: see [`Standing`], here and below.
    pub(super) fn push(&mut self, seq: u64, waiting: Queued<T>, bound_us: u64) {
        let (id, now_us) = (waiting.tenant, waiting.arrived_us);
        let tenant = self.tenants.entry(id).or_insert_with(|| {
            let tag = self.absent.remove(&id).unwrap_or(0).max(self.virtual_us);
            self.by_tag.insert((tag, id));
            Tenant {
                tag,
                ranked: BTreeSet::new(),
                standing: Standing::new(now_us),
            }
        });
        tenant.standing.on_arrival(now_us, bound_us);
        tenant.ranked.insert(waiting.sort_key(seq));
        let before = self.items.insert(seq, waiting);
        debug_assert!(before.is_none(), "an arrival number was used twice");
    }

    /// Removes an item because it is served; its tenant is charged.
    pub(super) fn serve(&mut self, seq: u64, now_us: u64, bound_us: u64) -> Option<Queued<T>> {
        let (id, job, arrived_us) = self
            .items
            .get(&seq)
            .map(|w| (w.tenant, w.job, w.arrived_us))?;
        // Of all tenants: one of many is served rarely, although the node does not pause.
        if is_pause(now_us.saturating_sub(self.last_served_us), bound_us) {
            for tenant in self.tenants.values_mut() {
                tenant.standing = Standing::new(now_us);
            }
        }
        self.last_served_us = now_us;
        // A due item may be served although another tenant is next; virtual time follows the tenant
        // that was next.
        if let Some(&(tag, _)) = self.by_tag.first() {
            self.virtual_us = self.virtual_us.max(tag);
        }
        if let Some(tenant) = self.tenants.get_mut(&id) {
            self.by_tag.remove(&(tenant.tag, id));
            tenant.tag += u64::from(job.piece_us.max(1));
            self.by_tag.insert((tenant.tag, id));
            let waited_us = now_us.saturating_sub(arrived_us);
            tenant.standing.on_served(now_us, waited_us, bound_us);
        }
        self.remove(seq)
    }

    /// What has waited for longer than `bound_us` in a queue that stands, by arrival number.
    pub(super) fn overdue(&mut self, now_us: u64, bound_us: u64) -> Vec<u64> {
        let tenants = &mut self.tenants;
        let waited_us = |waiting: &Queued<T>| now_us.saturating_sub(waiting.arrived_us);
        self.items
            .iter()
            .take_while(|(_, waiting)| waited_us(waiting) > bound_us)
            .filter(|(_, waiting)| {
                let tenant = tenants.get_mut(&waiting.tenant);
                tenant.is_some_and(|tenant| tenant.standing.stands(now_us, bound_us))
            })
            .map(|(&seq, _)| seq)
            .collect()
    }

    /// Removes an item without serving it.
    pub(super) fn remove(&mut self, seq: u64) -> Option<Queued<T>> {
        let waiting = self.items.remove(&seq)?;
        let id = waiting.tenant;
        if let Some(tenant) = self.tenants.get_mut(&id) {
            let was = tenant.ranked.remove(&waiting.sort_key(seq));
            debug_assert!(was, "every waiting item is ranked");
            if tenant.ranked.is_empty() {
                let tag = tenant.tag;
                self.by_tag.remove(&(tag, id));
                self.tenants.remove(&id);
                self.remember(id, tag);
            }
        }
        Some(waiting)
    }

    pub(super) fn change(&mut self, seq: u64, job: Job, rank: Rank, target_us: u64) {
        let Some(waiting) = self.items.get_mut(&seq) else {
            return;
        };
        let before = waiting.sort_key(seq);
        (waiting.job, waiting.rank, waiting.target_us) = (job, rank, target_us);
        if let Some(tenant) = self.tenants.get_mut(&waiting.tenant) {
            tenant.ranked.remove(&before);
            tenant.ranked.insert(waiting.sort_key(seq));
        }
    }

    /// Remembers a leaving tenant's tag, so that it cannot return as a new one.
    fn remember(&mut self, id: u32, tag: u64) {
        if self.items.is_empty() {
            // Nothing waits any more, so all tenants start afresh.
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
