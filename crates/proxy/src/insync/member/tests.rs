mod acting;

use helenus_layout::insync::Stored;

use super::*;

const SECOND: u64 = 1_000_000;
const ME: Start = [1; 16];
const OTHER: Start = [2; 16];

/// What the catalogue holds of proxies, and a member before it.
struct Scene {
    member: Member,
    version: i64,
    rows: Vec<ProxyRow>,
    beats: BTreeMap<Start, i64>,
    now_us: u64,
}

impl Scene {
    fn new() -> Scene {
        Scene {
            member: Member::new(ME, 0),
            version: 0,
            rows: Vec::new(),
            beats: BTreeMap::new(),
            now_us: 10 * SECOND,
        }
    }

    /// Another proxy, in this state since version 1, and the lists' version is that.
    fn with_other(state: &str) -> Scene {
        let mut scene = Scene::new();
        scene.version = 1;
        scene.rows.push(row(OTHER, 0, state, 1));
        scene
    }

    /// The proxies in this list have given a sign of life.
    fn beat(&mut self, starts: &[Start]) {
        for start in starts {
            *self.beats.entry(*start).or_default() += 1;
        }
    }

    /// A read at QUORUM is answered at once.
    fn renew(&mut self) {
        let told = Beats {
            version: self.version,
            beats: self
                .beats
                .iter()
                .map(|(start, beat)| (*start, *beat))
                .collect(),
        };
        self.member.on_beats(&told, self.now_us, self.now_us);
    }

    /// The catalogue answers; a change is carried out if it may be.
    fn answer(&mut self, action: &Action) -> bool {
        let now_us = self.now_us;
        match action {
            Action::Read(ListName::Proxies) => {
                let rows = self.rows.clone();
                self.member.on_proxies(self.version, rows, now_us, now_us);
            }
            Action::ReadIntents => self.member.on_intents(Vec::new(), now_us),
            Action::Change(change) => {
                self.member.on_attempted(ListName::Proxies);
                if i64::try_from(change.known).ok() != Some(self.version) {
                    return false;
                }
                self.version = change.version as i64;
                self.rows.retain(|row| Some(row.start) != change.replaces);
                let state = change.state.name();
                let new = row(change.start, change.number as i32, state, self.version);
                self.rows.retain(|row| row.start != change.start);
                self.rows.push(new);
            }
            Action::Read(_) | Action::ChangeCopies(_) | Action::StartAnew => {
                panic!("not expected: {action:?}")
            }
        }
        true
    }

    /// Goes on until there is nothing to be asked; the changes on the way, as texts.
    fn settle(&mut self) -> Vec<String> {
        let mut changes = Vec::new();
        for _ in 0..32 {
            let Some(action) = self.member.next(self.now_us) else {
                return changes;
            };
            match &action {
                Action::Change(change) => {
                    changes.push(format!("{} {}", change.number, change.state.name()));
                }
                Action::StartAnew => {
                    changes.push("start anew".to_owned());
                    return changes;
                }
                _ => {}
            }
            assert!(self.answer(&action), "{action:?}");
        }
        panic!("it does not settle: {changes:?}");
    }

    /// Time passes, with a renewal each quarter of a second, in which these give signs of life.
    fn pass(&mut self, time_us: u64, living: &[Start]) -> Vec<String> {
        let mut changes = Vec::new();
        let until_us = self.now_us + time_us;
        while self.now_us < until_us {
            self.now_us += RENEWAL_US;
            self.beat(living);
            self.renew();
            changes.extend(self.settle());
        }
        changes
    }
}

fn row(start: Start, number: i32, state: &str, since: i64) -> ProxyRow {
    ProxyRow {
        start,
        number,
        state: state.to_owned(),
        since,
        address: "10.0.0.1:9042".to_owned(),
    }
}

#[test]
fn the_first_proxy_joins_and_is_in_sync_after_a_lease() {
    let mut scene = Scene::new();
    assert_eq!(scene.settle(), ["0 joining"]);
    assert_eq!(scene.pass(SECOND, &[ME]), [""; 0], "a lease has not passed");
    assert_eq!(scene.pass(SECOND, &[ME]), ["0 in sync"]);
    assert_eq!(scene.pass(5 * SECOND, &[ME]), [""; 0]);
    let lists = scene.member.published();
    assert_eq!(lists.me, Some(0));
    assert!(
        lists
            .proxies
            .is_some_and(|known| known.list(scene.now_us).is_some())
    );
}

