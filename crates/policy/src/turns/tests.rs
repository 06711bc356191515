use super::*;
use crate::test_rng::for_seeds;
use std::collections::HashSet;

const LIMITS: TurnLimits = TurnLimits {
    wait_max_us: 1_000,
    grace_us: 100,
    waiting_max: 8,
    keys_max: 4,
};

fn turns() -> Turns<u64, u32, u32> {
    Turns::new(LIMITS)
}

/// The running item's condition holds, and somebody else's turn comes.
fn one_holds(turns: &mut Turns<u64, u32, u32>) {
    assert_eq!(turns.enter(1, 98, 98, 0), Entered::Waits);
    assert_eq!(turns.leave(1, Condition::Held, 0), Left::Next(98));
}

#[test]
fn one_runs_at_a_time_and_the_others_follow_in_order() {
    let mut turns = turns();
    assert_eq!(turns.enter(1, 1, 10, 0), Entered::Run(10));
    assert_eq!(turns.enter(1, 2, 20, 0), Entered::Waits);
    assert_eq!(turns.enter(1, 3, 30, 0), Entered::Waits);
    assert_eq!(turns.enter(2, 4, 40, 0), Entered::Run(40), "another key");
    assert_eq!(turns.leave(1, Condition::Held, 0), Left::Next(20));
    assert_eq!(turns.leave(1, Condition::Held, 0), Left::Next(30));
    assert_eq!(turns.leave(1, Condition::Held, 0), Left::Idle);
    assert_eq!(
        turns.leave(2, Condition::Failed, 0),
        Left::Idle,
        "nobody else waits"
    );
    assert_eq!((turns.waiting(), turns.keys()), (0, 0));
}

#[test]
fn a_failed_condition_may_be_tried_again_before_the_queue_once() {
    let mut turns = turns();
    assert_eq!(turns.enter(1, 1, 10, 0), Entered::Run(10));
    assert_eq!(turns.enter(1, 2, 20, 0), Entered::Waits);
    assert_eq!(
        turns.leave(1, Condition::Failed, 50),
        Left::Grace { until_us: 150 }
    );
    assert_eq!(turns.enter(1, 3, 30, 60), Entered::Waits, "not the owner");
    assert_eq!(turns.end_grace(1, 149), None, "not yet");
    assert_eq!(turns.enter(1, 1, 11, 120), Entered::Run(11));
    assert_eq!(turns.end_grace(1, 150), None, "it was used");
    assert_eq!(
        turns.leave(1, Condition::Failed, 200),
        Left::Next(20),
        "not twice"
    );
    assert_eq!(
        turns.leave(1, Condition::Failed, 300),
        Left::Grace { until_us: 400 }
    );
    assert_eq!(turns.end_grace(1, 400), Some(30));
}

#[test]
fn graces_that_nobody_uses_are_not_granted_any_more() {
    let mut turns = turns();
    let mut granted = 0;
    assert_eq!(turns.enter(1, 0, 0, 0), Entered::Run(0));
    for item in 1..100 {
        assert_eq!(turns.enter(1, item, item, 0), Entered::Waits);
        // One in two holds, or turns would stand aside.
        match turns.leave(1, condition(item % 2 == 1), 0) {
            Left::Next(next) => assert_eq!(next, item),
            Left::Grace { until_us } => {
                granted += 1;
                assert_eq!(turns.end_grace(1, until_us), Some(item));
            }
            Left::Idle | Left::Aside(_) => panic!("{item} was lost"),
        }
    }
    assert!((2..=4).contains(&granted), "{granted} graces");
}

#[test]
fn graces_come_again_after_a_rest() {
    let mut turns = turns();
    assert_eq!(turns.enter(1, 0, 0, 0), Entered::Run(0));
    let mut is_grace = || {
        assert_eq!(turns.enter(1, 7, 7, 0), Entered::Waits);
        let is_grace = match turns.leave(1, Condition::Failed, 0) {
            Left::Grace { until_us } => turns.end_grace(1, until_us) == Some(7),
            _ => false,
        };
        one_holds(&mut turns);
        is_grace
    };
    assert!(is_grace() && is_grace());
    for turn in 0..GRACE_REST {
        assert!(!is_grace(), "turn {turn} of the rest");
    }
    assert!(is_grace());
}

#[test]
fn each_grace_that_was_used_earns_another() {
    let unused = |used: u32| {
        let mut turns = turns();
        assert_eq!(turns.enter(1, 0, 0, 0), Entered::Run(0));
        for item in 1..=used {
            assert_eq!(turns.enter(1, item, item, 0), Entered::Waits);
            assert_eq!(
                turns.leave(1, Condition::Failed, 0),
                Left::Grace { until_us: 100 }
            );
            let owner = item - 1;
            assert_eq!(turns.enter(1, owner, 77, 0), Entered::Run(77));
            assert_eq!(turns.leave(1, Condition::Held, 0), Left::Next(item));
        }
        let mut granted = 0;
        loop {
            assert_eq!(turns.enter(1, 99, 99, 0), Entered::Waits);
            let Left::Grace { until_us } = turns.leave(1, Condition::Failed, 0) else {
                return granted;
            };
            granted += 1;
            assert_eq!(turns.end_grace(1, until_us), Some(99));
            one_holds(&mut turns);
        }
    };
    assert_eq!([0, 1, 4].map(unused), [2, 3, 6]);
    assert_eq!([7, 20].map(unused), [9, 9], "no more than eight in store");
}

