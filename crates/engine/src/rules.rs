//! Rules as all workers share them: what they forbid and limit, what has been used of that, and counters.
//!
//! Exact: rate and places are one atomic number each for all workers of a proxy. Proxies do not know of each
//! other: with `n` of them, give each an `n`th.

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use helenus_cql::{Kind, Literal, Term, encode_literal, facts};
use helenus_policy::limit::{ByteRate, InFlight, Lately, Rate};
use helenus_policy::token::{composite_key, murmur3_token};
use helenus_wire::{Consistency, code};
use ipnet::IpNet;

use crate::config::RuleSettings;
use crate::config::rules::classes::Classes;
use crate::config::rules::levels::{level, strength};
use crate::config::rules::plain;
use crate::snapshot::Snapshot;
use crate::stats::{add, sub};

/// A rule in force.
#[derive(Debug)]
pub struct Rule {
    pub settings: RuleSettings,
    networks: Vec<IpNet>,
    classes: Classes,
    /// Its statement, to be compared.
    statement: Option<u64>,
    rate: Option<Rate>,
    bytes: Option<ByteRate>,
    levels: [Option<Consistency>; 2],
    used: Arc<Used>,
}

/// What has been used of a rule, and counted. It outlives changes of the rule's settings.
#[derive(Debug)]
struct Used {
    began: Instant,
    places: InFlight,
    lately: Lately,
    matched: AtomicU64,
    refused: AtomicU64,
    would_refuse: AtomicU64,
    bytes: AtomicU64,
}

/// What a rule has counted since the proxy knows it by name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RuleCounts {
    /// Requests that have matched it, and of these those that it has refused, or would have if it were not only
    /// tried out.
    pub matched: u64,
    pub refused: u64,
    pub would_refuse: u64,
    /// Of requests and answers, if it limits them.
    pub bytes: u64,
    /// Requests under way that hold a place of it.
    pub in_flight: u32,
    /// Requests that matched per second in the last few seconds.
    pub per_second: f64,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who<'a> {
    /// Where it can be told.
    pub role: Option<&'a str>,
    pub address: IpAddr,
    pub application: &'a str,
    pub driver: &'a str,
}

/// What rules want to know of a request that they match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub is_read: bool,
    /// Its consistency level, if it reads or writes rows.
    pub level: Option<Consistency>,
    pub bytes: usize,
}

/// Why a request does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub code: i32,
    pub text: String,
}

/// How a request passes a rule.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    pub permit: Option<Permit>,
    /// The level at which it is carried out, if not at its own.
    pub level: Option<Consistency>,
    /// It counts for the rule's rates: the rule does not only pretend to refuse it.
    pub is_counted: bool,
}

impl Rule {
    fn new(settings: RuleSettings, used: Arc<Used>) -> Rule {
        let named = |name: &Option<String>| name.as_deref().and_then(level);
        Rule {
            networks: settings.networks(),
            classes: settings.classes(),
            statement: settings.statement.as_deref().map(statement_number),
            rate: settings.requests_per_second.map(Rate::new),
            bytes: settings.bytes_per_second.map(ByteRate::new),
            levels: [
                named(&settings.consistency_min),
                named(&settings.consistency_max),
            ],
            used,
            settings,
        }
    }

    /// The number of its statement, if it has one ([`statement_number`]).
    pub(crate) fn statement(&self) -> Option<u64> {
        self.statement
    }

    /// The classes that it is about; none: any.
    pub(crate) fn classes(&self) -> Classes {
        self.classes
    }

    /// Whether it may match what this client asks.
    pub(crate) fn takes(&self, who: &Who<'_>) -> bool {
        let RuleSettings {
            role,
            application,
            driver,
            ..
        } = &self.settings;
        let is_there = |net: &IpNet| net.contains(&who.address);
        role.takes(who.role)
            && application.takes(Some(who.application))
            && driver.takes(Some(who.driver))
            && (self.networks.is_empty() || self.networks.iter().any(is_there))
    }

    /// Requests under way that hold a place of it.
    pub fn in_flight(&self) -> u32 {
        self.used.places.now()
    }

