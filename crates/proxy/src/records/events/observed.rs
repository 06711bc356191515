//! Events that nobody tells of: they show in what is seen of nodes, requests, pauses and other proxies once a second.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use helenus_engine::snapshot::HostId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Kind;
use crate::records::node_state::NodeState;

/// Looks in a row that a node must have been down: a link that breaks and is opened again is no event.
const DOWN_LOOKS: u32 = 2;
/// Requests that must have failed before anybody is told: one of a million is no incident.
const FAILED_MIN: u64 = 10;
/// How long no request must have been refused until overload is over.
const QUIET: Duration = Duration::from_secs(10);

/// A node as it is seen.
#[derive(Clone, Debug)]
pub(crate) struct SeenNode {
    pub host_id: HostId,
    pub address: SocketAddr,
    pub state: NodeState,
    /// Workers that have ejected it.
    pub ejected: u64,
    pub in_flight: u64,
    /// Bytes from it so far.
    pub bytes_in: u64,
    /// Why it was ejected: see `NodeStats`.
    pub slower_milli: u64,
    pub failures_milli: u64,
}

impl SeenNode {
    fn is_gone(&self) -> bool {
        self.state == NodeState::Gone
    }
}

/// The proxy as it is seen. Counters are since it was started.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenProxy {
    /// The cluster is known: before, there is nothing to compare.
    pub is_known: bool,
    /// How long a node that is asked something must say nothing, also not to a probe, to count as silent.
    pub silence: Duration,
    /// It is stopping: then links are closed because nobody needs them.
    pub is_draining: bool,
    /// Why clients should not be sent here.
    pub not_ready: Option<String>,
    pub nodes: Vec<SeenNode>,
    pub joining: Vec<SocketAddr>,
    pub leaving: Vec<SocketAddr>,
    pub overloaded: u64,
    pub failed: u64,
    /// Pauses in force, and when they end by themselves.
    pub pauses: Vec<(String, Instant)>,
    pub proxies_down: FxHashSet<SocketAddr>,
    /// Those that there are.
    pub proxies: Vec<SocketAddr>,
}

/// A node as it was seen before.
#[derive(Clone, Debug)]
struct Known {
    address: SocketAddr,
    state: NodeState,
    /// Looks in a row at which it was down.
    down_looks: u32,
    /// Since when it is down, if that has been noted.
    down_since: Option<Instant>,
    ejected_since: Option<Instant>,
    bytes_in: u64,
    /// When it has last said something, or had nothing to say.
    heard: Option<Instant>,
    is_silent: bool,
}

/// Requests that fare badly, from the first until there has been none for a while.
#[derive(Clone, Copy, Debug, Default)]
struct Episode {
    counted: u64,
    /// The first of those that are too few so far, and how many they are.
    few: Option<(Instant, u64)>,
    under_way: Option<(Instant, u64)>,
    last: Option<Instant>,
}

/// The last look, and the episodes under way.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    has_known: bool,
    was_ready: bool,
    not_ready: Option<String>,
    nodes: FxHashMap<HostId, Known>,
    joining: Vec<SocketAddr>,
    leaving: Vec<SocketAddr>,
    overload: Episode,
    failures: Episode,
    pauses: Vec<(String, Instant)>,
    proxies_down: FxHashSet<SocketAddr>,
}

/// Events of one look.
type Noted = Vec<(Kind, String)>;

impl Observed {
    /// Looks again. Returns what has happened since the last look.
    pub(crate) fn look(&mut self, now: Instant, seen: SeenProxy) -> Noted {
        let mut noted = Vec::new();
        if seen.is_known {
            if !seen.is_draining {
                self.look_at_readiness(&seen, &mut noted);
                self.look_at_nodes(now, &seen, &mut noted);
            }
            self.look_at_moves(&seen, &mut noted);
            self.has_known = true;
        }
        self.look_at_requests(now, &seen, &mut noted);
        self.look_at_pauses(now, &seen, &mut noted);
        self.look_at_proxies(&seen, &mut noted);
        noted
    }

    fn look_at_readiness(&mut self, seen: &SeenProxy, noted: &mut Noted) {
        match (&self.not_ready, &seen.not_ready) {
            (None, Some(why)) if self.was_ready => {
                noted.push((Kind::NotReady, format!("not ready: {why}")));
            }
            (Some(_), None) => noted.push((Kind::Ready, "ready again".to_owned())),
            _ => {}
        }
        self.was_ready |= seen.not_ready.is_none();
        // Links are being opened when the cluster has just been found.
        self.not_ready = seen.not_ready.clone().filter(|_| self.was_ready);
    }

