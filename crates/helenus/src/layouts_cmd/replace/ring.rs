//! The lists of copies beside the ring: which parts of it have other owners than when their lists were made.

use std::collections::BTreeMap;
use std::fmt::Display;

use anyhow::{Result, bail};
use helenus_layout::insync::{self, OldGroup, Owners, Ranges, Regrouping, Stuck};
use helenus_rows::TableName;

use super::super::catalogue::{Entry, Partition};
use super::super::lists::CopiesRow;
use super::nodes::{self, Groups};
use crate::online::cluster::Cluster;

/// Fails if lists are about other ranges than nodes own by now: what they say is not so of these.
pub(super) async fn check(
    cluster: &Cluster,
    (name, known): (&TableName, &Partition),
    lists: &[CopiesRow],
) -> Result<()> {
    let groups = groups(cluster, (name, &known.entries)).await?;
    check_told(name, lists)?;
    match without_list(&groups, lists) {
        0 => Ok(()),
        count => bail!(
            "{count} groups of ranges of {name} have new owners, or no list: wait until the proxies have made the lists \
             (helenus layouts status {name})"
        ),
    }
}

/// Whether all that nodes own by now has a list that is about it. Fails while one does not answer, or they do not agree.
pub(super) async fn is_whole(
    cluster: &Cluster,
    (name, entries): (&TableName, &[Entry]),
    lists: &[CopiesRow],
) -> Result<bool> {
    let groups = groups(cluster, (name, entries)).await?;
    Ok(without_list(&groups, lists) == 0 && groups.len() == lists.len())
}

/// A number for who owns what: that of other owners, or other ranges, is another one.
pub(super) fn number(groups: &Groups) -> i64 {
    let text = groups.iter().map(|(owners, ranges)| {
        let ranges = ranges
            .stored()
            .iter()
            .map(i64::to_string)
            .collect::<Vec<_>>();
        format!("{}: {};", owners.join(","), ranges.join(","))
    });
    // FNV-1a: it is kept in the catalogue.
    let hash = text
        .flat_map(String::into_bytes)
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    hash.cast_signed()
}

/// That of what lists are about; none if one does not tell it.
pub(super) fn number_of(lists: &[CopiesRow]) -> Option<i64> {
    let groups = lists
        .iter()
        .map(|row| Some((row.owners.clone(), row.ranges.clone()?)));
    groups.collect::<Option<Groups>>().as_ref().map(number)
}

/// Fails if a list does not tell of which ranges it is: proxies make none from it.
fn check_told(name: &TableName, lists: &[CopiesRow]) -> Result<()> {
    match lists.iter().find(|row| row.ranges.is_none()) {
        None => Ok(()),
        Some(row) => bail!("{}", untold(name, row)),
    }
}

fn untold(name: impl Display, row: &CopiesRow) -> String {
    format!(
        "the list of the copies on {} does not tell of which ranges it is: it was made by hand, or by an earlier version, \
         and nobody uses it. Take a copy that was in sync: helenus layouts drop {name} --all --from LAYOUT",
        row.owners.join(", ")
    )
}

/// What is wrong with the lists for the ring as it is; nothing as long as nodes do not agree on it.
pub(super) async fn problems(
    cluster: &Cluster,
    name: &TableName,
    (partition, lists): (&Partition, &[CopiesRow]),
) -> Vec<String> {
    match groups(cluster, (name, &partition.entries)).await {
        Ok(groups) => told(&groups, lists),
        Err(_) => Vec::new(),
    }
}

async fn groups(cluster: &Cluster, (name, entries): (&TableName, &[Entry])) -> Result<Groups> {
    let data_centers = super::data_centers(cluster, name, entries).await?;
    nodes::groups(&nodes::read(cluster).await?, &data_centers)
}

/// How many groups of ranges have no list that is about them.
fn without_list(groups: &Groups, lists: &[CopiesRow]) -> usize {
    let has_list = |(owners, ranges): &(&Vec<String>, &Ranges)| {
        let mut of = lists.iter().filter(|row| row.owners == **owners);
        of.any(|row| row.ranges.as_ref() == Some(*ranges))
    };
    groups.iter().filter(|group| !has_list(group)).count()
}

fn told(groups: &Groups, lists: &[CopiesRow]) -> Vec<String> {
    let count = without_list(groups, lists);
    if count == 0 {
        return Vec::new();
    }
    let unknown = lists.iter().filter(|row| row.ranges.is_none());
    let mut told: Vec<String> = unknown.map(|row| untold(&row.table, row)).collect();
    let Some(regrouping) = regrouping(groups, lists) else {
        told.push(format!(
            "there is no list of the copies of {count} groups of ranges: clients cannot use these parts of the ring"
        ));
        return told;
    };
    told.extend(regrouping.stuck.iter().map(told_of));
    if regrouping.stuck.is_empty() {
        told.push(format!(
            "{count} groups of ranges have new owners; the proxies make their lists"
        ));
    }
    told
}

/// What proxies would do. None if there are no lists, or one cannot be so.
fn regrouping(groups: &Groups, lists: &[CopiesRow]) -> Option<Regrouping> {
    let old = lists.iter().map(|row| {
        let owners: Option<Owners> = row.owners.iter().map(|owner| host(owner)).collect();
        Some(OldGroup {
            left_ms: vec![None; row.owners.len()],
            owners: owners?,
            ranges: row.ranges.clone()?,
            list: *row.list.as_ref().ok()?,
        })
    });
    let old = old.collect::<Option<Vec<OldGroup>>>()?;
    let now = groups.iter().map(|(owners, ranges)| {
        let owners: Option<Owners> = owners.iter().map(|owner| host(owner)).collect();
        Some((owners?, ranges.clone()))
    });
    let now = now.collect::<Option<BTreeMap<Owners, Ranges>>>()?;
    (!old.is_empty()).then(|| insync::regroup(&old, &now, 0))
}

