//! The links of one role: a few connections a node, opened when needed, never lent to another role.

use std::rc::Rc;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;
use helenus_wire::{Opcode, Version, write};

use crate::conn::{Conn, ConnError, Dialer};
use crate::link::LinkKind;
use crate::stats::add;
use crate::worker::{Key, State};

/// Who queries run as. Two clients share links only if they gave the same proof of who they are.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity {
    /// The first SASL response (for PLAIN: role and password); `None` without authentication.
    pub token: Option<Box<[u8]>>,
}

/// Connections of one role.
pub struct Pool {
    pub identity: Rc<Identity>,
    /// By node; links shared by all requests.
    pub nodes: Vec<Vec<Slot>>,
    /// Links that carry a connection state of their own (a keyspace, or USE itself).
    pub special: Vec<Special>,
    /// Clients of this role.
    pub sessions: usize,
    pub idle_since: Instant,
    /// Requests that came before the first link was up.
    pub waiting: Vec<Key>,
    /// When a node last accepted the credentials.
    pub checked: Instant,
}

/// A place for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Empty,
    Connecting,
    Up(u32),
}

/// A link outside the shared ones.
pub struct Special {
    pub node: NodeIndex,
    pub kind: LinkKind,
    pub slot: Slot,
    pub waiting: Vec<Key>,
}

const SPECIALS_MAX: usize = 256;
const WAITING_MAX: usize = 16_384;
/// Requests make unreachable nodes be tried at most this often.
const DEMAND_PAUSE: Duration = Duration::from_millis(250);
const IDLE_POOL: Duration = Duration::from_secs(60);

impl Pool {
    /// The shared links of a node that are up.
    pub fn links(&self, node: NodeIndex) -> impl Iterator<Item = u32> + '_ {
        self.nodes
            .get(node.as_usize())
            .into_iter()
            .flatten()
            .filter_map(|slot| match slot {
                Slot::Up(link) => Some(*link),
                _ => None,
            })
    }

    pub fn has_link(&self, node: NodeIndex) -> bool {
        self.links(node).next().is_some()
    }

    fn is_connecting(&self) -> bool {
        self.nodes
            .iter()
            .flatten()
            .any(|slot| *slot == Slot::Connecting)
    }
}

impl State {
    /// The pool for clusters without authentication.
    pub fn anonymous_pool(&mut self) -> usize {
        self.pool_of(None)
    }

    /// The pool of an identity, made on first use.
    pub fn pool_of(&mut self, token: Option<&[u8]>) -> usize {
        let found = self
            .pools
            .iter()
            .find(|(_, p)| p.identity.token.as_deref() == token);
        if let Some((index, _)) = found {
            return index;
        }
        let index = self.pools.insert(Pool {
            identity: Rc::new(Identity {
                token: token.map(Into::into),
            }),
            nodes: Vec::new(),
            special: Vec::new(),
            sessions: 0,
            idle_since: self.now,
            waiting: Vec::new(),
            checked: self.now,
        });
        self.maintain_pools();
        index
    }

