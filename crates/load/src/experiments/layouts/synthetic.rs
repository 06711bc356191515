//! Synthetic tables with a few integer clustering columns, whose predicted costs are compared with
//! measured ones on several layouts.

use super::tables::run;
use crate::client::endpoint::Endpoint;
use crate::measure::{Phase, Recorder};
use crate::workload::fill::fill;
use crate::workload::kv::{create_keyspace, prepare};
use anyhow::{Context, Result, ensure};
use helenus_layout::rank_correlation;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlValue;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KEYSPACE: &str = "helenus_layouts_synthetic";
const BATCH_ROWS: usize = 50;
const FILLING_CLIENTS: usize = 8;
/// All rows are in one partition.
const PARTITION: i32 = 0;
/// In a phase's further figures.
pub(super) const RANK_CORRELATION: &str = "cost_rank_correlation";
/// With the coefficients of a calibration.
pub(super) const CALIBRATED: &str = "cost_rank_correlation_calibrated";
/// Of the medians of every second repetition and of the others: no prediction can be expected to come nearer.
pub(super) const REPEATED: &str = "cost_rank_correlation_repeated";

/// The restriction of a column in a synthetic query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restriction {
    None,
    Equal(i32),
    /// Both included.
    Between(i32, i32),
}

/// Rows and queries; each row also has its place among the rows as value.
#[derive(Clone, Debug)]
pub struct Synthetic {
    pub columns: usize,
    pub rows: Vec<Vec<i32>>,
    pub queries: Vec<Vec<Restriction>>,
    /// Clustering orders to be measured.
    pub layouts: Vec<Vec<usize>>,
    /// Of each query, on each layout.
    pub predicted_us: Vec<Vec<f64>>,
    /// [`Self::predicted_us`] with the coefficients of a calibration, if there is one.
    pub calibrated_us: Option<Vec<Vec<f64>>>,
}

impl Synthetic {
    /// Different rows of uniformly distributed values, and queries each about one of them. Layouts and
    /// predictions are left to the caller.
    pub fn draw(columns: usize, rows: usize, queries: usize, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(columns as u64);
        // Four times as many combinations as rows.
        let values = (4.0 * rows as f64).powf(1.0 / columns as f64).ceil() as i32;
        let mut different = BTreeSet::new();
        while different.len() < rows {
            let row: Vec<i32> = (0..columns).map(|_| rng.random_range(0..values)).collect();
            different.insert(row);
        }
        let rows: Vec<Vec<i32>> = different.into_iter().collect();
        let mut query = || loop {
            let row = &rows[rng.random_range(0..rows.len())];
            let mut restriction = |&value: &i32| match rng.random_range(0..10) {
                0..5 => Restriction::Equal(value),
                5..8 => {
                    let other = rng.random_range(0..values);
                    Restriction::Between(value.min(other), value.max(other))
                }
                _ => Restriction::None,
            };
            let query: Vec<Restriction> = row.iter().map(&mut restriction).collect();
            if query.iter().any(|of| *of != Restriction::None) {
                return query;
            }
        };
        Self {
            columns,
            queries: (0..queries).map(|_| query()).collect(),
            rows,
            layouts: Vec::new(),
            predicted_us: Vec::new(),
            calibrated_us: None,
        }
    }

    fn sum(&self, query: &[Restriction]) -> i64 {
        let matches = |row: &Vec<i32>| {
            row.iter().zip(query).all(|(value, of)| match of {
                Restriction::None => true,
                Restriction::Equal(wanted) => value == wanted,
                Restriction::Between(low, high) => (*low..=*high).contains(value),
            })
        };
        let rows = self.rows.iter().enumerate();
        rows.filter(|(_, row)| matches(row))
            .map(|(at, _)| at as i64)
            .sum()
    }

    fn table(&self, layout: usize) -> String {
        format!("{KEYSPACE}.c{}_{layout}", self.columns)
    }

    pub(super) fn cell(&self) -> String {
        format!("{} clustering columns", self.columns)
    }
}

