//! Nodes of other data centres.

use super::*;

#[test]
fn answers_from_other_data_centres_say_nothing_of_nodes_here() {
    let typical = |is_remote: bool, service_us: u32| {
        let mut choice = Choice::new(Settings::default());
        choice.grow_to(NODES.into());
        let far = NodeIndex(2);
        choice.set_remote(far, is_remote);
        for at in 0..2_000 {
            let now_us = 10_000_000 + at * GAP_US;
            let (node, service_us) = match at % 10 {
                0 => (NodeIndex(at as u16 / 10 % 2), WORK_US),
                _ => (far, service_us),
            };
            let sent = choice.on_sent(now_us, node, WORK_US);
            choice.on_answer(now_us + u64::from(service_us), node, sent, service_us);
        }
        let soonest_us = choice.soonest_us(11_000_000);
        let view = choice.view(11_000_000, far, soonest_us);
        (choice.cluster.typical(), view.ejections)
    };
    let alone = typical(true, WORK_US).0;
    for service_us in [WORK_US / 10, WORK_US * 100] {
        assert_eq!(typical(true, service_us), (alone, 0));
        assert_ne!(typical(false, service_us).0, alone);
    }
}
