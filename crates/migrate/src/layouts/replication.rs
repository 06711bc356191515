//! How a keyspace is replicated, as an operator writes it.

pub(super) mod hinted;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use anyhow::{Context, Result, bail};
use helenus_cql::lexer::{Lexer, Token, TokenKind};
use helenus_cql::quote_text;

/// Stands before the names of Cassandra's own strategies in the schema.
const PACKAGE: &str = "org.apache.cassandra.locator.";
const DATA_CENTERS: &str = "NetworkTopologyStrategy";
const FACTOR: &str = "replication_factor";

/// A map with the strategy and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replication(BTreeMap<String, String>);

/// A map of texts to texts and whole numbers, in CQL.
pub fn parse(text: &str) -> Result<Replication> {
    const FORM: &str =
        "write it as CQL does, such as {'class': 'NetworkTopologyStrategy', 'dc1': 1}";
    let Some(options) = options_of(text) else {
        bail!("{text} is no replication: {FORM}");
    };
    if options.get("class").is_none_or(String::is_empty) {
        bail!("{text} does not name a strategy as its 'class': {FORM}");
    }
    if options.len() < 2 {
        bail!("{text} does not say how many replicas there are: {FORM}");
    }
    Ok(Replication(options))
}

fn options_of(text: &str) -> Option<BTreeMap<String, String>> {
    let tokens: Vec<Token> = Lexer::new(text).collect();
    let (first, tokens) = tokens.split_first()?;
    let (last, tokens) = tokens.split_last()?;
    if (first.kind, last.kind) != (TokenKind::LBrace, TokenKind::RBrace) {
        return None;
    }
    let mut options = BTreeMap::new();
    let entries = tokens.split(|token| token.kind == TokenKind::Comma);
    for entry in entries {
        let [key, colon, value] = entry else {
            return None;
        };
        if (key.kind, colon.kind) != (TokenKind::Text, TokenKind::Colon) {
            return None;
        }
        let value = match value.kind {
            TokenKind::Text => unquoted(text, value)?,
            TokenKind::Integer => text.get(value.start..value.end)?.to_owned(),
            _ => return None,
        };
        if options.insert(unquoted(text, key)?, value).is_some() {
            return None;
        }
    }
    Some(options)
}

fn unquoted(text: &str, token: &Token) -> Option<String> {
    let inner = text.get(token.start + 1..token.end - 1)?;
    Some(inner.replace("''", "'"))
}

impl Replication {
    /// One replica in each of these data centres; in the whole cluster, if none is named.
    pub fn of_one_replica(data_centers: &[&str]) -> Replication {
        let of = |class: &str, factors: &[&str]| {
            let factors = factors
                .iter()
                .map(|key| ((*key).to_owned(), "1".to_owned()));
            let class = ("class".to_owned(), class.to_owned());
            Replication(factors.chain([class]).collect())
        };
        match data_centers {
            [] => of("SimpleStrategy", &[FACTOR]),
            some => of(DATA_CENTERS, some),
        }
    }

    /// The replicas in each data centre, by its name; without a name, those of a strategy that knows none.
    ///
    /// # Errors
    /// It does not name the data centres, or there are no replicas.
    pub fn replicas(&self) -> Result<Vec<(Option<String>, u32)>> {
        // Transient replicas are written as the second of two numbers, and are among the first.
        let number = |text: &String| text.split('/').next()?.parse::<u32>().ok();
        let class = self.0.get("class").map_or("", |class| class.as_str());
        let knows_data_centers = class.strip_prefix(PACKAGE).unwrap_or(class) == DATA_CENTERS;
        if knows_data_centers && self.0.contains_key(FACTOR) {
            bail!(
                "{self} does not name the data centres: write the replicas of each, such as 'dc1': 3"
            );
        }
        let options = self.0.iter().filter(|(key, _)| match knows_data_centers {
            true => *key != "class",
            false => *key == FACTOR,
        });
        let mut all = Vec::new();
        for (key, value) in options {
            let count = number(value)
                .with_context(|| format!("{self}: {value:?} is no number of replicas"))?;
            if count > 0 {
                all.push((knows_data_centers.then(|| key.clone()), count));
            }
        }
        if all.is_empty() {
            bail!("{self} does not say how many replicas there are");
        }
        Ok(all)
    }

    /// True if a keyspace with these options is replicated like that. A factor for all data centres is stored as one
    /// for each of them.
    pub(super) fn is_of(
        &self,
        options: &HashMap<String, String>,
        data_centers: &BTreeSet<String>,
    ) -> bool {
        let stored = options.iter();
        let stored = stored.map(|(key, value)| (key.clone(), value.clone()));
        normal(stored.collect(), data_centers) == normal(self.0.clone(), data_centers)
    }

    /// The data centres in which a keyspace like that has replicas.
    pub(super) fn data_centers(&self, all: &BTreeSet<String>) -> BTreeSet<String> {
        let options = self.0.iter();
        let options = options.map(|(key, value)| (key.clone(), value.clone()));
        hinted::data_centers(&options.collect(), all)
    }
}

