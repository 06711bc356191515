//! What a client has prepared and writes to copies hold together, however many of them carry it out: counted once in
//! each worker.

use std::rc::{Rc, Weak};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::memory::{Held, Ledger};
use crate::statement::layout_plan::Plan;
use crate::statement::prepared::{Prepared, Statement};

/// What is prepared, and what it is on each copy: caches may have forgotten both.
pub(crate) struct Share {
    plan: Arc<Plan<Statement>>,
    pub prepared: Arc<Prepared>,
    held: Held,
}

impl Share {
    pub(crate) fn is_of(&self, plan: &Arc<Plan<Statement>>, prepared: &Arc<Prepared>) -> bool {
        Arc::ptr_eq(&self.plan, plan) && Arc::ptr_eq(&self.prepared, prepared)
    }

    /// Bytes of it for each write that holds it now.
    pub(crate) fn bytes_each(share: &Rc<Share>) -> usize {
        share.held.bytes() / Rc::strong_count(share)
    }
}

/// The addresses of a plan and of what is prepared. What has them holds both, so nothing else is there.
type At = (usize, usize);

/// All that is held by some write.
#[derive(Default)]
pub(crate) struct Shares {
    held: FxHashMap<At, Weak<Share>>,
}

impl Shares {
    pub(crate) fn of(
        &mut self,
        plan: &Arc<Plan<Statement>>,
        prepared: &Arc<Prepared>,
        memory: &Rc<Ledger>,
    ) -> Rc<Share> {
        let at = (Arc::as_ptr(plan).addr(), Arc::as_ptr(prepared).addr());
        if let Some(share) = self.held.get(&at).and_then(Weak::upgrade) {
            return share;
        }
        let of_copies = plan.copies().iter().map(|copy| copy.statement().byte_len());
        let bytes = plan.byte_len() + prepared.byte_len() + of_copies.sum::<usize>();
        let share = Rc::new(Share {
            plan: plan.clone(),
            prepared: prepared.clone(),
            held: Held::new(memory, bytes),
        });
        self.held.insert(at, Rc::downgrade(&share));
        share
    }

    /// Forgets what no write holds any more.
    pub(crate) fn tick(&mut self) {
        self.held.retain(|_, share| share.strong_count() > 0);
    }
}
