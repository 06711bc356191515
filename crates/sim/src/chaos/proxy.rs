//! Proxies: engines, and what they share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_engine::config::Config;
use helenus_engine::session::drain::Timetable;
use helenus_engine::shared::{Common, Shared};
use helenus_engine::snapshot::list_columns::ListColumns;
use helenus_engine::snapshot::timeouts::Timeouts;
use helenus_engine::snapshot::{KeyColumn, Mover, Node, Snapshot};
use helenus_engine::{Engine, LinkKey, SessionKey};
use helenus_policy::ring::{NodeSpec, Replication, Ring};
use helenus_policy::route::NodeTable;
use helenus_policy::token::{Partitioner, Token, murmur3_token};
use helenus_wire::{Version, write};
use slotmap::SecondaryMap;

use super::catalogue::{Leases, Rows};
use super::terms::History;
use super::wide::TABLE;
use crate::proxy::engines;
pub(super) use crate::proxy::{At, all_of};

/// Behind the end of every run.
pub(super) const FAR: Duration = Duration::from_secs(1 << 30);

pub(super) struct Worker {
    pub engine: Engine,
    /// The connections of its clients and links, by their number in the world.
    pub clients: SecondaryMap<SessionKey, usize>,
    pub links: SecondaryMap<LinkKey, usize>,
    /// Whether it will write what it has to.
    pub flush_planned: bool,
    /// When it will look whether its engine's deadline has passed.
    pub alarm: Instant,
    /// Schema changes that wait until the nodes agree.
    pub agreeing: usize,
    /// When it hears of what it was told last.
    pub told_us: u64,
    /// When it is to send its clients away.
    pub timetable: Option<Timetable>,
    /// Whether it takes new clients.
    pub accepts: bool,
    /// It is no more, and an engine without anything has the place of its own.
    pub ended: bool,
}

pub(super) struct Proxy {
    pub common: Arc<Common>,
    pub workers: Vec<Worker>,
    /// When it began.
    pub begun_us: u64,
    /// On which terms it serves, and has served.
    pub terms: History,
    /// The nodes in the ring that it has heard of, in the order of their tokens, and one that joins.
    pub members: Vec<usize>,
    pub joining: Option<usize>,
    /// How often the keyspace of derived layouts is replicated, if there is one.
    pub layouts_replication: Option<Replication>,
    /// What it knows of the catalogue of layouts, and whether it takes their table for flagged.
    pub layouts: Rows,
    pub flagged: bool,
    /// When that was good for writing this table, and for writing others.
    pub leases: Leases,
    pub leases_of_flags: Leases,
    /// Until when it can read neither the catalogue nor, in the second case, the flags.
    pub catalogue_lost_until_us: u64,
    pub flags_lost_until_us: u64,
}

impl Proxy {
    pub(super) fn new(
        config: Config,
        snapshot: Snapshot,
        workers: usize,
        seed: u64,
        now: Instant,
    ) -> Proxy {
        let terms = History::new(&config);
        let common = Arc::new(Common::new(config, 1 << 30, now));
        let nodes = snapshot.nodes.iter().enumerate();
        let members = nodes
            .filter(|(_, node)| !node.gone)
            .map(|(at, _)| at)
            .collect();
        common.store(snapshot);
        let workers = engines(&common, workers, seed, now).map(|engine| Worker {
            engine,
            clients: SecondaryMap::new(),
            links: SecondaryMap::new(),
            flush_planned: false,
            alarm: now + FAR,
            agreeing: 0,
            told_us: 0,
            timetable: None,
            accepts: true,
            ended: false,
        });
        let workers = workers.collect();
        Proxy {
            workers,
            common,
            begun_us: 0,
            terms,
            members,
            joining: None,
            layouts_replication: None,
            layouts: Rows::new(),
            flagged: false,
            leases: Leases::default(),
            leases_of_flags: Leases::default(),
            catalogue_lost_until_us: 0,
            flags_lost_until_us: 0,
        }
    }
}

impl Worker {
    /// Ends it, with all that it has.
    pub(super) fn end(&mut self, index: usize, now: Instant) {
        let idle = Common::new(Config::default(), 1 << 30, now);
        let shared = Arc::new(Shared::new(Arc::new(idle)));
        self.engine = Engine::new(shared, index, 1, 0, now, Duration::ZERO);
        self.clients.clear();
        self.links.clear();
        self.ended = true;
    }
}

