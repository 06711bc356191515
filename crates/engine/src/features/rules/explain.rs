//! The proxy's treatment of a statement, in words, without carrying it out: `helenus check --explain`.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use helenus_cql::{Facts, Kind, quote_identifier};
use helenus_policy::schedule::Class;
use helenus_wire::{Consistency, Opcode, code};
use serde::Serialize;

use crate::config::Config;
use crate::config::RuleSettings;
use crate::config::rules::classes::Classes;
use crate::config::rules::levels::level;
use crate::exec::scan::begin::folds;
use crate::features::rules::gate::{Nature, Part, RuleGate};
use crate::features::rules::seen::Seen;
use crate::features::rules::{Asked, Fits, Role, Rule, Rules, Said, Who};
use crate::pipeline::retry::resendable::Resendable;
use crate::snapshot::Snapshot;
use crate::statement::children::{place_of_text, tokens_of_text};
use crate::statement::classify::class_of;
use crate::statement::in_keys::InKeys;
use crate::statement::pieces::{comes_in_pieces, filters};
use crate::statement::prepared::Statement;

/// A statement, and who would ask. `None` leaves a property open.
#[derive(Clone, Debug, Default)]
pub struct Question {
    pub text: String,
    /// Of the connection.
    pub keyspace: Option<String>,
    pub role: Option<String>,
    pub client: Option<IpAddr>,
    pub application: Option<String>,
    pub driver: Option<String>,
    /// By its name in CQL; ONE if it is left open.
    pub consistency: Option<String>,
}

/// The proxy's treatment of a statement.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Explanation {
    pub kind: &'static str,
    /// The tables that it names, as CQL writes them.
    pub tables: Vec<String>,
    /// Its class for the scheduler.
    pub class: &'static str,
    /// Its classes for rules.
    pub rule_classes: Vec<&'static str>,
    /// Where it goes.
    pub route: String,
    /// It is sent again if nobody knows what became of it.
    pub is_idempotent: bool,
    /// How it is carried out.
    pub execution: String,
    /// Remarks beside these.
    pub notes: Vec<String>,
    /// The rules that match it, in their order.
    pub rules: Vec<ExplainedRule>,
    /// Its outcome, as far as rules alone decide that.
    pub outcome: String,
}

/// A rule that a statement matches.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct ExplainedRule {
    pub name: String,
    /// Conditions under which it matches, on what was left open.
    pub only_for: Vec<String>,
    pub does: Vec<String>,
    /// It only counts what it would refuse.
    pub is_tried_out: bool,
}

/// Explains what a statement would meet.
///
/// # Errors
/// A description of what is wrong with the question.
pub fn explain(
    config: &Config,
    snapshot: &Snapshot,
    question: &Question,
    now: Instant,
) -> Result<Explanation, String> {
    let level = match question.consistency.as_deref() {
        None => Consistency::ONE,
        Some(name) if name.eq_ignore_ascii_case("serial") => Consistency::SERIAL,
        Some(name) if name.eq_ignore_ascii_case("local_serial") => Consistency::LOCAL_SERIAL,
        Some(name) => {
            level(name).ok_or_else(|| format!("there is no consistency level {name:?}"))?
        }
    };
    let statement = Statement::new(&question.text);
    let facts = &statement.facts;
    let in_force = question.keyspace.as_deref();
    let place = place_of_text(snapshot, &statement, in_force);
    let seen = Seen {
        snapshot,
        opcode: Opcode::Query,
        with_classes: true,
    };
    let mut parts = Vec::new();
    if facts.kind == Kind::Batch {
        let tokens = tokens_of_text(snapshot, &statement, in_force);
        seen.inner(&statement, in_force, &tokens, &mut parts);
        for part in &mut parts {
            part.classes = part.classes.and(Classes::BATCH);
        }
    } else {
        let token = place.as_ref().and_then(|place| place.token);
        let part = seen.single(&statement, None, in_force, place.is_some());
        parts.push(Part { token, ..part });
    }
    let class = class_of(
        snapshot,
        Opcode::Query,
        Some(&statement),
        None,
        in_force,
        place.is_some(),
        facts.lwt,
    );
    let asked = Asked {
        is_read: parts.iter().all(Part::is_read),
        level: Some(level).filter(|_| parts.iter().any(Part::has_level)),
        is_about_rows: parts.iter().all(Part::is_about_rows),
        bytes: question.text.len(),
    };
    let (rules, outcome) = of_rules(config, snapshot, question, &parts, asked, now);
    let classes = parts.iter().map(|part| part.classes);
    let classes = classes.fold(Classes::default(), Classes::and);
    let mut tables: Vec<String> = parts.iter().filter_map(table_of).collect();
    tables.dedup();
    Ok(Explanation {
        kind: kind_name(facts.kind),
        tables,
        class: class.name(),
        rule_classes: classes.names().collect(),
        route: route(snapshot, facts, &parts, class, place.is_some()),
        is_idempotent: is_idempotent(snapshot, facts, in_force),
        execution: execution(config, snapshot, &statement, &parts, class),
        notes: notes(config, snapshot, &statement, &parts),
        rules,
        outcome,
    })
}

