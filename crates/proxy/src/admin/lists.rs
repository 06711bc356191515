//! The lists of copies in sync and of proxies as this proxy knows them, as JSON.

use helenus_layout::insync::{Join, JoinStep, Known, LISTED_MAX, List, TABLE};
use serde::Serialize;

use crate::insync::UpkeepStatus;
use crate::lists::{CopiesOf, Lists};
use crate::uuid;

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct ListsView {
    /// This proxy's number; null while it is not in the list.
    number: Option<usize>,
    /// This proxy's: `in sync`, `joining`, `out`.
    state: &'static str,
    /// For how long the list of proxies may still be relied on; 0: not.
    lease_ms: u64,
    version: Option<u64>,
    proxies: Vec<ProxyView>,
    copies: Vec<CopiesView>,
    /// Buckets in which proxies had recorded intents when this one joined.
    intents: usize,
    /// What is done about copies that are out of sync, and what proxies that are gone have left.
    upkeep: UpkeepStatus,
    /// Why lists are not believed.
    problems: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize)]
struct ProxyView {
    number: usize,
    address: String,
    state: &'static str,
    since_version: u64,
}

#[derive(Debug, PartialEq, Serialize)]
struct CopiesView {
    keyspace: String,
    table: String,
    version: Option<u64>,
    lease_ms: u64,
    copies: Vec<CopyView>,
    /// The table itself, if it is, or was, in the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    table_itself: Option<TableView>,
}

#[derive(Debug, PartialEq, Serialize)]
struct TableView {
    state: &'static str,
    since_version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'static str>,
}

#[derive(Debug, PartialEq, Serialize)]
struct CopyView {
    number: usize,
    host_id: String,
    state: &'static str,
    since_version: u64,
    /// Of one that is joining: `wait`, until all proxies wait for it; `compare`.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'static str>,
}

/// `None` if this proxy takes no part.
pub(super) fn view(lists: &Lists, upkeep: &UpkeepStatus, now_us: u64) -> Option<ListsView> {
    let known = lists.proxies.as_ref()?;
    let list = known.last_read();
    let state = |number| list.map_or("out", |list| list.state(number).name());
    let proxy = |(number, address): &(usize, String)| ProxyView {
        number: *number,
        address: address.clone(),
        state: state(*number),
        since_version: list.map_or(0, |list| list.since(*number)),
    };
    Some(ListsView {
        number: lists.me,
        state: lists.me.map_or("out", state),
        lease_ms: known.lease_left_us(now_us) / 1_000,
        version: list.map(|list| list.version()),
        proxies: lists.addresses.iter().map(proxy).collect(),
        copies: lists.copies.iter().map(|of| copies(of, now_us)).collect(),
        intents: lists.intents.len(),
        upkeep: upkeep.clone(),
        problems: lists.problems.clone(),
    })
}

fn copies(of: &CopiesOf, now_us: u64) -> CopiesView {
    let list = of.known.last_read();
    let of_join = |member: usize| {
        let join = of.joins.iter().find(|join| join.member() == member);
        join.and_then(|join| next(join, &of.known, now_us))
    };
    let copy = |(number, owner): (usize, &[u8; 16])| CopyView {
        number,
        host_id: uuid::text(*owner),
        state: list.map_or("out", |list| list.state(number).name()),
        since_version: list.map_or(0, |list| list.since(number)),
        next: of_join(number),
    };
    let table = |list: &List<LISTED_MAX>| TableView {
        state: list.state(TABLE).name(),
        since_version: list.since(TABLE),
        next: of_join(TABLE),
    };
    CopiesView {
        keyspace: of.keyspace.clone(),
        table: of.table.clone(),
        version: list.map(|list| list.version()),
        lease_ms: of.known.lease_left_us(now_us) / 1_000,
        copies: of.owners.iter().enumerate().map(copy).collect(),
        table_itself: list.filter(|list| list.since(TABLE) > 0).map(table),
    }
}

fn next<const N: usize>(join: &Join, known: &Known<N>, now_us: u64) -> Option<&'static str> {
    match join.next(known, now_us) {
        JoinStep::Wait => Some("wait"),
        JoinStep::Compare => Some("compare"),
        JoinStep::Promote | JoinStep::Over => None,
    }
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{Copies, LISTED_MAX, Members, PROXIES_MAX, Proxies, Timing};

    use super::*;

    const TIMING: Timing = Timing {
        lease_us: 1_000_000,
        drift_ppm: 0,
        late_us: 0,
        patience_us: 0,
    };

    #[test]
    fn who_takes_no_part_shows_nothing() {
        assert_eq!(view(&Lists::default(), &UpkeepStatus::default(), 0), None);
    }

    #[test]
    fn states_leases_and_what_a_newcomer_waits_for_are_shown() {
        let three = Copies::new(Members::first(2), [1; LISTED_MAX]);
        let joining = three.evict(1).and_then(|list| list.join(1, 2));
        let mut known = Known::new(TIMING);
        known.adopt(joining.expect("it joins"), 0, 0);
        let mut proxies = Known::new(TIMING);
        let list = Proxies::new(Members::first(1), [0; PROXIES_MAX]);
        proxies.adopt(list, 500_000, 500_000);
        let lists = Lists {
            me: Some(0),
            proxies: Some(proxies),
            addresses: vec![(0, "10.0.0.1:9042".to_owned())],
            copies: vec![CopiesOf {
                keyspace: "shop".to_owned(),
                table: "orders".to_owned(),
                owners: vec![[1; 16], [2; 16]],
                ranges: None,
                joins: Join::begin(&known, 1, 0).into_iter().collect(),
                known: known.clone(),
            }],
            ..Lists::default()
        };
        let shown = view(&lists, &UpkeepStatus::default(), 600_000).expect("it takes part");
        assert_eq!(
            (shown.number, shown.state, shown.lease_ms),
            (Some(0), "in sync", 900)
        );
        assert_eq!(shown.proxies[0].since_version, 1);
        let copies = &shown.copies[0];
        assert_eq!((copies.version, copies.lease_ms), (Some(3), 400));
        let told: Vec<_> = copies.copies.iter().map(|c| (c.state, c.next)).collect();
        assert_eq!(told, [("in sync", None), ("joining", Some("wait"))]);
        known.adopt(joining.expect("it joins"), 1_000_000, 1_000_000);
        let lists = Lists {
            copies: vec![CopiesOf {
                known,
                ..lists.copies[0].clone()
            }],
            ..lists
        };
        let shown = view(&lists, &UpkeepStatus::default(), 1_600_000).expect("it takes part");
        assert_eq!(shown.lease_ms, 0);
        assert_eq!(shown.copies[0].copies[1].next, Some("compare"));
    }
}
