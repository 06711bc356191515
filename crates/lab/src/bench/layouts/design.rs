//! Designs for the orders: the best single order, and the table as declared with further layouts.

use anyhow::{Context, Result};
use helenus_layout::{
    Access, Anneal, Coefficients, Collector, CostModel, Effort, Layout, Objective, Options, Query,
    Restriction, SampledModel, Statistics, Storage, Table, Value, design,
};
use helenus_load::experiments::layouts::{
    CLUSTERING, ClusteringOrder, Instance, Instances, KINDS, Kind, Orders, PARTITION, primary_key,
};
use std::ops::Bound;

/// Orders that are looked at one by one.
const SAMPLE_ROWS: usize = 200_000;
/// Instances of each query that are designed for.
const INSTANCES_MAX: usize = 100;
/// About what an order takes on disk.
const ROW_BYTES: f64 = 130.0;
/// The order's key only makes rows unique, and stays last.
const PERMUTED: [usize; 3] = [0, 1, 2];
/// Costs that differ by less are the same.
const ROUNDING: f64 = 1e-6;
/// For so many replicas the paper's algorithm is compared with the certified design.
pub(super) const REPLICAS_COMPARED: std::ops::RangeInclusive<usize> = 1..=3;

/// Clustering orders, the table's own first, and which of them each kind of query reads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chosen {
    pub(super) orders: Vec<ClusteringOrder>,
    pub(super) reads: [usize; 2],
    predicted_us: f64,
}

pub(super) struct Designs {
    /// The best order for all replicas alike, found by looking at all.
    pub(super) single: Chosen,
    pub(super) declared: Chosen,
    /// The table as declared and the layouts that are certified as best beside it.
    pub(super) exact: Chosen,
    /// By the paper's algorithm, if it found worse ones.
    pub(super) annealed: Option<Chosen>,
    /// By how much the annealed cost exceeds the certified one.
    pub(super) gaps: Vec<f64>,
}

impl Designs {
    /// With `added` layouts beside the table.
    pub(super) fn of(
        orders: &Orders,
        instances: &Instances,
        added: usize,
        seed: u64,
    ) -> Result<Self> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let table = Table::new(names(&CLUSTERING), names(&[PARTITION]), Vec::new())?;
        let queries = queries(instances);
        let statistics = statistics(orders, &table, &queries, seed)?;
        let storage = Storage {
            row_bytes: ROW_BYTES,
            ..Storage::default()
        };
        let coefficients = Coefficients::default();
        let model = SampledModel::new(&table, &statistics, queries, storage, coefficients);
        let anneal = Anneal {
            seed,
            ..Anneal::default()
        };
        let own = Layout::own(CLUSTERING.len());
        let designed = |replicas: usize, kept: &[Layout]| {
            let options = Options {
                replicas,
                permuted: PERMUTED.to_vec(),
                kept: kept.to_vec(),
                objective: Objective::Cost,
                effort: Effort::default(),
                anneal: Some(anneal),
            };
            design(&model, CLUSTERING.len(), &options).context("there is nothing to design")
        };
        let chosen = |layouts: &[Layout]| Chosen::new(&model, layouts);
        let with_own = |layouts: &[Layout]| [std::slice::from_ref(&own), layouts].concat();
        let exact = designed(added, std::slice::from_ref(&own))?;
        let mut gaps = Vec::new();
        let mut single = None;
        for replicas in REPLICAS_COMPARED {
            let design = designed(replicas, &[])?;
            gaps.extend(gap(&design));
            single.get_or_insert(design.single.0);
        }
        gaps.extend(gap(&exact));
        let is_worse = gap(&exact).is_some_and(|gap| gap > ROUNDING);
        let annealed = exact.annealed.as_ref().filter(|_| is_worse);
        Ok(Self {
            single: chosen(&[single.context("there is no order to choose")?]),
            declared: chosen(std::slice::from_ref(&own)),
            annealed: annealed.map(|annealed| chosen(&with_own(&annealed.layouts))),
            exact: chosen(&with_own(&exact.layouts)),
            gaps,
        })
    }
}

/// By how much the annealed cost exceeds that of the certified design.
pub(super) fn gap(design: &helenus_layout::Design) -> Option<f64> {
    let annealed = design.annealed.as_ref()?;
    Some((annealed.cost_us / design.least_cost_us - 1.0).max(0.0))
}

impl Chosen {
    fn new(model: &SampledModel, layouts: &[Layout]) -> Self {
        let cost = |kind: usize, layout: &Layout| -> f64 {
            let of_kind = |query: &usize| model.query(*query).is_some_and(|q| q.statement == kind);
            let queries = (0..model.queries()).filter(of_kind);
            queries.map(|query| cost_us(model, query, layout)).sum()
        };
        let reads = Kind::ALL.map(|kind| {
            let costs = layouts.iter().map(|layout| cost(kind as usize, layout));
            let cheapest = costs.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
            cheapest.map_or(0, |(at, _)| at)
        });
        let total: f64 = Kind::ALL
            .iter()
            .map(|&kind| cost(kind as usize, &layouts[reads[kind as usize]]))
            .sum();
        Self {
            orders: layouts.iter().map(|l| l.columns().collect()).collect(),
            reads,
            predicted_us: total / model.queries().max(1) as f64,
        }
    }

