//! Items that are shed from queues that stand, and those that are not.

use super::*;

const TICK_US: u64 = 100_000;
/// Time of a request at the node, which serves a scan and something else at a time.
const SERVICE_US: u64 = 10_000;
const PATIENCE_US: u64 = 2_000_000;
const SECOND: u64 = 1_000_000;
const TENANTS: usize = 40;

#[derive(Clone, Copy, Debug)]
struct Asked {
    at_us: u64,
    tenant: u32,
    class: Class,
}

/// The fate of the requests of one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fate {
    asked: u32,
    in_time: u32,
    too_late: u32,
    shed: u32,
    expired: u32,
}

/// One node, and clients that ask at a rate of their own whether or not they have been answered.
struct Node {
    schedule: Schedule<Asked>,
    now_us: u64,
    /// Until when it is busy with a scan and with something else, and with what.
    serves: [Option<(u64, Asked)>; 2],
    fates: [Fate; TENANTS],
}

impl Node {
    fn new(standing_ms: u64, scan_ms: u64) -> Node {
        let mut bounds = settings(Variant::Default, 1);
        bounds.wait_max_us = [5 * SECOND; Class::COUNT];
        bounds.wait_max_us[Class::Scan as usize] = 60 * SECOND;
        bounds.queue_max = [100_000; Class::COUNT];
        bounds.standing_wait_max_us = [standing_ms * 1_000; Class::COUNT];
        bounds.standing_wait_max_us[Class::Scan as usize] = scan_ms * 1_000;
        Node {
            schedule: Schedule::new(bounds),
            now_us: 0,
            serves: [None; 2],
            fates: [Fate::default(); TENANTS],
        }
    }

    fn ask(&mut self, tenant: u32, class: Class) {
        let asked = Asked {
            at_us: self.now_us,
            tenant,
            class,
        };
        self.fates[tenant as usize].asked += 1;
        let job = Job {
            tenant,
            ..Job::of_work(SERVICE_US as u32)
        };
        match self.schedule.offer(self.now_us, asked, class, job, true) {
            Offer::Dispatch => self.begin(asked),
            Offer::Queued(_) => {}
            Offer::Refused(why) => panic!("{why} at {}", self.now_us),
        }
    }

    fn begin(&mut self, asked: Asked) {
        let serves = &mut self.serves[usize::from(asked.class == Class::Scan)];
        assert!(serves.is_none(), "one of a kind at a time");
        *serves = Some((self.now_us + SERVICE_US, asked));
    }

    /// A millisecond passes; `serving`: whether the node answers.
    fn pass(&mut self, serving: bool) {
        self.now_us += 1_000;
        let now_us = self.now_us;
        for kind in 0..2 {
            let is_over = |serves: &mut (u64, Asked)| serving && serves.0 <= now_us;
            let Some((_, asked)) = self.serves[kind].take_if(is_over) else {
                continue;
            };
            let work_us = SERVICE_US as u32;
            self.schedule
                .on_done(now_us, asked.class, answered(work_us, work_us));
            let fate = &mut self.fates[asked.tenant as usize];
            match now_us - asked.at_us <= PATIENCE_US {
                true => fate.in_time += 1,
                false => fate.too_late += 1,
            }
            while let Some((next, _)) = self.schedule.poll_dispatch(now_us, true) {
                self.begin(next);
            }
        }
        if now_us.is_multiple_of(TICK_US) {
            for (asked, _) in self.schedule.shed(now_us) {
                self.fates[asked.tenant as usize].shed += 1;
            }
            while let Some((asked, _)) = self.schedule.poll_expired(now_us) {
                self.fates[asked.tenant as usize].expired += 1;
            }
        }
    }

    /// So many seconds, in which a tenant's requests come at fixed intervals, in milliseconds; 0: none.
    fn run(&mut self, seconds: u64, every_ms: [u64; 2], class: Class) {
        for ms in 0..seconds * 1_000 {
            for (tenant, every) in (0..).zip(every_ms) {
                if every > 0 && ms.is_multiple_of(every) {
                    self.ask(tenant, class);
                }
            }
            self.pass(true);
        }
    }
}

#[test]
fn under_standing_overload_clients_are_served_before_they_leave() {
    let served = |standing_ms| {
        let mut node = Node::new(standing_ms, 0);
        node.run(60, [5, 0], Class::Point);
        node.fates[0]
    };
    let (without, with) = (served(0), served(1_500));
    assert!(without.too_late > 5 * without.in_time, "{without:?}");
    assert!(with.in_time > 20 * with.too_late, "{with:?}");
    let of = |fate: Fate| fate.in_time + fate.too_late;
    assert!(of(with).abs_diff(of(without)) < 5, "as much is served");
    assert!(with.shed > 2_000 && with.expired == 0, "{with:?}");
}

