//! The orders of TPC-H, in memory, with a partition key.
//!
//! TPC-H's queries on `orders` name no partition, and the paper says nothing of one. Here each clerk works
//! in a branch, and a branch is a partition, so that whoever knows the clerk knows the partition. There are
//! as many branches at each scale factor: partitions grow with the data.

use anyhow::{Context, Result, ensure};
use scylla::value::{CqlDate, CqlDecimal};
use std::collections::BTreeSet;
use std::ops::Range;
use tpchgen::distribution::Distributions;
use tpchgen::generators::OrderGenerator;
use tpchgen::text::TextPool;

/// The clustering columns in the table's declared order: those of the paper, and the order's key, which
/// makes rows unique.
pub const CLUSTERING: [&str; 4] = ["custkey", "orderdate", "clerk", "orderkey"];
pub const PARTITION: &str = "branch";
/// Comments are cut from a text of this size; TPC-H's own has 300 MB, which would only take memory.
const TEXT_BYTES: i32 = 4 << 20;
/// So many rows for a scale factor of 1.
const ROWS: f64 = 1_500_000.0;

#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub branch: i32,
    pub custkey: i32,
    /// Days since 1970-01-01.
    pub orderdate: i32,
    pub clerk: i32,
    pub orderkey: i32,
    pub cents: i64,
    status: &'static str,
    priority: Box<str>,
    shippriority: i32,
    comment: Box<str>,
}

/// All orders of a scale factor, by their keys.
#[derive(Debug)]
pub struct Orders {
    pub rows: Vec<Order>,
    pub branches: i32,
}

impl Orders {
    pub fn generate(scale: f64, branches: i32) -> Result<Self> {
        ensure!(branches > 0, "at least one branch is needed");
        let words = Distributions::static_default();
        let text = TextPool::new(TEXT_BYTES, words);
        let generator =
            OrderGenerator::new_with_distributions_and_text_pool(scale, 1, 1, words, &text);
        let mut rows = Vec::with_capacity((scale * ROWS) as usize);
        for order in generator.iter() {
            let clerk = order.o_clerk.to_string();
            let clerk: i32 = clerk
                .strip_prefix("Clerk#")
                .and_then(|number| number.parse().ok())
                .with_context(|| format!("{clerk:?} is no clerk"))?;
            rows.push(Order {
                branch: clerk % branches,
                custkey: i32::try_from(order.o_custkey)?,
                orderdate: order.o_orderdate.to_unix_epoch(),
                clerk,
                orderkey: i32::try_from(order.o_orderkey)?,
                cents: order.o_totalprice.0,
                status: order.o_orderstatus.as_str(),
                priority: order.o_orderpriority.into(),
                shippriority: order.o_shippriority,
                comment: order.o_comment.into(),
            });
        }
        ensure!(!rows.is_empty(), "a scale factor of {scale} has no orders");
        Ok(Self { rows, branches })
    }

    /// The number of distinct values of each clustering column.
    pub fn distinct(&self) -> [u64; 4] {
        let count = |of: fn(&Order) -> i32| {
            let values: BTreeSet<i32> = self.rows.iter().map(of).collect();
            values.len() as u64
        };
        [
            count(|order| order.custkey),
            count(|order| order.orderdate),
            count(|order| order.clerk),
            self.rows.len() as u64,
        ]
    }

    /// How many of these rows each branch has.
    pub(super) fn counts(&self, rows: Range<usize>) -> Vec<u64> {
        let mut counts = vec![0; self.branches as usize];
        for order in &self.rows[rows] {
            counts[order.branch as usize] += 1;
        }
        counts
    }

    /// These rows in groups of one branch each, of `rows_max` at most.
    pub(super) fn groups(&self, rows: Range<usize>, rows_max: usize) -> Vec<Vec<usize>> {
        let mut open: Vec<Vec<usize>> = vec![Vec::new(); self.branches as usize];
        let mut groups = Vec::new();
        for row in rows {
            let group = &mut open[self.rows[row].branch as usize];
            group.push(row);
            if group.len() >= rows_max {
                groups.push(std::mem::take(group));
            }
        }
        groups.extend(open.into_iter().filter(|group| !group.is_empty()));
        groups
    }
}

