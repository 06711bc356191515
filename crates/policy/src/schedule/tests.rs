use super::*;
use std::collections::VecDeque;

mod floors;
mod flows;
mod model;
mod refusals;
mod shares;
mod standing;

const LONG: u64 = 1_000_000_000;

/// An answer that taught nothing new about the work.
fn answered(predicted_us: u32, service_us: u32) -> Answered {
    Answered {
        is_error: false,
        predicted_us,
        known_us: predicted_us,
        service_us,
    }
}

/// One in flight at a time; nothing is ever due, refused or adapted.
fn settings(variant: Variant, window: u32) -> Settings {
    Settings {
        variant,
        window_min: window,
        window_floor: 0,
        window_max: window,
        window_open_max: window,
        scan_slots: 1,
        scan_slots_idle: 1,
        scan_slots_start: 1,
        scan_slots_max: 1,
        wait_max_us: [LONG; Class::COUNT],
        standing_wait_max_us: [0; Class::COUNT],
        queue_max: [1000; Class::COUNT],
    }
}

fn scan(work_us: u32, nodes_left: u16, rows: u32) -> Job {
    Job {
        nodes_left,
        rows,
        ..Job::of_work(work_us)
    }
}

fn queued(offer: Offer) -> Handle {
    match offer {
        Offer::Queued(handle) => handle,
        other => panic!("expected to be queued, not {other:?}"),
    }
}