#[test]
fn a_proxy_without_a_sign_of_life_is_evicted_by_one_in_sync() {
    let mut scene = Scene::with_other("in sync");
    assert_eq!(scene.settle(), ["1 joining"]);
    assert_eq!(scene.pass(5 * SECOND, &[ME, OTHER]), ["1 in sync"]);
    assert_eq!(scene.pass(SECOND, &[ME]), [""; 0]);
    assert_eq!(scene.pass(2 * SECOND, &[ME]), ["0 out"]);
    assert_eq!(scene.pass(5 * SECOND, &[ME]), [""; 0]);
}

#[test]
fn who_is_alone_gets_in_sync_beside_one_that_has_died() {
    let mut scene = Scene::with_other("in sync");
    assert_eq!(scene.settle(), ["1 joining"]);
    let changes = scene.pass(6 * SECOND, &[ME]);
    assert_eq!(
        changes,
        ["1 in sync", "0 out"],
        "the last in sync stays before"
    );
}

#[test]
fn nobody_is_evicted_without_a_lease() {
    let mut scene = Scene::with_other("in sync");
    scene.settle();
    scene.pass(3 * SECOND, &[ME, OTHER]);
    // This proxy stands still, and so hears nobody.
    scene.now_us += 10 * SECOND;
    assert_eq!(scene.settle(), [""; 0]);
    scene.beat(&[OTHER]);
    scene.renew();
    assert_eq!(scene.settle(), [""; 0], "the other has lived meanwhile");
}

#[test]
fn who_was_evicted_starts_anew() {
    let mut scene = Scene::with_other("in sync");
    scene.settle();
    scene.pass(3 * SECOND, &[ME, OTHER]);
    scene.version += 1;
    let version = scene.version;
    for row in scene.rows.iter_mut().filter(|row| row.start == ME) {
        row.state = "out".to_owned();
        row.since = version;
    }
    assert_eq!(scene.pass(RENEWAL_US, &[OTHER]), ["start anew"]);
    scene.member = Member::new([3; 16], scene.member.floor());
    assert_eq!(scene.settle(), ["2 joining"], "under another number");
}

#[test]
fn a_row_that_was_taken_away_is_an_eviction() {
    let mut scene = Scene::with_other("in sync");
    scene.settle();
    scene.pass(3 * SECOND, &[ME, OTHER]);
    scene.version += 1;
    let version = scene.version;
    scene.rows = vec![
        row(OTHER, 0, "in sync", 1),
        row([4; 16], 1, "joining", version),
    ];
    assert_eq!(scene.pass(RENEWAL_US, &[OTHER]), ["start anew"]);
}

#[test]
fn who_leaves_goes_out_unless_it_is_the_last_in_sync() {
    let mut scene = Scene::with_other("in sync");
    scene.settle();
    scene.pass(3 * SECOND, &[ME, OTHER]);
    let mut alone = Scene::new();
    alone.settle();
    alone.pass(3 * SECOND, &[ME]);
    scene.member.leave();
    assert!(!scene.member.has_left());
    assert_eq!(scene.settle(), ["1 out"]);
    assert!(scene.member.has_left());
    alone.member.leave();
    assert_eq!(alone.settle(), [""; 0]);
    assert!(alone.member.has_left());
}

#[test]
fn a_change_that_others_have_overtaken_is_made_again_on_what_is_read() {
    let mut scene = Scene::new();
    scene.answer(&Action::Read(ListName::Proxies));
    let Some(action) = scene.member.next(scene.now_us) else {
        panic!("it does not join");
    };
    scene.version = 1;
    scene.rows.push(row(OTHER, 0, "joining", 1));
    assert!(!scene.answer(&action));
    assert_eq!(scene.settle(), ["1 joining"]);
}

