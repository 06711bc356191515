//! What requests are carried out by.

use std::sync::Arc;

use helenus_engine::copies::{self, Groups, Lists, Membership, OfTable};
use helenus_policy::ring::NodeIndex;

use super::{Group, Member};
use crate::insync::asked::Owners;
use crate::insync::rings::OwnedOfTables;
use crate::two_clocks::Behind;

impl Member {
    /// The lists by the workers' clock. `me`: this start, once it has a number. A group of ranges of which an owner has
    /// no index is not among them: nobody can write there. Nor is one whose list is about other ranges than its owners
    /// have, or that may have been about others a lease ago.
    pub(in crate::insync) fn in_force(
        &self,
        me: Option<&Arc<copies::Member>>,
        (rings, index_of): (&OwnedOfTables, impl Fn(&[u8; 16]) -> Option<NodeIndex>),
        (now_us, behind): (u64, Behind),
    ) -> Lists {
        let (least_us, most_us) = behind.bounds_us();
        let indices = |owners: &Owners| owners.iter().map(&index_of).collect();
        let mut lists = Lists {
            membership: me.map(|member| Membership {
                member: member.clone(),
                proxies: self.proxies.behind(least_us, most_us),
            }),
            ..Lists::default()
        };
        for (name, groups) in &self.tables {
            let Some(owned) = rings.get(name) else {
                continue;
            };
            let is_of_ring = |(owners, group): &(&Owners, &Group)| {
                let ranges = owned.groups.get(*owners);
                ranges.is_some() && ranges == group.ranges.as_ref() && now_us >= group.settled_us
            };
            let groups: Groups = groups
                .iter()
                .filter(is_of_ring)
                .filter_map(|(owners, group)| {
                    let owners: Option<Box<[NodeIndex]>> = indices(owners);
                    Some((owners?, group.known.behind(least_us, most_us)))
                })
                .collect();
            let (keyspace, table) = name.clone();
            let of_keyspace = lists.tables.entry(keyspace).or_default();
            let ring = owned.ring;
            of_keyspace.insert(table, OfTable { ring, groups });
        }
        lists
    }
}