    /// What it has counted so far.
    pub fn counts(&self, now: Instant) -> RuleCounts {
        let used = &self.used;
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        RuleCounts {
            matched: count(&used.matched),
            refused: count(&used.refused),
            would_refuse: count(&used.would_refuse),
            bytes: count(&used.bytes),
            in_flight: used.places.now(),
            per_second: used.lately.per_second(used.passed_ns(now)),
        }
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
        let keyspace = keyspace.iter().next().unwrap_or_default();
        let table = table.iter().next().unwrap_or_default();
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

    /// What it names that is not there, as far as the cluster is known: it may match nothing.
    pub fn never_matches(&self, snapshot: &Snapshot) -> Option<String> {
        if !snapshot.is_known() {
            return None;
        }
        let settings = &self.settings;
        if !settings.role.is_empty() && snapshot.authenticate.is_none() {
            return Some("it names a role, and the cluster asks nobody to log in".to_owned());
        }
        // What is a table to a node alone is not listed.
        let listed = |keyspace: &&str| !keyspace.starts_with("system");
        let tables = |keyspace: &str| snapshot.tables.get(keyspace);
        let mut keyspaces = settings.keyspace.iter().filter(listed);
        if let Some(missing) = keyspaces.find(|name| !snapshot.keyspaces.contains_key(*name)) {
            return Some(format!("there is no keyspace {missing}"));
        }
        let is_in = |keyspace: &str, table: &str| {
            !listed(&keyspace) || tables(keyspace).is_some_and(|tables| tables.contains_key(table))
        };
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
        self.networks.first().map(IpNet::addr)
    }

    /// The level at which a request of that level is carried out, if it is not refused.
    pub(crate) fn level_for(&self, level: Consistency) -> Consistency {
        let asked = Asked {
            is_read: true,
            level: Some(level),
            bytes: 0,
        };
        self.may(&asked).ok().flatten().unwrap_or(level)
    }

    /// What it says of a request, in words: whether it would refuse it, and what else.
    pub(crate) fn says(&self, asked: &Asked) -> (Vec<String>, Option<Refused>) {
        let settings = &self.settings;
        let mut said = Vec::new();
        let refused = match self.may(asked) {
            Ok(level) => {
                let level = level.map(|level| format!("carried out at {}", level.name()));
                said.extend(level);
                None
            }
            Err(why) => Some(why),
        };
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
        let time = settings.timeout_ms.filter(|_| asked.level.is_some());
        limits(time.map(|ms| format!("given up after {ms} ms")));
        limits(
            settings
                .last
                .then(|| "no rule behind it is looked at".to_owned()),
        );
        (said, refused)
    }

    /// Lets a request that matches pass, or not.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn admit(self: &Arc<Rule>, now: Instant, asked: &Asked) -> Result<Passed, Refused> {
        let used = &self.used;
        let now_ns = used.passed_ns(now);
        add(&used.matched, 1);
        used.lately.note(now_ns);
        let passed = self
            .may(asked)
            .and_then(|level| Ok((level, self.take(now_ns)?)));
        match passed {
            Ok((level, has_place)) => {
                self.note_bytes(asked.bytes, now_ns);
                // A schema change that is given up halfway would be neither done nor undone.
                let is_timed = asked.level.is_some() && self.settings.timeout_ms.is_some();
                let lasts = has_place || is_timed || self.bytes.is_some();
                let permit = || Permit {
                    rule: self.clone(),
                    has_place,
                    is_timed,
                };
                Ok(Passed {
                    permit: lasts.then(permit),
                    level: level.filter(|_| !self.settings.warn),
                    is_counted: true,
                })
            }
            Err(_) if self.settings.warn => {
                add(&used.would_refuse, 1);
                Ok(Passed::default())
            }
            Err(why) => {
                add(&used.refused, 1);
                Err(why)
            }
        }
    }

    /// Whether such a request may be carried out at all, and at which level if not at its own.
    fn may(&self, asked: &Asked) -> Result<Option<Consistency>, Refused> {
        if let Some(message) = &self.settings.deny {
            return Err(self.refused(code::UNAUTHORIZED, format_args!("denies this: {message}")));
        }
        if self.settings.read_only && !asked.is_read {
            return Err(self.refused(code::UNAUTHORIZED, format_args!("lets only reads pass")));
        }
        let Some(level) = asked.level else {
            return Ok(None);
        };
        let Some(own) = strength(level) else {
            return Ok(None);
        };
        let [min, max] = self.levels;
        let is_too_weak = |of: &Consistency| strength(*of).is_some_and(|of| own < of);
        let is_too_strong = |of: &Consistency| strength(*of).is_some_and(|of| own > of);
        let (instead, bound) = match (min.filter(is_too_weak), max.filter(is_too_strong)) {
            (Some(min), _) => (min, "at least"),
            (_, Some(max)) => (max, "at most"),
            _ => return Ok(None),
        };
        // A read at SERIAL is another read, not a stronger one.
        if self.settings.consistency_rewrite && !level.is_serial() {
            return Ok(Some(instead));
        }
        Err(self.refused(
            code::INVALID,
            format_args!(
                "asks for {bound} {}, and this request is at {}",
                instead.name(),
                level.name()
            ),
        ))
    }

