//! Which record the next operation asks for, and the growth of the table under inserts.
//!
//! - **zipfian**: ranks follow a Zipf distribution of exponent 0.99 over ten thousand million
//!   ranks, and the hash of the rank, modulo the number of items, is the record: popular records are
//!   scattered, and their popularity does not change when the table grows. Items include the
//!   records that inserts are expected to add; draws of records that are not there yet are repeated,
//!   so that new records take over their share as they come.
//! - **latest**: the rank counts back from the newest record, so the popular records move along
//!   with the inserts.
//! - **uniform**: every record that is there.

use super::Request;
use crate::keys::Zipf;
use rand::{Rng, RngExt};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

const EXPONENT: f64 = 0.99;
/// YCSB's `ScrambledZipfianGenerator.ITEM_COUNT`.
const RANKS: u64 = 10_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct Choice {
    request: Request,
    zipf: Zipf,
    items: u64,
}

impl Choice {
    /// `items`: records there are and records expected to come.
    pub(super) fn new(request: Request, items: u64) -> Self {
        Self {
            request,
            zipf: Zipf::new(RANKS, EXPONENT),
            items: items.max(1),
        }
    }

    /// A record below `visible`, the number of records that are there; 0 if there is none.
    pub(super) fn draw(&self, visible: u64, rng: &mut impl Rng) -> u64 {
        let visible = visible.max(1);
        match self.request {
            Request::Uniform => rng.random_range(0..visible),
            Request::Latest => visible - Zipf::new(visible, EXPONENT).draw(rng),
            Request::Zipfian => {
                let items = self.items.max(visible);
                loop {
                    let record = fnv_hash(self.zipf.draw(rng) - 1) % items;
                    if record < visible {
                        return record;
                    }
                }
            }
        }
    }
}

/// Numbers of new records. A record can be asked for when it and all before it are done, whatever
/// order the inserts ended in.
#[derive(Debug)]
pub(super) struct Inserts {
    next: AtomicU64,
    visible: AtomicU64,
    done_early: Mutex<BTreeSet<u64>>,
}

impl Inserts {
    pub(super) fn after(records: u64) -> Self {
        Self {
            next: AtomicU64::new(records),
            visible: AtomicU64::new(records),
            done_early: Mutex::default(),
        }
    }

    /// Records that can be asked for.
    pub(super) fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    pub(super) fn begin(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn end(&self, number: u64) {
        let mut done = self
            .done_early
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        done.insert(number);
        let mut visible = self.visible.load(Ordering::Relaxed);
        while done.remove(&visible) {
            visible += 1;
        }
        self.visible.store(visible, Ordering::Release);
    }
}

/// YCSB's `Utils.fnvhash64`: FNV-1a over the eight bytes of the number, least first, without sign.
pub(super) fn fnv_hash(value: u64) -> u64 {
    let hash = value
        .to_le_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
    (hash as i64).unsigned_abs()
}
