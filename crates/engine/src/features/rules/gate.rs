//! Which rules a request must obey.
//!
//! Without rules this costs one look at an empty list. With some, who asks is judged once for each client; a
//! request is compared with the rules that may be about its client: first the token, then table, class and
//! statement, of which the text is read once for each statement that comes as far as that.
//!
//! A request of several statements is compared statement by statement: what ends the list for one says nothing
//! of the others. A statement that is not understood matches rules that forbid, and no rule that only limits.

use std::sync::Arc;
use std::time::Instant;

use helenus_cql::Kind;
use helenus_wire::Consistency;

use crate::config::rules::RULES_MAX;
use crate::config::rules::classes::Classes;
use crate::features::rules::{Asked, Fits, OfClient, Permit, Places, Refused, Rule, Who};
use crate::snapshot::Snapshot;
use crate::statement::number::statement_number;
use crate::statement::prepared::{Statement, is_node_local};

/// One statement of a request, as rules look at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub nature: Nature,
    pub kind: Kind,
    pub keyspace: Option<&'a str>,
    pub table: Option<&'a str>,
    /// Only where a rule asks for it.
    pub classes: Classes,
    pub text: PartText<'a>,
    /// Of the partition's key, if that is known.
    pub token: Option<i64>,
}

/// The proxy's knowledge of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Everything that rules ask about.
    Known,
    /// It reads what nodes know of themselves, as drivers do: only for rules that name its keyspace.
    NodeLocal,
    /// It sets up or describes: no rule is about it.
    Passes,
    /// Its text, which is not understood.
    Opaque,
    /// Nothing: only nodes know what it was prepared from.
    Unknown,
}

/// The text by which a statement is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PartText<'a> {
    None,
    Of(&'a Statement),
    /// One of several in a text.
    Inner(&'a str),
}

/// A rule as a worker compares requests with it.
struct Matcher {
    rule: Arc<Rule>,
    /// None if it goes for any partition.
    token: Option<i64>,
    /// Something that it names is not there: nothing matches.
    is_void: bool,
}

/// The rules that one worker's requests must obey.
#[derive(Default)]
pub(crate) struct RuleGate {
    matchers: Vec<Matcher>,
    /// Of these rules: clients that were judged by others are judged again.
    generation: u32,
    naming_clients: Places,
    naming_statements: Places,
    naming_partitions: Places,
    naming_classes: Places,
    forbidding: Places,
    /// Forbidding, and about what nodes know of themselves: no rule that names no keyspace is an exception to these.
    forbidding_node_local: Places,
    /// Nothing that they are about reaches a rule behind them, whatever is asked.
    ending: Places,
}

/// How a request goes on.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    pub permits: Vec<Permit>,
    /// The level at which it is carried out, if not at its own.
    pub level: Option<Consistency>,
}

impl RuleGate {
    /// Puts these in force.
    pub(crate) fn adopt(&mut self, rules: Vec<Arc<Rule>>, snapshot: &Snapshot) {
        self.generation = self.generation.wrapping_add(1).max(1);
        let matcher = |rule: Arc<Rule>| {
            let mut matcher = Matcher {
                is_void: false,
                token: None,
                rule,
            };
            matcher.find_token(snapshot);
            matcher
        };
        self.matchers = rules.into_iter().take(RULES_MAX).map(matcher).collect();
        self.naming_clients = self.places(|rule| rule.settings.names_clients());
        self.naming_statements = self.places(|rule| {
            // Rules about reading and writing need to know the statement as well.
            let settings = &rule.settings;
            settings.names_statements() || settings.read_only || settings.bounds_consistency()
        });
        self.naming_partitions = self.places(|rule| rule.settings.names_partition());
        self.naming_classes = self.places(|rule| !rule.classes().is_none());
        self.forbidding = self.places(|rule| rule.settings.forbids());
        self.forbidding_node_local = self.places(|rule| {
            let settings = &rule.settings;
            settings.forbids() && settings.keyspace.iter().any(is_node_local)
        });
        self.ending = self.places(|rule| {
            let settings = &rule.settings;
            settings.last && !settings.names_statements()
        });
    }

    /// Tables may be new, or others: partitions that are named by their keys may be, too.
    pub(crate) fn adopt_snapshot(&mut self, snapshot: &Snapshot) {
        for matcher in &mut self.matchers {
            if !matcher.rule.settings.key.is_empty() {
                matcher.find_token(snapshot);
            }
        }
    }

