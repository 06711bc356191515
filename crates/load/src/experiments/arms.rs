//! Arms, their names, and the keys of ratios, which the experiments share.

use crate::client::endpoint::Endpoint;
use crate::process::Watched;
use crate::report::Report;
pub(crate) use crate::report::figures::PROXY_PROCESS;
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use std::net::SocketAddr;

pub const TOKEN_AWARE: &str = "direct-token-aware";
pub const ROUND_ROBIN: &str = "direct-round-robin";
/// The Java driver and its default load balancing, in a process of its own.
pub const JAVA: &str = "direct-java";
pub const HELENUS: &str = "helenus";
/// The variant of Helenus that merges writes: its arm is `helenus-merged`.
pub const MERGED: &str = "merged";

/// One of the alternatives that an experiment compares.
#[derive(Clone, Debug)]
pub struct Arm {
    pub endpoint: Endpoint,
    /// The proxy's process, if it runs on this machine.
    pub proxy_pid: Option<u32>,
    /// Address of its metrics page.
    pub admin: Option<SocketAddr>,
}

impl Arm {
    pub fn name(&self) -> &str {
        &self.endpoint.name
    }
}

#[cfg(test)]
impl Arm {
    /// One that nobody connects to.
    pub(crate) fn named(name: &str) -> Self {
        use crate::client::endpoint::Policy;
        Self {
            endpoint: Endpoint::new(name, vec!["127.0.0.1:1".into()], Policy::TokenAware),
            proxy_pid: None,
            admin: None,
        }
    }
}

/// Refuses arms that do not begin with these, or two of the same name.
pub(crate) fn check<'a>(arms: impl Iterator<Item = &'a Arm>, first: &[&str]) -> Result<()> {
    let names: Vec<&str> = arms.map(Arm::name).collect();
    ensure!(
        names.starts_with(first),
        "the first of the arms must be {}",
        first.join(" and ")
    );
    let mut different = BTreeSet::new();
    for name in names {
        ensure!(different.insert(name), "two arms are named {name}");
    }
    Ok(())
}

/// The processes whose CPU time is recorded during an arm's turn: the given ones, this one and the
/// arm's proxy.
pub(crate) fn watched_with(others: &[Watched], proxy_pid: Option<u32>) -> Vec<Watched> {
    let mut watched = others.to_vec();
    watched.push(Watched::this_process());
    watched.extend(proxy_pid.map(|pid| Watched::new(PROXY_PROCESS, pid)));
    watched
}

/// Helenus has the documented keys; other arms' keys are prefixed with the arm's name.
pub(crate) fn ratio_key(arm: &str, key: &str) -> String {
    match arm {
        HELENUS => key.to_owned(),
        name => format!("{name}.{key}"),
    }
}

/// Adds the settings and the caveat that every experiment states.
pub(crate) fn describe(
    report: &mut Report,
    endpoint: &Endpoint,
    replication: usize,
    seed: u64,
    others: impl IntoIterator<Item = (&'static str, String)>,
) {
    let always = [
        ("replication factor", replication.to_string()),
        (
            "connections per host",
            endpoint.connections_per_host.to_string(),
        ),
        ("consistency", format!("{:?}", endpoint.consistency)),
        ("seed", seed.to_string()),
    ];
    let named = always.into_iter().chain(others);
    report
        .settings
        .extend(named.map(|(name, value)| (name.to_owned(), value)));
    report.notes.push(
        "Client, proxies and nodes share this machine's cores: at saturation a proxy's CPU time is \
         taken from the nodes, which a proxy on its own machine would not do."
            .into(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_helenus_has_the_documented_keys() {
        assert_eq!(ratio_key(HELENUS, "x"), "x");
        assert_eq!(ratio_key("helenus-off", "x"), "helenus-off.x");
    }
}