fn is_idempotent(snapshot: &Snapshot, facts: &Facts, in_force: Option<&str>) -> bool {
    let replaces_list = || snapshot.schema().may_replace_list(facts, in_force);
    Resendable::of_statement(facts, replaces_list, || false).is_idempotent()
}

/// The rules that match, and what becomes of the request.
fn of_rules(
    config: &Config,
    snapshot: &Snapshot,
    question: &Question,
    parts: &[Part<'_>],
    mut asked: Asked,
    now: Instant,
) -> (Vec<ExplainedRule>, String) {
    let rules = Rules::default();
    rules.publish(&config.rules, now);
    let mut gate = RuleGate::default();
    gate.adopt(rules.list(), snapshot);
    let open = |at: usize| {
        config
            .rules
            .get(at)
            .map_or(Vec::new(), |of| left_open(of, question))
    };
    let all = gate.rules(u64::MAX);
    let may_match = all.filter(|(_, rule)| is_for(rule, question));
    let among = may_match.fold(0, |places, (at, _)| places | 1 << at);
    let ends = |at: usize, rule: &Rule| rule.settings.last && open(at).is_empty();
    let fitting = gate.fitting_until(among, parts, ends);
    let mut outcome = None;
    let mut found = Vec::new();
    // Rules that apply for certain.
    let mut before: Vec<&Rule> = Vec::new();
    for (at, rule) in gate.rules(fitting) {
        let Said {
            mut does,
            level,
            refused,
        } = rule.says(&asked);
        let only_for = open(at);
        let is_tried_out = rule.settings.warn;
        let is_sure = only_for.is_empty() && !is_tried_out;
        let level = level.filter(|_| is_sure);
        let contradicted = level.and_then(|level| {
            let other = before.iter().find(|other| !other.keeps(level))?;
            Some(rule.contradicts(level, other))
        });
        if is_sure {
            before.push(rule);
        }
        if let Some(why) = refused.or(contradicted) {
            does.insert(
                0,
                format!("refused with {}: {}", code_name(why.code), why.text),
            );
            if outcome.is_none() && is_sure {
                outcome = Some(format!(
                    "refused with {} by rule {:?}",
                    code_name(why.code),
                    rule.settings.name
                ));
            }
        } else if level.is_some() {
            asked.level = level;
        }
        found.push(ExplainedRule {
            name: rule.settings.name.clone(),
            only_for,
            does,
            is_tried_out,
        });
    }
    let depends = found.iter().any(|rule| !rule.only_for.is_empty());
    let outcome = outcome.unwrap_or_else(|| match depends {
        true => "passes, unless a rule of these clients refuses it".to_owned(),
        false => "passes, within the limits of these rules".to_owned(),
    });
    let outcome = match found.is_empty() {
        true => "passes: no rule matches it".to_owned(),
        false => outcome,
    };
    (found, outcome)
}

/// True if a rule may be for who asks, as far as that is said.
fn is_for(rule: &Rule, question: &Question) -> bool {
    let RuleSettings {
        role,
        application,
        driver,
        ..
    } = &rule.settings;
    let said = |name: &Option<String>, first: Option<&str>| {
        let said = name.as_deref().or(first);
        said.unwrap_or_default().to_owned()
    };
    let address = question.client.or_else(|| rule.an_address());
    // Who is not said to be somebody else may be the first of those that it names.
    let role = said(&question.role, role.iter().next());
    let application = said(&question.application, application.iter().next());
    let driver = said(&question.driver, driver.iter().next());
    let who = Who {
        role: Role::Named(&role),
        address: address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        application: &application,
        driver: &driver,
    };
    rule.takes(&who) != Fits::No
}

/// For whom a rule is, where that is not said.
fn left_open(rule: &RuleSettings, question: &Question) -> Vec<String> {
    let lists = [
        ("role", &rule.role, question.role.is_some()),
        ("client", &rule.client, question.client.is_some()),
        (
            "application",
            &rule.application,
            question.application.is_some(),
        ),
        ("driver", &rule.driver, question.driver.is_some()),
    ];
    let open = lists
        .into_iter()
        .filter(|(_, names, is_said)| !is_said && !names.is_empty());
    open.map(|(what, names, _)| format!("{what} {}", names.0.join(", ")))
        .collect()
}

/// Where it goes.
fn route(
    snapshot: &Snapshot,
    facts: &Facts,
    parts: &[Part<'_>],
    class: Class,
    is_placed: bool,
) -> String {
    if parts.iter().any(|part| part.nature == Nature::NodeLocal) {
        return "to the node of the control connection, so that all clients see the same"
            .to_owned();
    }
    if is_placed {
        return "to an owner of its partition".to_owned();
    }
    let key_of = |part: &Part<'_>| snapshot.schema().partition_key(part.keyspace?, part.table?);
    let Some(first) = parts.first() else {
        return "to any node".to_owned();
    };
    let Some(key) = key_of(first) else {
        return "to any node: its table is not known here".to_owned();
    };
    let facts = facts.inner.first().unwrap_or(facts);
    let has = |name: &str| {
        facts
            .key_terms
            .iter()
            .any(|term| term.column.as_str() == name)
    };
    let missing: Vec<&str> = key
        .iter()
        .map(|column| &*column.name)
        .filter(|name| !has(name))
        .collect();
    match (missing.is_empty(), class) {
        (true, _) => "to an owner of its partition, if the values of its key are bound".to_owned(),
        (_, Class::Multi) => "to any node, or its keys to their owners".to_owned(),
        _ => format!(
            "to any node, or its ranges to their owners: it does not say what {} equals",
            missing.join(" and ")
        ),
    }
}

/// How it is carried out.
fn execution(
    config: &Config,
    snapshot: &Snapshot,
    statement: &Statement,
    parts: &[Part<'_>],
    class: Class,
) -> String {
    let (facts, scheduling) = (&statement.facts, &config.scheduling);
    let part = parts.first();
    let table = part.and_then(|part| Some((part.keyspace?, part.table?)));
    let Some(select) = facts.select.as_deref() else {
        return match facts.lwt && config.aggregation.lwt_turns {
            true => "in one, when it is its turn among the conditional writes of its partition"
                .to_owned(),
            false => "in one".to_owned(),
        };
    };
    match class {
        Class::Scan if folds(statement, select, table, snapshot) && scheduling.in_parts() => {
            "as an aggregate of parallel ranges of the ring, which are computed apart".to_owned()
        }
        Class::Scan if !comes_in_pieces(select) || !scheduling.in_pieces() => {
            "in one: it cannot be cut into sub-pages".to_owned()
        }
        Class::Scan if filters(facts, select) => {
            "in sequential ranges of the ring, because it filters".to_owned()
        }
        Class::Scan if scheduling.in_parts() => {
            let rows = scheduling.parallel_rows;
            format!("in sub-pages; pages of {rows} rows and more in parallel ranges of the ring")
        }
        Class::Scan => "in sub-pages".to_owned(),
        Class::Multi => {
            let key = table
                .and_then(|(keyspace, table)| snapshot.schema().partition_key(keyspace, table));
            match key.and_then(|key| InKeys::of(facts, key)) {
                Some(_) => {
                    "in one; if it is prepared, its keys are asked of their owners".to_owned()
                }
                None => "in one".to_owned(),
            }
        }
        _ => "in one".to_owned(),
    }
}

/// Remarks beside the rest.
fn notes(
    config: &Config,
    snapshot: &Snapshot,
    statement: &Statement,
    parts: &[Part<'_>],
) -> Vec<String> {
    let mut notes = Vec::new();
    let facts = &statement.facts;
    if facts.kind == Kind::Opaque {
        notes.push("Helenus does not understand it and passes it on as it is".to_owned());
    }
    if facts.markers > 0 {
        let markers = facts.markers;
        notes.push(format!(
            "it has {markers} values to be bound, of which nothing is known here"
        ));
    }
    if statement.shareable && config.aggregation.share_reads {
        notes.push("identical reads that wait in the proxy are sent once".to_owned());
    }
    for part in parts {
        let (Some(keyspace), Some(table)) = (part.keyspace, part.table) else {
            if part.table.is_some() {
                notes.push(
                    "its table has no keyspace: --keyspace says which one is in force".to_owned(),
                );
            }
            continue;
        };
        let is_listed = part.nature == Nature::Known && !matches!(facts.kind, Kind::Ddl);
        if snapshot.is_known()
            && is_listed
            && snapshot.schema().partition_key(keyspace, table).is_none()
        {
            notes.push(format!("there is no table {keyspace}.{table}"));
        }
    }
    notes.dedup();
    notes
}

fn table_of(part: &Part<'_>) -> Option<String> {
    let table = quote_identifier(part.table?);
    Some(match part.keyspace {
        Some(keyspace) => format!("{}.{table}", quote_identifier(keyspace)),
        None => table.into_owned(),
    })
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Select => "SELECT",
        Kind::Insert => "INSERT",
        Kind::Update => "UPDATE",
        Kind::Delete => "DELETE",
        Kind::Batch => "BATCH",
        Kind::Use => "USE",
        Kind::Ddl => "schema change",
        Kind::Truncate => "TRUNCATE",
        Kind::Auth => "roles and permissions",
        Kind::Describe => "DESCRIBE",
        Kind::Opaque => "not understood",
    }
}

fn code_name(of: i32) -> &'static str {
    match of {
        code::UNAUTHORIZED => "UNAUTHORIZED",
        code::INVALID => "INVALID",
        _ => "OVERLOADED",
    }
}
