//! Classes of which less is offered than the node serves get it, whatever is offered of others.

use std::collections::VecDeque;

use super::*;

/// Time of a request at the node, which serves one at a time.
const SERVICE_US: u64 = 50;
const SECOND: u64 = 1_000_000;
const PATIENCE_US: u64 = 2 * SECOND;

/// The fate of the requests of one class.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    asked: u64,
    in_time: u64,
}

/// For so many seconds, a request of each of these classes comes at every such interval. Its predicted work is
/// what it takes.
fn overload(seconds: u64, offered: &[(Class, u64, u32)]) -> Vec<Fate> {
    let mut bounds = settings(Variant::Default, 1);
    bounds.wait_max_us = Settings::default().wait_max_us;
    bounds.queue_max = [1_000_000; Class::COUNT];
    bounds.standing_wait_max_us = [PATIENCE_US; Class::COUNT];
    let mut schedule: Schedule<(usize, u64)> = Schedule::new(bounds);
    let mut fates = vec![Fate::default(); offered.len()];
    let mut serves: VecDeque<(u64, usize, u64)> = VecDeque::new();
    for now_us in 0..seconds * SECOND {
        for (at, (class, every_us, work_us)) in offered.iter().enumerate() {
            if now_us.is_multiple_of(*every_us) {
                fates[at].asked += 1;
                let job = Job::of_work(*work_us);
                match schedule.offer(now_us, (at, now_us), *class, job, true) {
                    Offer::Dispatch => serves.push_back((now_us + u64::from(*work_us), at, now_us)),
                    Offer::Queued(_) | Offer::Refused(_) => {}
                }
            }
        }
        while let Some((_, at, asked_us)) = serves.pop_front_if(|serves| serves.0 <= now_us) {
            let (class, _, work_us) = offered[at];
            schedule.on_done(now_us, class, answered(work_us, work_us));
            fates[at].in_time += u64::from(now_us - asked_us <= PATIENCE_US);
            while let Some(((at, asked_us), _)) = schedule.poll_dispatch(now_us, true) {
                serves.push_back((now_us + u64::from(offered[at].2), at, asked_us));
            }
        }
        if now_us.is_multiple_of(100_000) {
            let _ = schedule.shed(now_us);
            while schedule.poll_expired(now_us).is_some() {}
        }
    }
    fates
}

#[test]
fn writes_are_served_while_more_reads_come_than_the_node_serves() {
    let reads = (Class::Point, SERVICE_US * 10 / 11, SERVICE_US as u32);
    let writes = (Class::Write, SERVICE_US * 10, SERVICE_US as u32);
    let fates = overload(6, &[reads, writes]);
    let [reads, writes] = fates[..] else {
        panic!("two classes");
    };
    assert!(writes.in_time * 100 >= writes.asked * 99, "{writes:?}");
    assert!(reads.in_time * 100 >= reads.asked * 75, "{reads:?}");
}

#[test]
fn no_class_starves_because_its_work_is_more() {
    let reads = (Class::Point, SERVICE_US * 2 / 3, SERVICE_US as u32);
    let slices = (Class::Slice, SERVICE_US * 80, SERVICE_US as u32 * 8);
    let fates = overload(6, &[reads, slices]);
    let slices = fates[1];
    assert!(slices.in_time * 100 >= slices.asked * 99, "{slices:?}");
}
