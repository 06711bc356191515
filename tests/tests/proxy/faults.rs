//! Nodes that join, die, freeze and come back, under a driver that reads and writes at QUORUM.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use helenus_cluster::{Cluster, Consistency as Level};
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, ONE, QUORUM};
use helenus_tests::scenes;
use helenus_tests::scenes::Scenes;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::policies::timestamp_generator::MonotonicTimestampGenerator;
use scylla::response::PagingState;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::chosen::reads_at_one_are_done_by_the_chosen_replica;
use crate::proxies::several_proxies;
use crate::schema::changes_with_a_node_away;
use crate::system::tables_that_show_the_proxies;
use crate::{eventually, serves, turn};

/// Tasks of the load; each has one request in flight.
const TASKS: i32 = 8;
/// A node that is lost may cost a client what was in flight to it at that moment, if it could not
/// be repeated. All that is sent here can, so this is already generous.
const ERRORS_MAX: usize = TASKS as usize;
/// No request may take longer, whatever happens to a node.
const STALL_MAX: Duration = Duration::from_secs(20);

scenes!(
    nodes_join_die_freeze_and_come_back;
    a_node_joins,
    statements_outlive_a_join,
    reads_at_one_are_done_by_the_chosen_replica,
    several_proxies,
    tables_show_the_proxies,
    the_schema_changes_with_a_node_away,
    a_node_dies,
    statements_outlive_a_restart,
    a_node_freezes,
    statements_outlive_an_altered_table,
    all_nodes_die,
    statements_outlive_all_nodes,
    no_write_is_lost,
);