/// A ring of these nodes, in the order of their tokens, and of others that are not in it. Its tokens are those of keys, so that there are rows at the very ends of
/// what a node owns.
pub(super) fn specs_of(members: &[usize]) -> Vec<NodeSpec> {
    let specs = specs(members.len());
    let last = members.iter().max().copied().unwrap_or(0);
    let of = |node: usize| {
        let at = members.iter().position(|member| *member == node);
        at.map_or_else(nowhere, |at| specs[at].clone())
    };
    (0..=last).map(of).collect()
}

/// A node without tokens.
fn nowhere() -> NodeSpec {
    NodeSpec {
        dc: "dc1".to_owned(),
        rack: "r1".to_owned(),
        tokens: Vec::new(),
    }
}

fn specs(nodes: usize) -> Vec<NodeSpec> {
    const TOKENS: usize = 4;
    const KEYS: usize = 60;
    let mut of_keys: Vec<i64> = (0..KEYS as i64)
        .map(|key| murmur3_token(&key.to_be_bytes()))
        .collect();
    of_keys.sort_unstable();
    let token = |at: usize| of_keys[at * KEYS / (nodes * TOKENS)];
    (0..nodes)
        .map(|node| NodeSpec {
            dc: "dc1".to_owned(),
            rack: "r1".to_owned(),
            tokens: (0..TOKENS)
                .map(|at| Token::Murmur3(token(at * nodes + node)))
                .collect(),
        })
        .collect()
}

pub(super) const CLUSTER_NAME: &str = "model";

/// Which of the columns that clients write is a list.
fn list_columns() -> ListColumns {
    let columns = ["t", "n", "l"].map(|table| (table, &["k", "v", "n"][..]));
    let of_rows = (TABLE, &["p", "a", "b", "c", "v"][..]);
    let mut known = ListColumns::default();
    known.note("ks", "q", "k", "bigint");
    known.note("ks", "q", "l", "list<bigint>");
    for (table, columns) in columns.into_iter().chain([of_rows]) {
        for column in columns {
            known.note("ks", table, column, "bigint");
        }
    }
    known
}

/// What the proxies know of the cluster.
pub(super) fn snapshot(
    members: &[usize],
    joining: Option<usize>,
    replication: &Replication,
    version: Version,
    authenticated: bool,
) -> Snapshot {
    let specs = specs_of(members);
    let nodes = specs.len();
    let ring = Ring::new(Partitioner::Murmur3, &specs);
    let replicas = Arc::new(ring.replica_sets(replication));
    let key: Arc<[KeyColumn]> = Arc::new([KeyColumn {
        name: "k".to_owned(),
        cql_type: "bigint".to_owned(),
        is_masked: false,
    }]);
    let tables = ["t", "n", "l", "q", "who"].map(|table| (table.to_owned(), key.clone()));
    let of_rows: Arc<[KeyColumn]> = Arc::new([KeyColumn {
        name: "p".to_owned(),
        cql_type: "bigint".to_owned(),
        is_masked: false,
    }]);
    let of_rows = [(TABLE.to_owned(), of_rows)];
    let address = |at: usize| SocketAddr::from(([10, 0, 0, at as u8 + 1], 9042));
    let host_id = |at: usize| [at as u8 + 1; 16];
    let node = |at: usize| Node {
        address: address(at),
        host_id: host_id(at),
        dc: "dc1".to_owned(),
        rack: "r1".to_owned(),
        release_version: "5.0.6".to_owned(),
        processors: Some(4),
        timeouts: Some(Timeouts::default()),
        batches: None,
        pages: None,
        hints: None,
        gone: !members.contains(&at),
    };
    let joining = joining.map(|at| Mover {
        host_id: host_id(at),
        address: address(at),
    });
    let mut asked = Vec::new();
    write::string(
        &mut asked,
        "org.apache.cassandra.auth.PasswordAuthenticator",
    );
    let tokens = (0..ring.len()).filter_map(|slot| Some(ring.end_token(slot)?.to_text()));
    Snapshot {
        epoch: 1,
        cluster_name: CLUSTER_NAME.to_owned(),
        version,
        authenticate: authenticated.then_some(asked),
        nodes: (0..nodes).map(node).collect(),
        joining: joining.into_iter().collect(),
        places: NodeTable::new(&specs, Some("dc1"), None),
        tokens: tokens.collect(),
        keyspaces: [("ks".to_owned(), replicas)].into_iter().collect(),
        tables: [("ks".to_owned(), tables.into_iter().chain(of_rows).collect())]
            .into_iter()
            .collect(),
        lists: Arc::new(list_columns()),
        local_dc: "dc1".to_owned(),
        ring: Some(ring),
        ..Snapshot::unknown()
    }
}
