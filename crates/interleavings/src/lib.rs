//! State that workers of a proxy share, under a scheduler that tries orders of their steps
//! ([shuttle](https://docs.rs/shuttle)).
//!
//! The modules are the engine's own files, and what a node's queues share in `policy`, compiled once more with locks and atomics that let another thread go on at
//! each use: `crate::support::sync` is the standard library's there and shuttle's here. A scenario is what a few workers do at the
//! same time; it panics if a promise is broken, or if all wait for each other.
//!
//! Each step is seen by all others at once: what weaker orders of memory allow beside that is not tried.

// Not all of the engine's files is used here. Their own tests are the engine's: as a test, this library is empty.
#![allow(dead_code, unreachable_pub)]

#[cfg(not(test))]
#[path = "../../engine/src/session/login/queue.rs"]
mod login_queue;
#[cfg(not(test))]
#[path = "../../engine/src/features/lwt_turns/queue.rs"]
mod lwt_queue;
#[cfg(not(test))]
#[path = "../../engine/src/memory.rs"]
mod memory;
#[cfg(not(test))]
#[path = "../../policy/src/schedule/numbers.rs"]
mod numbers;
#[cfg(not(test))]
#[path = "../../engine/src/support/recent.rs"]
mod recent;
#[cfg(not(test))]
#[path = "../../engine/src/statement/prepared/registry.rs"]
mod registry;
#[cfg(not(test))]
#[path = "../../engine/src/scheduler/scan_limit.rs"]
mod scan_limit;
#[cfg(not(test))]
pub mod scenarios;
#[cfg(not(test))]
#[path = "../../engine/src/scheduler/shared_node.rs"]
mod shared_node;
#[cfg(not(test))]
#[path = "../../policy/src/schedule/shares.rs"]
mod shares;
#[cfg(not(test))]
#[path = "../../engine/src/statement/prepared/standing.rs"]
mod standing;

// Names that the scheduler's files import from modules that are not compiled here.
#[cfg(not(test))]
use helenus_policy::schedule::Class;

#[cfg(not(test))]
mod config {
    pub(crate) use helenus_engine::config::{Aggregation, Limits, Scheduling};
}

#[cfg(not(test))]
mod keys {
    pub(crate) use helenus_engine::{ClientRequestKey, SessionKey};
}

#[cfg(not(test))]
mod statement {
    pub(crate) mod prepared {
        pub(crate) use crate::standing;
    }
}

#[cfg(not(test))]
mod support {
    pub(crate) use crate::recent;

    pub(crate) mod sync {
        pub(crate) use crate::shares::{NUMBERED_MAX, Shares};
        pub(crate) use crate::sync::*;
    }
}

#[cfg(not(test))]
mod sync {
    pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

    pub(crate) mod atomic {
        pub(crate) use shuttle::sync::atomic::{
            AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        };
    }
}
