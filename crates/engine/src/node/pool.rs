//! The links of one role: a few connections a node, opened when needed, never lent to another role.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::Locality;
use rustc_hash::FxHashMap;
use slotmap::SlotMap;

use crate::client::identity::Identity;
use crate::engine::{Engine, LinkKey, NodeRequestKey, PoolKey};
use crate::message::Target;
use crate::node::link::{Link, LinkKind, OpenError, OpenedLink};
use crate::output::{Opening, Output};
use crate::snapshot::Snapshot;
use crate::stats::add;

/// Connections of one role.
pub(crate) struct Pool {
    pub identity: Arc<Identity>,
    /// By node; links shared by all requests.
    pub nodes: Vec<Vec<Slot>>,
    /// Links that carry a connection state of their own (a keyspace, or USE itself).
    pub special: Vec<Special>,
    /// Clients of this role.
    pub sessions: usize,
    pub idle_since: Instant,
    /// Requests that came before the first link was up.
    pub waiting: Vec<NodeRequestKey>,
    /// Nodes that can be reached, but could not judge this role's credentials when they last had to.
    pub unjudged: FxHashMap<NodeIndex, Pause>,
}

/// Until when a node is not tried, after failures in a row.
#[derive(Clone, Copy)]
pub(crate) struct Pause {
    pub failures: u32,
    pub tried: Instant,
    pub until: Instant,
}

/// A place for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Empty,
    Connecting,
    Up(LinkKey),
}

/// A link outside the shared ones.
pub(crate) struct Special {
    pub node: NodeIndex,
    pub kind: LinkKind,
    pub slot: Slot,
    pub waiting: Vec<NodeRequestKey>,
    /// When it was last wanted.
    used: Instant,
}

impl Special {
    /// Whether it could be closed without anybody noticing.
    fn is_idle(&self, links: &SlotMap<LinkKey, Link>) -> bool {
        match self.slot {
            _ if !self.waiting.is_empty() => false,
            Slot::Connecting => false,
            Slot::Empty => true,
            Slot::Up(link) => links.get(link).is_none_or(|link| link.in_flight == 0),
        }
    }
}

/// A special link that nobody has wanted for so long is closed.
const IDLE_SPECIAL: Duration = Duration::from_secs(60);
const WAITING_MAX: usize = 16_384;
/// Requests make unreachable nodes be tried at most this often.
const DEMAND_PAUSE: Duration = Duration::from_millis(250);
const IDLE_POOL: Duration = Duration::from_secs(60);

impl Pool {
    /// The shared links of a node that are up.
    pub(crate) fn links(&self, node: NodeIndex) -> impl Iterator<Item = LinkKey> + '_ {
        self.nodes
            .get(node.as_usize())
            .into_iter()
            .flatten()
            .filter_map(|slot| match slot {
                Slot::Up(link) => Some(*link),
                _ => None,
            })
    }

    pub(crate) fn has_link(&self, node: NodeIndex) -> bool {
        self.links(node).next().is_some()
    }

    /// Whether it logs in though the nodes no longer ask for that, or does not though they do.
    pub(crate) fn is_outdated(&self, snapshot: &Snapshot) -> bool {
        snapshot.is_known() && self.identity.is_anonymous() == snapshot.authenticate.is_some()
    }

    /// Nodes with a shared link that is up.
    pub(crate) fn linked_nodes(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        let nodes = (0..self.nodes.len()).map(|at| NodeIndex(at as u16));
        nodes.filter(|node| self.has_link(*node))
    }

    fn is_connecting(&self) -> bool {
        self.nodes
            .iter()
            .flatten()
            .any(|slot| *slot == Slot::Connecting)
    }
}

impl Engine {
    /// The pool for clusters without authentication.
    pub(crate) fn anonymous_pool(&mut self) -> PoolKey {
        let anonymous = self.cx.shared.identities.anonymous();
        self.pool_of(&anonymous)
    }

    /// The pool of an identity, made on first use.
    pub(crate) fn pool_of(&mut self, identity: &Arc<Identity>) -> PoolKey {
        let found = self
            .pools
            .iter()
            .find(|(_, pool)| Arc::ptr_eq(&pool.identity, identity));
        if let Some((key, _)) = found {
            return key;
        }
        let key = self.pools.insert(Pool {
            identity: identity.clone(),
            nodes: Vec::new(),
            special: Vec::new(),
            sessions: 0,
            idle_since: self.cx.now,
            waiting: Vec::new(),
            unjudged: FxHashMap::default(),
        });
        self.maintain_pools();
        key
    }