/// Creates and fills a table for each layout.
pub(super) async fn create(
    all: &[Synthetic],
    endpoint: &Endpoint,
    replication: usize,
    say: &mut dyn FnMut(String),
) -> Result<()> {
    let session = Arc::new(endpoint.connect().await?);
    run(&session, &format!("DROP KEYSPACE IF EXISTS {KEYSPACE}")).await?;
    create_keyspace(&session, KEYSPACE, replication).await?;
    for synthetic in all {
        say(format!("filling tables with {}", synthetic.cell()));
        let rows = Arc::new(synthetic.rows.clone());
        for (at, layout) in synthetic.layouts.iter().enumerate() {
            let table = synthetic.table(at);
            let columns: Vec<String> = (0..synthetic.columns).map(|c| format!("c{c}")).collect();
            let key: Vec<String> = layout.iter().map(|c| format!("c{c}")).collect();
            let text = format!(
                "CREATE TABLE {table} (p int, {} int, v bigint, PRIMARY KEY ((p), {}))",
                columns.join(" int, "),
                key.join(", ")
            );
            run(&session, &text).await?;
            let text = format!(
                "INSERT INTO {table} (p, {}, v) VALUES ({}?, ?)",
                columns.join(", "),
                "?, ".repeat(synthetic.columns)
            );
            let insert = prepare(&session, &text).await?;
            fill_table(&session, &insert, &rows).await?;
        }
    }
    Ok(())
}

async fn fill_table(
    session: &Arc<Session>,
    insert: &PreparedStatement,
    rows: &Arc<Vec<Vec<i32>>>,
) -> Result<()> {
    let batches = rows.len().div_ceil(BATCH_ROWS) as u64;
    let (session, insert, rows) = (session.clone(), insert.clone(), rows.clone());
    fill(batches, FILLING_CLIENTS, move |number| {
        let (session, insert, rows) = (session.clone(), insert.clone(), rows.clone());
        async move {
            let from = number as usize * BATCH_ROWS;
            let to = rows.len().min(from + BATCH_ROWS);
            let mut batch = Batch::new(BatchType::Unlogged);
            batch.set_is_idempotent(true);
            let mut values = Vec::new();
            for (at, row) in rows[from..to].iter().enumerate() {
                batch.append_statement(insert.clone());
                let place = (from + at) as i64;
                let keys = [PARTITION].into_iter().chain(row.iter().copied());
                let row = keys.map(CqlValue::Int).chain([CqlValue::BigInt(place)]);
                values.push(row.collect::<Vec<CqlValue>>());
            }
            session.batch(&batch, values).await?;
            Ok(())
        }
    })
    .await
}

impl Synthetic {
    /// Asks each query on each layout in turn, again and again, with a single client. A phase has the
    /// correlation of predicted and median times, and both for each pair.
    pub(super) async fn measure(&self, endpoint: &Endpoint, repetitions: usize) -> Result<Phase> {
        let session = endpoint.connect().await?;
        let mut statements = Vec::new();
        for (query, layout) in self.pairs() {
            let text = select(&self.table(layout), &self.queries[query]);
            statements.push(prepare(&session, &text).await?);
        }
        let sums: Vec<i64> = self.queries.iter().map(|query| self.sum(query)).collect();
        let mut times: Vec<Vec<Duration>> = vec![Vec::new(); statements.len()];
        let mut recorder = Recorder::new(1);
        let began = Instant::now();
        // The first time is a warm-up.
        for repetition in 0..=repetitions {
            for (at, (query, layout)) in self.pairs().enumerate() {
                let sent = Instant::now();
                let answer = session.execute_unpaged(&statements[at], ()).await;
                let took = sent.elapsed();
                let answer = answer
                    .context("a synthetic query failed")?
                    .into_rows_result()?;
                let (sum,) = answer.single_row::<(i64,)>()?;
                ensure!(
                    sum == sums[query],
                    "query {query} on layout {layout} of {} columns is answered with {sum} where {} \
                     is right",
                    self.columns,
                    sums[query]
                );
                if repetition > 0 {
                    times[at].push(took);
                    recorder.record(0, took, Ok(()));
                }
            }
        }
        let mut phase = recorder.into_phase(&["query"], began.elapsed(), None);
        self.add_figures(&mut phase, times);
        Ok(phase)
    }

    /// Numbers of queries and layouts.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let layouts = self.layouts.len();
        (0..self.queries.len()).flat_map(move |query| (0..layouts).map(move |of| (query, of)))
    }

    fn add_figures(&self, phase: &mut Phase, times: Vec<Vec<Duration>>) {
        let (mut points, mut calibrated, mut halves) = (Vec::new(), Vec::new(), Vec::new());
        for ((query, layout), times) in self.pairs().zip(times) {
            let half = |from: usize| median_us(times.iter().skip(from).step_by(2));
            halves.extend(half(0).zip(half(1)));
            let Some(measured) = median_us(times.iter()) else {
                continue;
            };
            let predicted = self.predicted_us[query][layout];
            points.push((predicted, measured));
            if let Some(of) = &self.calibrated_us {
                calibrated.push((of[query][layout], measured));
            }
            for (what, value) in [("predicted_us", predicted), ("measured_us", measured)] {
                let name = format!("query {query} on {:?} {what}", self.layouts[layout]);
                phase.extra.insert(name, value);
            }
        }
        for (key, pairs) in [
            (RANK_CORRELATION, points),
            (CALIBRATED, calibrated),
            (REPEATED, halves),
        ] {
            let figure = rank_correlation(&pairs).map(|value| (key.to_owned(), value));
            phase.extra.extend(figure);
        }
    }
}

