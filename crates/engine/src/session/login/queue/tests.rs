use slotmap::KeyData;

use super::*;

const LIMITS: LoginLimits = LoginLimits {
    total: 4,
    per_address: 2,
};
const ONE: LoginLimits = LoginLimits {
    total: 1,
    per_address: 1,
};

fn peer(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

/// A queue, and logins with names in the order in which they come.
struct Door {
    logins: Logins,
    now: Instant,
    limits: LoginLimits,
    next: u64,
    told: Vec<Notice>,
}

impl Door {
    fn new(limits: LoginLimits) -> Door {
        Door {
            logins: Logins::default(),
            now: crate::testing::begin(),
            limits,
            next: 0,
            told: Vec::new(),
        }
    }

    fn ask(&mut self, peer: IpAddr) -> (Applicant, Admission) {
        self.ask_of(0, peer)
    }

    fn ask_of(&mut self, worker: usize, peer: IpAddr) -> (Applicant, Admission) {
        self.next += 1;
        let session = SessionKey::from(KeyData::from_ffi(self.next << 32 | self.next));
        let applicant = Applicant { worker, session };
        let (admission, told) = self.logins.ask(applicant, peer, self.limits, self.now);
        self.told.extend(told);
        (applicant, admission)
    }

    #[track_caller]
    fn goes(&mut self, peer: IpAddr) -> Applicant {
        let (applicant, admission) = self.ask(peer);
        assert_eq!(admission, Admission::Go);
        applicant
    }

    #[track_caller]
    fn waits(&mut self, peer: IpAddr) -> Applicant {
        let (applicant, admission) = self.ask(peer);
        assert_eq!(admission, Admission::Wait);
        applicant
    }

    fn end(&mut self, applicant: Applicant) {
        let told = self.logins.end(applicant, false, self.now);
        self.told.extend(told);
    }

    fn refuse(&mut self, applicant: Applicant) {
        let told = self.logins.end(applicant, true, self.now);
        self.told.extend(told);
    }

    /// Who has been told since the last call that it is granted, or not.
    fn told(&mut self, is_granted: bool) -> Vec<Applicant> {
        let told = std::mem::take(&mut self.told).into_iter();
        let told = told.filter(|notice| notice.is_granted == is_granted);
        told.map(|notice| notice.to).collect()
    }
}

#[test]
fn limits_hold_in_all_and_of_one_address() {
    let mut door = Door::new(LIMITS);
    let first = [door.goes(peer(1)), door.goes(peer(1))];
    let third = door.waits(peer(1));
    let _others = [door.goes(peer(2)), door.goes(peer(2))];
    let last = door.waits(peer(3));
    assert_eq!(door.logins.counts(), (4, 2));
    for applicant in first {
        door.end(applicant);
    }
    assert_eq!(door.told(true), [third, last]);
}

#[test]
fn many_logins_of_one_address_delay_anothers_by_one() {
    let mut door = Door::new(ONE);
    let running = door.goes(peer(1));
    let crowd: Vec<Applicant> = (0..1_000).map(|_| door.waits(peer(1))).collect();
    let other = door.waits(peer(2));
    door.end(running);
    assert_eq!(door.told(true), [crowd[0]], "the crowd came first");
    door.end(crowd[0]);
    assert_eq!(door.told(true), [other]);
}

#[test]
fn every_waiting_login_gets_its_turn_and_the_bound_always_holds() {
    let mut door = Door::new(LIMITS);
    let mut running = Vec::new();
    let mut addresses = BTreeMap::new();
    for n in 0..300_u32 {
        let address = peer((n % 7) as u8);
        let (applicant, admission) = door.ask(address);
        addresses.insert(applicant, address);
        match admission {
            Admission::Go => running.push(applicant),
            Admission::Wait => {}
            Admission::Refused => panic!("refused"),
        }
    }
    let mut served = running.len();
    while !running.is_empty() {
        assert!(running.len() <= LIMITS.total);
        for n in 0..7 {
            let of_address = running.iter().filter(|a| addresses[*a] == peer(n)).count();
            assert!(of_address <= LIMITS.per_address);
        }
        let ended = running.swap_remove(served % running.len());
        door.end(ended);
        let granted = door.told(true);
        served += granted.len();
        running.extend(granted);
    }
    assert_eq!(served, 300);
    assert_eq!(door.logins.counts(), (0, 0));
    let queue = door.logins.queue();
    assert!(queue.addresses.is_empty() && queue.places.is_empty());
}

#[test]
fn an_address_that_is_refused_again_and_again_has_one_login_at_a_time_for_a_while() {
    let mut door = Door::new(LIMITS);
    for _ in 0..2 * REFUSALS_MAX {
        let refused = door.goes(peer(1));
        door.refuse(refused);
    }
    let one = door.goes(peer(1));
    let waits = door.waits(peer(1));
    let _other = [door.goes(peer(2)), door.goes(peer(2))];
    door.end(one);
    assert_eq!(door.told(true), [waits]);
    let waits = door.waits(peer(1));
    // The logins that the refusals have cost come back by themselves.
    door.now += REFUSAL_KEPT * (2 * REFUSALS_MAX + 5);
    let told = door.logins.grant(door.now);
    door.told.extend(told);
    assert_eq!(door.told(true), [waits]);
}

#[test]
fn clients_that_leave_free_their_places() {
    let mut door = Door::new(LIMITS);
    let running = [door.goes(peer(1)), door.goes(peer(1))];
    // One leaves while it waits, one when its permit was granted but it has not noticed yet.
    let (leaves, stays) = (door.waits(peer(1)), door.waits(peer(1)));
    door.end(leaves);
    let unnoticed = door.waits(peer(1));
    for applicant in running {
        door.end(applicant);
    }
    assert_eq!(door.told(true), [stays, unnoticed]);
    assert_eq!(door.logins.counts(), (2, 0));
    door.end(unnoticed);
    door.end(stays);
    // Nothing is given back twice.
    door.end(unnoticed);
    assert_eq!(door.logins.counts(), (0, 0));
}

#[test]
fn a_worker_that_ends_gives_back_what_its_logins_have() {
    let mut door = Door::new(LIMITS);
    for _ in 0..2 {
        assert_eq!(door.ask_of(1, peer(1)).1, Admission::Go);
        assert_eq!(door.ask_of(2, peer(2)).1, Admission::Go);
    }
    let (stays, admission) = door.ask_of(2, peer(1));
    assert_eq!(admission, Admission::Wait);
    assert_eq!(door.ask_of(1, peer(3)).1, Admission::Wait);
    door.logins.forget_worker(1);
    assert_eq!(door.logins.counts(), (2, 1));
    assert_eq!(door.logins.of_worker(1), BTreeMap::new());
    let told = door.logins.grant(door.now);
    door.told.extend(told);
    assert_eq!(door.told(true), [stays]);
}

#[test]
fn a_full_queue_still_has_a_place_for_an_address_with_few() {
    let mut door = Door::new(LIMITS);
    let _running = [1, 1, 2, 2].map(|n| door.goes(peer(n)));
    for n in 0..WAITING_MAX {
        door.waits(peer(1 + (n % 4) as u8));
    }
    assert_eq!(door.ask(peer(1)).1, Admission::Refused);
    assert!(door.told.is_empty());
    door.waits(peer(9));
    assert_eq!(door.logins.counts().1, WAITING_MAX);
    assert_eq!(door.told(false).len(), 1);
}

#[test]
fn without_addresses_all_share_the_total() {
    let mut door = Door::new(LoginLimits {
        total: 4,
        per_address: 0,
    });
    for n in 0..4 * REFUSALS_MAX {
        let refused = door.goes(peer(n as u8));
        door.refuse(refused);
    }
    let _all = [1, 1, 1, 1].map(|n| door.goes(peer(n)));
    door.waits(peer(2));
}

#[test]
fn addresses_of_version_6_count_by_their_network() {
    let of = |text: &str| block_of(text.parse().expect("an address"));
    assert_eq!(of("2001:db8:1:2:aaaa::1"), of("2001:db8:1:2:bbbb::2"));
    assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
}

#[test]
fn what_is_remembered_of_addresses_is_bounded() {
    let mut door = Door::new(LIMITS);
    for n in 0..2 * ADDRESSES_MAX as u32 {
        let refused = door.goes(IpAddr::from(n.to_be_bytes()));
        door.refuse(refused);
    }
    assert!(door.logins.queue().addresses.len() <= ADDRESSES_MAX + 1);
}