    /// Counts a client of a role.
    pub(crate) fn enter_pool(&mut self, pool: PoolKey) {
        if let Some(pool) = self.pools.get_mut(pool) {
            pool.sessions += 1;
        }
    }

    /// Opens what is missing, closes what nobody needs.
    pub(crate) fn maintain_pools(&mut self) {
        let per_worker = self
            .cx
            .shared
            .config
            .links
            .per_node
            .div_ceil(self.cx.workers.max(1))
            .max(1);
        let allow_remote = self.cx.shared.config.cluster.allow_remote_dc;
        self.close_needless_links();
        let mut wanted = Vec::new();
        let mut unused = Vec::new();
        let mut idle_links = Vec::new();
        for (key, pool) in self.pools.iter_mut() {
            pool.special.retain(|special| {
                let old = self.cx.now.saturating_duration_since(special.used) > IDLE_SPECIAL;
                let idle_now = old && special.is_idle(&self.links);
                if let (true, Slot::Up(link)) = (idle_now, special.slot) {
                    idle_links.push(link);
                }
                !idle_now
            });
            let ended = pool.identity.has_ended();
            let idle = self.cx.now.saturating_duration_since(pool.idle_since) > IDLE_POOL;
            if pool.sessions == 0 && (ended || idle && !pool.identity.is_anonymous()) {
                unused.push(key);
                continue;
            }
            if ended || pool.sessions == 0 && pool.is_outdated(&self.cx.snapshot) {
                continue;
            }
            pool.nodes.resize_with(self.cx.snapshot.nodes.len(), || {
                vec![Slot::Empty; per_worker]
            });
            for (node, slots) in pool.nodes.iter_mut().enumerate() {
                let unjudged = pool.unjudged.get(&NodeIndex(node as u16));
                if self.cx.snapshot.nodes[node].gone
                    || self.nodes[node].retry_at > self.cx.now
                    || unjudged.is_some_and(|pause| pause.until > self.cx.now)
                {
                    continue;
                }
                let locality = self.cx.snapshot.places.locality(NodeIndex(node as u16));
                if locality == Some(Locality::Remote) && !allow_remote {
                    continue;
                }
                // A node that fails is tried with one connection at a time.
                let mut budget = if self.nodes[node].failures > 0 {
                    1
                } else {
                    usize::MAX
                };
                if self.nodes[node].failures > 0 && slots.contains(&Slot::Connecting) {
                    budget = 0;
                }
                for (place, slot) in slots.iter_mut().enumerate() {
                    if *slot == Slot::Empty && budget > 0 {
                        budget -= 1;
                        *slot = Slot::Connecting;
                        self.nodes[node].tried = self.cx.now;
                        wanted.push((key, NodeIndex(node as u16), LinkKind::Shared(place)));
                    }
                }
            }
        }
        for (pool, node, kind) in wanted {
            self.open_link(pool, node, kind);
        }
        for key in unused {
            self.close_pool(key);
        }
        for link in idle_links {
            self.kill_link(link);
        }
    }

    /// Closes links to nodes that have left, or that may not serve any more, once they are idle.
    fn close_needless_links(&mut self) {
        let allow_remote = self.cx.shared.config.cluster.allow_remote_dc;
        let snapshot = &self.cx.snapshot;
        let needless = |node: NodeIndex| {
            let remote = snapshot.places.locality(node) == Some(Locality::Remote);
            snapshot.is_gone(node) || remote && !allow_remote
        };
        let links = self.links.iter();
        let idle = links.filter(|(_, link)| link.in_flight == 0 && needless(link.node));
        let idle: Vec<LinkKey> = idle.map(|(key, _)| key).collect();
        for link in idle {
            self.kill_link(link);
        }
    }

    pub(crate) fn kill_links_of_pool(&mut self, key: PoolKey) {
        for link in self.links_of_pool(key) {
            self.kill_link(link);
        }
    }

