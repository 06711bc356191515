//! Nodes that are left, and those that come back.

use super::*;

#[test]
fn with_all_nodes_bad_requests_still_go_to_most_of_them() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    for node in 0..NODES {
        for _ in 0..20 {
            model.choice.on_failure(model.now_us, NodeIndex(node));
        }
    }
    let shares = model.shares(3_000);
    let serving = shares.iter().filter(|n| **n > 100).count();
    assert_eq!(serving, 2, "{shares:?}");
}

#[test]
fn a_node_that_fails_is_ejected_and_longer_each_time() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    let node = NodeIndex(1);
    let mut ejected_us = Vec::new();
    for _ in 0..3 {
        while !model.view(node).is_ejected {
            model.choice.on_failure(model.now_us, node);
        }
        assert_ne!(model.first(Some(1)), node);
        assert_eq!(
            model.ordered(Some(1)).last(),
            Some(&node),
            "it is the last resort"
        );
        let since_us = model.now_us;
        while model.view(node).is_ejected {
            model.now_us += 1_000;
        }
        ejected_us.push(model.now_us - since_us);
    }
    assert_eq!(ejected_us, [EJECTION_US, 2 * EJECTION_US, 4 * EJECTION_US]);
}

#[test]
fn no_more_than_half_of_the_replicas_are_ejected() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    for (node, failures) in [(0, 40), (1, 41)] {
        for _ in 0..failures {
            model.choice.on_failure(model.now_us, NodeIndex(node));
        }
        assert!(model.view(NodeIndex(node)).is_ejected);
    }
    // Of two that are ejected the one with fewer failures serves.
    let mut seen = [0; 3];
    for affinity in 0..30 {
        seen[model.first(Some(affinity)).as_usize()] += 1;
    }
    assert!(seen[0] == 0 || seen[1] == 0, "{seen:?}");
    assert_eq!(seen.iter().filter(|n| **n > 0).count(), 2, "{seen:?}");
}

#[test]
fn a_node_that_returns_gets_a_growing_share() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    model.choice.on_return(model.now_us, NodeIndex(1), 0);
    let second = (1_000_000 / GAP_US) as u32;
    let shares: Vec<u32> = (0..6).map(|_| model.shares(second)[1]).collect();
    assert!(shares[0] < second / 15, "{shares:?}");
    assert!(shares.is_sorted(), "{shares:?}");
    assert!(shares[5] > second * 9 / 30, "{shares:?}");
}

#[test]
fn a_node_that_has_joined_cold_gets_a_growing_share_and_is_not_starved() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    model.shares(8_000);
    let joined = NodeIndex(2);
    model.choice.on_join(model.now_us, joined);
    let tenth = (JOIN_START_US / 10 / GAP_US) as u32;
    let mut shares = Vec::new();
    // Seven times slower at first, as a process whose code is not compiled yet.
    for step in 0..12u32 {
        model.factors[2] = Some((7.0 - f64::from(step)).max(1.0));
        shares.push(model.shares(tenth)[2]);
    }
    let third = tenth / 3;
    assert!(shares[0] > 0, "nothing would be learned of it");
    assert!(shares[0] < third / 5 && shares[1] < third / 2, "{shares:?}");
    assert!(shares[11] > third * 9 / 10, "{shares:?}");
}

#[test]
fn who_was_away_for_longer_starts_more_slowly() {
    let share_after = |away_us: u64| {
        let mut model = Model::new(Policy::EarliestFinish, 1);
        model.choice.on_return(model.now_us, NodeIndex(1), away_us);
        let second = (1_000_000 / GAP_US) as u32;
        (0..6).map(|_| model.shares(second)[1]).sum::<u32>()
    };
    let [short, minute, day] = [0, 60_000_000, 86_400_000_000].map(share_after);
    assert!(minute < short / 2, "{minute} {short}");
    assert_eq!(minute, day, "it is cold either way");
}

#[test]
fn an_ejection_does_not_cut_a_long_start_short() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    model.choice.on_join(model.now_us, NodeIndex(1));
    for _ in 0..8 {
        model.choice.on_failure(model.now_us, NodeIndex(1));
    }
    assert!(model.view(NodeIndex(1)).is_ejected);
    model.pass(EJECTION_US + SLOW_START_US);
    let later = model.shares(4_000)[1];
    assert!(later < 4_000 / 3 / 3, "{later}");
}

#[test]
fn long_work_takes_a_node_that_starts_for_a_slow_one() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    let nodes = [NodeIndex(0), NodeIndex(1)];
    model.choice.on_join(model.now_us, NodeIndex(1));
    let slower = |model: &Model| model.choice.slower(model.now_us, &nodes)[1];
    let at_first = slower(&model);
    model.pass(JOIN_START_US / 2);
    let half = slower(&model);
    model.pass(JOIN_START_US / 2 + 1);
    assert!(
        at_first > 2.0 * half.max(1.0) * 0.9 && half > 1.0,
        "{at_first} {half}"
    );
    assert_eq!(slower(&model), 1.0);
}

#[test]
fn nodes_that_become_slow_together_are_not_ejected_one_after_the_other() {
    let mut model = Model::new(Policy::EarliestFinish, 1);
    for (rounds, service_us) in [(100, WORK_US), (40, 1_000 * WORK_US)] {
        for node in (0..rounds).flat_map(|_| (0..NODES).map(NodeIndex)) {
            let sent = model.choice.on_sent(model.now_us, node, WORK_US);
            model.now_us += 1_000;
            let now_us = model.now_us;
            model.choice.on_answer(now_us, node, sent, service_us);
        }
    }
    let ejected: Vec<u64> = (0..NODES)
        .map(|node| model.view(NodeIndex(node)).ejections)
        .collect();
    assert_eq!(ejected, [0; NODES as usize]);
}
