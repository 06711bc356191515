//! Settings: one struct a section, unknown keys refused, defaults stated.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use helenus_policy::choice::Policy;
use helenus_wire::Consistency;
use serde::{Deserialize, Serialize};

mod admin;
mod problems;
pub(crate) mod rules;
mod scheduling;
mod secret;
mod tracing;

pub use self::tracing::{Endpoint, Tracing};
pub use admin::{Admin, admin_address};
pub use problems::REPORTS_SECRET_BYTES_MIN;
pub use rules::{Names, RuleSettings};
pub use scheduling::Scheduling;
pub use secret::Secret;

/// Everything that can be set.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub listen: Listen,
    pub cluster: Cluster,
    pub links: Links,
    pub aggregation: Aggregation,
    pub scheduling: Scheduling,
    pub assignment: Assignment,
    pub layouts: LayoutSettings,
    pub payload: PayloadSettings,
    pub limits: Limits,
    pub rules: Vec<RuleSettings>,
    pub admin: Admin,
    pub tracing: Tracing,
    pub log: Log,
}

/// Where clients connect.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    /// Address and port for CQL clients.
    pub address: SocketAddr,
    /// Address that `system.local` shows to drivers, if it differs from `address` (when listening on 0.0.0.0).
    pub advertise: Option<SocketAddr>,
    /// Advertised addresses of all other proxies of this cluster; drivers find them in `system.peers`.
    pub proxies: Vec<SocketAddr>,
    /// In place of `proxies`: a name, as host:port, with the addresses of [all
    /// proxies](operations.md#several-proxies).
    pub proxies_dns: Option<String>,
    /// The addresses that `proxies_dns` was found to have: not a setting.
    #[serde(skip)]
    pub proxies_found: Vec<SocketAddr>,
    /// How many of the others have been down for long: not a setting.
    #[serde(skip)]
    pub proxies_down: usize,
    /// How often the other proxies are checked; 0: never.
    pub proxies_check_ms: u64,
    /// Worker threads. 0: one for each core.
    pub workers: usize,
    /// TLS towards clients.
    pub tls: Option<ListenTls>,
    /// How long service [continues after SIGTERM](operations.md#stopping) while the shutdown is announced; at most
    /// half of `drain_timeout_ms`. Skipped without clients.
    pub drain_grace_ms: u64,
    /// Whether `drain_grace_ms` passes also without clients: for balancers that go on sending new ones, as in
    /// Kubernetes.
    pub drain_grace_idle: bool,
    /// Longest time from SIGTERM to exit, including the grace period.
    pub drain_timeout_ms: u64,
    /// Unix socket over which a new process [takes the place of this one](operations.md#restarting-in-place).
    pub handover: Option<PathBuf>,
}

/// TLS towards clients.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListenTls {
    /// PEM file with the certificate chain.
    pub certificate: PathBuf,
    /// PEM file with the private key.
    pub key: PathBuf,
    /// PEM file with the authorities of client certificates; if set, clients must present one.
    pub client_ca: Option<PathBuf>,
}

/// The Cassandra cluster.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    /// Nodes to ask for the rest of the cluster, as host:port; asked again whenever no known node answers.
    pub contact_points: Vec<String>,
    /// Data centre whose nodes serve. Not set: that of the first contact point that answers.
    pub local_dc: Option<String>,
    /// Rack whose nodes are preferred within the data centre.
    pub local_rack: Option<String>,
    /// Whether nodes of other data centres may serve requests and logins when no local node can, and reads of partitions that
    /// no local node owns; not requests at LOCAL_ONE, LOCAL_QUORUM or LOCAL_SERIAL.
    pub allow_remote_dc: bool,
    /// Whether that includes these levels: answers may then lack the latest writes of the local data centre.
    pub allow_remote_dc_for_local_levels: bool,
    /// How long the answer to a schema change waits for all nodes that are up. Keep it below drivers' time-outs:
    /// mostly 10 s, but 2 s in the Java driver.
    pub schema_agreement_max_ms: u64,
    /// Role of the control connection, if the cluster requires authentication. Clients log in as themselves.
    pub username: Option<String>,
    /// Password of the control connection's role.
    pub password: Option<Secret>,
    /// File with this password, in place of `password`.
    pub password_file: Option<PathBuf>,
    /// Further authenticator classes to rely on: only those that judge [by the SASL token
    /// alone](security.md#supported-authenticators), in one exchange.
    pub authenticators: Vec<String>,
    /// TLS towards nodes.
    pub tls: Option<NodeTls>,
}

