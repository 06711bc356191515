//! Terms on which requests are served: the settings of a proxy that bound what clients wait for, and when each was
//! in force.

use helenus_engine::config::Config;

/// Workers hear of new settings within this time.
const TOLD_US: u64 = 5_000;

/// What settings say, or the loosest of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// Requests of one client that are read before any of them is answered, at least.
    pub reads_ahead_least: usize,
    /// Requests in flight over a link, at least.
    pub link_room_least: usize,
    /// At a node.
    pub node_ms: u64,
    /// In a node's queue, by class.
    pub read_ms: u64,
    pub write_ms: u64,
    pub other_ms: u64,
    pub scan_ms: u64,
    /// For a page of a scan, however many requests it takes.
    pub page_ms: u64,
    /// The shortest of the same, by which a request may be refused, and the shortest time that it may wait in a queue
    /// that stands; `None`: any.
    pub node_ms_least: u64,
    pub wait_ms_least: u64,
    pub standing_ms_least: Option<u64>,
    /// Requests that wait for a node, at least.
    pub queue_least: usize,
    /// There is a rule that refuses some.
    pub has_rule: bool,
    /// Memory is bounded.
    pub has_memory_max: bool,
}

/// The terms of a proxy, each with when it came into force.
#[derive(Clone, Debug)]
pub(super) struct History(Vec<(u64, Terms)>);

impl Terms {
    fn of(config: &Config) -> Terms {
        let scheduling = &config.scheduling;
        let waits = [
            scheduling.point_wait_max_ms,
            scheduling.write_wait_max_ms,
            scheduling.other_wait_max_ms,
            scheduling.scan_wait_max_ms,
        ];
        let standing = [
            scheduling.standing_wait_max_ms,
            scheduling.standing_scan_wait_max_ms,
        ];
        let node_ms = config.limits.request_timeout_ms.unwrap_or(u64::MAX / 4_000);
        Terms {
            reads_ahead_least: config.limits.client_in_flight_max.saturating_sub(1),
            link_room_least: config.links.in_flight_max,
            node_ms,
            read_ms: scheduling.point_wait_max_ms,
            write_ms: scheduling.write_wait_max_ms,
            other_ms: scheduling.other_wait_max_ms,
            scan_ms: scheduling.scan_wait_max_ms,
            page_ms: config.limits.page_timeout_ms,
            node_ms_least: node_ms,
            wait_ms_least: waits.into_iter().min().unwrap_or_default(),
            standing_ms_least: standing.into_iter().filter(|ms| *ms > 0).min(),
            queue_least: config.limits.node_queue_max,
            has_rule: !config.rules.is_empty(),
            has_memory_max: config.limits.memory_max.is_some(),
        }
    }

    /// Either of both.
    fn or(self, other: Terms) -> Terms {
        let standing = [self.standing_ms_least, other.standing_ms_least];
        Terms {
            reads_ahead_least: self.reads_ahead_least.min(other.reads_ahead_least),
            link_room_least: self.link_room_least.min(other.link_room_least),
            node_ms: self.node_ms.max(other.node_ms),
            read_ms: self.read_ms.max(other.read_ms),
            write_ms: self.write_ms.max(other.write_ms),
            other_ms: self.other_ms.max(other.other_ms),
            scan_ms: self.scan_ms.max(other.scan_ms),
            page_ms: self.page_ms.max(other.page_ms),
            node_ms_least: self.node_ms_least.min(other.node_ms_least),
            wait_ms_least: self.wait_ms_least.min(other.wait_ms_least),
            standing_ms_least: standing.into_iter().flatten().min(),
            queue_least: self.queue_least.min(other.queue_least),
            has_rule: self.has_rule || other.has_rule,
            has_memory_max: self.has_memory_max || other.has_memory_max,
        }
    }
}

impl History {
    pub(super) fn new(config: &Config) -> History {
        History(vec![(0, Terms::of(config))])
    }

    /// Other settings are in force.
    pub(super) fn adopt(&mut self, now_us: u64, config: &Config) {
        self.0.push((now_us, Terms::of(config)));
    }

    /// The loosest terms that were in force at any time from one instant to another. An operator who gives requests
    /// more time gives it to those that are under way.
    pub(super) fn during(&self, begun_us: u64, ended_us: u64) -> Terms {
        let last = self
            .0
            .iter()
            .rposition(|(since_us, _)| *since_us <= ended_us);
        let until = &self.0[..=last.unwrap_or_default()];
        let first = until
            .iter()
            .rposition(|(since_us, _)| since_us + TOLD_US <= begun_us);
        let mut of = until[first.unwrap_or_default()..]
            .iter()
            .map(|(_, terms)| *terms);
        let first = of.next().unwrap_or(self.0[0].1);
        of.fold(first, Terms::or)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_in_force_counts() {
        let config = |ms| {
            let mut config = Config::default();
            config.limits.request_timeout_ms = Some(ms);
            config
        };
        let mut history = History::new(&config(5_000));
        history.adopt(1_000_000, &config(9_000));
        history.adopt(2_000_000, &config(3_000));
        let node_ms = |begun_us, ended_us| history.during(begun_us, ended_us).node_ms;
        assert_eq!(node_ms(0, 999_999), 5_000);
        assert_eq!(node_ms(0, 1_000_000), 9_000, "it came into force meanwhile");
        assert_eq!(node_ms(2_004_000, 2_500_000), 9_000, "not all have heard");
        assert_eq!(node_ms(2_005_000, 2_500_000), 3_000);
        assert_eq!(history.during(0, 3_000_000).node_ms_least, 3_000);
    }
}
