//! The waiting items of one class in one queue: fair shares between tenants ([`super::shares`]), rank,
//! shares of hot partitions ([`super::flows`]) and arrival within a tenant.
//!
//! Tags of tenants grow when another queue serves them, too. The tags known here are read again when their
//! tenants come first ([`FairQueue::refresh`]).

use super::Class;
use super::flows::Flows;
use super::job::Job;
use super::shares::Shares;
use super::standing::{Standing, is_pause};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Lower is served first; equal ranks by arrival.
pub(super) type Rank = (u32, u32);

/// The order within a tenant: target completion time, then rank, then start among hot partitions and others,
/// then arrival.
type SortKey = (u64, Rank, u64, u64);

#[derive(Clone, Copy, Debug)]
pub(super) struct Queued<T> {
    pub item: T,
    pub job: Job,
    pub rank: Rank,
    /// Target completion time, where that matters more than the rank; otherwise 0.
    pub target_us: u64,
    /// The tenant that is charged; the same for all items where shares do not matter.
    pub tenant: u32,
    /// Where it starts among its tenant's flows of its rank; known once it is in the queue.
    pub start: u64,
    pub arrived_us: u64,
}

#[derive(Debug)]
pub(super) struct FairQueue<T> {
    /// By arrival number; the first is the oldest.
    items: BTreeMap<u64, Queued<T>>,
    tenants: BTreeMap<u32, Tenant>,
    /// Tenants by tag, as known; the first is served next.
    by_tag: BTreeSet<(u64, u32)>,
    /// Items of hot partitions.
    hot: usize,
    last_served_us: u64,
    share: Share,
}

/// A queue's part in what tenants are served from all queues.
#[derive(Debug)]
pub(super) struct Share {
    pub shares: Arc<Shares>,
    pub class: Class,
    /// The queue's number.
    pub queue: usize,
}

#[derive(Debug)]
struct Tenant {
    tag: Arc<AtomicU64>,
    /// The tag as known here: never more than it is.
    known: u64,
    ranked: BTreeSet<SortKey>,
    /// By rank, of those that something waits in.
    of_ranks: BTreeMap<Rank, OfRank>,
    standing: Standing,
}

/// A tenant's waiting items of one rank.
#[derive(Debug, Default)]
struct OfRank {
    waiting: usize,
    /// See [`Job::ahead_us`].
    work_us: u64,
    flows: Flows,
}

impl Tenant {
    /// Where an item of that rank starts. `place`: there, if that is known.
    fn enter(&mut self, rank: Rank, job: &Job, place: Option<u64>) -> u64 {
        let of = self.of_ranks.entry(rank).or_default();
        of.waiting += 1;
        of.work_us += u64::from(job.ahead_us());
        place.unwrap_or_else(|| of.flows.enter(job.flow))
    }

    /// An item of that rank waits no longer.
    fn leave(&mut self, rank: Rank, job: &Job) {
        let Entry::Occupied(mut of) = self.of_ranks.entry(rank) else {
            debug_assert!(false, "every waiting item has a rank");
            return;
        };
        let waiting = of.get_mut();
        waiting.waiting -= 1;
        waiting.work_us -= u64::from(job.ahead_us());
        if waiting.waiting == 0 {
            of.remove();
        }
    }

    /// Its work of these ranks.
    fn up_to(&self, rank: Rank) -> u64 {
        self.of_ranks.range(..=rank).map(|(_, of)| of.work_us).sum()
    }
}

impl<T> Queued<T> {
    fn is_hot(&self) -> bool {
        self.job.flow != 0
    }

    fn sort_key(&self, seq: u64) -> SortKey {
        (self.target_us, self.rank, self.start, seq)
    }
}