    /// Opens what is missing, closes what nobody needs.
    pub fn maintain_pools(&mut self) {
        let per_worker = self
            .shared
            .config
            .links
            .per_node
            .div_ceil(self.workers.max(1))
            .max(1);
        let check_every = Duration::from_millis(self.shared.config.links.check_credentials_ms);
        let mut wanted = Vec::new();
        let mut unused = Vec::new();
        for (index, pool) in self.pools.iter_mut() {
            let anonymous = pool.identity.token.is_none();
            if pool.sessions == 0
                && !anonymous
                && self.now.saturating_duration_since(pool.idle_since) > IDLE_POOL
            {
                unused.push(index);
                continue;
            }
            let due = self.now.saturating_duration_since(pool.checked) > check_every;
            if due && !anonymous && pool.sessions > 0 {
                pool.checked = self.now;
                let up = pool
                    .nodes
                    .iter()
                    .position(|slots| slots.iter().any(|slot| matches!(slot, Slot::Up(_))));
                if let Some(node) = up {
                    wanted.push((index, NodeIndex(node as u16), LinkKind::Check));
                }
            }
            pool.nodes
                .resize_with(self.snapshot.nodes.len(), || vec![Slot::Empty; per_worker]);
            for (node, slots) in pool.nodes.iter_mut().enumerate() {
                if self.snapshot.nodes[node].gone || self.nodes[node].retry_at > self.now {
                    continue;
                }
                let remote = self.snapshot.nodes[node].dc != self.snapshot.local_dc;
                if remote && !self.shared.config.cluster.allow_remote_dc {
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
                        self.nodes[node].tried = self.now;
                        wanted.push((index, NodeIndex(node as u16), LinkKind::Shared(place)));
                    }
                }
            }
        }
        for (pool, node, kind) in wanted {
            self.open_link(pool, node, kind);
        }
        for index in unused {
            self.close_pool(index);
        }
    }

    fn kill_links_of_pool(&mut self, index: usize) {
        for link in self.links_of_pool(index) {
            self.kill_link(link as usize);
        }
    }

    fn links_of_pool(&self, index: usize) -> Vec<u32> {
        let Some(pool) = self.pools.get(index) else {
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

    fn close_pool(&mut self, index: usize) {
        // What is being opened finds the pool gone otherwise, and its slot with it.
        if self.pools.get(index).is_none_or(Pool::is_connecting) {
            return;
        }
        self.kill_links_of_pool(index);
        self.pools.remove(index);
    }

    /// Cuts the pause before unreachable nodes are tried again: somebody needs one now.
    pub fn try_nodes_again(&mut self) {
        for node in &mut self.nodes {
            let pause = self.now.saturating_duration_since(node.tried);
            if node.failures > 0 && pause > DEMAND_PAUSE {
                node.retry_at = self.now;
            }
        }
        self.maintain_pools();
    }

    /// Lets a request wait for a link that is being opened; false if none is.
    pub fn wait_for_link(&mut self, pool: usize, request: Key) -> bool {
        let Some(pool) = self.pools.get_mut(pool) else {
            return false;
        };
        if !pool.is_connecting() || pool.waiting.len() >= WAITING_MAX {
            return false;
        }
        pool.waiting.push(request);
        true
    }

    /// The special link for a kind, opened on first use: the link, or that the request now waits, or
    /// that there are too many.
    pub fn special_link(
        &mut self,
        pool_index: usize,
        node: NodeIndex,
        kind: &LinkKind,
        request: Key,
    ) -> SpecialLink {
        let Some(pool) = self.pools.get_mut(pool_index) else {
            return SpecialLink::Refused;
        };
        let full = pool.special.len() >= SPECIALS_MAX;
        let found = pool
            .special
            .iter_mut()
            .find(|s| s.kind == *kind && (s.node == node || matches!(kind, LinkKind::Use)));
        match found {
            Some(Special {
                slot: Slot::Up(link),
                ..
            }) => SpecialLink::Up(*link),
            Some(special) if special.waiting.len() < WAITING_MAX => {
                special.waiting.push(request);
                if special.slot == Slot::Empty {
                    special.slot = Slot::Connecting;
                    special.node = node;
                    self.open_link(pool_index, node, kind.clone());
                }
                SpecialLink::Waits
            }
            Some(_) => SpecialLink::Refused,
            None if full => SpecialLink::Refused,
            None => {
                pool.special.push(Special {
                    node,
                    kind: kind.clone(),
                    slot: Slot::Connecting,
                    waiting: vec![request],
                });
                self.open_link(pool_index, node, kind.clone());
                SpecialLink::Waits
            }
        }
    }

    /// The link for what is large; `None` while there is none, but then one is on its way.
    pub fn bulk_link(&mut self, pool_index: usize, node: NodeIndex) -> Option<u32> {
        let special = &mut self.pools.get_mut(pool_index)?.special;
        let found = special
            .iter()
            .position(|s| s.kind == LinkKind::Bulk && s.node == node);
        match found {
            Some(at) => match special[at].slot {
                Slot::Up(link) => return Some(link),
                Slot::Connecting => return None,
                Slot::Empty => special[at].slot = Slot::Connecting,
            },
            None if special.len() >= SPECIALS_MAX => return None,
            None => special.push(Special {
                node,
                kind: LinkKind::Bulk,
                slot: Slot::Connecting,
                waiting: Vec::new(),
            }),
        }
        self.open_link(pool_index, node, LinkKind::Bulk);
        None
    }

    /// Starts to open a link; its slot is already marked as connecting.
    fn open_link(&mut self, pool: usize, node: NodeIndex, kind: LinkKind) {
        let Some(me) = self.me.upgrade() else { return };
        let dialer = (**self.shared.dialer.load()).clone();
        let identity = self.pools[pool].identity.clone();
        let address = self.snapshot.nodes[node.as_usize()].address;
        let version = self.snapshot.version;
        let limit = dialer.connect_timeout * 3;
        tokio::task::spawn_local(async move {
            let opening = open(&dialer, address, version, identity.token.as_deref(), &kind);
            let result = match tokio::time::timeout(limit, opening).await {
                Ok(result) => result,
                Err(_) => Err(ConnError::Timeout(limit)),
            };
            me.borrow_mut()
                .on_link_opened(pool, node, kind, &identity, result);
        });
    }

    fn on_link_opened(
        &mut self,
        pool_index: usize,
        node: NodeIndex,
        kind: LinkKind,
        identity: &Rc<Identity>,
        result: Result<Conn, ConnError>,
    ) {
        self.now = Instant::now();
        // The pool may have been replaced meanwhile.
        if self
            .pools
            .get(pool_index)
            .is_none_or(|p| !Rc::ptr_eq(&p.identity, identity))
        {
            return;
        }
        let address = self.snapshot.nodes[node.as_usize()].address;
        match result {
            Ok(_) if kind == LinkKind::Check => {}
            Ok(conn) => {
                if self.nodes[node.as_usize()].failures > 0 {
                    tracing::info!(node = %address, "connected again");
                }
                self.nodes[node.as_usize()].failures = 0;
                self.nodes[node.as_usize()].suspect_until = None;
                add(&self.nodes[node.as_usize()].stats.counters.links_opened, 1);
                let link = self.insert_link(pool_index, node, kind.clone(), conn);
                self.set_slot(pool_index, node, &kind, Slot::Up(link));
                let waiting = self.take_waiting(pool_index, node, &kind);
                for request in waiting {
                    self.route(request);
                }
            }
            Err(e) => {
                add(&self.nodes[node.as_usize()].stats.counters.links_failed, 1);
                self.set_slot(pool_index, node, &kind, Slot::Empty);
                let bad_credentials = matches!(e, ConnError::Node { code: 0x0100, .. });
                if bad_credentials {
                    tracing::info!(node = %address, "a role's credentials are no longer accepted: {e}");
                    self.close_sessions_of_pool(pool_index);
                    self.kill_links_of_pool(pool_index);
                } else if matches!(kind, LinkKind::Shared(_)) {
                    self.back_off(node, &e.to_string());
                }
                let waiting = self.take_waiting(pool_index, node, &kind);
                for request in waiting {
                    match (&kind, &e) {
                        (LinkKind::Keyspace(_), ConnError::Node { code, message }) => {
                            self.fail(request, *code, message, &[]);
                        }
                        (LinkKind::Shared(_), _) => self.route(request),
                        _ => self.fail_unavailable(request),
                    }
                }
            }
        }
    }

    /// Notes a failure to connect; the next try comes after a pause that doubles, with jitter.
    pub fn back_off(&mut self, node: NodeIndex, why: &str) {
        let (min, max) = {
            let links = &self.shared.config.links;
            (links.backoff_min_ms.max(1), links.backoff_max_ms.max(1))
        };
        let jitter = self.random() % 1024;
        let address = self.snapshot.nodes[node.as_usize()].address;
        let now = self.now;
        let state = &mut self.nodes[node.as_usize()];
        let pause = min.saturating_mul(1 << state.failures.min(20)).min(max);
        let pause = pause / 2 + pause * jitter / 2048;
        if state.failures == 0 {
            tracing::warn!(node = %address, "cannot connect: {why}");
        }
        state.failures = state.failures.saturating_add(1);
        state.retry_at = now + Duration::from_millis(pause);
    }

    fn close_sessions_of_pool(&mut self, pool: usize) {
        for (_, session) in self.sessions.iter_mut() {
            if session.pool == Some(pool) {
                session.closing = true;
                if let Some(waker) = &session.waker {
                    waker.wake_by_ref();
                }
            }
        }
    }

    pub fn set_slot(&mut self, pool: usize, node: NodeIndex, kind: &LinkKind, to: Slot) {
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

    fn take_waiting(&mut self, pool: usize, node: NodeIndex, kind: &LinkKind) -> Vec<Key> {
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

/// See [`State::special_link`].
pub enum SpecialLink {
    Up(u32),
    Waits,
    Refused,
}

async fn open(
    dialer: &Dialer,
    address: std::net::SocketAddr,
    version: Version,
    token: Option<&[u8]>,
    kind: &LinkKind,
) -> Result<Conn, ConnError> {
    let mut conn = dialer.dial(address, version).await?;
    conn.open(&link_options(), token).await?;
    if let LinkKind::Keyspace(keyspace) = kind {
        let quoted = format!("USE \"{}\"", keyspace.replace('"', "\"\""));
        let mut body = Vec::new();
        write::long_string(&mut body, &quoted);
        write::u16(&mut body, 1);
        match version {
            Version::V5 => write::u32(&mut body, 0),
            _ => body.push(0),
        }
        conn.call(Opcode::Query, &body).await?;
    }
    Ok(conn)
}

/// STARTUP options of links. THROW_ON_OVERLOAD: an error for one request instead of silence for all.
pub fn link_options() -> [(&'static str, &'static str); 4] {
    [
        ("CQL_VERSION", "3.0.0"),
        ("DRIVER_NAME", "Helenus"),
        ("DRIVER_VERSION", env!("CARGO_PKG_VERSION")),
        ("THROW_ON_OVERLOAD", "1"),
    ]
}
