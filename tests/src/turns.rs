//! Nodes that the tests of a suite share: several at a time, or one alone.

use std::ops::Deref;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use helenus_cluster::Cluster;

/// The nodes, as long as a test lasts.
pub enum Turn {
    Shared(RwLockReadGuard<'static, Cluster>),
    Alone(RwLockWriteGuard<'static, Cluster>),
}

impl Turn {
    /// Beside other tests.
    pub fn shared(nodes: &'static RwLock<Cluster>) -> Turn {
        Turn::Shared(nodes.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn alone(nodes: &'static RwLock<Cluster>) -> Turn {
        Turn::Alone(nodes.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Deref for Turn {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        match self {
            Turn::Shared(nodes) => nodes,
            Turn::Alone(nodes) => nodes,
        }
    }
}
