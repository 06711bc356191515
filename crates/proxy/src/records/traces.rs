//! Sends what has become of requests to an OpenTelemetry collector, by OTLP over HTTP with Protobuf.
//!
//! Engines hand out a plain value when a request that is traced ends. It waits in a queue; here, on the control
//! thread, several become spans (`spans.rs`) in one message (`otlp.rs`), which one exchange takes to the
//! collector (`post.rs`). Nobody waits for that: what the queue has no room for is dropped and counted.
//!
//! Bounded: [`WAITING_MAX`] requests wait, of 4 KiB each at most, and [`BATCH_MAX`] are on their way.

mod otlp;
mod post;
mod spans;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_engine::config::Tracing;
use helenus_engine::features::records::RequestTrace;
use helenus_engine::stats::add;
use hyper::body::Bytes;
use prost::Message;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use self::post::{Failure, post};
use self::spans::Writer;
use crate::process::Process;

/// Requests that wait to be sent.
pub(crate) const WAITING_MAX: usize = 2_048;
/// Requests in one message.
const BATCH_MAX: usize = 256;
/// How long a message waits for more of them.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// Attempts to send a message, and the pauses between them, each twice as long as the one before.
const TRIES_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// After one warning, the next comes this much later at the earliest.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// For what is left when the proxy ends.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Requests that have ended, and may be sent.
pub(crate) type Traces = mpsc::Receiver<Box<RequestTrace>>;

/// Sends until the proxy ends, and then what is left. `end`: its sender is dropped then.
pub(crate) async fn run(common: Arc<Process>, traces: Traces, mut end: watch::Receiver<()>) {
    let mut exporter = Exporter {
        common,
        traces,
        writer: Writer::default(),
        is_told: false,
        warned: None,
    };
    while let Some((batch, is_last)) = exporter.next_batch(&mut end).await {
        if is_last {
            return exporter.deliver_last(&batch).await;
        }
        exporter.deliver(&batch, &mut end).await;
    }
}

struct Exporter {
    common: Arc<Process>,
    traces: Traces,
    writer: Writer,
    /// The log says last that the collector takes nothing.
    is_told: bool,
    warned: Option<Instant>,
}

type Batch = Vec<Box<RequestTrace>>;

impl Exporter {
    /// The requests to be sent together, and whether they are the last.
    async fn next_batch(&mut self, end: &mut watch::Receiver<()>) -> Option<(Batch, bool)> {
        let mut batch = Vec::new();
        let mut until = pin!(sleep(BATCH_WAIT));
        loop {
            let is_empty = batch.is_empty();
            let room = BATCH_MAX.saturating_sub(batch.len());
            tokio::select! {
                biased;
                _ = end.changed() => {
                    while let Ok(trace) = self.traces.try_recv() {
                        batch.push(trace);
                    }
                    return Some((batch, true));
                }
                received = self.traces.recv_many(&mut batch, room) => {
                    if received == 0 {
                        return (!batch.is_empty()).then_some((batch, false));
                    }
                    if is_empty {
                        until.set(sleep(BATCH_WAIT));
                    }
                    if batch.len() >= BATCH_MAX {
                        return Some((batch, false));
                    }
                }
                () = &mut until, if !is_empty => return Some((batch, false)),
            }
        }
    }

    /// Sends a batch, several times if that may help.
    async fn deliver(&mut self, batch: &Batch, end: &mut watch::Receiver<()>) {
        let mut pause = PAUSE;
        // Each attempt sends one message: a collector that has taken it without saying so can tell.
        let message = self.message(batch);
        for attempt in 1..=TRIES_MAX {
            let sent = {
                let mut sending = pin!(self.send(&message));
                tokio::select! {
                    biased;
                    sent = &mut sending => sent,
                    _ = end.changed() => {
                        let sent = timeout(LAST_WORDS, sending).await;
                        return self.count(batch.len(), sent.is_ok_and(|sent| sent.is_ok()));
                    }
                }
            };
            let may_be_repeated = sent.as_ref().is_err_and(Failure::may_be_repeated);
            self.tell(&sent);
            if sent.is_ok() || !may_be_repeated || attempt == TRIES_MAX {
                return self.count(batch.len(), sent.is_ok());
            }
            tokio::select! {
                () = sleep(pause) => pause *= 2,
                _ = end.changed() => return self.count(batch.len(), false),
            }
        }
    }

    /// Sends what is left when the proxy ends.
    async fn deliver_last(&mut self, batch: &[Box<RequestTrace>]) {
        let mut left = batch.len();
        let until = Instant::now() + LAST_WORDS;
        for batch in batch.chunks(BATCH_MAX) {
            let message = self.message(batch);
            let time = until.saturating_duration_since(Instant::now());
            match timeout(time, self.send(&message)).await {
                Ok(sent) => self.count(batch.len(), sent.is_ok()),
                Err(_) => break,
            }
            left -= batch.len();
        }
        self.count(left, false);
    }

    fn count(&self, requests: usize, is_sent: bool) {
        let global = &self.common.stats.global;
        let counter = match is_sent {
            true => &global.traces_exported,
            false => &global.traces_dropped,
        };
        add(counter, requests as u64);
    }

    /// The message about these.
    fn message(&mut self, batch: &[Box<RequestTrace>]) -> Bytes {
        let settings = self.common.settings.load();
        let snapshot = self.common.snapshot.load();
        let message = self.writer.message(batch, &settings, &snapshot);
        message.encode_to_vec().into()
    }

    async fn send(&self, message: &Bytes) -> Result<(), Failure> {
        let settings = self.common.settings.load_full();
        let tracing: &Tracing = &settings.tracing;
        let Ok(Some(collector)) = tracing.collector() else {
            return Err(Failure::NoCollector);
        };
        let headers = tracing.header_lines().map_err(Failure::Headers)?;
        let limit = Duration::from_millis(tracing.timeout_ms);
        let sent = post(&collector, &headers, message.clone());
        timeout(limit, sent).await.unwrap_or(Err(Failure::Late))
    }

    /// A collector that takes every other message is not told of each time.
    fn may_warn(&mut self) -> bool {
        let now = Instant::now();
        let is_late = |warned| now.saturating_duration_since(warned) >= WARNING_INTERVAL;
        let may_warn = self.warned.is_none_or(is_late);
        if may_warn {
            self.warned = Some(now);
        }
        may_warn
    }

    /// Logs what is new.
    fn tell(&mut self, sent: &Result<(), Failure>) {
        match sent {
            Ok(()) if self.is_told => {
                self.is_told = false;
                tracing::info!("the collector of traces takes spans again");
            }
            Err(Failure::NoCollector) | Ok(()) => {}
            Err(why) if !self.is_told && self.may_warn() => {
                self.is_told = true;
                tracing::warn!("spans cannot be sent to the collector (tracing.endpoint): {why}");
            }
            Err(why) => tracing::debug!("spans cannot be sent to the collector: {why}"),
        }
    }
}
