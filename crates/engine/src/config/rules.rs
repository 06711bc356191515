//! Rules: what requests may do, and how much of it.

pub(crate) mod classes;
pub(crate) mod levels;
mod names;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use helenus_cql::fold_identifier;
use helenus_cql::lexer::{Lexer, TokenKind};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use self::classes::Classes;
use self::levels::{level, strength};
pub use self::names::Names;

/// More would be looked through with every request.
pub(crate) const RULES_MAX: usize = 64;
/// Of a rule's name, in bytes: it is in every message about it, and a label of metrics.
const NAME_MAX: usize = 100;
/// A longer time than any that a request is given without rules, in milliseconds.
const TIMEOUT_MS_MAX: u64 = 600_000;
/// Of an IPv6 address, before the IPv4 address that it stands for.
const MAPPED_BITS: u8 = 96;

/// What requests may do that match all that it names: see [Limits](limits.md). In a file, each rule is a `[[rules]]`
/// of its own; there is no environment variable or flag for them. `role`, `client`, `application`, `driver`,
/// `keyspace`, `table` and `class` are one name or a list.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RuleSettings {
    /// Its name in messages, metrics and `/api/rules`; at most 100 bytes.
    pub name: String,
    /// Every request: needed by a rule that names nothing else.
    #[serde(skip_serializing_if = "is_off")]
    pub all: bool,
    /// Clients that have logged in as this role.
    #[serde(skip_serializing_if = "Names::is_empty")]
    pub role: Names,
    /// Clients in this network (`"10.1.0.0/16"`, `"2001:db8::/32"`, or an address).
    #[serde(skip_serializing_if = "Names::is_empty")]
    pub client: Names,
    /// Clients that call themselves so in STARTUP (APPLICATION_NAME).
    #[serde(skip_serializing_if = "Names::is_empty")]
    pub application: Names,
    /// As `application`, of the driver (DRIVER_NAME).
    #[serde(skip_serializing_if = "Names::is_empty")]
    pub driver: Names,
    /// Requests about tables of this keyspace.
    #[serde(skip_serializing_if = "Names::is_empty")]
    pub keyspace: Names,
    /// Requests about this table; needs `keyspace`.
    #[serde(skip_serializing_if = "Names::is_empty")]
    pub table: Names,
    /// Requests of this class: `read` (`point`, `multi`, `scan`, `filtering`), `write` (`conditional`, `batch`,
    /// `truncate`), `schema`, `roles`, `other`.
    #[serde(skip_serializing_if = "Names::is_empty")]
    pub class: Names,
    /// Requests of this statement, as clients write or prepare it.
    pub statement: Option<String>,
    /// Requests for this partition, as CQL literals of its key (`["'acme'", "7"]`); needs one `keyspace` and one
    /// `table`.
    pub key: Vec<String>,
    /// Requests for the partition with this Murmur3 token, as `helenus top --keys` shows it.
    pub token: Option<i64>,
    /// Nothing passes: UNAUTHORIZED, with this message.
    pub deny: Option<String>,
    /// Only reads pass; the others get UNAUTHORIZED.
    #[serde(skip_serializing_if = "is_off")]
    pub read_only: bool,
    /// Reads and writes at a weaker consistency level get INVALID.
    pub consistency_min: Option<String>,
    /// As `consistency_min`, of stronger levels.
    pub consistency_max: Option<String>,
    /// Whether such requests are carried out at that level in place of being refused.
    #[serde(skip_serializing_if = "is_off")]
    pub consistency_rewrite: bool,
    /// Reads and writes that take longer get a time-out; 100 to 600000, at most `limits.request_timeout_ms`.
    pub timeout_ms: Option<u64>,
    /// Requests a second; further ones get OVERLOADED.
    pub requests_per_second: Option<f64>,
    /// Bytes of requests and answers a second. What exceeds it is owed: until that is paid, requests get OVERLOADED.
    pub bytes_per_second: Option<u64>,
    /// Requests under way at a time; further ones get OVERLOADED.
    pub in_flight: Option<u32>,
    /// Whether no further rule is looked at for what this one matches.
    #[serde(skip_serializing_if = "is_off")]
    pub last: bool,
    /// Tries the rule out: it counts what it would refuse, and refuses nothing.
    #[serde(skip_serializing_if = "is_off")]
    pub warn: bool,
}

