//! Waiting until a change of the catalogue is known everywhere.
//!
//! A proxy, and a command that moves values or fills layouts, relies on what it has read for [`lease`], and then writes
//! nothing. What it has sent before can
//! wait at a node for its `native_transport_timeout` (5.0; 12 s), and be carried out for its write
//! time-out (2 s). After the sum, every write that a node had received knows of the change. Not counted is
//! what a node has not received: bytes in the socket of a node that stands still may be read much later. Nor
//! is a TRUNCATE of the table, which may take a minute. `verify` finds what either has done.
//!
//! While tables refuse writes, a proxy writes a derived layout once its table has answered, which may be as late as the sum
//! above. That second request, sent with what was relied on for the first, can wait at its node and be carried out for as long again
//! ([`Settle::with_derived`]). Not counted are further attempts, where the first coordinator has failed with it, and hints,
//! which come whenever their replica is back: both bring what the table has, with its time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use helenus_catalogue::node_settings;
use helenus_catalogue::waits::lease;
use helenus_console::terminal::spinner;
use scylla::cluster::Node;

use crate::nodes::cluster::Cluster;

const QUEUE_DEFAULT: Duration = Duration::from_secs(12);
const WRITE_DEFAULT: Duration = Duration::from_secs(2);

const TRUNCATE_DEFAULT: Duration = Duration::from_secs(60);

/// How long after it was sent a node may still carry out a request.
pub(crate) async fn request_max(cluster: &Cluster) -> Duration {
    let longest = Timeouts::longest(cluster).await;
    longest.queue + longest.write
}

/// How long nodes may still carry out what they have been sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Timeouts {
    queue: Duration,
    write: Duration,
    truncate: Duration,
}

impl Timeouts {
    async fn longest(cluster: &Cluster) -> Timeouts {
        let mut longest = Timeouts::default();
        for node in cluster.nodes() {
            longest = longest.max(Timeouts::of(cluster, &node).await);
        }
        longest
    }

    async fn of(cluster: &Cluster, node: &Arc<Node>) -> Timeouts {
        let told: Result<Vec<(String, Option<String>)>> = cluster
            .rows_of(
                node,
                "SELECT name, value FROM system_views.settings WHERE name IN \
                 ('native_transport_timeout', 'write_request_timeout', \
                  'write_request_timeout_in_ms', 'truncate_request_timeout', \
                  'truncate_request_timeout_in_ms')",
            )
            .await;
        Timeouts::told(&told.unwrap_or_default())
    }

    /// Timeouts from the settings that a node tells. One that is missing or not understood has its default.
    fn told(settings: &[(String, Option<String>)]) -> Timeouts {
        let of = |name: &str| {
            let named = settings.iter().filter(|(of, _)| of.starts_with(name));
            named
                .filter_map(|(_, value)| duration(value.as_deref()?))
                .max()
        };
        Timeouts {
            queue: of("native_transport_timeout").unwrap_or(QUEUE_DEFAULT),
            write: of("write_request_timeout").unwrap_or(WRITE_DEFAULT),
            truncate: of("truncate_request_timeout").unwrap_or(TRUNCATE_DEFAULT),
        }
    }

    fn max(self, other: Timeouts) -> Timeouts {
        Timeouts {
            queue: self.queue.max(other.queue),
            write: self.write.max(other.write),
            truncate: self.truncate.max(other.truncate),
        }
    }
}

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settle {
    time: Duration,
    /// How much longer a request takes that a proxy sends once the last one has been answered.
    second_more: Duration,
    /// How much longer than a write a TRUNCATE may take.
    truncate_more: Duration,
    others: Others,
}

/// Who has to hear of a change before it is relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    Proxies,
    /// No proxy runs, but a command that was taken over may be at work ([`super::claim`]).
    Command,
    None,
}

impl Others {
    pub(crate) fn of(no_proxies: bool, is_taken_over: bool) -> Others {
        match (no_proxies, is_taken_over) {
            (false, _) => Others::Proxies,
            (true, true) => Others::Command,
            (true, false) => Others::None,
        }
    }

    /// The condition that is waited for, for people.
    fn told(self) -> &'static str {
        match self {
            Others::Proxies => "every proxy knows",
            Others::Command => "no other command writes any more",
            Others::None => "done",
        }
    }
}

/// The answer to whether another command may have sent a TRUNCATE of a table that is to be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Emptying {
    No,
    Perhaps,
}

impl Settle {
    pub(crate) async fn of(cluster: &Cluster, others: Others) -> Settle {
        if others == Others::None {
            return Settle {
                time: Duration::ZERO,
                second_more: Duration::ZERO,
                truncate_more: Duration::ZERO,
                others,
            };
        }
        Settle::after(Timeouts::longest(cluster).await, others)
    }

