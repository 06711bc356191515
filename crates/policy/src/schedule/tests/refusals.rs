//! Items that are refused at once, for what waits already.

use super::*;

#[test]
fn what_comes_at_once_is_not_refused_for_a_prediction() {
    let mut bounds = settings(Variant::Default, 2);
    bounds.wait_max_us = [1_000_000; Class::COUNT];
    let mut schedule = Schedule::new(bounds);
    let mut offer = |now_us, work_us| {
        let offer = schedule.offer(now_us, 0, Class::Point, Job::of_work(work_us), true);
        (matches!(offer, Offer::Refused(_)), offer)
    };
    for _ in 0..40 {
        assert!(!offer(0, 10_000).0);
    }
    let mut now_us = 0;
    while schedule.waiting() > 0 {
        now_us += 20_000;
        schedule.on_done(now_us, Class::Point, answered(10_000, 10_000));
        while schedule.poll_dispatch(now_us, true).is_some() {}
    }
    // Each is predicted to take ten seconds.
    let mut burst = |now_us| {
        let offer = schedule.offer(now_us, 0, Class::Point, Job::of_work(10_000_000), true);
        matches!(offer, Offer::Refused(Refusal::TooLate { .. }))
    };
    assert!((0..20).all(|_| !burst(now_us)));
    assert!(!burst(now_us + 50_000));
    assert!(burst(now_us + 100_000), "some have waited");
}

/// 500 clients, each with its own statement and one query in flight, and a node that answers one
/// every five milliseconds: at first all are predicted from their class, later as the seconds that
/// an answer takes in this crowd.
#[test]
fn statements_that_turn_out_dearer_than_their_class_are_not_refused() {
    let mut bounds = settings(Variant::Default, 250);
    bounds.wait_max_us = [5_000_000; Class::COUNT];
    bounds.queue_max = [1_000; Class::COUNT];
    let mut schedule = Schedule::new(bounds);
    let mut in_flight = std::collections::VecDeque::new();
    for _ in 0..500 {
        let offer = schedule.offer(0, 150, Class::Point, Job::of_work(150), true);
        match offer {
            Offer::Dispatch => in_flight.push_back(150),
            _ => _ = queued(offer),
        }
    }
    for answer in 0..5_000 {
        let now_us = 5_000 * (answer + 1);
        let predicted_us = in_flight.pop_front().expect("in flight");
        let answered = Answered {
            is_error: false,
            predicted_us,
            known_us: 1_000_000,
            service_us: 1_000_000,
        };
        schedule.on_done(now_us, Class::Point, answered);
        while let Some(next) = schedule.poll_dispatch(now_us, true) {
            in_flight.push_back(next.0);
        }
        let offer = schedule.offer(
            now_us,
            1_000_000,
            Class::Point,
            Job::of_work(1_000_000),
            true,
        );
        queued(offer);
    }
}

/// 500 points at once for a node that stalls for the first two seconds, as in garbage collection or
/// JIT compilation, and then answers.
#[test]
fn a_pause_at_the_beginning_is_no_reason_to_refuse() {
    let mut bounds = settings(Variant::Default, 250);
    bounds.wait_max_us = [5_000_000; Class::COUNT];
    bounds.queue_max = [10_000; Class::COUNT];
    let mut schedule = Schedule::new(bounds);
    let mut in_flight = 0;
    let offer = |schedule: &mut Schedule<u32>, now_us| {
        let offer = schedule.offer(now_us, 0, Class::Point, Job::of_work(150), true);
        assert!(!matches!(offer, Offer::Refused(_)), "{offer:?} at {now_us}");
        u32::from(offer == Offer::Dispatch)
    };
    for _ in 0..500 {
        in_flight += offer(&mut schedule, 0);
    }
    for step in 1..1_000 {
        let now_us = 5_000 * step;
        in_flight += offer(&mut schedule, now_us);
        if now_us > 2_000_000 && in_flight > 0 {
            schedule.on_done(now_us, Class::Point, answered(150, 2_000_000));
            in_flight -= 1;
            while schedule.poll_dispatch(now_us, true).is_some() {
                in_flight += 1;
            }
        }
    }
}

