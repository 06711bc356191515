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
fn a_hot_partition_leaves_half_of_the_queue_to_others() {
    let bounds = Settings {
        queue_max: [10; Class::COUNT],
        ..settings(Variant::Default, 1_000)
    };
    let mut queue: Schedule<u32> = Schedule::new(bounds);
    queue.set_node_has_room(false);
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