    /// Where nodes take no longer than that.
    fn after(longest: Timeouts, others: Others) -> Settle {
        let request = longest.queue + longest.write;
        Settle {
            time: lease() + request,
            second_more: match others {
                Others::Proxies => request,
                // Commands write a layout by itself.
                Others::Command | Others::None => Duration::ZERO,
            },
            truncate_more: longest.truncate.saturating_sub(longest.write),
            others,
        }
    }

    /// Where `is_derived`, also until proxies' writes of derived layouts, which follow those of the table, have ended.
    pub(crate) fn with_derived(self, is_derived: bool) -> Settle {
        match is_derived {
            true => Settle {
                time: self.time + self.second_more,
                ..self
            },
            false => self,
        }
    }

    /// Nobody has to hear of anything.
    pub(crate) fn is_at_once(self) -> bool {
        self.time.is_zero()
    }

    /// The time to add if another command, not yet aware that it was overtaken, may have sent a TRUNCATE.
    pub(crate) fn for_emptying(self, emptying: Emptying) -> Duration {
        match emptying {
            Emptying::No => Duration::ZERO,
            Emptying::Perhaps => self.truncate_more,
        }
    }

    pub(crate) async fn wait(self, what: &str) {
        self.wait_longer(Duration::ZERO, what).await;
    }

    /// `more`: after everybody knows, the time that what was done before takes to show.
    pub(crate) async fn wait_longer(self, more: Duration, what: &str) {
        if !self.is_at_once() {
            wait_for(self.time + more, what, self.others.told()).await;
        }
    }
}

async fn wait_for(time: Duration, what: &str, then: &str) {
    let bar = spinner("");
    let begin = Instant::now();
    while let Some(left) = time.checked_sub(begin.elapsed()) {
        bar.set_message(format!("{what}: {then} in {} s", left.as_secs_f64().ceil()));
        tokio::time::sleep(left.min(Duration::from_millis(500))).await;
    }
    bar.finish_and_clear();
}

/// A number and a unit, or milliseconds without one.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let milliseconds = || text.parse().ok().map(Duration::from_millis);
    node_settings::duration(text).or_else(milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_tell_their_timeouts_or_have_the_defaults() {
        let s = Duration::from_secs;
        let setting = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
        let told = Timeouts::told(&[
            setting("native_transport_timeout", Some("4s")),
            setting("write_request_timeout_in_ms", Some("3000")),
            setting("truncate_request_timeout", None),
        ]);
        let expected = Timeouts {
            queue: s(4),
            write: s(3),
            truncate: s(60),
        };
        assert_eq!(told, expected);
        let silent = Timeouts::told(&[setting("native_transport_timeout", Some("soon"))]);
        let longest = Timeouts::default().max(told).max(silent);
        assert_eq!((longest.queue, longest.write), (s(12), s(3)));
    }

    #[test]
    fn a_truncate_that_another_command_sends_last_has_ended_when_its_table_is_filled() {
        let longest = Timeouts::default().max(Timeouts::told(&[]));
        let ends = lease() + QUEUE_DEFAULT + TRUNCATE_DEFAULT;
        for others in [Others::Proxies, Others::Command] {
            let settle = Settle::after(longest, others);
            let waits = |emptying| settle.time + settle.for_emptying(emptying);
            assert_eq!(waits(Emptying::Perhaps), ends, "{others:?}");
            assert!(waits(Emptying::No) < ends);
        }
    }

    #[test]
    fn a_derived_layout_is_written_after_its_table() {
        let longest = Timeouts::told(&[]);
        let request = QUEUE_DEFAULT + WRITE_DEFAULT;
        let time = |others, is_derived| {
            let settle = Settle::after(longest, others);
            settle.with_derived(is_derived).time
        };
        assert_eq!(time(Others::Proxies, false), lease() + request);
        assert_eq!(time(Others::Proxies, true), lease() + request * 2);
        assert_eq!(time(Others::Command, true), lease() + request);
    }

    #[test]
    fn proxies_are_named_only_where_they_are_waited_for() {
        for (no_proxies, is_taken_over) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let told = Others::of(no_proxies, is_taken_over).told();
            assert_eq!(told.contains("proxy"), !no_proxies, "{told}");
        }
    }

    #[test]
    fn durations_as_nodes_write_them() {
        for (text, ms) in [
            ("12s", 12_000),
            ("2000ms", 2_000),
            ("500", 500),
            ("1m", 60_000),
            ("3h", 10_800_000),
            ("1d", 86_400_000),
            ("7000us", 7),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "5parsecs", "-1s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