#[test]
fn too_much_work_is_refused_scans_first_points_last() {
    let mut bounds = settings(Variant::Default, 2);
    bounds.wait_max_us = [1_000_000; Class::COUNT];
    let mut schedule = Schedule::new(bounds);
    let job = |idempotent| Job {
        idempotent,
        ..Job::of_work(10_000)
    };
    let refused = |offer| matches!(offer, Offer::Refused(Refusal::TooLate { .. }));
    // Two points and a scan in flight, with queues behind them; each takes ten milliseconds.
    let mut now_us = 0;
    for _ in 0..2 {
        let offer = schedule.offer(0, 0, Class::Point, job(true), true);
        assert_eq!(offer, Offer::Dispatch);
    }
    assert_eq!(
        schedule.offer(0, 0, Class::Scan, job(true), true),
        Offer::Dispatch
    );
    for _ in 0..125 {
        queued(schedule.offer(0, 0, Class::Point, job(true), true));
        queued(schedule.offer(0, 0, Class::Scan, job(true), true));
        queued(schedule.offer(0, 0, Class::Other, job(true), true));
    }
    let mut sent = vec![Class::Point, Class::Point, Class::Scan];
    for _ in 0..50 {
        now_us += 10_000;
        for class in std::mem::take(&mut sent) {
            schedule.on_done(now_us, class, answered(10_000, 10_000));
        }
        while let Some((_, class)) = schedule.poll_dispatch(now_us, true) {
            sent.push(class);
        }
    }
    // 75 scans, one per step: 0.75 s. 150 others, two per step: the same.
    let offer = schedule.offer(now_us, 0, Class::Scan, job(true), true);
    assert!(!refused(offer), "{offer:?}");
    let offer = schedule.offer(now_us, 0, Class::Other, job(true), true);
    assert!(!refused(offer), "{offer:?}");
    // A node stopped for long enough to exceed twice, three and four times the bound.
    let mut stopped = |ms: u64| {
        let now_us = now_us + ms * 1000;
        [
            (Class::Scan, true),
            (Class::Write, true),
            (Class::Write, false),
            (Class::Point, true),
        ]
        .map(|(class, idempotent)| refused(schedule.offer(now_us, 0, class, job(idempotent), true)))
    };
    let steps: Vec<[bool; 4]> = (0..1_000).map(|step| stopped(50 + 5 * step)).collect();
    let first = |at: usize| steps.iter().position(|step| step[at]);
    let firsts = [0, 1, 2, 3].map(|at| first(at).expect("refused in the end"));
    assert!(firsts.is_sorted(), "{firsts:?}");
    assert!(0 < firsts[0] && firsts[0] < firsts[1], "{firsts:?}");
    assert!(firsts[1] < firsts[2] && firsts[2] < firsts[3], "{firsts:?}");
    let system = schedule.offer(now_us + 6_000_000, 0, Class::System, job(true), true);
    queued(system);
}

