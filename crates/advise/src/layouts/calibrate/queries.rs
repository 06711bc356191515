//! The queries that are timed, and what each of them makes a node do.
//!
//! They are chosen so that no kind of work comes with another: slices of few and of many rows, lists of
//! `IN` with one row or a hundred in each slice, narrow rows and rows of a kilobyte, results that come in order
//! and results that are sorted. Those that are held out have other sizes, and forms that the fit does
//! not see.

use helenus_layout::{Storage, Work, comparisons};
use scylla::value::CqlValue;

/// Values of column a in a narrow partition, with [`PER_A`] rows each.
pub(super) const NARROW_A: i32 = 100;
/// Values of column a in a wide partition.
pub(super) const WIDE_A: i32 = 20;
/// Values of column b for each of a.
pub(super) const PER_A: i32 = 100;
/// Distinct values of column c, which filters ask for.
pub(super) const DISTINCT_C: i32 = 50;
/// Of each kind, so that several nodes have some.
pub(super) const PARTITIONS: i32 = 4;
pub(super) const FILLER_BYTES: usize = 1_000;
/// Four numbers of four bytes, and one of eight.
const NARROW_BYTES: f64 = 24.0;

/// How large the rows of a partition are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    Narrow,
    /// With a filler of [`FILLER_BYTES`].
    Wide,
}

impl Rows {
    pub(super) const ALL: [Rows; 2] = [Rows::Narrow, Rows::Wide];

    pub(super) fn distinct_a(self) -> i32 {
        match self {
            Rows::Narrow => NARROW_A,
            Rows::Wide => WIDE_A,
        }
    }

    /// The key of one of the partitions.
    pub(super) fn partition(self, number: i32) -> i32 {
        match self {
            Rows::Narrow => number,
            Rows::Wide => PARTITIONS + number,
        }
    }

    fn storage(self) -> Storage {
        let filler = match self {
            Rows::Narrow => 0.0,
            Rows::Wide => FILLER_BYTES as f64,
        };
        Storage {
            row_bytes: NARROW_BYTES + filler,
            ..Storage::default()
        }
    }

    fn total(self) -> f64 {
        f64::from(PARTITIONS * self.distinct_a() * PER_A)
    }
}

/// The restriction besides the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slice {
    /// One row.
    Row,
    /// So many values of a, next to each other.
    Range(i32),
    /// One value of a, and so many of b: slices of one row.
    Rows(i32),
    /// So many values of a: slices of a hundred rows.
    Listed(i32),
}

/// The use of the rows that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Summed,
    /// Only one in fifty is summed.
    Filtered,
    Returned,
    /// Returned, and put into another order as a proxy does.
    Sorted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub rows: Rows,
    pub slice: Slice,
    pub answer: Answer,
    pub held_out: bool,
}

