use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::mirror::queue::{Dropped, Limits, Queue};

fn limits() -> Limits {
    Limits {
        behind_max: 3,
        bytes_max: 1_000,
        lag_max: Duration::from_secs(5),
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn requests_are_sent_in_the_order_of_their_times_and_not_before() {
    let (mut queue, now) = (Queue::new(limits()), Instant::now());
    for due in [30, 10, 20] {
        queue.push(due, now + ms(due), now, 1);
    }
    assert_eq!(queue.next_due(), Some(now + ms(10)));
    assert_eq!(queue.pop(now), None);
    assert_eq!(queue.lag(now), Duration::ZERO);
    queue.drop_surplus(now + ms(25));
    assert_eq!(queue.lag(now + ms(25)), ms(15));
    assert_eq!(queue.pop(now + ms(25)), Some((10, 1)));
    assert_eq!(queue.pop(now + ms(25)), Some((20, 1)));
    assert_eq!(queue.pop(now + ms(25)), None);
    assert!(!queue.is_empty());
    assert_eq!(queue.pop(now + ms(30)), Some((30, 1)));
    assert!(queue.is_empty() && queue.dropped() == Dropped::default());
}

#[test]
fn of_too_many_that_are_behind_the_oldest_are_dropped() {
    let (mut queue, now) = (Queue::new(limits()), Instant::now());
    for due in 0..5 {
        queue.push(due, now + ms(due), now, 1);
    }
    // As long as they are early, they are not too many.
    queue.drop_surplus(now + ms(2));
    assert_eq!(queue.dropped().behind, 0);
    queue.drop_surplus(now + ms(4));
    assert_eq!(queue.dropped().behind, 2);
    assert_eq!(queue.pop(now + ms(4)), Some((2, 1)));
}

#[test]
fn what_is_too_old_or_too_large_is_dropped() {
    let (mut queue, now) = (Queue::new(limits()), Instant::now());
    queue.push("old", now, now, 10);
    queue.push("slow", now, now + ms(4_000), 10);
    assert_eq!(queue.pop(now + ms(5_001)), Some(("slow", 10)));
    assert_eq!(queue.dropped().late, 1);
    // Its bytes count until it has ended.
    queue.push("large", now, now + ms(4_000), 991);
    assert_eq!(queue.dropped().bytes, 1);
    queue.release(10);
    queue.push("large", now, now + ms(4_000), 991);
    assert_eq!(queue.pop(now + ms(5_001)), Some(("large", 991)));
    assert_eq!(queue.dropped().all(), 2);
}

/// Whatever happens, each request is sent, dropped, or left at the end, once, and no byte is held for ever.
#[test]
fn nothing_is_lost_from_sight() {
    let seed = std::env::var("HELENUS_SEED").ok();
    let seed = seed.map_or_else(rand::random, |seed| seed.parse().expect("a number"));
    println!("replay with HELENUS_SEED={seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut queue, mut now) = (Queue::new(limits()), Instant::now());
    let (mut pushed, mut sent, mut held) = (0_u64, 0_u64, Vec::new());
    for number in 0..5_000 {
        now += ms(rng.random_range(0..200));
        let due = now + ms(rng.random_range(0..2_000));
        queue.push(number, due, now, rng.random_range(1..200));
        pushed += 1;
        while rng.random_bool(0.4)
            && let Some((_, bytes)) = queue.pop(now)
        {
            sent += 1;
            held.push(bytes);
        }
        if rng.random_bool(0.4)
            && let Some(bytes) = held.pop()
        {
            queue.release(bytes);
        }
    }
    held.drain(..).for_each(|bytes| queue.release(bytes));
    let dropped = queue.dropped().all();
    assert!(sent > 0 && dropped > 0);
    assert_eq!(sent + dropped + queue.clear(), pushed);
    // All of the room is there again.
    queue.push(0, now, now, 1_000);
    assert_eq!(queue.pop(now), Some((0, 1_000)));
}