#[test]
fn a_node_is_slow_only_while_something_of_the_kind_waits_for_it() {
    for class in [Class::Scan, Class::Write] {
        let mut bounds = settings(Variant::Default, 1);
        bounds.wait_max_us = [1_000_000; Class::COUNT];
        let mut schedule = Schedule::new(bounds);
        let offer = |schedule: &mut Schedule<()>, now_us| {
            schedule.offer(now_us, (), class, Job::of_work(10_000), true)
        };
        // A hundred are served as fast as predicted, then nothing comes for a minute.
        assert_eq!(offer(&mut schedule, 0), Offer::Dispatch);
        for _ in 1..100 {
            queued(offer(&mut schedule, 0));
        }
        let mut now_us = 0;
        while schedule.in_flight() > 0 {
            now_us += 10_000;
            schedule.on_done(now_us, class, answered(10_000, 10_000));
            let _ = schedule.poll_dispatch(now_us, true);
        }
        now_us += 60_000_000;
        assert_eq!(offer(&mut schedule, now_us), Offer::Dispatch);
        for _ in 0..20 {
            queued(offer(&mut schedule, now_us));
        }
        queued(offer(&mut schedule, now_us + 70_000));
        // Now they wait for a minute.
        let late = offer(&mut schedule, now_us + 60_000_000);
        assert!(
            matches!(late, Offer::Refused(Refusal::TooLate { .. })),
            "{class:?}: {late:?}"
        );
    }
}

#[test]
fn scans_and_all_else_are_measured_apart() {
    let mut bounds = settings(Variant::Default, 1);
    bounds.wait_max_us = [1_000_000; Class::COUNT];
    bounds.wait_max_us[Class::Scan as usize] = 60_000_000;
    let mut schedule = Schedule::new(bounds);
    let job = Job::of_work(10_000);
    for (class, waiting) in [(Class::Point, 60), (Class::Scan, 900)] {
        let offer = schedule.offer(0, (), class, job, true);
        assert_eq!(offer, Offer::Dispatch);
        for _ in 0..waiting {
            queued(schedule.offer(0, (), class, job, true));
        }
    }
    // Half a second in which points are answered, and no scan.
    for step in 1..=50 {
        schedule.on_done(10_000 * step, Class::Point, answered(10_000, 10_000));
        let next = schedule.poll_dispatch(10_000 * step, false);
        assert_eq!(next, Some(((), Class::Point)));
    }
    queued(schedule.offer(500_000, (), Class::Other, job, true));
    // Nothing is answered any more; scans may wait for a minute.
    queued(schedule.offer(20_000_000, (), Class::Scan, job, true));
    let late = schedule.offer(20_000_000, (), Class::Other, job, true);
    assert!(matches!(late, Offer::Refused(Refusal::TooLate { .. })));
}

#[test]
fn full_queues_refuse() {
    let mut bounds = settings(Variant::Default, 0);
    bounds.queue_max[Class::Write as usize] = 1;
    let mut schedule = Schedule::new(bounds);
    let job = Job::of_work(1);
    assert!(schedule.would_queue(Class::Write, &job));
    queued(schedule.offer(0, (), Class::Write, job, true));
    assert!(!schedule.would_queue(Class::Write, &job));
    assert!(schedule.would_queue(Class::Scan, &job));
    let refused = schedule.offer(0, (), Class::Write, job, true);
    assert_eq!(refused, Offer::Refused(Refusal::QueueFull));
    assert_eq!(schedule.counters().refused[Class::Write as usize], 1);
}

/// A queue that has been served long enough for its rate to be known, and then not at all for so long; of each of these,
/// that many wait, and had been served before.
#[allow(clippy::type_complexity)]
fn stopped_with(
    waiting: &[(u32, Class, u32, u32)],
    stopped_us: u64,
) -> (
    Schedule<()>,
    impl Fn(&mut Schedule<()>, u32, Class, u32) -> bool,
) {
    let mut bounds = settings(Variant::Default, 1);
    bounds.wait_max_us = [1_000_000; Class::COUNT];
    bounds.queue_max = [100_000; Class::COUNT];
    let mut schedule = Schedule::new(bounds);
    let job = |tenant, work_us| Job {
        tenant,
        ..Job::of_work(work_us)
    };
    let offer = move |schedule: &mut Schedule<()>, now_us, (tenant, class, work_us)| {
        schedule.offer(now_us, (), class, job(tenant, work_us), true)
    };
    // A second in which each hundredth of one something is served.
    for class in [Class::Point, Class::Scan] {
        assert_eq!(offer(&mut schedule, 0, (9, class, 10_000)), Offer::Dispatch);
        (0..100).for_each(|_| _ = queued(offer(&mut schedule, 0, (9, class, 10_000))));
    }
    for step in 1..=100 {
        for class in [Class::Point, Class::Scan] {
            schedule.on_done(step * 10_000, class, answered(10_000, 10_000));
        }
        while schedule.poll_dispatch(step * 10_000, true).is_some() {}
    }
    assert_eq!(schedule.waiting(), 0);
    for &(tenant, class, work_us, count) in waiting {
        (0..count).for_each(|_| {
            _ = queued(offer(&mut schedule, 1_000_000, (tenant, class, work_us)));
        });
    }
    let refuses = move |schedule: &mut Schedule<()>, tenant, class, work_us| {
        let offer = offer(schedule, 1_000_000 + stopped_us, (tenant, class, work_us));
        matches!(offer, Offer::Refused(Refusal::TooLate { .. }))
    };
    (schedule, refuses)
}

