//! What clients may see of rows: all that was ever written to a partition, and whether a page fits it.
//!
//! Each partition has one writer, who writes one request after the other. So each row is a regular
//! register: a read gives what the last acknowledged write before it has left, or what one of those that
//! came later has.

use std::collections::BTreeMap;

use crate::chaos::checks::Span;

use super::{Change, Order, Row, Select, all_rows};

/// A write of one partition. It may consist of several changes.
#[derive(Clone, Debug)]
struct Write {
    changes: Vec<Change>,
    timestamp: i64,
    begun_us: u64,
    acknowledged_us: Option<u64>,
}

impl Write {
    /// What a row holds behind it; `None` if it does not touch the row.
    fn leaves(&self, row: &Row) -> Option<Option<i64>> {
        let mut changes = self.changes.iter().rev();
        let change = changes.find(|change| change.touches(row))?;
        Some(change.value())
    }
}

/// A SELECT that its client reads page by page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::chaos) struct Scan {
    pub text: &'static str,
    pub values: Vec<i64>,
    pub partition: i64,
    pub select: Select,
    /// The last row that has come, and how many have.
    pub last: Option<Row>,
    pub seen: u32,
    /// It is read at ONE.
    pub weak: bool,
    /// It is read at SERIAL.
    pub serial: bool,
}

/// Every partition, with all that was ever written to it, in the order in which it was.
#[derive(Debug, Default)]
pub(in crate::chaos) struct Histories {
    partitions: BTreeMap<i64, Vec<Write>>,
}

impl Histories {
    /// A write is about to be sent.
    pub(in crate::chaos) fn begin(&mut self, partition: i64, changes: Vec<Change>, now_us: u64) {
        self.partitions.entry(partition).or_default().push(Write {
            changes,
            timestamp: now_us as i64,
            begun_us: now_us,
            acknowledged_us: None,
        });
    }

    /// Its acknowledgement has come.
    pub(in crate::chaos) fn acknowledge(&mut self, partition: i64, timestamp: i64, now_us: u64) {
        let writes = self.partitions.entry(partition).or_default();
        if let Some(write) = writes.iter_mut().find(|w| w.timestamp == timestamp) {
            write.acknowledged_us = Some(now_us);
        }
    }

    /// Whether nobody was told that a write was done that was made then.
    pub(in crate::chaos) fn is_open(&self, partition: i64, timestamp: i64) -> bool {
        let mut writes = self.partitions.get(&partition).into_iter().flatten();
        writes.any(|write| write.timestamp == timestamp && write.acknowledged_us.is_none())
    }

    /// The newest acknowledged write that touches a row: when it was made.
    pub(in crate::chaos) fn acknowledged(&self, partition: i64, row: &Row) -> Option<i64> {
        let writes = self.partitions.get(&partition)?.iter().rev();
        let mut of_row = writes.filter(|w| w.acknowledged_us.is_some() && w.leaves(row).is_some());
        of_row.next().map(|write| write.timestamp)
    }

    /// The row to which a value was written: no two are alike.
    pub(in crate::chaos) fn row_of(&self, partition: i64, value: i64) -> Option<Row> {
        let writes = self.partitions.get(&partition)?.iter();
        let mut changes = writes.flat_map(|write| &write.changes);
        changes.find_map(|change| match change {
            Change::Put(row, put) if *put == value => Some(*row),
            _ => None,
        })
    }

    /// Whether anybody has ever begun to write a value to a row.
    fn was_written(&self, partition: i64, row: &Row) -> bool {
        let writes = self.partitions.get(&partition).into_iter().flatten();
        let mut changes = writes.flat_map(|write| &write.changes);
        changes.any(|of| of.touches(row) && of.value().is_some())
    }

    /// What a row may hold for a read that begins at one time and ends at another.
    fn allowed(&self, partition: i64, row: &Row, span: Span) -> Vec<Option<i64>> {
        let mut allowed = vec![None];
        let writes = self.partitions.get(&partition);
        for write in writes.into_iter().flatten() {
            let Some(value) = write
                .leaves(row)
                .filter(|_| write.begun_us <= span.ended_us)
            else {
                continue;
            };
            if write.acknowledged_us.is_some_and(|at| at < span.begun_us) {
                allowed.clear();
            }
            allowed.push(value);
        }
        allowed
    }

