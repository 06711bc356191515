//! The rules in force, as JSON and as metrics.

use std::sync::Arc;
use std::time::Instant;

use helenus_cql::{facts, without_values};
use helenus_engine::config::RuleSettings;
use helenus_engine::features::rules::{self, Rule, RuleCounts};
use helenus_engine::snapshot::Snapshot;
use serde::Serialize;

use super::metrics::page::Page;
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
    /// Requests that it would have refused if it were not only tried out.
    would_refuse: u64,
    /// Requests answered with UNPREPARED, because it might forbid what is not known here.
    unprepared: u64,
    /// Requests carried out at another consistency level than their own.
    rewritten: u64,
    /// Requests given up after its `timeout_ms`.
    timed_out: u64,
    /// Of requests and answers, if it limits them.
    bytes: u64,
    /// Requests under way, if there is a limit on them.
    in_flight_now: u32,
    /// Requests that matched per second in the last few seconds.
    per_second_now: f64,
}

/// Stands for a value.
const HIDDEN: &str = "?";

/// The answer of `/api/rules`.
pub(super) fn view(shared: &Process, shows_values: bool) -> Vec<RuleView> {
    let (rules, snapshot) = (shared.features.rules.list(), shared.snapshot.load());
    let shown = rules.iter().map(|rule| {
        let problem = problem(rule, &rules, &snapshot, shows_values);
        rule_view(rule, problem, shows_values)
    });
    shown.collect()
}

/// The answer of `/api/config`: the settings, in which rules may name partitions and whole statements.
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

/// Why nothing can match a rule.
fn problem(
    rule: &Rule,
    rules: &[Arc<Rule>],
    snapshot: &Snapshot,
    shows_values: bool,
) -> Option<String> {
    let of_cluster = || {
        let found = rule.never_matches(snapshot)?;
        // A problem with a key quotes it.
        Some(match shows_values || rule.settings.key.is_empty() {
            true => found,
            false => "its key matches nothing: admin.token shows why".to_owned(),
        })
    };
    rules::shadowed_by(rule, rules).or_else(of_cluster)
}

fn rule_view(rule: &Rule, problem: Option<String>, shows_values: bool) -> RuleView {
    let mut settings = rule.settings.clone();
    hide(&mut settings, shows_values);
    let counts = rule.counts(Instant::now());
    RuleView {
        settings,
        problem,
        matched: counts.matched,
        refused: counts.refused,
        would_refuse: counts.would_refuse,
        unprepared: counts.unprepared,
        rewritten: counts.rewritten,
        timed_out: counts.timed_out,
        bytes: counts.bytes,
        in_flight_now: counts.in_flight,
        per_second_now: counts.per_second,
    }
}

pub(super) fn render(page: &mut Page, shared: &Process) {
    render_of(page, &shared.features.rules.list());
}