#[test]
fn what_another_tenant_has_waiting_is_no_reason_to_refuse() {
    let (mut schedule, refuses) = stopped_with(&[(1, Class::Point, 1_000, 5_000)], 100_000);
    assert!(refuses(&mut schedule, 1, Class::Point, 1_000), "its own");
    assert!(
        !refuses(&mut schedule, 2, Class::Point, 1_000),
        "takes turns"
    );
    // Reads are as light, and more urgent; but of nine requests one is a write.
    assert!(
        !refuses(&mut schedule, 2, Class::Write, 1_000),
        "has a floor"
    );
    assert!(
        !refuses(&mut schedule, 1, Class::Write, 1_000),
        "has a floor"
    );
}

#[test]
fn a_tenant_waits_for_its_own_and_for_as_much_of_others() {
    let all = [
        (1, Class::Point, 1_000, 5_000),
        (2, Class::Point, 1_000, 3_000),
    ];
    let (mut schedule, refuses) = stopped_with(&all, 100_000);
    // Three seconds of its own, and three of the other's.
    assert!(refuses(&mut schedule, 2, Class::Point, 1_000));
    let (mut schedule, refuses) = stopped_with(&all[1..], 100_000);
    assert!(!refuses(&mut schedule, 2, Class::Point, 1_000));
}

#[test]
fn many_tenants_of_one_item_each_are_a_backlog() {
    let all: Vec<_> = (1..=5_000)
        .map(|tenant| (tenant, Class::Write, 10_000, 1))
        .collect();
    let (mut schedule, refuses) = stopped_with(&all, 100_000);
    // They take turns, and all but the new one have had none either.
    assert!(refuses(&mut schedule, 6_000, Class::Write, 10_000));
    let (mut schedule, refuses) = stopped_with(&all[..10], 100_000);
    assert!(!refuses(&mut schedule, 6_000, Class::Write, 10_000));
}

#[test]
fn one_prediction_is_no_backlog() {
    let long = [(1, Class::Scan, 5_000_000, 1), (1, Class::Scan, 1_000, 20)];
    let (mut schedule, refuses) = stopped_with(&long, 100_000);
    assert!(!refuses(&mut schedule, 1, Class::Scan, 5_000_000));
    let (mut schedule, refuses) = stopped_with(&[(1, Class::Scan, 5_000_000, 2)], 100_000);
    assert!(refuses(&mut schedule, 1, Class::Scan, 5_000_000));
}

#[test]
fn what_nobody_waits_for_says_nothing_of_how_fast_scans_are_served() {
    let (mut schedule, refuses) = stopped_with(&[(1, Class::Scan, 10_000, 200)], 900_000);
    assert!(refuses(&mut schedule, 1, Class::Scan, 10_000));
    schedule.forget_scan_rate();
    assert!(!refuses(&mut schedule, 1, Class::Scan, 10_000));
}
