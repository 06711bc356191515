//! Credentials in use are checked again: by opening a connection to a node with them, and closing it.
//!
//! A refusal ends every session that they opened. Refused on the opening of a link, they are checked
//! at once on a node that has accepted them: one node alone may have stale credentials, or belong to
//! another cluster by now. A check that could not be made ends no session: a node that
//! cannot read `system_auth` answers with the code of a wrong password, and it would be a poor proxy
//! that turned a slow node into the end of all its clients. It is made again, on another node, after a
//! pause that doubles; only after `links.unchecked_credentials_max_ms` without any does it count as
//! a refusal.

use std::time::Duration;

use helenus_policy::ring::NodeIndex;

use crate::context::Context;
use crate::keys::PoolKey;
use crate::session::login::identity::Standing;
use crate::upstream::connect::connection::Opening;
use crate::upstream::connect::kind::{LinkKind, OpenError};
use crate::upstream::health::reach::pause_after;
use crate::upstream::links::Links;
use crate::upstream::pool::slot::Slot;
use crate::upstream::pool::{Pause, Pool};

/// How often credentials are checked.
pub(crate) fn check_every(cx: &Context) -> Duration {
    Duration::from_millis(cx.shared.config.links.check_credentials_ms)
}

/// The next step for a role's credentials.
enum Check {
    Nothing,
    /// Everything that was opened with them is to be closed.
    Close,
    /// A node is to be asked; how many have been asked before.
    Ask(u32),
}

impl Pool {
    fn check(&self, cx: &Context) -> Check {
        let max = cx.shared.config.links.unchecked_credentials_max_ms;
        let max = Duration::from_millis(max);
        let connect_timeout = cx.shared.config.links.connect_timeout_ms;
        let patience = Duration::from_millis(connect_timeout) * 4;
        // Without a link there is nothing that the credentials give, and opening one checks them.
        let linked = self.linked_nodes().next().is_some();
        let used = self.sessions > 0 && linked;
        // Its clients have to begin anew, as they would with the nodes, which were restarted.
        if self.sessions > 0 && !linked && self.is_outdated(&cx.snapshot) {
            return Check::Close;
        }
        if !used && !self.identity.has_ended() {
            return Check::Nothing;
        }
        match self.identity.standing(cx.now, patience, max) {
            Standing::Good => Check::Nothing,
            Standing::Due(number) => Check::Ask(number),
            Standing::Ended => Check::Close,
            Standing::Lapsed => {
                tracing::warn!(
                    "no node could check the credentials of {} for {max:?} \
                     (links.unchecked_credentials_max_ms): disconnecting its clients",
                    self.identity.shown()
                );
                Check::Close
            }
        }
    }

    /// The node can be reached, but not by this role for a while. Returns whether it could be before.
    fn note_unjudged(&mut self, cx: &mut Context, node: NodeIndex) -> bool {
        let failures = self.unjudged.get(&node).map_or(0, |pause| pause.failures);
        let pause = Pause {
            failures: failures.saturating_add(1),
            tried: cx.now,
            until: cx.now + pause_after(cx, failures),
        };
        self.unjudged.insert(node, pause);
        failures == 0
    }
}

impl Links {
    /// Has credentials checked again that are in use. Returns the roles whose clients and links are to
    /// go, because their credentials no longer stand.
    pub(crate) fn check_credentials(&mut self, cx: &mut Context) -> Vec<PoolKey> {
        let (mut due, mut ended) = (Vec::new(), Vec::new());
        for (key, pool) in &self.pools {
            match pool.check(cx) {
                Check::Nothing => {}
                Check::Close => ended.push(key),
                Check::Ask(number) => due.push((key, number)),
            }
        }
        for (key, number) in due {
            if let Some(node) = self.node_to_ask(cx, key, number) {
                self.ask_for(cx, key, node, LinkKind::Check);
            }
        }
        ended
    }

    /// Another one for each check, as a node that can be reached may still not be able to judge.
    fn node_to_ask(&self, cx: &Context, key: PoolKey, check: u32) -> Option<NodeIndex> {
        let pool = self.pools.get(key)?;
        let linked: Vec<NodeIndex> = pool.linked_nodes().collect();
        let sound = |node: &&NodeIndex| {
            let unjudged = pool.unjudged.get(node);
            unjudged.is_none_or(|pause| pause.until <= cx.now) && self.is_sound(**node, cx.now)
        };
        let sound: Vec<NodeIndex> = linked.iter().filter(sound).copied().collect();
        let among = if sound.is_empty() { &linked } else { &sound };
        among.get(check as usize % among.len().max(1)).copied()
    }

    /// Notes the judgement of a role's credentials by the opening of a link, or of a connection for that purpose
    /// alone. Returns whether all that are in use are to be looked at again.
    pub(crate) fn note_judgement(
        &mut self,
        cx: &mut Context,
        opening: &Opening,
        failed: Option<&OpenError>,
    ) -> bool {
        let Opening {
            pool,
            node,
            kind,
            identity,
            ..
        } = opening;
        let address = cx.snapshot.nodes().address_of(*node);
        match failed {
            None => {
                identity.accept(cx.now, check_every(cx));
                if let Some(pool) = self.pools.get_mut(*pool) {
                    pool.unjudged.remove(node);
                }
            }
            Some(e @ OpenError::BadCredentials(_))
                if *kind != LinkKind::Check && self.others_may_judge(cx, *pool, *node) =>
            {
                self.note_unjudged(cx, opening, e);
                identity.doubt(cx.now);
                return true;
            }
            Some(e @ OpenError::BadCredentials(_)) => {
                tracing::info!(node = %address, "the credentials of {} are no longer accepted: {e}", identity.shown());
                identity.end();
                return true;
            }
            Some(e) if *kind == LinkKind::Check => {
                let failures = identity.failures();
                if failures == 0 {
                    tracing::warn!(node = %address, "the credentials of {} could not be checked, which is tried again: {e}", identity.shown());
                }
                let pause = pause_after(cx, failures).min(check_every(cx));
                identity.put_off(cx.now, pause);
            }
            Some(e) if e.is_of_credentials() => self.note_unjudged(cx, opening, e),
            Some(_) => {}
        }
        false
    }

    fn note_unjudged(&mut self, cx: &mut Context, opening: &Opening, why: &OpenError) {
        let Some(pool) = self.pools.get_mut(opening.pool) else {
            return;
        };
        let (node, role) = (opening.node, pool.identity.shown());
        if pool.note_unjudged(cx, node)
            && let Some(roles) = self.stats(node).unjudged_roles.note(cx.now)
        {
            let address = cx.snapshot.nodes().address_of(node);
            tracing::warn!(node = %address, roles, "no connection to this node for some roles, {role} among them: {why}");
        }
    }

    /// True if a link that is up, or on its way or postponed to another node that is not known to fail, may yet tell
    /// what credentials are worth that this node refuses.
    fn others_may_judge(&self, cx: &Context, pool: PoolKey, node: NodeIndex) -> bool {
        // Of a pool that is gone nobody here is served; other workers may have one.
        let Some(pool) = self.pools.get(pool) else {
            return true;
        };
        let on_its_way = |(at, slots): (usize, &Vec<Slot>)| {
            let Some(health) = self.health.get(at).filter(|health| health.failures() == 0) else {
                return false;
            };
            let is_postponed =
                pool.is_postponed && pool.may_connect(cx, NodeIndex(at as u16), health);
            at != node.as_usize() && (is_postponed || slots.iter().any(|slot| slot.is_opening()))
        };
        pool.linked_nodes().next().is_some() || pool.nodes.iter().enumerate().any(on_its_way)
    }
}
