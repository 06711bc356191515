//! Effects of rules in a cluster as it is, for people.

use std::net::IpAddr;
use std::sync::Arc;

use helenus_cql::{Kind, Literal, Term, encode_literal, facts};
use helenus_policy::token::{composite_key, murmur3_token};
use helenus_wire::{Consistency, Reader};
use ipnet::IpNet;

use crate::config::RuleSettings;
use crate::features::rules::{Asked, Refused, Rule};
use crate::session::login::authenticator::reads_password;
use crate::snapshot::Snapshot;

/// A rule's effect on a request.
pub(crate) struct Said {
    /// In words, without its refusal.
    pub does: Vec<String>,
    /// The level at which the request is carried out, if not at its own.
    pub level: Option<Consistency>,
    pub refused: Option<Refused>,
}

impl Rule {
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
        let keyspace = keyspace.iter().next().unwrap_or_default();
        let table = table.iter().next().unwrap_or_default();
        let Some(columns) = snapshot.schema().partition_key(keyspace, table) else {
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

    /// Names in it of things that are not there, as far as the cluster is known: it may match nothing.
    pub fn never_matches(&self, snapshot: &Snapshot) -> Option<String> {
        if !snapshot.is_known() {
            return None;
        }
        let settings = &self.settings;
        if !settings.role.is_empty() && !snapshot.protocol().asks_for_login() {
            return Some("it names a role, and the cluster asks nobody to log in".to_owned());
        }
        if let Some(asks) = snapshot.protocol().authenticate()
            && !settings.role.is_empty()
            && !settings.forbids()
            && Reader::new(asks)
                .string()
                .is_ok_and(|class| !reads_password(class))
        {
            return Some(
                "it names a role, which the nodes' authenticator does not tell".to_owned(),
            );
        }
        // Tables that a node keeps for itself are not listed.
        let listed = |keyspace: &&str| !keyspace.starts_with("system");
        let schema = snapshot.schema();
        let mut keyspaces = settings.keyspace.iter().filter(listed);
        if let Some(missing) = keyspaces.find(|name| !schema.has_keyspace(name)) {
            return Some(format!("there is no keyspace {missing}"));
        }
        let is_in =
            |keyspace: &str, table: &str| !listed(&keyspace) || schema.has_table(keyspace, table);
        let is_there = |table: &&str| settings.keyspace.iter().any(|of| is_in(of, table));
        let missing = settings.table.iter().find(|table| !is_there(table));
        if let Some(missing) = missing {
            let keyspaces: Vec<&str> = settings.keyspace.iter().collect();
            return Some(format!(
                "there is no table {}.{missing}",
                keyspaces.join(" or ")
            ));
        }
        self.token(snapshot).err()
    }

    /// An address that it is for, if it names some.
    pub(crate) fn an_address(&self) -> Option<IpAddr> {
        self.settings.networks().first().map(IpNet::addr)
    }

    /// Its effect on such a request.
    pub(crate) fn says(&self, asked: &Asked) -> Said {
        let settings = &self.settings;
        let mut said = Vec::new();
        let mut level = None;
        let mut refused = None;
        match self.may(asked) {
            Ok(Some(instead)) => {
                said.push(format!("carried out at {}", instead.name()));
                level = Some(instead);
            }
            Ok(None) => {
                if settings.read_only {
                    said.push("passes, as it only reads".to_owned());
                }
                if let Some(own) = asked.level.filter(|_| settings.bounds_consistency()) {
                    said.push(format!("passes at {}", own.name()));
                }
            }
            Err(why) => refused = Some(why),
        }
        let mut limits = |limit: Option<String>| said.extend(limit);
        limits(
            settings
                .requests_per_second
                .map(|n| format!("{n} requests per second")),
        );
        limits(
            settings
                .bytes_per_second
                .map(|n| format!("{n} bytes per second")),
        );
        limits(
            settings
                .in_flight
                .map(|n| format!("{n} requests at a time")),
        );
        let time = settings.timeout_ms.filter(|_| asked.is_about_rows);
        limits(time.map(|ms| format!("given up after {ms} ms")));
        limits(
            settings
                .last
                .then(|| "no rule behind it is looked at".to_owned()),
        );
        Said {
            does: said,
            level,
            refused,
        }
    }
}

/// Why nothing reaches a rule: one of those before it ends all that it matches.
pub fn shadowed_by(rule: &Rule, rules: &[Arc<Rule>]) -> Option<String> {
    let settings = &rule.settings;
    let mut before = rules
        .iter()
        .map(|other| &other.settings)
        .take_while(|other| other.name != settings.name);
    let ends = before.find(|other| other.ends() && other.covers(settings))?;
    let name = &ends.name;
    Some(format!("rule {name:?} before it ends all that it matches"))
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
