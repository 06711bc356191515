use helenus_engine::snapshot::batch_limits::BatchLimits;
use helenus_engine::snapshot::hint_window::HintWindow;
use helenus_engine::snapshot::page_limits::PageLimits;
use helenus_engine::snapshot::timeouts::Timeouts;
use helenus_engine::snapshot::{NodeFacts, SystemColumn};
use helenus_policy::ring::{NodeSpec, Ring};
use helenus_policy::token::{Partitioner, Token};

use super::*;

const COLUMNS: [&str; 6] = [
    "peer",
    "host_id",
    "data_center",
    "rack",
    "tokens",
    "native_port",
];

fn rows(rows: Vec<Vec<Option<Vec<u8>>>>) -> Rows {
    let columns = COLUMNS.map(|name| SystemColumn {
        name: name.to_owned(),
        type_raw: Vec::new(),
    });
    Rows {
        columns: columns.into(),
        rows,
    }
}

/// A row of a node at 10.0.0.`address`, which has one token.
fn row(address: u8, host: u8, dc: &str) -> Vec<Option<Vec<u8>>> {
    let token = [&[0, 0, 0, 1, 0, 0, 0, 1][..], &[b'0' + address]].concat();
    let cells = [
        vec![10, 0, 0, address],
        vec![host; 16],
        dc.into(),
        b"r1".to_vec(),
        token,
        9042_i32.to_be_bytes().to_vec(),
    ];
    cells.into_iter().map(Some).collect()
}

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 9042))
}

/// The members as the node at 10.0.0.1 lists them, given what was known before.
fn read(peers: Vec<Vec<Option<Vec<u8>>>>, old: Option<&Snapshot>, settled: &[Mover]) -> Members {
    try_read(peers, old, settled).expect("it has not been replaced")
}

fn try_read(
    peers: Vec<Vec<Option<Vec<u8>>>>,
    old: Option<&Snapshot>,
    settled: &[Mover],
) -> Option<Members> {
    let local = rows(vec![row(1, 1, "near")]);
    let known = Known {
        old,
        settled,
        serves: &|dc: &str| dc == "near",
    };
    Members::read(&local, &local.rows[0], address(1), &rows(peers), known)
}

fn snapshot(members: Members) -> Snapshot {
    let specs: Vec<NodeSpec> = members
        .tokens
        .iter()
        .map(|tokens| NodeSpec {
            dc: "near".to_owned(),
            rack: "r1".to_owned(),
            tokens: tokens
                .iter()
                .filter_map(|token| Token::parse(Partitioner::Murmur3, token))
                .collect(),
        })
        .collect();
    Snapshot::builder()
        .epoch(1)
        .nodes(members.nodes)
        .joining(members.joining, members.joining_owners)
        .leaving(members.leaving)
        .ring(Some(Ring::new(Partitioner::Murmur3, &specs)))
        .build()
}

/// Addresses and tokens of those that are there.
fn present(members: &Members) -> Vec<(u8, usize)> {
    let nodes = members.nodes.iter().zip(&members.tokens);
    let there = nodes.filter(|(node, _)| !node.is_gone());
    there
        .map(|(node, tokens)| {
            let IpAddr::V4(ip) = node.address().ip() else {
                panic!("{node:?}");
            };
            (ip.octets()[3], tokens.len())
        })
        .collect()
}

fn node(number: u8, host: u8) -> Mover {
    Mover {
        host_id: [host; 16],
        address: address(number),
    }
}

#[test]
fn all_that_is_listed_at_first_is_used() {
    let members = read(vec![row(2, 2, "near")], None, &[]);
    assert_eq!(present(&members), [(1, 1), (2, 1)]);
    let members = read(vec![row(2, 2, "near")], Some(&Snapshot::unknown()), &[]);
    assert_eq!(present(&members), [(1, 1), (2, 1)]);
}

#[test]
fn what_a_node_has_told_of_itself_stays_known() {
    let old = snapshot(read(Vec::new(), None, &[]));
    let told = NodeFacts {
        processors: Some(8),
        timeouts: Some(Timeouts::default()),
        batches: Some(BatchLimits::default()),
        pages: Some(PageLimits { rows_max: 300 }),
        hints: Some(HintWindow(std::time::Duration::from_secs(60))),
    };
    let next = old.successor().node(NodeIndex(0), |node| node.learn(told));
    let members = read(Vec::new(), Some(&next.build()), &[]);
    assert_eq!(*members.nodes[0].facts(), told);
}

#[test]
fn a_node_that_joins_is_left_out_until_it_is_accepted() {
    let old = snapshot(read(Vec::new(), None, &[]));
    let members = read(vec![row(2, 2, "near")], Some(&old), &[]);
    assert_eq!(present(&members), [(1, 1)]);
    assert_eq!(members.joining, [node(2, 2)]);
    let old = snapshot(members);
    let settled = [node(2, 2)];
    let members = read(
        vec![row(2, 2, "near"), row(3, 3, "near")],
        Some(&old),
        &settled,
    );
    assert_eq!(present(&members), [(1, 1), (2, 1)]);
    assert_eq!(members.joining, [node(3, 3)]);
    let old = snapshot(members);
    let members = read(vec![row(2, 2, "near")], Some(&old), &[]);
    assert_eq!(present(&members), [(1, 1), (2, 1)], "from then on");
    assert_eq!(members.joining, [], "the third has given up");
}

