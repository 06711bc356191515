use super::super::list::{Copies, Proxies};
use super::super::timing::Timing;
use super::*;

const TIMING: Timing = Timing::TESTED;

struct Scene {
    copies: Known<LISTED_MAX>,
    proxies: Known<PROXIES_MAX>,
    list: Copies,
}

/// Three copies and two proxies, known by a read that was sent at 1,010.
fn scene() -> Scene {
    let list = Copies::new(Members::first(3), [1; LISTED_MAX]);
    let mut copies = Known::new(TIMING);
    copies.adopt(list, 1_010, 1_010);
    let mut proxies = Known::new(TIMING);
    let two = Proxies::new(Members::first(2), [0; PROXIES_MAX]);
    proxies.adopt(two, 1_010, 1_010);
    Scene {
        copies,
        proxies,
        list,
    }
}

impl Scene {
    fn next(&self, write: &mut Write, now_us: u64) -> Step {
        write.next(&self.copies, &self.proxies, true, now_us)
    }
}

#[test]
fn a_write_is_told_sent_and_acknowledged_when_all_have_it() {
    let scene = scene();
    let mut write = Write::new(0, 2);
    let step = write.next(&scene.copies, &scene.proxies, false, 1_011);
    assert_eq!(step, Step::Record);
    write.on_told(0);
    assert_eq!(scene.next(&mut write, 1_011), Step::Tell(Members::of(1)));
    write.on_told(1);
    let all = Members::first(3);
    assert_eq!(scene.next(&mut write, 1_012), Step::Send(all));
    write.on_sent(all, 1_012);
    write.on_acked(0, 1);
    write.on_acked(2, 1);
    assert_eq!(scene.next(&mut write, 1_020), Step::Wait);
    write.on_failed(1);
    assert_eq!(scene.next(&mut write, 1_020), Step::Send(Members::of(1)));
    write.on_acked(1, 1);
    assert_eq!(scene.next(&mut write, 1_020), Step::Acknowledge);
    assert_eq!(scene.next(&mut write, 2_010), Step::NoLease);
}

#[test]
fn a_copy_that_does_not_answer_is_evicted_and_still_waited_for_while_it_may_be_read() {
    let mut scene = scene();
    let mut write = Write::unannounced(0, 2);
    write.on_sent(Members::first(3), 1_010);
    write.on_acked(0, 1);
    write.on_acked(1, 1);
    assert_eq!(scene.next(&mut write, 1_109), Step::Wait);
    assert_eq!(scene.next(&mut write, 1_110), Step::Evict(2));
    let evicted = scene.list.evict(2).expect("others are in sync");
    scene.copies.adopt(evicted, 1_110, 1_150);
    scene.copies.adopt(evicted, 1_900, 1_900);
    assert_eq!(scene.next(&mut write, 2_149), Step::Wait);
    assert_eq!(scene.next(&mut write, 2_150), Step::Acknowledge);
    let joining = evicted.join(2, 1).expect("it is out");
    scene.copies.adopt(joining, 2_160, 2_160);
    let two = Proxies::new(Members::first(2), [0; PROXIES_MAX]);
    scene.proxies.adopt(two, 2_160, 2_160);
    assert_eq!(scene.next(&mut write, 2_160), Step::Send(Members::of(2)));
    write.on_sent(Members::of(2), 2_160);
    assert_eq!(scene.next(&mut write, 2_259), Step::Wait, "it has time");
    let step = scene.next(&mut write, 2_260);
    assert_eq!(step, Step::Evict(2), "who joins is waited for");
}

#[test]
fn a_copy_that_fails_each_time_is_late_like_one_that_is_silent() {
    let scene = scene();
    let mut write = Write::unannounced(0, 2);
    let late = write.late(&scene.copies, 1_500);
    assert_eq!(late, Members::EMPTY, "it was never sent");
    write.on_sent(Members::first(3), 1_020);
    write.on_acked(0, 1);
    write.on_acked(1, 1);
    assert_eq!(write.acked(&scene.copies, 1_020), Members::first(2));
    for now_us in [1_030, 1_120] {
        write.on_failed(2);
        assert_eq!(scene.next(&mut write, now_us), Step::Send(Members::of(2)));
        let late = match now_us {
            1_120 => Members::of(2),
            _ => Members::EMPTY,
        };
        assert_eq!(write.late(&scene.copies, now_us), late);
        write.on_sent(Members::of(2), now_us);
    }
    let late = write.late(&scene.copies, 2_010);
    assert_eq!(late, Members::EMPTY, "without a lease");
}

