//! Requests that are larger than a node takes, on links that others share.

use std::time::Duration;

use helenus_cluster::ClusterSpec;
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, ONE, op};
use helenus_tests::{kinds, pool};

use crate::{directly, metric, turn};

const INVALID: i32 = 0x2200;
/// Of one client, in a row.
const OVERSIZED: i16 = 20;
/// Of another, before and behind each of those.
const OTHERS: i16 = 10;

/// Clients of these versions send what the node does not take, while another writes as much as it does.
fn oversized(spec: ClusterSpec, limit: usize, versions: &[u8]) {
    let cluster = pool::take(spec).expect("a node");
    let mut node = cluster.connect(1).expect("node");
    let create = "CREATE KEYSPACE big WITH replication = \
                  {'class': 'SimpleStrategy', 'replication_factor': 1}";
    let table = "CREATE TABLE big.t (k int PRIMARY KEY, v text)";
    directly(&mut node, &[create, table]);
    let insert = |k: i16, bytes: usize| {
        let value = "x".repeat(bytes);
        format!("INSERT INTO big.t (k, v) VALUES ({k}, '{value}')")
    };
    let points = cluster.contact_points();
    // All of them share one link for what is large, or have but one.
    for bulk_bytes in [32_768, 0] {
        let bulk = format!("links.bulk_bytes={bulk_bytes}");
        let settings = [&*bulk, "links.per_node=1", "listen.workers=1"];
        let proxy = Proxy::start_patient(&points, &settings).expect("proxy");
        for version in versions {
            let ready = |address| Client::ready(address, *version).expect("client");
            let (mut greedy, mut other) = (ready(proxy.address), ready(proxy.address));
            // So that all links are there.
            for bytes in [1, limit / 2] {
                other.query(&insert(0, bytes)).expect("written");
            }
            let opened = metric(&proxy, "helenus_node_links_opened_total");
            let too_large = greedy.query_body(&insert(0, limit + 1), ONE);
            let bodies = [1, limit / 2].map(|bytes| other.query_body(&insert(1, bytes), ONE));
            for number in 0..OVERSIZED {
                greedy.send(number, op::QUERY, &too_large).expect("sent");
                if number < OTHERS {
                    let body = &bodies[usize::from(number % 2 == 0)];
                    other.send(number, op::QUERY, body).expect("sent");
                }
            }
            let judged = |client: &mut Client<_>| {
                let answer = client.receive().expect("an answer");
                (answer.opcode == op::ERROR).then(|| answer.fault().expect("an error"))
            };
            for _ in 0..OTHERS {
                assert_eq!(judged(&mut other).map(|fault| fault.message), None);
            }
            let mut direct = ready(points[0]);
            let said = direct.call(op::QUERY, &too_large).expect("an answer");
            let said = said.fault().expect("an error");
            for _ in 0..OVERSIZED {
                let fault = judged(&mut greedy).expect("an error");
                assert_eq!(fault.code, INVALID, "{}", fault.message);
                assert_eq!(fault.message, said.message);
            }
            let now_opened = metric(&proxy, "helenus_node_links_opened_total");
            assert_eq!(now_opened, opened, "no link was lost");
        }
    }
}

#[test]
fn a_request_too_large_for_a_node_harms_nobody_else() {
    let _turn = turn("oversized", Duration::from_secs(240));
    oversized(kinds::impatient(), 256 << 10, &[5]);
}

#[test]
fn a_request_too_large_for_a_node_of_version_4_harms_nobody_else() {
    let _turn = turn("oversized, v4", Duration::from_secs(240));
    oversized(kinds::old(), 1 << 20, &[4, 3]);
}
