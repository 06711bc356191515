//! A set of columns of one table.

/// A table's columns that are considered at all, at most.
pub const COLUMNS_MAX: usize = 32;

/// Columns by their number in [`crate::Table`], as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnSet(u32);

impl ColumnSet {
    pub const EMPTY: ColumnSet = ColumnSet(0);

    /// The columns `0..count`.
    pub fn first(count: usize) -> Self {
        (0..count).collect()
    }

    pub fn contains(self, column: usize) -> bool {
        column < COLUMNS_MAX && self.0 & (1 << column) != 0
    }

    /// A column beyond [`COLUMNS_MAX`] is not added.
    #[must_use]
    pub fn with(self, column: usize) -> Self {
        if column < COLUMNS_MAX {
            ColumnSet(self.0 | 1 << column)
        } else {
            self
        }
    }

    #[must_use]
    pub fn union(self, other: ColumnSet) -> Self {
        ColumnSet(self.0 | other.0)
    }

    #[must_use]
    pub fn intersection(self, other: ColumnSet) -> Self {
        ColumnSet(self.0 & other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// In ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let column = rest.trailing_zeros() as usize;
            rest &= rest.checked_sub(1)?;
            Some(column)
        })
    }

    /// All subsets, the empty one and the set itself among them.
    pub fn subsets(self) -> impl Iterator<Item = ColumnSet> {
        let mut next = Some(self.0);
        let all = self.0;
        std::iter::from_fn(move || {
            let subset = next?;
            next = subset.checked_sub(1).map(|below| below & all);
            Some(ColumnSet(subset))
        })
    }
}

impl FromIterator<usize> for ColumnSet {
    fn from_iter<I: IntoIterator<Item = usize>>(columns: I) -> Self {
        columns.into_iter().fold(ColumnSet::EMPTY, ColumnSet::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_iterates_in_order_and_over_all_its_subsets() {
        let set: ColumnSet = [5, 1, 31, 32].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 5, 31]);
        assert_eq!(set.len(), 3);
        let mut subsets: Vec<_> = set.subsets().collect();
        subsets.sort();
        subsets.dedup();
        assert_eq!(subsets.len(), 8);
        assert!(subsets.iter().all(|s| s.union(set) == set));
        assert_eq!(ColumnSet::EMPTY.subsets().count(), 1);
    }
}