    fn links_of_pool(&self, key: PoolKey) -> Vec<LinkKey> {
        let Some(pool) = self.pools.get(key) else {
            return Vec::new();
        };
        pool.nodes
            .iter()
            .flatten()
            .chain(pool.special.iter().map(|s| &s.slot))
            .filter_map(|slot| match slot {
                Slot::Up(link) => Some(*link),
                _ => None,
            })
            .collect()
    }

    fn close_pool(&mut self, key: PoolKey) {
        // What is being opened finds the pool gone otherwise, and its slot with it.
        if self.pools.get(key).is_none_or(Pool::is_connecting) {
            return;
        }
        self.kill_links_of_pool(key);
        self.pools.remove(key);
    }

    /// Cuts the pause before unreachable nodes are tried again: somebody needs one now.
    pub(crate) fn try_nodes_again(&mut self) {
        let long_ago = |tried: Instant| self.cx.now.saturating_duration_since(tried) > DEMAND_PAUSE;
        let mut cut = false;
        for node in &mut self.nodes {
            if node.failures > 0 && long_ago(node.tried) {
                node.retry_at = self.cx.now;
                cut = true;
            }
        }
        for (_, pool) in &mut self.pools {
            for pause in pool.unjudged.values_mut() {
                if long_ago(pause.tried) {
                    pause.until = self.cx.now;
                    cut = true;
                }
            }
        }
        if cut {
            self.maintain_pools();
        }
    }

    /// Lets a request wait for a link that is being opened; false if none is.
    pub(crate) fn wait_for_link(&mut self, pool: PoolKey, request: NodeRequestKey) -> bool {
        let Some(pool) = self.pools.get_mut(pool) else {
            return false;
        };
        if !pool.is_connecting() || pool.waiting.len() >= WAITING_MAX {
            return false;
        }
        pool.waiting.push(request);
        true
    }

    /// The special link for a kind, opened on first use.
    pub(crate) fn special_link(
        &mut self,
        pool_key: PoolKey,
        node: NodeIndex,
        kind: &LinkKind,
        request: NodeRequestKey,
    ) -> SpecialLink {
        let Some(place) = self.special_place(pool_key, node, kind) else {
            return SpecialLink::TooMany;
        };
        if let Slot::Up(link) = place.slot {
            return SpecialLink::Up(link);
        }
        if place.waiting.len() >= WAITING_MAX {
            return SpecialLink::TooManyWait;
        }
        place.waiting.push(request);
        if place.slot == Slot::Empty {
            place.slot = Slot::Connecting;
            self.open_link(pool_key, node, kind.clone());
        }
        SpecialLink::Waits
    }

    /// The place of a special link, made on first use. When there are too many, the one goes that has
    /// not been wanted for longest; `None` if all are in use.
    fn special_place(
        &mut self,
        pool: PoolKey,
        node: NodeIndex,
        kind: &LinkKind,
    ) -> Option<&mut Special> {
        let max = self.cx.shared.config.limits.special_links_max;
        let now = self.cx.now;
        let special = &mut self.pools.get_mut(pool)?.special;
        let found = special
            .iter()
            .position(|s| s.kind == *kind && s.node == node);
        let at = match found {
            Some(at) => at,
            None => {
                let mut closed = None;
                if special.len() >= max {
                    let idle = special.iter().enumerate();
                    let (oldest, _) = idle
                        .filter(|(_, special)| special.is_idle(&self.links))
                        .min_by_key(|(_, special)| special.used)?;
                    if let Slot::Up(link) = special.swap_remove(oldest).slot {
                        closed = Some(link);
                    }
                }
                special.push(Special {
                    node,
                    kind: kind.clone(),
                    slot: Slot::Empty,
                    waiting: Vec::new(),
                    used: now,
                });
                let at = special.len() - 1;
                if let Some(link) = closed {
                    self.kill_link(link);
                }
                at
            }
        };
        let place = self.pools.get_mut(pool)?.special.get_mut(at)?;
        place.used = now;
        Some(place)
    }

