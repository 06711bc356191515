//! The rules of one proxy, as all workers find them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::config::RuleSettings;
use crate::features::rules::Rule;

/// One whose settings stay keeps what was used of it. One that is called as before keeps its counters, the places
/// that requests under way hold, and what was used of each rate that stays.
#[derive(Debug, Default)]
pub struct Rules(Mutex<Vec<Arc<Rule>>>);

impl Rules {
    pub(crate) fn of(settings: &[RuleSettings], now: Instant) -> Rules {
        let rules = Rules::default();
        rules.publish(settings, now);
        rules
    }

    /// Puts these in force, for all workers: each looks at [`Rules::list`] when it is told of the settings. So all
    /// of them have the same rules, whatever other settings they have been told of meanwhile.
    pub fn publish(&self, settings: &[RuleSettings], now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = settings.iter().map(|settings| {
            let named = known
                .iter()
                .find(|rule| rule.settings.name == settings.name);
            match named {
                Some(rule) if rule.settings == *settings => rule.clone(),
                Some(rule) => Arc::new(rule.with(settings.clone())),
                None => Arc::new(Rule::new(settings.clone(), now)),
            }
        });
        // Requests under way give back to those that they hold places of.
        let rules = rules.collect();
        *known = rules;
    }

    /// Those in force.
    pub fn list(&self) -> Vec<Arc<Rule>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }
}
