//! Questions to workers that wait for their answers.

pub(crate) mod asking;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use helenus_engine::worker_status::Report;
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;

/// Questions that workers have not answered.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    next: AtomicU64,
    open: Mutex<FxHashMap<u64, mpsc::UnboundedSender<Report>>>,
}

/// A question that is closed with this.
pub(crate) struct Open<'a> {
    questions: &'a Questions,
    pub ticket: u64,
    pub answers: mpsc::UnboundedReceiver<Report>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.questions.lock().remove(&self.ticket);
    }
}

impl Questions {
    pub(crate) fn open(&self) -> Open<'_> {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answers) = mpsc::unbounded_channel();
        self.lock().insert(ticket, sender);
        Open {
            questions: self,
            ticket,
            answers,
        }
    }

    /// A worker has answered.
    pub(crate) fn answer(&self, ticket: u64, report: Report) {
        if let Some(asking) = self.lock().get(&ticket) {
            // It fails when nobody waits any more.
            let _ = asking.send(report);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FxHashMap<u64, mpsc::UnboundedSender<Report>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