    /// Such as `PRIMARY KEY (…) for Q1 and Q2; predicted mean 0.3 ms`.
    pub(super) fn describe(&self) -> String {
        let of_order = |(at, order): (usize, &ClusteringOrder)| {
            let kinds = Kind::ALL
                .iter()
                .filter(|&&kind| self.reads[kind as usize] == at);
            let kinds: Vec<&str> = kinds.map(|&kind| KINDS[kind as usize]).collect();
            let kinds = match kinds.is_empty() {
                true => "no query".to_owned(),
                false => kinds.join(" and "),
            };
            format!("{} for {kinds}", primary_key(order))
        };
        let orders: Vec<String> = self.orders.iter().enumerate().map(of_order).collect();
        let predicted_ms = self.predicted_us / 1000.0;
        format!("{}; predicted mean {predicted_ms:.2} ms", orders.join(", "))
    }
}

/// Infinite if the query cannot be answered there.
pub(super) fn cost_us(model: &SampledModel, query: usize, layout: &Layout) -> f64 {
    let access = Access::of(&model.shape(query), layout);
    let work = model.work(query, &access);
    work.map_or(f64::INFINITY, |work| model.coefficients().cost_us(&work))
}

fn queries(instances: &Instances) -> Vec<Query> {
    let of_kind = |kind: Kind| {
        let instances = instances.0.iter().take(INSTANCES_MAX);
        instances.map(move |instance| query(kind, instance))
    };
    Kind::ALL.into_iter().flat_map(of_kind).collect()
}

/// Values in the order of the table's columns: those that cluster, then the partition's.
fn query(kind: Kind, instance: &Instance) -> Query {
    let equal = |value| Restriction::Equal(int(value));
    let [custkey, orderdate] = match kind {
        Kind::Q1 => {
            let positive = Restriction::Range {
                low: Bound::Excluded(int(0)),
                high: Bound::Unbounded,
            };
            [positive, equal(instance.orderdate)]
        }
        Kind::Q2 => {
            let days = Restriction::Range {
                low: Bound::Excluded(int(instance.after)),
                high: Bound::Excluded(int(instance.before)),
            };
            [equal(instance.custkey), days]
        }
    };
    Query {
        restrictions: vec![
            custkey,
            orderdate,
            equal(instance.clerk),
            Restriction::None,
            equal(instance.branch),
        ],
        ordered: kind == Kind::Q1,
        limit: None,
        weight: 1.0,
        statement: kind as usize,
    }
}

fn statistics(orders: &Orders, table: &Table, queries: &[Query], seed: u64) -> Result<Statistics> {
    let sets = SampledModel::sets(table, queries.iter().map(Query::bound));
    let mut collector = Collector::new(table.columns(), sets, SAMPLE_ROWS, seed);
    for order in &orders.rows {
        let keys = [
            order.custkey,
            order.orderdate,
            order.clerk,
            order.orderkey,
            order.branch,
        ];
        collector.add(keys.map(int).to_vec())?;
    }
    Ok(collector.finish(None)?)
}

pub(super) fn int(value: i32) -> Value {
    Value::Int(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_query_has_its_own_best_order() {
        let orders = Orders::generate(0.02, 2).unwrap();
        let seed = 1;
        let instances = Instances::draw(&orders, 30, seed);
        let designs = Designs::of(&orders, &instances, 1, seed).unwrap();
        assert_eq!(designs.declared.orders, [[0, 1, 2, 3]]);
        assert_eq!(designs.single.orders.len(), 1);
        let [own, added] = &designs.exact.orders[..] else {
            panic!("{:?}", designs.exact)
        };
        assert_eq!(own, &[0, 1, 2, 3]);
        // Q1 binds the day and the clerk.
        assert!(!added[..2].contains(&0), "{added:?}");
        assert_eq!(designs.exact.reads, [1, 0]);
        assert_eq!(added[3], 3, "the order's key stays last");
        let cost = |chosen: &Chosen| chosen.predicted_us;
        assert!(cost(&designs.exact) < cost(&designs.single));
        assert!(cost(&designs.single) < cost(&designs.declared));
        assert_eq!(designs.gaps.len(), 4);
        assert!(designs.gaps.iter().all(|gap| (0.0..0.01).contains(gap)));
        let text = designs.exact.describe();
        assert!(text.contains("orderkey) for Q2, PRIMARY KEY"), "{text}");
    }
}
