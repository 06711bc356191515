//! Thread pools of the nodes, from `system_views.thread_pools`, looked at while a window runs.
//!
//! A virtual table shows the node that is asked, so each node is asked by itself. Through a proxy
//! that answers in place of the nodes, only one node, any of them, is seen.

use super::evidence::{Kind, Use};
use crate::client::endpoint::Endpoint;
use anyhow::Result;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The stages that carry requests of clients.
const STAGES: [&str; 4] = [
    "ReadStage",
    "MutationStage",
    "RequestResponseStage",
    "Native-Transport-Requests",
];
const QUERY: &str = "SELECT name, active_tasks, active_tasks_limit, pending_tasks, blocked_tasks \
                     FROM system_views.thread_pools";
const INTERVAL: Duration = Duration::from_millis(400);
/// A node that answers later than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// One look at one pool.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Look {
    active: f64,
    limit: f64,
    /// Tasks that wait for a thread, or for room to wait.
    waiting: f64,
}

/// Node and stage → looks since they were last taken.
type Looks = BTreeMap<(String, String), Vec<Look>>;

/// Looks at the nodes until it is dropped.
#[derive(Debug)]
pub struct Pools {
    looks: Arc<Mutex<Looks>>,
    tasks: Vec<JoinHandle<()>>,
    pub nodes: Vec<SeenNode>,
}

/// A node as the driver sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeenNode {
    pub name: String,
    /// Data centre.
    pub dc: Option<String>,
    /// It is a proxy that stands for nodes.
    pub is_proxy: bool,
}

/// Ids of proxies are UUIDs of this version; those of nodes are random (version 4).
const PROXY_ID_VERSION: usize = 8;

impl Pools {
    /// # Errors
    /// If no session can be opened. Nodes that do not have the table are left out.
    pub async fn open(endpoint: &Endpoint) -> Result<Self> {
        let mut endpoint = endpoint.clone();
        endpoint.connections_per_host = 1;
        let (session, entrances) = endpoint.connect_over().await?;
        let session = Arc::new(session);
        let looks: Arc<Mutex<Looks>> = Arc::default();
        let (mut tasks, mut nodes) = (Vec::new(), Vec::new());
        for node in session.get_cluster_state().get_nodes_info() {
            let known = SocketAddr::new(node.address.ip(), node.address.port());
            let name = entrances.as_ref().map_or(known, |way| way.node(known));
            let name = name.to_string();
            nodes.push(SeenNode {
                name: name.clone(),
                dc: node.datacenter.clone(),
                is_proxy: node.host_id.get_version_num() == PROXY_ID_VERSION,
            });
            let profile = ExecutionProfile::builder()
                .consistency(Consistency::One)
                .request_timeout(Some(PATIENCE))
                .retry_policy(Arc::new(FallthroughRetryPolicy))
                .load_balancing_policy(SingleTargetLoadBalancingPolicy::new(
                    NodeIdentifier::Node(node.clone()),
                    None,
                ))
                .build();
            let mut statement = Statement::new(QUERY);
            statement.set_execution_profile_handle(Some(profile.into_handle()));
            let task = watch(session.clone(), statement, name, looks.clone());
            tasks.push(tokio::spawn(task));
        }
        nodes.sort();
        Ok(Self {
            looks,
            tasks,
            nodes,
        })
    }

    /// Means over the looks since the last call.
    pub fn take(&self) -> Vec<Use> {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        means(&std::mem::take(&mut *looks))
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn watch(session: Arc<Session>, statement: Statement, node: String, all: Arc<Mutex<Looks>>) {
    type Row = (String, i32, i32, i32, i64);
    let mut tick = tokio::time::interval(INTERVAL);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        // A node that is too busy to answer, or has no such table, has no figures.
        let Ok(answer) = session.query_unpaged(statement.clone(), ()).await else {
            continue;
        };
        let Ok(rows) = answer.into_rows_result() else {
            return;
        };
        let Ok(rows) = rows.rows::<Row>() else {
            return;
        };
        let mut looks = all.lock().unwrap_or_else(PoisonError::into_inner);
        for (stage, active, limit, pending, blocked) in rows.flatten() {
            if STAGES.contains(&&*stage) {
                let look = Look {
                    active: f64::from(active),
                    limit: f64::from(limit),
                    waiting: f64::from(pending) + blocked as f64,
                };
                looks.entry((node.clone(), stage)).or_default().push(look);
            }
        }
    }
}

fn means(looks: &Looks) -> Vec<Use> {
    let named = looks.iter().filter(|(_, looks)| !looks.is_empty());
    let means = named.map(|((node, stage), looks)| {
        let mean =
            |of: &dyn Fn(&Look) -> f64| looks.iter().map(of).sum::<f64>() / looks.len() as f64;
        Use {
            kind: Kind::ThreadPool,
            name: format!("{stage} of {node}"),
            used: mean(&|look| look.active),
            capacity: Some(mean(&|look| look.limit)),
            waiting: Some(mean(&|look| look.waiting)),
        }
    });
    means.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_means_for_each_node_and_stage() {
        let look = |active, waiting| Look {
            active,
            limit: 32.0,
            waiting,
        };
        let key = |node: &str| (node.to_owned(), "ReadStage".to_owned());
        let looks = Looks::from([
            (key("a"), vec![look(32.0, 10.0), look(30.0, 0.0)]),
            (key("b"), vec![]),
        ]);
        let uses = means(&looks);
        assert_eq!(uses.len(), 1, "no look is no figure");
        assert_eq!(uses[0].name, "ReadStage of a");
        assert_eq!((uses[0].used, uses[0].waiting), (31.0, Some(5.0)));
        assert_eq!(uses[0].capacity, Some(32.0));
    }
}
