use std::sync::Arc;

use helenus_catalogue::DICTIONARIES_MAX;
use helenus_payload::DictionaryId;

use super::*;

#[test]
fn texts_are_a_problem_only_where_nobody_reads_them() {
    let name: TableName = "shop.users".parse().expect("a name");
    let mut entry = entry::announced("profile", "profile__encoded");
    for written in Written::ALL {
        entry.state = written.name().to_owned();
        assert_eq!(unseen(&name, &entry, 0), None);
        let is_problem = unseen(&name, &entry, 3).is_some_and(|told| told.starts_with("3 rows"));
        assert_eq!(is_problem, written == Written::EncodedOnly);
    }
}

#[test]
fn as_many_dictionaries_as_there_may_be_are_nothing_wrong() {
    let name: TableName = "shop.users".parse().expect("a name");
    let mut entry = entry::announced("profile", "profile__encoded");
    entry.codec = "cbor".to_owned();
    let learned = Arc::new(helenus_payload::learn([]));
    let ids = (1..=DICTIONARIES_MAX as u32).map(DictionaryId);
    let dictionaries = Dictionaries {
        known: ids.map(|id| (id, learned.clone())).collect(),
        ..Dictionaries::default()
    };
    let mut found = Found::of(&entry);
    found.note_dictionaries(&name, &dictionaries);
    assert!(!found.is_wrong(), "{:?}", found.problems);
    assert_eq!(found.notices.len(), 1);
    let json = as_json(&name, &[found]);
    let notice = json["columns"][0]["notices"][0].as_str();
    assert!(notice.is_some_and(|told| told.contains("64 dictionaries")));
}

#[test]
fn what_is_under_way_says_how_it_goes_on() {
    let name: TableName = "shop.users".parse().expect("a name");
    let mut entry = entry::announced("profile", "profile__encoded");
    entry.codec = "shape".to_owned();
    let next = advice(&name, &entry).expect("it is under way");
    assert!(next.contains("payload enable shop.users profile --codec shape"));
    entry.state = Written::EncodedOnly.name().to_owned();
    assert_eq!(advice(&name, &entry), None);
    let back = entry::begun_anew(&entry, Form::Text);
    let next = advice(&name, &back).expect("it is under way");
    assert!(next.contains("payload disable shop.users profile"));
}
