//! Decides when other layouts would pay for being built.
//!
//! ```text
//! saving = (cost now − cost of the best design) · queries per second · horizon
//! advise   saving > build · (1 + margin), for `evaluations` evaluations in a row
//! withdraw saving < build · (1 − margin)
//! ```
//!
//! In between, the last advice stands: a workload that wavers must not make the advice waver. It is
//! only advice, building is left to the operator.
//!
//! Limits: time on the nodes counts the same whether they are busy or not.

use crate::cost::{Coefficients, Storage};

/// Layouts that are to be built beside a table, with consistency ALL: the table is read and each layout
/// written, then the table and all of them are read and compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Build {
    /// Of the table.
    pub rows: f64,
    pub layouts: usize,
    /// Nodes that have each row.
    pub replicas: u32,
    /// To write a row on one of them.
    pub write_row_us: f64,
    pub storage: Storage,
}

impl Build {
    /// Time that all nodes together spend on it.
    pub fn seconds(&self, coefficients: &Coefficients) -> f64 {
        if self.layouts == 0 {
            return 0.0;
        }
        let layouts = self.layouts as f64;
        let blocks_per_row = self.storage.row_bytes / self.storage.block_bytes.max(1.0);
        let row_us = coefficients.row_us + coefficients.kept_us;
        let read_us = row_us + coefficients.block_us * blocks_per_row;
        let built_us = (2.0 + layouts) * read_us + layouts * self.write_row_us;
        self.rows * f64::from(self.replicas) * built_us / 1e6
    }
}

/// When to advise a redesign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedesignRules {
    /// How long the workload is expected to stay as it is.
    pub horizon_s: f64,
    /// A share of the build's cost: 0.5 asks for a saving of one and a half times that.
    pub margin: f64,
    /// How often in a row the saving must be seen.
    pub evaluations: u32,
}

impl Default for RedesignRules {
    fn default() -> Self {
        RedesignRules {
            horizon_s: 7.0 * 86_400.0,
            margin: 0.5,
            evaluations: 3,
        }
    }
}

/// The layouts that exist against the best ones for the workload of late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// A query's mean cost with the layouts that exist.
    pub cost_us: f64,
    /// With the best design.
    pub best_cost_us: f64,
    pub queries_per_s: f64,
    /// Time that all nodes together spend on building the new layouts.
    pub build_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Advice {
    Keep,
    /// The build is paid for after this time.
    Redesign {
        pays_after_s: f64,
    },
}

impl Comparison {
    /// Time on the nodes that the best design saves each second.
    pub fn saved_per_s(&self) -> f64 {
        (self.cost_us - self.best_cost_us).max(0.0) * self.queries_per_s / 1e6
    }
}

/// State that is kept from one comparison to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Comparisons that were in favour of a redesign, without one that was not.
    pub in_a_row: u32,
    /// The last advice was to redesign.
    pub advised: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Redesign {
    rules: RedesignRules,
    standing: Standing,
}

impl Redesign {
    pub fn new(rules: RedesignRules) -> Self {
        Redesign::resume(rules, Standing::default())
    }

