//! A connection to a node that is being set up, and what for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;

use crate::keys::{PoolKey, SessionKey};
use crate::session::login::identity::Identity;
use crate::upstream::connect::greeting::Greeting;
use crate::upstream::connect::kind::{LinkKind, OpenError};

/// A link that is wanted.
pub(crate) struct Opening {
    pub(crate) pool: PoolKey,
    pub(crate) node: NodeIndex,
    pub(crate) kind: LinkKind,
    /// As whom it logs in.
    pub(in crate::upstream) identity: Arc<Identity>,
}

/// The purpose of a connection that is being set up.
pub(crate) enum Purpose {
    Link(Opening),
    /// To have the login of this client judged.
    Login(SessionKey),
}

/// A connection that is being set up.
pub(in crate::upstream) struct Connecting {
    pub(in crate::upstream) purpose: Purpose,
    pub(in crate::upstream) greeting: Greeting,
    /// Whoever moves the bytes is still making the connection.
    pub(in crate::upstream) is_dialing: bool,
    pub(in crate::upstream) write_blocked: bool,
    /// How long the node has, and until when that is.
    pub(in crate::upstream) limit: Duration,
    pub(in crate::upstream) deadline: Instant,
    /// When it asked for a link's token.
    pub(in crate::upstream) asked: Option<Instant>,
}

impl Connecting {
    /// The error of a node that has missed the deadline of its connection. It has had its time for the token if it
    /// asked for it no later than `asks_within` after the connection was wanted.
    pub(in crate::upstream) fn overdue(&self, asks_within: Duration) -> OpenError {
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
    pub(in crate::upstream) fn age(&self, now: Instant) -> Duration {
        self.limit
            .saturating_sub(self.deadline.saturating_duration_since(now))
    }
}
