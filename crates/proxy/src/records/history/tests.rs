use helenus_engine::stats::{add, bucket_bound_us};
use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::Class;
use std::sync::atomic::Ordering;

use super::*;

/// A proxy whose counters a test moves, a second at a time.
struct Proxy {
    stats: Stats,
    history: History,
    now: Duration,
    gauges: Gauges,
    standing: Vec<Standing>,
    cpu_us: u64,
}

impl Proxy {
    fn new() -> Proxy {
        let now = Duration::from_secs(5_000);
        Proxy {
            stats: Stats::default(),
            history: History::new(now),
            now,
            gauges: Gauges::default(),
            standing: Vec::new(),
            cpu_us: 0,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        let seen = Seen {
            stats: &self.stats,
            nodes: &self.stats.nodes(),
            standing: &self.standing,
            gauges: self.gauges.clone(),
            cpu_us: self.cpu_us,
        };
        self.history.record(self.now, &seen);
    }

    fn pass_seconds(&mut self, seconds: u64) {
        (0..seconds).for_each(|_| self.pass(Duration::from_secs(1)));
    }

    fn point_reads(&self, times: &[u64]) {
        let latency = &self.stats.latency[Class::Point as usize];
        times.iter().for_each(|us| latency.record(*us));
    }

    fn summary(&self, from_s: u64, to_s: u64) -> Summary {
        let (from_ms, to_ms) = (from_s * 1_000, to_s * 1_000);
        self.history
            .summary(self.now, from_ms, to_ms, 6, &self.stats)
    }

    /// Number, end and requests of the steps from a number on.
    fn steps(&self, of: Resolution, from: u64) -> Vec<(u64, u64, u64)> {
        self.history.steps(of, from, |step| {
            let requests = step.counted.class(Class::Point).latency().count();
            (step.number, step.end_ms, requests)
        })
    }
}

#[test]
fn steps_hold_what_has_happened_in_them() {
    let mut proxy = Proxy::new();
    let failed = |proxy: &Proxy, n| add(&proxy.stats.global.requests_failed, n);
    proxy.point_reads(&[100, 200]);
    failed(&proxy, 3);
    proxy.cpu_us = 5_000;
    proxy.gauges.clients = 7;
    proxy.pass_seconds(1);
    proxy.pass_seconds(1);
    proxy.point_reads(&[1_000_000]);
    failed(&proxy, 1);
    proxy.cpu_us = 7_500;
    proxy.gauges.clients = 9;
    proxy.pass_seconds(1);
    let names: Vec<_> = proxy.stats.global.list();
    let at = names
        .iter()
        .position(|(name, _)| *name == "requests_failed");
    let seen = proxy.history.steps(Resolution::Fine, 0, |step| {
        let of = step.counted.class(Class::Point).latency();
        (
            (step.end_ms, step.lasted_ms),
            (of.count(), of.sum_us()),
            step.counted.totals()[at.expect("a counter")],
            (step.counted.cpu_us(), step.gauges.clients),
        )
    });
    assert_eq!(
        seen,
        [
            ((1_000, 1_000), (2, 300), 3, (5_000, 7)),
            ((2_000, 1_000), (0, 0), 0, (0, 7)),
            ((3_000, 1_000), (1, 1_000_000), 1, (2_500, 9)),
        ]
    );
}

#[test]
fn ten_minutes_of_seconds_and_an_hour_of_tens_are_kept() {
    let mut proxy = Proxy::new();
    for second in 0..2 * 3_600 {
        proxy.point_reads(&[second % 7 + 1]);
        proxy.pass_seconds(1);
    }
    let (fine, coarse) = (
        proxy.steps(Resolution::Fine, 0),
        proxy.steps(Resolution::Coarse, 0),
    );
    assert_eq!((fine.len(), coarse.len()), (600, 360));
    assert_eq!(fine.first(), Some(&(6_600, 6_601_000, 1)));
    assert_eq!(fine.last(), Some(&(7_199, 7_200_000, 1)));
    assert_eq!(coarse.first(), Some(&(360, 3_610_000, 10)));
    assert_eq!(coarse.last(), Some(&(719, 7_200_000, 10)));
    assert_eq!(proxy.steps(Resolution::Fine, 7_199).len(), 1);
    assert_eq!(proxy.steps(Resolution::Fine, 7_200).len(), 0);
    // The whole hour, and all that was ever asked in it.
    let sum = proxy.summary(3_600, 7_200);
    assert_eq!(sum.lasted_ms, 3_600_000);
    let of = sum.counted().class(Class::Point).latency();
    assert_eq!(of.count(), 3_600);
}

#[test]
fn bytes_are_bounded_however_much_is_counted() {
    let mut proxy = Proxy::new();
    for node in 0..100 {
        proxy.stats.node(NodeIndex(node), || format!("{node}"));
    }
    // More than any proxy: every bucket of every class and node in every step.
    let all: Vec<u64> = (0..200).map(|at| bucket_bound_us(at) - 1).collect();
    for _ in 0..1_200 {
        for latency in &proxy.stats.latency {
            all.iter().for_each(|us| latency.record(*us));
        }
        for node in proxy.stats.nodes() {
            all.iter()
                .step_by(2)
                .for_each(|us| node.latency.record(*us));
        }
        proxy.pass_seconds(1);
        assert!(proxy.history.byte_len() <= FINE.bytes_max + COARSE.bytes_max);
    }
    assert!(proxy.steps(Resolution::Fine, 0).len() > 100);
    assert!(proxy.steps(Resolution::Coarse, 0).len() > 60);
}

#[test]
fn the_p99_of_any_time_is_that_of_its_requests() {
    let mut proxy = Proxy::new();
    // A slow minute among fast ones, and a rare slow request everywhere.
    let mut all: Vec<(u64, u64)> = Vec::new();
    let mut dice = 1_u64;
    for second in 0..300 {
        for _ in 0..50 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let spread = dice >> 54;
            let is_slow = (120..180).contains(&second) || dice >> 40 & 127 == 0;
            let us = 200 + spread + if is_slow { 40_000 } else { 0 };
            proxy.point_reads(&[us]);
            all.push((second, us));
        }
        proxy.pass_seconds(1);
    }
    for (from, to) in [(0, 300), (0, 60), (120, 180), (170, 190), (290, 300)] {
        let asked = all.iter().filter(|(at, _)| (from..to).contains(at));
        let mut times: Vec<u64> = asked.map(|(_, us)| *us).collect();
        times.sort_unstable();
        let sum = proxy.summary(from, to);
        assert_eq!(sum.covered_ms(), (from * 1_000, to * 1_000));
        let of = sum.counted().class(Class::Point).latency();
        assert_eq!(of.count() as usize, times.len());
        assert_eq!(of.sum_us(), times.iter().sum::<u64>());
        for share in [0.5, 0.99, 0.999] {
            let exact = times[((times.len() as f64 * share).ceil() as usize).max(1) - 1] as f64;
            let found = of.quantile_us(share).expect("there are values");
            let error = (found / exact - 1.0).abs();
            assert!(error <= 0.126, "{from}..{to} {share}: {found}, not {exact}");
        }
    }
    let nothing = proxy.summary(300, 310);
    let of = nothing.counted().class(Class::Point).latency();
    assert_eq!((of.quantile_us(0.99), of.mean_us()), (None, None));
}