#[test]
fn a_new_version_is_believed_from_a_read_at_serial_only() {
    let mut scene = Scene::with_other("in sync");
    scene.settle();
    scene.pass(3 * SECOND, &[ME, OTHER]);
    scene.version += 1;
    let version = scene.version;
    scene.rows.push(row([3; 16], 2, "joining", version));
    scene.now_us += SECOND / 2;
    scene.renew();
    let of = |scene: &Scene| {
        let known = scene.member.published().proxies.expect("it takes part");
        (
            known.last_read().map(|list| list.version()),
            known.lease_left_us(scene.now_us),
        )
    };
    let before = of(&scene);
    assert_eq!(before.0, Some(version as u64 - 1));
    assert!(
        before.1 <= SECOND / 2,
        "a version that it does not know renews nothing"
    );
    let read = Action::Read(ListName::Proxies);
    assert_eq!(scene.member.next(scene.now_us), Some(read.clone()));
    scene.answer(&read);
    assert_eq!(of(&scene), (Some(version as u64), SECOND));
    // An answer that was overtaken.
    scene.version -= 1;
    scene.now_us += SECOND / 2;
    scene.renew();
    assert_eq!(of(&scene), (Some(version as u64), SECOND / 2));
    assert_eq!(scene.member.next(scene.now_us), None);
}

#[test]
fn a_list_that_cannot_be_so_is_not_believed() {
    let mut scene = Scene::with_other("in sync");
    scene.settle();
    scene.pass(3 * SECOND, &[ME, OTHER]);
    scene.version += 1;
    scene.renew();
    let read = Action::Read(ListName::Proxies);
    assert_eq!(scene.member.next(scene.now_us), Some(read.clone()));
    scene.answer(&read);
    let problems = scene.member.published().problems;
    assert_eq!(
        problems,
        [
            "the list of proxies is not believed: no member is as it is since version 4, which is that of the list"
        ]
    );
    assert_eq!(scene.member.next(scene.now_us), None);
    scene.now_us += SECOND;
    assert_eq!(
        scene.member.next(scene.now_us),
        Some(read.clone()),
        "it is read again"
    );
    scene.rows[0].since = scene.version;
    scene.rows[0].state = "joining".to_owned();
    scene.answer(&read);
    assert_eq!(scene.member.published().problems, [""; 0]);
}

#[test]
fn numbers_are_taken_again_when_their_starts_are_gone_and_have_left_nothing() {
    let mut scene = Scene::new();
    scene.version = 64;
    let start = |number: usize| [100 + number as u8; 16];
    let states = |number: usize| match number {
        0 => "in sync",
        _ => "out",
    };
    scene.rows = (0..PROXIES_MAX)
        .map(|number| {
            row(
                start(number),
                number as i32,
                states(number),
                number as i64 + 1,
            )
        })
        .collect();
    assert_eq!(scene.settle(), [""; 0], "who knows when they have left");
    assert_eq!(scene.pass(15 * SECOND, &[start(0)]), [""; 0]);
    // The first that is gone has left intents.
    scene.now_us += 2 * SECOND;
    scene.renew();
    assert_eq!(scene.member.next(scene.now_us), Some(Action::ReadIntents));
    scene.member.on_intents(vec![(start(1), 7)], scene.now_us);
    let Some(Action::Change(change)) = scene.member.next(scene.now_us) else {
        panic!("it does not join");
    };
    assert_eq!((change.number, change.replaces), (2, Some(start(2))));
    assert_eq!(scene.settle(), ["2 joining"]);
    assert_eq!(scene.rows.len(), PROXIES_MAX);
}

/// A list about the ranges above this token, up to the next ten.
fn of_ranges(owners: Owners, after: i64, list: Stored) -> GroupRow {
    GroupRow {
        owners,
        ranges: Some(Ranges::new([(after, after + 10)])),
        list,
    }
}

