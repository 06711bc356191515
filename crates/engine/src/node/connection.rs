//! A connection to a node that is being set up, and what for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;

use crate::client::identity::Identity;
use crate::keys::{PoolKey, SessionKey};
use crate::node::greeting::Greeting;
use crate::node::kind::LinkKind;

/// A link that is wanted.
pub(crate) struct Opening {
    pub(super) pool: PoolKey,
    pub(super) node: NodeIndex,
    pub(super) kind: LinkKind,
    /// As whom it logs in.
    pub(super) identity: Arc<Identity>,
}

/// What a connection is set up for.
pub(crate) enum Purpose {
    Link(Opening),
    /// To have the login of this client judged.
    Login(SessionKey),
}

/// A connection that is being set up.
pub(super) struct Connecting {
    pub(super) purpose: Purpose,
    pub(super) greeting: Greeting,
    /// Whoever moves the bytes is still making the connection.
    pub(super) is_dialing: bool,
    pub(super) write_blocked: bool,
    /// How long the node has, and until when that is.
    pub(super) limit: Duration,
    pub(super) deadline: Instant,
}

impl Connecting {
    /// For how long it has been on its way, or its node has judged.
    pub(super) fn age(&self, now: Instant) -> Duration {
        self.limit
            .saturating_sub(self.deadline.saturating_duration_since(now))
    }
}
