//! The Java driver with its default load balancing, in a process of its own (`crates/load/java`).
//!
//! Its loops are those of [`crate::run`]; only the driver differs. It gets the requests of a cell as a list,
//! drawn as for the other arms, because it cannot repeat this program's random numbers.

use crate::client::endpoint::Endpoint;
use crate::measure::{ErrorKind, Recorder};
use crate::process::Watched;
use crate::recording::Recording;
use crate::run::{CpuMark, Plan};
use crate::workload::ycsb::{KINDS, READ, SCAN, Ycsb};
use anyhow::{Context, Result, ensure};
use scylla::statement::Consistency;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

mod build;

pub use build::build;

/// For connecting and for what the driver waits beyond the time of a cell.
const PATIENCE: Duration = Duration::from_secs(60);
/// Each client begins elsewhere in the list, and begins anew at its end.
const REQUESTS: usize = 50_000;

/// A running program. It ends when this is dropped.
#[derive(Debug)]
pub struct JavaClient {
    child: Child,
    pipes: Arc<Mutex<Pipes>>,
    /// Class of the policy that the driver has chosen.
    pub policy: String,
}

#[derive(Debug)]
struct Pipes {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// The load that the driver sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub is_scan: bool,
    pub level: Consistency,
    /// Requests per second of an open loop; none for a closed one.
    pub rate_per_second: Option<f64>,
}

#[derive(Deserialize)]
struct Started {
    policy: String,
}

/// The line that answers a cell.
#[derive(Debug, Deserialize)]
struct Measured {
    window_us: u64,
    /// Latencies and how often each was measured.
    latencies_us: Vec<(u64, u64)>,
    /// By the names of their classes.
    errors: BTreeMap<String, u64>,
}

impl JavaClient {
    /// Starts what [`build()`] has left in a folder, and connects it.
    pub async fn start(program: &Path, endpoint: &Endpoint, table: &str) -> Result<Self> {
        ensure!(endpoint.tls.is_none(), "the Java client has no TLS");
        let session = endpoint.connect().await?;
        let local = session.query_unpaged("SELECT data_center FROM system.local", ());
        let local = local.await?.into_rows_result()?;
        let (data_center,) = local.single_row::<(String,)>()?;
        drop(session);
        let class_path = format!("{0}/target/classes:{0}/lib/*", program.display());
        let mut child = Command::new("java")
            .args(["-Xmx512m", "-cp", &class_path, "load.Main"])
            .arg(format!("contact={}", endpoint.contact_points.join(",")))
            .arg(format!("datacenter={data_center}"))
            .arg(format!("table={table}"))
            .arg(format!("connections={}", endpoint.connections_per_host))
            .arg(format!(
                "timeout_ms={}",
                endpoint.request_timeout.as_millis()
            ))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start java: is it installed?")?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.context("the Java program has no pipes")?;
        let output = BufReader::new(output);
        let mut client = Self {
            child,
            pipes: Arc::new(Mutex::new(Pipes { input, output })),
            policy: String::new(),
        };
        let started: Started = client.exchange(String::new(), PATIENCE).await?;
        client.policy = started.policy;
        Ok(client)
    }

    /// One cell. Requests are those that `requests_of` draws.
    pub(crate) async fn record(
        &self,
        load: Load,
        requests_of: &Ycsb,
        plan: &Plan,
    ) -> Result<Recording> {
        let time = plan.limit.time().context("the Java program needs a time")?;
        let mut text = format!(
            "kind={} level={} clients={} rate={} warmup_us={} time_us={} requests={REQUESTS}\n",
            if load.is_scan { "scan" } else { "read" },
            name_of(load.level),
            plan.clients,
            load.rate_per_second.unwrap_or(0.0),
            plan.warmup.as_micros(),
            time.as_micros()
        );
        for (key, rows) in requests_of.draw_requests(plan.seed, REQUESTS) {
            text.push_str(&format!("{key} {rows}\n"));
        }
        let limit = plan.warmup + time + PATIENCE;
        let cpu = async {
            tokio::time::sleep(plan.warmup).await;
            CpuMark::now(&self.watched(plan))
        };
        let (measured, cpu) = tokio::join!(self.exchange::<Measured>(text, limit), cpu);
        let measured = measured?;
        let window = Duration::from_micros(measured.window_us);
        Ok(cpu.finish(measured.into_recorder(load.is_scan), window))
    }

