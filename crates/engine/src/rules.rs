//! Rules as all workers share them: limits, what has been used of them, and counters.
//!
//! Exact: rate and places are one atomic number each for all workers of a proxy. Proxies do not know of each
//! other: with `n` of them, give each an `n`th.

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use helenus_cql::{Kind, Literal, Term, encode_literal, facts};
use helenus_policy::limit::{InFlight, Rate};
use helenus_policy::token::{composite_key, murmur3_token};

use crate::config::RuleSettings;
use crate::config::rules::plain;
use crate::snapshot::Snapshot;
use crate::stats::add;

/// A rule in force.
#[derive(Debug)]
pub struct Rule {
    pub settings: RuleSettings,
    /// Its statement, to be compared.
    statement: Option<u64>,
    rate: Option<Rate>,
    places: Option<InFlight>,
    began: Instant,
    /// Requests that have matched it, and those of them that it has refused.
    pub matched: AtomicU64,
    pub refused: AtomicU64,
}

impl Rule {
    fn new(settings: RuleSettings, now: Instant) -> Rule {
        Rule {
            statement: settings.statement.as_deref().map(statement_number),
            rate: settings.requests_per_second.map(Rate::new),
            places: settings.in_flight.map(InFlight::new),
            began: now,
            matched: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            settings,
        }
    }

    /// The number of its statement, if it has one ([`statement_number`]).
    pub(crate) fn statement(&self) -> Option<u64> {
        self.statement
    }

    /// Requests under way that hold a place of it.
    pub fn in_flight(&self) -> u32 {
        self.places.as_ref().map_or(0, InFlight::now)
    }

    /// The token of the partition that it names; None if it names none.
    ///
    /// # Errors
    /// Its key cannot be that of its table, as far as that is known.
    pub fn token(&self, snapshot: &Snapshot) -> Result<Option<i64>, String> {
        let RuleSettings {
            keyspace,
            table,
            key,
            token,
            ..
        } = &self.settings;
        if key.is_empty() {
            return Ok(*token);
        }
        let keyspace = keyspace.as_deref().unwrap_or_default();
        let table = table.as_deref().unwrap_or_default();
        let Some(columns) = snapshot.partition_key(keyspace, table) else {
            return Err(format!("there is no table {keyspace}.{table}"));
        };
        if columns.len() != key.len() {
            let (has, given) = (columns.len(), key.len());
            return Err(format!(
                "the partition key of {keyspace}.{table} has {has} columns, not {given}"
            ));
        }
        let mut values = Vec::new();
        for (column, literal) in columns.iter().zip(key) {
            let read = literal_of(literal);
            let value = read.and_then(|read| encode_literal(&read, &column.cql_type));
            let unfit = || format!("{literal} is no literal of type {}", column.cql_type);
            values.push(value.ok_or_else(unfit)?);
        }
        let mut routing_key = Vec::new();
        if !composite_key(values.iter().map(Vec::as_slice), &mut routing_key) {
            return Err("the key is too long".to_owned());
        }
        Ok(Some(murmur3_token(&routing_key)))
    }

    /// Lets a request that matches pass, or not.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn admit(self: &Arc<Rule>, now: Instant) -> Result<Option<Permit>, String> {
        add(&self.matched, 1);
        let passed = now.saturating_duration_since(self.began).as_nanos() as u64;
        let name = &self.settings.name;
        let permit = match &self.places {
            Some(places) if !places.try_take() => {
                add(&self.refused, 1);
                let max = self.settings.in_flight.unwrap_or(0);
                return Err(format!(
                    "Helenus: rule {name:?} allows {max} such requests at a time"
                ));
            }
            Some(_) => Some(Permit(self.clone())),
            None => None,
        };
        // What it refuses takes no place: the permit is dropped.
        if self.rate.as_ref().is_some_and(|rate| !rate.takes(passed)) {
            add(&self.refused, 1);
            let rate = self.settings.requests_per_second.unwrap_or(0.0);
            return Err(format!(
                "Helenus: rule {name:?} allows {rate} such requests per second"
            ));
        }
        Ok(permit)
    }
}

impl Rule {
    /// A request that was admitted is refused by another rule, and counts for nothing here.
    pub(crate) fn give_back(&self) {
        if let Some(rate) = &self.rate {
            rate.give_back();
        }
    }
}

/// A literal as CQL writes it.
fn literal_of(text: &str) -> Option<Literal> {
    let facts = facts(&format!("SELECT a FROM t WHERE k = {text}"));
    let mut terms = facts.key_terms.into_iter();
    match (facts.kind, terms.next(), terms.next()) {
        (Kind::Select, Some(of), None) => match of.term {
            Term::Literal(literal) => Some(literal),
            _ => None,
        },
        _ => None,
    }
}

/// The same for statements that differ in white space and comments only.
pub(crate) fn statement_number(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    plain(text).hash(&mut hasher);
    hasher.finish()
}

/// A place under a rule's limit, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Rule>);

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(places) = &self.0.places {
            places.give_back();
        }
    }
}

/// The rules of one proxy. One whose settings stay keeps what was used of it.
#[derive(Debug, Default)]
pub struct Rules(Mutex<Vec<Arc<Rule>>>);

impl Rules {
    /// Puts these in force, for all workers: each looks at [`Rules::list`] when it is told of the settings. So all
    /// of them have the same rules, whatever other settings they have been told of meanwhile.
    pub fn publish(&self, settings: &[RuleSettings], now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = settings.iter().map(|settings| {
            let same = known.iter().find(|rule| rule.settings == *settings);
            let made = || Arc::new(Rule::new(settings.clone(), now));
            same.cloned().unwrap_or_else(made)
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