/// A setting that is off need not be written.
fn is_off(is_on: &bool) -> bool {
    !is_on
}

impl RuleSettings {
    /// The networks that it names; what is no network is left out.
    pub(crate) fn networks(&self) -> Vec<IpNet> {
        self.client.iter().filter_map(network).collect()
    }

    /// The classes that it names; none: any.
    pub(crate) fn classes(&self) -> Classes {
        Classes::of(self.class.iter()).unwrap_or_default()
    }

    /// True if a property of a statement decides if it matches, such as its table, class or text.
    pub(crate) fn names_statements(&self) -> bool {
        self.names_partition()
            || self.statement.is_some()
            || [&self.keyspace, &self.table, &self.class]
                .iter()
                .any(|names| !names.is_empty())
    }

    pub(crate) fn names_partition(&self) -> bool {
        self.token.is_some() || !self.key.is_empty()
    }

    /// True if the client that asks decides if it matches.
    pub(crate) fn names_clients(&self) -> bool {
        [&self.role, &self.client, &self.application, &self.driver]
            .iter()
            .any(|names| !names.is_empty())
    }

    /// True if it says what may be done, not only how much: nothing may get around it.
    pub fn forbids(&self) -> bool {
        !self.warn && (self.deny.is_some() || self.read_only || self.bounds_consistency())
    }

    pub(crate) fn bounds_consistency(&self) -> bool {
        self.consistency_min.is_some() || self.consistency_max.is_some()
    }

    fn limits(&self) -> bool {
        self.requests_per_second.is_some()
            || self.bytes_per_second.is_some()
            || self.in_flight.is_some()
    }

    /// True if no request that it matches reaches a rule behind it.
    pub(crate) fn ends(&self) -> bool {
        !self.warn && (self.last || self.deny.is_some())
    }

    /// True if it matches everything that the other matches.
    pub(crate) fn covers(&self, other: &RuleSettings) -> bool {
        let covers_networks = {
            let (own, of_other) = (self.networks(), other.networks());
            let is_in = |net: &IpNet| own.iter().any(|own| own.contains(net));
            own.is_empty() || !of_other.is_empty() && of_other.iter().all(is_in)
        };
        let (classes, of_other) = (self.classes().with_narrower(), other.classes());
        let covers_classes = classes.is_none() || !of_other.is_none() && classes.has_all(of_other);
        let same_statement = |own: &str| {
            let of_other = other.statement.as_deref();
            of_other.is_some_and(|of| plain(of) == plain(own))
        };
        let covers_partition =
            !self.names_partition() || (&self.key, self.token) == (&other.key, other.token);
        // The keyspaces of nodes about themselves are only matched by name.
        let covers_system = !self.keyspace.is_empty()
            || !other.keyspace.iter().any(|name| name.starts_with("system"));
        covers_networks
            && covers_system
            && covers_classes
            && covers_partition
            && self.statement.as_deref().is_none_or(same_statement)
            && self.role.covers(&other.role)
            && self.application.covers(&other.application)
            && self.driver.covers(&other.driver)
            && self.keyspace.covers(&other.keyspace)
            && self.table.covers(&other.table)
    }

