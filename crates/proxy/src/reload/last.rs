//! The result of a reload, on SIGHUP, because an operator asked for it, or because a file had changed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// The effects of a reload.
#[derive(Debug, Serialize)]
pub(crate) struct Reloaded {
    /// Keys of settings that are others now.
    pub changed: Vec<String>,
    /// Keys of settings that differ and need a restart.
    pub needs_restart: Vec<String>,
}

/// For metrics.
#[derive(Debug)]
pub(crate) struct LastReload {
    failed: AtomicBool,
    succeeded_unix_s: AtomicU64,
}

impl LastReload {
    /// The settings with which the proxy starts count as the first.
    pub(crate) fn at_start() -> LastReload {
        LastReload {
            failed: AtomicBool::new(false),
            succeeded_unix_s: AtomicU64::new(unix_s()),
        }
    }

    pub(crate) fn note(&self, succeeded: bool) {
        self.failed.store(!succeeded, Ordering::Relaxed);
        if succeeded {
            self.succeeded_unix_s.store(unix_s(), Ordering::Relaxed);
        }
    }

    pub(crate) fn succeeded(&self) -> bool {
        !self.failed.load(Ordering::Relaxed)
    }

    /// When settings or files were last taken, in seconds since 1970.
    pub(crate) fn succeeded_unix_s(&self) -> u64 {
        self.succeeded_unix_s.load(Ordering::Relaxed)
    }
}

fn unix_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