fn normal(
    mut options: BTreeMap<String, String>,
    data_centers: &BTreeSet<String>,
) -> BTreeMap<String, String> {
    let class = options.remove("class").unwrap_or_default();
    let class = class.strip_prefix(PACKAGE).unwrap_or(&class).to_owned();
    if class == DATA_CENTERS {
        if let Some(factor) = options.remove(FACTOR) {
            for name in data_centers {
                options.entry(name.clone()).or_insert(factor.clone());
            }
        }
        options.retain(|_, replicas| replicas != "0");
    }
    options.insert("class".to_owned(), class);
    options
}

impl fmt::Display for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, others): (Vec<_>, Vec<_>) = self.0.iter().partition(|(key, _)| *key == "class");
        let options = class.into_iter().chain(others);
        let options =
            options.map(|(key, value)| format!("{}: {}", quote_text(key), quote_text(value)));
        write!(f, "{{{}}}", options.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "{'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': '3'}";

    #[test]
    fn a_replication_is_a_map_in_cql() {
        let parsed = parse(TWO).expect("a map");
        let shown = "{'class': 'NetworkTopologyStrategy', 'dc1': '1', 'dc2': '3'}";
        assert_eq!(parsed.to_string(), shown);
        assert_eq!(parse(shown).expect("as it is shown"), parsed);
        let odd = "{ 'it''s': 2, 'class' : 'S' }";
        assert_eq!(
            parse(odd).expect("a map").to_string(),
            "{'class': 'S', 'it''s': '2'}"
        );
        for wrong in [
            "",
            "{}",
            "dc1: 1",
            "{'class': 'S', 'dc1': 1",
            "{'class': 'S', 'dc1': 1} AND durable_writes = false",
            "{'class': 'S', 'dc1': 1,}",
            "{'class': 'S', dc1: 1}",
            "{\"class\": \"S\", \"dc1\": 1}",
            "{'class': 'S', 'dc1': 1.5}",
            "{'class': 'S', 'dc1': 1, 'dc1': 2}",
            "{'class': 'S', 'dc1': ?}",
            "{'class': 'S}",
        ] {
            let refused = parse(wrong).expect_err(wrong).to_string();
            assert!(refused.contains("is no replication"), "{refused}");
        }
        for (wrong, why) in [
            ("{'dc1': 1}", "'class'"),
            ("{'class': '', 'dc1': 1}", "'class'"),
            ("{'class': 'SimpleStrategy'}", "how many"),
        ] {
            let refused = parse(wrong).expect_err(wrong).to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn replicas_are_counted_by_data_center() {
        let of = |text: &str| parse(text).expect("a map").replicas();
        let some = |name: &str, count| (Some(name.to_owned()), count);
        let two = of(TWO).expect("it names them");
        assert_eq!(two, [some("dc1", 1), some("dc2", 3)]);
        let stored = "{'class': 'org.apache.cassandra.locator.NetworkTopologyStrategy', 'a': '3/1', 'b': '0'}";
        assert_eq!(of(stored).expect("it names one"), [some("a", 3)]);
        let simple = of("{'class': 'SimpleStrategy', 'replication_factor': 2}");
        assert_eq!(simple.expect("it needs no name"), [(None, 2)]);
        for (wrong, why) in [
            (
                "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3}",
                "does not name",
            ),
            (
                "{'class': 'NetworkTopologyStrategy', 'a': 'x'}",
                "\"x\" is no number",
            ),
            ("{'class': 'NetworkTopologyStrategy', 'a': 0}", "how many"),
            ("{'class': 'SimpleStrategy', 'a': 1}", "how many"),
        ] {
            let refused = of(wrong).expect_err(wrong).to_string();
            assert!(refused.contains(why), "{refused}");
        }
        for names in [&[][..], &["dc1", "dc2"]] {
            let one = Replication::of_one_replica(names);
            assert_eq!(parse(&one.to_string()).expect("as it is shown"), one);
            let counts = one.replicas().expect("it names them");
            assert!(counts.iter().all(|(_, count)| *count == 1));
            assert_eq!(counts.len(), names.len().max(1));
        }
    }

    #[test]
    fn a_keyspace_is_recognized_by_the_options_that_it_has_in_the_schema() {
        let stored = |options: &[(&str, &str)]| {
            let options = options.iter();
            let options = options.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            options.collect::<HashMap<_, _>>()
        };
        let all = ["dc1", "dc2"].map(str::to_owned).into();
        let network = "org.apache.cassandra.locator.NetworkTopologyStrategy";
        let is = |written: &str, options: &[(&str, &str)]| {
            parse(written).expect("a map").is_of(&stored(options), &all)
        };
        let both = [("class", network), ("dc1", "1"), ("dc2", "3")];
        assert!(is(TWO, &both));
        assert!(!is(TWO, &[("class", network), ("dc1", "1")]));
        assert!(!is(TWO, &[("class", network), ("dc1", "1"), ("dc2", "1")]));
        let of_all = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3, 'dc1': 1}";
        assert!(is(of_all, &both));
        let one = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3, 'dc1': 0}";
        assert!(is(one, &[("class", network), ("dc2", "3")]));
        let simple = "org.apache.cassandra.locator.SimpleStrategy";
        let written = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        assert!(is(
            written,
            &[("class", simple), ("replication_factor", "1")]
        ));
        assert!(!is(
            written,
            &[("class", simple), ("replication_factor", "2")]
        ));
    }
}
