//! The capture under way: blocks from workers, through a bounded channel.
//!
//! Workers never wait: a block for which there is no room is left out, and its requests are counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use helenus_engine::capture::Captured;
use tokio::sync::mpsc;

/// Blocks on their way.
pub(crate) const BLOCKS_MAX: usize = 64;

/// The capture under way, of which there is at most one.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    last_ticket: AtomicU64,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    ticket: u64,
    blocks: mpsc::Sender<Bytes>,
    lost: Arc<AtomicU64>,
}

impl Captures {
    /// A worker has recorded something.
    pub(crate) fn take(&self, captured: Captured) {
        let running = self.lock();
        let Some(running) = running
            .as_ref()
            .filter(|running| running.ticket == captured.ticket)
        else {
            return;
        };
        let mut lost = captured.lost;
        if !captured.block.is_empty() && running.blocks.try_send(captured.block.into()).is_err() {
            lost += captured.records;
        }
        running.lost.fetch_add(lost, Ordering::Relaxed);
    }

    /// Makes room for a capture; None if there is one.
    pub(crate) fn begin(&self) -> Option<Begun> {
        let mut running = self.lock();
        if running.is_some() {
            return None;
        }
        let (sender, blocks) = mpsc::channel(BLOCKS_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let ticket = self.last_ticket.fetch_add(1, Ordering::Relaxed) + 1;
        *running = Some(Running {
            ticket,
            blocks: sender,
            lost: lost.clone(),
        });
        Some(Begun {
            ticket,
            blocks,
            lost,
        })
    }

    /// Its reader has gone.
    pub(crate) fn end(&self, ticket: u64) {
        self.lock().take_if(|running| running.ticket == ticket);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reader's end of a capture.
#[derive(Debug)]
pub(crate) struct Begun {
    pub ticket: u64,
    pub blocks: mpsc::Receiver<Bytes>,
    /// Requests that are missing.
    pub lost: Arc<AtomicU64>,
}
