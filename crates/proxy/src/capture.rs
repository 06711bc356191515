//! The capture under way: blocks from workers, through a channel that is bounded in bytes.
//!
//! Workers never wait: a block for which there is no room is left out, and its requests are counted.

pub(crate) mod stream;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use helenus_engine::features::capture::Captured;
use tokio::sync::mpsc;

/// Of blocks on their way.
pub(crate) const WAITING_BYTES_MAX: usize = 8 << 20;

/// The capture under way, of which there is at most one.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    last_ticket: AtomicU64,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    ticket: u64,
    blocks: mpsc::UnboundedSender<Bytes>,
    waiting_bytes: Arc<AtomicUsize>,
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
        let (mut lost, bytes) = (captured.lost, captured.block.len());
        if bytes > 0 {
            // Only the reader takes from it, and the lock keeps other workers out.
            let has_room =
                running.waiting_bytes.load(Ordering::Relaxed) + bytes <= WAITING_BYTES_MAX;
            if has_room {
                running.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            if !has_room || running.blocks.send(captured.block.into()).is_err() {
                lost += captured.records;
            }
        }
        running.lost.fetch_add(lost, Ordering::Relaxed);
    }

    /// Makes room for a capture; None if there is one.
    pub(crate) fn begin(&self) -> Option<Begun> {
        let mut running = self.lock();
        if running.is_some() {
            return None;
        }
        let (sender, blocks) = mpsc::unbounded_channel();
        let lost = Arc::new(AtomicU64::new(0));
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let ticket = self.last_ticket.fetch_add(1, Ordering::Relaxed) + 1;
        *running = Some(Running {
            ticket,
            blocks: sender,
            waiting_bytes: waiting_bytes.clone(),
            lost: lost.clone(),
        });
        Some(Begun {
            ticket,
            blocks: Blocks {
                blocks,
                waiting_bytes,
            },
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
    pub blocks: Blocks,
    /// Requests that are missing.
    pub lost: Arc<AtomicU64>,
}

/// Blocks as they come.
#[derive(Debug)]
pub(crate) struct Blocks {
    blocks: mpsc::UnboundedReceiver<Bytes>,
    waiting_bytes: Arc<AtomicUsize>,
}

impl Blocks {
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let next = self.blocks.poll_recv(cx);
        if let Poll::Ready(Some(block)) = &next {
            self.waiting_bytes.fetch_sub(block.len(), Ordering::Relaxed);
        }
        next
    }
}