/// TLS towards nodes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NodeTls {
    /// PEM file with the authorities of the nodes' certificates.
    pub ca: PathBuf,
    /// PEM file with the proxy's own certificate, for nodes that ask for one.
    pub certificate: Option<PathBuf>,
    /// PEM file with its key.
    pub key: Option<PathBuf>,
    /// Name to look for in the nodes' certificates instead of their addresses.
    pub server_name: Option<String>,
    /// Whether names in the nodes' certificates are checked: the address of each, or `server_name`.
    #[serde(default = "by_default")]
    pub verify_names: bool,
}

fn by_default() -> bool {
    true
}

/// Upstream connections: those to nodes, which clients share.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Links {
    /// Connections to each node for each role, over all workers; at least one per worker.
    pub per_node: usize,
    /// Requests in flight on one upstream connection; 1 to 30,000.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub in_flight_max: usize,
    /// Requests in flight on one node, over all workers; 16 to 100,000. A node runs 128
    /// (`native_transport_max_threads`); any excess waits there.
    pub node_in_flight_max: usize,
    /// Bytes of requests in flight on one node, over all workers; at least 64 KiB. Keep it below
    /// `native_transport_max_request_data_in_flight_per_ip`, a fortieth of a node's heap.
    pub node_bytes_max: usize,
    /// Larger requests, and reads whose answers have been larger so far, use a separate connection to each node. 0:
    /// never.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub bulk_bytes: usize,
    /// Time for a TCP connection to open; the same again for its TLS handshake.
    pub connect_timeout_ms: u64,
    /// An upstream connection that answers nothing for this long is probed, and its node is tried last. After twice
    /// the time, reads and idempotent writes with a client timestamp also go elsewhere.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub silence_ms: u64,
    /// An upstream connection whose probe is not answered within this time is closed. Longer than a healthy node's
    /// longest garbage collection.
    pub probe_timeout_ms: u64,
    /// First and longest pause before a node is tried again.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub backoff_min_ms: u64,
    /// See `backoff_min_ms`.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub backoff_max_ms: u64,
    /// How often the credentials of connected clients are [checked again](security.md#credentials-are-checked-again);
    /// 100 to 86,400,000.
    pub check_credentials_ms: u64,
    /// How long clients are served while no node can check their credentials; at least `check_credentials_ms`.
    pub unchecked_credentials_max_ms: u64,
    /// The latest protocol version to use towards nodes, 4 or 5.
    pub protocol_max: u8,
}

/// Queries of many clients in few large frames.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Aggregation {
    /// When queries that were collected for a node leave: `timerless`, `window` or `adaptive`. See
    /// [Aggregation](aggregation.md).
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub mode: AggregationMode,
    /// Window of mode `window`; 0 to 10,000. 0: whatever one client's packet brought leaves at once.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub window_us: u64,
    /// Latency that mode `adaptive` may spend on waiting; 1 to 10,000.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub latency_budget_us: u64,
    /// Whether one query serves all clients whose [identical reads](aggregation.md#shared-reads) wait to be sent.
    pub share_reads: bool,
    /// Identical reads in flight per worker, 1 to 1,000; further ones wait (100 ms at most) and then go as one. 0:
    /// none waits.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub share_in_flight_max: usize,
    /// Tables (`keyspace.table`), keyspaces, or `*`, whose waiting writes may leave as [one unlogged
    /// batch](aggregation.md#merged-writes).
    pub merge_writes: Vec<String>,
    /// Whether [conditional writes](aggregation.md#queues-for-conditional-writes) (`IF`) of one partition queue
    /// instead of colliding in Paxos.
    pub lwt_turns: bool,
    /// Longest wait in that queue; then the write goes without. 0 to 10,000.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub lwt_wait_max_ms: u64,
    /// How long a partition is kept for a client whose condition did not hold, to try again first; 0 (never) to 100.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub lwt_grace_ms: u64,
}

/// See [`Aggregation::mode`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AggregationMode {
    /// Together with everything that has arrived when the worker has read all sockets that are
    /// ready. Nothing ever waits for a clock.
    #[default]
    Timerless,
    /// A fixed time after the first.
    Window,
    /// As `window`, with a window that grows while it collects more and shrinks when latency does
    /// not stay within `latency_budget_us`.
    Adaptive,
}

