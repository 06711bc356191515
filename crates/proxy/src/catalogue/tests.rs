use helenus_engine::snapshot::Mover;

use super::dictionaries::Dictionaries;
use super::*;
use crate::catalogue::dictionaries::DictionaryKey;

#[test]
fn a_grant_is_blamed_where_it_is_missing_only() {
    let node = |code| {
        ReadError::from(ConnError::Node {
            code,
            message: "no".to_owned(),
        })
    };
    assert!(remedy(&node(code::UNAUTHORIZED)).contains("SELECT"));
    assert_eq!(remedy(&node(code::UNAVAILABLE)), "");
    assert_eq!(remedy(&ReadError::Earlier), "");
}

#[test]
fn tables_are_looked_at_early_only_for_what_may_pass_without_a_change() {
    let looked = Instant::now();
    let at = |seconds| looked + Duration::from_secs(seconds);
    let mut seen = Seen {
        looked: Some(looked),
        ..Seen::default()
    };
    let catalogue = Catalogue::default();
    let is_still = |seen: &Seen, now| seen.is_still(&catalogue, [0; 16], now);
    assert!(is_still(&seen, at(3)));
    assert!(!is_still(&seen, looked + SCHEMA_AGE_MAX));
    assert!(!seen.is_still(&catalogue, [1; 16], at(3)));
    // A complaint that stands until somebody alters a table.
    let known = &mut seen.known;
    known.layouts.problems = vec!["layout a is not read: another TTL".to_owned()];
    known.encodings.problems = vec!["the codec is unknown".to_owned()];
    assert!(is_still(&seen, at(3)));
    let damaged = DictionaryKey {
        keyspace: "shop".to_owned(),
        table: "users".to_owned(),
        id: 1,
    };
    let mut dictionaries = Dictionaries::default();
    dictionaries.put(damaged, None);
    seen.looked_up.dictionaries = Some(dictionaries);
    assert!(!is_still(&seen, at(3)), "it may have been restored");
}

#[test]
fn nodes_that_may_have_replaced_others_are_asked_and_count_once() {
    let address = |number: u8| SocketAddr::from(([10, 0, 0, number], 9042));
    let joins = |number: u8| Mover {
        host_id: [number; 16],
        address: address(number),
    };
    let snapshot = |owners| {
        let joining = vec![joins(2), joins(3)];
        Snapshot::builder().joining(joining, owners).build()
    };
    let (asked, owners) = voters(&snapshot(1), vec![address(1)]);
    assert_eq!((asked, owners), ([1, 2, 3].map(address).to_vec(), 2));
    // The replacement has the address of what it replaces.
    let (asked, owners) = voters(&snapshot(0), [1, 2, 3].map(address).to_vec());
    assert_eq!((asked.len(), owners), (3, 3));
}
