//! A client that writes and reads through a proxy, and knows what each row may be.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use helenus_tests::raw::{Client, Fault, QUORUM};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What a client may hear while nobody can write: OVERLOADED, UNAVAILABLE, WRITE_TIMEOUT, READ_TIMEOUT.
const WAIT: [i32; 4] = [0x1001, 0x1000, 0x1100, 0x1200];
const PARTITIONS: i32 = 40;
const ROWS: i32 = 5;

/// What a row may be: none, or one of these values. One, unless writes were not acknowledged.
type Possible = BTreeSet<Option<i32>>;

/// Key, and what it may be.
pub(crate) type History = BTreeMap<(i32, i32), Possible>;

/// It goes on in a thread of its own.
pub(crate) struct Writing {
    is_over: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    thread: JoinHandle<History>,
}

impl Writing {
    pub(crate) fn begin(proxy: SocketAddr, table: &'static str, seed: u64) -> Writing {
        Writing::go_on(proxy, table, (seed, History::new()))
    }

    /// After what there was before.
    pub(crate) fn go_on(
        proxy: SocketAddr,
        table: &'static str,
        (seed, history): (u64, History),
    ) -> Writing {
        let values = history.values().flatten().flatten();
        let value = values.max().copied().unwrap_or_default();
        let is_over = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let client = Client::ready(proxy, 5).expect("a client");
        let mut writer = Writer {
            client,
            table,
            random: ChaCha8Rng::seed_from_u64(seed),
            history,
            value,
        };
        let (over, count) = (is_over.clone(), acknowledged.clone());
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if writer.step() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                thread::sleep(Duration::from_millis(2));
            }
            writer.history
        });
        Writing {
            is_over,
            acknowledged,
            thread,
        }
    }

    /// Writes that were acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    pub(crate) fn end(self) -> History {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it found nothing wrong")
    }
}

struct Writer {
    client: Client<TcpStream>,
    table: &'static str,
    random: ChaCha8Rng,
    history: History,
    value: i32,
}

impl Writer {
    /// Writes a row and reads one; whether the write was acknowledged.
    fn step(&mut self) -> bool {
        let key = (
            self.random.random_range(0..PARTITIONS),
            self.random.random_range(0..ROWS),
        );
        let ((k, a), table) = (key, self.table);
        self.value += 1;
        let (cql, new) = match self.random.random_range(0..4) {
            0 => (
                format!("DELETE FROM {table} WHERE k = {k} AND a = {a} AND b = 2"),
                None,
            ),
            _ => (
                format!(
                    "INSERT INTO {table} (k, a, b, v) VALUES ({k}, {a}, 2, {})",
                    self.value
                ),
                Some(self.value),
            ),
        };
        let answer = self.client.try_query(&cql, QUORUM).expect("an answer");
        let possible = self.history.entry(key).or_insert_with(|| [None].into());
        let is_acknowledged = answer.is_ok();
        match answer {
            Ok(_) => *possible = [new].into(),
            Err(fault) => {
                check(&fault);
                possible.insert(new);
            }
        }
        let possible = possible.clone();
        let select = format!("SELECT v FROM {table} WHERE k = {k} AND a = {a} AND b = 2");
        match self.client.try_query(&select, QUORUM).expect("an answer") {
            Ok(answer) => {
                let rows = answer.rows().expect("rows");
                let found = rows.first().map(|row| crate::int(&row[0]));
                assert!(
                    possible.contains(&found),
                    "{key:?} is {found:?}, which is none of {possible:?}"
                );
            }
            Err(fault) => check(&fault),
        }
        is_acknowledged
    }
}

fn check(fault: &Fault) {
    assert!(
        WAIT.contains(&fault.code),
        "{:#x}: {}",
        fault.code,
        fault.message
    );
}

/// Fails if rows are not what they may be.
pub(crate) fn check_rows(what: &str, rows: &BTreeMap<(i32, i32), i32>, history: &History) {
    for (key, possible) in history {
        let found = rows.get(key).copied();
        assert!(
            possible.contains(&found),
            "{what}: {key:?} is {found:?}, which is none of {possible:?}"
        );
    }
    let further: Vec<_> = rows
        .keys()
        .filter(|key| !history.contains_key(key))
        .collect();
    assert!(further.is_empty(), "{what}: nobody has written {further:?}");
}
