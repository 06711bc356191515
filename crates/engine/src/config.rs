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
    /// Address that `system.local` shows to drivers, if it differs from `address` (for instance when
    /// listening on 0.0.0.0).
    pub advertise: Option<SocketAddr>,
    /// Advertised addresses of the other Helenus proxies of this cluster; drivers discover them
    /// through `system.peers`. Every proxy must list all others.
    pub proxies: Vec<SocketAddr>,
    /// In place of `proxies`: a name, as host:port, that resolves to the advertised addresses of all
    /// proxies of this cluster, for instance that of a headless service in Kubernetes. It is looked up
    /// every 5 seconds; this proxy's own address is left out, and so are addresses of the other family
    /// (IPv4 or IPv6) than its own. A look-up that fails or finds nothing changes nothing.
    pub proxies_dns: Option<String>,
    /// What `proxies_dns` was found to be: not a setting.
    #[serde(skip)]
    pub proxies_found: Vec<SocketAddr>,
    /// How many of the others have been down for long: not a setting.
    #[serde(skip)]
    pub proxies_down: usize,
    /// How often the other proxies are checked, in milliseconds; 0: never. Clients that registered for
    /// STATUS_CHANGE are told when one goes down or comes back.
    pub proxies_check_ms: u64,
    /// Worker threads. 0: one for each core.
    pub workers: usize,
    /// TLS towards clients.
    pub tls: Option<ListenTls>,
    /// How long service continues after SIGTERM, new connections included, while `/ready` and
    /// STATUS_CHANGE already announce the shutdown, in milliseconds. At most half of `drain_timeout_ms`;
    /// skipped when there are no clients, unless `drain_grace_idle` is set.
    pub drain_grace_ms: u64,
    /// Whether `drain_grace_ms` passes also when there are no clients: for a proxy behind a balancer that goes on
    /// sending new ones until it has noticed, as in Kubernetes.
    pub drain_grace_idle: bool,
    /// Longest time from SIGTERM to exit, including the grace period, in milliseconds. After the grace
    /// period no connections are accepted, and the existing ones are closed one by one as they become
    /// idle.
    pub drain_timeout_ms: u64,
    /// Path of a Unix socket over which a proxy that is started with the same settings takes the place of
    /// this one: it gets the ports, and when it is ready the clients with their connections. What cannot be
    /// passed on, TLS connections above all, is closed as on SIGTERM, without a grace period. Only processes
    /// of the same user can connect. Off if not set.
    pub handover: Option<PathBuf>,
}

/// TLS towards clients.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListenTls {
    /// PEM file with the certificate chain. Read again on SIGHUP and when it changes.
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
    /// Nodes to ask for the rest of the cluster, as host:port; all addresses of a name are used. They are
    /// resolved and asked again whenever no known node answers.
    pub contact_points: Vec<String>,
    /// Data centre whose nodes serve. Default: that of the first contact point that answers; set it where
    /// there are several data centres.
    pub local_dc: Option<String>,
    /// Rack whose nodes are preferred within the data centre.
    pub local_rack: Option<String>,
    /// Whether nodes of other data centres may serve requests and logins when no local node can. Requests
    /// at LOCAL_ONE, LOCAL_QUORUM or LOCAL_SERIAL still stay in the local data centre.
    pub allow_remote_dc: bool,
    /// Whether that applies to LOCAL_ONE, LOCAL_QUORUM and LOCAL_SERIAL as well: another data centre then
    /// answers requests meant for the local one, and may not have its latest writes yet.
    pub allow_remote_dc_for_local_levels: bool,
    /// How long the answer to a schema change waits for all nodes that are up to have it, in
    /// milliseconds. Less than after which requests of drivers time out, mostly 10 s; the Java driver's
    /// do after 2 s, so it needs a longer time-out for schema changes.
    pub schema_agreement_max_ms: u64,
    /// Role of the control connection, if the cluster requires authentication. Clients always log in as
    /// themselves.
    pub username: Option<String>,
    /// Password of the control connection's role.
    pub password: Option<Secret>,
    /// File that holds this password, in place of `password`. Read again on SIGHUP and when it changes.
    pub password_file: Option<PathBuf>,
    /// Additional authenticator classes that Helenus may rely on, as AUTHENTICATE names them: only those
    /// that judge a client by its SASL token alone, in one exchange, and neither by certificate nor by
    /// address. Cassandra's own PasswordAuthenticator need not be listed.
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
    /// PEM file with the key of `certificate`.
    pub key: Option<PathBuf>,
    /// Name to look for in the nodes' certificates instead of their addresses.
    pub server_name: Option<String>,
    /// Whether names in the nodes' certificates are checked: the address of each, or `server_name`. The authority
    /// always is. Without it any certificate of that authority stands for any node, and for one that is none.
    #[serde(default = "by_default")]
    pub verify_names: bool,
}