#[test]
fn a_copy_that_refuses_the_write_is_not_late_until_it_is_silent() {
    let scene = scene();
    let mut write = Write::unannounced(0, 2);
    write.on_sent(Members::of(2), 1_020);
    write.on_refused(2);
    assert_eq!(write.late(&scene.copies, 1_500), Members::EMPTY);
    write.on_sent(Members::of(2), 1_500);
    assert_eq!(write.late(&scene.copies, 1_599), Members::EMPTY);
    assert_eq!(write.late(&scene.copies, 1_600), Members::of(2));
}

#[test]
fn time_that_is_the_proxys_own_does_not_count_against_a_copy() {
    let scene = scene();
    let mut write = Write::unannounced(0, 2);
    write.on_queued(Members::first(3));
    assert_eq!(scene.next(&mut write, 1_500), Step::Wait, "it has not left");
    write.on_sent(Members::of(2), 1_500);
    write.on_sent(Members::of(2), 1_550);
    assert_eq!(scene.next(&mut write, 1_599), Step::Wait);
    write.excuse(Members::of(2), 70, 1_600);
    assert_eq!(scene.next(&mut write, 1_669), Step::Wait);
    assert_eq!(scene.next(&mut write, 1_670), Step::Evict(2));
    write.excuse(Members::first(3), 400, 1_700);
    assert_eq!(
        scene.next(&mut write, 1_799),
        Step::Wait,
        "from now at most"
    );
    assert_eq!(scene.next(&mut write, 1_800), Step::Evict(2));
}

#[test]
fn what_an_earlier_start_has_acknowledged_does_not_count_for_the_level() {
    let mut scene = scene();
    let mut write = Write::unannounced(0, 2);
    write.on_sent(Members::first(3), 1_010);
    write.on_acked(0, 1);
    write.on_acked(2, 1);
    let out = scene.list.evict(1).and_then(|list| list.evict(2));
    let out = out.expect("one stays");
    scene.copies.adopt(out, 1_020, 1_020);
    scene.copies.adopt(out, 2_010, 2_020);
    assert_eq!(scene.next(&mut write, 2_030), Step::Acknowledge);
    write.on_restarted(2, 1);
    assert_eq!(scene.next(&mut write, 2_030), Step::Acknowledge, "no other");
    let mut told = write.clone();
    told.on_restarted(2, 2);
    assert_eq!(scene.next(&mut told, 2_030), Step::TooFew);
    // It has been back meanwhile, on a later start.
    let back = out.join(2, 2).and_then(|list| list.evict(2));
    let back = back.expect("it joins, and is evicted");
    scene.copies.adopt(back, 2_040, 2_040);
    scene.copies.adopt(back, 3_030, 3_041);
    assert_eq!(scene.next(&mut write, 3_045), Step::TooFew);
}

#[test]
fn a_node_that_was_restarted_may_have_lost_what_it_acknowledged() {
    let mut scene = scene();
    let mut write = Write::unannounced(0, 2);
    write.on_sent(Members::first(3), 1_010);
    write.on_acked(0, 1);
    write.on_acked(1, 1);
    let joined = scene.list.evict(1).and_then(|l| l.join(1, 2));
    let back = joined.and_then(|l| l.promote(1, 3)).expect("it comes back");
    scene.copies.adopt(back, 1_020, 1_020);
    write.on_acked(2, 1);
    assert_eq!(scene.next(&mut write, 1_030), Step::Send(Members::of(1)));
    write.on_sent(Members::of(1), 1_030);
    assert_eq!(scene.next(&mut write, 1_040), Step::Wait);
    write.on_acked(1, 2);
    assert_eq!(scene.next(&mut write, 1_050), Step::Acknowledge);
}

#[test]
fn what_all_copies_have_is_neither_told_nor_sent() {
    let scene = scene();
    let mut found = Write::new(0, 2);
    found.on_acked(0, 1);
    found.on_acked(2, 1);
    let step = found.next(&scene.copies, &scene.proxies, false, 1_011);
    assert_eq!(step, Step::Record, "one does not have it");
    found.on_acked(1, 1);
    let step = found.next(&scene.copies, &scene.proxies, false, 1_011);
    assert_eq!(step, Step::Acknowledge);
}

