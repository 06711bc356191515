//! Shares of tenants over several queues for one node.

use super::super::shares::NUMBERED_MAX;
use super::*;
use crate::test_rng::{TestRng, for_seeds};
use std::collections::BTreeMap;

fn job(tenant: u32, work_us: u32) -> Job {
    Job {
        tenant,
        ..Job::of_work(work_us)
    }
}

/// So many queues with the same shares, for a node that takes nothing until it is told to.
fn queues(count: usize) -> (Arc<Shares>, Vec<Schedule<u32>>) {
    let shares: Arc<Shares> = Arc::default();
    let queue = |number| {
        let mut queue =
            Schedule::sharing(settings(Variant::Default, 1_000), shares.clone(), number);
        queue.set_node_has_room(false);
        queue
    };
    let queues = (0..count).map(queue).collect();
    (shares, queues)
}

fn wait(queue: &mut Schedule<u32>, tenant: u32, work_us: u32) -> Handle {
    queued(queue.offer(0, tenant, Class::Point, job(tenant, work_us), false))
}

/// The tenant whose item a queue sends next.
fn serve(queue: &mut Schedule<u32>) -> Option<u32> {
    queue.set_node_has_room(true);
    let next = queue.poll_dispatch(0, false);
    queue.set_node_has_room(false);
    next.map(|(tenant, _)| tenant)
}

#[test]
fn who_waits_in_two_queues_gets_as_much_as_who_waits_in_one() {
    let (_, mut queues) = queues(2);
    for (at, tenant) in [(0, 1), (1, 1), (1, 2)] {
        (0..100).for_each(|_| _ = wait(&mut queues[at], tenant, 100));
    }
    let mut served = [0_u32; 3];
    // The queues have the same room.
    for _ in 0..50 {
        for queue in &mut queues {
            served[serve(queue).expect("many wait") as usize] += 1;
        }
    }
    assert!(served[1].abs_diff(served[2]) <= 1, "{served:?}");
}

#[test]
fn what_was_served_from_one_queue_counts_in_another() {
    let (_, mut queues) = queues(2);
    for _ in 0..6 {
        wait(&mut queues[0], 1, 100);
        wait(&mut queues[1], 2, 100);
    }
    for _ in 0..6 {
        assert_eq!(serve(&mut queues[0]), Some(1));
    }
    // It has nothing waiting by now, and is no new one elsewhere.
    wait(&mut queues[1], 1, 100);
    for _ in 0..6 {
        assert_eq!(serve(&mut queues[1]), Some(2));
    }
    assert_eq!(serve(&mut queues[1]), Some(1));
}

#[test]
fn a_queue_that_ends_leaves_nobody_waiting() {
    let (shares, mut queues) = queues(2);
    for tenant in 1..4 {
        wait(&mut queues[0], tenant, 100);
        wait(&mut queues[1], tenant, 100);
    }
    let other = Settings {
        variant: Variant::O,
        ..*queues[0].settings()
    };
    queues[0].set_settings(other);
    assert_eq!(shares.waiting(), 4, "and all of the first as one");
    queues.remove(0);
    assert_eq!(shares.waiting(), 3);
    assert_eq!(queues[0].drain().len(), 3);
    assert_eq!(shares.waiting(), 0);
}

#[test]
fn the_next_queue_is_that_of_who_had_least_and_in_turn() {
    let (shares, mut queues) = queues(3);
    for (at, tenant) in [(0, 1), (0, 1), (1, 1), (2, 2)] {
        wait(&mut queues[at], tenant, 100);
    }
    let next = |last, able: &[usize]| shares.next(Class::Point, last, |q| able.contains(&q));
    assert_eq!(next(2, &[0, 1, 2]), Some(0), "all are alike");
    assert_eq!(next(0, &[0, 1, 2]), Some(1));
    assert_eq!(serve(&mut queues[0]), Some(1));
    assert_eq!(next(0, &[0, 1, 2]), Some(2));
    assert_eq!(next(0, &[0]), Some(0));
    assert_eq!(next(0, &[]), None);
    let before = |queue| shares.next_before(Class::Point, queue, |_| true);
    assert_eq!([0, 1, 2].map(before), [Some(2), Some(2), None]);
    assert_eq!(before(NUMBERED_MAX), None, "it has no number");
    assert_eq!(shares.next(Class::Scan, 0, |_| true), None);
}

/// One list of what waits anywhere, and what each tenant has had.
#[derive(Default)]
struct Model {
    /// Queue, tenant and work.
    waiting: Vec<(usize, u32, u32)>,
    tags: BTreeMap<u32, u64>,
    virtual_us: u64,
}

impl Model {
    fn wait(&mut self, queue: usize, tenant: u32, work_us: u32) {
        if !self.waiting.iter().any(|(_, of, _)| *of == tenant) {
            let tag = self.tags.entry(tenant).or_insert(0);
            *tag = (*tag).max(self.virtual_us);
        }
        self.waiting.push((queue, tenant, work_us));
    }

    fn serve(&mut self, queue: usize) -> Option<u32> {
        let own = self.waiting.iter().filter(|(at, ..)| *at == queue);
        let tenant = own
            .map(|(_, of, _)| *of)
            .min_by_key(|of| (self.tags[of], *of))?;
        let least = self.waiting.iter().map(|(_, of, _)| self.tags[of]).min();
        self.virtual_us = self.virtual_us.max(least.unwrap_or(0));
        // All items of a tenant are alike.
        let is_its = |of: &(usize, u32, u32)| (of.0, of.1) == (queue, tenant);
        let at = self.waiting.iter().position(is_its)?;
        let (_, _, work_us) = self.waiting.remove(at);
        *self.tags.get_mut(&tenant)? += u64::from(work_us);
        self.forget();
        Some(tenant)
    }

    fn forget(&mut self) {
        if self.waiting.is_empty() {
            *self = Model::default();
        }
    }
}

#[test]
fn random_queues_agree_with_one_list() {
    for_seeds(500, |_, rng: &mut TestRng| {
        let count = 1 + rng.below(4);
        let (shares, mut queues) = queues(count);
        let mut model = Model::default();
        for _ in 0..100 {
            let at = rng.below(count);
            match rng.below(5) {
                0..3 => {
                    let tenant = rng.below(4) as u32;
                    let work_us = 100 + 30 * tenant;
                    wait(&mut queues[at], tenant, work_us);
                    model.wait(at, tenant, work_us);
                }
                _ => assert_eq!(serve(&mut queues[at]), model.serve(at)),
            }
            let mut tenants: Vec<u32> = model.waiting.iter().map(|(_, of, _)| *of).collect();
            tenants.sort_unstable();
            tenants.dedup();
            assert_eq!(shares.waiting(), tenants.len());
        }
    });
}
