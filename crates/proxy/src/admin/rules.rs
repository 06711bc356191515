//! The rules in force, as JSON and as metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use helenus_cql::{facts, without_values};
use helenus_engine::config::RuleSettings;
use helenus_engine::rules::Rule;
use helenus_engine::snapshot::Snapshot;
use serde::Serialize;

use super::text::Text;
use crate::config::Config;
use crate::process::Process;

#[derive(Debug, Serialize)]
pub(super) struct RuleView {
    #[serde(flatten)]
    settings: RuleSettings,
    /// Why nothing can match it: null if something can.
    problem: Option<String>,
    matched: u64,
    refused: u64,
    /// Requests under way, if there is a limit on them.
    in_flight_now: u32,
}

/// Stands for a value.
const HIDDEN: &str = "?";

/// What `/api/rules` answers.
pub(super) fn view(shared: &Process, shows_values: bool) -> Vec<RuleView> {
    let (rules, snapshot) = (shared.rules.list(), shared.snapshot.load());
    rules
        .iter()
        .map(|rule| rule_view(rule, &snapshot, shows_values))
        .collect()
}

/// What `/api/config` answers: the settings, in which rules may name partitions and whole statements.
pub(super) fn settings(config: &Config, shows_values: bool) -> Config {
    let mut shown = config.clone();
    for rule in &mut shown.rules {
        hide(rule, shows_values);
    }
    shown
}

fn hide(rule: &mut RuleSettings, shows_values: bool) {
    if shows_values {
        return;
    }
    rule.key.fill(HIDDEN.to_owned());
    if let Some(text) = &mut rule.statement {
        *text = without_values(text, &facts(text));
    }
}

fn rule_view(rule: &Rule, snapshot: &Snapshot, shows_values: bool) -> RuleView {
    let mut settings = rule.settings.clone();
    hide(&mut settings, shows_values);
    // What is wrong with a key quotes it.
    let hides_key = !shows_values && !settings.key.is_empty();
    let problem = rule.token(snapshot).err().map(|problem| match hides_key {
        true => "its key matches nothing: admin.token shows why".to_owned(),
        false => problem,
    });
    RuleView {
        settings,
        problem,
        matched: rule.matched.load(Ordering::Relaxed),
        refused: rule.refused.load(Ordering::Relaxed),
        in_flight_now: rule.in_flight(),
    }
}

pub(super) fn render(text: &mut Text, shared: &Process) {
    render_of(text, &shared.rules.list());
}

/// There are a few dozen rules at most, so each may have its series.
fn render_of(text: &mut Text, rules: &[Arc<Rule>]) {
    if rules.is_empty() {
        return;
    }
    type Counted = fn(&Rule) -> &AtomicU64;
    let counters: [(&str, &str, Counted); 2] = [
        (
            "helenus_rule_requests_total",
            "Requests that matched the rule.",
            |rule| &rule.matched,
        ),
        (
            "helenus_rule_refused_total",
            "Requests that the rule refused.",
            |rule| &rule.refused,
        ),
    ];
    for (name, help, of) in counters {
        text.family(name, "counter", help);
        for rule in rules {
            let labels = [("rule", rule.settings.name.as_str())];
            text.sample(name, &labels, of(rule).load(Ordering::Relaxed));
        }
    }
    let name = "helenus_rule_in_flight_requests";
    text.family(name, "gauge", "Requests under way that the rule counts.");
    for rule in rules
        .iter()
        .filter(|rule| rule.settings.in_flight.is_some())
    {
        let labels = [("rule", rule.settings.name.as_str())];
        text.sample(name, &labels, rule.in_flight());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_engine::rules::Rules;
    use std::time::Instant;

    #[test]
    fn rules_are_shown_with_what_they_count_and_why_they_match_nothing() {
        let settings = RuleSettings {
            name: "one \"key\"".to_owned(),
            keyspace: Some("shop".to_owned()),
            table: Some("orders".to_owned()),
            key: vec!["secret".to_owned()],
            statement: Some("SELECT v FROM t WHERE k = 'secret'".to_owned()),
            in_flight: Some(3),
            ..RuleSettings::default()
        };
        let rules = Rules::default();
        rules.publish(&[settings], Instant::now());
        let rules = rules.list();
        rules[0].refused.store(5, Ordering::Relaxed);
        let hidden = rule_view(&rules[0], &Snapshot::unknown(), false);
        let hidden = serde_json::to_string(&hidden).expect("JSON");
        assert!(!hidden.contains("secret"), "{hidden}");
        assert!(hidden.contains("WHERE k = ?"), "{hidden}");
        let view = rule_view(&rules[0], &Snapshot::unknown(), true);
        let shown = serde_json::to_value(view).expect("JSON");
        assert_eq!(
            (&shown["refused"], &shown["in_flight"]),
            (&5.into(), &3.into())
        );
        let problem = shown["problem"].as_str().expect("a problem");
        assert!(problem.contains("shop.orders"), "{problem}");
        let mut text = Text::default();
        render_of(&mut text, &rules);
        let page = text.finish();
        let line = "helenus_rule_refused_total{rule=\"one \\\"key\\\"\"} 5";
        assert!(page.contains(line), "{page}");
        assert!(page.contains("helenus_rule_in_flight_requests"), "{page}");
    }

    #[test]
    fn without_rules_there_are_no_series() {
        let mut text = Text::default();
        render_of(&mut text, &[]);
        assert_eq!(text.finish(), "");
    }
}
