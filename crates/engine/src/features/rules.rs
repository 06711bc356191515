//! Rules as all workers share them: what they forbid and limit, what has been used of that, and counters.
//!
//! Exact: rate and places are one atomic number each for all workers of a proxy. Proxies do not know of each
//! other: with `n` of them, give each an `n`th.

mod advice;
mod check;
pub mod explain;
mod gate;
mod published;
mod seen;
mod used;
mod who;

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_policy::limit::{ByteRate, Rate};
use helenus_wire::{Consistency, code};
use ipnet::IpNet;

use crate::config::RuleSettings;
use crate::config::rules::classes::Classes;
use crate::config::rules::levels::{level, strength};
use crate::statement::number::statement_number;
use crate::stats::{add, sub};

pub(crate) use self::advice::Said;
pub use self::advice::shadowed_by;
pub(super) use self::check::{leak_check, on_follower, on_request, on_settings, on_snapshot};
/// A worker's state.
pub(super) use self::gate::RuleGate as State;
pub use self::published::Rules;
pub use self::used::RuleCounts;
use self::used::Used;
pub(crate) use self::who::{Fits, OfClient, Places, Role, Who};

/// State of a client request: permits of the rules that it has passed, and those of the requests that get its answer.
#[derive(Debug, Default)]
pub(crate) struct Slot(Vec<Permit>);
/// State of a client: the rules that may be about its requests, and of which generation these rules are; 0: not
/// known.
pub(super) type InSession = (u32, OfClient);

/// A rule in force.
#[derive(Debug)]
pub struct Rule {
    pub settings: RuleSettings,
    networks: Vec<IpNet>,
    classes: Classes,
    /// Its statement, to be compared.
    statement: Option<u64>,
    rate: Option<Arc<Rate>>,
    bytes: Option<Arc<ByteRate>>,
    levels: [Option<Consistency>; 2],
    used: Arc<Used>,
}

