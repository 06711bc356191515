//! What a SELECT of one partition gives, on a table in one clustering order.

use std::cmp::Ordering;

use super::{Order, Partition, Row};

/// A SELECT behind its columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::chaos) struct Select {
    /// It counts rows in place of giving them.
    pub counts: bool,
    /// What a clustering column must equal, by place in the table's own order.
    pub equal: [Option<i64>; 3],
    /// What it must not be below.
    pub least: [Option<i64>; 3],
    /// Columns of ORDER BY, and whether each is to descend.
    pub order_by: Vec<(usize, bool)>,
    pub limit: Option<u32>,
    pub filters: bool,
}

/// Rows with their values, and whether more may follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::chaos) struct Page {
    pub rows: Vec<(Row, i64)>,
    pub more: bool,
}

impl Select {
    pub(in crate::chaos) fn matches(&self, row: &Row) -> bool {
        let mut equal = self.equal.iter().zip(row);
        let mut least = self.least.iter().zip(row);
        equal.all(|(want, has)| want.is_none_or(|want| want == *has))
            && least.all(|(want, has)| want.is_none_or(|want| want <= *has))
    }

    /// Whether the rows come backwards; an error where the table cannot give this order at all.
    fn is_reversed(&self, order: &Order) -> Result<bool, &'static str> {
        let free = order.columns.iter().filter(|at| self.equal[**at].is_none());
        let mut free = free.copied();
        let mut reversed = None;
        for (at, descends) in &self.order_by {
            // What is bound has no order.
            if self.equal[*at].is_some() {
                continue;
            }
            if free.next() != Some(*at) {
                return Err("ORDER BY is only supported in the order of the clustering columns");
            }
            let reverses = *descends != order.descending[*at];
            if *reversed.get_or_insert(reverses) != reverses {
                return Err("Unsupported order by relation");
            }
        }
        Ok(reversed.unwrap_or(false))
    }

    /// Whether a table takes it: without ALLOW FILTERING only what is one slice of it.
    ///
    /// # Errors
    /// Why not, as a node says it.
    pub(in crate::chaos) fn check(&self, order: &Order) -> Result<(), &'static str> {
        self.is_reversed(order)?;
        // Behind the first column that is not bound by =, which may have a range, nothing is restricted.
        let mut behind = order
            .columns
            .iter()
            .skip_while(|at| self.equal[**at].is_some());
        behind.next();
        let in_slice = behind.all(|at| self.equal[*at].is_none() && self.least[*at].is_none());
        match in_slice || self.filters {
            true => Ok(()),
            false => Err("use ALLOW FILTERING"),
        }
    }

    /// In which order two rows come.
    pub(in crate::chaos) fn compare(&self, order: &Order, one: &Row, other: &Row) -> Ordering {
        match self.is_reversed(order) {
            Ok(true) => order.compare(other, one),
            _ => order.compare(one, other),
        }
    }

    /// So many rows behind one of them.
    pub(in crate::chaos) fn page(
        &self,
        order: &Order,
        partition: &Partition,
        after: Option<Row>,
        size: usize,
    ) -> Page {
        let is_behind = |row: &Row| {
            after.is_none_or(|after| self.compare(order, row, &after) == Ordering::Greater)
        };
        let mut rows: Vec<(Row, i64)> = partition
            .live()
            .filter(|(row, _)| self.matches(row) && is_behind(row))
            .collect();
        rows.sort_unstable_by(|(one, _), (other, _)| self.compare(order, one, other));
        let more = rows.len() > size;
        rows.truncate(size);
        Page { rows, more }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Change, all_rows};
    use super::*;

    const OWN: Order = Order {
        columns: [0, 1, 2],
        descending: [false; 3],
    };
    const LAYOUT: Order = Order {
        columns: [2, 0, 1],
        descending: [false; 3],
    };

    fn of_c() -> Select {
        Select {
            equal: [None, None, Some(1)],
            ..Select::default()
        }
    }

    #[test]
    fn filtering_is_asked_for_where_it_is_no_slice() {
        assert!(of_c().check(&OWN).is_err());
        assert!(of_c().check(&LAYOUT).is_ok());
        let range = Select {
            least: [Some(1), None, None],
            ..Select::default()
        };
        assert!(range.check(&OWN).is_ok());
        assert!(range.check(&LAYOUT).is_err());
        let both = Select {
            least: [Some(1), None, None],
            ..of_c()
        };
        assert!(both.check(&LAYOUT).is_ok());
        assert!(both.check(&OWN).is_err());
        let filters = Select {
            filters: true,
            ..both
        };
        assert!(filters.check(&OWN).is_ok());
    }

    #[test]
    fn an_order_must_be_that_of_the_columns_which_are_not_bound() {
        let by = |order_by: &[(usize, bool)]| Select {
            order_by: order_by.to_vec(),
            filters: true,
            ..of_c()
        };
        assert!(by(&[(0, true)]).check(&LAYOUT).is_ok());
        assert!(by(&[(0, true), (1, true)]).check(&OWN).is_ok());
        assert!(
            by(&[(2, true), (0, true)]).check(&OWN).is_ok(),
            "c is bound"
        );
        assert!(by(&[(0, true), (1, false)]).check(&OWN).is_err());
        assert!(by(&[(1, true)]).check(&OWN).is_err());
    }

    #[test]
    fn a_layout_gives_what_the_table_gives() {
        let mut partition = Partition::default();
        for (at, row) in all_rows().enumerate() {
            partition.apply(&Change::Put(row, at as i64), 1);
        }
        for order_by in [vec![], vec![(0, true)]] {
            let select = Select {
                order_by,
                filters: true,
                ..of_c()
            };
            let mut after = None;
            let mut found = Vec::new();
            loop {
                let page = select.page(&LAYOUT, &partition, after, 2);
                assert_eq!(page, select.page(&OWN, &partition, after, 2));
                found.extend(page.rows);
                after = found.last().map(|(row, _)| *row);
                if !page.more {
                    break;
                }
            }
            assert_eq!(found, select.page(&OWN, &partition, None, 100).rows);
            assert_eq!(found.len(), 9);
        }
    }
}
