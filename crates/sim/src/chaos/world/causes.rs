//! Errors that clients are told, and what can be their reason.
//!
//! An error that a node has said must have been said by one, over a connection of the proxy that passes it on, while the
//! request was under way. One that the proxy says itself must have its reason in the settings in force or in what has
//! gone wrong lately; a text that has none here is a violation, too.

use helenus_wire::code;

use super::World;
use super::wide::NOT_TAKEN;
use crate::chaos::client::{InFlight, Purpose, TEXTS};
use crate::chaos::coverage::Check;
use crate::chaos::cql;
use crate::chaos::proxy::At;

/// A node's queue has as many as it may.
pub(super) const QUEUE_FULL: &str = "too many requests of this kind wait";
/// A request has waited for as long as it may in a node's queue.
const OUT_OF_TIME: &str = "did not come to this request within its bound";
const INCOMPLETE: &str = "the page was not complete within";

/// A node that could not be reached is tried again after ten seconds at the latest (`links.backoff_max_ms`).
const UNREACHED_US: u64 = 12_000_000;
/// A proxy that has just begun has no links yet.
const BEGINS_US: u64 = 5_000_000;
/// Ticks, and timers that are late.
const EARLY_MS: u64 = 5;
/// An answer is on its way for so long at most.
const WAY_US: u64 = 1_000_000;
/// Answers to several clients that are given at once come within this time.
const TOGETHER_US: u64 = 500_000;

/// What has gone wrong that clients may be told of.
#[derive(Debug, Default)]
pub(super) struct Causes {
    /// Errors that nodes have said: when, to which proxy, and which.
    said: Vec<(u64, usize, i32)>,
    /// When proxies have lost a connection to a node, or have not got one.
    lost: Vec<(u64, usize)>,
    /// From when to when a node, or what is between, was silent.
    silent: Vec<(u64, u64)>,
    /// When a role was last missing at the nodes.
    role_missing_us: Option<u64>,
    /// When pages have been given up whose time was over, and by which proxies.
    late: Vec<(u64, usize)>,
}

impl Causes {
    /// A proxy has lost a connection to a node, or does not get one.
    pub(super) fn note_lost(&mut self, now_us: u64, proxy: usize) {
        self.lost.push((now_us, proxy));
    }

    fn was_said(&self, proxy: usize, code: i32, since_us: u64) -> bool {
        let recent = self.said.iter().rev();
        let mut recent = recent.take_while(|(at_us, ..)| *at_us >= since_us);
        recent.any(|(_, of, said)| (*of, *said) == (proxy, code))
    }

    fn was_lost(&self, proxy: usize, since_us: u64) -> bool {
        let recent = self.lost.iter().rev();
        let mut recent = recent.take_while(|(at_us, _)| *at_us >= since_us);
        recent.any(|(_, of)| *of == proxy)
    }

    /// At least one role is not known to the nodes, or has just been let in again.
    pub(super) fn note_role_missing(&mut self, now_us: u64) {
        self.role_missing_us = Some(now_us);
    }

    fn was_late(&self, proxy: usize, since_us: u64) -> bool {
        let late = self.late.iter().rev();
        let mut late = late.take_while(|(at_us, _)| *at_us >= since_us);
        late.any(|(_, of)| *of == proxy)
    }

    fn was_silent(&self, since_us: u64) -> bool {
        self.silent
            .iter()
            .any(|(_, until_us)| *until_us >= since_us)
    }
}

impl World {
    /// A node says an error to a proxy.
    pub(super) fn note_said(&mut self, proxy: usize, code: i32) {
        let now_us = self.now_us();
        self.causes.said.push((now_us, proxy, code));
    }

    /// For so long something says nothing.
    pub(super) fn note_silent(&mut self, for_us: u64) {
        let now_us = self.now_us();
        self.causes.silent.push((now_us, now_us + for_us));
    }

    /// Whether something says nothing now.
    pub(super) fn is_silent(&self) -> bool {
        self.causes.was_silent(self.now_us())
    }

    /// A client is told an error: whether there is a reason.
    pub(super) fn judge_cause(
        &mut self,
        at: At,
        request: &InFlight,
        code: i32,
        text: &str,
    ) -> Result<(), String> {
        if matches!(request.purpose, Purpose::Startup | Purpose::Login) {
            return Ok(());
        }
        self.checked(Check::Cause, true);
        if text.contains(INCOMPLETE) && self.page_is_over(at, request.begun_us) {
            let now_us = self.now_us();
            self.causes.late.push((now_us, at.proxy));
        }
        match self.has_cause(at, request, code, text) {
            true => Ok(()),
            false => Err(format!("{code:#06x} without a cause: {text}")),
        }
    }

    fn role_was_missing(&self, for_us: u64) -> bool {
        let since_us = self.now_us().saturating_sub(for_us);
        let last_us = self.causes.role_missing_us;
        !self.dropped.is_empty() || last_us.is_some_and(|at_us| at_us >= since_us)
    }

    /// Whether a page that was asked for then has had its time.
    fn page_is_over(&self, at: At, begun_us: u64) -> bool {
        let now_us = self.now_us();
        let terms = self.proxies[at.proxy].terms.during(begun_us, now_us);
        (now_us - begun_us) / 1_000 + EARLY_MS >= terms.page_ms.max(terms.node_ms_least)
    }

