//! Reads how many replicas a keyspace has, from `system_schema.keyspaces`.
//!
//! Formula: none; it parses the `replication` map. `"3/1"` means three replicas of which one is
//! transient, hence 3. Anything it cannot parse is [`Replication::Unknown`]: queries then go to any
//! node, which costs a hop and is never wrong.
//!
//! Evidence: `ring/tests.rs`, over the forms in which Cassandra stores the map.
//!
//! Source: Cassandra's `AbstractReplicationStrategy.getClass` and `ReplicationFactor.fromString`.

use std::collections::BTreeMap;

/// The replication of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Replication {
    Simple {
        rf: usize,
    },
    /// Replicas per data centre.
    NetworkTopology(BTreeMap<String, usize>),
    /// Every node has its own data: `system`, `system_schema`, virtual tables.
    Local,
    /// Every node has all the data.
    Everywhere,
    /// A strategy from a plug-in, or invalid options.
    Unknown,
}

impl Replication {
    /// From the `replication` map of `system_schema.keyspaces`, whose `class` may
    /// be a class name with or without Cassandra's package.
    pub fn from_options<'a>(options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Replication {
        let mut options: BTreeMap<&str, &str> = options.into_iter().collect();
        let class = options.remove("class").unwrap_or_default();
        let short = match class.rsplit_once('.') {
            Some(("org.apache.cassandra.locator", short)) => short,
            Some(_) => return Replication::Unknown,
            None => class,
        };
        match short {
            "SimpleStrategy" => simple(&options),
            "NetworkTopologyStrategy" => network_topology(&options),
            "LocalStrategy" => Replication::Local,
            "EverywhereStrategy" => Replication::Everywhere,
            _ => Replication::Unknown,
        }
    }
}

const REPLICATION_FACTOR: &str = "replication_factor";

fn simple(options: &BTreeMap<&str, &str>) -> Replication {
    match options.get(REPLICATION_FACTOR).copied().and_then(parse_rf) {
        Some(rf) => Replication::Simple { rf },
        None => Replication::Unknown,
    }
}

fn network_topology(options: &BTreeMap<&str, &str>) -> Replication {
    let mut dcs = BTreeMap::new();
    for (&dc, &rf) in options {
        // Cassandra expands this option into data centres before storing the map.
        if dc.eq_ignore_ascii_case(REPLICATION_FACTOR) {
            return Replication::Unknown;
        }
        match parse_rf(rf) {
            // Left out, so that equivalent maps are equal and share their replica sets.
            Some(0) => {}
            Some(rf) => {
                dcs.insert(dc.to_owned(), rf);
            }
            None => return Replication::Unknown,
        }
    }
    Replication::NetworkTopology(dcs)
}

fn parse_rf(text: &str) -> Option<usize> {
    let (all, transient) = text.split_once('/').unwrap_or((text, "0"));
    let all: usize = all.parse().ok()?;
    let transient: usize = transient.parse().ok()?;
    let valid = transient == 0 || transient < all;
    valid.then_some(all)
}
