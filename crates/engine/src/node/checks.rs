//! Credentials in use are checked again: by opening a connection to a node with them, and closing it.
//!
//! A refusal ends every session that they opened. Refused on the opening of a link, they are checked
//! at once on a node that has accepted them: one node alone may have stale credentials, or belong to
//! another cluster by now. A check that could not be made ends no session: a node that
//! cannot read `system_auth` answers with the code of a wrong password, and it would be a poor proxy
//! that turned a slow node into the end of all its clients. It is made again, on another node, after a
//! pause that doubles; only after `links.unchecked_credentials_max_ms` without any does it count as
//! a refusal.

use std::sync::Arc;
use std::time::Duration;

use helenus_policy::ring::NodeIndex;

use crate::client::identity::{Identity, Standing};
use crate::engine::{Engine, PoolKey};
use crate::node::link::{LinkKind, OpenError};
use crate::node::pool::{Pause, Slot};

impl Engine {
    /// How often credentials are checked.
    pub(crate) fn check_credentials_every(&self) -> Duration {
        Duration::from_millis(self.cx.shared.config.links.check_credentials_ms)
    }

    /// Has credentials checked again that are in use, and closes what was opened with those that no
    /// longer stand.
    pub(crate) fn check_credentials(&mut self) {
        let max = self.cx.shared.config.links.unchecked_credentials_max_ms;
        let max = Duration::from_millis(max);
        let connect_timeout = self.cx.shared.config.links.connect_timeout_ms;
        let patience = Duration::from_millis(connect_timeout) * 4;
        let (mut due, mut ended) = (Vec::new(), Vec::new());
        for (key, pool) in &self.pools {
            // Without a link there is nothing that the credentials give, and opening one checks them.
            let linked = pool.linked_nodes().next().is_some();
            let used = pool.sessions > 0 && linked;
            // Its clients have to begin anew, as they would with the nodes, which were restarted.
            if pool.sessions > 0 && !linked && pool.is_outdated(&self.cx.snapshot) {
                ended.push(key);
                continue;
            }
            if !used && !pool.identity.has_ended() {
                continue;
            }
            match pool.identity.standing(self.cx.now, patience, max) {
                Standing::Good => {}
                Standing::Due(number) => due.push((key, number)),
                Standing::Lapsed => {
                    tracing::warn!(
                        "no node could check a role's credentials for {max:?} \
                         (links.unchecked_credentials_max_ms): disconnecting its clients"
                    );
                    ended.push(key);
                }
                Standing::Ended => ended.push(key),
            }
        }
        for key in ended {
            self.clients.finish_all_of(&mut self.cx, key);
            self.kill_links_of_pool(key);
        }
        for (key, number) in due {
            if let Some(node) = self.node_to_ask(key, number) {
                self.open_link(key, node, LinkKind::Check);
            }
        }
    }

    /// Another one for each check, as a node that can be reached may still not be able to judge.
    fn node_to_ask(&self, key: PoolKey, check: u32) -> Option<NodeIndex> {
        let pool = self.pools.get(key)?;
        let linked: Vec<NodeIndex> = pool.linked_nodes().collect();
        let sound = |node: &&NodeIndex| {
            let suspect = self.nodes[node.as_usize()].suspect_until;
            let unjudged = pool.unjudged.get(node).map(|pause| pause.until);
            suspect
                .max(unjudged)
                .is_none_or(|until| until <= self.cx.now)
        };
        let sound: Vec<NodeIndex> = linked.iter().filter(sound).copied().collect();
        let among = if sound.is_empty() { &linked } else { &sound };
        among.get(check as usize % among.len().max(1)).copied()
    }

    /// What the opening of a link, or of a connection for that purpose alone, has told of a role's
    /// credentials.
    pub(crate) fn note_judgement(
        &mut self,
        pool: PoolKey,
        node: NodeIndex,
        kind: &LinkKind,
        identity: &Arc<Identity>,
        result: Result<(), &OpenError>,
    ) {
        let address = self.cx.snapshot.nodes[node.as_usize()].address;
        match result {
            Ok(_) => {
                identity.accept(self.cx.now, self.check_credentials_every());
                if let Some(pool) = self.pools.get_mut(pool) {
                    pool.unjudged.remove(&node);
                }
            }
            Err(e @ OpenError::BadCredentials(_))
                if *kind != LinkKind::Check && self.others_may_judge(pool, node) =>
            {
                self.on_unjudged(pool, node, e);
                identity.doubt(self.cx.now);
                self.check_credentials();
            }
            Err(e @ OpenError::BadCredentials(_)) => {
                tracing::info!(node = %address, "a role's credentials are no longer accepted: {e}");
                identity.end();
                self.check_credentials();
            }
            Err(e) if *kind == LinkKind::Check => {
                let failures = identity.failures();
                if failures == 0 {
                    tracing::warn!(node = %address, "a role's credentials could not be checked, which is tried again: {e}");
                }
                let pause = self
                    .pause_after(failures)
                    .min(self.check_credentials_every());
                identity.put_off(self.cx.now, pause);
            }
            Err(e) if e.is_of_credentials() => self.on_unjudged(pool, node, e),
            Err(_) => {}
        }
    }

    /// Whether a link that is up, or on its way to another node that is not known to fail, may yet tell
    /// what credentials are worth that this node refuses.
    fn others_may_judge(&self, pool: PoolKey, node: NodeIndex) -> bool {
        // Of a pool that is gone nobody here is served; other workers may have one.
        let Some(pool) = self.pools.get(pool) else {
            return true;
        };
        let on_its_way = |(at, slots): (usize, &Vec<Slot>)| {
            let fails = self.nodes.get(at).is_none_or(|state| state.failures > 0);
            at != node.as_usize() && !fails && slots.contains(&Slot::Connecting)
        };
        pool.linked_nodes().next().is_some() || pool.nodes.iter().enumerate().any(on_its_way)
    }

    /// The node can be reached, but not by this role for a while.
    fn on_unjudged(&mut self, pool: PoolKey, node: NodeIndex, why: &OpenError) {
        let address = self.cx.snapshot.nodes[node.as_usize()].address;
        let known = self.pools.get(pool).and_then(|p| p.unjudged.get(&node));
        let failures = known.map_or(0, |pause| pause.failures);
        if failures == 0 {
            tracing::warn!(node = %address, "no link for a role: {why}");
        }
        let until = self.cx.now + self.pause_after(failures);
        let pause = Pause {
            failures: failures.saturating_add(1),
            tried: self.cx.now,
            until,
        };
        if let Some(pool) = self.pools.get_mut(pool) {
            pool.unjudged.insert(node, pause);
        }
    }
}
