//! Rows, and pages of them.

use helenus_wire::{Options, PageStart, code};

use super::served::{Served, error, result};
use super::{Cluster, token_of};
use crate::chaos::cql::{self, Metadata};

impl Cluster {
    pub(in crate::chaos) fn keys_in(
        &self,
        above: i64,
        up_to: i64,
    ) -> impl Iterator<Item = (i64, i64)> + '_ {
        let above = match above {
            i64::MIN => std::ops::Bound::Unbounded,
            above => std::ops::Bound::Excluded(above),
        };
        let empty = matches!(above, std::ops::Bound::Excluded(above) if above >= up_to);
        let range = self
            .by_token
            .range((above, std::ops::Bound::Included(up_to)));
        let range = range.map(|(token, key)| (*token, *key));
        range.take(if empty { 0 } else { usize::MAX })
    }

    pub(in crate::chaos) fn page(
        &self,
        text: &str,
        mut above: i64,
        up_to: i64,
        options: &Options<'_>,
        metadata: &Metadata,
        columns: &[(&'static str, u16)],
    ) -> Served {
        let mut remaining = cql::limit(text).unwrap_or(i32::MAX as u32);
        if let Some(state) = options.paging_state {
            let Ok(start) = PageStart::parse(state) else {
                return error(code::PROTOCOL, &[]);
            };
            let key = i64::from_be_bytes(start.key.try_into().expect("a key"));
            above = above.max(token_of(key));
            remaining = start.remaining;
        }
        let size = options.page_size.filter(|size| *size > 0);
        let size = size.map_or(usize::MAX, |size| size as usize);
        let size = size.min(remaining as usize);
        let keys = self.keys_in(above, up_to).map(|(_, key)| key);
        let mut keys = keys.filter(|key| cql::returns(text, *key));
        let page: Vec<i64> = keys.by_ref().take(size).collect();
        // A node that filters does not look behind the last row.
        let goes_on = cql::filters(text) || keys.next().is_some();
        let more = page.len() == size && goes_on && size < remaining as usize;
        let rows: Vec<Vec<Vec<u8>>> = page
            .iter()
            .map(|key| row(columns, *key, self.newest(*key)))
            .collect();
        let last = page.last().map(|key| key.to_be_bytes()).unwrap_or_default();
        let remaining = remaining.saturating_sub(page.len() as u32);
        let state = more.then(|| PageStart::behind_partition(&last, remaining).write());
        result(cql::rows(text, columns, &rows, state.as_deref(), metadata))
    }

    pub(in crate::chaos) fn newest(&self, key: i64) -> i64 {
        let cells = self.nodes.iter().filter_map(|node| node.cells.get(&key));
        cells.max().map_or(0, |cell| cell.value)
    }
}

/// The cells of a row, in the order of its columns.
pub(in crate::chaos) fn row(columns: &[(&'static str, u16)], key: i64, value: i64) -> Vec<Vec<u8>> {
    let cell = |(name, _): &(&str, u16)| {
        let cell = match *name {
            "k" => key,
            "v" => value,
            name => cql::added_value(key, name).unwrap_or(value),
        };
        cell.to_be_bytes().to_vec()
    };
    columns.iter().map(cell).collect()
}