/// Properties of a request that rules look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub is_read: bool,
    /// Its consistency level, if it may read or write rows.
    pub level: Option<Consistency>,
    /// It reads or writes rows, and nothing else.
    pub is_about_rows: bool,
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
    fn new(settings: RuleSettings, now: Instant) -> Rule {
        Rule::of(settings, Arc::new(Used::new(now)))
    }

    fn of(settings: RuleSettings, used: Arc<Used>) -> Rule {
        let named = |name: &Option<String>| name.as_deref().and_then(level);
        let rate = settings.requests_per_second.map(Rate::new);
        let bytes = settings.bytes_per_second.map(ByteRate::new);
        Rule {
            networks: settings.networks(),
            classes: settings.classes(),
            statement: settings.statement.as_deref().map(statement_number),
            rate: rate.map(Arc::new),
            bytes: bytes.map(Arc::new),
            levels: [
                named(&settings.consistency_min),
                named(&settings.consistency_max),
            ],
            used,
            settings,
        }
    }

    /// The rule with other settings. Debts at a rate that stays are still owed.
    fn with(&self, settings: RuleSettings) -> Rule {
        let mut rule = Rule::of(settings, self.used.clone());
        if rule.settings.requests_per_second == self.settings.requests_per_second {
            rule.rate.clone_from(&self.rate);
        }
        if rule.settings.bytes_per_second == self.settings.bytes_per_second {
            rule.bytes.clone_from(&self.bytes);
        }
        rule
    }

    /// The number of its statement, if it has one ([`statement_number`]).
    pub(crate) fn statement(&self) -> Option<u64> {
        self.statement
    }

    /// The classes that it is about; none: any.
    pub(crate) fn classes(&self) -> Classes {
        self.classes
    }

    /// Its fit with the requests of this client.
    pub(crate) fn takes(&self, who: &Who<'_>) -> Fits {
        let RuleSettings {
            role,
            application,
            driver,
            ..
        } = &self.settings;
        // An IPv4 address is one, however it is written.
        let address = who.address.to_canonical();
        let is_there = |net: &IpNet| net.contains(&address);
        let is_so = application.takes(Some(who.application))
            && driver.takes(Some(who.driver))
            && (self.networks.is_empty() || self.networks.iter().any(is_there));
        let is_role = match who.role {
            Role::Named(name) => role.takes(Some(name)),
            Role::Nobody => role.takes(None),
            Role::Unknown if role.is_empty() => true,
            // It might be this role.
            Role::Unknown if is_so && self.settings.forbids() => return Fits::Perhaps,
            Role::Unknown => false,
        };
        match is_so && is_role {
            true => Fits::Yes,
            false => Fits::No,
        }
    }

    /// Requests under way that hold a place of it.
    pub fn in_flight(&self) -> u32 {
        self.used.places.now()
    }

    /// Its counts so far.
    pub fn counts(&self, now: Instant) -> RuleCounts {
        self.used.counts(now)
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
                let is_timed = asked.is_about_rows && self.settings.timeout_ms.is_some();
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

    /// The level at which such a request is carried out, if not at its own; an error if it is refused.
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

    /// True if a request may be carried out at this level, as far as it goes by this rule.
    pub(crate) fn keeps(&self, level: Consistency) -> bool {
        let asked = Asked {
            is_read: true,
            level: Some(level),
            is_about_rows: true,
            bytes: 0,
        };
        self.settings.warn || matches!(self.may(&asked), Ok(None))
    }

    /// It would have a request carried out at a level that a rule before it does not allow.
    pub(crate) fn contradicts(&self, level: Consistency, before: &Rule) -> Refused {
        add(&self.used.refused, 1);
        self.refused(
            code::INVALID,
            format_args!(
                "carries this out at {}, which rule {:?} does not allow: change one of them",
                level.name(),
                before.settings.name
            ),
        )
    }

    /// A request is carried out at another level than its own.
    pub(crate) fn note_rewritten(&self) {
        add(&self.used.rewritten, 1);
    }

    /// Why it refuses what it cannot tell whether it is about; that counts.
    pub(crate) fn cannot_tell(&self) -> String {
        add(&self.used.unprepared, 1);
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

/// A request's part in a rule until it ends: its place, the bytes that its answer takes, the time that it may take.
/// Dropped, it gives the place back.
#[derive(Debug)]
pub(crate) struct Permit {
    rule: Arc<Rule>,
    has_place: bool,
    is_timed: bool,
}

impl Permit {
    /// The request is answered with so many bytes.
    fn note_answer(&self, bytes: usize, now: Instant) {
        self.rule.note_bytes(bytes, self.rule.used.passed_ns(now));
    }

    /// How long the request may take, and the rule's name.
    fn time_max(&self) -> Option<(Duration, &str)> {
        let settings = &self.rule.settings;
        let ms = settings.timeout_ms.filter(|_| self.is_timed)?;
        Some((Duration::from_millis(ms), &settings.name))
    }

    /// The request is given up because it has had its time.
    fn note_timed_out(&self) {
        add(&self.rule.used.timed_out, 1);
    }

    fn give_back(&mut self) {
        if std::mem::take(&mut self.has_place) {
            self.rule.used.places.give_back();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Slot {
    /// True if the request has a time of its own: who shares it would have that.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        self.0.iter().any(|permit| permit.is_timed)
    }

    /// Why it is given up, in words, if it has taken longer than a rule allows; that counts.
    pub(super) fn why_late(&self, age: Duration) -> Option<String> {
        let of_rules = self.0.iter();
        let of_rules = of_rules.filter_map(|permit| Some((permit, permit.time_max()?)));
        let (permit, (limit, rule)) = of_rules.min_by_key(|(_, (limit, _))| *limit)?;
        if age < limit {
            return None;
        }
        permit.note_timed_out();
        Some(format!(
            "Helenus: rule {rule:?} allows {limit:?} for such a request"
        ))
    }

    /// It is answered with so many bytes.
    #[inline]
    pub(super) fn on_reply(&self, bytes: usize, now: Instant) {
        for permit in &self.0 {
            permit.note_answer(bytes, now);
        }
    }

    /// The permits left when the request gets the answer of another: they hold no place, and count its bytes.
    fn of_follower(mut self) -> Vec<Permit> {
        self.0.retain_mut(|permit| {
            permit.give_back();
            permit.rule.bytes.is_some()
        });
        self.0
    }
}

#[cfg(test)]
mod tests;
