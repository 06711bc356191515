use std::task::{Context, Poll, Waker};

use super::*;

const LIMITS: LoginLimits = LoginLimits {
    total: 4,
    per_address: 2,
};

fn peer(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

fn go(admission: Admission) -> Permit {
    match admission {
        Admission::Go(permit) => permit,
        Admission::Wait(_) => panic!("it waits"),
        Admission::Refused => panic!("refused"),
    }
}

fn wait(admission: Admission) -> Waiting {
    match admission {
        Admission::Wait(waiting) => waiting,
        _ => panic!("it does not wait"),
    }
}

/// The permit, if it has been granted; `Err` if its place was given to another login.
fn look(waiting: &mut Waiting) -> Result<Option<Permit>, ()> {
    let mut cx = Context::from_waker(Waker::noop());
    match std::pin::Pin::new(&mut waiting.granted).poll(&mut cx) {
        Poll::Pending => Ok(None),
        Poll::Ready(Ok(())) => Ok(Some(Permit::new(waiting.logins.clone(), waiting.address))),
        Poll::Ready(Err(_)) => Err(()),
    }
}

fn granted(waiting: &mut [Waiting]) -> Vec<(usize, Permit)> {
    let looked = waiting.iter_mut().enumerate();
    looked
        .filter_map(|(at, waiting)| Some((at, look(waiting).ok().flatten()?)))
        .collect()
}

#[test]
fn limits_hold_in_all_and_of_one_address() {
    let logins = Arc::new(Logins::default());
    let now = Instant::now();
    let ask = |n| logins.ask(peer(n), LIMITS, now);
    let first = [go(ask(1)), go(ask(1))];
    let _third = wait(ask(1));
    let _others = [go(ask(2)), go(ask(2))];
    let mut last = wait(ask(3));
    assert_eq!(logins.counts(), (4, 2));
    drop(first);
    assert!(look(&mut last).expect("a place").is_some());
}

#[test]
fn many_logins_of_one_address_delay_anothers_by_one() {
    let logins = Arc::new(Logins::default());
    let limits = LoginLimits {
        total: 1,
        per_address: 1,
    };
    let ask = |n| logins.ask(peer(n), limits, Instant::now());
    let running = go(ask(1));
    let mut crowd: Vec<Waiting> = (0..1_000).map(|_| wait(ask(1))).collect();
    let mut other = wait(ask(2));
    drop(running);
    let next = granted(&mut crowd);
    assert_eq!(next.len(), 1, "the crowd came first");
    assert!(look(&mut other).expect("a place").is_none());
    drop(next);
    assert!(look(&mut other).expect("a place").is_some());
}

#[test]
fn every_waiting_login_gets_its_turn_and_the_bound_always_holds() {
    let logins = Arc::new(Logins::default());
    let now = Instant::now();
    let mut running = Vec::new();
    let mut waiting = Vec::new();
    for n in 0..300_u32 {
        match logins.ask(peer((n % 7) as u8), LIMITS, now) {
            Admission::Go(permit) => running.push(permit),
            Admission::Wait(place) => waiting.push(place),
            Admission::Refused => panic!("refused"),
        }
    }
    let mut served = running.len();
    while !running.is_empty() {
        assert!(running.len() <= LIMITS.total);
        for n in 0..7 {
            let of_address = running.iter().filter(|p| p.address == peer(n)).count();
            assert!(of_address <= LIMITS.per_address);
        }
        running.swap_remove(served % running.len());
        for (at, permit) in granted(&mut waiting).into_iter().rev() {
            waiting.swap_remove(at);
            running.push(permit);
            served += 1;
        }
    }
    assert_eq!(served, 300);
    assert_eq!(logins.counts(), (0, 0));
    assert!(logins.queue().addresses.is_empty());
}

#[test]
fn an_address_that_is_refused_again_and_again_has_one_login_at_a_time_for_a_while() {
    let logins = Arc::new(Logins::default());
    let begin = Instant::now();
    for _ in 0..2 * REFUSALS_MAX {
        go(logins.ask(peer(1), LIMITS, begin)).refused();
    }
    let one = go(logins.ask(peer(1), LIMITS, begin));
    let _waits = wait(logins.ask(peer(1), LIMITS, begin));
    let _other = [(); 2].map(|()| go(logins.ask(peer(2), LIMITS, begin)));
    drop(one);
    let later = begin + REFUSAL_KEPT * (2 * REFUSALS_MAX + 5);
    let fresh = Arc::new(Logins::default());
    for _ in 0..2 * REFUSALS_MAX {
        go(fresh.ask(peer(1), LIMITS, begin)).refused();
    }
    let _both = [(); 2].map(|()| go(fresh.ask(peer(1), LIMITS, later)));
}

#[test]
fn clients_that_leave_free_their_places() {
    let logins = Arc::new(Logins::default());
    let ask = || logins.ask(peer(1), LIMITS, Instant::now());
    let running = [go(ask()), go(ask())];
    // One disconnects while waiting, one after its permit was granted but before it noticed.
    let (leaves, mut stays) = (wait(ask()), wait(ask()));
    drop(leaves);
    let unnoticed = wait(ask());
    drop(running);
    assert!(look(&mut stays).expect("a place").is_some());
    assert_eq!(logins.counts().1, 0);
    drop(unnoticed);
    assert_eq!(logins.counts(), (0, 0));
}

#[test]
fn a_full_queue_still_has_a_place_for_an_address_with_few() {
    let logins = Arc::new(Logins::default());
    let now = Instant::now();
    let ask = |n| logins.ask(peer(n), LIMITS, now);
    let _running = [go(ask(1)), go(ask(1)), go(ask(2)), go(ask(2))];
    let mut crowds: Vec<Waiting> = (0..WAITING_MAX)
        .map(|n| wait(ask(1 + (n % 4) as u8)))
        .collect();
    assert!(matches!(ask(1), Admission::Refused));
    let mut few = wait(ask(9));
    assert!(look(&mut few).is_ok());
    assert_eq!(logins.counts().1, WAITING_MAX);
    let displaced = crowds.iter_mut().filter_map(|w| look(w).err()).count();
    assert_eq!(displaced, 1);
}

#[test]
fn without_addresses_all_share_the_total() {
    let logins = Arc::new(Logins::default());
    let limits = LoginLimits {
        total: 4,
        per_address: 0,
    };
    let now = Instant::now();
    for n in 0..4 * REFUSALS_MAX {
        go(logins.ask(peer(n as u8), limits, now)).refused();
    }
    let _all = [1, 1, 1, 1].map(|n| go(logins.ask(peer(n), limits, now)));
    let _waits = wait(logins.ask(peer(2), limits, now));
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
    let logins = Arc::new(Logins::default());
    let now = Instant::now();
    for n in 0..2 * ADDRESSES_MAX as u32 {
        go(logins.ask(IpAddr::from(n.to_be_bytes()), LIMITS, now)).refused();
    }
    assert!(logins.queue().addresses.len() <= ADDRESSES_MAX + 1);
}
