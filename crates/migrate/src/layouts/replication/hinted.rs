//! What nodes keep for replicas of derived layouts that are down: hints, for long enough.
//!
//! A derived layout is written at ANY, and what one of its replicas misses comes as a hint. Where nodes keep none, or for
//! less time than proxies count on (`max_hint_window`), writes are missed that nobody tells of.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use anyhow::{Result, bail};
use helenus_rows::TableName;

use crate::catalogue::settle::duration;
use crate::nodes::cluster::Cluster;

const SELECT: &str = "SELECT name, value FROM system_views.settings WHERE name IN ('hinted_handoff_enabled', \
     'hinted_handoff_disabled_datacenters', 'max_hint_window', 'max_hint_window_in_ms')";
const WINDOW_DEFAULT: Duration = Duration::from_secs(3 * 3_600);

/// For whom one node keeps hints, and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Keeping {
    is_enabled: bool,
    /// Data centres for whose nodes it keeps none.
    disabled: BTreeSet<String>,
    window: Duration,
}

impl Keeping {
    /// From a node's settings. One that is missing or not understood has its default.
    fn told(settings: &[(String, Option<String>)]) -> Keeping {
        let of = |names: &str| {
            let mut named = settings.iter().filter(|(name, _)| name.starts_with(names));
            named.find_map(|(_, value)| value.as_deref())
        };
        let disabled = of("hinted_handoff_disabled_datacenters").unwrap_or_default();
        let disabled = disabled.split(['[', ']', '{', '}', ',']);
        let disabled = disabled.map(|name| name.trim().trim_matches(['\'', '"']));
        Keeping {
            is_enabled: of("hinted_handoff_enabled").is_none_or(|value| value.trim() != "false"),
            disabled: disabled
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
            window: of("max_hint_window")
                .and_then(duration)
                .unwrap_or(WINDOW_DEFAULT),
        }
    }
}

/// Those of all nodes that tell, by their addresses.
#[derive(Clone, Debug, Default)]
pub(in crate::layouts) struct Hinted(BTreeMap<String, Keeping>);

impl Hinted {
    pub(in crate::layouts) async fn of(cluster: &Cluster) -> Hinted {
        let mut hinted = Hinted::default();
        for node in cluster.nodes() {
            if !node.is_connected() {
                continue;
            }
            let told: Result<Vec<(String, Option<String>)>> = cluster.rows_of(&node, SELECT).await;
            if let Ok(settings) = told {
                let address = cluster.address(&node).to_string();
                hinted.0.insert(address, Keeping::told(&settings));
            }
        }
        hinted
    }

    /// Refuses what could only be repaired by the sweep's round.
    pub(in crate::layouts) fn check(
        &self,
        table: &TableName,
        grace_s: i32,
        replicated_in: &BTreeSet<String>,
    ) -> Result<()> {
        match self
            .problems(table, grace_s, replicated_in)
            .into_iter()
            .next()
        {
            None => Ok(()),
            Some(problem) => bail!(
                "{problem}. A derived layout would miss writes that nobody tells of (leave --replication out for layouts \
                 in the table's keyspace)"
            ),
        }
    }

    /// What is wrong for layouts with replicas in these data centres. `table`: the one with this grace of tombstones.
    pub(in crate::layouts) fn problems(
        &self,
        table: &TableName,
        grace_s: i32,
        replicated_in: &BTreeSet<String>,
    ) -> Vec<String> {
        let nodes = |is_meant: &dyn Fn(&Keeping) -> bool| {
            let meant = self.0.iter().filter(|(_, of)| is_meant(of));
            let addresses: Vec<&str> = meant.map(|(address, _)| &**address).collect();
            (!addresses.is_empty()).then(|| addresses.join(", "))
        };
        let mut problems = Vec::new();
        if let Some(nodes) = nodes(&|of| !of.is_enabled) {
            problems.push(format!(
                "hinted_handoff_enabled is false on {nodes}: what a replica misses while it is down is kept nowhere \
                 (nodetool enablehandoff)"
            ));
        }
        for name in replicated_in {
            if let Some(nodes) = nodes(&|of| of.disabled.contains(name)) {
                problems.push(format!(
                    "hinted_handoff_disabled_datacenters has {name} on {nodes}: what a replica there misses while it is down \
                     is kept nowhere (nodetool enablehintsfordc {name})"
                ));
            }
        }
        let window = self.0.values().map(|of| of.window).max();
        let window_s = window.unwrap_or(WINDOW_DEFAULT).as_secs();
        if u64::try_from(grace_s).is_ok_and(|grace_s| grace_s < window_s) {
            problems.push(format!(
                "layouts of {table} have gc_grace_seconds = {grace_s}, and hints live no longer, where nodes are relied on to keep them \
                 for {window_s} s (max_hint_window): ALTER TABLE {} WITH gc_grace_seconds = {window_s}, or more",
                table.to_cql()
            ));
        }
        problems
    }
}