fn by_default() -> bool {
    true
}

/// The shared connections to nodes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Links {
    /// Connections to each node for each role, over all workers. Every worker has at least one.
    pub per_node: usize,
    /// Requests in flight on one link at most; 1 to 30,000.
    pub in_flight_max: usize,
    /// Requests in flight on one node at most, over all workers; 16 to 100,000. A node has 128 threads
    /// for requests by default (`native_transport_max_threads`): any excess waits there, where nothing
    /// can overtake it.
    pub node_in_flight_max: usize,
    /// Bytes of requests in flight on one node at most, over all workers, plus one request; at least
    /// 64 KiB. A node accepts a fortieth of its heap from one address
    /// (`native_transport_max_request_data_in_flight_per_ip`).
    pub node_bytes_max: usize,
    /// Larger requests, and reads whose answers have been larger so far, use a separate connection to each
    /// node, so that small ones need not wait behind them; in bytes. 0: never.
    pub bulk_bytes: usize,
    /// Time for a TCP connection to open, in milliseconds; the same again for its TLS handshake.
    pub connect_timeout_ms: u64,
    /// A link that has been silent for this long while requests wait is probed, in milliseconds. Until the
    /// probe is answered its node is tried last; after the same time again, reads, and idempotent writes
    /// with a client timestamp, are also sent to another node.
    pub silence_ms: u64,
    /// A link whose probe is not answered within this time is closed, in milliseconds. Longer than the
    /// longest garbage collection of a healthy node.
    pub probe_timeout_ms: u64,
    /// First and largest pause before a node is tried again, in milliseconds.
    pub backoff_min_ms: u64,
    /// See `backoff_min_ms`.
    pub backoff_max_ms: u64,
    /// How often a role's credentials are checked again while its clients are connected, in
    /// milliseconds; 100 to 86,400,000. A changed password or a dropped role ends their connections within
    /// this time, plus that for which the nodes themselves remember credentials. A check that no node
    /// can make (`system_auth` cannot be read) is repeated, and ends nothing.
    pub check_credentials_ms: u64,
    /// How long a role's clients are served while no node can check its credentials, in milliseconds;
    /// at least `check_credentials_ms`. Then they are disconnected, as the role might have been dropped.
    pub unchecked_credentials_max_ms: u64,
    /// The latest protocol version to use towards nodes, 4 or 5.
    pub protocol_max: u8,
}

