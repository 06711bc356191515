//! Atomics and locks that [`crate::schedule::shares`] is built of: the standard library's here. `crates/interleavings`,
//! which compiles the same file, has those of a scheduler that tries orders of their steps.

pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
}
