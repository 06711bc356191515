//! Figures of a cell from a proxy's own metrics.

use crate::experiments::arms::Arm;
use crate::measure::Phase;
use crate::scrape::Metrics;

/// Figures of a phase.
pub(super) const RANK_CORRELATION: &str = "prediction_rank_correlation";
pub(super) const SECOND_ATTEMPTS: &str = "second_attempts";
pub(super) const SENT_TO_NODES: &str = "requests_sent_to_nodes";
const BIAS: &str = "prediction_bias";

const OF_ALL_CLASSES: &str = "class=\"all\"";
/// So many of the latest answers are what the proxy's figures come from.
const COMPARED: f64 = 128.0;

/// The metrics of an arm now; none if it has no page, or that cannot be read: then figures are missing,
/// and the experiment goes on.
pub(super) async fn metrics(arm: &Arm) -> Option<Metrics> {
    Metrics::of(arm.admin?).await.ok()
}

/// True if the errors of prediction that the proxy shows are all from after `before`.
pub(super) fn is_of_this_cell(before: &Metrics, after: &Metrics) -> bool {
    let name = "helenus_predictions_compared_total";
    let compared = after.since(before).get(name, OF_ALL_CLASSES);
    compared.is_some_and(|compared| compared >= COMPARED)
}

/// How many requests nodes were sent, and how many of these were second attempts.
pub(super) fn add_hedging(phase: &mut Phase, before: &Metrics, after: &Metrics) {
    let added = after.since(before);
    for (figure, name) in [
        (SECOND_ATTEMPTS, "helenus_reads_hedged_total"),
        (SENT_TO_NODES, "helenus_node_requests_total"),
    ] {
        let value = added.sum(name);
        phase
            .extra
            .extend(value.map(|value| (figure.to_owned(), value)));
    }
}

pub(super) fn add_prediction(phase: &mut Phase, after: &Metrics) {
    for (figure, name) in [
        (RANK_CORRELATION, "helenus_prediction_rank_correlation"),
        (BIAS, "helenus_prediction_bias"),
    ] {
        let value = after.get(name, OF_ALL_CLASSES);
        phase
            .extra
            .extend(value.map(|value| (figure.to_owned(), value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Recorder;
    use std::time::Duration;

    fn page(compared: u32, hedged: u32, correlation: &str) -> Metrics {
        Metrics::parse(&format!(
            "helenus_predictions_compared_total{{class=\"point\"}} 7000\n\
             helenus_predictions_compared_total{{class=\"all\"}} {compared}\n\
             helenus_prediction_rank_correlation{{class=\"point\"}} 0.1\n\
             helenus_prediction_rank_correlation{{class=\"all\"}} {correlation}\n\
             helenus_reads_hedged_total {hedged}\n\
             helenus_node_requests_total{{node=\"a\"}} {compared}\n\
             helenus_node_requests_total{{node=\"b\"}} {compared}\n"
        ))
    }

    #[test]
    fn figures_are_those_of_the_cell_and_of_all_classes() {
        let (before, after) = (page(1_000, 3, "0.2"), page(1_200, 11, "0.9"));
        assert!(is_of_this_cell(&before, &after));
        assert!(!is_of_this_cell(&page(1_100, 0, "0"), &after));
        assert!(!is_of_this_cell(&Metrics::default(), &Metrics::default()));
        let mut phase = Recorder::new(1).into_phase(&["x"], Duration::from_secs(1), None);
        add_hedging(&mut phase, &before, &after);
        add_prediction(&mut phase, &after);
        assert_eq!(phase.extra[SECOND_ATTEMPTS], 8.0);
        assert_eq!(phase.extra[SENT_TO_NODES], 400.0);
        assert_eq!(phase.extra[RANK_CORRELATION], 0.9);
        assert!(!phase.extra.contains_key(BIAS), "the page does not have it");
    }
}