#[test]
fn copies_are_known_by_group_and_newcomers_wait_to_be_compared() {
    let mut member = Member::new(ME, 0);
    let table = ("shop".to_owned(), "orders".to_owned());
    member.set_tables(&[table.clone()].into(), &BTreeSet::new());
    member.on_proxies(0, Vec::new(), 0, 0);
    let read = Action::Read(ListName::Copies(table.clone()));
    assert!(
        matches!(member.next(0), Some(Action::Change(_))),
        "it joins"
    );
    member.on_attempted(ListName::Proxies);
    member.on_proxies(1, vec![row(ME, 0, "joining", 1)], 0, 0);
    assert_eq!(member.next(0), Some(read.clone()));
    let stored = |version, joining: &[i32], since: &[i64]| Stored {
        version,
        in_sync: (0..2).filter(|copy| !joining.contains(copy)).collect(),
        joining: joining.to_vec(),
        since: since.to_vec(),
        boot: vec![1, 1],
    };
    let (a, b) = (vec![[1; 16], [2; 16]], vec![[1; 16], [3; 16]]);
    let rows = [
        of_ranges(a.clone(), 0, stored(1, &[], &[1, 1])),
        of_ranges(b.clone(), 10, stored(3, &[1], &[1, 3])),
    ];
    member.on_copies(&table, &rows, 0, 0);
    assert_eq!(member.next(0), None);
    let of = |member: &Member, owners: &Owners| {
        let copies = member.published().copies;
        copies.into_iter().find(|copies| copies.owners == *owners)
    };
    let versions = [(a.clone(), 1), (b.clone(), 3)];
    member.on_versions(&table, &versions, SECOND, SECOND);
    let newcomer = of(&member, &b).expect("it is known");
    assert_eq!(newcomer.known.lease_left_us(SECOND), SECOND);
    let join = newcomer.joins[0];
    assert_eq!(join.next(&newcomer.known, SECOND / 2), JoinStep::Wait);
    assert_eq!(
        join.next(&newcomer.known, 3 * SECOND / 2),
        JoinStep::Compare
    );
    // One of them has changed: the other one's lease is renewed all the same.
    let versions = [(a.clone(), 1), (b.clone(), 4)];
    member.on_versions(&table, &versions, 2 * SECOND, 2 * SECOND);
    let left = |member: &Member, owners| {
        of(member, owners).map(|copies| copies.known.lease_left_us(2 * SECOND))
    };
    assert_eq!(
        (left(&member, &a), left(&member, &b)),
        (Some(SECOND), Some(0))
    );
    assert_eq!(member.next(2 * SECOND), Some(read));
    let rows = [
        of_ranges(a.clone(), 0, stored(1, &[], &[1, 1])),
        of_ranges(b.clone(), 10, stored(4, &[], &[1, 4])),
    ];
    member.on_copies(&table, &rows, 2 * SECOND, 2 * SECOND);
    assert_eq!(left(&member, &b), Some(SECOND));
    assert!(of(&member, &b).is_some_and(|copies| copies.joins.is_empty()));
    member.set_tables(&BTreeSet::new(), &BTreeSet::new());
    assert!(member.published().copies.is_empty());
}

#[test]
fn lists_of_a_table_that_is_soon_to_be_replaced_are_known_and_not_gone_by() {
    let mut member = Member::new(ME, 0);
    let table = ("shop".to_owned(), "orders".to_owned());
    let (one, none): (BTreeSet<TableName>, _) = ([table.clone()].into(), BTreeSet::new());
    member.set_tables(&none, &one);
    assert_eq!(member.tables().collect::<Vec<_>>(), [&table]);
    let list = Stored {
        version: 1,
        in_sync: vec![5],
        joining: Vec::new(),
        since: vec![1, 1, 0, 0, 0, 1],
        boot: vec![4, 4, 0, 0, 0, 0],
    };
    let rows = [of_ranges(vec![[1; 16], [2; 16]], 0, list)];
    member.on_copies(&table, &rows, SECOND, SECOND);
    assert!(member.published().copies.is_empty());
    // The mode changes: what is known stays.
    member.set_tables(&one, &none);
    let copies = member.published().copies;
    let known = copies.first().map(|of| of.known.lease_left_us(SECOND));
    assert_eq!(known, Some(SECOND));
    member.set_tables(&none, &none);
    assert_eq!(member.tables().count(), 0);
}

#[test]
fn a_group_that_cannot_be_so_leaves_the_others_alone() {
    let mut member = Member::new(ME, 0);
    let table = ("shop".to_owned(), "orders".to_owned());
    member.set_tables(&[table.clone()].into(), &BTreeSet::new());
    let good = Stored {
        version: 1,
        in_sync: vec![0],
        since: vec![1],
        boot: vec![1],
        ..Stored::default()
    };
    let bad = Stored {
        in_sync: vec![1],
        ..good.clone()
    };
    let rows = [
        of_ranges(vec![[1; 16]], 0, good),
        of_ranges(vec![[2; 16]], 10, bad),
    ];
    member.on_copies(&table, &rows, 0, 0);
    let lists = member.published();
    assert_eq!(lists.copies.len(), 1);
    assert_eq!(
        lists.problems,
        ["a list of copies of shop.orders is not believed: it has no member 1"]
    );
}

