//! Checks settings and cluster without serving clients: `helenus check`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, anyhow};
use futures::StreamExt as _;
use futures::stream;
use helenus_catalogue::Written;
use helenus_engine::features::rules::explain::{Explanation, Question, explain};
use helenus_engine::features::rules::{Rules, shadowed_by};
use helenus_engine::snapshot::{Node, Snapshot};
use helenus_policy::route::Locality;
use serde::Serialize;

use crate::catalogue;
use crate::config::Config;
use crate::conn::tls;
use crate::conn::{ConnError, Dialer};
use crate::control::facts::{self, NODE_SETTINGS, POOLS};
use crate::control::{Control, NoControl, contact};
use crate::reports::{self, CheckedReport};

/// Nodes that are asked at the same time.
const AT_ONCE_MAX: usize = 16;

/// The findings of `helenus check`.
#[derive(Debug, Default, Serialize)]
pub struct CheckReport {
    pub problems: Vec<String>,
    pub advice: Vec<String>,
    pub cluster_name: Option<String>,
    pub protocol: Option<u8>,
    pub nodes: Vec<CheckedNode>,
    /// The catalogue's layouts, if `layouts.enabled` is set and it can be read.
    pub layouts: Option<CheckedLayouts>,
    /// The catalogue's encoded columns, if `payload.enabled` is set and it can be read.
    pub encoded_columns: Option<CheckedEncodings>,
    /// The rules that the statement asked about would meet.
    pub explanation: Option<Explanation>,
}

/// Encoded columns as seen by `helenus check`, by state.
pub type CheckedEncodings = BTreeMap<&'static str, usize>;

/// Layouts as seen by `helenus check`.
#[derive(Debug, Serialize)]
pub struct CheckedLayouts {
    /// Read and written.
    pub ready: usize,
    /// Only written: being created, or not as the catalogue says.
    pub writing: usize,
}

/// One node as seen by `helenus check`.
#[derive(Debug, Serialize)]
pub struct CheckedNode {
    pub address: String,
    pub dc: String,
    pub rack: String,
    pub release_version: String,
    /// Processors, if the node reports them (Cassandra 4.0 and later).
    pub processors: Option<u32>,
    pub reachable: bool,
    /// Its agent's report, if `assignment.reports` is set and there is one.
    pub report: Option<CheckedReport>,
}

