//! Requests that may not be sent again are not, while a node stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use helenus_cluster::Cluster;
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::Client;
use helenus_tests::scenes::Scenes;
use helenus_tests::{kinds, pool, scenes};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::policies::timestamp_generator::MonotonicTimestampGenerator;
use scylla::statement::Consistency;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::{eventually, metric, turn};

const KEYS: i32 = 200;
/// Of these, each writes a list of two elements to a row of its own.
const OF_LISTS: [&str; 5] = [
    "INSERT INTO a.lists (k, l) VALUES (KEY, ['a', 'b'])",
    "UPDATE a.lists SET l = ['a', 'b'] WHERE k = KEY",
    "INSERT INTO a.lists JSON '{\"k\": KEY, \"l\": [\"a\", \"b\"]}'",
    "BEGIN BATCH INSERT INTO a.lists (k, l) VALUES (KEY, ['a', 'b']) APPLY BATCH",
    "INSERT INTO a.lists (k, f) VALUES (KEY, ['a', 'b'])",
];

/// A client that never asks again by itself.
async fn session(proxy: &Proxy, level: Consistency, with_times: bool) -> Arc<Session> {
    let profile = ExecutionProfile::builder()
        .consistency(level)
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .request_timeout(Some(Duration::from_secs(30)))
        .build();
    let builder = SessionBuilder::new()
        .known_node_addr(proxy.address)
        .default_execution_profile_handle(profile.into_handle());
    let builder = match with_times {
        true => builder.timestamp_generator(Arc::new(MonotonicTimestampGenerator::new())),
        false => builder,
    };
    Arc::new(builder.build().await.expect("a session"))
}

/// Asks everything at once; which of it was acknowledged. `done` counts what has ended.
async fn all(
    session: &Arc<Session>,
    texts: impl Iterator<Item = String>,
    done: &Arc<AtomicUsize>,
) -> Vec<bool> {
    let mut tasks = JoinSet::new();
    for (at, text) in texts.enumerate() {
        let (session, done) = (session.clone(), done.clone());
        tasks.spawn(async move {
            let answer = session.query_unpaged(text, ()).await;
            done.fetch_add(1, Ordering::Relaxed);
            (at, answer.is_ok())
        });
    }
    let mut answers = tasks.join_all().await;
    answers.sort_unstable();
    answers.into_iter().map(|(_, is_ok)| is_ok).collect()
}

scenes!(
    a_node_stands_still;
    no_list_is_doubled,
    no_write_is_undone,
);

fn a_node_stands_still(scenes: &mut Scenes) {
    let _turn = turn("again", Duration::from_secs(400));
    let cluster = pool::take(kinds::patient(3)).expect("three nodes");
    let proxy = Proxy::start(&cluster.contact_points(), &[]).expect("proxy");
    let mut client = Client::ready(proxy.address, 5).expect("client");
    for cql in [
        "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
        "CREATE TABLE a.lists (k int PRIMARY KEY, l list<text>, f frozen<list<text>>)",
        "CREATE TABLE a.t (k int PRIMARY KEY, v int)",
    ] {
        client.query(cql).expect(cql);
    }
    let runtime = Runtime::new().expect("threads");
    scenes.scene("no_list_is_doubled", || {
        no_list_is_doubled(&cluster, &proxy, &runtime);
    });
    scenes.scene("no_write_is_undone", || {
        no_write_is_undone(&cluster, &proxy, &runtime);
    });
}

fn write(key: i32, value: i32) -> String {
    format!("INSERT INTO a.t (k, v) VALUES ({key}, {value})")
}

/// Until the node that is to stand still gets its share: it may not have been reached yet, or be left alone for having
/// stood still before.
fn wait_until_asked(cluster: &Cluster, proxy: &Proxy, runtime: &Runtime, session: &Arc<Session>) {
    let done = Arc::new(AtomicUsize::new(0));
    let node = format!(
        "helenus_node_requests_total{{node=\"{}\"",
        cluster.contact_points()[1]
    );
    eventually("the node is asked", Duration::from_secs(60), || {
        let before = metric(proxy, &node);
        runtime.block_on(all(session, (0..KEYS).map(|key| write(key, 0)), &done));
        metric(proxy, &node) - before > f64::from(KEYS) / 10.0
    });
}

