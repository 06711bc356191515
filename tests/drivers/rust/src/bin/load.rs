//! A small closed loop with the Rust driver, until standard input ends.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::Statement;
use scylla::statement::prepared::PreparedStatement;

const TASKS: i32 = 8;
const ERRORS_MAX: usize = 3;

#[derive(Default)]
struct Found {
    requests: usize,
    failed: usize,
    longest: Duration,
    errors: Vec<String>,
}

impl Found {
    async fn one(&mut self, request: impl Future<Output = Result<()>>) -> bool {
        let began = Instant::now();
        let outcome = request.await;
        self.requests += 1;
        self.longest = self.longest.max(began.elapsed());
        if let Err(error) = &outcome {
            self.failed += 1;
            self.errors.push(format!("{error:#}"));
            self.errors.truncate(ERRORS_MAX);
        }
        outcome.is_ok()
    }
}

async fn run(
    key: i32,
    session: Arc<Session>,
    write: PreparedStatement,
    read: PreparedStatement,
    stop: Arc<AtomicBool>,
) -> Found {
    let mut found = Found::default();
    let mut value = 0;
    while !stop.load(Ordering::Relaxed) {
        value += 1;
        let written = found.one(async {
            session.execute_unpaged(&write, (key, value)).await?;
            Ok(())
        });
        if !written.await {
            continue;
        }
        let read = found.one(async {
            let rows = session.execute_unpaged(&read, (key,)).await?;
            let (v,) = rows.into_rows_result()?.single_row::<(i32,)>()?;
            ensure!(v == value, "key {key} is {v}, not {value}");
            Ok(())
        });
        read.await;
    }
    found
}

fn address() -> Result<String> {
    let (mut host, mut port) = ("127.0.0.1".to_owned(), "9042".to_owned());
    let mut arguments = std::env::args().skip(1);
    while let Some(key) = arguments.next() {
        let value = arguments
            .next()
            .with_context(|| format!("{key} needs a value"))?;
        match key.as_str() {
            "--name" => {}
            "--host" => host = value,
            "--port" => port = value,
            _ => anyhow::bail!("unknown option {key}"),
        }
    }
    Ok(format!("{host}:{port}"))
}

#[tokio::main]
async fn main() -> Result<()> {
    let profile = ExecutionProfile::builder()
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .build();
    let session = SessionBuilder::new()
        .known_node(address()?)
        .pool_size(PoolSize::PerHost(2.try_into()?))
        .default_execution_profile_handle(profile.into_handle())
        .build()
        .await?;
    for text in [
        "CREATE KEYSPACE IF NOT EXISTS load_rust WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS load_rust.t (k int PRIMARY KEY, v int)",
    ] {
        let mut statement = Statement::new(text);
        statement.set_request_timeout(Some(Duration::from_secs(30)));
        session.query_unpaged(statement, ()).await?;
    }
    let write = session
        .prepare("INSERT INTO load_rust.t (k, v) VALUES (?, ?)")
        .await?;
    let read = session
        .prepare("SELECT v FROM load_rust.t WHERE k = ?")
        .await?;
    let (session, stop) = (Arc::new(session), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<_> = (0..TASKS)
        .map(|key| {
            let (session, stop) = (session.clone(), stop.clone());
            tokio::spawn(run(key, session, write.clone(), read.clone(), stop))
        })
        .collect();
    println!("running");
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    stop.store(true, Ordering::Relaxed);
    let mut all = Found::default();
    for task in tasks {
        let found = task.await?;
        all.requests += found.requests;
        all.failed += found.failed;
        all.longest = all.longest.max(found.longest);
        all.errors.extend(found.errors);
    }
    all.errors.truncate(ERRORS_MAX);
    // Debug escapes as JSON does, for what is in an error.
    println!(
        "{{\"requests\":{},\"failed\":{},\"longest_ms\":{},\"errors\":{:?}}}",
        all.requests,
        all.failed,
        all.longest.as_millis(),
        all.errors
    );
    Ok(())
}
