//! Clients that write at random, one for each of some partitions, and judge what they read at QUORUM.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use helenus_tests::raw::{Client, ONE, QUORUM};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::partitions::{Change, Found, Partition, VALUES};

/// After each write and read.
const PAUSE: Duration = Duration::from_millis(150);
/// A client of whose reads so many went wrong stops.
const FAILED_MAX: usize = 20;

/// Requests about one partition.
#[derive(Debug, Default)]
struct Counts {
    written: AtomicUsize,
    read: AtomicUsize,
}

/// Everything that went wrong. Of a write that was answered with an error nobody knows whether it was done.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    pub(crate) reads: Vec<String>,
    pub(crate) writes: Vec<String>,
}

/// The clients of one table.
pub(crate) struct Clients {
    /// By partition.
    counts: Arc<BTreeMap<i32, Counts>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Failed>>,
}

impl Clients {
    /// `number` clients of the table `t` of a keyspace, which share these of its partitions. Nobody has written them yet.
    pub(crate) fn start(
        proxy: SocketAddr,
        keyspace: &str,
        number: i32,
        partitions: Range<i32>,
        seed: u64,
    ) -> Clients {
        let counts = partitions.clone().map(|k| (k, Counts::default()));
        let counts: Arc<BTreeMap<i32, Counts>> = Arc::new(counts.collect());
        let stop = Arc::<AtomicBool>::default();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let begin_us = since_1970.map_or(0, |time| time.as_micros() as i64);
        let threads = (0..number).map(|at| {
            let keys = partitions.clone().filter(|k| k % number == at);
            let table = format!("{keyspace}.t");
            let partitions = keys.map(|k| Partition::new(&table, k, begin_us));
            let mut one = One {
                client: Client::ready(proxy, if at % 2 == 0 { 5 } else { 4 }).expect("a client"),
                partitions: partitions.collect(),
                rng: ChaCha8Rng::seed_from_u64(seed.wrapping_add(at as u64)),
                table,
                failed: Failed::default(),
            };
            let (counts, stop) = (counts.clone(), stop.clone());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) && one.goes_on() {
                    one.step(&counts);
                    // Leaves some of the machine to the nodes.
                    thread::sleep(PAUSE);
                }
                one.failed
            })
        });
        let threads = threads.collect();
        Clients {
            counts,
            stop,
            threads,
        }
    }

    /// Writes of these partitions that were answered well.
    pub(crate) fn written(&self, of: &[i32]) -> usize {
        let counts = of.iter().filter_map(|k| self.counts.get(k));
        counts.map(|of| of.written.load(Ordering::Relaxed)).sum()
    }

    /// Rounds of a write and a read of all partitions.
    pub(crate) fn rounds(&self) -> usize {
        let counts = self.counts.values();
        counts.map(|of| of.read.load(Ordering::Relaxed)).sum()
    }

    /// Ends them, and tells what went wrong.
    pub(crate) fn stop(mut self) -> Failed {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Failed::default();
        for thread in std::mem::take(&mut self.threads) {
            let failed = thread.join().expect("no panic");
            all.reads.extend(failed.reads);
            all.writes.extend(failed.writes);
        }
        all
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// One client.
struct One {
    client: Client<TcpStream>,
    partitions: Vec<Partition>,
    rng: ChaCha8Rng,
    table: String,
    failed: Failed,
}

impl One {
    fn goes_on(&self) -> bool {
        self.failed.reads.len() < FAILED_MAX
    }

    /// Writes something, and reads something.
    fn step(&mut self, counts: &BTreeMap<i32, Counts>) {
        let at = self.rng.random_range(0..self.partitions.len());
        let (text, change) = self.partitions[at].write(&mut self.rng);
        let of = &counts[&self.partitions[at].k];
        self.write(at, &text, change, of);
        self.read(at);
        of.read.fetch_add(1, Ordering::Relaxed);
    }

    fn write(&mut self, at: usize, text: &str, change: Change, counts: &Counts) {
        let is_known = match self.client.try_query(text, QUORUM).expect("an answer") {
            Ok(_) => {
                counts.written.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(fault) if fault.message.contains(crate::NOT_SENT) => return,
            Err(fault) => {
                self.failed.writes.push(format!("{text}: {fault:?}"));
                false
            }
        };
        self.partitions[at].note(change, is_known);
    }

    fn read(&mut self, at: usize) {
        let k = self.partitions[at].k;
        let b = self.rng.random_range(0..VALUES);
        let of_layout = format!(" AND b = {b} ALLOW FILTERING");
        let (of, level, more) = match self.rng.random_range(0..4) {
            0 => (None, QUORUM, ""),
            1 => (Some(b), QUORUM, &*of_layout),
            _ => (Some(b), ONE, &*of_layout),
        };
        let text = format!("SELECT a, b, v FROM {} WHERE k = {k}{more}", self.table);
        let answer = self.client.try_query(&text, level).expect("an answer");
        let wrong = match answer {
            Ok(answer) => {
                let found = found(&answer.rows().expect("rows"));
                // At ONE nothing is promised but rows of what was asked for.
                match level {
                    QUORUM => self.partitions[at].wrong(of, &found),
                    _ => found
                        .keys()
                        .find(|key| key.1 != b)
                        .map(|key| format!("{key:?}")),
                }
            }
            Err(fault) => Some(format!("{fault:?}")),
        };
        let wrong = wrong.map(|wrong| format!("{text} at level {level}: {wrong}"));
        self.failed.reads.extend(wrong);
    }
}

/// Rows of `a`, `b` and `v`; those whose value has expired have none.
fn found(rows: &[Vec<Option<Vec<u8>>>]) -> Found {
    let number = |cell: &Option<Vec<u8>>| {
        let bytes = cell.as_deref()?;
        Some(i32::from_be_bytes(bytes.try_into().expect("an int")))
    };
    let rows = rows.iter().filter_map(|row| {
        let key = (number(&row[0])?, number(&row[1])?);
        Some((key, number(&row[2])?))
    });
    rows.collect()
}
