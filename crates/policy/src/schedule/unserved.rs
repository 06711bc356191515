//! Items that leave a schedule without being served, or are served in another order.

use crate::schedule::choose::{rank_of, target_us};
use crate::schedule::fair_queue::Queued;
use crate::schedule::{Class, Handle, Job, Schedule};

impl<T: Copy> Schedule<T> {
    /// An item that has waited as long as its class may; the schedule forgets it.
    #[must_use = "the item returned is forgotten here and must be answered"]
    pub fn poll_expired(&mut self, now_us: u64) -> Option<(T, Class)> {
        self.advance_to(now_us);
        let expired = Class::ALL.into_iter().find_map(|class| {
            let (seq, waiting) = self.queues[class as usize].oldest()?;
            let deadline = self.deadline_us(class, waiting.arrived_us);
            (deadline <= self.now_us).then_some((class, seq))
        });
        let (class, seq) = expired?;
        let waiting = self.take(class, seq, false)?;
        self.counters.expired[class as usize] += 1;
        Some((waiting.item, class))
    }

    /// Items that have waited for longer than clients do in queues that stand ([`super::standing`]); the schedule
    /// forgets them.
    #[must_use = "the items returned are forgotten here and must be answered"]
    pub fn shed(&mut self, now_us: u64) -> Vec<(T, Class)> {
        let mut out = Vec::new();
        if self.waiting() == 0 {
            return out;
        }
        self.advance_to(now_us);
        for class in Class::ALL {
            let bound_us = self.standing_wait_us(class);
            if bound_us == 0 || self.queues[class as usize].is_empty() {
                continue;
            }
            for seq in self.queues[class as usize].overdue(self.now_us, bound_us) {
                if let Some(waiting) = self.take(class, seq, false) {
                    self.counters.shed[class as usize] += 1;
                    out.push((waiting.item, class));
                }
            }
        }
        out
    }

    /// Moves a waiting item to its new position, for instance because another piece of its query
    /// has returned. It keeps its age. Returns false if it is no longer waiting.
    pub fn reprioritise(
        &mut self,
        handle: Handle,
        nodes_left: u16,
        rows: u32,
        work_us: u32,
    ) -> bool {
        let Handle { class, seq } = handle;
        let queue = &mut self.queues[class as usize];
        let Some(&Queued {
            job,
            rank,
            arrived_us,
            ..
        }) = queue.get(seq)
        else {
            return false;
        };
        let job_now = Job {
            nodes_left,
            rows,
            work_us,
            piece_us: job.piece_us.min(work_us),
            ..job
        };
        let variant = self.settings.variant;
        let rank_now = rank_of(variant, class, &job_now);
        let target_us = target_us(variant, class, &job_now, arrived_us);
        queue.change(seq, job_now, rank_now, target_us);
        let backlog = &mut self.backlogs[class as usize];
        backlog.sub(rank, job.ahead_us());
        backlog.add(rank_now, job_now.ahead_us());
        true
    }

    /// Removes a waiting item, for instance because its client is gone.
    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        self.take(handle.class, handle.seq, false)
            .map(|waiting| waiting.item)
    }

    /// Removes all waiting items, by class and arrival, for instance because the node is gone.
    /// Items in flight are not affected.
    #[must_use = "the items returned are forgotten here"]
    pub fn drain(&mut self) -> Vec<(T, Class)> {
        let mut out = Vec::with_capacity(self.waiting());
        for class in Class::ALL {
            while let Some((seq, _)) = self.queues[class as usize].oldest() {
                let waiting = self.take(class, seq, false);
                out.extend(waiting.map(|waiting| (waiting.item, class)));
            }
        }
        out
    }
}