/// Checks settings and cluster without serving clients, and explains what a statement would meet.
pub fn check(config: &Config, question: Option<&Question>) -> Result<CheckReport> {
    let mut report = CheckReport {
        problems: config.problems(),
        ..CheckReport::default()
    };
    let mut config = config.clone();
    if let Err(e) = crate::config::read_secrets(&mut config) {
        report.problems.push(format!("{e:#}"));
    }
    let config = &Arc::new(config);
    if let Err(e) = config.listen.tls.as_ref().map(tls::server).transpose() {
        report.problems.push(format!("listen.tls: {e:#}"));
    }
    let dialer = match Dialer::new(config) {
        Ok(dialer) => dialer,
        Err(e) => {
            report.problems.push(format!("cluster.tls: {e:#}"));
            return Ok(report);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut explanation = Ok(None);
    runtime.block_on(async {
        let addresses = contact::resolve(&config.cluster.contact_points).await;
        let snapshot = match Control::connect(config, &dialer, &addresses).await {
            Ok(mut control) => {
                let address = control.address();
                let snapshot = control.read(config, None).await;
                snapshot.map_err(|error| NoControl::Failed { address, error })
            }
            Err(e) => Err(e),
        };
        let snapshot = match snapshot {
            Ok(snapshot) => snapshot,
            Err(e) => {
                report
                    .problems
                    .push(format!("no contact point can be used: {e}"));
                explanation = explained(config, &Snapshot::unknown(), question);
                return;
            }
        };
        report.advice.extend(advice_on_rules(config, &snapshot));
        explanation = explained(config, &snapshot, question);
        report.cluster_name = Some(snapshot.cluster_name().to_owned());
        report.protocol = Some(snapshot.version() as u8);
        for checked in check_nodes(config, &dialer, &snapshot).await {
            report.problems.extend(checked.problems);
            report.advice.extend(checked.advice);
            report.nodes.push(checked.node);
        }
        if config.layouts.enabled || config.payload.enabled {
            check_catalogue(&mut report, config, &dialer, &snapshot).await;
        }
        if snapshot.nodes().ring().is_none() {
            report.advice.push(
                "the partitioner is neither Murmur3Partitioner nor ByteOrderedPartitioner: \
                 requests cannot be routed to the owners of their keys"
                    .to_owned(),
            );
        }
        let on_dcs = advice_on_dcs(&snapshot, config);
        match snapshot.nodes().dcs().contains(snapshot.nodes().local_dc()) {
            true => report.advice.extend(on_dcs),
            false => report.problems.extend(on_dcs),
        }
        if snapshot.version() < helenus_wire::Version::V5 {
            report.advice.push(match config.links.protocol_max < 5 {
                true => "links.protocol_max is 4: requests cannot be packed into v5 frames; set 5 unless the nodes have \
                         trouble with it"
                    .to_owned(),
                false => "the nodes speak protocol v4 only: requests cannot be packed into v5 frames, which Cassandra 4.0 \
                          and later can read"
                    .to_owned(),
            });
        }
    });
    runtime.shutdown_background();
    report.explanation = explanation?;
    Ok(report)
}

fn explained(
    config: &Config,
    snapshot: &Snapshot,
    question: Option<&Question>,
) -> Result<Option<Explanation>> {
    let now = Instant::now();
    let explained = question.map(|question| explain(config, snapshot, question, now));
    explained.transpose().map_err(|why| anyhow!(why))
}

/// Rules that nothing can match.
fn advice_on_rules(config: &Config, snapshot: &Snapshot) -> Vec<String> {
    let rules = Rules::default();
    rules.publish(&config.rules, Instant::now());
    let rules = rules.list();
    let useless = rules.iter().filter_map(|rule| {
        let why = shadowed_by(rule, &rules).or_else(|| rule.never_matches(snapshot))?;
        Some(format!(
            "rule {:?} may match nothing: {why}",
            rule.settings.name
        ))
    });
    useless.collect()
}

/// Layouts and encoded columns that do not fit their tables.
async fn check_catalogue(
    report: &mut CheckReport,
    config: &Config,
    dialer: &Dialer,
    snapshot: &Snapshot,
) {
    let pinned = snapshot.nodes().get(snapshot.nodes().pinned());
    let Some(address) = pinned.map(Node::address) else {
        return;
    };
    match catalogue::probe(
        config,
        dialer,
        address,
        snapshot.version(),
        snapshot.nodes().local_dc(),
    )
    .await
    {
        Ok(known) => {
            report.problems.extend(known.problems().cloned());
            report.layouts = config.layouts.enabled.then_some(CheckedLayouts {
                ready: known.layouts.readable,
                writing: known.layouts.written,
            });
            let count = |state: Written| (state.name(), known.encodings.count(state));
            let columns = config.payload.enabled.then(|| Written::ALL.map(count));
            report.encoded_columns = columns.map(CheckedEncodings::from);
        }
        Err(e) => {
            let refused = match config.payload.enabled {
                true => "reads and writes",
                false => "writes",
            };
            report.problems.push(format!(
                "the catalogue cannot be read, so {refused} of tables that depend on it would be refused: {e}{}",
                crate::catalogue::remedy(&e)
            ));
        }
    }
}

/// Findings about one node.
struct Checked {
    problems: Vec<String>,
    advice: Vec<String>,
    node: CheckedNode,
}

/// All nodes in their order, several at a time: each may take seconds not to answer.
async fn check_nodes(config: &Arc<Config>, dialer: &Dialer, snapshot: &Snapshot) -> Vec<Checked> {
    let nodes = snapshot.nodes().all().iter();
    let checks = nodes.map(|node| check_node(config, dialer, snapshot, node));
    stream::iter(checks).buffered(AT_ONCE_MAX).collect().await
}

async fn check_node(
    config: &Arc<Config>,
    dialer: &Dialer,
    snapshot: &Snapshot,
    node: &Node,
) -> Checked {
    let (mut problems, mut advice) = (Vec::new(), Vec::new());
    let (address, version) = (node.address(), snapshot.version());
    let unreached = dialer.dial(address, version).await.err();
    let reachable = unreached.is_none();
    let limit = dialer.connect_timeout * 3;
    let told = facts::ask(config, dialer, address, version);
    let told = tokio::time::timeout(limit, told).await;
    let told = told.unwrap_or(Err(ConnError::Timeout(limit)));
    if let Err(e) = &told
        && e.is_final()
    {
        problems.push(format!("{address}: {e}"));
    }
    let told = told.unwrap_or_default();
    let refusal = told.refusal.as_ref();
    advice.extend(refusal.map(|refusal| untold(address, refusal)));
    let remote = snapshot.nodes().locality_of(address) == Some(Locality::Remote);
    let is_asked = !remote || config.cluster.allow_remote_dc;
    let report = match config.assignment.reports && reachable && is_asked {
        true => reported(config, node, &mut advice).await,
        false => None,
    };
    if let Some(e) = unreached
        && is_asked
    {
        problems.push(format!(
            "{address} is part of the cluster but cannot be reached from here: {e}"
        ));
    }
    let node = CheckedNode {
        address: address.to_string(),
        dc: node.dc().to_owned(),
        rack: node.rack().to_owned(),
        release_version: node.release_version().to_owned(),
        processors: told.facts.processors,
        reachable,
        report,
    };
    Checked {
        problems,
        advice,
        node,
    }
}

/// The consequence of a node's refusal to tell of itself.
fn untold(node: SocketAddr, refusal: &str) -> String {
    format!(
        "{node} does not tell how many processors it has, by which Helenus sizes its scans, or what its \
         time-outs are: let the role of cluster.username SELECT {POOLS} and {NODE_SETTINGS} ({refusal})"
    )
}

/// The report of a node's agent. That there is nothing is no problem: every policy works without.
async fn reported(config: &Config, node: &Node, advice: &mut Vec<String>) -> Option<CheckedReport> {
    let probed = reports::probe(config, node).await;
    probed
        .map_err(|why| advice.push(format!("no reports of resources: {why}")))
        .ok()
}

/// Problems with the choice of the local data centre.
pub(crate) fn advice_on_dcs(snapshot: &Snapshot, config: &Config) -> Option<String> {
    let dcs = snapshot.nodes().dcs();
    let names = || dcs.iter().copied().collect::<Vec<_>>().join(", ");
    let local = snapshot.nodes().local_dc();
    if !dcs.contains(local) {
        return Some(format!(
            "cluster.local_dc is {local:?}, but no node is there: choose one of {}",
            names()
        ));
    }
    (dcs.len() > 1 && config.cluster.local_dc.is_none()).then(|| {
        format!(
            "the nodes are in several data centres ({}) and cluster.local_dc is not set: {local:?} is \
             taken, only because a contact point there was the first to answer",
            names()
        )
    })
}

#[cfg(test)]
mod tests;