#[test]
fn a_step_that_was_held_up_is_longer_and_rates_stay_right() {
    let mut proxy = Proxy::new();
    proxy.pass_seconds(5);
    // The thread did not run for a while; the wall clock is not looked at, so it cannot jump.
    proxy.point_reads(&[100; 330]);
    proxy.pass(Duration::from_secs(33));
    proxy.pass_seconds(10);
    let fine = proxy.history.steps(Resolution::Fine, 5, |step| {
        (step.number, step.end_ms, step.lasted_ms)
    });
    assert_eq!(fine[..2], [(5, 38_000, 33_000), (6, 39_000, 1_000)]);
    // The long one ends with it.
    let coarse = proxy.steps(Resolution::Coarse, 0);
    assert_eq!(coarse, [(0, 38_000, 330), (1, 48_000, 0)]);
    let sum = proxy.summary(0, 38);
    let of = sum.counted().class(Class::Point).latency();
    assert_eq!(sum.per_s(of.count()).round(), 9.0);
    // A clock that stands still divides by nothing.
    proxy.pass(Duration::ZERO);
    assert_eq!(rate(7, 0), 0.0);
}

#[test]
fn nodes_and_tables_are_summed_up_with_what_is_not_over_yet() {
    let mut proxy = Proxy::new();
    let nodes = [0, 1].map(|at| proxy.stats.node(NodeIndex(at), || format!("node {at}")));
    let table = proxy.stats.table("shop", "orders", 10);
    let ask = |seconds: u64, proxy: &mut Proxy| {
        for _ in 0..seconds {
            add(&nodes[0].counters.requests, 10);
            add(&nodes[0].counters.read_requests, 4);
            add(&nodes[1].counters.errors, 1);
            nodes[0].latency.record(2_000);
            add(&table.reads, 3);
            proxy.pass_seconds(1);
        }
    };
    ask(20, &mut proxy);
    proxy.standing = vec![
        Standing::default(),
        Standing {
            is_down: true,
            is_ejected: true,
        },
    ];
    ask(13, &mut proxy);
    let sum = proxy.summary(0, 33);
    assert_eq!(sum.lasted_ms, 33_000);
    let (first, second) = (sum.detail.node(0), sum.detail.node(1));
    assert_eq!((first.requests(), first.reads()), (330, 132));
    assert_eq!((first.down_ms(), first.ejected_ms()), (0, 0));
    assert_eq!((second.requests(), second.errors()), (0, 33));
    assert_eq!((second.down_ms(), second.ejected_ms()), (13_000, 13_000));
    assert_eq!(first.latency().count(), 33);
    // Three parts at most: each has at least one step.
    assert_eq!(first.points, [100, 100, 130]);
    assert_eq!(sum.parts_ms, [10_000, 10_000, 13_000]);
    assert!(second.points.is_empty());
    assert_eq!(sum.detail.table(0).map(TableSum::reads), Some(99));
    assert!(sum.detail.table(1).is_none());
    // A step that was not over is counted once, also when it is.
    ask(7, &mut proxy);
    let sum = proxy.summary(0, 40);
    assert_eq!(sum.detail.node(0).requests(), 400);
    assert_eq!(proxy.summary(10, 20).detail.node(0).requests(), 100);
    assert_eq!(proxy.summary(10, 20).detail.node(1).down_ms(), 0);
}

