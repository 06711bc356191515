use super::*;
use crate::config::Config;
use helenus_engine::snapshot::{Node, Snapshot, SystemColumn};
use helenus_policy::ring::NodeIndex;

/// Client addresses differ from the addresses between nodes.
fn native(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 1, 0, number], 9042))
}

fn shared() -> Process {
    let shared = crate::testing::process(Config::default());
    let nodes = (1..=3).map(|number| Node {
        address: native(number),
        host_id: [number; 16],
        dc: String::new(),
        rack: String::new(),
        release_version: String::new(),
        processors: None,
        timeouts: None,
        batches: None,
        pages: None,
        hints: None,
        gone: false,
    });
    shared.publish(Snapshot {
        nodes: nodes.collect(),
        ..Snapshot::unknown()
    });
    shared
}

fn link(shared: &Process, number: u8) {
    let stats = shared.stats.node(NodeIndex(number as u16 - 1), String::new);
    stats.links_up.store(1, Ordering::Relaxed);
}

/// The peers as node 1 knows them, by their numbers and schema versions.
fn peers(known: &[(u8, &[u8])]) -> Rows {
    let names = [
        "peer",
        "host_id",
        "native_address",
        "native_port",
        "release_version",
        "schema_version",
    ];
    let columns = names.map(|name| SystemColumn {
        name: name.to_owned(),
        type_raw: Vec::new(),
    });
    let rows = known.iter().map(|(number, version)| {
        let cells = [
            vec![10, 2, 0, *number],
            vec![*number; 16],
            vec![10, 1, 0, *number],
            9042_i32.to_be_bytes().to_vec(),
            b"5.0.6".to_vec(),
            version.to_vec(),
        ];
        cells.map(Some).to_vec()
    });
    Rows {
        columns: columns.to_vec(),
        rows: rows.collect(),
    }
}

/// Numbers of the lagging peers, and whether they block agreement.
fn found(shared: &Process, peers: &Rows) -> Vec<(SocketAddr, bool)> {
    found_with(shared, &Linked::default(), peers)
}

/// [`found`] if these were up before.
fn found_with(shared: &Process, linked: &Linked, peers: &Rows) -> Vec<(SocketAddr, bool)> {
    let lagging = lagging(shared, linked, peers, b"new");
    let of = |peer: Lagging| (peer.address, peer.is_up);
    lagging.into_iter().map(of).collect()
}

#[test]
fn a_peer_counts_if_it_is_linked_and_not_if_it_was_reported_down() {
    let shared = shared();
    link(&shared, 2);
    let peers = peers(&[(2, b"old"), (3, b"old")]);
    // Node 3 is not known to be up: it is asked, but its silence does not count.
    assert_eq!(
        found(&shared, &peers),
        [(native(2), true), (native(3), false)]
    );
    // The event has the client address; the row has the address between nodes as well.
    shared.note_status(native(3), true);
    assert_eq!(found(&shared, &peers), [(native(2), true)]);
    // Workers have reached it before Cassandra reported it as up.
    link(&shared, 3);
    assert_eq!(
        found(&shared, &peers),
        [(native(2), true), (native(3), false)]
    );
    shared.note_status(native(3), false);
    assert_eq!(
        found(&shared, &peers),
        [(native(2), true), (native(3), true)]
    );
}

#[test]
fn a_peer_that_stands_still_counts_until_it_is_reported_down() {
    let shared = shared();
    let mut agreement = Agreement::default();
    link(&shared, 3);
    agreement.linked.note(&shared);
    // Workers have given it up.
    shared.stats.nodes()[2].links_up.store(0, Ordering::Relaxed);
    agreement.linked.note(&shared);
    let peers = peers(&[(2, b"old"), (3, b"old")]);
    let found = || found_with(&shared, &agreement.linked, &peers);
    assert_eq!(found(), [(native(2), false), (native(3), true)]);
    shared.note_status(native(3), true);
    assert_eq!(found(), [(native(2), false)]);
}

