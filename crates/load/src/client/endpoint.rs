//! Where a client connects, and which nodes its driver prefers.

use crate::client::entrances::Entrances;
use crate::client::tls::Tls;
use anyhow::{Context, Result, bail, ensure};
use helenus_wire::Compression;
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
pub use scylla::statement::{Consistency, SerialConsistency};
use std::collections::BTreeSet;
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
    /// Of the Paxos round of conditional writes; None: the driver's default, or the cluster's.
    pub serial_consistency: Option<SerialConsistency>,
    /// The only nodes that a token-aware driver sends to.
    pub local: Option<Location>,
    pub credentials: Option<(String, String)>,
    /// How long a client waits for a response.
    pub request_timeout: Duration,
    /// Of bodies, in both directions.
    pub compression: Compression,
    pub tls: Option<Tls>,
    /// The name of the application that clients of shared connections give.
    pub application: Option<&'static str>,
}

/// A data centre, and perhaps a rack whose nodes come first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub dc: String,
    pub rack: Option<String>,
}

impl Endpoint {
    pub fn new(name: impl Into<String>, contact_points: Vec<String>, policy: Policy) -> Self {
        Self {
            name: name.into(),
            contact_points,
            policy,
            connections_per_host: 2,
            consistency: Consistency::LocalQuorum,
            serial_consistency: None,
            local: None,
            credentials: None,
            request_timeout: Duration::from_secs(30),
            compression: Compression::None,
            tls: None,
            application: None,
        }
    }

    /// This endpoint with another consistency level.
    pub fn at(&self, consistency: Consistency) -> Self {
        Self {
            consistency,
            ..self.clone()
        }
    }

    /// Opens a session that does not retry, so that each failure is counted.
    ///
    /// # Errors
    /// Also if no node is where the local ones should be.
    pub async fn connect(&self) -> Result<Session> {
        Ok(self.connect_over().await?.0)
    }

    /// [`Self::connect`], with the way to the nodes if it is encrypted: nodes that the driver names are on the ports of
    /// their entrances.
    pub(crate) async fn connect_over(&self) -> Result<(Session, Option<Arc<Entrances>>)> {
        let Some(pool) = NonZeroUsize::new(self.connections_per_host) else {
            bail!("connections per host must be at least 1");
        };
        let balancing: Arc<dyn LoadBalancingPolicy> = match self.policy {
            Policy::TokenAware => self.token_aware(),
            Policy::RoundRobin => Arc::new(RoundRobin::default()),
            Policy::FirstReplica => Arc::new(FirstReplica),
        };
        let mut profile = ExecutionProfile::builder()
            .consistency(self.consistency)
            .request_timeout(Some(self.request_timeout))
            .retry_policy(Arc::new(FallthroughRetryPolicy))
            .load_balancing_policy(balancing);
        if let Some(serial) = self.serial_consistency {
            profile = profile.serial_consistency(Some(serial));
        }
        let points = self.contact_points.join(", ");
        let mut builder = SessionBuilder::new();
        let entrances = match &self.tls {
            Some(tls) => {
                let found = Entrances::open(tls, &self.contact_points).await;
                let (entrances, found) = found.with_context(|| {
                    format!("cannot open a CQL session with {} ({points})", self.name)
                })?;
                builder = builder
                    .known_nodes_addr(found)
                    .address_translator(entrances.clone());
                Some(entrances)
            }
            None => {
                builder = builder.known_nodes(&self.contact_points);
                None
            }
        };
        builder = builder
            .compression(match self.compression {
                Compression::None => None,
                Compression::Lz4 => Some(scylla::client::Compression::Lz4),
                Compression::Snappy => Some(scylla::client::Compression::Snappy),
            })
            .pool_size(PoolSize::PerHost(pool))
            .default_execution_profile_handle(profile.build().into_handle());
        if let Some((user, password)) = &self.credentials {
            builder = builder.user(user, password);
        }
        let session = builder.build().await.with_context(|| {
            format!(
                "cannot open a CQL session with {} ({points}): is it running, and is the address right?",
                self.name
            )
        })?;
        if let Some(local) = &self.local {
            local.check(&self.name, &session)?;
        }
        Ok((session, entrances))
    }

