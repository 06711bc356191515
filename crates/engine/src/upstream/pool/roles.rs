//! The pools of roles: made for the first client of a role, counted by its clients.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::context::Context;
use crate::keys::{NodeRequestKey, PoolKey};
use crate::session::login::identity::Identity;
use crate::upstream::links::Links;
use crate::upstream::pool::{Denied, Pool, WAITING_MAX};

/// How long a role is not tried on a table that it may not read.
const DENIED_FOR: Duration = Duration::from_secs(60);

impl Links {
    /// The pool of an identity, made on first use.
    pub(crate) fn pool_of(&mut self, cx: &mut Context, identity: &Arc<Identity>) -> PoolKey {
        let is_its = |pool: &Pool| Arc::ptr_eq(&pool.identity, identity);
        if let Some((key, _)) = self.pools.iter().find(|(_, pool)| is_its(pool)) {
            return key;
        }
        let key = self.pools.insert(Pool::new(identity.clone(), cx.now));
        self.maintain(cx);
        key
    }

    /// The pool for clusters without authentication.
    pub(crate) fn anonymous_pool(&mut self, cx: &mut Context) -> PoolKey {
        let anonymous = cx.shared.identities.anonymous();
        self.pool_of(cx, &anonymous)
    }

    /// Who the clients of a role are.
    pub(crate) fn identity_of(&self, pool: PoolKey) -> Option<&Identity> {
        self.pools.get(pool).map(|pool| &*pool.identity)
    }

    /// A number of a role that all workers know it by.
    pub(crate) fn role_number(&self, pool: PoolKey) -> u32 {
        let pool = self.pools.get(pool);
        pool.map_or(0, |pool| pool.identity.number())
    }

    /// Counts a client of a role.
    pub(crate) fn enter_pool(&mut self, pool: PoolKey) {
        if let Some(pool) = self.pools.get_mut(pool) {
            pool.sessions += 1;
        }
    }

    /// A client of a role has left.
    pub(crate) fn leave_pool(&mut self, pool: PoolKey, now: Instant) {
        if let Some(pool) = self.pools.get_mut(pool) {
            pool.sessions = pool.sessions.saturating_sub(1);
            pool.idle_since = now;
        }
    }

    /// Lets a request wait for a link that is being opened, or will be soon; false if none is.
    pub(crate) fn wait_for_link(&mut self, pool: PoolKey, request: NodeRequestKey) -> bool {
        let Some(pool) = self.pools.get_mut(pool) else {
            return false;
        };
        let may_wait = pool.awaits_link() && pool.waiting.len() < WAITING_MAX;
        if may_wait {
            pool.waiting.push(request);
        }
        may_wait
    }

    /// Forgets the requests that have ended while they waited for a link.
    pub(crate) fn forget_waiting(&mut self, has_ended: impl Fn(NodeRequestKey) -> bool) {
        for pool in self.pools.values_mut() {
            let special = pool.special.iter_mut().map(|special| &mut special.waiting);
            for waiting in special.chain([&mut pool.waiting]) {
                waiting.retain(|key| !has_ended(*key));
            }
        }
    }

    /// True if links of a role wait for those of others.
    pub(crate) fn is_postponed(&self, pool: PoolKey) -> bool {
        self.pools.get(pool).is_some_and(|pool| pool.is_postponed)
    }

    /// The requests that wait for links of roles for which none is on its way any more.
    pub(crate) fn take_stranded(&mut self) -> Vec<(PoolKey, Vec<NodeRequestKey>)> {
        let pools = self.pools.iter_mut();
        let stranded = pools.filter(|(_, pool)| !pool.waiting.is_empty() && !pool.awaits_link());
        stranded
            .map(|(key, pool)| (key, std::mem::take(&mut pool.waiting)))
            .collect()
    }

    /// A role may not read a table, given as keyspace and name.
    pub(crate) fn note_denied(&mut self, pool: PoolKey, table: (&str, &str), now: Instant) {
        let Some(pool) = self.pools.get_mut(pool) else {
            return;
        };
        let denied = &mut pool.denied;
        denied.retain(|of| of.until > now && (&*of.keyspace, &*of.table) != table);
        denied.push(Denied {
            keyspace: table.0.into(),
            table: table.1.into(),
            until: now + DENIED_FOR,
        });
    }

    #[inline]
    pub(crate) fn is_denied(&self, pool: PoolKey, table: (&str, &str), now: Instant) -> bool {
        let pool = self.pools.get(pool);
        pool.is_some_and(|pool| {
            let mut denied = pool.denied.iter();
            denied.any(|of| of.until > now && (&*of.keyspace, &*of.table) == table)
        })
    }
}
