//! Predicted against counted rows.

use std::ops::Bound as Limit;

use crate::access::Access;
use crate::cost::{
    Coefficients, CostModel, IndependentModel, SORT_ROWS_MAX, SampledModel, Selectivities, Storage,
};
use crate::draw::{Bound, Marker, Statement, StatementColumn, draw};
use crate::layout::Layout;
use crate::query::{Query, Restriction};
use crate::rank::rank_correlation;
use crate::rng::Rng;
use crate::sample::Sample;
use crate::statistics::{Collector, Statistics};
use crate::table::Table;
use crate::value::Value;

/// Flights: the airport decides the carrier for the most part, and the day the number. Clustering
/// columns airport, carrier, day, number; partition key month.
fn table() -> Table {
    let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    let clustering = names(&["airport", "carrier", "day", "number"]);
    Table::new(clustering, names(&["month"]), names(&["delay"])).expect("six columns")
}

fn rows(count: usize, rng: &mut Rng) -> Vec<Vec<Value>> {
    let mut row = |n: usize| {
        // Few airports have most flights.
        let airport = (300.0 * rng.unit().powi(3)) as i128;
        let carrier = match rng.below(10) {
            0 => rng.below(20) as i128,
            _ => airport % 20,
        };
        let day = (n * 360 / count) as i128;
        let number = day * 100 + rng.below(100) as i128;
        let delay = rng.below(60) as i128;
        [airport, carrier, day, number, day / 30, delay]
            .map(Value::Int)
            .to_vec()
    };
    (0..count).map(&mut row).collect()
}

fn statement(columns: [u8; 6]) -> Statement {
    let end = || {
        let inclusive = true;
        Some(Bound {
            value: Marker::Drawn,
            inclusive,
        })
    };
    let column = |kind: &u8| match kind {
        b'=' => StatementColumn::Equal(Marker::Drawn),
        b'i' => StatementColumn::Listed(vec![Marker::Drawn; 3]),
        b'r' => StatementColumn::Range {
            low: end(),
            high: end(),
        },
        _ => StatementColumn::None,
    };
    Statement {
        columns: columns.iter().map(column).collect(),
        ordered: false,
        limit: None,
        weight: 1.0,
        range_share: Some(0.05),
    }
}

fn fulfils(value: &Value, restriction: &Restriction) -> bool {
    match restriction {
        Restriction::None => true,
        Restriction::Equal(wanted) => value == wanted,
        Restriction::Listed(wanted) => wanted.contains(value),
        Restriction::Range { low, high } => {
            let above = match low {
                Limit::Included(low) => value >= low,
                Limit::Excluded(low) => value > low,
                Limit::Unbounded => true,
            };
            above
                && match high {
                    Limit::Included(high) => value <= high,
                    Limit::Excluded(high) => value < high,
                    Limit::Unbounded => true,
                }
        }
    }
}

/// Rows in the slices that a query reads, one by one. The partition key is column 4.
fn counted(rows: &[Vec<Value>], query: &Query, access: &Access) -> usize {
    let mut columns: Vec<usize> = access.prefix.iter().chain(access.range).collect();
    if query.bound().contains(4) {
        columns.push(4);
    }
    let in_slice = |row: &&Vec<Value>| {
        columns
            .iter()
            .all(|c| fulfils(&row[*c], &query.restrictions[*c]))
    };
    rows.iter().filter(in_slice).count()
}

fn accesses(table: &Table, query: &Query) -> Vec<Access> {
    let layouts = Layout::all(4, &[0, 1, 2, 3]);
    let mut accesses: Vec<Access> = layouts
        .iter()
        .map(|l| Access::of(&query.shape(table), l))
        .collect();
    accesses.sort_unstable();
    accesses.dedup();
    accesses
}

fn queries(sample: &Sample, each: usize, seed: u64) -> Vec<Query> {
    let kinds = [
        *b"==---.", *b"=-r-=.", *b"=r=-..", *b"-==r=.", *b"i=r-=.", *b"r=-=..", *b"==r-=r",
        *b"-i=r=.",
    ];
    let statements = kinds.iter().enumerate();
    statements
        .flat_map(|(n, kind)| draw(&statement(*kind), n, sample, each, seed + n as u64))
        .collect()
}

fn collect(
    table: &Table,
    rows: &[Vec<Value>],
    queries: &[Query],
    rows_max: usize,
    seed: u64,
) -> Statistics {
    let sets = SampledModel::sets(table, queries.iter().map(Query::bound));
    let mut collector = Collector::new(table.columns(), sets, rows_max, seed);
    for row in rows {
        collector.add(row.clone()).expect("six values");
    }
    collector.finish(None).expect("six values each")
}