    /// A problem of the requests that it names.
    fn problem_of_match(&self) -> Option<String> {
        let names = self.names_statements() || self.names_clients();
        let lists = [
            ("role", &self.role),
            ("client", &self.client),
            ("application", &self.application),
            ("driver", &self.driver),
            ("keyspace", &self.keyspace),
            ("table", &self.table),
            ("class", &self.class),
        ];
        if let Some((list, _)) = lists.iter().find(|(_, of)| of.has("")) {
            return Some(format!("names an empty {list}: leave it out"));
        }
        if let Some(wrong) = self.client.iter().find(|text| network(text).is_none()) {
            return Some(format!(
                "has the client {wrong:?}, which is no network such as 10.1.0.0/16, and no address"
            ));
        }
        if let Err(wrong) = Classes::of(self.class.iter()) {
            return Some(format!(
                "has the class {wrong:?}, which is none of {}",
                Classes::known()
            ));
        }
        let is_no_one = |names: &Names| names.0.len() != 1;
        let wrong = [
            (
                !names && !self.all,
                "matches everything: set role, client, keyspace, class, statement, key or token, or all = true",
            ),
            (
                names && self.all,
                "has all = true, and names something: leave one out",
            ),
            (
                !self.table.is_empty() && self.keyspace.is_empty(),
                "has a table without its keyspace",
            ),
            (
                !self.key.is_empty() && [&self.table, &self.keyspace].into_iter().any(is_no_one),
                "has a key without one keyspace and one table",
            ),
            (
                !self.key.is_empty() && self.token.is_some(),
                "has both a key and a token: leave one out",
            ),
            (
                self.names_partition()
                    && (self.deny.is_some() || self.read_only || self.bounds_consistency()),
                "forbids something for one partition, which IN, token(), a scan or another spelling of \
                 the key would get around: leave out key and token, or use permissions in Cassandra, or limit \
                 it by requests_per_second, bytes_per_second or in_flight",
            ),
        ];
        let mut wrong = wrong.into_iter().filter(|(is_wrong, _)| *is_wrong);
        wrong.next().map(|(_, why)| why.to_owned())
    }

    /// A problem of the limits and refusals that it sets.
    fn problem_of_act(&self) -> Option<String> {
        let rate = self.requests_per_second;
        let levels = [&self.consistency_min, &self.consistency_max];
        let mut unknown = levels
            .into_iter()
            .flatten()
            .filter(|of| level(of).is_none());
        if let Some(wrong) = unknown.next() {
            return Some(format!(
                "has the consistency level {wrong:?}: use ANY, ONE, LOCAL_ONE, TWO, THREE, LOCAL_QUORUM, QUORUM, \
                 EACH_QUORUM or ALL"
            ));
        }
        let [min, max] = levels.map(|of| of.as_deref().and_then(level).and_then(strength));
        let lasts = self.timeout_ms.is_some();
        let others = self.limits() || self.read_only || self.bounds_consistency() || lasts;
        let wrong = [
            (
                !others && self.deny.is_none() && !self.last,
                "limits nothing: set requests_per_second, bytes_per_second, in_flight, deny, read_only, \
                 consistency_min, consistency_max or timeout_ms; or last, for an exception",
            ),
            (
                rate.is_some_and(|rate| !(0.001..=1e9).contains(&rate)),
                "has requests_per_second outside of 0.001 to 1000000000",
            ),
            (
                self.bytes_per_second
                    .is_some_and(|rate| !(1..=1 << 40).contains(&rate)),
                "has bytes_per_second outside of 1 to 1099511627776",
            ),
            (
                self.deny
                    .as_deref()
                    .is_some_and(|why| why.trim().is_empty()),
                "has an empty deny: say why, for those who read it",
            ),
            (
                self.deny.is_some() && (others || self.last),
                "denies all that it matches: leave out its other limits and last, which nothing reaches",
            ),
            (
                min.zip(max).is_some_and(|(min, max)| min > max),
                "has a consistency_min above consistency_max",
            ),
            (
                max == Some(0),
                "has consistency_max = \"ANY\", at which nothing can be read",
            ),
            (
                self.consistency_rewrite && !self.bounds_consistency(),
                "has consistency_rewrite without consistency_min or consistency_max",
            ),
            (
                self.timeout_ms.is_some_and(|ms| ms < 100),
                "has a timeout_ms below 100",
            ),
            (
                self.timeout_ms.is_some_and(|ms| ms > TIMEOUT_MS_MAX),
                "has a timeout_ms above 600000: leave it out, as no request takes so long",
            ),
            (
                self.warn && self.last,
                "is tried out (warn) and an exception (last): leave one out",
            ),
            (
                self.warn && self.timeout_ms.is_some(),
                "has timeout_ms, which cannot be tried out: leave out warn",
            ),
        ];
        let mut wrong = wrong.into_iter().filter(|(is_wrong, _)| *is_wrong);
        wrong.next().map(|(_, why)| why.to_owned())
    }

