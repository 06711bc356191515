//! Which record the next operation picks, and the growth of the table under inserts.
//!
//! - **zipfian**: ranks follow a Zipf distribution of exponent 0.99 over ten billion ranks, and the
//!   record is the hash of the rank modulo the number of items: popular records are scattered, and
//!   stay popular when the table grows. Items include the records that inserts are expected to
//!   add. A draw of a record that does not exist yet is repeated, so that new records take over
//!   their share as they are inserted.
//! - **latest**: the rank counts back from the newest record, so popularity moves with the inserts.
//! - **uniform**: all existing records.

use crate::workload::keys::Zipf;
use rand::{Rng, RngExt};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

const EXPONENT: f64 = 0.99;
/// YCSB's `ScrambledZipfianGenerator.ITEM_COUNT`.
const RANKS: u64 = 10_000_000_000;

/// YCSB's `requestdistribution`: which records operations pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDistribution {
    /// Popular records are scattered over the table.
    Zipfian,
    /// The latest inserts are the most popular.
    Latest,
    Uniform,
}

#[derive(Clone, Debug)]
pub(super) struct Choice {
    request: RequestDistribution,
    zipf: Zipf,
    items: u64,
}

impl Choice {
    /// `items`: existing records plus those that inserts are expected to add.
    pub(super) fn new(request: RequestDistribution, items: u64) -> Self {
        Self {
            request,
            zipf: Zipf::new(RANKS, EXPONENT),
            items: items.max(1),
        }
    }

    /// A record below `visible`, the number of existing records; 0 if there are none.
    pub(super) fn draw(&self, visible: u64, rng: &mut impl Rng) -> u64 {
        let visible = visible.max(1);
        match self.request {
            RequestDistribution::Uniform => rng.random_range(0..visible),
            RequestDistribution::Latest => visible - Zipf::new(visible, EXPONENT).draw(rng),
            RequestDistribution::Zipfian => {
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

/// Numbers of new records. A record becomes visible once it and all before it are inserted, in
/// whatever order the inserts complete.
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

    /// Records that operations may pick.
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

/// YCSB's `Utils.fnvhash64`: the absolute value of FNV-1a over the number's little-endian bytes.
pub(super) fn fnv_hash(value: u64) -> u64 {
    let hash = value
        .to_le_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
    (hash as i64).unsigned_abs()
}