#[test]
fn a_time_shorter_than_a_step_is_told_by_the_steps_that_share_it() {
    let mut proxy = Proxy::new();
    let node = proxy.stats.node(NodeIndex(0), || "node".to_owned());
    for _ in 0..24 {
        add(&node.counters.requests, 5);
        proxy.pass_seconds(1);
    }
    let told = |from, to| {
        let sum = proxy.summary(from, to);
        (sum.covered_ms(), sum.detail.node(0).requests())
    };
    assert_eq!(told(12, 15), ((10_000, 20_000), 50));
    assert_eq!(told(8, 13), ((0, 20_000), 100));
    assert_eq!(told(21, 23), ((20_000, 24_000), 20));
    assert_eq!(told(18, 900), ((10_000, 24_000), 70));
    // A time that is still to come.
    assert_eq!(told(24, 30), ((24_000, 30_000), 0));
    assert_eq!(proxy.summary(24, 30).lasted_ms, 0);
}

#[test]
fn before_the_first_step_there_is_nothing_but_what_is_counted_now() {
    let mut proxy = Proxy::new();
    assert_eq!(proxy.steps(Resolution::Fine, 0), []);
    assert_eq!(proxy.summary(0, 0).lasted_ms, 0);
    proxy.point_reads(&[1]);
    proxy.now += Duration::from_millis(300);
    let sum = proxy.summary(0, 1);
    assert_eq!(sum.counted().class(Class::Point).latency().count(), 1);
}

#[test]
fn what_comes_and_goes_is_kept_at_its_worst() {
    let mut proxy = Proxy::new();
    let worst = |proxy: &Proxy| {
        let all = proxy.history.steps(Resolution::Coarse, 0, |step| {
            let of = step.gauges;
            (
                of.in_flight,
                of.queued[Class::Scan as usize],
                of.nodes_up,
                of.clients,
            )
        });
        *all.last().expect("a step")
    };
    for second in 0..10 {
        let is_bad = second == 4;
        proxy.gauges.in_flight = if is_bad { 90 } else { 3 };
        proxy.gauges.queued[Class::Scan as usize] = if is_bad { 40 } else { 0 };
        proxy.gauges.nodes_up = if is_bad { 2 } else { 3 };
        proxy.gauges.clients = second;
        proxy.pass_seconds(1);
    }
    assert_eq!(worst(&proxy), (90, 40, 2, 9));
    proxy.pass_seconds(10);
    assert_eq!(worst(&proxy), (3, 0, 3, 9));
}

#[test]
fn waits_of_all_nodes_are_one_histogram() {
    let mut proxy = Proxy::new();
    let nodes = [0, 1].map(|at| proxy.stats.node(NodeIndex(at), || format!("node {at}")));
    let scan = Class::Scan as usize;
    nodes[0].waits[scan].record(500);
    proxy.pass_seconds(1);
    nodes[1].waits[scan].record(9_000);
    nodes[1].schedule[scan].shed.fetch_add(2, Ordering::Relaxed);
    proxy.pass_seconds(1);
    proxy.pass_seconds(1);
    let waits = proxy.history.steps(Resolution::Fine, 0, |step| {
        let of = step.counted.class(Class::Scan);
        (of.waits().count(), of.waits().sum_us(), of.refused())
    });
    assert_eq!(waits, [(1, 500, 0), (1, 9_000, 2), (0, 0, 0)]);
}
