//! A connection to a node that is being set up, and what for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;

use crate::client::identity::Identity;
use crate::keys::{PoolKey, SessionKey};
use crate::node::greeting::Greeting;
use crate::node::kind::{LinkKind, OpenError};

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
    /// When it asked for a link's token.
    pub(super) asked: Option<Instant>,
}

impl Connecting {
    /// What a node has not done by the deadline of its connection. It has had its time for the token if it asked
    /// for it no later than `asks_within` after the connection was wanted.
    pub(super) fn overdue(&self, asks_within: Duration) -> OpenError {
        let asked = self.asked.filter(|_| self.greeting.is_judging_link());
        let Some(left) = asked.map(|asked| self.deadline.saturating_duration_since(asked)) else {
            return OpenError::Timeout(self.limit);
        };
        match self.limit.saturating_sub(left) {
            // Others' credentials may be known to it, and need no long check.
            after if after <= asks_within => OpenError::JudgesSlowly(left),
            after => OpenError::AsksLate(after),
        }
    }

    /// For how long it has been on its way, or its node has judged.
    pub(super) fn age(&self, now: Instant) -> Duration {
        self.limit
            .saturating_sub(self.deadline.saturating_duration_since(now))
    }
}