    fn look_at_nodes(&mut self, now: Instant, seen: &SeenProxy, noted: &mut Noted) {
        let here = seen.nodes.iter().filter(|node| !node.is_gone());
        let here: FxHashSet<HostId> = here.map(|node| node.host_id).collect();
        for node in &seen.nodes {
            let address = node.address;
            let is_gone = node.is_gone();
            // A node that has moved stays listed at each address that it ever had.
            let is_former = self
                .nodes
                .get(&node.host_id)
                .is_some_and(|known| known.address != address);
            if is_gone && (is_former || here.contains(&node.host_id)) {
                continue;
            }
            let Some(known) = self.nodes.get_mut(&node.host_id) else {
                if self.has_known && !is_gone {
                    noted.push((Kind::NodeJoined, format!("{address} has joined")));
                }
                self.nodes.insert(node.host_id, Known::new(node));
                continue;
            };
            if known.address != address {
                let text = format!("{} has the address {address} now", known.address);
                noted.push((Kind::NodeMoved, text));
                known.address = address;
                known.bytes_in = node.bytes_in;
                known.heard = None;
            }
            match (known.state == NodeState::Gone, is_gone) {
                (false, true) => noted.push((Kind::NodeLeft, format!("{address} has left"))),
                (true, false) => noted.push((Kind::NodeJoined, format!("{address} has joined"))),
                _ => {}
            }
            known.state = node.state;
            if is_gone {
                *known = Known::new(node);
                continue;
            }
            known.look_at_links(now, noted);
            known.look_at_silence(now, node, seen.silence, noted);
            known.look_at_ejection(now, node, noted);
        }
    }

    fn look_at_moves(&mut self, seen: &SeenProxy, noted: &mut Noted) {
        for (before, now, kind, what) in [
            (
                &mut self.joining,
                &seen.joining,
                Kind::NodeJoining,
                "is joining: it is not asked before all nodes know of it",
            ),
            (
                &mut self.leaving,
                &seen.leaving,
                Kind::NodeLeaving,
                "is leaving: it is asked until all nodes know of it",
            ),
        ] {
            let new = now.iter().filter(|address| !before.contains(address));
            noted.extend(new.map(|address| (kind, format!("{address} {what}"))));
            before.clone_from(now);
        }
    }

    fn look_at_requests(&mut self, now: Instant, seen: &SeenProxy, noted: &mut Noted) {
        match self.overload.look(now, seen.overloaded, 1) {
            Turn::None => {}
            Turn::Began => noted.push((
                Kind::OverloadBegan,
                "overload: requests are refused with OVERLOADED".to_owned(),
            )),
            Turn::Ended { count, lasted } => noted.push((
                Kind::OverloadEnded,
                format!(
                    "overload is over: {count} requests refused in {}",
                    seconds(lasted)
                ),
            )),
        }
        match self.failures.look(now, seen.failed, FAILED_MIN) {
            Turn::None => {}
            Turn::Began => noted.push((
                Kind::FailuresBegan,
                "requests fail: Helenus answers them with errors of its own".to_owned(),
            )),
            Turn::Ended { count, lasted } => noted.push((
                Kind::FailuresEnded,
                format!(
                    "no request fails any more: {count} failed in {}",
                    seconds(lasted)
                ),
            )),
        }
    }

    fn look_at_pauses(&mut self, now: Instant, seen: &SeenProxy, noted: &mut Noted) {
        for (of, until) in &self.pauses {
            let is_in_force = seen.pauses.iter().any(|(other, _)| other == of);
            // An operator who resumes is noted at once.
            if !is_in_force && *until <= now {
                noted.push((Kind::Resumed, format!("the pause of {of} has run out")));
            }
        }
        self.pauses.clone_from(&seen.pauses);
    }

    fn look_at_proxies(&mut self, seen: &SeenProxy, noted: &mut Noted) {
        for address in &seen.proxies {
            let (was, is) = (
                self.proxies_down.contains(address),
                seen.proxies_down.contains(address),
            );
            match (was, is) {
                (false, true) => {
                    noted.push((Kind::ProxyDown, format!("proxy {address} does not answer")));
                }
                (true, false) => {
                    noted.push((Kind::ProxyUp, format!("proxy {address} answers again")));
                }
                _ => {}
            }
        }
        self.proxies_down.clone_from(&seen.proxies_down);
    }
}

impl Known {
    fn new(node: &SeenNode) -> Known {
        Known {
            address: node.address,
            state: node.state,
            down_looks: 0,
            down_since: None,
            ejected_since: None,
            bytes_in: node.bytes_in,
            heard: None,
            is_silent: false,
        }
    }