fn told_of(stuck: &Stuck) -> String {
    match stuck {
        Stuck::NoneInSync(owners) => format!(
            "no copy of the ranges that {} own by now is in sync on the node that had it before: clients cannot use them \
             until the change of the ring is undone",
            named(owners)
        ),
        Stuck::NoList(owners) => format!(
            "there is no list of the copies on {}, which own a part of the ring: clients cannot use it",
            named(owners)
        ),
        Stuck::NoOwner(owners) => format!(
            "nobody owns a part of the ring that {} owned",
            named(owners)
        ),
        Stuck::Twice(one, other) => format!(
            "the lists of the copies on {} and on {} are about the same ranges",
            named(one),
            named(other)
        ),
    }
}

fn named(owners: &Owners) -> String {
    let text = |owner: &[u8; 16]| {
        let hex = format!("{:032x}", u128::from_be_bytes(*owner));
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
        parts.map(|part| hex[part].to_owned()).join("-")
    };
    let owners: Vec<String> = owners.iter().map(text).collect();
    owners.join(", ")
}

/// A host id.
fn host(text: &str) -> Option<[u8; 16]> {
    let hex = text.replace('-', "");
    let number = u128::from_str_radix(&hex, 16).ok()?;
    Some(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{Copies, LISTED_MAX, Members};

    use super::*;

    const OWNERS: [&str; 3] = [
        "11111111-1111-1111-1111-111111111111",
        "22222222-2222-2222-2222-222222222222",
        "33333333-3333-3333-3333-333333333333",
    ];

    fn owners(numbers: [usize; 2]) -> Vec<String> {
        numbers.map(|number| OWNERS[number].to_owned()).to_vec()
    }

    fn row(numbers: [usize; 2], ranges: &[(i64, i64)]) -> CopiesRow {
        CopiesRow {
            table: "shop.orders".to_owned(),
            owners: owners(numbers),
            ranges: Some(Ranges::new(ranges.iter().copied())),
            list: Ok(Copies::new(Members::first(2), [7; LISTED_MAX])),
            changed_ms: None,
        }
    }

    /// Owners with their ranges.
    type Owned<'a> = ([usize; 2], &'a [(i64, i64)]);

    fn ring(groups: &[Owned<'_>]) -> Groups {
        let of =
            |(numbers, ranges): &Owned<'_>| (owners(*numbers), Ranges::new(ranges.iter().copied()));
        groups.iter().map(of).collect()
    }

    #[test]
    fn a_ring_has_another_number_when_a_token_has_another_owner() {
        let lists = [row([0, 1], &[(0, 4)]), row([2, 1], &[(4, 10)])];
        let same = ring(&[([2, 1], &[(4, 10)]), ([0, 1], &[(0, 2), (2, 4)])]);
        assert_eq!(number_of(&lists), Some(number(&same)));
        let moved = ring(&[([0, 1], &[(0, 5)]), ([2, 1], &[(5, 10)])]);
        assert_ne!(number(&moved), number(&same));
        let swapped = ring(&[([2, 1], &[(0, 4)]), ([0, 1], &[(4, 10)])]);
        assert_ne!(number(&swapped), number(&same));
        let mut untold = row([0, 1], &[(0, 4)]);
        untold.ranges = None;
        assert_eq!(number_of(&[untold]), None);
    }

    #[test]
    fn what_the_proxies_do_about_a_changed_ring_is_told_and_what_they_cannot() {
        let lists = [row([0, 1], &[(0, 10)])];
        assert_eq!(
            told(&ring(&[([0, 1], &[(0, 4), (4, 10)])]), &lists),
            [""; 0]
        );
        let joined = ring(&[([0, 1], &[(0, 4)]), ([2, 1], &[(4, 10)])]);
        assert_eq!(
            told(&joined, &lists),
            ["2 groups of ranges have new owners; the proxies make their lists"]
        );
        let replaced = ring(&[([2, 1], &[(0, 10)])]);
        assert_eq!(without_list(&replaced, &lists), 1);
        let mut alone = row([0, 1], &[(0, 10)]);
        alone.list = alone
            .list
            .map(|list| list.evict(1).expect("another is in sync"));
        let why = told(&replaced, &[alone]);
        assert!(why.len() == 1 && why[0].contains(OWNERS[2]), "{why:?}");
        assert!(why[0].contains("undone"), "{why:?}");
        // Of some there never was a list.
        let why = told(&ring(&[([0, 1], &[(0, 12)])]), &lists);
        assert!(
            why[0].starts_with("there is no list of the copies on 1111"),
            "{why:?}"
        );
        let why = told(&replaced, &[]);
        assert!(
            why[0].starts_with("there is no list of the copies of 1 group"),
            "{why:?}"
        );
        let mut untold = row([0, 1], &[(0, 10)]);
        untold.ranges = None;
        let untold = [untold];
        let name = "shop.orders".parse().expect("a name");
        assert!(check_told(&name, &untold).is_err());
        check_told(&name, &lists).expect("ranges are told");
        let why = told(&ring(&[([0, 1], &[(0, 10)])]), &untold);
        assert_eq!(why.len(), 2, "{why:?}");
        let command = "helenus layouts drop shop.orders --all --from LAYOUT";
        assert!(why[0].contains(command), "{why:?}");
    }
}