#[test]
fn a_replacement_at_the_same_address_is_another_node_and_joins() {
    let old = snapshot(read(vec![row(2, 2, "near")], None, &[]));
    let members = read(vec![row(2, 9, "near")], Some(&old), &[node(2, 2)]);
    assert_eq!(present(&members), [(1, 1)]);
    assert_eq!(
        (members.joining.clone(), members.leaving.len()),
        (vec![node(2, 9)], 0)
    );
    let old = snapshot(members);
    let members = read(vec![row(2, 9, "near")], Some(&old), &[node(2, 9)]);
    assert_eq!(present(&members), [(1, 1), (2, 1)]);
    assert_eq!(members.nodes.len(), 3, "with an index of its own");
}

#[test]
fn a_node_that_leaves_is_used_until_that_is_settled() {
    let old = snapshot(read(vec![row(2, 2, "near"), row(3, 3, "near")], None, &[]));
    let members = read(vec![row(3, 3, "near")], Some(&old), &[]);
    assert_eq!(
        present(&members),
        [(1, 1), (2, 1), (3, 1)],
        "with its tokens"
    );
    assert_eq!(members.tokens[1], ["2"]);
    assert_eq!(members.leaving, [node(2, 2)]);
    let old = snapshot(members);
    let members = read(vec![row(3, 3, "near")], Some(&old), &[]);
    assert_eq!(members.leaving, [node(2, 2)], "still");
    let members = read(vec![row(3, 3, "near")], Some(&old), &[node(2, 2)]);
    assert_eq!(present(&members), [(1, 1), (3, 1)]);
    assert_eq!(members.leaving, []);
    let members = read(vec![row(2, 2, "near"), row(3, 3, "near")], Some(&old), &[]);
    assert_eq!(
        (present(&members).len(), members.leaving.len()),
        (3, 0),
        "listed again"
    );
}

#[test]
fn a_node_with_another_address_is_used_at_once() {
    let old = snapshot(read(vec![row(2, 2, "near")], None, &[]));
    let members = read(vec![row(7, 2, "near")], Some(&old), &[]);
    assert_eq!(present(&members), [(1, 1), (7, 1)]);
}

#[test]
fn a_node_that_is_never_asked_is_not_waited_for() {
    let old = snapshot(read(Vec::new(), None, &[]));
    let members = read(vec![row(2, 2, "far")], Some(&old), &[]);
    assert_eq!(present(&members), [(1, 1), (2, 1)]);
}

#[test]
fn a_node_that_has_left_is_gone_and_joins_anew_when_it_comes_back() {
    let old = snapshot(read(vec![row(2, 2, "near")], None, &[]));
    let old = snapshot(read(Vec::new(), Some(&old), &[node(2, 2)]));
    assert!(old.nodes().is_gone(NodeIndex(1)));
    let members = read(vec![row(2, 2, "near")], Some(&old), &[]);
    assert_eq!(members.joining, [node(2, 2)]);
    let members = read(vec![row(2, 2, "near")], Some(&old), &[node(2, 2)]);
    assert_eq!((present(&members).len(), members.nodes.len()), (2, 2));
}

/// The node at 10.0.0.`address`, with the tokens of the other.
fn row_in_place_of(address: u8, host: u8, other: u8) -> Vec<Option<Vec<u8>>> {
    let mut row = row(address, host, "near");
    row[4] = self::row(other, host, "near")[4].clone();
    row
}

#[test]
fn a_node_that_was_replaced_and_is_still_listed_is_neither_used_nor_waited_for() {
    let both = || vec![row(2, 2, "near"), row_in_place_of(3, 3, 2)];
    let old = snapshot(read(vec![row(2, 2, "near")], None, &[]));
    // The replacement may serve before the dead node is forgotten.
    let members = read(both(), Some(&old), &[]);
    assert_eq!(present(&members), [(1, 1), (2, 1)]);
    assert_eq!(
        (members.joining.clone(), members.leaving.len()),
        (vec![node(3, 3)], 0)
    );
    let old = snapshot(members);
    let members = read(both(), Some(&old), &[node(3, 3)]);
    assert_eq!(members.joining, []);
    assert_eq!(
        members.leaving,
        [node(2, 2)],
        "others may not have heard of it"
    );
    let old = snapshot(members);
    let members = read(both(), Some(&old), &[]);
    assert_eq!(members.leaving, [node(2, 2)], "still");
    let members = read(both(), Some(&old), &[node(2, 2)]);
    assert_eq!(present(&members), [(1, 1), (3, 1)]);
    assert_eq!((members.joining.len(), members.leaving.len()), (0, 0));
    // Also if the one that lists it is asked later.
    let old = snapshot(members);
    for peers in [vec![row_in_place_of(3, 3, 2)], both(), both()] {
        let members = read(peers, Some(&old), &[]);
        assert_eq!(present(&members), [(1, 1), (3, 1)]);
        assert_eq!((members.joining.len(), members.leaving.len()), (0, 0));
    }
}

