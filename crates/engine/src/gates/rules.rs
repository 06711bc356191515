//! Which rules a request must obey.
//!
//! Without rules this costs one look at an empty list. With some, each request is compared with each of them:
//! first the token, then table and statement, of which the text is read once for each statement that comes as
//! far as that.

use std::sync::Arc;
use std::time::Instant;

use crate::rules::{Permit, Rule};
use crate::snapshot::Snapshot;
use crate::statement::prepared::Statement;

/// What a rule goes by.
pub(crate) struct Subject<'a> {
    /// Keyspace and table, if there is just one table.
    pub table: Option<(&'a str, &'a str)>,
    pub statement: Option<&'a Statement>,
    /// Of the partition's key, if that is known.
    pub token: Option<i64>,
}

/// A rule as a worker compares requests with it.
struct Matcher {
    rule: Arc<Rule>,
    /// None if it goes for any partition.
    token: Option<i64>,
    /// What it names is not there: nothing matches.
    is_void: bool,
}

/// The rules that one worker's requests must obey.
#[derive(Default)]
pub(crate) struct RuleGate {
    matchers: Vec<Matcher>,
}

impl RuleGate {
    /// Puts these in force.
    pub(crate) fn adopt(&mut self, rules: Vec<Arc<Rule>>, snapshot: &Snapshot) {
        let matcher = |rule: Arc<Rule>| {
            let token = rule.token(snapshot);
            Matcher {
                is_void: token.is_err(),
                token: token.unwrap_or(None),
                rule,
            }
        };
        self.matchers = rules.into_iter().map(matcher).collect();
    }

    /// Tables may be new, or others.
    pub(crate) fn adopt_snapshot(&mut self, snapshot: &Snapshot) {
        let matchers = std::mem::take(&mut self.matchers);
        let rules = matchers.into_iter().map(|of| of.rule).collect();
        self.adopt(rules, snapshot);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.matchers.is_empty()
    }

    /// Asks all rules that a request matches.
    ///
    /// # Errors
    /// Why one of them refuses it.
    pub(crate) fn admit(&self, now: Instant, of: &Subject<'_>) -> Result<Vec<Permit>, String> {
        let mut permits = Vec::new();
        let fitting = || self.matchers.iter().filter(|matcher| matcher.fits(of));
        for (at, matcher) in fitting().enumerate() {
            match matcher.rule.admit(now) {
                Ok(permit) => permits.extend(permit),
                Err(why) => {
                    fitting().take(at).for_each(|of| of.rule.give_back());
                    return Err(why);
                }
            }
        }
        Ok(permits)
    }
}

impl Matcher {
    fn fits(&self, of: &Subject<'_>) -> bool {
        let settings = &self.rule.settings;
        let is_token = self.token.is_none() || self.token == of.token;
        if self.is_void || !is_token {
            return false;
        }
        if let Some(keyspace) = &settings.keyspace {
            let Some((of_keyspace, of_table)) = of.table else {
                return false;
            };
            let is_table = settings
                .table
                .as_ref()
                .is_none_or(|table| table == of_table);
            if keyspace != of_keyspace || !is_table {
                return false;
            }
        }
        match self.rule.statement() {
            None => true,
            Some(statement) => of.statement.is_some_and(|of| of.number() == statement),
        }
    }
}