/// Which of its replicas a request goes to.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Assignment {
    /// `earliest-finish`; or, for [comparison](assignment.md), `first` (in ring order), `round-robin` (all nodes),
    /// `token-aware` (replicas in turn), `resource-v1`, `resource-v2` (both need `reports`), `c3`.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub policy: String,
    /// Weight of memory in policy `resource-v2`, an exponent; 0 to 10.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub memory_weight: f64,
    /// Weight of disk utilisation in policy `resource-v2`, an exponent; 0 to 10.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub disk_weight: f64,
    /// Whether a slow read is [sent to a second replica as well](assignment.md#hedging), for at most 2 % of requests
    /// and of answered bytes.
    pub hedging: bool,
    /// Whether reads of [hot partitions](hot.md#spreading) go to all replicas.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub spread_hot: bool,
    /// Whether to ask the nodes' [agents](agent.md#resource-reports) what CPU, memory and disk are in use: for those
    /// policies, and for metrics.
    pub reports: bool,
    /// Port of the agents' reports, the same on all nodes.
    pub reports_port: u16,
    /// Secret that the agents share with the proxies, at least 16 bytes. Without one only nodes on loopback
    /// addresses are asked.
    pub reports_secret: Option<Secret>,
    /// File with this secret, in place of `reports_secret`.
    pub reports_secret_file: Option<PathBuf>,
}

/// Copies of tables in other clustering orders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LayoutSettings {
    /// Whether to use [layouts](layouts.md). All proxies of a cluster must have it on before the first `helenus
    /// layouts create`.
    pub enabled: bool,
    /// Whether clients [see the tables of layouts](layouts.md#what-clients-see) in `system_schema`, DESCRIBE and
    /// events.
    pub show_tables: bool,
}

impl LayoutSettings {
    /// True if the tables of layouts are kept from clients' eyes.
    pub(crate) fn hides_tables(&self) -> bool {
        self.enabled && !self.show_tables
    }
}

/// Columns whose JSON documents are stored as compact bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PayloadSettings {
    /// Whether to use [encoded columns](payload.md#encoded-columns). All proxies of a cluster must have it on before
    /// the first `helenus payload enable`.
    pub enabled: bool,
}

/// What one proxy accepts at most.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Client connections.
    pub clients_max: usize,
    /// Requests in flight of one client connection; beyond them its socket is not read.
    pub client_in_flight_max: usize,
    /// Time after which a client that waits for nothing and has sent nothing is disconnected; 0: never. Drivers send
    /// heartbeats, mostly every 30 s.
    pub client_idle_max_s: u64,
    /// Largest request.
    pub request_bytes_max: usize,
    /// Requests waiting for one node, per worker; beyond them clients get OVERLOADED.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub node_queue_max: usize,
    /// Bytes held for clients, over all workers ([Sizing](sizing.md#memory)); beyond them they get OVERLOADED. Not
    /// set: a quarter of the memory of machine or control group.
    pub memory_max: Option<usize>,
    /// Unread answers of one client; at most a quarter of `memory_max`. With more it is disconnected once it has
    /// taken nothing for 5 s, or at once while memory is full; with less after about two minutes without room.
    pub client_backlog_bytes_max: usize,
    /// Upstream connections beside the shared ones, per role and worker: for large requests, and for keyspaces that a
    /// statement cannot carry; 16 to 4,096.
    #[cfg_attr(feature = "schema", schemars(extend("x-lab" = true)))]
    pub special_links_max: usize,
    /// Time for any request at a node. Not set: [by kind](operations.md#time-outs), a little more than the node's own
    /// time-outs.
    pub request_timeout_ms: Option<u64>,
    /// Time for a page of a scan, with all its requests and waits; at least 100. [A node's own
    /// limit](operations.md#time-outs) counts if it is longer.
    pub page_timeout_ms: u64,
    /// Time for a client's TLS and CQL handshakes, and for a login to wait until it is judged.
    pub handshake_timeout_ms: u64,
    /// [Logins](security.md#logins-are-bounded) that nodes judge at a time; each costs a node one bcrypt. So many
    /// upstream connections of roles are opened at a time, too.
    pub logins_max: usize,
    /// The same for one client address (of IPv6: one /64). 0: addresses are not told apart, as behind a load
    /// balancer.
    pub logins_per_address_max: usize,
    /// Distinct [credentials](security.md#logins-are-bounded) in use, a quarter of them of one role at most.
    pub identities_max: usize,
    /// Bytes of remembered prepared statements, over all workers; at least 1 MiB.
    pub prepared_bytes_max: usize,
    /// Bytes of remembered statement texts and what is known of them, over all workers; at least 1 MiB.
    pub statements_bytes_max: usize,
}

/// What is logged, to standard error.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// A level (`error`, `warn`, `info`, `debug`), or levels by part of the program as in
    /// `info,helenus_engine::session=debug`.
    pub filter: String,
}

impl Default for Log {
    fn default() -> Self {
        Log {
            filter: "info".to_owned(),
        }
    }
}