/// All of them.
pub(super) fn probes() -> Vec<Probe> {
    use Answer::{Filtered, Returned, Sorted, Summed};
    use Rows::{Narrow, Wide};
    use Slice::{Listed, Range, Row, Rows as RowsOf};
    let fitted: [(Rows, Slice, Answer); 28] = [
        (Narrow, Row, Summed),
        (Narrow, Range(1), Summed),
        (Narrow, Range(3), Summed),
        (Narrow, Range(10), Summed),
        (Narrow, Range(30), Summed),
        (Narrow, Range(100), Summed),
        (Narrow, Range(2), Filtered),
        (Narrow, Range(20), Filtered),
        (Narrow, Range(60), Filtered),
        (Narrow, RowsOf(2), Summed),
        (Narrow, RowsOf(5), Summed),
        (Narrow, RowsOf(10), Summed),
        (Narrow, RowsOf(25), Summed),
        (Narrow, RowsOf(50), Summed),
        (Narrow, Listed(3), Summed),
        (Narrow, Listed(10), Summed),
        (Narrow, Listed(30), Summed),
        (Narrow, Range(1), Returned),
        (Narrow, Range(8), Returned),
        (Narrow, Range(40), Returned),
        (Narrow, Range(2), Sorted),
        (Narrow, Range(12), Sorted),
        (Narrow, Range(40), Sorted),
        (Wide, Row, Summed),
        (Wide, Range(1), Filtered),
        (Wide, Range(4), Filtered),
        (Wide, Range(10), Filtered),
        (Wide, Range(20), Filtered),
    ];
    let held_out: [(Rows, Slice, Answer); 16] = [
        (Narrow, Range(2), Summed),
        (Narrow, Range(5), Summed),
        (Narrow, Range(20), Summed),
        (Narrow, Range(60), Summed),
        (Narrow, Range(7), Filtered),
        (Narrow, Range(100), Filtered),
        (Narrow, RowsOf(4), Summed),
        (Narrow, RowsOf(15), Summed),
        (Narrow, Listed(6), Filtered),
        (Narrow, Listed(20), Filtered),
        (Narrow, Range(4), Returned),
        (Narrow, Range(25), Returned),
        (Narrow, Range(6), Sorted),
        (Narrow, Range(30), Sorted),
        (Wide, Range(2), Summed),
        (Wide, Listed(8), Filtered),
    ];
    let probe = |held_out: bool| {
        move |(rows, slice, answer)| Probe {
            rows,
            slice,
            answer,
            held_out,
        }
    };
    let fitted = fitted.into_iter().map(probe(false));
    fitted
        .chain(held_out.into_iter().map(probe(true)))
        .collect()
}

impl Probe {
    /// Slices, and rows in all of them.
    fn size(&self) -> (f64, f64) {
        let per_a = f64::from(PER_A);
        match self.slice {
            Slice::Row => (1.0, 1.0),
            Slice::Range(count) => (1.0, f64::from(count) * per_a),
            Slice::Rows(count) => (f64::from(count), f64::from(count)),
            Slice::Listed(count) => (f64::from(count), f64::from(count) * per_a),
        }
    }

    pub(super) fn work(&self) -> Work {
        let (slices, rows) = self.size();
        let compared = match self.answer {
            Answer::Sorted => comparisons(rows),
            _ => 0.0,
        };
        let storage = self.rows.storage();
        let kept = match self.answer {
            Answer::Filtered => rows / f64::from(DISTINCT_C),
            Answer::Summed | Answer::Returned | Answer::Sorted => rows,
        };
        Work {
            kept,
            blocks: storage.blocks(slices, rows, self.rows.total()),
            ..Work::new(slices, rows, compared)
        }
    }

    /// The statement, with markers.
    pub(super) fn text(&self, table: &str) -> String {
        let selected = match self.answer {
            Answer::Summed | Answer::Filtered => "sum(v)",
            Answer::Returned | Answer::Sorted => "a, b, c, v",
        };
        let slice = match self.slice {
            Slice::Row => "a = ? AND b = ?",
            Slice::Range(_) => "a >= ? AND a < ?",
            Slice::Rows(_) => "a = ? AND b IN ?",
            Slice::Listed(_) => "a IN ?",
        };
        let filter = match self.answer {
            Answer::Filtered => " AND c = ? ALLOW FILTERING",
            _ => "",
        };
        format!("SELECT {selected} FROM {table} WHERE p = ? AND {slice}{filter}")
    }

    /// Values for the markers, others each time.
    pub(super) fn values(&self, turn: u32) -> Vec<CqlValue> {
        let turn = (turn % 100_000) as i32;
        let distinct_a = self.rows.distinct_a();
        let listed = |count: i32, of: i32| {
            let step = (of / count).max(1);
            let values = (0..count).map(|at| CqlValue::Int((turn * 7 + at * step) % of));
            CqlValue::List(values.collect())
        };
        let mut values = vec![CqlValue::Int(self.rows.partition(turn % PARTITIONS))];
        match self.slice {
            Slice::Row => {
                values.push(CqlValue::Int(turn * 13 % distinct_a));
                values.push(CqlValue::Int(turn * 17 % PER_A));
            }
            Slice::Range(count) => {
                let begin = turn * 13 % (distinct_a - count + 1);
                values.extend([begin, begin + count].map(CqlValue::Int));
            }
            Slice::Rows(count) => {
                values.push(CqlValue::Int(turn * 13 % distinct_a));
                values.push(listed(count, PER_A));
            }
            Slice::Listed(count) => values.push(listed(count, distinct_a)),
        }
        if self.answer == Answer::Filtered {
            values.push(CqlValue::Int(turn % DISTINCT_C));
        }
        values
    }

