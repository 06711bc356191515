//! A ring of buffers from which the kernel takes one for what arrives.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result};
use io_uring::types::BufRingEntry;
use io_uring::{IoUring, cqueue};

/// `IOU_PBUF_RING_INC` of the kernel's interface.
const INCREMENTAL: u16 = 2;
const PAGE_LEN: usize = 4096;

/// Buffers of one length, shared with the kernel until the process ends: the memory is never freed,
/// so that no order of dropping can give the kernel memory of somebody else.
pub struct Buffers {
    ring: *mut BufRingEntry,
    memory: *mut u8,
    count: u16,
    len: usize,
    tail: u16,
    /// How much of each buffer has been used, if they are filled bit by bit.
    used: Vec<usize>,
}

impl Buffers {
    /// `count` must be a power of two.
    pub fn register(
        uring: &IoUring,
        group: u16,
        count: u16,
        len: usize,
        incremental: bool,
    ) -> Result<Buffers> {
        debug_assert!(count.is_power_of_two());
        let mut buffers = Buffers {
            ring: zeroed_pages(usize::from(count) * size_of::<BufRingEntry>()).cast(),
            memory: zeroed_pages(usize::from(count) * len),
            count,
            len,
            tail: 0,
            used: vec![0; usize::from(count)],
        };
        let flags = if incremental { INCREMENTAL } else { 0 };
        // SAFETY: the ring is page-aligned, has `count` entries and is never freed.
        unsafe {
            uring
                .submitter()
                .register_buf_ring_with_flags(buffers.ring as u64, count, group, flags)
        }
        .context("registering a ring of buffers")?;
        for buffer in 0..count {
            buffers.offer(buffer);
        }
        Ok(buffers)
    }

    /// What the kernel has put into a buffer since it was offered or last looked at.
    pub fn bytes(&self, buffer: u16, len: usize) -> &[u8] {
        let buffer = usize::from(buffer);
        assert!(buffer < usize::from(self.count) && self.used[buffer] + len <= self.len);
        // SAFETY: in bounds, as just seen, and zeroed when allocated. The kernel has finished with
        // these bytes: it writes behind them only, until the buffer is offered again, which takes
        // `&mut self`.
        unsafe {
            std::slice::from_raw_parts(self.memory.add(buffer * self.len + self.used[buffer]), len)
        }
    }

    /// The bytes of a completion have been used.
    pub fn give_back(&mut self, buffer: u16, len: usize, flags: u32) {
        if cqueue::buffer_more(flags) {
            self.used[usize::from(buffer)] += len;
        } else {
            self.used[usize::from(buffer)] = 0;
            self.offer(buffer);
        }
    }

    fn offer(&mut self, buffer: u16) {
        let at = usize::from(self.tail & (self.count - 1));
        // SAFETY: `at` and `buffer` are below `count`. The kernel reads an entry only after the tail
        // has passed it, and nobody else writes; the fields set are not the one that holds the tail.
        unsafe {
            let entry = &mut *self.ring.add(at);
            entry.set_addr(self.memory.add(usize::from(buffer) * self.len) as u64);
            entry.set_len(self.len as u32);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the first entry, is aligned, and is written by us alone.
        unsafe {
            let tail = BufRingEntry::tail(self.ring).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

fn zeroed_pages(len: usize) -> *mut u8 {
    let layout = Layout::from_size_align(len, PAGE_LEN).expect("a length known here");
    // SAFETY: no length used here is zero.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    memory
}
