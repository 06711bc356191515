//! When to add a node.
//!
//! Two rules, of which the stricter one counts: an endpoint should carry at most [`SHARE_MAX`] of
//! its knee, because latency rises long before throughput ends; and with n ≥ 2 nodes it should
//! carry its load with one of them down, so at most (n − 1)/n of the knee. The second assumes that
//! the nodes are alike and share the load evenly.

use serde::{Deserialize, Serialize};

/// Share of the knee that is used on a normal day, at most.
pub const SHARE_MAX: f64 = 0.7;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// [`SHARE_MAX`] of the knee.
    Share,
    /// The rest of the knee with one node down.
    OneNodeDown,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Headroom {
    /// None if their number is not known.
    pub nodes: Option<usize>,
    /// Operations per second from which on a node should be added.
    pub add_node_at_ops_per_second: f64,
    pub rule: Rule,
    /// Operations per second on a normal day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub today_ops_per_second: Option<f64>,
    /// By which factor that may grow until then; below 1 if a node is needed now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth_left: Option<f64>,
}

impl Headroom {
    pub fn of(knee_ops_per_second: f64, nodes: Option<usize>, today: Option<f64>) -> Self {
        let by_share = SHARE_MAX * knee_ops_per_second;
        let without_one = nodes
            .filter(|&nodes| nodes >= 2)
            .map(|nodes| knee_ops_per_second * (nodes - 1) as f64 / nodes as f64);
        let (add_node_at, rule) = match without_one {
            Some(ops) if ops < by_share => (ops, Rule::OneNodeDown),
            _ => (by_share, Rule::Share),
        };
        Self {
            nodes,
            add_node_at_ops_per_second: add_node_at,
            rule,
            today_ops_per_second: today,
            growth_left: today.map(|today| add_node_at / today),
        }
    }

    pub fn describe(&self) -> String {
        let at = self.add_node_at_ops_per_second;
        let rule = match (self.rule, self.nodes) {
            (Rule::OneNodeDown, Some(nodes)) => {
                format!("{}/{nodes} of the knee: one node may fail", nodes - 1)
            }
            _ => format!("{:.0} % of the knee", SHARE_MAX * 100.0),
        };
        let mut out = format!("add a node at {at:.0} operations/s ({rule})");
        if let (Some(today), Some(left)) = (self.today_ops_per_second, self.growth_left) {
            out += &match left >= 1.0 {
                true => format!("; today's {today:.0} may grow to {left:.2} times as many"),
                false => format!("; today's {today:.0} are above that: add a node now"),
            };
        }
        if self.nodes == Some(1) {
            out += "; a single node leaves nothing when it fails";
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stricter_rule_counts() {
        let rule = |nodes| {
            let headroom = Headroom::of(1_200.0, nodes, None);
            (headroom.rule, headroom.add_node_at_ops_per_second.round())
        };
        assert_eq!(rule(None), (Rule::Share, 840.0));
        assert_eq!(rule(Some(1)), (Rule::Share, 840.0));
        assert_eq!(rule(Some(2)), (Rule::OneNodeDown, 600.0));
        assert_eq!(rule(Some(3)), (Rule::OneNodeDown, 800.0));
        assert_eq!(rule(Some(4)), (Rule::Share, 840.0));
    }

    #[test]
    fn today_is_compared_with_it() {
        let enough = Headroom::of(1_000.0, Some(4), Some(350.0));
        assert_eq!(enough.growth_left.map(|left| left.round()), Some(2.0));
        assert!(
            enough.describe().contains("2.00 times"),
            "{}",
            enough.describe()
        );
        let none = Headroom::of(1_000.0, Some(1), Some(900.0)).describe();
        assert!(
            none.contains("add a node now") && none.contains("single node"),
            "{none}"
        );
    }
}