#[test]
fn a_queue_that_drains_loses_nothing() {
    let mut node = Node::new(1_500, 0);
    for _ in 0..450 {
        node.ask(0, Class::Point);
    }
    node.run(5, [0, 0], Class::Point);
    assert_eq!((node.fates[0].shed, node.fates[0].expired), (0, 0));
    // Half as much as can be served goes on coming meanwhile.
    for _ in 0..240 {
        node.ask(0, Class::Point);
    }
    node.run(8, [20, 0], Class::Point);
    assert_eq!((node.fates[0].shed, node.fates[0].expired), (0, 0));
    assert!(node.fates[0].too_late > 100, "it did take long");
}

#[test]
fn a_second_burst_while_the_first_is_worked_off_loses_nothing() {
    for apart_ms in (500..2_500).step_by(50) {
        let mut node = Node::new(1_500, 0);
        for ms in 0..10_000_u64 {
            if ms == 0 || ms == apart_ms {
                (0..250).for_each(|_| node.ask(0, Class::Point));
            }
            if ms.is_multiple_of(20) {
                node.ask(0, Class::Point);
            }
            node.pass(true);
        }
        assert_eq!(node.fates[0].shed, 0, "{apart_ms}");
        assert!(node.fates[0].too_late > 50, "{:?}", node.fates[0]);
    }
}

/// A node stands still for so long, from a moment on, while a request comes every so often, and then
/// goes on for 5 s: how many are shed.
fn shed_by_pause(from_ms: u64, pause_ms: u64, every_ms: u64) -> u32 {
    let mut node = Node::new(1_500, 0);
    for ms in 0..from_ms + pause_ms + 5_000 {
        if ms.is_multiple_of(every_ms) {
            node.ask(0, Class::Point);
        }
        node.pass(!(from_ms..from_ms + pause_ms).contains(&ms));
    }
    node.fates[0].shed
}

#[test]
fn a_node_that_stands_still_is_not_an_overload() {
    // Half as much as can be served, and 83 %.
    for every_ms in [20, 12] {
        for pause_ms in [150, 300, 450, 900, 1_600, 2_500, 4_000] {
            for from_ms in (3_000..3_500).step_by(20) {
                let shed = shed_by_pause(from_ms, pause_ms, every_ms);
                assert_eq!(shed, 0, "{every_ms}, {pause_ms}, {from_ms}");
            }
        }
    }
}

#[test]
fn who_asks_too_much_is_shed_and_who_does_not_is_not() {
    let mut node = Node::new(1_500, 0);
    node.run(30, [4, 50], Class::Point);
    let [greedy, modest, ..] = node.fates;
    assert!(greedy.shed > 1_000, "{greedy:?}");
    assert!(greedy.in_time > 20 * greedy.too_late, "{greedy:?}");
    assert_eq!((modest.shed, modest.expired, modest.too_late), (0, 0, 0));
    assert!(modest.in_time + 1 >= modest.asked, "{modest:?}");
}

#[test]
fn many_who_ask_too_much_together_are_all_shed() {
    let mut node = Node::new(1_500, 0);
    // Each is served two or three times a second.
    for ms in 0..30_000_u64 {
        if ms.is_multiple_of(5) {
            node.ask((ms / 5 % TENANTS as u64) as u32, Class::Point);
        }
        node.pass(true);
    }
    let sum = |of: fn(&Fate) -> u32| node.fates.iter().map(of).sum::<u32>();
    let (in_time, too_late) = (sum(|fate| fate.in_time), sum(|fate| fate.too_late));
    assert!(in_time > 20 * too_late, "{in_time} {too_late}");
    assert!(node.fates.iter().all(|fate| fate.shed > 30));
}

#[test]
fn scans_that_stand_shed_no_points_and_have_a_bound_of_their_own() {
    let mut node = Node::new(1_500, 10_000);
    for ms in 0..30_000_u64 {
        if ms.is_multiple_of(6) {
            node.ask(0, Class::Scan);
        }
        if ms.is_multiple_of(12) {
            node.ask(1, Class::Write);
        }
        node.pass(true);
    }
    let [scans, writes, ..] = node.fates;
    assert!(scans.shed > 200 && scans.expired == 0, "{scans:?}");
    assert_eq!((writes.shed, writes.expired), (0, 0), "{writes:?}");
    assert_eq!(
        node.schedule.counters().shed[Class::Scan as usize] as u32,
        scans.shed
    );
}

#[test]
fn presets_and_drivers_handshakes_are_never_shed() {
    let mut node = Node::new(1_500, 0);
    node.run(10, [5, 0], Class::System);
    assert_eq!(node.fates[0].shed, 0);
    let mut preset = Node::new(1_500, 0);
    let variant = "O".parse().expect("a variant");
    let bounds = Settings {
        variant,
        ..*preset.schedule.settings()
    };
    preset.schedule.set_settings(bounds);
    preset.run(15, [5, 0], Class::Point);
    assert_eq!(preset.fates[0].shed, 0);
    assert!(preset.fates[0].expired > 0);
}
