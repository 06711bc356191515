//! What others may look at.

use super::Member;
use crate::insync::asked::Start;
use crate::lists::{CopiesOf, Lists};

impl Member {
    pub(in crate::insync) fn published(&self) -> Lists {
        let tables = self.tables.iter();
        let tables = tables.filter(|(name, _)| !self.announced.contains(*name));
        let copies = tables.flat_map(|((keyspace, table), groups)| {
            groups.iter().map(|(owners, group)| CopiesOf {
                keyspace: keyspace.clone(),
                table: table.clone(),
                owners: owners.clone(),
                ranges: group.ranges.clone(),
                known: group.known.clone(),
                joins: group.joins.clone(),
            })
        });
        let number = |start: Start| {
            let row = self.rows.iter().find(|row| row.start == start)?;
            usize::try_from(row.number).ok()
        };
        let left = self.intents.iter().flat_map(|(_, left)| left);
        Lists {
            me: self.number(),
            proxies: Some(self.proxies.clone()),
            addresses: self
                .rows
                .iter()
                .filter_map(|row| Some((number(row.start)?, row.address.clone())))
                .collect(),
            copies: copies.collect(),
            intents: left
                .filter_map(|(start, bucket)| Some((number(*start)?, *bucket)))
                .collect(),
            problems: self
                .problems
                .iter()
                .map(|(list, why)| format!("{} is not believed: {why}", list.described()))
                .collect(),
        }
    }
}
