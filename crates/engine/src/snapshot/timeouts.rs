//! How long a request may be at a node before the proxy answers in the node's place.
//!
//! A node that lives answers, if only with a time-out of its own. The proxy needs one for what a node
//! has lost: 5.0 drops requests that have waited in its own queue for `native_transport_timeout`, without
//! saying whose they were. So the limit lies behind all that the node itself allows:
//!
//! limit(kind) = max(native_transport_timeout, the node's time-outs for this kind + `SLACK`)
//!
//! with the values that the node tells (`system_views.settings`), or else Cassandra's defaults. By these
//! it is 12 s for reads and writes and 62 s for TRUNCATE. A request that a node reads page by page, each with a
//! time-out of its own (aggregates, filtering, `IN`), takes as long as it takes: `PAGES_MAX`. A part or a stretch of
//! such a scan is cut so as to take a page or little more, and has the limit of one.

use std::time::Duration;

use helenus_catalogue::node_settings::duration;

#[cfg(test)]
mod tests;

/// For the way there and back, and a node that is late with its own time-out.
const SLACK: Duration = Duration::from_secs(2);
/// Longer than anybody waits.
const PAGES_MAX: Duration = Duration::from_secs(600);

/// The names under which nodes tell them. Before 4.1 they end in `_in_ms`.
pub const SETTINGS: [&str; 8] = [
    "read_request_timeout",
    "range_request_timeout",
    "write_request_timeout",
    "counter_write_request_timeout",
    "cas_contention_timeout",
    "truncate_request_timeout",
    "request_timeout",
    "native_transport_timeout",
];

/// A node's own time-outs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    read: Duration,
    range: Duration,
    write: Duration,
    counter_write: Duration,
    cas_contention: Duration,
    truncate: Duration,
    other: Duration,
    queue: Duration,
}

/// Classes of requests, by the time-outs that a node has for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timed {
    /// A read of one partition.
    Read,
    /// A page of many partitions.
    Range,
    /// A read that a node carries out by many others.
    Pages,
    Write,
    Lwt,
    /// Among them TRUNCATE and schema changes.
    Other,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            read: Duration::from_secs(5),
            range: Duration::from_secs(10),
            write: Duration::from_secs(2),
            counter_write: Duration::from_secs(5),
            cas_contention: Duration::from_millis(1_800),
            truncate: Duration::from_secs(60),
            other: Duration::from_secs(10),
            queue: Duration::from_secs(12),
        }
    }
}

impl Timeouts {
    /// From the names and values of a node's settings; `None` if none of [`SETTINGS`] is among them.
    pub fn from_settings<'a>(
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Option<Timeouts> {
        let mut timeouts = Timeouts::default();
        let mut any = false;
        for (name, value) in settings {
            let (name, value) = match name.strip_suffix("_in_ms") {
                Some(name) => (name, value.parse().ok().map(Duration::from_millis)),
                None => (name, duration(value)),
            };
            let place = match name {
                "read_request_timeout" => &mut timeouts.read,
                "range_request_timeout" => &mut timeouts.range,
                "write_request_timeout" => &mut timeouts.write,
                "counter_write_request_timeout" => &mut timeouts.counter_write,
                "cas_contention_timeout" => &mut timeouts.cas_contention,
                "truncate_request_timeout" => &mut timeouts.truncate,
                "request_timeout" => &mut timeouts.other,
                "native_transport_timeout" => &mut timeouts.queue,
                _ => continue,
            };
            if let Some(value) = value {
                *place = value;
                any = true;
            }
        }
        any.then_some(timeouts)
    }

    /// How long a request may wait in the node's own queue.
    pub(crate) fn queue(&self) -> Duration {
        self.queue
    }

    /// When the proxy gives up on a request of this kind.
    pub(crate) fn limit(&self, timed: Timed) -> Duration {
        let own = match timed {
            // Replicas that differ are read once more.
            Timed::Read => self.read.saturating_mul(2),
            Timed::Range => self.range,
            Timed::Pages => return PAGES_MAX.max(self.range).max(self.read),
            // The batchlog is written as well.
            Timed::Write => self.write.max(self.counter_write).saturating_mul(2),
            Timed::Lwt => {
                let rounds = self.cas_contention.saturating_add(self.read);
                rounds.saturating_add(self.write)
            }
            Timed::Other => self.truncate.max(self.other).max(self.range),
        };
        own.saturating_add(SLACK).max(self.queue)
    }
}