impl<T: Copy> FairQueue<T> {
    pub(super) fn new(share: Share) -> Self {
        FairQueue {
            items: BTreeMap::new(),
            tenants: BTreeMap::new(),
            by_tag: BTreeSet::new(),
            hot: 0,
            last_served_us: 0,
            share,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// How many of its items are of hot partitions.
    pub(super) fn hot(&self) -> usize {
        self.hot
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

    /// Makes sure that the tenant that comes first is the one that was served least.
    pub(super) fn refresh(&mut self) {
        while let Some(&(known, id)) = self.by_tag.first() {
            let Some(tenant) = self.tenants.get_mut(&id) else {
                return;
            };
            let tag = tenant.tag.load(Ordering::Relaxed);
            if tag == known {
                return;
            }
            tenant.known = tag;
            self.by_tag.remove(&(known, id));
            self.by_tag.insert((tag, id));
        }
    }

    /// Rank and arrival number of the next item by fair share, as last refreshed, and rank.
    pub(super) fn head(&self) -> Option<(Rank, u64)> {
        let &(_, tenant) = self.by_tag.first()?;
        let &(_, rank, _, seq) = self.tenants.get(&tenant)?.ranked.first()?;
        Some((rank, seq))
    }

    /// The work that goes before a new item of a tenant and rank: the tenant's own, and of each other one what it is
    /// served until their tags are alike, the new item of `piece_us` among what the tenant is served.
    pub(super) fn ahead_us(&self, id: u32, rank: Rank, piece_us: u32) -> u64 {
        let own_us = self.tenants.get(&id).map_or(0, |own| own.up_to(rank));
        let tag = self.share.shares.tag_of(self.share.class, id);
        let served_us = own_us.saturating_add(piece_us.max(1).into());
        let until = tag.saturating_add(served_us);
        let others = self.tenants.iter().filter(|(other, _)| **other != id);
        let others_us = others.map(|(_, of)| {
            let before_us = until.saturating_sub(of.tag.load(Ordering::Relaxed));
            of.up_to(rank).min(before_us)
        });
        own_us + others_us.sum::<u64>()
    }

    /// `bound_us`: see [`Standing`], here and below.
    pub(super) fn push(&mut self, seq: u64, mut waiting: Queued<T>, bound_us: u64) {
        let (id, now_us) = (waiting.tenant, waiting.arrived_us);
        let share = &self.share;
        let tenant = self.tenants.entry(id).or_insert_with(|| {
            let tag = share.shares.enter(share.class, share.queue, id);
            let known = tag.load(Ordering::Relaxed);
            self.by_tag.insert((known, id));
            Tenant {
                tag,
                known,
                ranked: BTreeSet::new(),
                of_ranks: BTreeMap::new(),
                standing: Standing::new(now_us),
            }
        });
        tenant.standing.on_arrival(now_us, bound_us);
        waiting.start = tenant.enter(waiting.rank, &waiting.job, None);
        tenant.ranked.insert(waiting.sort_key(seq));
        self.hot += usize::from(waiting.is_hot());
        let before = self.items.insert(seq, waiting);
        debug_assert!(before.is_none(), "an arrival number was used twice");
    }

    /// Removes an item because it is served; its tenant is charged.
    pub(super) fn serve(&mut self, seq: u64, now_us: u64, bound_us: u64) -> Option<Queued<T>> {
        let &Queued {
            tenant: id,
            job,
            rank,
            start,
            arrived_us,
            ..
        } = self.items.get(&seq)?;
        // Of all tenants: one of many is served rarely, although the node does not pause.
        if is_pause(now_us.saturating_sub(self.last_served_us), bound_us) {
            for tenant in self.tenants.values_mut() {
                tenant.standing = Standing::new(now_us);
            }
        }
        self.last_served_us = now_us;
        self.share.shares.charge(self.share.class, id, job.piece_us);
        if let Some(tenant) = self.tenants.get_mut(&id) {
            self.by_tag.remove(&(tenant.known, id));
            tenant.known = tenant.tag.load(Ordering::Relaxed);
            self.by_tag.insert((tenant.known, id));
            let waited_us = now_us.saturating_sub(arrived_us);
            tenant.standing.on_served(now_us, waited_us, bound_us);
            if let Some(of) = tenant.of_ranks.get_mut(&rank) {
                of.flows.on_served(start);
            }
        }
        self.remove(seq)
    }

    /// Items that have waited for longer than `bound_us` in a queue that stands, by arrival number.
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
        self.hot -= usize::from(waiting.is_hot());
        if let Some(tenant) = self.tenants.get_mut(&id) {
            let was = tenant.ranked.remove(&waiting.sort_key(seq));
            debug_assert!(was, "every waiting item is ranked");
            tenant.leave(waiting.rank, &waiting.job);
            if tenant.ranked.is_empty() {
                self.by_tag.remove(&(tenant.known, id));
                self.tenants.remove(&id);
                self.share.leave(id);
            }
        }
        Some(waiting)
    }

    /// Gives an item another place. Its partition stays.
    pub(super) fn change(&mut self, seq: u64, job: Job, rank: Rank, target_us: u64) {
        let Some(&waiting) = self.items.get(&seq) else {
            return;
        };
        debug_assert_eq!(
            job.flow, waiting.job.flow,
            "a partition is hot or not when it comes"
        );
        let mut changed = Queued {
            job,
            rank,
            target_us,
            ..waiting
        };
        if let Some(tenant) = self.tenants.get_mut(&waiting.tenant) {
            tenant.ranked.remove(&waiting.sort_key(seq));
            if rank == waiting.rank {
                if let Some(of) = tenant.of_ranks.get_mut(&rank) {
                    of.work_us -= u64::from(waiting.job.ahead_us());
                    of.work_us += u64::from(job.ahead_us());
                }
            } else {
                tenant.leave(waiting.rank, &waiting.job);
                // Among what is not hot arrival decides: it goes before the first that came later.
                let those = (target_us, rank, 0, 0)..=(target_us, rank, u64::MAX, u64::MAX);
                let mut those = tenant.ranked.range(those);
                let is_next =
                    |of: u64| of > seq && self.items.get(&of).is_some_and(|of| !of.is_hot());
                let next = those.find(|(.., of)| !changed.is_hot() && is_next(*of));
                let place = next.map(|(_, _, start, _)| *start);
                changed.start = tenant.enter(rank, &job, place);
            }
            tenant.ranked.insert(changed.sort_key(seq));
        }
        self.items.insert(seq, changed);
    }
}

impl Share {
    fn leave(&self, id: u32) {
        self.shares.leave(self.class, self.queue, id);
    }
}

/// A worker may end with things waiting.
impl<T> Drop for FairQueue<T> {
    fn drop(&mut self) {
        for id in self.tenants.keys() {
            self.share.leave(*id);
        }
    }
}