impl Default for Listen {
    fn default() -> Self {
        Listen {
            address: SocketAddr::from(([127, 0, 0, 1], 9142)),
            advertise: None,
            proxies: Vec::new(),
            proxies_dns: None,
            proxies_found: Vec::new(),
            proxies_down: 0,
            proxies_check_ms: 1_000,
            workers: 0,
            tls: None,
            drain_grace_ms: 2_000,
            drain_grace_idle: false,
            drain_timeout_ms: 10_000,
            handover: None,
        }
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Cluster {
            contact_points: vec!["127.0.0.1:9042".to_owned()],
            local_dc: None,
            local_rack: None,
            allow_remote_dc: false,
            allow_remote_dc_for_local_levels: false,
            schema_agreement_max_ms: 5_000,
            username: None,
            password: None,
            password_file: None,
            authenticators: Vec::new(),
            tls: None,
        }
    }
}

impl Cluster {
    /// True if nodes of other data centres may serve what asks for these consistency levels.
    pub fn may_leave_dc(&self, level: Consistency, serial: Option<Consistency>) -> bool {
        let is_local = level.is_dc_local() || serial.is_some_and(Consistency::is_dc_local);
        self.allow_remote_dc && (self.allow_remote_dc_for_local_levels || !is_local)
    }
}

impl Default for Links {
    fn default() -> Self {
        Links {
            per_node: 2,
            in_flight_max: 2_048,
            node_in_flight_max: 512,
            node_bytes_max: 16 * 1024 * 1024,
            bulk_bytes: 32 * 1024,
            connect_timeout_ms: 2_000,
            silence_ms: 500,
            probe_timeout_ms: 3_000,
            backoff_min_ms: 100,
            backoff_max_ms: 10_000,
            check_credentials_ms: 60_000,
            unchecked_credentials_max_ms: 3_600_000,
            protocol_max: 5,
        }
    }
}

impl Default for Assignment {
    fn default() -> Self {
        Assignment {
            policy: Policy::default().to_string(),
            memory_weight: 1.0,
            disk_weight: 1.0,
            hedging: true,
            spread_hot: true,
            reports: false,
            reports_port: 9181,
            reports_secret: None,
            reports_secret_file: None,
        }
    }
}

impl Default for Aggregation {
    fn default() -> Self {
        Aggregation {
            mode: AggregationMode::Timerless,
            window_us: 0,
            latency_budget_us: 200,
            share_reads: true,
            share_in_flight_max: 0,
            merge_writes: Vec::new(),
            lwt_turns: false,
            lwt_wait_max_ms: 1_000,
            lwt_grace_ms: 2,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            clients_max: 20_000,
            client_in_flight_max: 4_096,
            client_idle_max_s: 0,
            request_bytes_max: helenus_wire::MAX_REQUEST_BODY,
            node_queue_max: 16_384,
            memory_max: None,
            client_backlog_bytes_max: 256 * 1024 * 1024,
            special_links_max: 256,
            request_timeout_ms: None,
            page_timeout_ms: 60_000,
            handshake_timeout_ms: 30_000,
            logins_max: 32,
            logins_per_address_max: 8,
            identities_max: 1_000,
            prepared_bytes_max: 64 * 1024 * 1024,
            statements_bytes_max: 64 * 1024 * 1024,
        }
    }
}

impl Config {
    /// All secrets with their keys.
    pub fn secrets(&self) -> [(&'static str, Option<&Secret>); 5] {
        [
            ("admin.read_token", self.admin.read_token.as_ref()),
            ("admin.token", self.admin.token.as_ref()),
            (
                "assignment.reports_secret",
                self.assignment.reports_secret.as_ref(),
            ),
            ("cluster.password", self.cluster.password.as_ref()),
            ("tracing.headers", self.tracing.headers.as_ref()),
        ]
    }

    /// The address that drivers see.
    pub fn advertised(&self) -> SocketAddr {
        self.listen.advertise.unwrap_or(self.listen.address)
    }

    /// Advertised addresses of the other proxies, as listed or as found.
    pub fn other_proxies(&self) -> &[SocketAddr] {
        match self.listen.proxies_dns {
            Some(_) => &self.listen.proxies_found,
            None => &self.listen.proxies,
        }
    }

    /// The proxies that share the nodes, this one included: what one that is down would have is for the others.
    pub fn proxies_at_work(&self) -> usize {
        let others = self.other_proxies().len();
        1 + others.saturating_sub(self.listen.proxies_down)
    }

    /// The time-out of all requests, if one is set.
    pub fn request_timeout(&self) -> Option<Duration> {
        self.limits.request_timeout_ms.map(Duration::from_millis)
    }

    /// The time-out of a page that is read by several requests to nodes.
    pub(crate) fn page_timeout(&self) -> Duration {
        Duration::from_millis(self.limits.page_timeout_ms)
    }

    /// SASL PLAIN token of the control connection.
    pub fn control_token(&self) -> Option<Vec<u8>> {
        let user = self.cluster.username.as_ref()?;
        let password = self.cluster.password.as_ref()?.expose();
        Some(format!("\0{user}\0{password}").into_bytes())
    }
}