/// Offers `first`, which is sent, then the rest. Returns the order in which the rest is sent, one at
/// a time.
fn order(settings: Settings, items: &[(&'static str, Class, Job)]) -> Vec<&'static str> {
    let mut schedule = Schedule::new(settings);
    let blocker = Class::Write;
    let job = Job::of_work(1);
    assert_eq!(
        schedule.offer(0, "first", blocker, job, false),
        Offer::Dispatch
    );
    for &(name, class, job) in items {
        queued(schedule.offer(0, name, class, job, false));
    }
    let mut last = blocker;
    let mut out = Vec::new();
    loop {
        schedule.on_done(0, last, answered(1, 1));
        let Some((name, class)) = schedule.poll_dispatch(0, true) else {
            return out;
        };
        out.push(name);
        last = class;
    }
}

#[test]
fn the_papers_orders() {
    let items = [
        ("wide", Class::Scan, scan(9, 3, 10)),
        ("point 1", Class::Point, Job::of_work(5)),
        ("narrow", Class::Scan, scan(9, 1, 90)),
        ("point 2", Class::Point, Job::of_work(1)),
        ("narrow, few", Class::Scan, scan(9, 1, 20)),
    ];
    for (variant, expected) in [
        ("O", ["wide", "point 1", "narrow", "point 2", "narrow, few"]),
        ("P", ["wide", "point 1", "narrow", "point 2", "narrow, few"]),
        (
            "ReS",
            ["point 1", "point 2", "wide", "narrow", "narrow, few"],
        ),
        (
            "ReS+P",
            ["point 1", "point 2", "wide", "narrow", "narrow, few"],
        ),
        (
            "P+RaS",
            ["narrow, few", "point 1", "narrow", "point 2", "wide"],
        ),
        ("A", ["point 1", "point 2", "narrow, few", "narrow", "wide"]),
    ] {
        let variant: Variant = variant.parse().unwrap();
        assert_eq!(order(settings(variant, 1), &items), expected, "{variant}");
    }
}

#[test]
fn variants_are_called_as_in_the_paper() {
    for variant in Variant::ALL {
        assert_eq!(variant.to_string().parse(), Ok(variant));
    }
    assert!("ReSP".parse::<Variant>().is_err());
}

#[test]
fn the_default_serves_the_least_remaining_work() {
    let order = order(
        settings(Variant::Default, 1),
        &[
            ("write, long", Class::Write, Job::of_work(5000)),
            ("point, long", Class::Point, Job::of_work(4500)),
            ("slice", Class::Slice, Job::of_work(600)),
            ("point 1", Class::Point, Job::of_work(200)),
            ("point 2", Class::Point, Job::of_work(130)),
            ("system", Class::System, Job::of_work(9000)),
        ],
    );
    // 200 and 130 are within the same power of two, and so are 5000 and 4500.
    assert_eq!(
        order,
        [
            "system",
            "point 1",
            "point 2",
            "slice",
            "point, long",
            "write, long"
        ]
    );
}

#[test]
fn half_of_a_nodes_processors_may_be_busy_with_scans_and_all_are_tried_first() {
    let bounds = |processors, max, proxies| {
        let settings = Settings {
            scan_slots_max: max,
            ..Settings::default()
        };
        let settings = settings.of_node(processors).shared_by(proxies);
        let start = settings.scan_slots_start;
        (settings.scan_slots, start, settings.scan_slots_bounds())
    };
    assert_eq!(bounds(0, 32, 1), (1, 2, (2, 32)), "not known");
    assert_eq!(bounds(2, 32, 1), (1, 2, (2, 32)));
    assert_eq!(bounds(16, 32, 1), (8, 16, (8, 32)));
    assert_eq!(bounds(16, 32, 4), (2, 4, (2, 8)), "one of four proxies");
    assert_eq!(bounds(64, 6, 1), (6, 6, (6, 6)), "the settings bound it");
}

#[test]
fn scans_have_slots_and_all_else_the_window() {
    let mut schedule = Schedule::new(Settings {
        scan_slots_idle: 2,
        ..settings(Variant::Default, 2)
    });
    let (point, long) = (Job::of_work(1), scan(100, 1, 9));
    let mut offer = |class, job| schedule.offer(0, class, class, job, true);
    assert_eq!(offer(Class::Scan, long), Offer::Dispatch);
    assert_eq!(offer(Class::Scan, long), Offer::Dispatch, "idle otherwise");
    queued(offer(Class::Scan, long));
    assert_eq!(offer(Class::Point, point), Offer::Dispatch);
    assert_eq!(offer(Class::Point, point), Offer::Dispatch);
    queued(offer(Class::Point, point));
    schedule.on_done(0, Class::Scan, answered(100, 100));
    assert_eq!(
        schedule.poll_dispatch(0, true),
        None,
        "one slot beside points"
    );
    schedule.on_done(0, Class::Scan, answered(100, 100));
    assert!(schedule.wants_scan());
    assert_eq!(schedule.poll_dispatch(0, false), None, "no permit");
    let next = schedule.poll_dispatch(0, true);
    assert_eq!(next, Some((Class::Scan, Class::Scan)));
    schedule.on_done(0, Class::Point, answered(1, 1));
    let next = schedule.poll_dispatch(0, true);
    assert_eq!(next, Some((Class::Point, Class::Point)));
    assert!(!schedule.wants_scan());
}

#[test]
fn only_a_scan_that_lacks_nothing_else_wants_a_permit() {
    let mut schedule = Schedule::new(settings(Variant::Default, 1));
    let job = scan(100, 1, 9);
    assert!(!schedule.wants_scan(), "nothing waits");
    queued(schedule.offer(0, 1, Class::Scan, job, false));
    assert!(schedule.wants_scan());
    assert_eq!(schedule.poll_dispatch(0, true), Some((1, Class::Scan)));
    queued(schedule.offer(0, 2, Class::Scan, job, true));
    assert!(!schedule.wants_scan(), "as many as may be are in flight");
    schedule.on_done(0, Class::Scan, answered(100, 100));
    assert!(schedule.wants_scan());
    schedule.set_settings(settings(Variant::O, 1));
    assert!(!schedule.wants_scan(), "the paper knows no permits");
}

#[test]
fn other_answers_are_measured_while_scans_are_about() {
    let seen = |variant, beside: Option<Class>, class| {
        let mut schedule = Schedule::new(settings(variant, 4));
        for class in beside.into_iter().chain([class]) {
            let offer = schedule.offer(0, 0, class, Job::of_work(100), true);
            assert_eq!(offer, Offer::Dispatch);
        }
        schedule.on_done(0, class, answered(100, 200));
        let others = schedule.take_others();
        assert_eq!(schedule.take_others().count, 0, "they were taken");
        (others.count, others.ln_sum)
    };
    let twice = (1, 2.0_f64.ln());
    use Class::*;
    assert_eq!(seen(Variant::Default, Some(Scan), Point), twice);
    assert_eq!(seen(Variant::Default, Some(Write), Point), (0, 0.0));
    assert_eq!(seen(Variant::Default, None, Scan), (0, 0.0));
    assert_eq!(seen(Variant::O, Some(Scan), Point), (0, 0.0));
}

#[test]
fn the_window_is_open_until_a_scan_comes() {
    let mut schedule = Schedule::new(Settings {
        window_open_max: 5,
        ..settings(Variant::Default, 2)
    });
    let mut offer = |class| schedule.offer(0, class, class, Job::of_work(1), true);
    for _ in 0..3 {
        assert_eq!(offer(Class::Point), Offer::Dispatch);
    }
    assert_eq!(offer(Class::Scan), Offer::Dispatch);
    queued(offer(Class::Point));
    assert_eq!(schedule.window(), 2);
    schedule.on_done(0, Class::Point, answered(1, 1));
    assert_eq!(schedule.poll_dispatch(0, true), None);
    schedule.on_done(0, Class::Scan, answered(1, 1));
    assert_eq!(schedule.window(), 5);
    assert!(schedule.poll_dispatch(0, true).is_some());
}

#[test]
fn the_window_narrows_when_answers_come_late_for_their_work() {
    let mut schedule = Schedule::new(Settings {
        window_min: 4,
        ..settings(Variant::Default, 64)
    });
    let scan = schedule.offer(0, 0, Class::Scan, Job::of_work(9), true);
    assert_eq!(scan, Offer::Dispatch);
    // Cheap and expensive ones alternate: only the ratio matters.
    let answer = |schedule: &mut Schedule<u32>, slowness: u32, in_flight: usize| {
        for turn in 0..960 {
            while schedule.in_flight() < in_flight.min(schedule.window() as usize) {
                let offer = schedule.offer(0, 1, Class::Point, Job::of_work(100), true);
                assert_eq!(offer, Offer::Dispatch);
            }
            let work_us = if turn % 2 == 0 { 100 } else { 900 };
            schedule.on_done(0, Class::Point, answered(work_us, work_us * slowness));
        }
    };
    answer(&mut schedule, 1, 60);
    assert_eq!(schedule.window(), 64);
    answer(&mut schedule, 20, 60);
    let narrow = schedule.window();
    assert!((4..40).contains(&narrow), "{narrow}");
    // It does not grow while it is not used.
    while schedule.in_flight() > 1 {
        schedule.on_done(0, Class::Point, answered(100, 100 * 20));
    }
    let narrow = schedule.window();
    answer(&mut schedule, 1, 2);
    assert_eq!(schedule.window(), narrow);
    answer(&mut schedule, 1, 60);
    assert!(schedule.window() > narrow);
}

#[test]
fn a_narrow_window_stays_narrow_until_its_maximum_changes() {
    let bounds = Settings {
        window_min: 4,
        ..settings(Variant::Default, 64)
    };
    let mut schedule = Schedule::new(bounds);
    let scan = schedule.offer(0, 0, Class::Scan, Job::of_work(9), true);
    assert_eq!(scan, Offer::Dispatch);
    for turn in 0..960 {
        let offer = schedule.offer(0, 1, Class::Point, Job::of_work(100), true);
        assert_eq!(offer, Offer::Dispatch);
        let slowness = if turn < 320 { 1 } else { 20 };
        schedule.on_done(0, Class::Point, answered(100, 100 * slowness));
    }
    let narrow = schedule.window();
    assert!(narrow < 60, "{narrow}");
    schedule.set_settings(Settings {
        scan_slots: 2,
        ..bounds
    });
    assert_eq!(schedule.window(), narrow);
    schedule.set_settings(Settings {
        window_max: 100,
        ..bounds
    });
    // The share of the bound, not the bound: a node that answers late does so under any settings.
    let wider = schedule.window();
    assert!(narrow < wider && wider < 100, "{narrow} {wider}");
}

#[test]
fn what_is_due_goes_first_and_what_is_over_comes_back() {
    let mut bounds = settings(Variant::Default, 1);
    bounds.wait_max_us[Class::Write as usize] = 100;
    let mut schedule = Schedule::new(bounds);
    let (point, long) = (Job::of_work(1), Job::of_work(1000));
    let first = schedule.offer(0, "first", Class::Point, point, true);
    assert_eq!(first, Offer::Dispatch);
    queued(schedule.offer(0, "write 1", Class::Write, long, true));
    queued(schedule.offer(10, "write 2", Class::Write, long, true));
    queued(schedule.offer(20, "point 1", Class::Point, point, true));
    queued(schedule.offer(20, "point 2", Class::Point, point, true));
    let mut next = |now_us, class| {
        schedule.on_done(now_us, class, answered(1, 1));
        schedule.poll_dispatch(now_us, true)
    };
    assert_eq!(next(49, Class::Point), Some(("point 1", Class::Point)));
    assert_eq!(next(50, Class::Point), Some(("write 1", Class::Write)));
    assert_eq!(next(59, Class::Write), Some(("point 2", Class::Point)));
    assert_eq!(schedule.next_expiry_us(), Some(110));
    assert_eq!(schedule.poll_expired(109), None);
    assert_eq!(schedule.poll_expired(110), Some(("write 2", Class::Write)));
    assert_eq!(schedule.counters().aged[Class::Write as usize], 1);
    assert_eq!(schedule.counters().expired[Class::Write as usize], 1);
}

#[test]
fn a_burst_of_due_scans_takes_every_second_dispatch() {
    for variant in [Variant::O, Variant::ReS, Variant::A] {
        let mut bounds = settings(variant, 1);
        bounds.wait_max_us[Class::Scan as usize] = 100;
        let mut schedule = Schedule::new(bounds);
        let offer = schedule.offer(0, 0, Class::Point, Job::of_work(1), true);
        assert_eq!(offer, Offer::Dispatch);
        for item in 0..8 {
            queued(schedule.offer(0, item, Class::Scan, scan(50, 1, 9), true));
        }
        for item in 0..8 {
            queued(schedule.offer(1, item, Class::Point, Job::of_work(1), true));
        }
        let mut last = Class::Point;
        let mut classes = Vec::new();
        for _ in 0..16 {
            schedule.on_done(60, last, answered(1, 1));
            last = schedule.poll_dispatch(60, true).expect("16 wait").1;
            classes.push(last);
        }
        let expected: Vec<Class> = [Class::Scan, Class::Point].repeat(8);
        assert_eq!(classes, expected, "{variant}");
    }
}

/// An endless stream of points exceeds the window; scans still make progress beside them.
#[test]
fn points_without_end_do_not_starve_scans() {
    let mut schedule = Schedule::new(settings(Variant::Default, 2));
    let mut out = VecDeque::new();
    for item in 0..100 {
        let class = if item % 5 == 0 {
            Class::Scan
        } else {
            Class::Point
        };
        match schedule.offer(item, item, class, Job::of_work(5), true) {
            Offer::Dispatch => out.push_back(class),
            Offer::Queued(_) => {}
            Offer::Refused(why) => panic!("{why}"),
        }
    }
    let mut scans = 0;
    for now_us in 100..130 {
        let class = out.pop_front().expect("three are in flight");
        schedule.on_done(now_us, class, answered(5, 5));
        while let Some((_, class)) = schedule.poll_dispatch(now_us, true) {
            scans += usize::from(class == Class::Scan);
            out.push_back(class);
        }
    }
    assert!((9..=11).contains(&scans), "{scans} of 30 dispatches");
}

#[test]
fn tenants_share_by_work() {
    let mut schedule = Schedule::new(settings(Variant::Default, 1));
    let job = |tenant, work_us| Job {
        tenant,
        ..Job::of_work(work_us)
    };
    let first = schedule.offer(0, 0, Class::Point, job(1, 1), true);
    assert_eq!(first, Offer::Dispatch);
    for _ in 0..60 {
        queued(schedule.offer(0, 1, Class::Point, job(1, 70), true));
    }
    for _ in 0..60 {
        queued(schedule.offer(0, 2, Class::Point, job(2, 120), true));
    }
    let mut work = [0u32, 0];
    for _ in 0..38 {
        schedule.on_done(0, Class::Point, answered(1, 1));
        let (tenant, _) = schedule.poll_dispatch(0, true).expect("many wait");
        work[tenant - 1] += [70, 120][tenant - 1];
    }
    assert!(work[0].abs_diff(work[1]) <= 120, "{work:?}");
}

/// A tenant with one item at a time does not count as new each time.
#[test]
fn coming_back_is_no_advantage() {
    let mut schedule = Schedule::new(settings(Variant::Default, 1));
    let job = |tenant| Job {
        tenant,
        ..Job::of_work(100)
    };
    let first = schedule.offer(0, 0, Class::Point, job(2), true);
    assert_eq!(first, Offer::Dispatch);
    for _ in 0..40 {
        queued(schedule.offer(0, 2, Class::Point, job(2), true));
    }
    queued(schedule.offer(0, 1, Class::Point, job(1), true));
    let mut served = [0, 0];
    for _ in 0..30 {
        schedule.on_done(0, Class::Point, answered(1, 1));
        let (tenant, _) = schedule.poll_dispatch(0, true).expect("many wait");
        served[tenant as usize - 1] += 1;
        if tenant == 1 {
            queued(schedule.offer(0, 1, Class::Point, job(1), true));
        }
    }
    assert_eq!(served, [15, 15]);
}

#[test]
fn a_piece_that_returns_raises_its_siblings() {
    let mut schedule = Schedule::new(settings(Variant::A, 1));
    let first = schedule.offer(0, "first", Class::Point, Job::of_work(1), true);
    assert_eq!(first, Offer::Dispatch);
    let wide = queued(schedule.offer(0, "wide", Class::Scan, scan(9, 3, 10), true));
    queued(schedule.offer(0, "narrow", Class::Scan, scan(9, 2, 10), true));
    assert!(schedule.reprioritise(wide, 1, 10, 3));
    schedule.on_done(0, Class::Point, answered(1, 1));
    assert_eq!(schedule.poll_dispatch(0, true), Some(("wide", Class::Scan)));
    assert!(!schedule.reprioritise(wide, 1, 10, 3), "it is gone");
    assert_eq!(schedule.remove(wide), None);
}

#[test]
fn settings_change_while_things_wait() {
    let mut schedule = Schedule::new(settings(Variant::O, 1));
    let first = schedule.offer(0, "first", Class::Point, Job::of_work(1), true);
    assert_eq!(first, Offer::Dispatch);
    queued(schedule.offer(0, "scan", Class::Scan, scan(9, 2, 10), true));
    queued(schedule.offer(0, "long", Class::Point, Job::of_work(900), true));
    queued(schedule.offer(0, "short", Class::Point, Job::of_work(9), true));
    schedule.set_settings(settings(Variant::Default, 1));
    assert_eq!(schedule.waiting(), 3);
    let mut out: Vec<_> = std::iter::from_fn(|| schedule.poll_dispatch(0, true)).collect();
    schedule.on_done(0, Class::Point, answered(1, 1));
    out.extend(schedule.poll_dispatch(0, true));
    assert_eq!(out, [("scan", Class::Scan), ("short", Class::Point)]);
    assert_eq!(schedule.drain(), [("long", Class::Point)]);
}

#[test]
#[should_panic(expected = "done without anything in flight")]
fn more_done_than_dispatched_is_a_mistake() {
    Schedule::<()>::new(settings(Variant::O, 1)).on_gone(Class::Point);
}

/// Another worker may free capacity on the node at any time.
#[test]
fn a_node_that_is_full_takes_nothing_and_then_first_what_has_waited() {
    let mut schedule = Schedule::new(settings(Variant::Default, 4));
    let job = Job::of_work(1);
    schedule.set_node_has_room(false);
    queued(schedule.offer(0, "first", Class::Point, job, true));
    assert_eq!(schedule.poll_dispatch(0, true), None);
    schedule.set_node_has_room(true);
    queued(schedule.offer(0, "second", Class::Point, job, true));
    let next = std::iter::from_fn(|| schedule.poll_dispatch(0, true));
    assert_eq!(
        next.map(|(item, _)| item).collect::<Vec<_>>(),
        ["first", "second"]
    );
}

#[test]
fn the_window_of_a_node_that_has_joined_opens_from_low() {
    let settings = Settings {
        window_min: 2,
        window_open_max: 102,
        ..Settings::default()
    };
    let mut schedule: Schedule<u32> = Schedule::new(settings);
    schedule.begin_low(1_000, 100);
    let mut sent = 0;
    let mut offer_many = |schedule: &mut Schedule<u32>, now_us| {
        let job = Job::of_work(100);
        for item in 0..200 {
            let offer = schedule.offer(now_us, item, Class::Point, job, false);
            sent += u32::from(offer == Offer::Dispatch);
        }
        while schedule.poll_dispatch(now_us, false).is_some() {
            sent += 1;
        }
        sent
    };
    assert_eq!(offer_many(&mut schedule, 1_000), 2);
    assert_eq!(offer_many(&mut schedule, 1_050), 52);
    assert_eq!(offer_many(&mut schedule, 1_100), 102);
}