    /// Whether a page may have been read together with one that has had its time.
    fn page_was_shared(&self, at: At) -> bool {
        let since_us = self.now_us().saturating_sub(TOGETHER_US);
        // Whoever asked first may have left.
        let mut others = self.clients.iter().flat_map(|client| {
            let asked = client.in_flight.values().filter(|of| of.is_page());
            let left = client.left_pages.iter().copied();
            asked.map(|of| of.begun_us).chain(left)
        });
        let terms = self.proxies[at.proxy].terms.during(since_us, since_us);
        let limit_ms = terms.page_ms.max(terms.node_ms_least);
        let first_us = since_us.saturating_sub(limit_ms.saturating_mul(1_000));
        self.causes.was_late(at.proxy, since_us)
            || others.any(|asked_us| asked_us >= first_us && self.page_is_over(at, asked_us))
    }

    fn has_cause(&self, at: At, request: &InFlight, code: i32, text: &str) -> bool {
        let (now_us, begun_us) = (self.now_us(), request.begun_us);
        let of = &self.proxies[at.proxy];
        let terms = of.terms.during(begun_us, now_us);
        let waited_ms = (now_us - begun_us) / 1_000 + EARLY_MS;
        let says = |what: &str| text.contains(what);
        let node_us = terms.node_ms.saturating_mul(1_000);
        // Others may have begun what it has joined, or waits for.
        let was_silent =
            || !self.loads.is_empty() || self.causes.was_silent(begun_us.saturating_sub(node_us));
        let was_lost = |for_us: u64| {
            self.causes
                .was_lost(at.proxy, now_us.saturating_sub(for_us))
                || now_us < of.begun_us + BEGINS_US
        };
        let may_have_joined = match request.purpose {
            Purpose::Read(_)
            | Purpose::ReadCas(_)
            | Purpose::ReadList(_)
            | Purpose::Who
            | Purpose::Many(_)
            | Purpose::Scan(..)
            | Purpose::Count
            | Purpose::Rows(_) => true,
            Purpose::Write(..) => self.merges,
            _ => false,
        };
        let is_narrow = terms.link_room_least < TEXTS.len();
        // A proxy has clients prepare anew what has other columns by now.
        if code == code::UNPREPARED && self.cluster.schema > 0 {
            let is_changed = request.text.is_none_or(cql::is_of_all);
            return is_changed || self.causes.was_said(at.proxy, code, begun_us);
        }
        if !text.starts_with("Helenus") {
            let is_of_layouts =
                code == code::PROTOCOL && matches!(request.purpose, Purpose::Rows(_));
            // Who begins to wait for a connection is told what was said over it, and may have been on its way.
            let way_us = if says("of a STARTUP") { WAY_US } else { 0 };
            let since_us = begun_us.saturating_sub(way_us);
            return is_of_layouts || self.causes.was_said(at.proxy, code, since_us);
        }
        if says(NOT_TAKEN) {
            let was_said = |code| self.causes.was_said(at.proxy, code, begun_us);
            let is_full = says(QUEUE_FULL) && terms.queue_least <= 2;
            let is_late = says(OUT_OF_TIME) && waited_ms >= terms.wait_ms_least;
            return is_full
                || is_late
                || was_silent()
                || was_lost(now_us - begun_us)
                || [
                    code::OVERLOADED,
                    code::IS_BOOTSTRAPPING,
                    code::WRITE_TIMEOUT,
                ]
                .into_iter()
                .any(was_said);
        }
        if says("Helenus: rule ") {
            terms.has_rule
        } else if says(QUEUE_FULL) {
            terms.queue_least <= 2
        } else if says("would begin with this request only in") {
            was_silent()
        } else if says("more requests come than the node serves") {
            let least = terms.standing_ms_least;
            least.is_some_and(|least| may_have_joined || waited_ms >= least)
        } else if says(OUT_OF_TIME) {
            // What has joined another one shares its end, as do all who wait until a statement is prepared again.
            let is_preparing =
                says("class system)") && !matches!(request.purpose, Purpose::Prepare(_));
            may_have_joined || is_preparing || waited_ms >= terms.wait_ms_least
        } else if says(" did not answer within ") || says("no node took the request within") {
            was_silent() || was_lost(node_us)
        } else if says(INCOMPLETE) {
            self.page_is_over(at, begun_us) || self.page_was_shared(at)
        } else if says("holds as much as it may for its clients") {
            terms.has_memory_max
        } else if says("no sign of life from the node") || says("too many answers never came") {
            was_silent()
        } else if says("the credentials of its role are not valid any more") {
            // No node could tell for `links.unchecked_credentials_max_ms`, or all have said so.
            was_silent() || was_lost(now_us - begun_us) || self.role_was_missing(node_us)
        } else if says(" broke while the request was in flight") {
            was_lost(now_us - begun_us)
        } else if says("whether an earlier attempt at this write took effect") {
            was_lost(node_us) || was_silent()
        } else if says("no Cassandra node can be reached now") {
            let since_us = now_us.saturating_sub(UNREACHED_US);
            let has_begun = !self
                .causes
                .was_said(at.proxy, code::IS_BOOTSTRAPPING, begun_us);
            // Connections of a role that is missing stay, but there are no further ones.
            !has_begun
                || was_lost(UNREACHED_US)
                || self.causes.was_silent(since_us)
                || is_narrow
                || self.role_was_missing(UNREACHED_US)
        } else if says("connection of this keyspace") || says("connection of their keyspace") {
            is_narrow
        } else if says("nodes do not agree on the schema") {
            request.purpose == Purpose::Alter
        } else {
            let of_layouts = says("catalogue") || says("layouts") || says("no node has told");
            of_layouts && self.catalogue.is_some()
        }
    }
}
