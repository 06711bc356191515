//! Hot partitions and all others in one queue.

use super::*;
use crate::test_rng::for_seeds;

fn job(flow: u32) -> Job {
    Job {
        flow,
        ..Job::of_work(100)
    }
}

fn queue() -> Schedule<u32> {
    let mut queue = Schedule::new(settings(Variant::Default, 1_000));
    queue.set_node_has_room(false);
    queue
}

/// The flows of so many items in the order in which they are sent.
fn serve(queue: &mut Schedule<u32>, count: usize) -> Vec<u32> {
    queue.set_node_has_room(true);
    let sent = (0..count).map_while(|_| Some(queue.poll_dispatch(0, false)?.0));
    let sent = sent.collect();
    queue.set_node_has_room(false);
    sent
}

fn wait(queue: &mut Schedule<u32>, flow: u32, count: usize) {
    for _ in 0..count {
        let _ = queue.offer(0, flow, Class::Point, job(flow), false);
    }
}

#[test]
fn a_request_for_another_key_does_not_wait_for_all_of_a_hot_one() {
    let mut queue = queue();
    wait(&mut queue, 7, 1_000);
    assert_eq!(serve(&mut queue, 100), [7; 100]);
    wait(&mut queue, 0, 1);
    let sent = serve(&mut queue, 3);
    assert!(sent.contains(&0), "{sent:?}");
}

#[test]
fn others_get_four_of_five_while_both_wait_and_nobody_is_starved() {
    let mut queue = queue();
    wait(&mut queue, 7, 500);
    wait(&mut queue, 0, 500);
    let sent = serve(&mut queue, 500);
    let hot = sent.iter().filter(|flow| **flow == 7).count();
    assert!((98..=102).contains(&hot), "{hot}");
    // Whatever the place: the hot one never has to wait for more than a few others.
    for window in sent.windows(8) {
        assert!(window.contains(&7), "{window:?}");
    }
    let rest = serve(&mut queue, 1_000);
    assert_eq!(rest.len(), 500, "all are served");
}

#[test]
fn a_hot_key_that_was_quiet_earns_nothing_by_that() {
    let mut queue = queue();
    wait(&mut queue, 0, 400);
    serve(&mut queue, 300);
    wait(&mut queue, 7, 100);
    let sent = serve(&mut queue, 50);
    let hot = sent.iter().filter(|flow| **flow == 7).count();
    assert!((9..=13).contains(&hot), "{hot} of 50");
}

#[test]
fn while_nothing_is_hot_arrival_decides() {
    for_seeds(50, |seed, rng| {
        let mut queue = queue();
        let (mut next, mut expected) = (0, 0);
        for _ in 0..200 {
            for _ in 0..rng.below(10) {
                let job = Job {
                    // Of one rank.
                    work_us: 130 + rng.below(100) as u32,
                    ..Job::of_work(130)
                };
                let _ = queue.offer(0, next, Class::Point, job, false);
                next += 1;
            }
            for of in serve(&mut queue, rng.below(10)) {
                assert_eq!(of, expected, "seed {seed}");
                expected += 1;
            }
        }
    });
}

#[test]
fn more_hot_partitions_than_are_told_apart_are_served_too() {
    let mut queue = queue();
    for flow in 0..150 {
        wait(&mut queue, flow, 3);
    }
    let mut sent = serve(&mut queue, 1_000);
    sent.sort_unstable();
    let expected: Vec<u32> = (0..150).flat_map(|flow| [flow; 3]).collect();
    assert!(sent == expected, "{} of {}", sent.len(), expected.len());
}

#[test]
fn what_a_hot_partition_has_waiting_in_one_rank_does_not_keep_it_back_in_another() {
    let mut queue = queue();
    let large = Job {
        work_us: 100_000,
        ..job(7)
    };
    for _ in 0..400 {
        let _ = queue.offer(0, 7, Class::Point, large, false);
    }
    for _ in 0..50 {
        wait(&mut queue, 0, 4);
        wait(&mut queue, 7, 1);
    }
    let sent = serve(&mut queue, 100);
    let hot = sent.iter().filter(|flow| **flow == 7).count();
    assert!((19..=21).contains(&hot), "{hot} of 100");
    // Large ones as well, each in its turn.
    let rest = serve(&mut queue, 1_000);
    assert_eq!(rest.len(), 550, "all are served");
}