/// More than are ever tried in a row.
const ALL_FAIL: u32 = 1_000;

fn condition(has_failed: bool) -> Condition {
    match has_failed {
        true => Condition::Failed,
        false => Condition::Held,
    }
}

/// Conditions fail while others wait, but after so many of them one ends in this way. Returns at which turn they
/// stood aside, and who went then.
fn conditions(
    turns: &mut Turns<u64, u32, u32>,
    failures: u32,
    then: Condition,
    now: u64,
) -> Option<(u32, Vec<u32>)> {
    assert_eq!(turns.enter(1, 0, 0, now), Entered::Run(0));
    assert_eq!(turns.enter(1, 1, 1, now), Entered::Waits);
    for turn in 1..100 {
        assert_eq!(turns.enter(1, turn + 1, turn + 1, now), Entered::Waits);
        let condition = match turn % (failures + 1) {
            0 => then,
            _ => Condition::Failed,
        };
        match turns.leave(1, condition, now) {
            Left::Next(next) => assert_eq!(next, turn),
            Left::Grace { until_us } => assert_eq!(turns.end_grace(1, until_us), Some(turn)),
            Left::Aside(items) => return Some((turn, items)),
            Left::Idle => panic!("somebody waits"),
        }
    }
    None
}

#[test]
fn turns_stand_aside_where_what_waits_goes_on_failing() {
    let mut now = 0;
    let mut turns = turns();
    let all = conditions(&mut turns, ALL_FAIL, Condition::Held, now);
    assert_eq!(all, Some((STALE_MAX, vec![8, 9])), "all that wait go");
    assert_eq!((turns.waiting(), turns.keys()), (0, 0));
    assert_eq!(turns.enter(1, 5, 50, now), Entered::NoTurn(50));
    assert_eq!(turns.enter(2, 5, 50, now), Entered::Run(50), "another key");
    assert_eq!(
        turns.enter(1, 5, 51, now + ASIDE_MIN_US - 1),
        Entered::NoTurn(51)
    );
    // Tried again, and of no use again: for twice as long.
    now += ASIDE_MIN_US;
    let again = conditions(&mut turns, ALL_FAIL, Condition::Held, now);
    assert_eq!(again.map(|(turn, _)| turn), Some(STALE_AGAIN_MAX));
    now += 2 * ASIDE_MIN_US;
    assert_eq!(turns.enter(1, 5, 52, now - 1), Entered::NoTurn(52));
    assert!(conditions(&mut turns, ALL_FAIL, Condition::Held, now).is_some());
    now += 4 * ASIDE_MIN_US;
    assert_eq!(turns.enter(1, 5, 53, now - 1), Entered::NoTurn(53));
    // Forgotten after as long again.
    now += 4 * ASIDE_MIN_US;
    assert_eq!(turns.give_up(now), []);
    assert!(conditions(&mut turns, ALL_FAIL, Condition::Held, now).is_some());
    assert_eq!(
        turns.enter(1, 5, 54, now + ASIDE_MIN_US - 1),
        Entered::NoTurn(54)
    );
    assert_eq!(turns.enter(1, 5, 55, now + ASIDE_MIN_US), Entered::Run(55));
}

#[test]
fn turns_stay_where_one_condition_in_three_holds() {
    let held = |failures| conditions(&mut turns(), failures, Condition::Held, 0);
    assert_eq!(held(2), None);
    assert!(held(3).is_some());
}

#[test]
fn what_came_of_a_condition_that_nobody_knows_says_nothing_for_turns() {
    let unknown = |failures| conditions(&mut turns(), failures, Condition::Unknown, 0);
    let at = |aside: Option<(u32, Vec<u32>)>| aside.map(|(turn, _)| turn);
    assert_eq!(at(unknown(2)), Some(STALE_MAX + STALE_MAX / 2 - 1));
    assert_eq!(unknown(0), None, "nor against them");
}

#[test]
fn nobody_waits_for_an_item_that_was_lost() {
    let mut turns = turns();
    assert_eq!(turns.enter(1, 1, 10, 0), Entered::Run(10));
    assert_eq!(turns.enter(1, 2, 20, 0), Entered::Waits);
    assert_eq!(turns.enter(1, 3, 30, 999), Entered::Waits);
    assert_eq!(turns.give_up(999), []);
    assert_eq!(turns.give_up(1_000), [20, 30], "the later one, too");
    assert_eq!(turns.enter(1, 4, 40, 1_000), Entered::NoTurn(40));
    assert_eq!(turns.leave(1, Condition::Held, 9_000), Left::Idle);
    assert_eq!(turns.enter(1, 5, 50, 9_000), Entered::Run(50));
}

