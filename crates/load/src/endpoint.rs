//! Where a client connects, and which nodes its driver prefers.

use anyhow::{Context, Result, bail};
use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::{ClusterState, NodeRef};
use scylla::policies::load_balancing::{
    DefaultPolicy, FallbackPlan, LoadBalancingPolicy, RoutingInfo,
};
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::routing::Shard;
use scylla::statement::Consistency;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How the driver chooses the node of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// An owner of the row's token first: the default of every modern driver.
    TokenAware,
    /// The nodes in turn, regardless of which of them owns the row.
    RoundRobin,
    /// Always the first owner in ring order, as a driver does that keeps a fixed order; for keyspaces with
    /// SimpleStrategy.
    FirstReplica,
}

/// A CQL endpoint to measure: a cluster, Helenus or any other proxy.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub name: String,
    /// `host:port`, at least one.
    pub contact_points: Vec<String>,
    pub policy: Policy,
    /// Connections to each host the driver discovers, in addition to its control connection.
    pub connections_per_host: usize,
    pub consistency: Consistency,
    pub credentials: Option<(String, String)>,
    /// How long the driver waits for a response.
    pub request_timeout: Duration,
}

impl Endpoint {
    pub fn new(name: impl Into<String>, contact_points: Vec<String>, policy: Policy) -> Self {
        Self {
            name: name.into(),
            contact_points,
            policy,
            connections_per_host: 2,
            consistency: Consistency::LocalQuorum,
            credentials: None,
            request_timeout: Duration::from_secs(30),
        }
    }

    /// Opens a session that does not retry, so that each failure is counted, and does not compress,
    /// so that all endpoints carry the same bytes.
    pub async fn connect(&self) -> Result<Session> {
        let Some(pool) = NonZeroUsize::new(self.connections_per_host) else {
            bail!("connections per host must be at least 1");
        };
        let balancing: Arc<dyn LoadBalancingPolicy> = match self.policy {
            Policy::TokenAware => DefaultPolicy::builder().token_aware(true).build(),
            Policy::RoundRobin => Arc::new(RoundRobin::default()),
            Policy::FirstReplica => Arc::new(FirstReplica),
        };
        let profile = ExecutionProfile::builder()
            .consistency(self.consistency)
            .request_timeout(Some(self.request_timeout))
            .retry_policy(Arc::new(FallthroughRetryPolicy))
            .load_balancing_policy(balancing)
            .build();
        let mut builder = SessionBuilder::new()
            .known_nodes(&self.contact_points)
            .compression(None)
            .pool_size(PoolSize::PerHost(pool))
            .default_execution_profile_handle(profile.into_handle());
        if let Some((user, password)) = &self.credentials {
            builder = builder.user(user, password);
        }
        builder.build().await.with_context(|| {
            format!(
                "cannot open a CQL session with {} ({}): is it running, and is the address right?",
                self.name,
                self.contact_points.join(", ")
            )
        })
    }
}

/// Parses a consistency level in cqlsh's notation.
pub fn parse_consistency(text: &str) -> Result<Consistency> {
    Ok(match text.to_ascii_uppercase().replace('-', "_").as_str() {
        "ONE" => Consistency::One,
        "TWO" => Consistency::Two,
        "THREE" => Consistency::Three,
        "QUORUM" => Consistency::Quorum,
        "ALL" => Consistency::All,
        "LOCAL_ONE" => Consistency::LocalOne,
        "LOCAL_QUORUM" => Consistency::LocalQuorum,
        _ => bail!(
            "unknown consistency level {text}: use ONE, TWO, THREE, QUORUM, ALL, LOCAL_ONE or LOCAL_QUORUM"
        ),
    })
}

/// Plain round-robin. The driver's own policy without token awareness picks nodes at random.
#[derive(Debug, Default)]
struct RoundRobin {
    turn: AtomicUsize,
}

impl LoadBalancingPolicy for RoundRobin {
    fn pick<'a>(
        &'a self,
        _request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> Option<(NodeRef<'a>, Option<Shard>)> {
        let nodes = cluster.get_nodes_info();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let node = nodes.get(turn.checked_rem(nodes.len())?)?;
        Some((node, None))
    }

    fn fallback<'a>(
        &'a self,
        _request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> FallbackPlan<'a> {
        Box::new(cluster.get_nodes_info().iter().map(|node| (node, None)))
    }

    fn name(&self) -> String {
        "round-robin".into()
    }
}

/// The node whose token ends the range in which a request's token lies.
#[derive(Debug)]
struct FirstReplica;

impl LoadBalancingPolicy for FirstReplica {
    fn pick<'a>(
        &'a self,
        request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> Option<(NodeRef<'a>, Option<Shard>)> {
        let ring = cluster.replica_locator().ring();
        let first = request
            .token
            .and_then(|token| ring.get_elem_for_token(token));
        let node = first.or(cluster.get_nodes_info().first())?;
        Some((node, None))
    }

    fn fallback<'a>(
        &'a self,
        _request: &'a RoutingInfo,
        cluster: &'a ClusterState,
    ) -> FallbackPlan<'a> {
        Box::new(cluster.get_nodes_info().iter().map(|node| (node, None)))
    }

    fn name(&self) -> String {
        "first-replica".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consistency_levels_are_read_as_cqlsh_writes_them() {
        assert_eq!(
            parse_consistency("local_one").unwrap(),
            Consistency::LocalOne
        );
        assert_eq!(
            parse_consistency("LOCAL-QUORUM").unwrap(),
            Consistency::LocalQuorum
        );
        let error = parse_consistency("most").unwrap_err().to_string();
        assert!(error.contains("LOCAL_QUORUM"), "{error}");
    }
}
