//! Waiting until a change of the catalogue is known everywhere.
//!
//! A proxy relies on what it has read for [`LEASE`], and then writes nothing. What it has sent before can
//! wait at a node for its `native_transport_timeout` (5.0; 12 s), and be carried out for its write
//! time-out (2 s). After the sum, every write that a node had received knows of the change. Not counted is
//! what a node has not received: bytes in the socket of a node that stands still may be read much later. Nor
//! is a TRUNCATE of the table, which may take a minute. `verify` finds what either has done.

use std::time::{Duration, Instant};

use anyhow::Result;
use helenus_proxy::LAYOUTS_LEASE;

use super::cluster::Cluster;
use crate::testbed::spinner;

const QUEUE_DEFAULT: Duration = Duration::from_secs(12);
const WRITE_DEFAULT: Duration = Duration::from_secs(2);

const TRUNCATE_DEFAULT: Duration = Duration::from_secs(60);

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settle {
    time: Duration,
    /// How much longer than a write a TRUNCATE may take.
    truncate_more: Duration,
}

/// Whether another command may have sent a TRUNCATE of what is to be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emptying {
    No,
    Perhaps,
}

impl Settle {
    /// `no_proxies`: no proxy runs, so nobody needs to hear of anything.
    pub(super) async fn of(cluster: &Cluster, no_proxies: bool) -> Settle {
        let (mut time, mut truncate_more) = (Duration::ZERO, Duration::ZERO);
        if !no_proxies {
            let (mut queue, mut write) = (QUEUE_DEFAULT, WRITE_DEFAULT);
            let mut truncate = TRUNCATE_DEFAULT;
            for node in cluster.nodes() {
                // A node that does not tell, or one before 4.0, has the defaults.
                let told: Result<Vec<(String, Option<String>)>> = cluster
                    .rows_of(
                        &node,
                        "SELECT name, value FROM system_views.settings WHERE name IN \
                         ('native_transport_timeout', 'write_request_timeout', \
                          'write_request_timeout_in_ms', 'truncate_request_timeout', \
                          'truncate_request_timeout_in_ms')",
                    )
                    .await;
                for (name, value) in told.unwrap_or_default() {
                    let Some(value) = value.as_deref().and_then(duration) else {
                        continue;
                    };
                    match &*name {
                        "native_transport_timeout" => queue = queue.max(value),
                        name if name.starts_with("truncate") => truncate = truncate.max(value),
                        _ => write = write.max(value),
                    }
                }
            }
            time = LAYOUTS_LEASE + queue + write;
            truncate_more = (queue + truncate).saturating_sub(time);
        }
        Settle {
            time,
            truncate_more,
        }
    }

    /// What to add if another command, which notices that it has been overtaken before its next TRUNCATE,
    /// may have sent one just before.
    pub(super) fn for_emptying(self, emptying: Emptying) -> Duration {
        match emptying {
            Emptying::No => Duration::ZERO,
            Emptying::Perhaps => self.truncate_more,
        }
    }

    pub(super) async fn wait(self, what: &str) {
        self.wait_longer(Duration::ZERO, what).await;
    }

    /// `more`: after everybody knows, the time that what was done before takes to show.
    pub(super) async fn wait_longer(self, more: Duration, what: &str) {
        if self.time.is_zero() {
            return;
        }
        let time = self.time + more;
        let bar = spinner("");
        let begin = Instant::now();
        while let Some(left) = time.checked_sub(begin.elapsed()) {
            bar.set_message(format!(
                "{what}: every proxy knows in {} s",
                left.as_secs_f64().ceil()
            ));
            tokio::time::sleep(left.min(Duration::from_millis(500))).await;
        }
        bar.finish_and_clear();
    }
}

/// `12s`, `2000ms`, or milliseconds without a unit.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let number: u64 = number.parse().ok()?;
    match unit {
        "" | "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number * 60)),
        "h" => Some(Duration::from_secs(number * 3600)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_nodes_write_them() {
        for (text, ms) in [
            ("12s", 12_000),
            ("2000ms", 2_000),
            ("500", 500),
            ("1m", 60_000),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "5parsecs", "-1s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