    /// Takes what a request needs; whether it has a place.
    fn take(&self, now_ns: u64) -> Result<bool, Refused> {
        let overloaded = |what| self.refused(code::OVERLOADED, what);
        if let Some(bytes) = &self.bytes
            && !bytes.is_open(now_ns)
        {
            let most = self.settings.bytes_per_second.unwrap_or(0);
            return Err(overloaded(format_args!(
                "allows {most} bytes per second, and more was used"
            )));
        }
        let places = &self.used.places;
        if let Some(max) = self.settings.in_flight
            && !places.try_take(max)
        {
            return Err(overloaded(format_args!(
                "allows {max} such requests at a time"
            )));
        }
        let has_place = self.settings.in_flight.is_some();
        if self.rate.as_ref().is_some_and(|rate| !rate.takes(now_ns)) {
            if has_place {
                places.give_back();
            }
            let rate = self.settings.requests_per_second.unwrap_or(0.0);
            return Err(overloaded(format_args!(
                "allows {rate} such requests per second"
            )));
        }
        Ok(has_place)
    }

    fn refused(&self, code: i32, what: std::fmt::Arguments<'_>) -> Refused {
        let text = format!("Helenus: rule {:?} {what}", self.settings.name);
        Refused { code, text }
    }

    /// Why it refuses what it cannot tell whether it is about.
    pub(crate) fn cannot_tell(&self) -> String {
        let name = &self.settings.name;
        format!(
            "Helenus: rule {name:?} may forbid this statement, which Helenus does not know: prepare it again"
        )
    }

    fn note_bytes(&self, bytes: usize, now_ns: u64) {
        if let Some(rate) = &self.bytes {
            rate.charge(bytes, now_ns);
            add(&self.used.bytes, bytes as u64);
        }
    }

    /// A request that was admitted is refused by another rule, and counts for nothing here.
    pub(crate) fn give_back(&self, asked: &Asked) {
        if let Some(rate) = &self.rate {
            rate.give_back();
        }
        if let Some(rate) = &self.bytes {
            rate.give_back(asked.bytes);
            sub(&self.used.bytes, asked.bytes as u64);
        }
    }
}

impl Used {
    fn new(now: Instant) -> Used {
        Used {
            began: now,
            places: InFlight::default(),
            lately: Lately::default(),
            matched: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            would_refuse: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    fn passed_ns(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_nanos() as u64
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

/// The same for statements that differ in white space and comments only.
pub(crate) fn statement_number(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    plain(text).hash(&mut hasher);
    hasher.finish()
}

/// What a request that has passed a rule has of it until it ends: its place, the bytes that its answer takes, the
/// time that it may take. Dropped, it gives the place back.
#[derive(Debug)]
pub(crate) struct Permit {
    rule: Arc<Rule>,
    has_place: bool,
    is_timed: bool,
}

impl Permit {
    /// The request is answered with so many bytes.
    pub(crate) fn note_answer(&self, bytes: usize, now: Instant) {
        self.rule.note_bytes(bytes, self.rule.used.passed_ns(now));
    }

    /// How long the request may take, and the rule's name.
    pub(crate) fn time_max(&self) -> Option<(Duration, &str)> {
        let settings = &self.rule.settings;
        let ms = settings.timeout_ms.filter(|_| self.is_timed)?;
        Some((Duration::from_millis(ms), &settings.name))
    }
}

/// Whether a request has a time of its own.
#[inline]
pub(crate) fn is_timed(permits: &[Permit]) -> bool {
    permits.iter().any(|permit| permit.is_timed)
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.has_place {
            self.rule.used.places.give_back();
        }
    }
}

/// The rules of one proxy. One whose settings stay keeps what was used of it; one that is called as before keeps
/// its counters and the places that requests under way hold.
#[derive(Debug, Default)]
pub struct Rules(Mutex<Vec<Arc<Rule>>>);

impl Rules {
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
                Some(rule) => Arc::new(Rule::new(settings.clone(), rule.used.clone())),
                None => Arc::new(Rule::new(settings.clone(), Arc::new(Used::new(now)))),
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