/// There are a few dozen rules at most, so each may have its series.
fn render_of(page: &mut Page, rules: &[Arc<Rule>]) {
    if rules.is_empty() {
        return;
    }
    type Shown = fn(&RuleSettings) -> bool;
    type Counted = fn(&RuleCounts) -> u64;
    type Family = (&'static str, &'static str, &'static str, Shown, Counted);
    let families: [Family; 8] = [
        (
            "helenus_rule_requests_total",
            "counter",
            "Requests that matched the rule.",
            |_| true,
            |counts| counts.matched,
        ),
        (
            "helenus_rule_refused_total",
            "counter",
            "Requests that the rule refused.",
            |_| true,
            |counts| counts.refused,
        ),
        (
            "helenus_rule_would_refuse_total",
            "counter",
            "Requests that the rule would have refused if it were not only tried out (warn).",
            |settings| settings.warn,
            |counts| counts.would_refuse,
        ),
        (
            "helenus_rule_unprepared_total",
            "counter",
            "Requests answered with UNPREPARED, because the rule might forbid what is not known here.",
            RuleSettings::forbids,
            |counts| counts.unprepared,
        ),
        (
            "helenus_rule_rewritten_total",
            "counter",
            "Requests that the rule had carried out at another consistency level.",
            |settings| settings.consistency_rewrite,
            |counts| counts.rewritten,
        ),
        (
            "helenus_rule_timed_out_total",
            "counter",
            "Requests given up after the rule's timeout_ms.",
            |settings| settings.timeout_ms.is_some(),
            |counts| counts.timed_out,
        ),
        (
            "helenus_rule_bytes_total",
            "counter",
            "Bytes of requests and answers that the rule counts.",
            |settings| settings.bytes_per_second.is_some(),
            |counts| counts.bytes,
        ),
        (
            "helenus_rule_in_flight_requests",
            "gauge",
            "Requests under way that the rule counts.",
            |settings| settings.in_flight.is_some(),
            |counts| counts.in_flight.into(),
        ),
    ];
    let now = Instant::now();
    for (name, kind, help, is_shown, of) in families {
        let mut shown = rules
            .iter()
            .filter(|rule| is_shown(&rule.settings))
            .peekable();
        if shown.peek().is_some() {
            page.family(name, kind, &["rule"], help);
        }
        for rule in shown {
            let labels = [("rule", rule.settings.name.as_str())];
            page.sample(name, &labels, of(&rule.counts(now)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_engine::features::rules::Rules;
    use std::time::Instant;

    #[test]
    fn rules_are_shown_with_what_they_count_and_why_they_match_nothing() {
        let settings = RuleSettings {
            name: "one \"key\"".to_owned(),
            keyspace: "shop".into(),
            table: "orders".into(),
            key: vec!["secret".to_owned()],
            statement: Some("SELECT v FROM t WHERE k = 'secret'".to_owned()),
            in_flight: Some(3),
            ..RuleSettings::default()
        };
        let tried = RuleSettings {
            name: "tried".to_owned(),
            role: ["a", "b"].into(),
            bytes_per_second: Some(1),
            warn: true,
            ..RuleSettings::default()
        };
        let rewriting = RuleSettings {
            name: "levels".to_owned(),
            all: true,
            consistency_min: Some("QUORUM".to_owned()),
            consistency_rewrite: true,
            timeout_ms: Some(100),
            ..RuleSettings::default()
        };
        let rules = Rules::default();
        rules.publish(&[settings, tried, rewriting], Instant::now());
        let rules = rules.list();
        let known = Snapshot::builder().epoch(1).build();
        let json_of = |rule: &Rule, shows_values| {
            let problem = problem(rule, &rules, &known, shows_values);
            serde_json::to_value(rule_view(rule, problem, shows_values)).expect("JSON")
        };
        let hidden = json_of(&rules[0], false).to_string();
        assert!(!hidden.contains("secret"), "{hidden}");
        assert!(hidden.contains("WHERE k = ?"), "{hidden}");
        let shown = json_of(&rules[0], true);
        assert_eq!(
            (&shown["refused"], &shown["in_flight"], &shown["keyspace"]),
            (&0.into(), &3.into(), &"shop".into())
        );
        let problem = shown["problem"].as_str().expect("a problem");
        assert!(problem.contains("shop"), "{problem}");
        let shown = json_of(&rules[1], true);
        assert_eq!(shown["role"], serde_json::json!(["a", "b"]));
        let mut page = Page::default();
        render_of(&mut page, &rules);
        let page = page.into_text();
        for line in [
            "helenus_rule_refused_total{rule=\"one \\\"key\\\"\"} 0",
            "helenus_rule_in_flight_requests{rule=\"one \\\"key\\\"\"} 0",
            "helenus_rule_would_refuse_total{rule=\"tried\"} 0",
            "helenus_rule_bytes_total{rule=\"tried\"} 0",
            "helenus_rule_unprepared_total{rule=\"levels\"} 0",
            "helenus_rule_rewritten_total{rule=\"levels\"} 0",
            "helenus_rule_timed_out_total{rule=\"levels\"} 0",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        assert!(
            !page.contains("in_flight_requests{rule=\"tried\""),
            "{page}"
        );
    }

    #[test]
    fn without_rules_there_are_no_series() {
        let mut page = Page::default();
        render_of(&mut page, &[]);
        assert_eq!(page.into_text(), "");
    }
}