    /// For people.
    pub(super) fn describe(&self) -> String {
        let (slices, rows) = self.size();
        let rows = match self.rows {
            Rows::Narrow => format!("{rows} rows"),
            Rows::Wide => format!("{rows} wide rows"),
        };
        let slices = match self.slice {
            Slice::Rows(_) | Slice::Listed(_) => format!(" in {slices} slices"),
            Slice::Row | Slice::Range(_) => String::new(),
        };
        let result = match self.answer {
            Answer::Summed => "summed",
            Answer::Filtered => "filtered",
            Answer::Returned => "returned",
            Answer::Sorted => "returned and sorted",
        };
        format!("{rows}{slices}, {result}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use helenus_layout::{Coefficients, Timed, calibrate};

    use super::*;

    #[test]
    fn the_queries_tell_the_coefficients_apart() {
        // Of a typical node, one with slow disks, and one far away.
        let typical = Coefficients::default();
        let disks = Coefficients {
            block_us: 150.0,
            ..typical
        };
        let far = Coefficients {
            request_us: 3_000.0,
            ..typical
        };
        for truth in [typical, disks, far] {
            let timed = probes().into_iter().map(|probe| Timed {
                work: probe.work(),
                times_us: vec![truth.cost_us(&probe.work()); 5],
                held_out: probe.held_out,
            });
            let found = calibrate(&timed.collect::<Vec<_>>()).expect("they differ");
            println!("condition {}", found.condition);
            assert!(found.condition < 20.0, "{found:?}");
            for (found, wanted) in found.coefficients.values().into_iter().zip(truth.values()) {
                assert!(
                    (found / wanted - 1.0).abs() < 1e-6,
                    "{found} is not {wanted}"
                );
            }
        }
    }

    #[test]
    fn what_is_held_out_is_not_fitted_to() {
        let key = |probe: &Probe| (probe.describe(), probe.work().slices as u64);
        let (held_out, fitted): (Vec<Probe>, Vec<Probe>) =
            probes().into_iter().partition(|probe| probe.held_out);
        let fitted: BTreeSet<_> = fitted.iter().map(key).collect();
        assert_eq!(fitted.len(), 28);
        assert!(held_out.iter().all(|probe| !fitted.contains(&key(probe))));
    }

    #[test]
    fn values_are_of_rows_that_exist() {
        let int = |value: &CqlValue| value.as_int().expect("an int");
        for probe in probes() {
            let distinct_a = probe.rows.distinct_a();
            for turn in (0..300).chain([u32::MAX]) {
                let values = probe.values(turn);
                let markers = probe.text("k.t").matches('?').count();
                assert_eq!(values.len(), markers, "{probe:?}");
                let of_kind = probe.rows.partition(0)..probe.rows.partition(PARTITIONS);
                assert!(of_kind.contains(&int(&values[0])), "{probe:?}");
                match (probe.slice, &values[1..]) {
                    (Slice::Range(count), [from, to, ..]) => {
                        assert_eq!(int(to) - int(from), count);
                        assert!(int(from) >= 0 && int(to) <= distinct_a, "{probe:?}");
                    }
                    (Slice::Listed(count), [CqlValue::List(list), ..])
                    | (Slice::Rows(count), [_, CqlValue::List(list), ..]) => {
                        let different: BTreeSet<i32> = list.iter().map(int).collect();
                        assert_eq!(different.len() as i32, count, "{probe:?}");
                        let below = if matches!(probe.slice, Slice::Rows(_)) {
                            PER_A
                        } else {
                            distinct_a
                        };
                        assert!(different.iter().all(|value| (0..below).contains(value)));
                    }
                    (Slice::Row, [a, b, ..]) => {
                        assert!((0..distinct_a).contains(&int(a)) && (0..PER_A).contains(&int(b)));
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}