/// The data centres in which a keyspace with these options has replicas. `all`: those of the cluster.
pub(in crate::layouts) fn data_centers(
    options: &HashMap<String, String>,
    all: &BTreeSet<String>,
) -> BTreeSet<String> {
    let is_none = |name: &String| options.get(name).is_some_and(|count| count == "0");
    let is_named = |name: &String| options.contains_key(name);
    let of_all = options.contains_key("replication_factor");
    let mut found = all.clone();
    found.retain(|name| (of_all || is_named(name)) && !is_none(name));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeping(settings: &[(&str, &str)]) -> Keeping {
        let settings = settings.iter();
        let settings =
            settings.map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())));
        Keeping::told(&settings.collect::<Vec<_>>())
    }

    fn names(of: &[&str]) -> BTreeSet<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn nodes_tell_for_whom_they_keep_hints_or_have_the_defaults() {
        let default = Keeping {
            is_enabled: true,
            disabled: BTreeSet::new(),
            window: WINDOW_DEFAULT,
        };
        assert_eq!(keeping(&[]), default);
        let (enabled, dcs) = (
            "hinted_handoff_enabled",
            "hinted_handoff_disabled_datacenters",
        );
        assert_eq!(keeping(&[(enabled, "true"), (dcs, "[]")]), default);
        assert!(!keeping(&[(enabled, "false")]).is_enabled);
        assert_eq!(
            keeping(&[(dcs, "[dc1, dc-2]")]).disabled,
            names(&["dc1", "dc-2"])
        );
        for (name, value) in [
            ("max_hint_window", "1h"),
            ("max_hint_window_in_ms", "3600000"),
        ] {
            assert_eq!(keeping(&[(name, value)]).window, Duration::from_secs(3_600));
        }
    }

    #[test]
    fn layouts_are_derived_only_where_what_they_miss_is_kept() {
        let table: TableName = "shop.orders".parse().expect("a name");
        let node = |settings: &[(&str, &str)]| {
            let well = ("10.0.0.1:9042".to_owned(), keeping(&[]));
            Hinted([well, ("10.0.0.2:9042".to_owned(), keeping(settings))].into())
        };
        let dcs = "hinted_handoff_disabled_datacenters";
        for (settings, grace_s, expected) in [
            (&[][..], 10_800, None),
            (&[], 10_799, Some("gc_grace_seconds = 10800")),
            (
                &[("max_hint_window", "4h")],
                10_800,
                Some("gc_grace_seconds = 14400"),
            ),
            (&[("max_hint_window", "1h")], 10_800, None),
            (
                &[("hinted_handoff_enabled", "false")],
                10_800,
                Some("on 10.0.0.2:9042:"),
            ),
            (&[(dcs, "[dc1]")], 10_800, Some("enablehintsfordc dc1")),
            // No replica is there.
            (&[(dcs, "[dc2]")], 10_800, None),
        ] {
            let hinted = node(settings);
            let found = hinted.problems(&table, grace_s, &names(&["dc1"]));
            assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
            assert!(
                found.concat().contains(expected.unwrap_or_default()),
                "{found:?}"
            );
            let checked = hinted.check(&table, grace_s, &names(&["dc1"]));
            assert_eq!(checked.is_err(), expected.is_some());
        }
        // Nobody tells.
        let silent = Hinted::default().problems(&table, 7_200, &names(&["dc1"]));
        assert_eq!(silent.len(), 1);
    }

    #[test]
    fn replicas_are_in_the_data_centres_that_are_named_or_in_all() {
        let all = names(&["dc1", "dc2"]);
        let of = |options: &[(&str, &str)]| {
            let options = options.iter();
            let options = options.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            data_centers(&options.collect(), &all)
        };
        let network = ("class", "NetworkTopologyStrategy");
        assert_eq!(of(&[network, ("dc1", "1")]), names(&["dc1"]));
        assert_eq!(
            of(&[network, ("replication_factor", "3"), ("dc1", "0")]),
            names(&["dc2"])
        );
        assert_eq!(
            of(&[("class", "SimpleStrategy"), ("replication_factor", "1")]),
            all
        );
    }
}