#[test]
fn an_item_of_another_rank_now_takes_its_turn_there() {
    let mut queue = queue();
    let handles: Vec<Handle> = (0..100)
        .map(|_| match queue.offer(0, 7, Class::Point, job(7), false) {
            Offer::Queued(handle) => handle,
            other => panic!("{other:?}"),
        })
        .collect();
    for handle in &handles[50..] {
        assert!(queue.reprioritise(*handle, 1, 1, 1_000));
    }
    for _ in 0..200 {
        let others = Job::of_work(1_000);
        let _ = queue.offer(0, 0, Class::Point, others, false);
    }
    assert_eq!(serve(&mut queue, 50), [7; 50]);
    let sent = serve(&mut queue, 100);
    let hot = sent.iter().filter(|flow| **flow == 7).count();
    assert!((19..=21).contains(&hot), "{hot} of 100");
    assert_eq!(serve(&mut queue, 1_000).len(), 150, "all are served");
}

/// A queue of ten at most, for a node without room.
fn short_queue(variant: Variant) -> Schedule<u32> {
    let bounds = Settings {
        queue_max: [10; Class::COUNT],
        ..settings(variant, 1_000)
    };
    let mut queue: Schedule<u32> = Schedule::new(bounds);
    queue.set_node_has_room(false);
    queue
}

#[test]
fn a_hot_partition_leaves_half_of_the_queue_to_others() {
    let mut queue = short_queue(Variant::Default);
    let mut offer = |flow| queue.offer(0, flow, Class::Point, job(flow), false);
    for _ in 0..5 {
        assert!(matches!(offer(7), Offer::Queued(_)));
    }
    assert_eq!(offer(7), Offer::Refused(Refusal::QueueFull));
    for _ in 0..5 {
        assert!(matches!(offer(0), Offer::Queued(_)));
    }
    assert_eq!(offer(0), Offer::Refused(Refusal::QueueFull));
}

#[test]
fn what_is_hot_is_not_refused_because_of_others() {
    let mut queue = short_queue(Variant::Default);
    let is_queued = |queue: &mut Schedule<u32>, flow| {
        let offer = queue.offer(0, flow, Class::Point, job(flow), false);
        matches!(offer, Offer::Queued(_))
    };
    // More than half of the queue, and the rest is free for anybody.
    for _ in 0..7 {
        assert!(is_queued(&mut queue, 0));
    }
    for _ in 0..3 {
        assert!(is_queued(&mut queue, 7));
    }
    assert!(!is_queued(&mut queue, 7) && !is_queued(&mut queue, 0));
    // Each departure makes room, of whatever kind.
    assert_eq!(queue.drain().len(), 10);
    for _ in 0..5 {
        assert!(is_queued(&mut queue, 7));
    }
    assert!(!is_queued(&mut queue, 8), "of all hot ones");
    assert_eq!(serve(&mut queue, 2), [7, 7]);
    assert!(is_queued(&mut queue, 8) && is_queued(&mut queue, 8));
    assert!(!is_queued(&mut queue, 8));
    // Also with another variant, in which nothing is hot.
    let bounds = Settings {
        variant: Variant::O,
        ..*queue.settings()
    };
    queue.set_settings(bounds);
    for _ in 0..5 {
        assert!(is_queued(&mut queue, 9));
    }
    assert!(!is_queued(&mut queue, 9), "it is full");
}

#[test]
fn in_the_papers_variants_nothing_is_hot() {
    for variant in Variant::ALL {
        let mut queue = short_queue(variant);
        let offers = (0..11).map(|_| queue.offer(0, 7, Class::Point, job(7), false));
        let queued = offers
            .filter(|offer| matches!(offer, Offer::Queued(_)))
            .count();
        let expected = if variant.is_preset() { 10 } else { 5 };
        assert_eq!(queued, expected, "{variant}");
    }
}