    /// The link for what is large; `None` while there is none, but then one is on its way.
    pub(crate) fn bulk_link(&mut self, pool_key: PoolKey, node: NodeIndex) -> Option<LinkKey> {
        let place = self.special_place(pool_key, node, &LinkKind::Bulk)?;
        match place.slot {
            Slot::Up(link) => return Some(link),
            Slot::Connecting => return None,
            Slot::Empty => place.slot = Slot::Connecting,
        }
        self.open_link(pool_key, node, LinkKind::Bulk);
        None
    }

    /// Starts to open a link; its slot is already marked as connecting.
    pub(crate) fn open_link(&mut self, pool: PoolKey, node: NodeIndex, kind: LinkKind) {
        let Some(identity) = self.pools.get(pool).map(|pool| pool.identity.clone()) else {
            return;
        };
        self.cx.ask(Output::Open(Opening {
            pool,
            node,
            kind,
            identity,
            address: self.cx.snapshot.nodes[node.as_usize()].address,
            version: self.cx.snapshot.version,
            cluster: self.cx.snapshot.cluster_name.clone(),
        }));
    }

    /// A connection that was wanted is ready, or cannot be had. Returns the link that it has become,
    /// unless it is not needed any more.
    pub fn on_link_opened(
        &mut self,
        now: Instant,
        opening: &Opening,
        result: Result<OpenedLink, OpenError>,
    ) -> Option<LinkKey> {
        self.set_now(now);
        let (pool, node) = (opening.pool, opening.node);
        let link = self.take_opened(pool, node, opening.kind.clone(), &opening.identity, result);
        self.settle();
        link
    }

    fn take_opened(
        &mut self,
        pool_key: PoolKey,
        node: NodeIndex,
        kind: LinkKind,
        identity: &Arc<Identity>,
        result: Result<OpenedLink, OpenError>,
    ) -> Option<LinkKey> {
        let judged = result.as_ref().map(|_| ());
        self.note_judgement(pool_key, node, &kind, identity, judged);
        self.pools.get(pool_key)?;
        let mut opened = None;
        let address = self.cx.snapshot.nodes[node.as_usize()].address;
        match result {
            Ok(_) if kind == LinkKind::Check => {}
            Ok(_) if identity.has_ended() => {
                self.set_slot(pool_key, node, &kind, Slot::Empty);
                for request in self.take_waiting(pool_key, node, &kind) {
                    self.fail_unavailable(request);
                }
            }
            Ok(link) => {
                if self.nodes[node.as_usize()].failures > 0 {
                    tracing::info!(node = %address, "connected again");
                }
                self.nodes[node.as_usize()].failures = 0;
                self.nodes[node.as_usize()].suspect_until = None;
                add(&self.nodes[node.as_usize()].stats.counters.links_opened, 1);
                let link = self.insert_link(pool_key, node, kind.clone(), link);
                opened = Some(link);
                self.set_slot(pool_key, node, &kind, Slot::Up(link));
                let waiting = self.take_waiting(pool_key, node, &kind);
                for request in waiting {
                    match kind {
                        LinkKind::Shared(_) => self.resume(pool_key, request),
                        _ => self.route(request),
                    }
                }
            }
            Err(e) => {
                add(&self.nodes[node.as_usize()].stats.counters.links_failed, 1);
                self.set_slot(pool_key, node, &kind, Slot::Empty);
                if !e.is_of_credentials() && matches!(kind, LinkKind::Shared(_)) {
                    self.back_off(node, &e.to_string());
                }
                // What waits for any link may still get another one.
                let others = matches!(kind, LinkKind::Shared(_))
                    && self.pools.get(pool_key).is_some_and(Pool::is_connecting);
                let waiting = match others {
                    true => Vec::new(),
                    false => self.take_waiting(pool_key, node, &kind),
                };
                if let Some(pool) = self.pools.get_mut(pool_key) {
                    let special = &mut pool.special;
                    special.retain(|s| s.kind != kind || s.node != node);
                }
                for request in waiting {
                    match (&kind, &e) {
                        // The keyspace does not exist, most likely.
                        (LinkKind::Keyspace(_), OpenError::Node { code, message }) => {
                            self.fail_untried(request, *code, message, &[]);
                        }
                        (LinkKind::Shared(_), _) => self.resume(pool_key, request),
                        // Another node may be luckier.
                        _ => {
                            if let Some(request) = self.requests.nodes.get_mut(request) {
                                request.target = Target::ANY;
                                // Or none of them will ever be.
                                request.attempts += 1;
                            }
                            self.route(request);
                        }
                    }
                }
            }
        }
        opened
    }