#[test]
fn a_proxy_that_does_not_answer_is_evicted() {
    let scene = scene();
    let mut write = Write::new(0, 2);
    write.on_told(0);
    let step = scene.next(&mut write, 1_110);
    assert_eq!(step, Step::Tell(Members::of(1)), "it was not told yet");
    write.on_telling(Members::of(1), 1_110);
    write.on_telling(Members::of(1), 1_200);
    assert_eq!(scene.next(&mut write, 1_209), Step::Tell(Members::of(1)));
    assert_eq!(scene.next(&mut write, 1_210), Step::EvictProxy(1));
}

#[test]
fn all_that_are_required_may_be_too_few_for_the_level() {
    let mut scene = scene();
    let two = scene
        .list
        .evict(2)
        .and_then(|l| l.evict(1))
        .expect("one stays");
    scene.copies.adopt(two, 1_020, 1_020);
    scene.copies.adopt(two, 2_010, 2_015);
    let mut write = Write::unannounced(0, 2);
    write.on_sent(Members::of(0), 2_016);
    write.on_acked(0, 1);
    assert_eq!(scene.next(&mut write, 2_500), Step::TooFew);
}

/// The same with the table alone in sync.
fn scene_of_table() -> Scene {
    let mut scene = scene();
    scene.list = Copies::new(Members::of(TABLE), [1, 1, 1, 0, 0, 0]);
    scene.copies = Known::new(TIMING);
    scene.copies.adopt(scene.list, 1_010, 1_010);
    scene
}

#[test]
fn the_table_alone_is_enough_for_any_level_while_it_is_in_sync() {
    let mut scene = scene_of_table();
    let mut write = Write::unannounced(0, 3);
    let table = Members::of(TABLE);
    assert_eq!(scene.next(&mut write, 1_010), Step::Send(table));
    write.on_sent(table, 1_010);
    assert_eq!(scene.next(&mut write, 2_009), Step::Wait, "it is not late");
    assert_eq!(write.late(&scene.copies, 2_009), Members::EMPTY);
    write.on_acked(TABLE, 0);
    assert_eq!(scene.next(&mut write, 2_009), Step::Acknowledge);
    assert_eq!(write.acked(&scene.copies, 2_009), Members::EMPTY);
    let joining = scene.list.join(1, 4).expect("it is out");
    scene.copies.adopt(joining, 1_900, 1_900);
    let step = scene.next(&mut write, 2_009);
    assert_eq!(step, Step::Send(Members::of(1)), "who joins is waited for");
}

#[test]
fn a_table_that_was_emptied_while_it_was_out_is_sent_the_write_again() {
    let mut scene = scene_of_table();
    let joined = scene.list.join(0, 1).and_then(|list| list.promote(0, 2));
    scene.list = joined.expect("it joins");
    scene.copies.adopt(scene.list, 1_020, 1_020);
    let mut write = Write::unannounced(0, 1);
    write.on_sent(Members::of(0).with(TABLE), 1_020);
    write.on_acked(TABLE, 0);
    assert_eq!(scene.next(&mut write, 1_030), Step::Wait);
    let out = scene.list.evict(TABLE).expect("a copy is in sync");
    scene.copies.adopt(out, 1_040, 1_040);
    assert_eq!(scene.next(&mut write, 1_050), Step::Wait);
    let back = out.join(TABLE, 0).expect("it is out");
    scene.copies.adopt(back, 1_060, 1_060);
    let step = scene.next(&mut write, 1_060);
    assert_eq!(step, Step::Send(Members::of(TABLE)));
    write.on_sent(Members::of(TABLE), 1_060);
    write.on_acked(TABLE, 0);
    write.on_acked(0, 1);
    assert_eq!(scene.next(&mut write, 1_060), Step::Acknowledge);
}

