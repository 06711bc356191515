//! All layouts of a table, reduced to those that differ for the workload.

use std::collections::BTreeMap;

use crate::access::Access;
use crate::cost::CostModel;
use crate::design::problem::Problem;
use crate::layout::Layout;
use crate::shape::Shape;

/// Cost of a query on a layout that cannot answer it, as a multiple of that on the worst that can. A finite number,
/// so that bounds and annealing have a slope to follow.
const UNANSWERABLE: f64 = 1000.0;

/// Candidates for a replica: of all layouts on which every query has the same access, the first.
#[derive(Clone, Debug)]
pub struct Candidates {
    layouts: Vec<Layout>,
    problem: Problem,
    /// All layouts, sorted, and the candidate that stands for each.
    all: Vec<(Layout, usize)>,
    answerable: Vec<Vec<bool>>,
}

impl Candidates {
    /// `kept` are layouts that exist in any case, so that no query costs more than on these.
    pub fn new(model: &dyn CostModel, layouts: Vec<Layout>, kept: &[Layout]) -> Self {
        let queries = model.queries();
        let mut shapes: Vec<Shape> = (0..queries).map(|q| model.shape(q)).collect();
        shapes.sort_unstable();
        shapes.dedup();
        let mut accesses: Vec<Vec<Access>> = vec![Vec::new(); shapes.len()];
        let mut signature_of = |layout: &Layout| -> Vec<usize> {
            let classes = shapes.iter().zip(&mut accesses);
            classes
                .map(|(shape, known)| class(known, Access::of(shape, layout)))
                .collect()
        };
        let mut by_signature: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        let mut first: Vec<(Layout, Vec<usize>)> = Vec::new();
        let mut all = Vec::with_capacity(layouts.len());
        for layout in layouts {
            let signature = signature_of(&layout);
            let next = first.len();
            let candidate = *by_signature.entry(signature.clone()).or_insert(next);
            if candidate == next {
                first.push((layout.clone(), signature));
            }
            all.push((layout, candidate));
        }
        let kept: Vec<Vec<usize>> = kept.iter().map(&mut signature_of).collect();
        all.sort_unstable();

        let mut rows = vec![vec![0.0; queries]; first.len()];
        let mut answerable = vec![vec![true; queries]; first.len()];
        for query in 0..queries {
            let Ok(shape) = shapes.binary_search(&model.shape(query)) else {
                continue;
            };
            let of_class: Vec<Option<f64>> = accesses[shape]
                .iter()
                .map(|access| {
                    let work = model.work(query, access)?;
                    Some(model.coefficients().cost_us(&work))
                })
                .collect();
            let worst = of_class.iter().flatten().copied().fold(1.0, f64::max);
            let cost = |class: usize| of_class[class].unwrap_or(worst * UNANSWERABLE);
            let floor = kept.iter().map(|signature| cost(signature[shape]));
            let floor = floor.fold(f64::INFINITY, f64::min);
            let kept_answers = kept
                .iter()
                .any(|signature| of_class[signature[shape]].is_some());
            for (at, (_, signature)) in first.iter().enumerate() {
                rows[at][query] = cost(signature[shape]).min(floor);
                answerable[at][query] = kept_answers || of_class[signature[shape]].is_some();
            }
        }
        let weights = (0..queries).map(|q| model.weight(q)).collect();
        Candidates {
            layouts: first.into_iter().map(|(layout, _)| layout).collect(),
            problem: Problem::new(weights, rows),
            all,
            answerable,
        }
    }

    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// One for each candidate of the problem.
    pub fn layouts(&self) -> &[Layout] {
        &self.layouts
    }

    /// The candidate that stands for a layout. None if it was not among those given.
    pub fn candidate(&self, layout: &Layout) -> Option<usize> {
        let at = self
            .all
            .binary_search_by(|(other, _)| other.cmp(layout))
            .ok()?;
        self.all.get(at).map(|(_, candidate)| *candidate)
    }

    /// True if the query can be answered by one of these candidates.
    pub fn answers(&self, query: usize, chosen: &[usize]) -> bool {
        let answers = |candidate: &usize| self.answerable.get(*candidate)?.get(query).copied();
        chosen
            .iter()
            .any(|candidate| answers(candidate).unwrap_or(false))
    }
}

fn class(known: &mut Vec<Access>, access: Access) -> usize {
    match known.iter().position(|other| *other == access) {
        Some(class) => class,
        None => {
            known.push(access);
            known.len() - 1
        }
    }
}
