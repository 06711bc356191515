//! Averages that workers share.

use std::sync::atomic::{AtomicU32, Ordering};

/// Moves an average by an `inertia`-th of the way to what was seen; all the way from 0. A steady one
/// is only read, so that workers do not take its line from each other.
pub(super) fn note(mean: &AtomicU32, seen: u32, inertia: u32) {
    let old = mean.load(Ordering::Relaxed);
    let new = moved(old, seen, inertia);
    if new != old {
        mean.store(new, Ordering::Relaxed);
    }
}

/// An average that has seen this as well.
pub(super) fn moved(old: u32, seen: u32, inertia: u32) -> u32 {
    let off = old.abs_diff(seen);
    match old {
        0 => seen,
        _ if off <= old / 4 => old,
        _ if seen > old => old + off.div_ceil(inertia),
        _ => old - off.div_ceil(inertia),
    }
}

/// Waiting only ever adds to the work that is wanted: down fast, up slowly.
pub(super) fn service_inertia(known: u32, seen: u32) -> u32 {
    if seen > known { 16 } else { 4 }
}