    /// Goes on with a message that has waited for a link, now that one is up or has failed. It waits on
    /// for those that are still being opened if none that is up may serve it.
    fn resume(&mut self, pool: PoolKey, key: NodeRequestKey) {
        let patience = Duration::from_millis(self.cx.shared.config.links.connect_timeout_ms);
        let now = self.cx.now;
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return;
        };
        request.target = Target::ANY;
        let patient = now.saturating_duration_since(request.progress) < patience;
        let plan = self.plan(key);
        if plan.is_none_or(|plan| plan.is_empty()) && patient && self.wait_for_link(pool, key) {
            return;
        }
        if let Some(request) = self.requests.nodes.get_mut(key) {
            // It does not wait once more.
            request.attempts = 1;
        }
        self.route(key);
    }

    /// Notes a failure to connect; the next try comes after a pause.
    pub(crate) fn back_off(&mut self, node: NodeIndex, why: &str) {
        let address = self.cx.snapshot.nodes[node.as_usize()].address;
        let failures = self.nodes[node.as_usize()].failures;
        if failures == 0 {
            tracing::warn!(node = %address, "cannot connect: {why}");
        }
        let retry_at = self.cx.now + self.pause_after(failures);
        let state = &mut self.nodes[node.as_usize()];
        state.failures = failures.saturating_add(1);
        state.retry_at = retry_at;
    }

    /// The pause after so many failures before: it doubles, with jitter.
    pub(crate) fn pause_after(&mut self, failures: u32) -> Duration {
        let links = &self.cx.shared.config.links;
        let (min, max) = (links.backoff_min_ms.max(1), links.backoff_max_ms.max(1));
        let jitter = self.cx.random() % 1024;
        let pause = min.saturating_mul(1 << failures.min(20)).min(max);
        Duration::from_millis(pause / 2 + pause.saturating_mul(jitter) / 2048)
    }

    /// Empties the place of a link that is gone, unless another has it by now.
    pub(crate) fn empty_slot(&mut self, link: LinkKey, was: &Link) {
        let Some(pool) = self.pools.get_mut(was.pool) else {
            return;
        };
        let shared = pool
            .nodes
            .get_mut(was.node.as_usize())
            .into_iter()
            .flatten();
        for slot in shared.filter(|slot| **slot == Slot::Up(link)) {
            *slot = Slot::Empty;
        }
        pool.special.retain_mut(|special| {
            if special.slot == Slot::Up(link) {
                special.slot = Slot::Empty;
                return !special.waiting.is_empty();
            }
            true
        });
    }

    fn set_slot(&mut self, pool: PoolKey, node: NodeIndex, kind: &LinkKind, to: Slot) {
        let Some(pool) = self.pools.get_mut(pool) else {
            return;
        };
        match kind {
            LinkKind::Shared(place) => {
                if let Some(slot) = pool
                    .nodes
                    .get_mut(node.as_usize())
                    .and_then(|slots| slots.get_mut(*place))
                {
                    *slot = to;
                }
            }
            kind => {
                if let Some(special) = pool
                    .special
                    .iter_mut()
                    .find(|s| s.kind == *kind && s.node == node)
                {
                    special.slot = to;
                }
            }
        }
    }

    fn take_waiting(
        &mut self,
        pool: PoolKey,
        node: NodeIndex,
        kind: &LinkKind,
    ) -> Vec<NodeRequestKey> {
        let Some(pool) = self.pools.get_mut(pool) else {
            return Vec::new();
        };
        match kind {
            LinkKind::Shared(_) => std::mem::take(&mut pool.waiting),
            kind => pool
                .special
                .iter_mut()
                .find(|s| s.kind == *kind && s.node == node)
                .map(|s| std::mem::take(&mut s.waiting))
                .unwrap_or_default(),
        }
    }
}

/// See [`Engine::special_link`].
pub(crate) enum SpecialLink {
    Up(LinkKey),
    /// The request waits until it is open.
    Waits,
    /// There are `limits.special_links_max` of them, all in use.
    TooMany,
    /// Too many requests wait for it to open.
    TooManyWait,
}