#[test]
fn a_table_that_was_emptied_unseen_is_sent_the_write_again() {
    let mut scene = scene_of_table();
    let joined = scene.list.join(0, 1).and_then(|list| list.promote(0, 2));
    scene.list = joined.expect("it joins");
    scene.copies.adopt(scene.list, 1_020, 1_020);
    let mut write = Write::unannounced(0, 1);
    write.on_sent(Members::of(0).with(TABLE), 1_020);
    write.on_acked(TABLE, 0);
    assert_eq!(scene.next(&mut write, 1_030), Step::Wait);
    let back = scene
        .list
        .evict(TABLE)
        .and_then(|list| list.join(TABLE, 0))
        .expect("a copy is in sync");
    scene.copies.adopt(back, 1_060, 1_060);
    let step = scene.next(&mut write, 1_060);
    assert_eq!(step, Step::Send(Members::of(TABLE)));
    write.on_sent(Members::of(TABLE), 1_060);
    write.on_acked(TABLE, 0);
    write.on_acked(0, 1);
    assert_eq!(scene.next(&mut write, 1_080), Step::Acknowledge);
}

/// Copy 1 has the write, and is emptied while it is out; its node runs on. Copy 0 does not have the write yet.
fn emptied_by_a_rebuild(is_seen: bool) -> (Scene, Write) {
    let mut scene = scene();
    let mut write = Write::unannounced(0, 2);
    assert_eq!(scene.next(&mut write, 1_010), Step::Send(Members::first(3)));
    write.on_sent(Members::first(3), 1_010);
    for copy in [1, 2] {
        write.on_acked(copy, 1);
    }
    let out = scene.list.evict(1).expect("others are in sync");
    let back = out.join(1, 1).expect("it is out");
    if is_seen {
        scene.copies.adopt(out, 1_020, 1_020);
        assert_eq!(scene.next(&mut write, 1_030), Step::Wait);
        scene.copies.adopt(back, 1_040, 1_040);
    }
    // By now it may be compared with copy 0, without the write.
    scene.list = back.promote(1, back.since(1)).expect("it has joined");
    scene.copies.adopt(scene.list, 1_050, 1_050);
    (scene, write)
}

#[test]
fn what_a_copy_acknowledged_before_it_was_emptied_does_not_count() {
    for is_seen in [true, false] {
        let (scene, mut write) = emptied_by_a_rebuild(is_seen);
        let step = scene.next(&mut write, 1_060);
        assert_eq!(step, Step::Send(Members::of(1)), "seen: {is_seen}");
        write.on_sent(Members::of(1), 1_060);
        write.on_acked(0, 1);
        assert_eq!(scene.next(&mut write, 1_060), Step::Wait);
        write.on_acked(1, 1);
        assert_eq!(scene.next(&mut write, 1_060), Step::Acknowledge);
    }
}

#[test]
fn what_was_found_on_all_copies_counts_by_the_list_that_is_looked_at_first() {
    let (scene, _) = emptied_by_a_rebuild(false);
    let mut found = Write::unannounced(0, 2);
    (0..3).for_each(|copy| found.on_acked(copy, 1));
    let step = scene.next(&mut found, 1_060);
    assert_eq!(step, Step::Acknowledge, "none of it was before");
}

#[test]
fn a_table_that_joins_or_has_left_is_waited_for_and_is_none_of_the_copies() {
    let mut scene = scene();
    let joining = scene.list.join(TABLE, 0).expect("it is out");
    scene.copies.adopt(joining, 1_020, 1_020);
    let mut write = Write::unannounced(0, 3);
    write.on_sent(Members::first(3).with(TABLE), 1_020);
    for copy in [0, 1] {
        write.on_acked(copy, 1);
    }
    write.on_acked(TABLE, 0);
    let late = write.late(&scene.copies, 1_500);
    assert_eq!(late, Members::of(2));
    let less = joining.evict(2).expect("others are in sync");
    scene.copies.adopt(less, 1_510, 1_510);
    scene.copies.adopt(less, 2_500, 2_510);
    assert_eq!(scene.next(&mut write, 2_600), Step::TooFew);
    let gone = less.promote(TABLE, 2).and_then(|list| list.evict(TABLE));
    let gone = gone.expect("it comes and goes");
    scene.copies.adopt(gone, 2_700, 2_710);
    scene.copies.adopt(gone, 3_600, 3_610);
    let two = Proxies::new(Members::first(2), [0; PROXIES_MAX]);
    scene.proxies.adopt(two, 3_600, 3_610);
    let mut next = Write::unannounced(0, 2);
    let step = scene.next(&mut next, 3_700);
    assert_eq!(step, Step::Send(Members::first(2).with(TABLE)));
    scene.copies.adopt(gone, 3_700, 3_710);
    let step = scene.next(&mut next, 3_710);
    assert_eq!(step, Step::Send(Members::first(2)), "nobody reads it");
}
