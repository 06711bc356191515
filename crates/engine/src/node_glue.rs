//! What other stations ask of links, handed on to them.

use std::sync::Arc;
use std::time::Duration;

use crate::client::identity::Identity;
use crate::engine::{Engine, LinkKey, NodeRequestKey, PoolKey};
use crate::node::checks::check_every;

impl Engine {
    /// The pool for clusters without authentication.
    pub(crate) fn anonymous_pool(&mut self) -> PoolKey {
        let anonymous = self.cx.shared.identities.anonymous();
        self.pool_of(&anonymous)
    }

    pub(crate) fn pool_of(&mut self, identity: &Arc<Identity>) -> PoolKey {
        self.links.pool_of(&mut self.cx, identity)
    }

    pub(crate) fn enter_pool(&mut self, pool: PoolKey) {
        self.links.enter_pool(pool);
    }

    pub(crate) fn maintain_pools(&mut self) {
        self.links.maintain(&mut self.cx);
    }

    pub(crate) fn try_nodes_again(&mut self) {
        self.links.try_again(&mut self.cx);
    }

    pub(crate) fn wait_for_link(&mut self, pool: PoolKey, request: NodeRequestKey) -> bool {
        self.links.wait_for_link(pool, request)
    }

    pub(crate) fn quarantine(&mut self, link: LinkKey) {
        self.links.quarantine(&mut self.cx, link);
    }

    pub(crate) fn check_credentials_every(&self) -> Duration {
        check_every(&self.cx)
    }

    /// Adapts the window, once a tick.
    pub(crate) fn adapt_window(&mut self) {
        let done = std::mem::take(&mut self.completed);
        self.completed.since = Some(self.cx.now);
        self.links.adapt_window(self.cx.now, &done);
    }

    /// Shows what only the engine itself knows, once a tick.
    pub(crate) fn publish_gauges(&mut self) {
        self.links.publish_gauges(&self.cx.shared.stats);
    }
}
