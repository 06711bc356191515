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

#[derive(Clone, Debug, Default)]
pub struct Redesign {
    rules: RedesignRules,
    in_a_row: u32,
    advised: bool,
}

impl Redesign {
    pub fn new(rules: RedesignRules) -> Self {
        Redesign {
            rules,
            ..Redesign::default()
        }
    }

    /// To be called at even intervals, and as often after a redesign: then there is nothing to save,
    /// and the advice is withdrawn.
    pub fn on_comparison(&mut self, now: &Comparison) -> Advice {
        let saved_per_s = (now.cost_us - now.best_cost_us).max(0.0) * now.queries_per_s / 1e6;
        let saving_s = saved_per_s * self.rules.horizon_s;
        if saving_s > now.build_s * (1.0 + self.rules.margin) {
            self.in_a_row = self.in_a_row.saturating_add(1);
            self.advised |= self.in_a_row >= self.rules.evaluations;
        } else {
            self.in_a_row = 0;
            // Nothing saved is never worth anything, even if building costs nothing.
            self.advised &= saving_s > 0.0 && saving_s >= now.build_s * (1.0 - self.rules.margin);
        }
        match self.advised {
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
