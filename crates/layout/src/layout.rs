//! A clustering order, and all of them.

/// Clustering columns that may change places, at most: 8! = 40,320 orders can be looked at one by
/// one. A table with more keeps the others behind these, in its own order.
pub const PERMUTED_MAX: usize = 8;

/// The clustering columns of a table in the order in which a copy sorts its rows. Column numbers are
/// places in the table's own order, so the table's own layout is 0, 1, 2 and so on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layout(Box<[u8]>);

impl Layout {
    /// The table's own order.
    pub fn own(columns: usize) -> Self {
        Layout((0..columns).map(|column| column as u8).collect())
    }

    /// None if the columns are not a permutation of `0..columns.len()`.
    pub fn new(columns: &[usize]) -> Option<Self> {
        let set: crate::ColumnSet = columns.iter().copied().collect();
        let all = crate::ColumnSet::first(columns.len());
        let whole = set == all && columns.len() <= crate::COLUMNS_MAX;
        whole.then(|| Layout(columns.iter().map(|column| *column as u8).collect()))
    }

    pub fn columns(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|column| usize::from(*column))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All orders of a table with `columns` clustering columns in which those of `permuted` come
    /// first, in any order, and the others behind them. The table's own order comes first if
    /// `permuted` are its first columns. Of `permuted`, only the first [`PERMUTED_MAX`] count.
    pub fn all(columns: usize, permuted: &[usize]) -> Vec<Layout> {
        let mut head: Vec<u8> = Vec::new();
        for column in permuted.iter().take(PERMUTED_MAX) {
            let column = *column as u8;
            if usize::from(column) < columns && !head.contains(&column) {
                head.push(column);
            }
        }
        head.sort_unstable();
        let all = (0..columns).map(|column| column as u8);
        let tail: Vec<u8> = all.filter(|column| !head.contains(column)).collect();
        let mut layouts = Vec::new();
        loop {
            layouts.push(Layout(head.iter().chain(&tail).copied().collect()));
            if !next_permutation(&mut head) {
                return layouts;
            }
        }
    }

    /// Exchanges the columns at two places.
    pub fn swap(&mut self, a: usize, b: usize) {
        if a < self.0.len() && b < self.0.len() {
            self.0.swap(a, b);
        }
    }
}

/// The next one in lexicographic order; false after the last.
fn next_permutation(items: &mut [u8]) -> bool {
    let Some(pivot) = items.windows(2).rposition(|pair| pair[0] < pair[1]) else {
        return false;
    };
    let after = items.iter().rposition(|item| *item > items[pivot]);
    if let Some(after) = after {
        items.swap(pivot, after);
    }
    items[pivot + 1..].reverse();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_comes_once() {
        let mut all = Layout::all(4, &[0, 1, 2, 3]);
        assert_eq!(all[0], Layout::own(4));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 24);
        assert_eq!(Layout::all(8, &[0, 1, 2, 3, 4, 5, 6, 7]).len(), 40_320);
        assert_eq!(Layout::all(0, &[]).len(), 1);
    }

    #[test]
    fn columns_that_are_not_permuted_stay_behind_in_their_own_order() {
        let all = Layout::all(5, &[3, 1]);
        let lists: Vec<Vec<usize>> = all.iter().map(|l| l.columns().collect()).collect();
        assert_eq!(lists, [[1, 3, 0, 2, 4], [3, 1, 0, 2, 4]]);
    }

    #[test]
    fn only_permutations_are_layouts() {
        assert!(Layout::new(&[2, 0, 1]).is_some());
        assert!(Layout::new(&[2, 0, 2]).is_none());
        assert!(Layout::new(&[3, 0, 1]).is_none());
    }
}
