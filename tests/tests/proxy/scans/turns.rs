//! Whose turn it is, and what is long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, op};

use super::PARTITIONS;
use super::paging::{Ask, paged, pages};
use super::parts::fill_partitions;
use crate::metric;

/// Points come back while scans wait in their queue.
pub(super) fn points_pass_scans(proxy: &Proxy) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = &stop;
        for _ in 0..40 {
            scope.spawn(move || {
                let mut client = Client::ready(proxy.address, 5).expect("client");
                while !stop.load(Ordering::Relaxed) {
                    pages(&mut client, &Ask::Text("SELECT * FROM s.t"), Some(5_000));
                }
            });
        }
        let mut client = Client::ready(proxy.address, 5).expect("client");
        let begin = Instant::now();
        let mut points = 0;
        while points < 200 {
            let rows = client
                .query("SELECT c FROM s.t WHERE k = 14")
                .expect("rows");
            assert_eq!(rows.len(), 4);
            points += 1;
        }
        stop.store(true, Ordering::Relaxed);
        let waited = metric(proxy, "helenus_node_wait_seconds_count{class=\"scan\"");
        println!(
            "200 points among 40 scans: {:?}; {waited} pieces waited",
            begin.elapsed()
        );
        assert!(waited > 0.0, "scans wait for slots");
    });
}

/// A look-up in an index is a scan, but soon needs no slot; a large partition is none, but soon needs one.
pub(super) fn long_is_what_takes_long(proxy: &Proxy) {
    const READS_MAX: usize = 2_000;
    fill_partitions(proxy, "s.large", std::iter::once(30_000));
    let sent = |class: &str| {
        let name = format!("helenus_node_scheduled_total{{class=\"{class}\"");
        metric(proxy, &name)
    };
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let mut reads_until_sent_as = |class: &str, cql: &str| {
        let prepared = client.prepare(cql).expect(cql);
        let before = sent(class);
        for read in 1..=READS_MAX {
            let answer = client.execute_known(&prepared, &[]).expect("an answer");
            assert!(answer.is_ok(), "{cql}: {:?}", answer.err());
            if read % 10 == 0 && sent(class) > before {
                println!("{cql} is sent as a {class} within {read} reads");
                return;
            }
        }
        panic!("{cql} is not sent as a {class} in {READS_MAX} reads");
    };
    reads_until_sent_as("slice", "SELECT k FROM s.t WHERE c = 3 LIMIT 1");
    reads_until_sent_as("scan", "SELECT * FROM s.large WHERE k = 0");
}

/// Windows so narrow that points queue, too; a scan slot that was lost or counted twice would show.
pub(super) fn points_and_scans_wait(proxy: &Proxy) {
    thread::scope(|scope| {
        for client in 0..48 {
            scope.spawn(move || {
                let mut own = Client::ready(proxy.address, 5).expect("client");
                for round in 0..60 {
                    if client % 4 == 0 && round % 4 == 0 {
                        pages(&mut own, &Ask::Text("SELECT * FROM s.t"), Some(50));
                    } else {
                        let k = (client * 60 + round) % PARTITIONS;
                        let rows = own.query(&format!("SELECT c FROM s.t WHERE k = {k}"));
                        assert!(rows.is_ok(), "{rows:?}");
                    }
                }
            });
        }
    });
    for class in ["point", "scan"] {
        let name = format!("helenus_node_wait_seconds_count{{class=\"{class}\"");
        let waited = metric(proxy, &name);
        assert!(waited > 0.0, "no {class} waited");
    }
}

pub(super) fn clients_that_leave_leave_nothing_behind(proxy: &Proxy) {
    for _ in 0..20 {
        let mut client = Client::ready(proxy.address, 5).expect("client");
        let body = paged(&client, &Ask::Text("SELECT * FROM s.t"), None, None);
        client.send(1, op::QUERY, &body).expect("sent");
    }
    let begin = Instant::now();
    loop {
        let in_flight = metric(proxy, "helenus_node_in_flight_requests");
        let queued = metric(proxy, "helenus_node_queued_requests{class=\"scan\"");
        let slots = metric(proxy, "helenus_node_scan_slots_taken");
        if in_flight == 0.0 && queued == 0.0 && slots == 0.0 {
            break;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "{in_flight} in flight, {queued} queued, {slots} scan slots taken"
        );
        thread::sleep(Duration::from_millis(50));
    }
}
