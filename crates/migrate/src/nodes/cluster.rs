//! The cluster as the layout commands see it: a driver session straight to the nodes.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::future::join_all;
use helenus_proxy::NodeAccess;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::Node;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::ExecutionError;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::unprepared::Statement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::{CqlValue, Row};

/// Schema changes and TRUNCATE take their time.
const REQUEST_MAX: Duration = Duration::from_secs(90);
/// A page of rows or a write that fails for a reason that may pass is tried this often.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(250);

/// An open session.
pub struct Cluster {
    pub session: Session,
    /// Who asks, if the cluster requires authentication.
    pub role: Option<String>,
    access: Arc<NodeAccess>,
}

/// Of sessions that repeat nothing by themselves.
pub(super) fn builder() -> SessionBuilder {
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::Quorum)
        .serial_consistency(Some(SerialConsistency::Serial))
        .request_timeout(Some(REQUEST_MAX))
        .retry_policy(Arc::new(FallthroughRetryPolicy))
        .build();
    SessionBuilder::new()
        .schema_agreement_timeout(REQUEST_MAX)
        .default_execution_profile_handle(profile.into_handle())
}

impl Cluster {
    /// Waits for the nodes to agree on the schema.
    pub(super) async fn of(
        session: Session,
        role: Option<String>,
        access: Arc<NodeAccess>,
    ) -> Result<Cluster> {
        let cluster = Cluster {
            session,
            role,
            access,
        };
        // Any node may be asked about a table that was created a moment ago.
        cluster.agree().await?;
        Ok(cluster)
    }

    /// Waits until all nodes have the same schema: any of them may be asked about it.
    pub async fn agree(&self) -> Result<()> {
        let agreed = self.session.await_schema_agreement().await;
        agreed.map(|_| ()).context(
            "the nodes do not agree on the schema: see `nodetool describecluster`, and try again",
        )
    }

    /// All rows of a small result.
    pub async fn rows<T>(&self, statement: impl Into<Statement>) -> Result<Vec<T>>
    where
        T: for<'f> DeserializeRow<'f, 'f>,
    {
        let statement = statement.into();
        // A table that was just made is slow at first, for one.
        patiently(|| self.rows_at_once(statement.clone())).await
    }

    async fn rows_at_once<T>(&self, statement: Statement) -> Result<Vec<T>>
    where
        T: for<'f> DeserializeRow<'f, 'f>,
    {
        let text = statement.contents.clone();
        let done = self.session.query_unpaged(statement, ()).await;
        let rows = done.with_context(|| text.clone())?.into_rows_result()?;
        let rows = rows.rows::<T>()?.collect::<Result<Vec<T>, _>>();
        rows.with_context(|| format!("the answer to {text} is not as expected"))
    }

    /// A statement without a result that matters.
    pub async fn run(&self, text: &str) -> Result<()> {
        let done = self.session.query_unpaged(text, ()).await;
        done.map(|_| ()).with_context(|| text.to_owned())
    }

    /// [`Cluster::run`] at a level of its own.
    pub(crate) async fn run_at(&self, text: &str, level: Consistency) -> Result<()> {
        let mut statement = Statement::new(text);
        statement.set_consistency(level);
        let done = self.session.query_unpaged(statement, ()).await;
        done.map(|_| ()).with_context(|| text.to_owned())
    }

    /// A conditional statement; whether it was applied.
    pub async fn is_applied(&self, text: &str) -> Result<bool, ExecutionError> {
        let answer = self.session.query_unpaged(text, ()).await?;
        let rows = answer.into_rows_result().ok();
        let first = rows.and_then(|rows| rows.maybe_first_row::<Row>().ok().flatten());
        let applied = first.and_then(|row| row.columns.into_iter().next().flatten());
        Ok(applied.as_ref().and_then(CqlValue::as_boolean) == Some(true))
    }

    /// All nodes that are known, whether they answer or not.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.session.get_cluster_state().get_nodes_info().to_vec()
    }

    /// The names of all data centers.
    pub(crate) fn data_centers(&self) -> BTreeSet<String> {
        let nodes = self.nodes().into_iter();
        nodes.filter_map(|node| node.datacenter.clone()).collect()
    }

    /// Where a node is. The driver may know it by another port.
    pub fn address(&self, node: &Node) -> SocketAddr {
        self.access
            .node(SocketAddr::new(node.address.ip(), node.address.port()))
    }

    /// Those that do not answer, and why if that can be found out.
    pub async fn away(&self) -> Vec<String> {
        let nodes = self.nodes().into_iter();
        let away = nodes.filter(|node| !node.is_connected()).map(async |node| {
            let address = self.address(&node);
            match self.access.try_node(address).await {
                Ok(()) => address.to_string(),
                Err(e) => format!("{address} ({e})"),
            }
        });
        join_all(away).await
    }

    /// Rows of a table that each node has for itself.
    pub async fn rows_of<T>(&self, node: &Arc<Node>, text: &str) -> Result<Vec<T>>
    where
        T: for<'f> DeserializeRow<'f, 'f>,
    {
        let mut statement = Statement::new(text);
        let target = NodeIdentifier::Node(node.clone());
        statement
            .set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(target, None)));
        statement.set_consistency(Consistency::One);
        statement.set_request_timeout(Some(Duration::from_secs(5)));
        self.rows_at_once(statement).await
    }

    /// Only of this partitioner the ring can be cut into ranges.
    pub async fn check_partitioner(&self) -> Result<()> {
        let found: Vec<(String,)> = self
            .rows("SELECT partitioner FROM system.local WHERE key = 'local'")
            .await?;
        match found.first() {
            Some((name,)) if name.ends_with("Murmur3Partitioner") => Ok(()),
            other => bail!(
                "ranges of tokens need Murmur3Partitioner; this cluster has {}",
                other.map_or("none", |(name,)| name)
            ),
        }
    }
}

/// Tries again what fails for a reason that may pass. Everything here is idempotent: reads, and writes
/// with timestamps of their own.
pub async fn patiently<T, E, F>(mut attempt: impl FnMut() -> F) -> Result<T, E>
where
    E: MayPass,
    F: Future<Output = Result<T, E>>,
{
    let mut pause = PAUSE;
    for _ in 1..ATTEMPTS {
        match attempt().await {
            Err(error) if error.may_pass() => tokio::time::sleep(pause).await,
            done => return done,
        }
        pause *= 2;
    }
    attempt().await
}

/// Errors after which the request may succeed if it is sent again later.
pub trait MayPass {
    fn may_pass(&self) -> bool;
}

impl MayPass for ExecutionError {
    fn may_pass(&self) -> bool {
        use scylla::errors::{DbError, RequestAttemptError};
        match self {
            ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => matches!(
                error,
                DbError::Unavailable { .. }
                    | DbError::Overloaded
                    | DbError::IsBootstrapping
                    | DbError::ReadTimeout { .. }
                    | DbError::WriteTimeout { .. }
                    | DbError::ReadFailure { .. }
                    | DbError::WriteFailure { .. }
                    | DbError::ServerError
            ),
            ExecutionError::BadQuery(_) | ExecutionError::PrepareError(_) => false,
            _ => true,
        }
    }
}

impl MayPass for anyhow::Error {
    fn may_pass(&self) -> bool {
        let error = self.downcast_ref::<ExecutionError>();
        error.is_some_and(MayPass::may_pass)
    }
}