/// Values of a table's INSERT, in the order of [`COLUMNS`].
pub(super) type Values<'a> = (
    i32,
    i32,
    CqlDate,
    String,
    i32,
    &'a str,
    CqlDecimal,
    &'a str,
    i32,
    &'a str,
);
pub(super) const COLUMNS: [(&str, &str); 10] = [
    ("branch", "int"),
    ("custkey", "int"),
    ("orderdate", "date"),
    ("clerk", "text"),
    ("orderkey", "int"),
    ("orderstatus", "text"),
    ("totalprice", "decimal"),
    ("orderpriority", "text"),
    ("shippriority", "int"),
    ("comment", "text"),
];

impl Order {
    pub(super) fn values(&self) -> Values<'_> {
        (
            self.branch,
            self.custkey,
            cql_date(self.orderdate),
            clerk_name(self.clerk),
            self.orderkey,
            self.status,
            CqlDecimal::from_signed_be_bytes_slice_and_exponent(&self.cents.to_be_bytes(), 2),
            &self.priority,
            self.shippriority,
            &self.comment,
        )
    }
}

/// As in TPC-H.
pub fn clerk_name(clerk: i32) -> String {
    format!("Clerk#{clerk:09}")
}

/// CQL's `date` counts days with 1970-01-01 at 2³¹.
pub(super) fn cql_date(day: i32) -> CqlDate {
    CqlDate((1u32 << 31).wrapping_add_signed(day))
}

/// A price in cents; None if it is no number of whole cents.
pub(super) fn cents(price: &CqlDecimal) -> Option<i64> {
    let (bytes, scale) = price.as_signed_be_bytes_slice_and_exponent();
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let start = if negative { -1 } else { 0 };
    let fits = bytes.len() <= 8;
    let value = bytes
        .iter()
        .fold(start, |value: i64, byte| value << 8 | i64::from(*byte));
    (scale == 2 && fits).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_survives_its_encoding() {
        for expected in [0, 1, -1, 13_125_181, i64::MAX, i64::MIN] {
            let price =
                CqlDecimal::from_signed_be_bytes_slice_and_exponent(&expected.to_be_bytes(), 2);
            assert_eq!(cents(&price), Some(expected));
        }
        // As short as nodes send it.
        let short = CqlDecimal::from_signed_be_bytes_slice_and_exponent(&[0xff, 0x38], 2);
        assert_eq!(cents(&short), Some(-200));
        let other_scale = CqlDecimal::from_signed_be_bytes_slice_and_exponent(&[1], 3);
        assert_eq!(cents(&other_scale), None);
    }

    #[test]
    fn orders_are_those_of_tpc_h() {
        let orders = Orders::generate(0.001, 8).unwrap();
        assert_eq!(orders.rows.len(), 1500);
        let first = &orders.rows[0];
        assert_eq!((first.orderkey, first.status), (1, "O"));
        // 1996-01-02
        assert_eq!(first.orderdate, 9497);
        assert!(orders.rows.iter().all(|order| order.branch < 8));
        let [customers, days, clerks, keys] = orders.distinct();
        // There are a thousand clerks at least, however small the scale factor.
        assert!((50..=100).contains(&customers), "{customers}");
        assert!((700..=1000).contains(&clerks), "{clerks}");
        assert!(days > 1000 && keys == 1500, "{days}, {keys}");
    }

    #[test]
    fn groups_hold_every_row_once_and_one_branch_each() {
        let orders = Orders::generate(0.005, 3).unwrap();
        let groups = orders.groups(100..7000, 20);
        let mut all: Vec<usize> = groups.iter().flatten().copied().collect();
        all.sort_unstable();
        assert_eq!(all, (100..7000).collect::<Vec<_>>());
        for group in &groups {
            let branch = orders.rows[group[0]].branch;
            assert!(group.len() <= 20);
            assert!(group.iter().all(|&row| orders.rows[row].branch == branch));
        }
        assert_eq!(orders.counts(100..7000).iter().sum::<u64>(), 6900);
    }
}