    /// What a read at ONE may give: anything that was written to the row by its end, or nothing.
    fn may_be(&self, partition: i64, row: &Row, value: Option<i64>, span: Span) -> bool {
        let writes = self.partitions.get(&partition).into_iter().flatten();
        let writes = writes.filter(|write| write.begun_us <= span.ended_us);
        // What one write puts and deletes at once a layout may not have been told to delete.
        let mut changes = writes.flat_map(|write| &write.changes);
        value.is_none() || changes.any(|of| of.touches(row) && of.value() == value)
    }

    /// Judges a row of a read that began at one time and ends at another.
    pub(in crate::chaos) fn judge_row(
        &self,
        partition: i64,
        row: &Row,
        value: Option<i64>,
        span: Span,
    ) -> Result<(), String> {
        let allowed = self.allowed(partition, row, span);
        match allowed.contains(&value) {
            true => Ok(()),
            false => Err(format!(
                "row {row:?} of partition {partition} has {value:?}, and may have {allowed:?}"
            )),
        }
    }

    /// Judges a page. All rows up to its last one have come, and if no page follows, all of them.
    pub(in crate::chaos) fn judge_page(
        &self,
        scan: &mut Scan,
        order: &Order,
        rows: &[(Row, i64)],
        more: bool,
        span: Span,
    ) -> Result<(), String> {
        let before = scan.last;
        for (row, value) in rows {
            if !scan.select.matches(row) {
                return Err(format!("row {row:?} was not asked for"));
            }
            let is_behind = |last: &Row| scan.select.compare(order, row, last).is_gt();
            if !scan.last.as_ref().is_none_or(is_behind) {
                return Err(format!("row {row:?} comes behind {:?}", scan.last));
            }
            match scan.weak {
                true if self.may_be(scan.partition, row, Some(*value), span) => {}
                true => {
                    return Err(format!(
                        "row {row:?} has {value}, which nobody has written to it"
                    ));
                }
                false => self.judge_row(scan.partition, row, Some(*value), span)?,
            }
            scan.last = Some(*row);
            scan.seen += 1;
        }
        let limit = scan.select.limit.unwrap_or(u32::MAX);
        if scan.seen > limit {
            return Err(format!("{} rows of {limit} have come", scan.seen));
        }
        if scan.weak {
            return Ok(());
        }
        let ends = !more && scan.seen < limit;
        let is_passed = |row: &Row| {
            let behind = before.is_none_or(|b| scan.select.compare(order, row, &b).is_gt());
            let passed = |last: Row| scan.select.compare(order, row, &last).is_lt();
            behind && (ends || scan.last.is_some_and(passed))
        };
        let mut missing = all_rows().filter(|row| scan.select.matches(row) && is_passed(row));
        missing.try_for_each(|row| match rows.iter().any(|(of, _)| *of == row) {
            true => Ok(()),
            false => self.judge_row(scan.partition, &row, None, span),
        })
    }

