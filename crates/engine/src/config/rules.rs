//! Rules: limits on what matches them.

use helenus_cql::lexer::Lexer;
use serde::{Deserialize, Serialize};

/// More would be looked through with every request.
const RULES_MAX: usize = 64;

/// A limit on the requests that match all that it names. In a file, each rule is a `[[rules]]` of its own; there is
/// no environment variable or flag for them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RuleSettings {
    /// Its name in messages, metrics and `/api/rules`.
    pub name: String,
    /// Requests about tables of this keyspace.
    pub keyspace: Option<String>,
    /// Requests about this table; needs `keyspace`.
    pub table: Option<String>,
    /// Requests of this statement, as clients write or prepare it. White space, comments and a semicolon at
    /// the end do not matter.
    pub statement: Option<String>,
    /// Requests for this partition, as CQL literals for the columns of the partition key in their order
    /// (`["'acme'", "7"]`); needs `keyspace` and `table`.
    pub key: Vec<String>,
    /// Requests for the partition with this Murmur3 token, as `helenus top --keys` shows it.
    pub token: Option<i64>,
    /// So many a second may pass, over all workers; up to a tenth of a second's at once. Further ones get
    /// OVERLOADED.
    pub requests_per_second: Option<f64>,
    /// So many may be under way at a time, over all workers; further ones get OVERLOADED.
    pub in_flight: Option<u32>,
}

impl RuleSettings {
    fn problem(&self) -> Option<String> {
        let matches = self.keyspace.is_some()
            || self.statement.is_some()
            || self.token.is_some()
            || !self.key.is_empty();
        let name = &self.name;
        let rate = self.requests_per_second;
        let wrong = [
            (
                !matches,
                "matches everything: set keyspace, statement, key or token",
            ),
            (
                self.table.is_some() && self.keyspace.is_none(),
                "has a table without its keyspace",
            ),
            (
                !self.key.is_empty() && self.table.is_none(),
                "has a key without keyspace and table",
            ),
            (
                !self.key.is_empty() && self.token.is_some(),
                "has both a key and a token: leave one out",
            ),
            (
                rate.is_none() && self.in_flight.is_none(),
                "limits nothing: set requests_per_second or in_flight",
            ),
            (
                rate.is_some_and(|rate| !(0.001..=1e9).contains(&rate)),
                "has requests_per_second outside of 0.001 to 1000000000",
            ),
        ];
        let mut wrong = wrong.into_iter().filter(|(is_wrong, _)| *is_wrong);
        wrong.next().map(|(_, why)| format!("rule {name:?} {why}"))
    }
}

/// What is wrong with rules, each with what to do about it.
pub(super) fn problems(rules: &[RuleSettings]) -> Vec<String> {
    let mut found: Vec<String> = rules.iter().filter_map(RuleSettings::problem).collect();
    if rules.len() > RULES_MAX {
        found.push(format!("there may be {RULES_MAX} rules: take some out"));
    }
    if rules.iter().any(|rule| rule.name.is_empty()) {
        found.push("a rule has no name: give each one its own".to_owned());
    }
    for (at, rule) in rules.iter().enumerate() {
        if rules[..at].iter().any(|other| other.name == rule.name) {
            found.push(format!("two rules are called {:?}: rename one", rule.name));
        }
    }
    found
}

/// A statement without white space and comments that do not matter, so that two can be compared.
pub(crate) fn plain(statement: &str) -> String {
    let mut plain = String::with_capacity(statement.len());
    for token in Lexer::new(statement) {
        let Some(written) = statement.get(token.start..token.end) else {
            continue;
        };
        if !plain.is_empty() {
            plain.push(' ');
        }
        plain.push_str(written);
    }
    let end = plain.trim_end_matches([';', ' ']).len();
    plain.truncate(end);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rule_lacks_is_said() {
        let good = RuleSettings {
            name: "hot".to_owned(),
            keyspace: Some("app".to_owned()),
            in_flight: Some(1),
            ..RuleSettings::default()
        };
        assert_eq!(problems(std::slice::from_ref(&good)), Vec::<String>::new());
        let with = |change: fn(&mut RuleSettings)| {
            let mut rule = good.clone();
            change(&mut rule);
            problems(&[rule]).join("; ")
        };
        for (change, why) in [
            (
                (|rule| rule.keyspace = None) as fn(&mut RuleSettings),
                "matches everything",
            ),
            (|rule| rule.in_flight = None, "limits nothing"),
            (
                |rule| rule.requests_per_second = Some(0.0),
                "requests_per_second",
            ),
            (
                |rule| rule.requests_per_second = Some(f64::NAN),
                "requests_per_second",
            ),
            (
                |rule| rule.key = vec!["1".to_owned()],
                "without keyspace and table",
            ),
            (|rule| rule.name = String::new(), "no name"),
            (
                |rule| {
                    rule.keyspace = None;
                    rule.token = Some(1);
                    rule.table = Some("t".to_owned());
                },
                "without its keyspace",
            ),
            (
                |rule| {
                    rule.table = Some("t".to_owned());
                    rule.token = Some(1);
                    rule.key = vec!["1".to_owned()];
                },
                "leave one out",
            ),
        ] {
            let said = with(change);
            assert!(said.contains(why), "{why}: {said}");
        }
        assert!(
            problems(&[good.clone(), good.clone()])
                .join("")
                .contains("rename")
        );
        let many: Vec<RuleSettings> = (0..=RULES_MAX)
            .map(|at| RuleSettings {
                name: at.to_string(),
                ..good.clone()
            })
            .collect();
        assert!(problems(&many).join("").contains("64 rules"));
    }

    #[test]
    fn statements_are_the_same_whatever_their_white_space() {
        let written = plain("SELECT v FROM app.t WHERE k = ?");
        assert_eq!(plain("SELECT  v\nFROM app.t -- all\n WHERE k=? ;"), written);
        assert_ne!(plain("SELECT v FROM app.t WHERE k = 1"), written);
        assert_ne!(plain("SELECT 'a  b' FROM t"), plain("SELECT 'a b' FROM t"));
    }
}
