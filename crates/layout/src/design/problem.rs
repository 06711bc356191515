//! Costs of queries on candidate layouts, as numbers.

/// One row for each candidate, one column for each query.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    weights: Vec<f64>,
    costs: Vec<f64>,
    candidates: usize,
}

impl Problem {
    /// Weights are scaled so that they add up to 1: costs of sets are weighted means. Rows that are
    /// shorter than `weights` are filled with zeros. Costs should be finite: otherwise [`crate::solve`]
    /// proves nothing.
    pub fn new(weights: Vec<f64>, rows: Vec<Vec<f64>>) -> Self {
        let total: f64 = weights.iter().sum();
        let scale = if total > 0.0 { 1.0 / total } else { 0.0 };
        let candidates = rows.len();
        let mut costs = Vec::with_capacity(candidates * weights.len());
        for mut row in rows {
            row.resize(weights.len(), 0.0);
            costs.extend(row);
        }
        Problem {
            weights: weights.into_iter().map(|weight| weight * scale).collect(),
            costs,
            candidates,
        }
    }

    pub fn candidates(&self) -> usize {
        self.candidates
    }

    pub fn queries(&self) -> usize {
        self.weights.len()
    }

    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Costs of all queries on one candidate; empty if there is none with this number.
    pub fn row(&self, candidate: usize) -> &[f64] {
        let start = candidate * self.weights.len();
        self.costs
            .get(start..start + self.weights.len())
            .unwrap_or_default()
    }

    /// The same candidates for queries that are asked so often, without those that are not asked.
    pub(crate) fn asked(&self, weights: &[f64]) -> Problem {
        let asked = || (0..weights.len()).filter(|query| weights[*query] > 0.0);
        let row =
            |candidate| asked().filter_map(move |query| self.row(candidate).get(query).copied());
        Problem::new(
            asked().map(|query| weights[query]).collect(),
            (0..self.candidates).map(|c| row(c).collect()).collect(),
        )
    }

    /// The workload's mean cost if each query reads the cheapest of these candidates; infinite if
    /// there is none.
    pub fn cost(&self, chosen: &[usize]) -> f64 {
        let mut cost = 0.0;
        for (query, weight) in self.weights.iter().enumerate() {
            let costs = chosen.iter().filter_map(|c| self.row(*c).get(query));
            cost += weight * costs.copied().fold(f64::INFINITY, f64::min);
        }
        cost
    }
}