fn model<'a>(table: &'a Table, statistics: &'a Statistics, queries: &[Query]) -> SampledModel<'a> {
    let coefficients = Coefficients::default();
    SampledModel::new(
        table,
        statistics,
        queries.to_vec(),
        Storage::default(),
        coefficients,
    )
}

#[test]
fn a_complete_sample_counts_slices_exactly() {
    let seed = 21;
    println!("seed {seed}");
    let (table, rows) = (table(), rows(3_000, &mut Rng::new(seed)));
    let sample = Sample::new(6, rows.clone()).expect("six values each");
    let queries = queries(&sample, 3, seed);
    let statistics = collect(&table, &rows, &queries, 10_000, seed);
    let model = model(&table, &statistics, &queries);
    for (number, query) in queries.iter().enumerate() {
        for access in accesses(&table, query) {
            let work = model.work(number, &access).expect("no order is asked for");
            let truth = counted(&rows, query, &access) as f64;
            assert_eq!(work.rows, truth, "{query:?} by {access:?}");
        }
    }
}

#[test]
fn one_row_in_forty_ranks_slices_as_counting_does() {
    let seed = 22;
    println!("seed {seed}");
    let (table, rows) = (table(), rows(40_000, &mut Rng::new(seed)));
    let all = Sample::new(6, rows.clone()).expect("six values each");
    // Queries ask for values of the table, not only for those that happen to be in the sample.
    let queries = queries(&all, 6, seed);
    let statistics = collect(&table, &rows, &queries, 1_000, seed);
    let sampled = model(&table, &statistics, &queries);
    let selectivities = queries
        .iter()
        .map(|q| Selectivities::of(q, &table, statistics.sample()));
    let coefficients = Coefficients::linear(1.0, 0.0);
    let independent = IndependentModel::new(40_000, selectivities.collect(), coefficients);
    let (mut by_sample, mut by_paper) = (Vec::new(), Vec::new());
    for (number, query) in queries.iter().enumerate() {
        for access in accesses(&table, query) {
            let truth = counted(&rows, query, &access) as f64;
            let rows = |model: &dyn CostModel| model.work(number, &access).expect("no order").rows;
            by_sample.push((rows(&sampled), truth));
            by_paper.push((rows(&independent), truth));
        }
    }
    let [sampled, independent] =
        [&by_sample, &by_paper].map(|pairs| rank_correlation(pairs).expect("they differ"));
    println!(
        "{} slices: {sampled:.4}, with independent columns {independent:.4}",
        by_sample.len()
    );
    assert!(sampled >= 0.95, "{sampled}");
    assert!(sampled > independent, "{sampled} against {independent}");
}

#[test]
fn a_limit_ends_a_read_early_only_in_order() {
    let seed = 23;
    println!("seed {seed}");
    let (table, rows) = (table(), rows(3_000, &mut Rng::new(seed)));
    let query = Query {
        restrictions: vec![Restriction::None; 6],
        ordered: true,
        limit: Some(30),
        weight: 1.0,
        statement: 0,
    };
    let statistics = collect(&table, &rows, std::slice::from_ref(&query), 10_000, seed);
    let model = model(&table, &statistics, std::slice::from_ref(&query));
    let work = |columns: &[usize]| {
        let layout = Layout::new(columns).expect("a permutation");
        model
            .work(0, &Access::of(&query.shape(&table), &layout))
            .expect("it is small")
    };
    let (in_order, other) = (work(&[0, 1, 2, 3]), work(&[1, 0, 2, 3]));
    assert!(
        (in_order.rows - 30.0).abs() < 1e-6 && in_order.comparisons == 0.0,
        "{in_order:?}"
    );
    assert!(
        other.rows == 3_000.0 && other.comparisons > 3_000.0,
        "{other:?}"
    );
}

#[test]
fn a_large_result_cannot_be_put_into_order() {
    let seed = 24;
    println!("seed {seed}");
    let count = SORT_ROWS_MAX as usize + 1;
    let (table, rows) = (table(), rows(count, &mut Rng::new(seed)));
    let query = Query {
        restrictions: vec![Restriction::None; 6],
        ordered: true,
        limit: None,
        weight: 1.0,
        statement: 0,
    };
    let statistics = collect(&table, &rows, std::slice::from_ref(&query), 10_000, seed);
    let model = model(&table, &statistics, std::slice::from_ref(&query));
    let work = |columns: &[usize]| {
        let layout = Layout::new(columns).expect("a permutation");
        model.work(0, &Access::of(&query.shape(&table), &layout))
    };
    assert!(work(&[0, 1, 2, 3]).is_some());
    assert!(work(&[1, 0, 2, 3]).is_none());
}
