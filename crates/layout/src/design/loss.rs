//! Cost of a set of layouts when one of them is lost, until it has been rebuilt.

use crate::design::reduce::Reduced;

/// Cost of the set, and the highest cost without any one of its layouts. With a single layout
/// nothing is left, which costs infinitely much.
pub(crate) fn cost_and_worst_loss(problem: &Reduced, chosen: &[usize]) -> (f64, f64) {
    let mut cost = 0.0;
    // Savings of each layout against the second cheapest, over the queries that read it.
    let mut saved = vec![0.0; chosen.len()];
    for query in 0..problem.queries() {
        let (mut least, mut second, mut reader) = (f64::INFINITY, f64::INFINITY, 0);
        for (at, candidate) in chosen.iter().enumerate() {
            let own = problem.row(*candidate)[query];
            if own < least {
                (least, second, reader) = (own, least, at);
            } else if own < second {
                second = own;
            }
        }
        cost += least;
        if let Some(saved) = saved.get_mut(reader) {
            *saved += second - least;
        }
    }
    (cost, cost + saved.into_iter().fold(0.0, f64::max))
}