/// Queries of many clients in few large frames.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Aggregation {
    /// When queries that were collected for a node leave.
    pub mode: AggregationMode,
    /// Waiting window of mode `window`, in microseconds; 0 to 10,000. 0: whatever one client's
    /// packet brought leaves at once.
    pub window_us: u64,
    /// How much latency mode `adaptive` may spend on waiting, in microseconds; 1 to 10,000.
    pub latency_budget_us: u64,
    /// Whether one query serves all clients that ask the same before it is sent: same statement,
    /// values, consistency, page, keyspace and role.
    pub share_reads: bool,
    /// Identical reads in flight from one worker at a time, 1 to 1,000; further ones wait for the
    /// first of them to come back (100 ms at most) and then go as one. 0: none waits.
    pub share_in_flight_max: usize,
    /// Tables, as `keyspace.table`, and keyspaces, or `*` for all, whose writes leave as one unlogged
    /// batch when several of one prepared statement wait to be sent to the same owners anyway. Each
    /// keeps its client's own timestamp. Empty: each write goes by itself.
    pub merge_writes: Vec<String>,
    /// Whether conditional writes (`IF`) of one partition take turns instead of colliding in Paxos. Where clients read
    /// a value first and then write on the condition that it is still there, turns gain nothing.
    pub lwt_turns: bool,
    /// Longest wait for a turn, in milliseconds; then the write goes without. 0 to 10,000.
    pub lwt_wait_max_ms: u64,
    /// How long a partition is kept for a client whose condition did not hold, so that it can try
    /// again before the others, in milliseconds; 0 to 100. 0: never.
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
    /// `earliest-finish`: the one that is predicted to finish it first; or, for comparison, `first` (in
    /// ring order), `round-robin` (all nodes in turn, replicas or not), `token-aware` (replicas in
    /// turn), `resource-v1` and `resource-v2` (least CPU, memory and disk in use; they need `reports`, and
    /// are `token-aware` while nodes report nothing), `c3`. See [Assignment](assignment.md).
    pub policy: String,
    /// Weight of memory in policy `resource-v2`, an exponent; 0 to 10.
    pub memory_weight: f64,
    /// Weight of disk utilisation in policy `resource-v2`, an exponent; 0 to 10.
    pub disk_weight: f64,
    /// Whether a read that takes longer than nearly all of its statement is asked of a second replica as
    /// well, for at most 2 % of the requests sent and of the bytes that nodes answer, with a reserve. See
    /// [Assignment](assignment.md#hedging).
    pub hedging: bool,
    /// Whether reads of a partition that alone is a notable part of a node's work go to all of its replicas,
    /// not first of all to the one that has it in its caches. See [Hot partitions](hot.md#spreading).
    pub spread_hot: bool,
    /// Whether to ask the nodes' agents what CPU, memory and disk are in use there
    /// ([The agent](agent.md#resource-reports)): for the policies that need it, and for metrics.
    pub reports: bool,
    /// Port of the agents' reports, the same on all nodes (`helenus.agent.report_port` there).
    pub reports_port: u16,
    /// Secret that the agents share with the proxies, at least 16 bytes. Without one only nodes on loopback
    /// addresses are asked.
    pub reports_secret: Option<Secret>,
    /// File that holds this secret, in place of `reports_secret`. Read again on SIGHUP and when it changes.
    pub reports_secret_file: Option<PathBuf>,
}

/// Copies of tables in other clustering orders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LayoutSettings {
    /// Whether to read the catalogue of layouts (`helenus.catalogue`), to read from them and to write to
    /// all of them. All proxies of a cluster must have it on before the first `helenus layouts create`.
    /// While the catalogue cannot be read, writes to tables with layouts are answered with OVERLOADED. See
    /// [Layouts](layouts.md).
    pub enabled: bool,
    /// Whether clients see the tables of layouts in `system_schema`, DESCRIBE and events. See
    /// [Layouts](layouts.md#what-clients-see).
    pub show_tables: bool,
}

impl LayoutSettings {
    /// Whether the tables of layouts are kept from clients' eyes.
    pub fn hides_tables(&self) -> bool {
        self.enabled && !self.show_tables
    }
}