    fn problem(&self) -> Option<String> {
        let why = self.problem_of_match().or_else(|| self.problem_of_act());
        why.map(|why| format!("rule {:?} {why}", self.name))
    }
}

/// A network, or an address as one. One of IPv4 addresses that are written as IPv6 is one of IPv4.
fn network(text: &str) -> Option<IpNet> {
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    let network = text.parse::<IpNet>().ok().or_else(address)?;
    let bits = network.prefix_len().checked_sub(MAPPED_BITS);
    match (network.addr(), bits) {
        (IpAddr::V6(of), Some(bits)) => Some(match of.to_ipv4_mapped() {
            Some(of) => IpNet::new(of.into(), bits).ok()?,
            None => network,
        }),
        _ => Some(network),
    }
}

/// Problems of rules, each with what to do about it.
pub(crate) fn problems(rules: &[RuleSettings]) -> Vec<String> {
    let mut found: Vec<String> = rules.iter().filter_map(RuleSettings::problem).collect();
    if rules.len() > RULES_MAX {
        found.push(format!("there may be {RULES_MAX} rules: take some out"));
    }
    if rules.iter().any(|rule| rule.name.is_empty()) {
        found.push("a rule has no name: give each one its own".to_owned());
    }
    let too_long = rules.iter().filter(|rule| rule.name.len() > NAME_MAX);
    found.extend(too_long.map(|rule| {
        let (begin, len) = (
            rule.name.chars().take(20).collect::<String>(),
            rule.name.len(),
        );
        format!("the name of rule {begin:?}… has {len} bytes: shorten it to {NAME_MAX}")
    }));
    for (at, rule) in rules.iter().enumerate() {
        if rules[..at].iter().any(|other| other.name == rule.name) {
            found.push(format!("two rules are called {:?}: rename one", rule.name));
        }
    }
    found
}

/// Problems of the times of rules beside that of all requests.
pub(crate) fn problems_of_times(
    rules: &[RuleSettings],
    request_timeout_ms: Option<u64>,
) -> Vec<String> {
    let late = rules.iter().filter_map(|rule| {
        let (ms, most) = rule.timeout_ms.zip(request_timeout_ms)?;
        let name = &rule.name;
        (ms > most).then(|| {
            format!(
                "rule {name:?} has a timeout_ms of {ms}, above limits.request_timeout_ms, {most}: leave it \
                 out, or choose less"
            )
        })
    });
    late.collect()
}

/// A statement without what does not matter, so that two can be compared: white space, comments, upper and lower
/// case of names and keywords, and quotes around names that need none.
pub(crate) fn plain(statement: &str) -> String {
    let mut plain = String::with_capacity(statement.len());
    for token in Lexer::new(statement) {
        let Some(written) = statement.get(token.start..token.end) else {
            continue;
        };
        if !plain.is_empty() {
            plain.push(' ');
        }
        match token.kind {
            TokenKind::Word => plain.extend(written.chars().map(|c| c.to_ascii_lowercase())),
            TokenKind::QuotedName => plain.push_str(&fold_identifier(written).to_cql()),
            _ => plain.push_str(written),
        }
    }
    let end = plain.trim_end_matches([';', ' ']).len();
    plain.truncate(end);
    plain
}