    /// Judges a number of rows.
    pub(in crate::chaos) fn judge_count(
        &self,
        scan: &Scan,
        counted: i64,
        span: Span,
    ) -> Result<(), String> {
        let (mut least, mut most) = (0, 0);
        for row in all_rows().filter(|row| scan.select.matches(row)) {
            let allowed = self.allowed(scan.partition, &row, span);
            least += i64::from(!scan.weak && allowed.iter().all(Option::is_some));
            let may_be = allowed.iter().any(Option::is_some);
            most += i64::from(may_be || scan.weak && self.was_written(scan.partition, &row));
        }
        match (least..=most).contains(&counted) {
            true => Ok(()),
            false => Err(format!("{counted} rows were counted of {least} to {most}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: Order = Order {
        columns: [0, 1, 2],
        descending: [false; 3],
    };

    fn scan(limit: Option<u32>) -> Scan {
        Scan {
            text: "",
            values: Vec::new(),
            partition: 1,
            select: Select {
                equal: [None, None, Some(1)],
                limit,
                ..Select::default()
            },
            last: None,
            seen: 0,
            weak: false,
            serial: false,
        }
    }

    /// Rows 001 and 101 are there, 201 may be.
    fn histories() -> Histories {
        let mut histories = Histories::default();
        for (at, row) in [[0, 0, 1], [1, 0, 1], [2, 0, 1]].into_iter().enumerate() {
            let at = at as u64 + 1;
            histories.begin(1, vec![Change::Put(row, at as i64)], at * 10);
            if at < 3 {
                histories.acknowledge(1, at as i64 * 10, at * 10 + 5);
            }
        }
        histories
    }

    #[test]
    fn pages_have_all_rows_in_order_and_none_twice() {
        let histories = histories();
        let judge = |rows: &[(Row, i64)], more| {
            histories.judge_page(&mut scan(None), &ORDER, rows, more, Span::of(100, 101))
        };
        let (first, second, third) = (([0, 0, 1], 1), ([1, 0, 1], 2), ([2, 0, 1], 3));
        assert_eq!(judge(&[first, second], false), Ok(()));
        assert_eq!(judge(&[first, second, third], false), Ok(()));
        assert_eq!(judge(&[first], true), Ok(()));
        assert!(judge(&[first], false).is_err(), "the second is missing");
        assert!(judge(&[second], true).is_err(), "the first is missing");
        assert!(judge(&[second, first], false).is_err());
        assert!(judge(&[first, first, second], false).is_err());
        assert!(judge(&[first, ([1, 0, 1], 7)], false).is_err(), "of nobody");
        assert!(judge(&[([0, 0, 0], 1)], true).is_err(), "not asked for");
    }

    #[test]
    fn the_next_page_begins_where_the_last_one_ended() {
        let histories = histories();
        let mut scan = scan(None);
        let mut judge = |rows: &[(Row, i64)], more| {
            histories.judge_page(&mut scan, &ORDER, rows, more, Span::of(100, 101))
        };
        assert_eq!(judge(&[([0, 0, 1], 1)], true), Ok(()));
        assert_eq!(judge(&[([1, 0, 1], 2)], true), Ok(()));
        assert_eq!(judge(&[], false), Ok(()));
    }

    #[test]
    fn a_limit_ends_it() {
        let histories = histories();
        let mut some = scan(Some(1));
        let rows = [([0, 0, 1], 1), ([1, 0, 1], 2)];
        let judged = histories.judge_page(&mut some, &ORDER, &rows[..1], false, Span::of(100, 101));
        assert_eq!(judged, Ok(()));
        let mut some = scan(Some(1));
        let judged = histories.judge_page(&mut some, &ORDER, &rows, false, Span::of(100, 101));
        assert!(judged.is_err());
    }

    #[test]
    fn what_was_acknowledged_is_seen_and_what_was_deleted_is_not() {
        let mut histories = histories();
        histories.begin(1, vec![Change::DeletePartition], 200);
        let first = ([0, 0, 1], 1);
        let judge = |histories: &Histories, rows: &[(Row, i64)], span| {
            histories.judge_page(&mut scan(None), &ORDER, rows, false, span)
        };
        assert_eq!(
            judge(&histories, &[first], Span::of(205, 206)),
            Ok(()),
            "under way"
        );
        assert_eq!(judge(&histories, &[], Span::of(205, 206)), Ok(()));
        assert!(
            judge(&histories, &[], Span::of(100, 150)).is_err(),
            "not yet begun"
        );
        assert_eq!(
            histories.judge_count(&scan(None), 0, Span::of(205, 206)),
            Ok(())
        );
        histories.acknowledge(1, 200, 210);
        assert!(judge(&histories, &[first], Span::of(211, 212)).is_err());
        assert_eq!(histories.acknowledged(1, &[2, 2, 2]), Some(200));
        assert_eq!(
            histories.judge_count(&scan(None), 0, Span::of(211, 212)),
            Ok(())
        );
        assert!(
            histories
                .judge_count(&scan(None), 1, Span::of(211, 212))
                .is_err()
        );
    }
}
