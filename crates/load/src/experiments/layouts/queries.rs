//! The paper's two queries, instances of them drawn from existing rows, and their answers.
//!
//! Answers are computed from the generated orders, so that no arm is the measure of another.

use super::orders::{Orders, PARTITION, clerk_name, cql_date};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use scylla::value::CqlDate;
use std::collections::HashMap;

/// Names of the queries, by [`Kind`].
pub const KINDS: [&str; 2] = ["Q1", "Q2"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Payments of a clerk's customers on one day.
    Q1,
    /// Payments of a customer to a clerk in some days.
    Q2,
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::Q1, Kind::Q2];

    /// ALLOW FILTERING is needed on some tables, and changes nothing on others.
    pub fn text(self, table: &str) -> String {
        match self {
            Kind::Q1 => format!(
                "SELECT totalprice FROM {table} WHERE {PARTITION} = ? AND orderdate = ? \
                 AND clerk = ? AND custkey > 0 ALLOW FILTERING"
            ),
            Kind::Q2 => format!(
                "SELECT sum(totalprice) FROM {table} WHERE {PARTITION} = ? AND custkey = ? \
                 AND clerk = ? AND orderdate > ? AND orderdate < ? ALLOW FILTERING"
            ),
        }
    }
}

/// One query with its values.
#[derive(Clone, Debug)]
pub struct Instance {
    pub branch: i32,
    pub custkey: i32,
    pub orderdate: i32,
    pub clerk: i32,
    /// Q2 asks for the days after this one
    pub after: i32,
    /// and before this one.
    pub before: i32,
    /// Prices in cents: of Q1 in the table's order, of Q2 their sum.
    pub answers: [Vec<i64>; 2],
}

#[derive(Debug)]
pub struct Instances(pub Vec<Instance>);

impl Instances {
    /// `count` of each query, from rows drawn at random. The range of days is drawn around the row's own.
    pub fn draw(orders: &Orders, count: usize, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let days = orders.rows.iter().map(|order| order.orderdate);
        let (first, last) = days.fold((i32::MAX, i32::MIN), |(first, last), day| {
            (first.min(day), last.max(day))
        });
        let one = |_| {
            let row = &orders.rows[rng.random_range(0..orders.rows.len())];
            Instance {
                branch: row.branch,
                custkey: row.custkey,
                orderdate: row.orderdate,
                clerk: row.clerk,
                after: rng.random_range(first - 1..row.orderdate),
                before: rng.random_range(row.orderdate + 1..=last + 1),
                answers: Default::default(),
            }
        };
        let mut instances: Vec<Instance> = (0..count).map(one).collect();
        answer(&mut instances, orders);
        Self(instances)
    }
}

impl Instance {
    pub(super) fn values_q1(&self) -> (i32, CqlDate, String) {
        (
            self.branch,
            cql_date(self.orderdate),
            clerk_name(self.clerk),
        )
    }

    pub(super) fn values_q2(&self) -> (i32, i32, String, CqlDate, CqlDate) {
        (
            self.branch,
            self.custkey,
            clerk_name(self.clerk),
            cql_date(self.after),
            cql_date(self.before),
        )
    }
}

/// In one pass over the orders.
fn answer(instances: &mut [Instance], orders: &Orders) {
    let mut by_day: HashMap<_, Vec<_>> = HashMap::new();
    let mut by_customer: HashMap<_, Vec<_>> = HashMap::new();
    for instance in instances.iter() {
        by_day
            .entry((instance.orderdate, instance.clerk))
            .or_default();
        by_customer
            .entry((instance.custkey, instance.clerk))
            .or_default();
    }
    for order in &orders.rows {
        if let Some(rows) = by_day.get_mut(&(order.orderdate, order.clerk)) {
            rows.push((order.custkey, order.orderkey, order.cents));
        }
        if let Some(rows) = by_customer.get_mut(&(order.custkey, order.clerk)) {
            rows.push((order.orderdate, order.cents));
        }
    }
    by_day.values_mut().for_each(|rows| rows.sort_unstable());
    for instance in instances {
        let rows = &by_day[&(instance.orderdate, instance.clerk)];
        let prices = rows.iter().filter(|row| row.0 > 0).map(|row| row.2);
        let days = instance.after + 1..instance.before;
        let rows = by_customer[&(instance.custkey, instance.clerk)].iter();
        let in_range = rows.filter(|row| days.contains(&row.0));
        let sum = in_range.map(|row| row.1).sum();
        instance.answers = [prices.collect(), vec![sum]];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_ask_for_what_exists_and_know_the_answer() {
        let orders = Orders::generate(0.01, 4).unwrap();
        let seed = 7;
        let instances = Instances::draw(&orders, 50, seed).0;
        assert_eq!(instances.len(), 50);
        for instance in &instances {
            let of_clerk = || {
                let rows = orders.rows.iter();
                rows.filter(|o| o.clerk == instance.clerk && o.branch == instance.branch)
            };
            let mut day: Vec<_> = of_clerk()
                .filter(|o| o.orderdate == instance.orderdate)
                .collect();
            day.sort_by_key(|o| (o.custkey, o.orderkey));
            let prices: Vec<i64> = day.iter().map(|o| o.cents).collect();
            assert_eq!(instance.answers[0], prices, "seed {seed}, {instance:?}");
            assert!(!prices.is_empty());
            let sum: i64 = of_clerk()
                .filter(|o| o.custkey == instance.custkey)
                .filter(|o| o.orderdate > instance.after && o.orderdate < instance.before)
                .map(|o| o.cents)
                .sum();
            assert_eq!(instance.answers[1], [sum], "seed {seed}, {instance:?}");
            assert!(sum > 0);
        }
    }

    #[test]
    fn the_same_seed_draws_the_same_instances() {
        let orders = Orders::generate(0.002, 4).unwrap();
        let draw = |seed| format!("{:?}", Instances::draw(&orders, 20, seed));
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