fn nodes_join_die_freeze_and_come_back(scenes: &mut Scenes) {
    let _turn = turn("faults", Duration::from_secs(900));
    // Two busy cores are shared with the nodes: a slow node is not what is tested here.
    let spec = helenus_tests::exact()
        .nodes(2)
        .yaml("write_request_timeout", "10s")
        .yaml("read_request_timeout", "10s");
    let mut cluster = Cluster::up(spec).expect("two nodes");
    let proxy = Proxy::start(&cluster.contact_points(), &[]).expect("proxy");
    // It asks all replicas in turn, however slow one is that has just been started.
    let in_turn = [
        "assignment.policy=\"token-aware\"",
        "assignment.hedging=false",
    ];
    let in_turn = Proxy::start(&cluster.contact_points(), &in_turn).expect("proxy");
    let mut client = Client::ready(proxy.address, 5).expect("client");
    for cql in [
        // With two nodes of three, QUORUM needs both; with three, any two.
        "CREATE KEYSPACE f WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
        "CREATE TABLE f.t (k int PRIMARY KEY, v int)",
        "CREATE TABLE f.fixed (k int PRIMARY KEY, v int)",
    ] {
        client.query(cql).expect(cql);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads");
    let mut load = Load::new(runtime, &proxy);
    let fixed = Fixed::new(&in_turn);

    scenes.scene("a_node_joins", || joins(&mut cluster, &mut load));
    scenes.scene("statements_outlive_a_join", || {
        fixed.works_on_all(&cluster, &in_turn, "a node has joined");
    });
    scenes.scene("reads_at_one_are_done_by_the_chosen_replica", || {
        reads_at_one_are_done_by_the_chosen_replica(&cluster, &proxy);
    });
    scenes.scene("several_proxies", || several_proxies(&cluster));
    scenes.scene("tables_show_the_proxies", || {
        tables_that_show_the_proxies(&cluster);
    });
    scenes.scene("the_schema_changes_with_a_node_away", || {
        changes_with_a_node_away(&mut cluster);
    });
    all_are_well(&mut cluster);
    scenes.scene("a_node_dies", || dies(&mut cluster, &mut load));
    all_are_well(&mut cluster);
    scenes.scene("statements_outlive_a_restart", || {
        fixed.works_on_all(&cluster, &in_turn, "a node was restarted");
    });
    scenes.scene("a_node_freezes", || freezes(&cluster, &mut load));
    all_are_well(&mut cluster);
    scenes.scene("statements_outlive_an_altered_table", || {
        // Every node forgets its statements.
        let alter = "ALTER TABLE f.fixed ADD w int";
        Client::ready(proxy.address, 4)
            .and_then(|mut client| client.query(alter))
            .expect(alter);
        fixed.works_on_all(&cluster, &in_turn, "the table was altered");
    });
    scenes.scene("all_nodes_die", || all_die(&mut cluster, &proxy, &load));
    scenes.scene("statements_outlive_all_nodes", || {
        fixed.works_on_all(&cluster, &in_turn, "all nodes were restarted");
    });
    scenes.scene("no_write_is_lost", || load.verify());
}

/// Whatever a scene that failed has left them in.
fn all_are_well(cluster: &mut Cluster) {
    for number in cluster.nodes() {
        let _ = cluster.resume(number);
        if cluster.connect(number).is_err() {
            cluster.start(number).expect("started");
        }
    }
}

fn joins(cluster: &mut Cluster, load: &mut Load) {
    load.start();
    thread::sleep(Duration::from_secs(2));
    let number = cluster.add_node().expect("a third node");
    let took = eventually("the new node is used", Duration::from_secs(60), || {
        served(cluster, number) > 100
    });
    let report = load.finish();
    println!("a node joins: {report}; used {took:?} after it was ready");
    report.check(0);
}

/// Node 1 is the one that the control connection began with.
fn dies(cluster: &mut Cluster, load: &mut Load) {
    load.start();
    thread::sleep(Duration::from_secs(2));
    cluster.kill(1).expect("killed");
    thread::sleep(Duration::from_secs(3));
    cluster.start(1).expect("started");
    let took = eventually("the node is used again", Duration::from_secs(60), || {
        served(cluster, 1) > 100
    });
    let report = load.finish();
    println!("a node is killed and restarted: {report}; used {took:?} after it was ready");
    report.check(ERRORS_MAX);
    load.verify_latest();
}

fn freezes(cluster: &Cluster, load: &mut Load) {
    load.start();
    thread::sleep(Duration::from_secs(1));
    cluster.pause(2).expect("paused");
    thread::sleep(Duration::from_secs(8));
    cluster.resume(2).expect("resumed");
    // The node may list a connection that the proxy has closed meanwhile, for a moment.
    let (mut last, mut gained) = (served(cluster, 2), 0);
    let took = eventually("the node is used again", Duration::from_secs(60), || {
        let before = std::mem::replace(&mut last, served(cluster, 2));
        gained += (last - before).max(0);
        gained > 100
    });
    let report = load.finish();
    println!("a node is frozen for 8 s: {report}; used {took:?} after it went on");
    report.check(ERRORS_MAX);
    load.verify_latest();
}

fn all_die(cluster: &mut Cluster, proxy: &Proxy, load: &Load) {
    let nodes = cluster.nodes();
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let query = "SELECT v FROM f.fixed WHERE k = 1";
    client.query(query).expect("rows");
    for number in &nodes {
        cluster.kill(*number).expect("killed");
    }
    for round in 0..20 {
        let begin = Instant::now();
        let outcome = client.try_query(query, QUORUM).expect("an answer");
        let took = begin.elapsed();
        let fault = outcome.expect_err("no node lives");
        if round == 0 {
            println!(
                "all nodes are dead: error 0x{:04X} {} after {took:?}",
                fault.code, fault.message
            );
        }
        assert!(took < Duration::from_secs(5), "{took:?}");
        // Unavailable, overloaded, or a time-out of what was just in flight.
        assert!((0x1000..0x1300).contains(&fault.code), "{fault:?}");
        thread::sleep(Duration::from_millis(20));
    }
    cluster.start_many(&nodes).expect("started");
    let took = eventually(
        "queries after all nodes are back",
        Duration::from_secs(30),
        || client.try_query(query, QUORUM).expect("an answer").is_ok(),
    );
    println!("all nodes are back: served again after {took:?}, on the same connection");
    assert!(serves(proxy.address));
    // The driver's session has lived through it too.
    load.verify_latest();
}

/// Requests that the proxy has sent over the connections it now has to a node, in that node's own
/// account.
fn served(cluster: &Cluster, number: u16) -> i64 {
    let cql = "SELECT driver_name, request_count FROM system_views.clients";
    let mut node = cluster.connect(number).expect("node");
    let rows = node.query(cql, Level::One).expect(cql);
    let of_proxy = |row: &Vec<Option<Vec<u8>>>| row[0].as_deref() == Some(b"Helenus");
    let count = |row: &Vec<Option<Vec<u8>>>| {
        let cell = row[1].as_deref().and_then(|cell| cell.first_chunk());
        i64::from_be_bytes(*cell.expect("a bigint"))
    };
    rows.iter().filter(|row| of_proxy(row)).map(count).sum()
}

/// Statements prepared once, at the beginning, and then executed by their ids alone.
struct Fixed {
    clients: [u8; 3],
    ids: Vec<helenus_tests::raw::Prepared>,
}

impl Fixed {
    const KEYS: i32 = 60;

    fn new(proxy: &Proxy) -> Self {
        let clients = [3, 4, 5];
        let mut ids = Vec::new();
        for version in clients {
            let mut client = Client::ready(proxy.address, version).expect("client");
            for key in 0..Self::KEYS {
                let insert = format!("INSERT INTO f.fixed (k, v) VALUES ({key}, {key})");
                client
                    .try_query(&insert, QUORUM)
                    .expect("answer")
                    .expect("written");
            }
            let select = "SELECT v FROM f.fixed WHERE k = ?";
            ids.push(client.prepare(select).expect("prepared"));
        }
        Self { clients, ids }
    }

    fn executes(&self, proxy: &Proxy, when: &str) {
        for (version, id) in self.clients.iter().zip(&self.ids) {
            let mut client = Client::ready(proxy.address, *version).expect("client");
            for key in (0..Self::KEYS).cycle().take(300) {
                let outcome = client.execute(id, &[&key.to_be_bytes()], QUORUM);
                let answer = outcome.expect("an answer");
                let rows = answer
                    .unwrap_or_else(|fault| panic!("version {version}, {when}: {fault:?}"))
                    .rows()
                    .expect("rows");
                assert_eq!(rows, [[Some(key.to_be_bytes().to_vec())]], "{when}");
            }
        }
    }

    /// Executes for keys of all nodes, and sees in each node's account that it took part.
    fn works_on_all(&self, cluster: &Cluster, proxy: &Proxy, when: &str) {
        let accounts = || cluster.nodes().into_iter().map(|n| served(cluster, n));
        eventually("links to all nodes", Duration::from_secs(20), || {
            accounts().all(|count| count > 0)
        });
        let before: Vec<i64> = accounts().collect();
        // A node that has just been started is slow, and gets few reads at first.
        let begun = Instant::now();
        loop {
            self.executes(proxy, when);
            let idle = || {
                let of = cluster.nodes().into_iter().zip(&before).zip(accounts());
                let mut idle = of.filter(|((_, before), after)| *after <= **before + 50);
                idle.next().map(|((number, _), _)| number)
            };
            let Some(number) = idle() else { break };
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "node {number} took no part when {when}"
            );
        }
        let mut client = Client::ready(proxy.address, 4).expect("client");
        let mut unknown = self.ids[1].clone();
        unknown.id[0] ^= 1;
        let fault = client.execute(&unknown, &[&[0; 4]], ONE).expect("answer");
        assert_eq!(fault.expect_err("an id of nobody").code, 0x2500);
    }
}

