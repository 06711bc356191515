//! An allocator that knows what was allocated inside of engines, and is still held.
//!
//! Each block has a note in front of it: the bytes that count. So it does not matter who frees it, or when.
#![expect(unsafe_code, reason = "an allocator is `unsafe` to write")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;

pub(crate) struct Counting;

// One run is one thread, so that several tests do not count for each other.
thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// Counts the memory that is allocated meanwhile.
pub(crate) fn inside<R>(act: impl FnOnce() -> R) -> R {
    let was = INSIDE.replace(true);
    let result = act();
    INSIDE.set(was);
    result
}

/// Bytes that were allocated inside and have not been freed.
pub(crate) fn held() -> usize {
    HELD.get()
}

/// The most that was held at any moment since this was last asked, in the middle of a call as well.
pub(crate) fn take_peak() -> usize {
    PEAK.replace(held())
}

fn count(bytes: usize) -> usize {
    if !INSIDE.try_with(Cell::get).unwrap_or(false) {
        return 0;
    }
    let held = HELD.get() + bytes;
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
    bytes
}

/// A block with its note, and where behind its beginning the caller's part is.
fn with_note(layout: Layout) -> Option<(Layout, usize)> {
    Layout::new::<usize>().extend(layout).ok()
}

/// Blocks of at least this size are kept when they are freed: the system would take them back, and zero them anew.
const KEPT_MIN: usize = 32 << 10;

thread_local! {
    /// The first of those that are kept, by the logarithm of their size; each begins with the address of the next.
    static KEPT: [Cell<*mut u8>; usize::BITS as usize] =
        const { [const { Cell::new(null_mut()) }; usize::BITS as usize] };
}

/// The size that a block of this layout has in truth, and its place among those that are kept.
fn rounded(whole: Layout) -> (Layout, Option<usize>) {
    if whole.size() < KEPT_MIN || whole.align() > 16 {
        return (whole, None);
    }
    let size = whole.size().next_power_of_two();
    match Layout::from_size_align(size, 16) {
        Ok(layout) => (layout, Some(size.trailing_zeros() as usize)),
        Err(_) => (whole, None),
    }
}

// SAFETY: blocks come from the system's allocator, with room for a note in front. They go back to it with the layout that
// they were asked for with, or are kept for another request of that layout, by one thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((whole, offset)) = with_note(layout) else {
            return null_mut();
        };
        let (whole, class) = rounded(whole);
        let kept = class.and_then(|class| {
            let take = |kept: &[Cell<*mut u8>; 64]| {
                let block = kept[class].get();
                // SAFETY: a block that is kept begins with the address of the next.
                (!block.is_null())
                    .then(|| kept[class].set(unsafe { block.cast::<*mut u8>().read() }))?;
                Some(block)
            };
            KEPT.try_with(take).ok().flatten()
        });
        // SAFETY: it has room for a note at least.
        let block = kept.unwrap_or_else(|| unsafe { System.alloc(whole) });
        if block.is_null() {
            return block;
        }
        // SAFETY: the note is the block's beginning, which is aligned for it; the offset is within the block.
        unsafe {
            block.cast::<usize>().write(count(layout.size()));
            block.add(offset)
        }
    }

    unsafe fn dealloc(&self, part: *mut u8, layout: Layout) {
        let Some((whole, offset)) = with_note(layout) else {
            return;
        };
        let (whole, class) = rounded(whole);
        // SAFETY: `alloc` has returned this part of a block for the same layout.
        unsafe {
            let block = part.sub(offset);
            let counted = block.cast::<usize>().read();
            if counted > 0 {
                HELD.set(HELD.get() - counted);
            }
            let is_kept = class.is_some_and(|class| {
                let keep = |kept: &[Cell<*mut u8>; 64]| {
                    block.cast::<*mut u8>().write(kept[class].replace(block));
                };
                KEPT.try_with(keep).is_ok()
            });
            if !is_kept {
                System.dealloc(block, whole);
            }
        }
    }
}