    fn places(&self, is_so: impl Fn(&Rule) -> bool) -> Places {
        let matchers = self.matchers.iter().enumerate();
        let so = matchers.filter(|(_, of)| is_so(&of.rule));
        so.fold(0, |places, (at, _)| places | place(at))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.matchers.is_empty()
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// The rules that may be about what a client asks; `None`: about a client of whom nothing is known.
    pub(crate) fn of_client(&self, who: Option<&Who<'_>>) -> OfClient {
        let Some(who) = who.filter(|_| self.naming_clients != 0) else {
            return OfClient {
                may: self.places(|_| true),
                unsure: 0,
            };
        };
        OfClient {
            may: self.places(|rule| rule.takes(who) != Fits::No),
            unsure: self.places(|rule| rule.takes(who) == Fits::Perhaps),
        }
    }

    /// True if one of these is about partitions.
    pub(crate) fn names_partitions(&self, among: Places) -> bool {
        self.naming_partitions & among != 0
    }

    /// True if one of these is about classes.
    pub(crate) fn names_classes(&self, among: Places) -> bool {
        self.naming_classes & among != 0
    }

    /// A rule among these that may forbid a statement that nobody here knows. That depends on the statement,
    /// or on exceptions.
    pub(crate) fn needs_to_know(&self, of: OfClient) -> Option<&Rule> {
        let ends = self.ending & of.may & !of.unsure;
        let reached = match ends & ends.wrapping_neg() {
            0 => Places::MAX,
            first => first | (first - 1),
        };
        let among = of.may & (reached | self.forbidding_node_local);
        if self.naming_statements & among == 0 {
            return None;
        }
        let first = (self.forbidding & among).trailing_zeros();
        let rule = self.matchers.get(first as usize);
        rule.map(|of| &*of.rule)
    }

    /// Of the rules that may be about a client, those that are about its request.
    pub(crate) fn fitting(&self, of: OfClient, parts: &[Part<'_>]) -> Places {
        let is_sure = |at| of.unsure & place(at) == 0;
        self.fitting_until(of.may, parts, |at, rule| rule.settings.last && is_sure(at))
    }

    /// [`RuleGate::fitting`], if something else says where the list ends for what a rule matches.
    pub(crate) fn fitting_until(
        &self,
        among: Places,
        parts: &[Part<'_>],
        ends: impl Fn(usize, &Rule) -> bool,
    ) -> Places {
        let mut fitting = 0;
        for part in parts {
            for (at, matcher) in self.at(among) {
                let fits = matcher.fits(part);
                if fits == Fits::No {
                    continue;
                }
                fitting |= place(at);
                // A rule that only may fit does not end the search.
                if fits == Fits::Yes && ends(at, &matcher.rule) {
                    break;
                }
            }
        }
        fitting
    }

    /// Asks rules whether a request may pass.
    ///
    /// # Errors
    /// Why one of them refuses it.
    pub(crate) fn admit(
        &self,
        now: Instant,
        fitting: Places,
        asked: Asked,
    ) -> Result<Admitted, Refused> {
        let mut admitted = Admitted::default();
        let mut asked = asked;
        let (mut counted, mut rewriting) = (0, 0);
        for (at, matcher) in self.at(fitting) {
            let rule = &matcher.rule;
            let mut why = None;
            match rule.admit(now, &asked) {
                Ok(passed) => {
                    admitted.permits.extend(passed.permit);
                    if let Some(level) = passed.level {
                        why = self.contradiction(rule, level, counted);
                        (admitted.level, asked.level) = (passed.level, passed.level);
                        rewriting |= place(at);
                    }
                    if passed.is_counted {
                        counted |= place(at);
                    }
                }
                Err(refused) => why = Some(refused),
            }
            if let Some(why) = why {
                let taken = self.at(counted);
                taken.for_each(|(_, of)| of.rule.give_back(&asked));
                return Err(why);
            }
        }
        for (_, of) in self.at(rewriting) {
            of.rule.note_rewritten();
        }
        Ok(admitted)
    }

    /// Why a request cannot be carried out at the level that a rule wants for it: one of those before it does not
    /// allow that.
    fn contradiction(&self, rule: &Rule, level: Consistency, before: Places) -> Option<Refused> {
        let mut before = self.at(before);
        let (_, of) = before.find(|(_, of)| !of.rule.keeps(level))?;
        Some(rule.contradicts(level, &of.rule))
    }

    /// Rules at these places, in their order.
    fn at(&self, places: Places) -> impl Iterator<Item = (usize, &Matcher)> {
        let mut left = places;
        std::iter::from_fn(move || {
            let at = left.trailing_zeros() as usize;
            left &= left.checked_sub(1)?;
            Some((at, self.matchers.get(at)?))
        })
    }

    /// The rules at these places, in their order.
    pub(crate) fn rules(&self, places: Places) -> impl Iterator<Item = (usize, &Arc<Rule>)> {
        self.at(places).map(|(at, of)| (at, &of.rule))
    }
}

fn place(at: usize) -> Places {
    1_u64.checked_shl(at as u32).unwrap_or(0)
}

impl Matcher {
    /// Finds the partition that it names.
    fn find_token(&mut self, snapshot: &Snapshot) {
        let token = self.rule.token(snapshot);
        self.is_void = token.is_err();
        self.token = token.unwrap_or(None);
    }

    fn fits(&self, part: &Part<'_>) -> Fits {
        let settings = &self.rule.settings;
        let is_token = self.token.is_none() || self.token == part.token;
        if self.is_void || !is_token || part.nature == Nature::Passes {
            return Fits::No;
        }
        if part.nature == Nature::NodeLocal && settings.keyspace.is_empty() {
            return Fits::No;
        }
        let is_class = self.rule.classes().is_none() || self.rule.classes().has_any(part.classes);
        let is_text = || self.rule.statement().is_none_or(|own| part.text.is(own));
        let is_keyspace = settings.keyspace.takes(part.keyspace);
        if is_keyspace && is_class && settings.table.takes(part.table) && is_text() {
            return Fits::Yes;
        }
        if !settings.forbids() {
            return Fits::No;
        }
        let is_known = !matches!(part.nature, Nature::Opaque | Nature::Unknown);
        let is_of_all = is_keyspace && is_class && part.is_of_keyspace();
        // Nobody gets around what is forbidden by asking so that it is not understood.
        match !is_known && part.text.is_none() || (!is_known || is_of_all) && is_text() {
            true => Fits::Perhaps,
            false => Fits::No,
        }
    }
}

impl Part<'_> {
    /// True if it defines something of a whole keyspace, of which its tables are part.
    fn is_of_keyspace(&self) -> bool {
        self.kind == Kind::Ddl && self.table.is_none()
    }
}

impl PartText<'_> {
    fn is(self, number: u64) -> bool {
        match self {
            PartText::None => false,
            PartText::Of(statement) => statement.number() == number,
            PartText::Inner(text) => statement_number(text) == number,
        }
    }

    fn is_none(self) -> bool {
        matches!(self, PartText::None)
    }
}