#[test]
fn another_version_is_one_of_a_node_that_is_up() {
    let shared = shared();
    let other = [9; 16];
    let peers = peers(&[(2, &[8; 16]), (3, &other)]);
    let found = |linked: &mut Linked, version| other_version(&shared, linked, &peers, version);
    let mut linked = Linked::default();
    assert_eq!(found(&mut linked, &[8; 16]), None);
    link(&shared, 3);
    assert_eq!(found(&mut linked, &[8; 16]), Some(other));
    assert_eq!(found(&mut linked, &other), None);
    shared.note_status(native(3), true);
    assert_eq!(found(&mut linked, &[8; 16]), None);
}

#[test]
fn another_version_is_one_of_a_node_that_stands_still() {
    let shared = shared();
    let peers_with = |version: &[u8; 16]| peers(&[(2, &[8; 16]), (3, version)]);
    let (behind, together) = (peers_with(&[9; 16]), peers_with(&[8; 16]));
    let mut linked = Linked::default();
    link(&shared, 3);
    assert_eq!(
        other_version(&shared, &mut linked, &together, &[8; 16]),
        None
    );
    // Workers give it up before it is looked at again.
    shared.stats.nodes()[2].links_up.store(0, Ordering::Relaxed);
    for _ in 0..2 {
        let other = other_version(&shared, &mut linked, &behind, &[8; 16]);
        assert_eq!(other, Some([9; 16]));
    }
    shared.note_status(native(3), true);
    assert_eq!(other_version(&shared, &mut linked, &behind, &[8; 16]), None);
}

#[test]
fn a_coordinator_that_does_not_answer_leaves_only_its_own_changes_unconfirmed() {
    let told = |version: Option<&[u8]>| {
        Answer::Told(Told {
            schema_version: version.map(<[u8]>::to_vec),
            peers: Some(peers(&[])),
        })
    };
    let agreed = |told: [Answer; 3]| {
        let told = (1..).map(native).zip(told).collect();
        let heard = heard(told).filter(|heard| !heard.differ);
        heard.map(|heard| (heard.from.into_iter().collect::<Vec<_>>(), heard.version))
    };
    let (new, old) = (Some(&b"new"[..]), Some(&b"old"[..]));
    assert_eq!(
        agreed([told(new), Answer::Silent, told(new)]),
        Some((vec![native(1), native(3)], b"new".to_vec()))
    );
    assert_eq!(
        agreed([Answer::Refused, told(new), told(None)]),
        Some((vec![native(2)], b"new".to_vec()))
    );
    assert_eq!(agreed([told(new), told(new), told(old)]), None);
    let silent = [Answer::Silent, Answer::Silent, Answer::Silent];
    assert_eq!(agreed(silent), None);
}

#[test]
fn a_node_that_lags_is_known_also_while_coordinators_differ() {
    let shared = shared();
    link(&shared, 3);
    let told = |version: &[u8]| {
        Answer::Told(Told {
            schema_version: Some(version.to_vec()),
            peers: Some(peers(&[(2, b"other"), (3, b"old")])),
        })
    };
    let answers = [native(1), native(2)]
        .into_iter()
        .zip([told(b"new"), told(b"other")]);
    let heard = heard(answers.collect()).expect("answers");
    assert!(heard.differ);
    let lagging = lagging(&shared, &Linked::default(), &heard.peers, &heard.version);
    // The second is not known to be up.
    assert_eq!(awaited(&lagging, BTreeSet::new()), [native(3)]);
    let all = [native(1), native(2), native(3)];
    assert_eq!(awaited(&lagging, heard.from), all);
}

#[test]
fn what_agrees_or_has_never_been_up_does_not_lag_and_a_node_that_has_just_joined_does() {
    let shared = shared();
    let mut peers = peers(&[(2, b"new"), (3, b"old"), (9, b"old")]);
    assert_eq!(
        found(&shared, &peers),
        [(native(3), false), (native(9), false)]
    );
    for row in &mut peers.rows {
        row[4] = None;
    }
    assert_eq!(found(&shared, &peers), []);
}