#[test]
fn bounds_let_items_go_without_a_turn() {
    let mut turns = turns();
    for key in 0..4 {
        assert_eq!(turns.enter(key, 0, 0, 0), Entered::Run(0));
    }
    assert_eq!(turns.enter(4, 0, 5, 0), Entered::NoTurn(5));
    for item in 1..=8 {
        assert_eq!(turns.enter(0, item, item, u64::from(item)), Entered::Waits);
    }
    assert_eq!(turns.enter(0, 9, 9, 9), Entered::NoTurn(9));
    // The first has just begun anew, so it is not lost.
    assert_eq!(turns.leave(0, Condition::Held, 500), Left::Next(1));
    assert_eq!(turns.give_up(1_003), [2, 3]);
    assert_eq!(turns.waiting(), 5);
    assert_eq!(turns.leave(0, Condition::Held, 1_003), Left::Next(4));
}

#[test]
fn giving_up_ends_a_grace_that_nobody_waits_behind() {
    let mut turns = turns();
    assert_eq!(turns.enter(1, 1, 10, 0), Entered::Run(10));
    assert_eq!(turns.enter(1, 2, 20, 0), Entered::Waits);
    assert_eq!(
        turns.leave(1, Condition::Failed, 950),
        Left::Grace { until_us: 1_050 }
    );
    assert_eq!(turns.give_up(1_000), [20]);
    assert_eq!(turns.keys(), 0);
    assert_eq!(turns.end_grace(1, 1_050), None);
}

/// In random schedules: at most one item with a turn runs per key, none is lost or duplicated, none
/// waits beyond the bound, and waiting items keep their order.
#[test]
fn random_schedules_keep_the_promises() {
    for_seeds(300, |_, rng| {
        let mut turns = turns();
        let mut now_us = 0;
        let mut running: Vec<(u64, u32, u64)> = Vec::new();
        let mut waiting: Vec<(u64, u32, u64)> = Vec::new();
        let mut graces: Vec<(u64, u64)> = Vec::new();
        let mut ended = HashSet::new();
        let start = |item: u32,
                     waiting: &mut Vec<(u64, u32, u64)>,
                     running: &mut Vec<(u64, u32, u64)>,
                     (key, now_us): (u64, u64)| {
            let at = waiting
                .iter()
                .position(|w| w.0 == key)
                .expect("somebody waits");
            assert_eq!(waiting[at].1, item, "the first of its key");
            waiting.remove(at);
            running.push((key, item, now_us));
        };
        for item in 0..600u32 {
            now_us += rng.below(60) as u64;
            graces.sort_by_key(|g| g.1);
            while let Some(&(key, until)) = graces.first().filter(|g| g.1 <= now_us) {
                graces.remove(0);
                if let Some(next) = turns.end_grace(key, until.max(now_us)) {
                    start(next, &mut waiting, &mut running, (key, now_us));
                }
            }
            for late in turns.give_up(now_us) {
                let at = waiting.iter().position(|w| w.1 == late).expect("it waited");
                let is_lost = |r: &(u64, u32, u64)| {
                    r.0 == waiting[at].0 && now_us - r.2 >= LIMITS.wait_max_us
                };
                let is_late = now_us - waiting[at].2 >= LIMITS.wait_max_us;
                assert!(is_late || running.iter().any(is_lost));
                waiting.remove(at);
                assert!(ended.insert(late));
            }
            for w in &waiting {
                assert!(now_us - w.2 < LIMITS.wait_max_us, "{w:?} waits for ever");
            }
            let key = rng.below(3) as u64;
            let owner = rng.below(5) as u32;
            match turns.enter(key, owner, item, now_us) {
                Entered::Run(item) => running.push((key, item, now_us)),
                Entered::Waits => waiting.push((key, item, now_us)),
                Entered::NoTurn(item) => assert!(ended.insert(item)),
            }
            if !running.is_empty() && rng.below(3) > 0 {
                let (key, item, _) = running.swap_remove(rng.below(running.len()));
                assert!(ended.insert(item), "{item} ran twice");
                match turns.leave(key, condition(rng.below(2) == 0), now_us) {
                    Left::Next(next) => start(next, &mut waiting, &mut running, (key, now_us)),
                    Left::Idle => {}
                    Left::Grace { until_us } => graces.push((key, until_us)),
                    Left::Aside(items) => {
                        let of_key = waiting.iter().filter(|w| w.0 == key).map(|w| w.1);
                        assert_eq!(items, of_key.collect::<Vec<_>>());
                        waiting.retain(|w| w.0 != key);
                        assert!(items.into_iter().all(|item| ended.insert(item)));
                    }
                }
            }
            let keys: HashSet<u64> = running.iter().map(|r| r.0).collect();
            assert_eq!(keys.len(), running.len(), "two run on one key");
            assert_eq!(turns.waiting(), waiting.len());
        }
        assert_eq!(ended.len() + running.len() + waiting.len(), 600);
    });
}
