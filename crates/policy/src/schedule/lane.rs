//! What waits of one class: by arrival, and by rank within fair shares of tenants.
//!
//! Picture: a counter where several firms have sent their errand boys. The firm
//! that has had the least work done is served next, and sends forward whichever
//! of its boys it likes best.
//!
//! Formula: each tenant carries a tag, the work served to it. The tenant with the
//! least tag is next, and its tag grows by the work of what was served. A tenant
//! that comes (back) starts at the lane's virtual time, the least tag served last,
//! or at its own tag if that is later: absence earns nothing, and a tenant that
//! always asks for one thing at a time still pays for what it had.
//!
//! Source: start-time fair queueing, P. Goyal, H. Vin, H. Cheng (SIGCOMM 1996).

use super::job::Job;
use std::collections::{BTreeMap, BTreeSet};

/// The lower is served first; equal ones by arrival.
pub(super) type Rank = (u32, u32);

/// The order within a tenant: the least time by which it shall be through, then the least rank, then
/// the first to arrive.
type Place = (u64, Rank, u64);

/// Tenants remembered that wait for nothing but have had more than their share.
const ABSENT_MAX: usize = 256;

#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting<T> {
    pub item: T,
    pub job: Job,
    pub rank: Rank,
    /// When it shall be through, where that matters more than the rank; 0 elsewhere.
    pub through_us: u64,
    /// The tenant that pays; one for all where shares do not count.
    pub tenant: u32,
    pub arrived_us: u64,
}

#[derive(Debug)]
pub(super) struct Lane<T> {
    /// By arrival number: the first is the oldest.
    items: BTreeMap<u64, Waiting<T>>,
    tenants: BTreeMap<u32, Tenant>,
    /// Tenants by tag; the first is served next.
    turns: BTreeSet<(u64, u32)>,
    absent: BTreeMap<u32, u64>,
    virtual_us: u64,
}

#[derive(Debug)]
struct Tenant {
    tag: u64,
    ranked: BTreeSet<Place>,
}

impl<T> Waiting<T> {
    fn place(&self, seq: u64) -> Place {
        (self.through_us, self.rank, seq)
    }
}

impl<T: Copy> Lane<T> {
    pub(super) fn new() -> Self {
        Lane {
            items: BTreeMap::new(),
            tenants: BTreeMap::new(),
            turns: BTreeSet::new(),
            absent: BTreeMap::new(),
            virtual_us: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn get(&self, seq: u64) -> Option<&Waiting<T>> {
        self.items.get(&seq)
    }

    pub(super) fn oldest(&self) -> Option<(u64, &Waiting<T>)> {
        self.items
            .first_key_value()
            .map(|(&seq, waiting)| (seq, waiting))
    }

    /// The next by fair share and rank: its rank and arrival number.
    pub(super) fn head(&self) -> Option<(Rank, u64)> {
        let &(_, tenant) = self.turns.first()?;
        let &(_, rank, seq) = self.tenants.get(&tenant)?.ranked.first()?;
        Some((rank, seq))
    }

    pub(super) fn push(&mut self, seq: u64, waiting: Waiting<T>) {
        let id = waiting.tenant;
        let tenant = self.tenants.entry(id).or_insert_with(|| {
            let tag = self.absent.remove(&id).unwrap_or(0).max(self.virtual_us);
            self.turns.insert((tag, id));
            Tenant {
                tag,
                ranked: BTreeSet::new(),
            }
        });
        tenant.ranked.insert(waiting.place(seq));
        let before = self.items.insert(seq, waiting);
        debug_assert!(before.is_none(), "an arrival number was used twice");
    }

    /// Takes one out because it is served: its tenant pays.
    pub(super) fn serve(&mut self, seq: u64) -> Option<Waiting<T>> {
        let (id, job) = self.items.get(&seq).map(|w| (w.tenant, w.job))?;
        // An aged item may be served although it is another tenant's turn; virtual time follows
        // whose turn it was.
        if let Some(&(least, _)) = self.turns.first() {
            self.virtual_us = self.virtual_us.max(least);
        }
        if let Some(tenant) = self.tenants.get_mut(&id) {
            self.turns.remove(&(tenant.tag, id));
            tenant.tag += u64::from(job.piece_us.max(1));
            self.turns.insert((tenant.tag, id));
        }
        self.remove(seq)
    }

    /// Takes one out that is not served.
    pub(super) fn remove(&mut self, seq: u64) -> Option<Waiting<T>> {
        let waiting = self.items.remove(&seq)?;
        let id = waiting.tenant;
        if let Some(tenant) = self.tenants.get_mut(&id) {
            let was = tenant.ranked.remove(&waiting.place(seq));
            debug_assert!(was, "what waits is ranked");
            if tenant.ranked.is_empty() {
                let tag = tenant.tag;
                self.turns.remove(&(tag, id));
                self.tenants.remove(&id);
                self.leave(id, tag);
            }
        }
        Some(waiting)
    }

    pub(super) fn change(&mut self, seq: u64, job: Job, rank: Rank, through_us: u64) {
        let Some(waiting) = self.items.get_mut(&seq) else {
            return;
        };
        let before = waiting.place(seq);
        (waiting.job, waiting.rank, waiting.through_us) = (job, rank, through_us);
        if let Some(tenant) = self.tenants.get_mut(&waiting.tenant) {
            tenant.ranked.remove(&before);
            tenant.ranked.insert(waiting.place(seq));
        }
    }

    /// Remembers what a tenant has had, so that it cannot return as a newcomer.
    fn leave(&mut self, id: u32, tag: u64) {
        if self.items.is_empty() {
            // Nobody was kept waiting by anybody any more.
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
