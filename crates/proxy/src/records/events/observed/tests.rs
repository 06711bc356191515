use super::*;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 9042))
}

fn node(last: u8, state: NodeState) -> SeenNode {
    SeenNode {
        host_id: [last; 16],
        address: address(last),
        state,
        ejected: 0,
        in_flight: 0,
        bytes_in: 0,
        slower_milli: 0,
        failures_milli: 0,
    }
}

fn cluster(states: &[NodeState]) -> SeenProxy {
    let nodes = (1..).zip(states).map(|(last, state)| node(last, *state));
    SeenProxy {
        is_known: true,
        silence: Duration::from_secs(2),
        nodes: nodes.collect(),
        ..SeenProxy::default()
    }
}

/// Looks once a second; the kinds of what was noted, with the second.
fn looks(seen: impl IntoIterator<Item = SeenProxy>) -> Vec<(u64, Kind)> {
    let (mut observed, began) = (Observed::default(), Instant::now());
    let mut all = Vec::new();
    for (second, seen) in (0..).zip(seen) {
        let now = began + Duration::from_secs(second);
        let noted = observed.look(now, seen);
        all.extend(noted.into_iter().map(|(kind, _)| (second, kind)));
    }
    all
}

use NodeState::{Down, Gone, Unused, Up};

#[test]
fn a_node_is_down_at_the_second_look_and_up_at_the_first() {
    let states = [
        [Up, Up],
        [Up, Down],
        [Up, Up],
        [Up, Down],
        [Up, Down],
        [Up, Down],
        [Up, Up],
    ];
    let noted = looks(states.map(|states| cluster(&states)));
    assert_eq!(noted, [(4, Kind::NodeDown), (6, Kind::NodeUp)]);
}

#[test]
fn a_start_is_no_news_and_neither_are_nodes_without_clients() {
    let mut unknown = cluster(&[]);
    unknown.is_known = false;
    unknown.not_ready = Some("no contact".to_owned());
    let mut opening = cluster(&[Down, Down]);
    opening.not_ready = Some("no link".to_owned());
    let seen = [
        unknown,
        opening,
        cluster(&[Up, Up]),
        cluster(&[Unused, Unused]),
        cluster(&[Up, Up]),
    ];
    assert_eq!(looks(seen), []);
}

#[test]
fn nodes_join_leave_and_move() {
    let mut joining = cluster(&[Up]);
    joining.joining = vec![address(2)];
    let mut moved = cluster(&[Up, Up]);
    moved.nodes[1].address = address(9);
    let mut gone = cluster(&[Up, Gone]);
    gone.nodes[1].address = address(9);
    let mut replaced = gone.clone();
    replaced.nodes.push(node(3, Up));
    let seen = [
        cluster(&[Up]),
        joining.clone(),
        joining,
        cluster(&[Up, Up]),
        moved,
        gone.clone(),
        gone,
        replaced,
    ];
    let expected = [
        (1, Kind::NodeJoining),
        (3, Kind::NodeJoined),
        (4, Kind::NodeMoved),
        (5, Kind::NodeLeft),
        (7, Kind::NodeJoined),
    ];
    assert_eq!(looks(seen), expected);
}

#[test]
fn a_node_that_has_moved_is_one_node_though_both_addresses_are_listed() {
    let at = |last, state| SeenNode {
        address: address(last),
        ..node(1, state)
    };
    let of = |nodes: [(u8, NodeState); 2]| {
        let mut seen = cluster(&[]);
        seen.nodes = nodes.map(|(last, state)| at(last, state)).into();
        seen
    };
    let mut before = cluster(&[]);
    before.nodes = vec![at(1, Up)];
    let moved = of([(1, Gone), (2, Up)]);
    let seen = [
        before,
        moved.clone(),
        moved.clone(),
        of([(1, Gone), (2, Down)]),
        of([(1, Gone), (2, Down)]),
        moved.clone(),
        // Back, and then it leaves for good.
        of([(1, Up), (2, Gone)]),
        of([(1, Gone), (2, Gone)]),
        of([(1, Gone), (2, Gone)]),
        moved,
    ];
    let expected = [
        (1, Kind::NodeMoved),
        (4, Kind::NodeDown),
        (5, Kind::NodeUp),
        (6, Kind::NodeMoved),
        (7, Kind::NodeLeft),
        (9, Kind::NodeMoved),
        (9, Kind::NodeJoined),
    ];
    assert_eq!(looks(seen), expected);
}

#[test]
fn a_node_that_was_down_is_up_again_though_nobody_needed_it_meanwhile() {
    let states = [Up, Down, Down, Unused, Unused, Down, Down, Down, Up];
    let noted = looks(states.map(|state| cluster(&[state])));
    assert_eq!(noted, [(2, Kind::NodeDown), (8, Kind::NodeUp)]);
}

