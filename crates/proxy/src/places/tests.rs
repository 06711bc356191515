use super::*;

fn address(last: u8) -> Address {
    Some(IpAddr::from([10, 0, 0, last]))
}

fn has_ended(replaced: &mut oneshot::Receiver<()>) -> bool {
    replaced.try_recv() == Err(oneshot::error::TryRecvError::Closed)
}

fn bounds(all: usize, address: usize, seconds: u64) -> Bounds {
    Bounds {
        all,
        address,
        quiet: Duration::from_secs(seconds),
    }
}

const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn the_quietest_of_the_address_with_the_most_makes_room_and_none_that_is_busy() {
    let places = Places::new(bounds(4, 4, 0));
    let take = |of| {
        let (place, ends) = places.take(address(of), Instant::now()).expect("a place");
        (Arc::new(place), ends)
    };
    let (_probe, mut probe_ends) = take(1);
    let (first, mut first_ends) = take(2);
    let (_second, mut second_ends) = take(2);
    let (_third, mut third_ends) = take(2);
    let busy = [first.busy(LONG), first.busy(LONG)];
    let (_fourth, mut fourth_ends) = take(3);
    assert!(has_ended(&mut second_ends), "the first is busy");
    assert!(!has_ended(&mut first_ends) && !has_ended(&mut third_ends));
    let [one, other] = busy;
    drop(one);
    let (_fifth, mut fifth_ends) = take(3);
    assert!(has_ended(&mut third_ends), "the first is still busy");
    drop(other);
    assert!(!has_ended(&mut fourth_ends) && !has_ended(&mut fifth_ends));
    let (_sixth, _sixth_ends) = take(2);
    assert!(
        has_ended(&mut fourth_ends),
        "two of the third address are the most"
    );
    assert!(!has_ended(&mut first_ends) && !has_ended(&mut probe_ends));
}

#[test]
fn an_address_that_has_its_share_gets_no_other_ones_place() {
    let places = Places::new(bounds(10, 2, 5));
    let began = Instant::now();
    let at = |seconds| began + Duration::from_secs(seconds);
    let (_other, mut other_ends) = places.take(address(1), at(0)).expect("a place");
    let (_first, mut first_ends) = places.take(address(2), at(0)).expect("a place");
    let (_second, mut second_ends) = places.take(address(2), at(1)).expect("a place");
    assert!(
        places.take(address(2), at(4)).is_none(),
        "none is quiet for 5 s"
    );
    assert!(places.take(address(2), at(5)).is_some());
    assert!(has_ended(&mut first_ends) && !has_ended(&mut second_ends));
    assert!(!has_ended(&mut other_ends));
}

#[test]
fn nobody_is_taken_while_all_are_busy_and_the_place_of_one_that_ends_is_free() {
    let places = Places::new(bounds(1, 1, 0));
    let (place, _replaced) = places.take(None, Instant::now()).expect("a place");
    let place = Arc::new(place);
    let busy = place.busy(LONG);
    assert!(places.take(None, Instant::now()).is_none());
    drop((busy, place));
    assert!(places.take(None, Instant::now()).is_some());
}

#[test]
fn one_that_is_busy_for_too_long_makes_room() {
    let places = Places::new(bounds(1, 1, 2));
    let began = Instant::now();
    let (place, mut replaced) = places.take(None, began).expect("a place");
    let place = Arc::new(place);
    let _busy = place.busy(Duration::from_secs(5));
    let at = |seconds| began + Duration::from_secs(seconds);
    assert!(places.take(None, at(6)).is_none());
    assert!(!has_ended(&mut replaced));
    assert!(places.take(None, at(8)).is_some());
    assert!(has_ended(&mut replaced));
}

#[test]
fn addresses_of_one_ipv6_network_count_as_one_and_ipv4_ones_written_as_ipv6_do_not() {
    let places = Places::new(bounds(10, 1, 5));
    let now = Instant::now();
    let take = |peer: &str| places.take(Some(peer.parse().expect(peer)), now);
    let _first = take("2001:db8::1").expect("a place");
    assert!(take("2001:db8::ffff:2").is_none());
    let _other = take("2001:db8:0:1::1").expect("another network");
    let _mapped = take("::ffff:10.0.0.1").expect("a place");
    let _mapped = take("::ffff:10.0.0.2").expect("another address");
    assert!(take("10.0.0.1").is_none(), "the same as the mapped one");
}

/// A connection of the model: its address, since when it is quiet, its number.
type Modelled = (u8, Instant, u64);

/// Who makes room, by looking at all of them: `Some(None)` if there is room.
fn leaving(all: &[Modelled], bounds: Bounds, of: u8, now: Instant) -> Option<Option<u64>> {
    let count = |of: u8| all.iter().filter(|(address, ..)| *address == of).count();
    let is_own = count(of) >= bounds.address;
    if all.len() < bounds.all && !is_own {
        return Some(None);
    }
    let quiet = all.iter().filter(|(address, since, _)| {
        (!is_own || *address == of)
            && now
                .checked_duration_since(*since)
                .is_some_and(|quiet| quiet >= bounds.quiet)
    });
    let first = quiet
        .min_by_key(|(address, since, number)| (usize::MAX - count(*address), *since, *number));
    first.map(|(.., number)| Some(*number))
}

#[test]
fn who_makes_room_is_who_does_so_by_looking_at_all_of_them() {
    let bounds = bounds(12, 5, 3);
    let began = Instant::now();
    let mut draw = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |limit: u64| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (draw >> 33) % limit
    };
    let (mut taken, mut all) = (Taken::default(), Vec::<Modelled>::new());
    let mut evicted = 0;
    for step in 0..20_000 {
        let now = began + Duration::from_millis(100 * step);
        let of = below(6) as u8;
        let at = below(all.len().max(1) as u64) as usize;
        match below(8) {
            0 if !all.is_empty() => taken.remove(all.swap_remove(at).2),
            1 if !all.is_empty() => {
                let from = now + Duration::from_secs(below(4));
                taken.begin_busy(all[at].2, from);
                all[at].1 = all[at].1.max(from);
            }
            2 if !all.is_empty() && taken.connections[&all[at].2].busy > 0 => {
                let is_last = taken.connections[&all[at].2].busy == 1;
                taken.end_busy(all[at].2, now);
                all[at].1 = if is_last { now } else { all[at].1 };
            }
            _ => {
                let expected = leaving(&all, bounds, of, now);
                let room = taken.make_room(bounds, address(of), now);
                assert_eq!(room.is_some(), expected.is_some(), "step {step}");
                let Some(leaves) = expected else { continue };
                if let Some(number) = leaves {
                    evicted += 1;
                    assert!(!taken.connections.contains_key(&number), "step {step}");
                    all.retain(|(.., other)| *other != number);
                }
                let number = taken.insert(Connection {
                    address: address(of),
                    quiet_since: now,
                    busy: 0,
                    _stays: oneshot::channel().0,
                });
                all.push((of, now, number));
            }
        }
        assert_eq!(taken.connections.len(), all.len());
    }
    assert!(evicted > 1_000, "{evicted}");
    while let Some((.., number)) = all.pop() {
        taken.remove(number);
    }
    assert!(taken.of_addresses.is_empty() && taken.quietest.is_empty());
}