    fn look_at_links(&mut self, now: Instant, noted: &mut Noted) {
        let address = self.address;
        match self.state {
            NodeState::Down => {
                self.down_looks = self.down_looks.saturating_add(1);
                if self.down_looks == DOWN_LOOKS && self.down_since.is_none() {
                    self.down_since = Some(now);
                    noted.push((
                        Kind::NodeDown,
                        format!("{address} is down: there is no upstream connection to it"),
                    ));
                }
            }
            NodeState::Up => {
                self.down_looks = 0;
                if let Some(since) = self.down_since.take() {
                    let lasted = seconds(now - since);
                    noted.push((
                        Kind::NodeUp,
                        format!("{address} is up again after {lasted}"),
                    ));
                }
            }
            // Nothing is known of it, so one that was down may still be.
            NodeState::Unused => self.down_looks = 0,
            NodeState::Gone => {
                self.down_looks = 0;
                self.down_since = None;
            }
        }
    }

    /// Links may stay open while a node is frozen or cut off, if they have nothing to carry.
    fn look_at_silence(
        &mut self,
        now: Instant,
        node: &SeenNode,
        silence: Duration,
        noted: &mut Noted,
    ) {
        let address = self.address;
        let has_spoken = node.bytes_in != self.bytes_in;
        self.bytes_in = node.bytes_in;
        let heard = *self.heard.get_or_insert(now);
        if has_spoken && self.is_silent {
            self.is_silent = false;
            let lasted = seconds(now - heard);
            let text = format!("{address} answers again, after {lasted} of silence");
            noted.push((Kind::NodeAnswers, text));
        }
        let is_idle = node.in_flight == 0 && !self.is_silent;
        if has_spoken || is_idle {
            self.heard = Some(now);
        } else if !self.is_silent && self.state == NodeState::Up && now - heard >= silence {
            self.is_silent = true;
            let (lasted, waiting) = (seconds(now - heard), node.in_flight);
            let text = format!(
                "{address} has said nothing for {lasted}: {waiting} requests are in flight"
            );
            noted.push((Kind::NodeSilent, text));
        }
    }

    fn look_at_ejection(&mut self, now: Instant, node: &SeenNode, noted: &mut Noted) {
        let address = self.address;
        match (self.ejected_since, node.ejected > 0) {
            (None, true) => {
                self.ejected_since = Some(now);
                let why = match node.slower_milli {
                    0 => format!("{} % of its requests failed", node.failures_milli / 10),
                    milli => format!(
                        "its answers took {} times as long as is typical",
                        milli / 1_000
                    ),
                };
                noted.push((Kind::NodeEjected, format!("{address} is ejected: {why}")));
            }
            (Some(since), false) => {
                self.ejected_since = None;
                let lasted = seconds(now - since);
                let text = format!("{address} is asked again after {lasted}");
                noted.push((Kind::NodeReturned, text));
            }
            _ => {}
        }
    }
}

/// In whole seconds, as often as it is looked.
fn seconds(lasted: Duration) -> String {
    match lasted.as_secs_f64().round() as u64 {
        s @ 0..60 => format!("{s} s"),
        s @ 60..3_600 => format!("{} min {} s", s / 60, s % 60),
        s => format!("{} h {} min", s / 3_600, s / 60 % 60),
    }
}

/// The change of an episode.
enum Turn {
    None,
    Began,
    Ended { count: u64, lasted: Duration },
}

impl Episode {
    /// `least`: how many there must be, without a pause, for it to begin.
    fn look(&mut self, now: Instant, counted: u64, least: u64) -> Turn {
        let new = counted.saturating_sub(self.counted);
        self.counted = counted;
        let is_quiet = self.last.is_none_or(|last| now - last >= QUIET);
        if new == 0 {
            return match (self.under_way, self.last) {
                (Some((began, count)), Some(last)) if is_quiet => {
                    self.under_way = None;
                    // At least the second in which it was seen.
                    let lasted = (last - began).max(Duration::from_secs(1));
                    Turn::Ended { count, lasted }
                }
                _ => Turn::None,
            };
        }
        self.last = Some(now);
        if let Some((_, count)) = &mut self.under_way {
            *count += new;
            return Turn::None;
        }
        let (began, before) = self.few.filter(|_| !is_quiet).unwrap_or((now, 0));
        let count = before + new;
        if count < least {
            self.few = Some((began, count));
            return Turn::None;
        }
        self.few = None;
        self.under_way = Some((began, count));
        Turn::Began
    }
}