#[test]
fn stopping_is_no_incident() {
    let mut stopping = cluster(&[Down]);
    stopping.is_draining = true;
    stopping.not_ready = Some("stopping".to_owned());
    let seen = [cluster(&[Up]), stopping.clone(), stopping.clone(), stopping];
    assert_eq!(looks(seen), []);
}

#[test]
fn few_failures_are_no_incident() {
    let counts = [0, 3, 3, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 9, 13, 18, 25];
    let seen = counts.map(|failed| SeenProxy {
        failed,
        ..cluster(&[Up])
    });
    // Three and five are long past when it begins.
    assert_eq!(looks(seen), [(15, Kind::FailuresBegan)]);
}

#[test]
fn a_node_that_is_asked_and_says_nothing_is_silent_until_it_speaks() {
    // In flight, and bytes so far.
    let looks_at = [
        (5, 100),
        (5, 200),
        (0, 200),
        (0, 200),
        (0, 200),
        (3, 200),
        (3, 200),
        (3, 200),
        (0, 200),
        (3, 200),
        (3, 300),
        (0, 300),
    ];
    let seen = looks_at.map(|(in_flight, bytes_in)| {
        let mut seen = cluster(&[Up]);
        (seen.nodes[0].in_flight, seen.nodes[0].bytes_in) = (in_flight, bytes_in);
        seen
    });
    let expected = [(6, Kind::NodeSilent), (10, Kind::NodeAnswers)];
    assert_eq!(looks(seen), expected);
}

#[test]
fn the_event_of_an_ejection_says_why() {
    let mut seen = vec![cluster(&[Up]); 4];
    let [_, failing, _, slow] = &mut seen[..] else {
        unreachable!("four");
    };
    (failing.nodes[0].ejected, failing.nodes[0].failures_milli) = (1, 312);
    (slow.nodes[0].ejected, slow.nodes[0].slower_milli) = (1, 12_900);
    let mut observed = Observed::default();
    let began = Instant::now();
    let looks = (0..).zip(seen);
    let noted = looks.flat_map(|(s, seen)| observed.look(began + Duration::from_secs(s), seen));
    let ejected: Vec<String> = noted
        .filter(|(kind, _)| *kind == Kind::NodeEjected)
        .map(|(_, text)| text)
        .collect();
    assert_eq!(ejected.len(), 2);
    assert!(
        ejected[0].ends_with("is ejected: 31 % of its requests failed"),
        "{}",
        ejected[0]
    );
    assert!(
        ejected[1].ends_with("is ejected: its answers took 12 times as long as is typical"),
        "{}",
        ejected[1]
    );
}

#[test]
fn ejection_and_overload_have_a_beginning_and_an_end() {
    let mut seen = vec![cluster(&[Up]); 20];
    for ejected in &mut seen[2..5] {
        ejected.nodes[0].ejected = 1;
    }
    let counts = [0, 0, 5, 5, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9];
    for (seen, overloaded) in seen.iter_mut().zip(counts.into_iter().chain([9; 5])) {
        seen.overloaded = overloaded;
    }
    let expected = [
        (2, Kind::NodeEjected),
        (2, Kind::OverloadBegan),
        (5, Kind::NodeReturned),
        (14, Kind::OverloadEnded),
    ];
    assert_eq!(looks(seen), expected);
}

#[test]
fn a_pause_that_runs_out_is_noted_and_one_that_is_ended_is_not() {
    let (mut observed, began) = (Observed::default(), Instant::now());
    let until = began + Duration::from_secs(2);
    let mut paused = cluster(&[Up]);
    paused.pauses = vec![("role app".to_owned(), until)];
    assert_eq!(observed.look(began, paused.clone()), []);
    let second = began + Duration::from_secs(1);
    assert_eq!(observed.look(second, cluster(&[Up])), []);
    assert_eq!(observed.look(second, paused), []);
    let noted = observed.look(until, cluster(&[Up]));
    assert_eq!(
        noted,
        [(
            Kind::Resumed,
            "the pause of role app has run out".to_owned()
        )]
    );
}

#[test]
fn other_proxies_and_readiness_are_noted_as_they_change() {
    let mut lost = cluster(&[Up]);
    lost.proxies = vec![address(7)];
    lost.proxies_down = FxHashSet::from_iter([address(7)]);
    lost.not_ready = Some("no link".to_owned());
    let mut back = cluster(&[Up]);
    back.proxies = vec![address(7)];
    // One that is not listed any more is no news.
    let mut removed = lost.clone();
    removed.proxies.clear();
    let seen = [cluster(&[Up]), lost.clone(), lost, back, removed];
    let expected = [
        (1, Kind::NotReady),
        (1, Kind::ProxyDown),
        (3, Kind::Ready),
        (3, Kind::ProxyUp),
        (4, Kind::NotReady),
    ];
    assert_eq!(looks(seen), expected);
}