/// Columns whose JSON documents are stored as compact bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PayloadSettings {
    /// Whether to read the catalogue of encoded columns (`helenus.catalogue`), and to encode and decode
    /// their values. All proxies of a cluster must have it on before the first `helenus payload enable`.
    /// While the catalogue cannot be read, requests for tables with encoded columns are answered with OVERLOADED. See
    /// [JSON documents as compact bytes](payload.md#encoded-columns).
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
    /// Time after which a client that waits for nothing and has sent nothing is disconnected, in seconds. Drivers
    /// send heartbeats, mostly every 30 s. 0: never; clients whose machines have vanished are noticed in any case.
    pub client_idle_max_s: u64,
    /// Largest request, in bytes.
    pub request_bytes_max: usize,
    /// Requests waiting for a place on one node, per worker; beyond them clients get OVERLOADED.
    pub node_queue_max: usize,
    /// Bytes that the proxy holds for clients, over all workers: unanswered requests, pages being
    /// assembled, unread answers, partly received messages.
    /// Beyond them clients get OVERLOADED. Not set: a quarter of the machine's memory, or of what its
    /// control group may have.
    pub memory_max: Option<usize>,
    /// Bytes of answers that wait for one client to read them, and at most a quarter of `memory_max`. With more it
    /// is disconnected once it has taken nothing for 5 s, and while the memory is full at once; otherwise a client
    /// that reads is not. With less it is after about two minutes in which it has had no room for any: the kernel
    /// takes it for vanished.
    pub client_backlog_bytes_max: usize,
    /// Connections beside the shared ones, per role and worker: one per node and keyspace for statements
    /// that do not name their keyspace and cannot carry it, and one per node for what is large. The
    /// longest unused is closed for a new one. 16 to 4,096.
    pub special_links_max: usize,
    /// Time for a request at a node before the client gets a time-out, in milliseconds, whatever it asks
    /// for. Not set: by kind, a little more than the node's own time-outs (docs/operations.md).
    pub request_timeout_ms: Option<u64>,
    /// Time for a page of a scan, all requests to nodes that it takes and their waits together, in
    /// milliseconds from when its client asked; then the client gets a time-out, and nothing more is read
    /// for it. A node's own limit for a page counts if it is longer (docs/operations.md). At least 100.
    pub page_timeout_ms: u64,
    /// Time for a client to finish its handshakes, TLS and CQL, in milliseconds; also the longest that a
    /// login waits for its turn.
    pub handshake_timeout_ms: u64,
    /// Logins that nodes judge at a time; each costs a node one bcrypt. Others wait for their turn. Links of
    /// roles are opened as many at a time, besides, but at least those of one role to each node.
    pub logins_max: usize,
    /// The same for the clients of one address (of IPv6: one /64), which take turns with those of other
    /// addresses. After many refusals an address has one at a time. 0: addresses are not told apart, as
    /// behind a load balancer.
    pub logins_per_address_max: usize,
    /// Distinct credentials (name and password) that clients are logged in with at a time; each has its
    /// own links. Of one role, a quarter of them at most. Those without a client make way for new ones at once,
    /// the longest unused first; their links are closed after a minute in any case.
    pub identities_max: usize,
    /// Bytes that remembered prepared statements may take, over all workers. At least 1 MiB.
    pub prepared_bytes_max: usize,
    /// Bytes that remembered texts of statements and what is known of them may take, over all workers.
    /// At least 1 MiB.
    pub statements_bytes_max: usize,
}

/// What is logged, to standard error.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// A level (`error`, `warn`, `info`, `debug`), or levels by part of the program as in
    /// `info,helenus_engine::client=debug`.
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
    /// Whether nodes of other data centres may serve what asks for these consistency levels.
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
    pub fn page_timeout(&self) -> Duration {
        Duration::from_millis(self.limits.page_timeout_ms)
    }

    /// SASL PLAIN token of the control connection.
    pub fn control_token(&self) -> Option<Vec<u8>> {
        let user = self.cluster.username.as_ref()?;
        let password = self.cluster.password.as_ref()?.expose();
        Some(format!("\0{user}\0{password}").into_bytes())
    }
}