/// The clients' view.
#[derive(Default)]
struct Report {
    requests: usize,
    errors: Vec<String>,
    /// Reads that were answered without the acknowledged write.
    lost: Vec<String>,
    stall_max: Duration,
}

impl Report {
    fn check(&self, errors_max: usize) {
        assert!(self.requests > 100, "the load was hardly any: {self}");
        assert!(self.lost.is_empty(), "{:#?}", self.lost);
        assert!(self.errors.len() <= errors_max, "{:#?}", self.errors);
        assert!(self.stall_max < STALL_MAX, "{self}");
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            requests,
            errors,
            lost,
            stall_max,
        } = self;
        write!(
            f,
            "{requests} requests, {} errors, {} lost writes, longest {stall_max:?}",
            errors.len(),
            lost.len()
        )?;
        errors.iter().take(3).try_for_each(|e| write!(f, "\n  {e}"))
    }
}

/// Tasks that write new keys and read back what was acknowledged.
struct Load {
    runtime: Runtime,
    session: Arc<Session>,
    insert: PreparedStatement,
    select: PreparedStatement,
    stop: Arc<AtomicBool>,
    running: Option<JoinSet<(Report, Vec<i32>)>>,
    next: i32,
    acknowledged: Vec<i32>,
}

impl Load {
    fn new(runtime: Runtime, proxy: &Proxy) -> Self {
        let profile = ExecutionProfile::builder()
            .consistency(Consistency::Quorum)
            // Every error counts: the driver must not hide it by trying again.
            .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
            .request_timeout(Some(Duration::from_secs(30)))
            .build();
        let (session, insert, select) = runtime.block_on(async {
            let session = SessionBuilder::new()
                .known_node_addr(proxy.address)
                .default_execution_profile_handle(profile.into_handle())
                // As most drivers do by default: only then may a write be repeated while a node
                // that is merely frozen might still execute it.
                .timestamp_generator(Arc::new(MonotonicTimestampGenerator::new()))
                .build()
                .await
                .expect("a session");
            let prepare = async |cql: &str| {
                let mut statement = session.prepare(cql).await.expect(cql);
                statement.set_is_idempotent(true);
                statement
            };
            let insert = prepare("INSERT INTO f.t (k, v) VALUES (?, ?)").await;
            let select = prepare("SELECT v FROM f.t WHERE k = ?").await;
            (Arc::new(session), insert, select)
        });
        Self {
            runtime,
            session,
            insert,
            select,
            stop: Arc::default(),
            running: None,
            next: 0,
            acknowledged: Vec::new(),
        }
    }