    /// Goes on where another has been.
    pub fn resume(rules: RedesignRules, standing: Standing) -> Self {
        Redesign { rules, standing }
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// To be called at even intervals, and as often after a redesign: then there is nothing to save,
    /// and the advice is withdrawn.
    pub fn on_comparison(&mut self, now: &Comparison) -> Advice {
        let saved_per_s = now.saved_per_s();
        let saving_s = saved_per_s * self.rules.horizon_s;
        let standing = &mut self.standing;
        if saving_s > now.build_s * (1.0 + self.rules.margin) {
            standing.in_a_row = standing.in_a_row.saturating_add(1);
            standing.advised |= standing.in_a_row >= self.rules.evaluations;
        } else {
            standing.in_a_row = 0;
            // Nothing saved is never worth anything, even if building costs nothing.
            standing.advised &=
                saving_s > 0.0 && saving_s >= now.build_s * (1.0 - self.rules.margin);
        }
        match standing.advised {
            true => Advice::Redesign {
                pays_after_s: now.build_s / saved_per_s,
            },
            false => Advice::Keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `factor` is the saving over the horizon as a multiple of the build.
    fn comparison(factor: f64) -> Comparison {
        let horizon_s = RedesignRules::default().horizon_s;
        Comparison {
            cost_us: 1000.0 + factor * 1000.0,
            best_cost_us: 1000.0,
            queries_per_s: 1000.0,
            build_s: horizon_s,
        }
    }

    fn advised(redesign: &mut Redesign, factor: f64) -> bool {
        redesign.on_comparison(&comparison(factor)) != Advice::Keep
    }

    #[test]
    fn advice_needs_a_saving_that_lasts_and_goes_only_when_it_is_gone() {
        let mut redesign = Redesign::new(RedesignRules::default());
        assert!(!advised(&mut redesign, 2.0));
        assert!(!advised(&mut redesign, 2.0));
        assert!(!advised(&mut redesign, 1.4));
        assert!(!advised(&mut redesign, 2.0));
        assert!(!advised(&mut redesign, 2.0));
        assert!(advised(&mut redesign, 2.0));
        assert!(advised(&mut redesign, 0.9), "it wavers a little");
        assert!(!advised(&mut redesign, 0.4));
        assert!(
            !advised(&mut redesign, 1.4),
            "what was withdrawn must be earned again"
        );
    }

    #[test]
    fn what_is_remembered_goes_on_where_it_was() {
        let rules = RedesignRules::default();
        let mut whole = Redesign::new(rules);
        let mut standing = Standing::default();
        for factor in [2.0, 2.0, 2.0, 0.9, 0.4, 2.0] {
            let mut part = Redesign::resume(rules, standing);
            let advice = part.on_comparison(&comparison(factor));
            assert_eq!(advice, whole.on_comparison(&comparison(factor)), "{factor}");
            standing = part.standing();
        }
        let expected = Standing {
            in_a_row: 1,
            advised: false,
        };
        assert_eq!(standing, expected);
    }

    #[test]
    fn each_replica_reads_writes_and_compares_what_is_built() {
        let coefficients = Coefficients {
            row_us: 0.75,
            kept_us: 0.25,
            block_us: 10.0,
            ..Coefficients::default()
        };
        let build = Build {
            rows: 1e6,
            layouts: 2,
            replicas: 3,
            write_row_us: 50.0,
            // A tenth of a block.
            storage: Storage {
                row_bytes: 100.0,
                block_bytes: 1_000.0,
            },
        };
        // The table to be copied and to be compared, each layout to be compared; a row takes 2 µs to be read.
        let expected = 3.0 * (4.0 * 2.0 + 2.0 * 50.0);
        assert!((build.seconds(&coefficients) - expected).abs() < 1e-9);
        assert_eq!(
            Build {
                layouts: 0,
                ..build
            }
            .seconds(&coefficients),
            0.0
        );
    }

    #[test]
    fn a_wavering_workload_changes_the_advice_once() {
        let mut redesign = Redesign::new(RedesignRules::default());
        let advice: Vec<bool> = (0..200)
            .map(|n| advised(&mut redesign, 1.6 + 0.9 * f64::from(n % 9 - 4) / 4.0))
            .collect();
        let changes = advice.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(changes, 1, "{advice:?}");
    }

    #[test]
    fn the_time_after_which_it_pays_is_stated() {
        let rules = RedesignRules {
            evaluations: 1,
            ..RedesignRules::default()
        };
        let mut redesign = Redesign::new(rules);
        let comparison = Comparison {
            cost_us: 3000.0,
            best_cost_us: 1000.0,
            queries_per_s: 500.0,
            build_s: 60.0,
        };
        assert_eq!(
            redesign.on_comparison(&comparison),
            Advice::Redesign { pays_after_s: 60.0 }
        );
        let after = Comparison {
            cost_us: 1000.0,
            build_s: 0.0,
            ..comparison
        };
        assert_eq!(redesign.on_comparison(&after), Advice::Keep);
    }
}