    fn token_aware(&self) -> Arc<dyn LoadBalancingPolicy> {
        let policy = DefaultPolicy::builder().token_aware(true);
        let policy = match &self.local {
            Some(Location { dc, rack: None }) => policy.prefer_datacenter(dc.clone()),
            Some(Location {
                dc,
                rack: Some(rack),
            }) => policy.prefer_datacenter_and_rack(dc.clone(), rack.clone()),
            None => policy,
        };
        policy.build()
    }
}

impl Location {
    /// A driver without a node to send to would only report that each query has none.
    fn check(&self, name: &str, session: &Session) -> Result<()> {
        let state = session.get_cluster_state();
        let nodes = state.get_nodes_info().iter();
        let places = nodes.map(|node| (node.datacenter.as_deref(), node.rack.as_deref()));
        self.check_among(name, &places.collect())
    }

    fn check_among(
        &self,
        name: &str,
        places: &BTreeSet<(Option<&str>, Option<&str>)>,
    ) -> Result<()> {
        let is_there = |(dc, rack): &(Option<&str>, Option<&str>)| {
            *dc == Some(self.dc.as_str()) && (self.rack.is_none() || *rack == self.rack.as_deref())
        };
        let known: Vec<String> = places
            .iter()
            .map(|(dc, rack)| format!("{}, {}", dc.unwrap_or("?"), rack.unwrap_or("?")))
            .collect();
        let rack = self.rack.as_ref();
        ensure!(
            places.iter().any(is_there),
            "no node of {name} is in data centre {}{}; data centres and racks there are: {}",
            self.dc,
            rack.map_or(String::new(), |rack| format!(", rack {rack}")),
            known.join("; ")
        );
        Ok(())
    }
}

/// Parses a level of conditional writes' Paxos round.
pub fn parse_serial_consistency(text: &str) -> Result<SerialConsistency> {
    Ok(match text.to_ascii_uppercase().replace('-', "_").as_str() {
        "SERIAL" => SerialConsistency::Serial,
        "LOCAL_SERIAL" => SerialConsistency::LocalSerial,
        _ => bail!("unknown serial consistency level {text}: use SERIAL or LOCAL_SERIAL"),
    })
}

/// Parses a consistency level in cqlsh's notation.
pub fn parse_consistency(text: &str) -> Result<Consistency> {
    Ok(match text.to_ascii_uppercase().replace('-', "_").as_str() {
        "ANY" => Consistency::Any,
        "ONE" => Consistency::One,
        "TWO" => Consistency::Two,
        "THREE" => Consistency::Three,
        "QUORUM" => Consistency::Quorum,
        "ALL" => Consistency::All,
        "LOCAL_ONE" => Consistency::LocalOne,
        "LOCAL_QUORUM" => Consistency::LocalQuorum,
        "EACH_QUORUM" => Consistency::EachQuorum,
        "SERIAL" => Consistency::Serial,
        "LOCAL_SERIAL" => Consistency::LocalSerial,
        _ => bail!(
            "unknown consistency level {text}: use ONE, TWO, THREE, QUORUM, ALL, LOCAL_ONE, \
             LOCAL_QUORUM, EACH_QUORUM, ANY (writes), SERIAL or LOCAL_SERIAL (reads)"
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
        assert_eq!(
            parse_consistency("each_quorum").unwrap(),
            Consistency::EachQuorum
        );
        let error = parse_consistency("most").unwrap_err().to_string();
        assert!(error.contains("LOCAL_QUORUM"), "{error}");
        assert_eq!(
            parse_serial_consistency("local-serial").unwrap(),
            SerialConsistency::LocalSerial
        );
        assert!(parse_serial_consistency("QUORUM").is_err());
    }

    #[test]
    fn a_place_without_nodes_is_refused_and_the_others_are_named() {
        let places = BTreeSet::from([(Some("dc1"), Some("r1")), (Some("dc2"), Some("r2"))]);
        let check = |dc: &str, rack: Option<&str>| {
            let local = Location {
                dc: dc.into(),
                rack: rack.map(str::to_owned),
            };
            local.check_among("x", &places)
        };
        assert!(check("dc2", None).is_ok() && check("dc1", Some("r1")).is_ok());
        let error = check("dc1", Some("r2")).unwrap_err().to_string();
        assert!(
            error.contains("rack r2") && error.contains("dc2, r2"),
            "{error}"
        );
        assert!(check("DC1", None).is_err());
    }
}
