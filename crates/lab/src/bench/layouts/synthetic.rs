//! Layouts of the synthetic tables, what is predicted for them, and how far annealing is from the
//! certified designs.

use super::design::{REPLICAS_COMPARED, cost_us, gap, int};
use anyhow::{Context, Result};
use helenus_layout::{
    Anneal, Coefficients, CostModel, Effort, Layout, Objective, Options, Query,
    Restriction as Asked, Sample, SampledModel, Statistics, Storage, Table, design,
};
use helenus_load::experiments::layouts::{Restriction, Synthetic};
use std::ops::Bound;

const ROW_BYTES: f64 = 30.0;

/// Chooses up to `layouts_max` of all orders, evenly, and predicts what each query costs on them, also as
/// `calibrated` says. Returns by how much annealing was above the certified design, for each number of
/// replicas.
pub(super) fn plan(
    synthetic: &mut Synthetic,
    layouts_max: usize,
    seed: u64,
    calibrated: Option<Coefficients>,
) -> Result<Vec<f64>> {
    let columns = synthetic.columns;
    let names = (0..columns).map(|column| format!("c{column}")).collect();
    let table = Table::new(names, vec!["p".into()], Vec::new())?;
    let rows = synthetic.rows.iter();
    let rows = rows.map(|row| row.iter().copied().chain([0]).map(int).collect());
    let sample = Sample::new(columns + 1, rows.collect())?;
    let queries: Vec<Query> = synthetic.queries.iter().map(|each| query(each)).collect();
    let sets = SampledModel::sets(&table, queries.iter().map(Query::bound));
    let statistics = Statistics::of_sample(sample, synthetic.rows.len() as u64, &sets);
    let storage = Storage {
        row_bytes: ROW_BYTES,
        ..Storage::default()
    };
    let model = |coefficients| {
        SampledModel::new(&table, &statistics, queries.clone(), storage, coefficients)
    };
    let calibrated = calibrated.map(model);
    let model = model(Coefficients::default());
    let permuted: Vec<usize> = (0..columns).collect();
    let all = Layout::all(columns, &permuted);
    let count = all.len().min(layouts_max);
    let chosen: Vec<&Layout> = (0..count).map(|at| &all[at * all.len() / count]).collect();
    synthetic.predicted_us = predicted_us(&model, &chosen);
    synthetic.calibrated_us = calibrated.map(|model| predicted_us(&model, &chosen));
    synthetic.layouts = chosen.iter().map(|l| l.columns().collect()).collect();
    let mut gaps = Vec::new();
    for replicas in REPLICAS_COMPARED {
        let options = Options {
            replicas,
            permuted: permuted.clone(),
            kept: Vec::new(),
            objective: Objective::Cost,
            effort: Effort::default(),
            anneal: Some(Anneal {
                seed,
                ..Anneal::default()
            }),
        };
        let design = design(&model, columns, &options).context("there is nothing to design")?;
        gaps.extend(gap(&design));
    }
    Ok(gaps)
}

/// Of each query, on each layout.
fn predicted_us(model: &SampledModel<'_>, layouts: &[&Layout]) -> Vec<Vec<f64>> {
    let of_query = |query| {
        let costs = layouts.iter().map(|layout| cost_us(model, query, layout));
        costs.collect()
    };
    (0..model.queries()).map(of_query).collect()
}

fn query(restrictions: &[Restriction]) -> Query {
    let of = |restriction: &Restriction| match *restriction {
        Restriction::None => Asked::None,
        Restriction::Equal(value) => Asked::Equal(int(value)),
        Restriction::Between(low, high) => Asked::Range {
            low: Bound::Included(int(low)),
            high: Bound::Included(int(high)),
        },
    };
    let partition = Asked::Equal(int(0));
    Query {
        restrictions: restrictions.iter().map(of).chain([partition]).collect(),
        ordered: false,
        limit: None,
        weight: 1.0,
        statement: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_follow_the_rows_that_a_layout_reads() {
        let mut synthetic = Synthetic::draw(2, 400, 3, 1);
        synthetic.queries = vec![
            vec![Restriction::Equal(synthetic.rows[0][0]), Restriction::None],
            vec![Restriction::None, Restriction::Equal(synthetic.rows[0][1])],
        ];
        let gaps = plan(&mut synthetic, 6, 1, None).unwrap();
        assert_eq!(gaps.len(), 3);
        assert_eq!(synthetic.layouts, [[0, 1], [1, 0]]);
        let [first, second] = &synthetic.predicted_us[..] else {
            panic!("{:?}", synthetic.predicted_us)
        };
        assert!(first[0] < first[1] && second[1] < second[0]);
        // With two layouts both queries are cheap, whichever way they are found.
        assert!(gaps.iter().all(|gap| *gap < 1e-6), "{gaps:?}");
    }

    #[test]
    fn of_many_orders_some_are_chosen_that_differ() {
        let mut synthetic = Synthetic::draw(4, 200, 5, 2);
        plan(&mut synthetic, 6, 1, None).unwrap();
        let mut layouts = synthetic.layouts.clone();
        layouts.sort();
        layouts.dedup();
        assert_eq!(layouts.len(), 6);
        assert_eq!(synthetic.predicted_us.len(), 5);
        assert_eq!(synthetic.calibrated_us, None);
        // Twice as dear, each of them.
        let twice = Coefficients::of_values(Coefficients::default().values().map(|us| 2.0 * us));
        plan(&mut synthetic, 6, 1, Some(twice)).unwrap();
        let calibrated = synthetic.calibrated_us.iter().flatten().flatten();
        for (calibrated, predicted) in calibrated.zip(synthetic.predicted_us.iter().flatten()) {
            assert!((calibrated / predicted - 2.0).abs() < 1e-9);
        }
    }
}