#[test]
fn lists_of_copies_that_cannot_be_read_hold_up_nobody() {
    let mut scene = Scene::with_other("in sync");
    let table = |name: &str| ("shop".to_owned(), name.to_owned());
    let tables: Vec<TableName> = ["a", "b", "c"].map(table).to_vec();
    let bad = Stored {
        version: 7,
        ..Stored::default()
    };
    let mut asked = BTreeMap::new();
    let mut changes = Vec::new();
    scene
        .member
        .set_tables(&tables.iter().cloned().collect(), &BTreeSet::new());
    for step in 0..80 {
        scene.now_us += RENEWAL_US;
        let living = if step < 40 {
            &[ME, OTHER][..]
        } else {
            &[ME][..]
        };
        scene.beat(living);
        scene.renew();
        while let Some(action) = scene.member.next(scene.now_us) {
            match &action {
                Action::Read(ListName::Copies(name)) => {
                    *asked.entry(name.clone()).or_insert(0) += 1;
                    match &*name.1 {
                        "a" => {
                            let rows = [of_ranges(vec![[1; 16]], 0, bad.clone())];
                            let now_us = scene.now_us;
                            scene.member.on_copies(name, &rows, now_us, now_us);
                        }
                        _ => scene.member.on_failed(&action, scene.now_us),
                    }
                }
                Action::Change(change) => {
                    changes.push(format!("{} {}", change.number, change.state.name()));
                    assert!(scene.answer(&action));
                    scene.member.on_changed(&action);
                }
                _ => assert!(scene.answer(&action)),
            }
        }
    }
    assert_eq!(changes, ["1 joining", "1 in sync", "0 out"]);
    for table in &tables {
        let times = asked[table];
        assert!((8..24).contains(&times), "{table:?}: {times}");
    }
    scene.member.leave();
    assert_eq!(scene.member.next(scene.now_us), None, "the last one stays");
}

#[test]
fn a_change_that_fails_is_tried_again_less_and_less() {
    let mut scene = Scene::new();
    let mut at_us = Vec::new();
    for _ in 0..400 {
        scene.now_us += RENEWAL_US;
        while let Some(action) = scene.member.next(scene.now_us) {
            match &action {
                Action::Change(_) => {
                    at_us.push(scene.now_us);
                    scene.member.on_attempted(ListName::Proxies);
                    scene.member.on_failed(&action, scene.now_us);
                }
                _ => assert!(scene.answer(&action)),
            }
        }
    }
    assert!((7..11).contains(&at_us.len()), "{at_us:?}");
    let gaps: Vec<u64> = at_us.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.is_sorted(), "{gaps:?}");
}

#[test]
fn a_list_that_is_empty_again_is_not_begun_anew() {
    let mut scene = Scene::with_other("in sync");
    scene.settle();
    scene.pass(3 * SECOND, &[ME, OTHER]);
    let version = scene.member.floor();
    assert_eq!(version, 3);
    scene.version = 0;
    scene.rows.clear();
    scene.beats.clear();
    let went_back =
        ["the list of proxies is not believed: it has version 0, and had version 3 before"];
    assert_eq!(scene.pass(5 * SECOND, &[]), [""; 0]);
    assert_eq!(scene.member.published().problems, went_back);
    // Nor by the next start of the same proxy.
    scene.member = Member::new([3; 16], version);
    assert_eq!(scene.pass(5 * SECOND, &[]), [""; 0]);
    assert_eq!(scene.member.published().problems, went_back);
}

#[test]
fn a_list_that_was_changed_under_the_same_version_is_not_renewed() {
    let mut scene = Scene::with_other("in sync");
    scene.settle();
    scene.pass(3 * SECOND, &[ME, OTHER]);
    scene.rows[0].state = "joining".to_owned();
    scene.member.on_attempted(ListName::Proxies);
    scene.answer(&Action::Read(ListName::Proxies));
    assert_eq!(scene.member.published().problems.len(), 1);
    scene.now_us += SECOND;
    scene.renew();
    let known = scene.member.published().proxies.expect("it takes part");
    assert_eq!(known.lease_left_us(scene.now_us), 0);
}