fn no_list_is_doubled(cluster: &Cluster, proxy: &Proxy, runtime: &Runtime) {
    let session = runtime.block_on(session(proxy, Consistency::One, true));
    let texts: Vec<String> = (0..KEYS)
        .flat_map(|_| OF_LISTS)
        .zip(0..)
        .map(|(text, key)| text.replace("KEY", &key.to_string()))
        .collect();
    wait_until_asked(cluster, proxy, runtime, &session);
    let done = Arc::new(AtomicUsize::new(0));
    let rescued = metric(proxy, "helenus_requests_rescued_total");
    cluster.pause(2).expect("paused");
    let asked = {
        let (session, done, texts) = (session.clone(), done.clone(), texts.clone());
        runtime.spawn(async move { all(&session, texts.into_iter(), &done).await })
    };
    // Longer than it takes until what may be is asked of another node, and shorter than the link is kept.
    thread::sleep(Duration::from_secs(2));
    let waiting = texts.len() - done.load(Ordering::Relaxed);
    let rescued = metric(proxy, "helenus_requests_rescued_total") - rescued;
    cluster.resume(2).expect("resumed");
    let written = runtime.block_on(asked).expect("all answers");
    let elements = |column: &str| {
        let cql = format!("SELECT k, {column} FROM a.lists");
        let lists = runtime.block_on(session.query_unpaged(cql, ()));
        let lists = lists.expect("rows").into_rows_result().expect("rows");
        let rows = lists.rows::<(i32, Option<Vec<String>>)>().expect("typed");
        let lengths = rows.map(|row| row.expect("a row").1.map_or(0, |list| list.len()));
        lengths.collect::<Vec<usize>>()
    };
    let (lists, frozen) = (elements("l"), elements("f"));
    let doubled = lists.iter().filter(|length| **length > 2).count();
    println!(
        "{} lists, {waiting} of them still at the node that stood still, {rescued} writes asked of another: \
         {doubled} doubled, {} acknowledged",
        texts.len(),
        written.iter().filter(|is_ok| **is_ok).count()
    );
    assert_eq!(doubled, 0);
    assert!(frozen.iter().all(|length| *length <= 2));
    // The test could have failed: lists waited at the node, and others went elsewhere meanwhile.
    assert!(waiting > 20 && rescued > 5.0);
}

fn no_write_is_undone(cluster: &Cluster, proxy: &Proxy, runtime: &Runtime) {
    let session = runtime.block_on(session(proxy, Consistency::Quorum, false));
    let done = Arc::new(AtomicUsize::new(0));
    wait_until_asked(cluster, proxy, runtime, &session);
    cluster.pause(2).expect("paused");
    // The link to the node is closed meanwhile.
    let first = runtime.block_on(all(&session, (0..KEYS).map(|key| write(key, 1)), &done));
    let second = runtime.block_on(all(&session, (0..KEYS).map(|key| write(key, 2)), &done));
    cluster.resume(2).expect("resumed");
    // It executes what it had been sent, if it does.
    thread::sleep(Duration::from_secs(5));
    let mut undone = 0;
    for (key, is_ok) in (0..).zip(first.iter().zip(&second)) {
        // Of a write that was not acknowledged nobody knows when it happens.
        if is_ok != (&true, &true) {
            continue;
        }
        let cql = format!("SELECT v FROM a.t WHERE k = {key}");
        let rows = runtime.block_on(session.query_unpaged(cql, ()));
        let rows = rows.expect("a row").into_rows_result().expect("rows");
        let (value,) = rows.single_row::<(i32,)>().expect("a row");
        undone += usize::from(value != 2);
    }
    let count = |answers: &[bool]| answers.iter().filter(|is_ok| **is_ok).count();
    let (first, second) = (count(&first), count(&second));
    println!("{first} and then {second} of {KEYS} writes acknowledged, {undone} undone");
    assert_eq!(undone, 0);
    // The test could have failed: some were at the node, and their clients have heard that nobody knows.
    assert!(first < KEYS as usize && second > KEYS as usize / 2);
}