    fn start(&mut self) {
        self.stop = Arc::default();
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let first = self.next;
            self.next += 1_000_000;
            let (session, stop) = (self.session.clone(), self.stop.clone());
            let (insert, select) = (self.insert.clone(), self.select.clone());
            let work = async move {
                let (mut report, mut acknowledged) = (Report::default(), Vec::new());
                for key in first.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let begin = Instant::now();
                    match session.execute_unpaged(&insert, (key, key)).await {
                        Ok(_) => acknowledged.push(key),
                        Err(e) => report.errors.push(format!("write: {e}")),
                    }
                    report.stall_max = report.stall_max.max(begin.elapsed());
                    let begin = Instant::now();
                    // Not the newest: every task reads over its whole past.
                    if let Some(known) = acknowledged.get(acknowledged.len() / 2)
                        && let Err(e) = read(&session, &select, *known).await
                    {
                        match e {
                            NotRead::Failed(e) => report.errors.push(format!("read: {e}")),
                            NotRead::Lost(e) => report.lost.push(e),
                        }
                    }
                    report.stall_max = report.stall_max.max(begin.elapsed());
                    report.requests += 2;
                    tokio::time::sleep(Duration::from_millis(80)).await;
                }
                (report, acknowledged)
            };
            tasks.spawn_on(work, self.runtime.handle());
        }
        self.running = Some(tasks);
    }

    fn finish(&mut self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        let tasks = self.running.take().expect("a load that runs");
        let mut total = Report::default();
        for (report, acknowledged) in self.runtime.block_on(tasks.join_all()) {
            total.requests += report.requests;
            total.errors.extend(report.errors);
            total.lost.extend(report.lost);
            total.stall_max = total.stall_max.max(report.stall_max);
            self.acknowledged.extend(acknowledged);
        }
        total
    }

    /// The acknowledged writes of late are there.
    fn verify_latest(&self) {
        let latest = self.acknowledged.len().saturating_sub(2_000);
        self.verify_these(&self.acknowledged[latest..]);
    }

    /// Every acknowledged write is there, read by a scan at QUORUM.
    fn verify(&self) {
        let begin = Instant::now();
        let cql = "SELECT k, v FROM f.t";
        let mut there = HashSet::new();
        let mut state = PagingState::start();
        loop {
            let page = self.session.query_single_page(cql, (), state);
            let (rows, next) = self.runtime.block_on(page).expect(cql);
            let rows = rows.into_rows_result().expect("rows");
            for row in rows.rows::<(i32, i32)>().expect("two numbers") {
                let (key, value) = row.expect("a row");
                assert_eq!(key, value);
                assert!(there.insert(key), "key {key} twice");
            }
            match next.into_paging_control_flow() {
                ControlFlow::Continue(more) => state = more,
                ControlFlow::Break(()) => break,
            }
        }
        let lost = self.acknowledged.iter().find(|key| !there.contains(key));
        assert_eq!(lost, None, "an acknowledged write is not there");
        println!(
            "{} acknowledged writes are there, and {} others, read in {:?}",
            self.acknowledged.len(),
            there.len() - self.acknowledged.len(),
            begin.elapsed()
        );
    }

    /// Read one by one, at QUORUM.
    fn verify_these(&self, acknowledged: &[i32]) {
        let begin = Instant::now();
        let chunk = acknowledged.len().div_ceil(32).max(1);
        let mut tasks = JoinSet::new();
        for keys in acknowledged.chunks(chunk) {
            let (keys, session) = (keys.to_vec(), self.session.clone());
            let select = self.select.clone();
            let work = async move {
                for key in keys {
                    let mut answer = read(&session, &select, key).await;
                    // After an outage each worker of the proxy connects again at its own pace; what
                    // is judged here is whether the write is there.
                    while matches!(&answer, Err(NotRead::Failed(e)) if e.contains("can be reached"))
                        && begin.elapsed() < Duration::from_secs(60)
                    {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        answer = read(&session, &select, key).await;
                    }
                    if let Err(e) = answer {
                        panic!("an acknowledged write of key {key}: {e:?}");
                    }
                }
            };
            tasks.spawn_on(work, self.runtime.handle());
        }
        self.runtime.block_on(tasks.join_all());
        println!(
            "{} acknowledged writes are there, read in {:?}",
            acknowledged.len(),
            begin.elapsed()
        );
    }
}

/// Why an acknowledged write is not in an answer.
#[derive(Debug)]
enum NotRead {
    /// There is none.
    Failed(String),
    Lost(String),
}

async fn read(session: &Session, select: &PreparedStatement, key: i32) -> Result<(), NotRead> {
    let failed = |e: &dyn std::fmt::Display| NotRead::Failed(e.to_string());
    let answer = session.execute_unpaged(select, (key,)).await;
    let rows = answer.map_err(|e| failed(&e))?.into_rows_result();
    let rows = rows.map_err(|e| failed(&e))?;
    match rows.maybe_first_row::<(i32,)>().map_err(|e| failed(&e))? {
        Some((value,)) if value == key => Ok(()),
        other => Err(NotRead::Lost(format!("{other:?} instead of {key}"))),
    }
}
