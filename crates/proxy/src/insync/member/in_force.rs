//! What requests are carried out by.

use std::sync::Arc;

use helenus_engine::copies::{self, Groups, Lists, Membership};
use helenus_policy::ring::NodeIndex;

use super::Member;
use crate::insync::asked::Owners;
use crate::two_clocks::Behind;

impl Member {
    /// The lists by the workers' clock. `me`: this start, once it has a number. A group of ranges of which an owner has
    /// no index is not among them: nobody can write there.
    pub(in crate::insync) fn in_force(
        &self,
        me: Option<&Arc<copies::Member>>,
        index_of: impl Fn(&[u8; 16]) -> Option<NodeIndex>,
        behind: Behind,
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
        for ((keyspace, table), groups) in &self.tables {
            let groups: Groups = groups
                .iter()
                .filter_map(|(owners, group)| {
                    let owners: Option<Box<[NodeIndex]>> = indices(owners);
                    Some((owners?, group.known.behind(least_us, most_us)))
                })
                .collect();
            let of_keyspace = lists.tables.entry(keyspace.clone()).or_default();
            of_keyspace.insert(table.clone(), groups);
        }
        lists
    }
}