/// The upper one of two in the middle.
fn median_us<'a>(times: impl Iterator<Item = &'a Duration>) -> Option<f64> {
    let mut times: Vec<Duration> = times.copied().collect();
    times.sort_unstable();
    times
        .get(times.len() / 2)
        .map(|median| median.as_secs_f64() * 1e6)
}

fn select(table: &str, query: &[Restriction]) -> String {
    let mut text = format!("SELECT sum(v) FROM {table} WHERE p = {PARTITION}");
    for (column, restriction) in query.iter().enumerate() {
        match restriction {
            Restriction::None => {}
            Restriction::Equal(value) => text += &format!(" AND c{column} = {value}"),
            Restriction::Between(low, high) => {
                text += &format!(" AND c{column} >= {low} AND c{column} <= {high}");
            }
        }
    }
    text + " ALLOW FILTERING"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64) -> Synthetic {
        Synthetic::draw(3, 500, 20, seed)
    }

    #[test]
    fn rows_differ_and_queries_ask_for_what_exists() {
        let seed = 3;
        let synthetic = drawn(seed);
        let different: BTreeSet<&Vec<i32>> = synthetic.rows.iter().collect();
        assert_eq!((different.len(), synthetic.queries.len()), (500, 20));
        // The sum of places is zero only for the first row alone.
        let empty = synthetic
            .queries
            .iter()
            .filter(|query| synthetic.sum(query) == 0);
        assert!(empty.count() <= 1, "seed {seed}");
        let all = synthetic.sum(&[Restriction::None; 3]);
        assert_eq!(all, 499 * 500 / 2);
        assert_eq!(format!("{:?}", drawn(seed)), format!("{synthetic:?}"));
    }

    #[test]
    fn a_query_names_only_what_it_restricts() {
        let query = [
            Restriction::Equal(4),
            Restriction::None,
            Restriction::Between(1, 9),
        ];
        assert_eq!(
            select("k.t", &query),
            "SELECT sum(v) FROM k.t WHERE p = 0 AND c0 = 4 AND c2 >= 1 AND c2 <= 9 ALLOW FILTERING"
        );
    }

    #[test]
    fn the_correlation_is_of_medians() {
        let mut synthetic = Synthetic::draw(2, 100, 2, 1);
        synthetic.layouts = vec![vec![0, 1], vec![1, 0]];
        synthetic.predicted_us = vec![vec![1.0, 2.0], vec![3.0, 4.0]];
        synthetic.calibrated_us = Some(vec![vec![2.0, 1.0], vec![3.0, 4.0]]);
        let times = |medians: [u64; 4]| {
            let six = |ms: u64| {
                [ms, ms, 1, 1000, ms, ms]
                    .map(Duration::from_millis)
                    .to_vec()
            };
            medians.map(six).to_vec()
        };
        let figures = |synthetic: &Synthetic, medians| {
            let mut phase = Recorder::new(1).into_phase(&["query"], Duration::ZERO, None);
            synthetic.add_figures(&mut phase, times(medians));
            let found = [RANK_CORRELATION, CALIBRATED, REPEATED];
            found.map(|key| phase.extra.get(key).copied().unwrap_or(f64::NAN))
        };
        let near = |found: [f64; 3], expected: [f64; 3]| {
            let pairs = found.into_iter().zip(expected);
            let is_near = |(a, b): (f64, f64)| (a - b).abs() < 1e-9;
            assert!(
                pairs.into_iter().all(is_near),
                "{found:?}, not {expected:?}"
            );
        };
        near(figures(&synthetic, [10, 20, 30, 40]), [1.0, 0.8, 1.0]);
        near(figures(&synthetic, [20, 10, 30, 40]), [0.8, 1.0, 1.0]);
        synthetic.calibrated_us = None;
        assert!(figures(&synthetic, [10, 20, 30, 40])[1].is_nan());
    }
}
