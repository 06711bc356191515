//! The proxy before nodes that do what they are told: errors at the right moment, releases that differ.
//! Needs `cargo build -p helenus` in the same profile, and no Cassandra.

mod captures;
mod drains;
mod faults;
mod log;
mod native_histograms;
mod nodes;
mod service_manager;
mod several_proxies;
mod top;
mod traces;

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use helenus_client::{Options, Statement, ValueRef, request};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Answer, Client, ONE, op};
use helenus_wire::{Opcode, code};

use crate::nodes::{Asked, Nodes, Reply, Spec};

const COUNT: &str = "SELECT count(*) FROM ks.t";
/// Rows of a table that makes many parts.
const MANY: u64 = 1_000_000;

fn proxy(nodes: &Nodes) -> Proxy {
    // One worker: what is learned of a text is a worker's own.
    Proxy::start(&nodes.addresses[..1], &["listen.workers=1"]).expect("proxy")
}

fn client(proxy: &Proxy) -> Client<TcpStream> {
    Client::ready(proxy.address, 5).expect("client")
}

fn metric(proxy: &Proxy, name: &str) -> f64 {
    let (_, page) = proxy.admin_get("/metrics", None).expect("metrics");
    let line = page
        .lines()
        .find(|line| line.starts_with(&format!("{name} ")));
    let line = line.unwrap_or_else(|| panic!("no metric {name}"));
    line.rsplit(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .expect("a number")
}

/// The only cell of an answer's only row, of eight or four bytes.
fn number(rows: &[Vec<Option<Vec<u8>>>]) -> i64 {
    let cell = rows[0][0].as_deref().expect("a value");
    match cell.len() {
        4 => i32::from_be_bytes(cell.try_into().expect("four")).into(),
        _ => i64::from_be_bytes(cell.try_into().expect("eight")),
    }
}

fn count(client: &mut Client<TcpStream>, cql: &str) -> i64 {
    number(&client.query(cql).expect(cql))
}

fn stretches(asked: &[Asked]) -> Vec<(i64, i64)> {
    asked.iter().filter_map(|asked| asked.stretch).collect()
}

fn as_it_is(asked: &[Asked]) -> usize {
    asked.iter().filter(|asked| asked.stretch.is_none()).count()
}

/// True if a stretch goes over a token.
fn covers(asked: &Asked, token: i64) -> bool {
    asked
        .stretch
        .is_some_and(|(above, up_to)| above < token && token <= up_to)
}

/// Exactly two, where they take no time: the engine's own test (`execution/aggregate/tests.rs`). On a busy machine one may
/// be taken to have gone over more rows than it has counted, and then there are more.
#[test]
fn the_first_count_of_an_empty_table_is_sampled() {
    let nodes = Nodes::start(Spec {
        rows: 0,
        tokens_per_node: 256,
        ..Spec::default()
    });
    let proxy = proxy(&nodes);
    let mut client = client(&proxy);
    nodes.follow(|_| Reply::Rows);
    assert_eq!(count(&mut client, COUNT), 0);
    let asked = nodes.asked();
    assert!(asked.len() >= 2 && as_it_is(&asked) == 0, "{asked:?}");
}

#[test]
fn parts_of_an_aggregate_wait_until_the_nodes_have_it_prepared() {
    let nodes = Nodes::start(Spec {
        rows: MANY,
        ..Spec::default()
    });
    let proxy = proxy(&nodes);
    nodes.follow(|_| Reply::Rows);
    assert_eq!(count(&mut client(&proxy), COUNT), MANY as i64);
    let asked = nodes.asked();
    let texts = asked
        .iter()
        .filter(|asked| asked.opcode == Opcode::Query)
        .count();
    assert_eq!(texts, 1, "the sample");
    assert!(asked.len() > 100, "{} parts", asked.len());
    // A node may say that it does not know the statement just before it learns it over another link, and is
    // then asked once more.
    let (prepares, number) = (nodes.prepares(), nodes.addresses.len());
    assert!(
        (number..2 * number).contains(&prepares.len()),
        "{prepares:?}"
    );
    assert_eq!(as_it_is(&asked), 0);
}

/// The statement is every worker's, and each may be the first to have it prepared over parts of the ring.
#[test]
fn aggregates_of_all_workers_that_come_at_once_are_all_answered() {
    let nodes = Nodes::start(Spec {
        rows: MANY,
        ..Spec::default()
    });
    let settings = ["listen.workers=8"];
    let proxy = Proxy::start(&nodes.addresses[..1], &settings).expect("proxy");
    let mut clients: Vec<_> = (0..24).map(|_| client(&proxy)).collect();
    nodes.follow(|_| Reply::Rows);
    for round in 0..6 {
        let cql = format!("SELECT count(*) AS n{round} FROM ks.t");
        let prepared = clients[0].prepare(&cql).expect("prepared");
        for client in &mut clients {
            let body = client.execute_body(&prepared, &[], ONE);
            client.send(1, op::EXECUTE, &body).expect("sent");
        }
        for client in &mut clients {
            let answer = client.receive().expect("an answer").judged();
            let rows = answer.expect("an answer").expect("a count").rows();
            assert_eq!(number(&rows.expect("rows")), MANY as i64);
        }
    }
}

#[test]
fn the_number_of_parts_has_a_bound_whatever_the_number_of_tokens() {
    let spec = Spec {
        rows: 1 << 40,
        tokens_per_node: 1_024,
        ..Spec::default()
    };
    let nodes = Nodes::start(spec);
    let proxy = proxy(&nodes);
    nodes.follow(|_| Reply::Rows);
    assert_eq!(count(&mut client(&proxy), COUNT), 1 << 40);
    let parts = nodes.asked().len();
    assert!((257..=1_025).contains(&parts), "{parts} parts");
}

#[test]
fn a_table_that_has_grown_is_read_in_parts() {
    let nodes = Nodes::start(Spec {
        rows: 100,
        ..Spec::default()
    });
    let proxy = proxy(&nodes);
    let mut client = client(&proxy);
    for _ in 0..2 {
        assert_eq!(count(&mut client, COUNT), 100);
    }
    nodes.grow(MANY);
    // Sent as it is, it tells how many rows there are now.
    assert_eq!(count(&mut client, COUNT), MANY as i64);
    nodes.follow(|_| Reply::Rows);
    assert_eq!(count(&mut client, COUNT), MANY as i64);
    let asked = nodes.asked();
    assert!(
        asked.len() > 50 && as_it_is(&asked) == 0,
        "{} reads",
        asked.len()
    );
}

#[test]
fn an_aggregate_that_is_too_much_as_it_is_comes_in_parts_the_next_time() {
    let nodes = Nodes::start(Spec {
        rows: 0,
        ..Spec::default()
    });
    let proxy = proxy(&nodes);
    let mut client = client(&proxy);
    for _ in 0..2 {
        assert_eq!(count(&mut client, COUNT), 0);
    }
    // A filter may leave nothing of very many rows.
    nodes.follow(|asked| match asked.stretch {
        Some(_) => Reply::Rows,
        None => Reply::Error(code::READ_TIMEOUT),
    });
    let fault = client.try_query(COUNT, ONE).expect("an answer");
    assert_eq!(fault.expect_err("an error").code, code::READ_TIMEOUT);
    assert_eq!(count(&mut client, COUNT), 0);
}

#[test]
fn a_part_that_fails_is_asked_of_another_node_and_the_rest_is_kept() {
    for error in [code::READ_FAILURE, code::UNAVAILABLE, code::SERVER] {
        let nodes = Nodes::start(Spec {
            rows: MANY,
            ..Spec::default()
        });
        let proxy = proxy(&nodes);
        let failures = AtomicUsize::new(0);
        nodes.follow(move |asked| {
            let first = covers(asked, 5) && failures.fetch_add(1, Ordering::SeqCst) == 0;
            if first {
                Reply::Error(error)
            } else {
                Reply::Rows
            }
        });
        assert_eq!(count(&mut client(&proxy), COUNT), MANY as i64);
        let asked = nodes.asked();
        let mut times: BTreeMap<(i64, i64), BTreeSet<usize>> = BTreeMap::new();
        for asked in &asked {
            let stretch = asked.stretch.expect("nothing is asked as it came");
            assert!(
                times.entry(stretch).or_default().insert(asked.node),
                "{asked:?}"
            );
        }
        let again: Vec<_> = times.values().filter(|nodes| nodes.len() > 1).collect();
        assert_eq!(again.len(), 1, "one part, another node");
        assert_eq!(metric(&proxy, "helenus_scan_parts_retried_total"), 1.0);
        assert_eq!(metric(&proxy, "helenus_scan_parts_wasted_total"), 0.0);
    }
}

#[test]
fn parts_that_time_out_are_halved_until_they_do_not() {
    let nodes = Nodes::start(Spec {
        rows: MANY,
        ..Spec::default()
    });
    let proxy = proxy(&nodes);
    // Large enough for some hundred parts, which are all too large.
    let limit = u64::MAX / 400;
    nodes.follow(move |asked| match asked.tokens() > limit {
        true => Reply::Error(code::READ_TIMEOUT),
        false => Reply::Rows,
    });
    assert_eq!(count(&mut client(&proxy), COUNT), MANY as i64);
    let asked = nodes.asked();
    assert_eq!(as_it_is(&asked), 0);
    assert!(asked.len() < 1_500, "{} reads", asked.len());
    // Stretches that have come are not read again.
    let mut read: Vec<_> = stretches(&asked);
    read.retain(|(above, up_to)| up_to.wrapping_sub(*above) as u64 <= limit);
    let all = read.len();
    read.sort_unstable();
    read.dedup();
    assert_eq!(read.len(), all);
    let ends = |pair: &[(i64, i64)]| pair[0].1 == pair[1].0;
    assert!(read.windows(2).all(ends), "no token twice, none left out");
}

#[test]
fn a_part_that_no_node_can_read_ends_its_aggregate_with_their_error() {
    let nodes = Nodes::start(Spec {
        rows: MANY,
        ..Spec::default()
    });
    let proxy = proxy(&nodes);
    let mut client = client(&proxy);
    for error in [code::READ_TIMEOUT, code::READ_FAILURE, code::UNAVAILABLE] {
        nodes.follow(move |asked| match covers(asked, 5) {
            true => Reply::Error(error),
            false => Reply::Rows,
        });
        let fault = client
            .try_query(COUNT, ONE)
            .expect("an answer")
            .expect_err("an error");
        assert_eq!((fault.code, &*fault.message), (error, "as told"));
        let asked = nodes.asked();
        assert_eq!(as_it_is(&asked), 0, "it could only fail");
        let tries = asked.iter().filter(|asked| covers(asked, 5)).count();
        assert!((3..70).contains(&tries), "{tries} tries");
    }
}

#[test]
fn an_overloaded_node_is_left_alone() {
    let nodes = Nodes::start(Spec {
        rows: MANY,
        ..Spec::default()
    });
    let proxy = proxy(&nodes);
    nodes.follow(|asked| match covers(asked, 5) {
        true => Reply::Error(code::OVERLOADED),
        false => Reply::Rows,
    });
    let fault = client(&proxy).try_query(COUNT, ONE).expect("an answer");
    assert_eq!(fault.expect_err("an error").code, code::OVERLOADED);
    let asked = nodes.asked();
    assert_eq!(asked.iter().filter(|asked| covers(asked, 5)).count(), 1);
    assert_eq!(
        (
            as_it_is(&asked),
            metric(&proxy, "helenus_scan_parts_retried_total")
        ),
        (0, 0.0)
    );
}

#[test]
fn a_request_that_is_invalid_in_itself_is_blamed_alone() {
    let nodes = Nodes::start(Spec {
        rows: MANY,
        ..Spec::default()
    });
    let proxy = proxy(&nodes);
    let mut client = client(&proxy);
    nodes.follow(|asked| match asked.has_null {
        true => Reply::Error(code::INVALID),
        false => Reply::Rows,
    });
    let cql = "SELECT count(*) FROM ks.t WHERE c > ? ALLOW FILTERING";
    let prepared = client.prepare(cql).expect(cql);
    let int = 0_i32.to_be_bytes();
    for _ in 0..3 {
        let answer = client.execute(&prepared, &[&int], ONE).expect("an answer");
        assert_eq!(
            number(&answer.expect("a count").rows().expect("rows")),
            MANY as i64
        );
        let body = with_null(&prepared);
        let bad = client
            .call(op::EXECUTE, &body)
            .and_then(Answer::judged)
            .expect("an answer");
        assert_eq!(bad.expect_err("a null").code, code::INVALID);
    }
    nodes.follow(|_| Reply::Rows);
    client
        .execute(&prepared, &[&int], ONE)
        .expect("an answer")
        .expect("a count");
    assert_eq!(
        as_it_is(&nodes.asked()),
        0,
        "others are read in parts as before"
    );
    assert_eq!(metric(&proxy, "helenus_scans_not_in_parts_total"), 0.0);
}

/// An EXECUTE with one value, which is null.
fn with_null(prepared: &helenus_tests::raw::Prepared) -> Vec<u8> {
    let options = Options {
        values: Some(&[ValueRef::Null]),
        ..Options::at(ONE)
    };
    request(5, Statement::Prepared(prepared.ids()), &options)
}

#[test]
fn nodes_that_would_not_have_parts_get_the_statement_as_it_is() {
    let nodes = Nodes::start(Spec {
        rows: MANY,
        ..Spec::default()
    });
    let proxy = proxy(&nodes);
    let mut client = client(&proxy);
    nodes.follow(|asked| match asked.stretch {
        Some(_) => Reply::Error(code::INVALID),
        None => Reply::Rows,
    });
    for _ in 0..5 {
        assert_eq!(count(&mut client, COUNT), MANY as i64);
    }
    let asked = nodes.asked();
    assert_eq!(
        (as_it_is(&asked), asked.len()),
        (5, 6),
        "only one part was tried"
    );
    assert_eq!(metric(&proxy, "helenus_scans_not_in_parts_total"), 1.0);
}

#[test]
fn all_parts_of_an_aggregate_have_one_now() {
    let nodes = Nodes::start(Spec {
        rows: MANY,
        ..Spec::default()
    });
    let proxy = proxy(&nodes);
    let mut client = client(&proxy);
    for own in [None, Some(77)] {
        nodes.follow(|_| Reply::Rows);
        let mut body = client.query_body(COUNT, ONE);
        if let Some(seconds) = own {
            let flags = body.len() - 4;
            body[flags + 2] |= 1;
            body.extend(i32::to_be_bytes(seconds));
        }
        let answer = client
            .call(op::QUERY, &body)
            .and_then(Answer::judged)
            .expect("an answer");
        assert_eq!(
            number(&answer.expect("a count").rows().expect("rows")),
            MANY as i64
        );
        let asked = nodes.asked();
        let nows: BTreeSet<_> = asked.iter().map(|asked| asked.now_in_seconds).collect();
        assert!(asked.len() > 100 && nows.len() == 1, "{nows:?}");
        let now = nows.first().copied().flatten().expect("seconds");
        match own {
            Some(own) => assert_eq!(now, own, "the client's own"),
            None => assert!(now > 1_700_000_000, "{now}"),
        }
    }
}

#[test]
fn what_only_a_node_can_compute_is_computed_once() {
    let nodes = Nodes::start(Spec {
        rows: MANY,
        ..Spec::default()
    });
    let proxy = proxy(&nodes);
    nodes.follow(|_| Reply::Rows);
    let cql = "SELECT count(*) FROM ks.t WHERE c < now() ALLOW FILTERING";
    client(&proxy).query(cql).expect(cql);
    assert_eq!((as_it_is(&nodes.asked()), nodes.asked().len()), (1, 1));
}

/// They take MIN for MAX there (CASSANDRA-20295), and a fold of such values would be a third one.
#[test]
fn extremes_of_descending_columns_are_left_to_nodes_before_5_0_4() {
    for (versions, whole) in [
        (vec!["5.0.4", "5.0.6", "5.0.10"], false),
        (vec!["4.1.10", "4.1.10", "4.1.10"], false),
        (vec!["5.0.3", "5.0.3", "5.0.3"], true),
        (vec!["4.1.10", "5.0.6", "5.0.2"], true),
    ] {
        let nodes = Nodes::start(Spec {
            release_versions: versions,
            rows: MANY,
            ..Spec::default()
        });
        let proxy = proxy(&nodes);
        let mut client = client(&proxy);
        for (cql, is_descending) in [
            ("SELECT min(c), count(*) FROM ks.t", true),
            ("SELECT count(*), max(k) FROM ks.t", false),
        ] {
            nodes.follow(|_| Reply::Rows);
            client.query(cql).expect(cql);
            let reads = nodes.asked().len();
            let whole = whole && is_descending;
            assert_eq!(
                (as_it_is(&nodes.asked()) == reads, reads > 100),
                (whole, !whole),
                "{cql}"
            );
        }
    }
}