    /// Here the client is that program.
    fn watched(&self, plan: &Plan) -> Vec<Watched> {
        let mut watched = plan.watched.clone();
        for process in &mut watched {
            if process.pid == std::process::id() {
                process.pid = self.child.id();
            }
        }
        watched
    }

    async fn exchange<T>(&self, text: String, within: Duration) -> Result<T>
    where
        T: for<'de> Deserialize<'de>,
    {
        let pipes = self.pipes.clone();
        // If it does not answer, the thread waits until the program is ended.
        let exchanged = tokio::task::spawn_blocking(move || {
            let mut pipes = pipes.lock().unwrap_or_else(PoisonError::into_inner);
            pipes.input.write_all(text.as_bytes())?;
            pipes.input.flush()?;
            let mut line = String::new();
            pipes.output.read_line(&mut line)?;
            Ok::<_, std::io::Error>(line)
        });
        let exchanged = tokio::time::timeout(within, exchanged).await;
        let line =
            exchanged.with_context(|| format!("the Java program is silent for {within:?}"))?;
        let line = line?.context("the Java program has ended")?;
        ensure!(
            !line.is_empty(),
            "the Java program has ended; see above why"
        );
        serde_json::from_str(&line).with_context(|| format!("the Java program says {line:?}"))
    }
}

impl Drop for JavaClient {
    fn drop(&mut self) {
        // An error only means that it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Measured {
    fn into_recorder(self, is_scan: bool) -> Recorder {
        let kind = if is_scan { SCAN } else { READ };
        let mut recorder = Recorder::new(KINDS.len());
        for (latency_us, times) in self.latencies_us {
            recorder.record_times(kind, Duration::from_micros(latency_us), times);
        }
        for (error, times) in self.errors {
            match error_kind(&error) {
                NOT_SENT => recorder.count_error(NOT_SENT, times),
                error => recorder.record_failed(kind, error, times),
            }
        }
        recorder
    }
}

const NOT_SENT: ErrorKind = "not sent";

/// Kinds of error by the driver's classes: those of the other driver.
fn error_kind(class: &str) -> ErrorKind {
    match class {
        "DriverTimeoutException" => "client timeout",
        "ReadTimeoutException" => "read timeout",
        "ReadFailureException" => "read failure",
        "UnavailableException" => "unavailable",
        "OverloadedException" => "overloaded",
        "BootstrappingException" => "bootstrapping",
        "ServerError" => "server error",
        "NoNodeAvailableException" => "no node",
        "ClosedConnectionException" | "HeartbeatException" => "connection broken",
        "BusyConnectionException" => "no free stream",
        "row missing" => "row missing",
        "wrong answer" => "wrong answer",
        "not sent" => NOT_SENT,
        _ => "other",
    }
}

/// As the Java driver calls it: `LOCAL_QUORUM`.
fn name_of(level: Consistency) -> String {
    let mut name = String::new();
    for (at, letter) in format!("{level:?}").chars().enumerate() {
        if at > 0 && letter.is_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_the_names_of_the_protocol() {
        assert_eq!(name_of(Consistency::One), "ONE");
        assert_eq!(name_of(Consistency::LocalQuorum), "LOCAL_QUORUM");
    }

    #[test]
    fn what_it_says_counts_like_what_is_measured_here() {
        let line = r#"{"window_us":2000000,"latencies_us":[[1000,98],[5000,2]],
            "errors":{"DriverTimeoutException":3,"not sent":1,"AllNodesFailedException":2}}"#;
        let measured: Measured = serde_json::from_str(line).unwrap();
        let window = Duration::from_micros(measured.window_us);
        let recorder = measured.into_recorder(true);
        let phase = recorder.into_phase(&KINDS, window, Some(Duration::from_secs(10)));
        assert_eq!((phase.ops, phase.ops_per_second), (100, 50.0));
        assert_eq!(phase.latency.us_p50, 1000);
        let scan = &phase.by_kind["scan"];
        assert_eq!((scan.ops, scan.failed), (100, 5));
        assert_eq!(phase.by_kind["read"].ops, 0);
        let counted = ["client timeout", "not sent", "other"].map(|kind| phase.errors[kind]);
        assert_eq!(counted, [3, 1, 2]);
    }
}
