//! Subjects of `helenus ctl show`.

use clap::ValueEnum;

/// A subject of `helenus ctl show`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum What {
    /// Clients that are connected, each with its id for `kill`
    Clients,
    /// Statements that took the most time in the last minutes
    Statements,
    /// Slow requests, and where their time went
    Slow,
    /// Errors by code, and the latest
    Errors,
    /// What has happened: nodes down and up, schema changes, reloads, overload
    Events,
    /// Partitions that are asked for most
    Keys,
    Nodes,
    /// Links by role and node
    Pools,
    /// What waits for nodes, and what was refused
    Queues,
    /// Rules, and what they have refused
    #[value(alias = "limits")]
    Rules,
    /// Pauses in force
    Pauses,
    /// Settings in force, without secrets
    Config,
    /// This proxy and its siblings
    Proxies,
}
