//! Primitives of which shared state of workers is built: the standard library's here, and those of a scheduler that
//! tries orders of their steps in `crates/interleavings`, which compiles the same files.

pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

pub(crate) use helenus_policy::schedule::shares::{NUMBERED_MAX, Shares};

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}
