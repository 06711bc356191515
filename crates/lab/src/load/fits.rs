//! Which options of `helenus load` go together.

use super::connection::ConnectionArgs;
use super::options::{Client, Preference, TargetArgs};
use anyhow::{Result, ensure};
use helenus_load::client::endpoint::{Consistency, parse_consistency};

/// Checks that the options of connections fit the others.
pub(super) fn check(connection: &ConnectionArgs, target: &TargetArgs) -> Result<()> {
    ensure!(
        !connection.request_timeout.is_zero(),
        "--request-timeout must be above 0"
    );
    ensure!(
        connection.local_dc.is_none() || matches!(target.client, Client::Driver),
        "--local-dc is for the driver: raw clients connect to the contact points and to nothing \
         else, so name those of the data centre with --contact"
    );
    ensure!(
        connection.local_dc.is_none() || matches!(target.policy, Preference::TokenAware),
        "--local-dc needs --policy token-aware: round-robin goes to all nodes"
    );
    let Some((reads, writes)) = target.reads_and_writes() else {
        return Ok(());
    };
    match parse_consistency(&connection.consistency)? {
        Consistency::Serial | Consistency::LocalSerial => ensure!(
            !writes,
            "{} is a level of reads, and this workload writes: use --mix read=1, --ycsb c or \
             --statements",
            connection.consistency
        ),
        Consistency::Any => ensure!(
            !reads,
            "ANY is a level of writes, and this workload reads: use --mix write=1 or --statements"
        ),
        _ => {}
    }
    Ok(())
}