#[test]
fn of_two_nodes_with_the_same_tokens_the_one_that_serves_is_used() {
    let both = || {
        vec![
            row(2, 2, "near"),
            row_in_place_of(3, 3, 2),
            row(4, 4, "near"),
        ]
    };
    let members = read(both(), None, &[]);
    assert_eq!(present(&members), [(1, 1), (4, 1)]);
    assert_eq!(members.joining, [node(2, 2), node(3, 3)]);
    let old = snapshot(members);
    let members = read(both(), Some(&old), &[node(3, 3)]);
    assert_eq!(present(&members), [(1, 1), (4, 1), (3, 1)]);
    // It is not used until it serves, and that is no reason to leave the other one out.
    assert_eq!(members.joining, [node(2, 2)]);
    let old = snapshot(members);
    let members = read(both(), Some(&old), &[]);
    assert_eq!(present(&members).len(), 3);
}

#[test]
fn nodes_with_the_same_tokens_count_once() {
    let peers = || vec![row(2, 2, "near"), row_in_place_of(3, 3, 2)];
    // The control node, and one of two.
    let members = read(peers(), None, &[]);
    assert_eq!((members.joining.len(), members.joining_owners), (2, 1));
    // One of two whose owner is known.
    let old = snapshot(read(vec![row(2, 2, "near")], None, &[]));
    let members = read(peers(), Some(&old), &[]);
    assert_eq!((members.joining.len(), members.joining_owners), (1, 0));
    let members = read(vec![row(2, 2, "near"), row(4, 4, "near")], Some(&old), &[]);
    assert_eq!((members.joining.len(), members.joining_owners), (1, 1));
}

#[test]
fn what_the_control_node_may_have_replaced_is_watched() {
    let replaced = || vec![row_in_place_of(3, 3, 1)];
    let members = read(replaced(), None, &[]);
    assert_eq!(present(&members), [(1, 1)]);
    assert_eq!(members.joining, [node(3, 3)]);
    assert_eq!(members.joining_owners, 0);
    let old = snapshot(members);
    let members = read(replaced(), Some(&old), &[]);
    assert_eq!(members.joining, [node(3, 3)], "still");
    // It was used before.
    let before = read(replaced_alone(), None, &[]).nodes.remove(1);
    let old = old.edit().nodes([before]).build();
    let members = read(replaced(), Some(&old), &[]);
    assert_eq!((members.joining.len(), members.leaving.len()), (0, 1));
    let old = snapshot(members);
    let members = read(replaced(), Some(&old), &[node(3, 3)]);
    assert_eq!(present(&members), [(1, 1)]);
    let old = snapshot(members);
    let members = read(replaced(), Some(&old), &[]);
    assert_eq!(
        (present(&members), members.joining.len()),
        (vec![(1, 1)], 0)
    );
}

/// The third node, before it was replaced.
fn replaced_alone() -> Vec<Vec<Option<Vec<u8>>>> {
    vec![row(3, 3, "near")]
}

#[test]
fn a_control_node_that_was_replaced_and_has_not_noticed_is_not_believed() {
    let replacement = || vec![row_in_place_of(3, 3, 1), row(2, 2, "near")];
    let old = snapshot(read(vec![row(2, 2, "near")], None, &[]));
    let members = read(replacement(), Some(&old), &[]);
    assert_eq!(present(&members), [(1, 1), (2, 1)]);
    assert_eq!(members.joining, [node(3, 3)], "it may be there");
    // It serves, and all say so.
    let old = snapshot(members);
    assert!(try_read(replacement(), Some(&old), &[node(3, 3)]).is_none());
    // Another node has told of the replacement since, and of the control node no more.
    let old = snapshot(read(vec![row(2, 2, "near"), row(3, 3, "near")], None, &[]));
    let next = old.successor();
    let next = next.node(NodeIndex(0), |node| node.set_gone(true));
    assert!(try_read(replacement(), Some(&next.build()), &[]).is_none());
    // Also while others have not forgotten it.
    assert!(try_read(replacement(), Some(&old), &[]).is_none());
}

#[test]
fn a_node_that_comes_back_beside_an_older_one_is_waited_for() {
    let old = snapshot(read(vec![row(2, 2, "near"), row(3, 3, "near")], None, &[]));
    let old = old.edit().node(NodeIndex(2), |node| node.set_gone(true));
    let old = old.build();
    let members = read(
        vec![row(2, 2, "near"), row_in_place_of(3, 3, 2)],
        Some(&old),
        &[],
    );
    assert_eq!(members.joining, [node(3, 3)]);
}
