//! Clients that write and read a table through proxies, and an ordinary one by the same statements: whatever happens to
//! the first, both give the same rows, times of writing and times to live.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use helenus_tests::raw::{Client, Fault, QUORUM};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(crate) const COLUMNS: &str =
    "k int, a int, b int, s int static, v int, w text, PRIMARY KEY (k, a, b)";
/// What both tables must give, of a partition.
const READ: &str = "a, b, s, v, w, WRITETIME(s), WRITETIME(v), WRITETIME(w)";
/// What a client may hear while something is in the way: OVERLOADED, UNAVAILABLE, WRITE_TIMEOUT, READ_TIMEOUT.
const WAIT: [i32; 4] = [0x1001, 0x1000, 0x1100, 0x1200];
/// Of each client.
const PARTITIONS: i32 = 12;
const ROWS: i32 = 4;
const CLIENTS: i32 = 3;
/// For so long a statement is tried again.
const PATIENCE: Duration = Duration::from_secs(120);
/// Of rows that live longer than a test.
const TTL: i32 = 100_000;

pub(crate) type Cells = Vec<Option<Vec<u8>>>;

/// What clients have seen since the last look.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) writes: u64,
    /// How often each error came.
    pub(crate) errors: BTreeMap<String, u64>,
    /// How long a statement was tried at the longest, and the first error of that.
    pub(crate) longest: (Duration, String),
    /// Where both tables did not give the same.
    pub(crate) differing: Vec<String>,
}

struct Shared {
    is_over: AtomicBool,
    writes: AtomicU64,
    proxies: Mutex<Vec<SocketAddr>>,
    seen: Mutex<Seen>,
}

pub(crate) struct Clients {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    /// They write `table`, and `plain` likewise.
    pub(crate) fn begin(
        proxies: Vec<SocketAddr>,
        (table, plain): (&'static str, &'static str),
        seed: u64,
    ) -> Clients {
        let shared = Arc::new(Shared {
            is_over: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            proxies: Mutex::new(proxies),
            seen: Mutex::default(),
        });
        let threads = (0..CLIENTS).map(|number| {
            let mut one = One {
                shared: shared.clone(),
                tables: [table, plain],
                random: ChaCha8Rng::seed_from_u64(seed + u64::from(number.unsigned_abs())),
                first: number * PARTITIONS,
                clients: BTreeMap::new(),
                last: 0,
            };
            thread::spawn(move || {
                while !one.shared.is_over.load(Ordering::Relaxed) {
                    one.step();
                    thread::sleep(Duration::from_millis(10));
                }
            })
        });
        let threads = threads.collect();
        Clients { shared, threads }
    }

    /// Which proxies they use from now on.
    pub(crate) fn use_proxies(&self, proxies: Vec<SocketAddr>) {
        *lock(&self.shared.proxies) = proxies;
    }

    /// Writes that were acknowledged.
    pub(crate) fn writes(&self) -> u64 {
        self.shared.writes.load(Ordering::Relaxed)
    }

    /// What they have seen since this was asked last.
    pub(crate) fn seen(&self) -> Seen {
        std::mem::take(&mut *lock(&self.shared.seen))
    }

    pub(crate) fn end(self) -> Seen {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("it found nothing wrong");
        }
        std::mem::take(&mut *lock(&self.shared.seen))
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

struct One {
    shared: Arc<Shared>,
    tables: [&'static str; 2],
    random: ChaCha8Rng,
    first: i32,
    clients: BTreeMap<SocketAddr, Client<TcpStream>>,
    /// The last timestamp, in microseconds.
    last: i64,
}

impl One {
    /// Writes something, and reads its partition.
    fn step(&mut self) {
        let key = self.first + self.random.random_range(0..PARTITIONS);
        let statement = self.statement(key);
        for table in self.tables {
            self.ask(&statement.replace("TABLE", table));
        }
        lock(&self.shared.seen).writes += 1;
        self.shared.writes.fetch_add(1, Ordering::Relaxed);
        let [one, other] = self
            .tables
            .map(|table| self.ask(&format!("SELECT {READ} FROM {table} WHERE k = {key}")));
        if one != other {
            let differing = format!("after {statement}: {one:?} and not {other:?}");
            lock(&self.shared.seen).differing.push(differing);
        }
    }

    /// With a timestamp of its own, so that it may be sent again.
    fn statement(&mut self, key: i32) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| i64::try_from(now.as_micros()).unwrap_or(0));
        self.last = now.max(self.last + 1);
        let at = format!("USING TIMESTAMP {}", self.last);
        let (a, v) = (
            self.random.random_range(0..ROWS),
            self.random.random_range(0..1_000_000),
        );
        let row = format!("k = {key} AND a = {a} AND b = {}", 10 - a);
        let values = format!("({key}, {a}, {}, {v}, 'w{v}')", 10 - a);
        match self.random.random_range(0..14) {
            0 => format!("DELETE FROM TABLE {at} WHERE k = {key}"),
            1 | 2 => format!("DELETE FROM TABLE {at} WHERE {row}"),
            3 => format!("DELETE v FROM TABLE {at} WHERE {row}"),
            4 => format!("DELETE s FROM TABLE {at} WHERE k = {key}"),
            5 => format!("UPDATE TABLE {at} SET s = {v} WHERE k = {key}"),
            6 | 7 => format!("UPDATE TABLE {at} SET v = {v}, w = 'u{v}' WHERE {row}"),
            8 => format!("UPDATE TABLE {at} AND TTL {TTL} SET s = {v} WHERE k = {key}"),
            9 | 10 => {
                format!("INSERT INTO TABLE (k, a, b, v, w) VALUES {values} {at} AND TTL {TTL}")
            }
            11 => format!(
                "BEGIN UNLOGGED BATCH {at} INSERT INTO TABLE (k, a, b, v, w) VALUES {values}; \
                 UPDATE TABLE SET s = {v} WHERE k = {key}; APPLY BATCH"
            ),
            _ => format!("INSERT INTO TABLE (k, a, b, v, w) VALUES {values} {at}"),
        }
    }

    /// Asks until there is an answer that counts.
    fn ask(&mut self, cql: &str) -> Vec<Cells> {
        let begun = Instant::now();
        let mut first = String::new();
        loop {
            let why = match self.try_once(cql) {
                Ok(rows) => {
                    let mut seen = lock(&self.shared.seen);
                    if begun.elapsed() > seen.longest.0 {
                        seen.longest = (begun.elapsed(), format!("{cql}: {first}"));
                    }
                    return rows;
                }
                Err(why) => why,
            };
            if first.is_empty() {
                first.clone_from(&why);
            }
            *lock(&self.shared.seen).errors.entry(why).or_default() += 1;
            assert!(begun.elapsed() < PATIENCE, "{cql}: {first}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn try_once(&mut self, cql: &str) -> Result<Vec<Cells>, String> {
        let proxies = lock(&self.shared.proxies).clone();
        let proxy = proxies[self.random.random_range(0..proxies.len())];
        let client = match self.clients.entry(proxy) {
            std::collections::btree_map::Entry::Occupied(client) => client.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                let client = Client::ready(proxy, 5).map_err(|e| format!("connecting: {e}"))?;
                place.insert(client)
            }
        };
        match client.try_query(cql, QUORUM) {
            Ok(Ok(answer)) if cql.starts_with("SELECT") => {
                answer.rows().map_err(|e| format!("rows: {e}"))
            }
            Ok(Ok(_)) => Ok(Vec::new()),
            Ok(Err(Fault { code, message })) => {
                assert!(WAIT.contains(&code), "{code:#x}: {message} ({cql})");
                let of = cql.split(' ').next().unwrap_or_default();
                let is_plain = cql.contains(self.tables[1]);
                let of = format!("{of}{}", if is_plain { " (plain)" } else { "" });
                Err(format!("{of} {code:#x}: {message}"))
            }
            Err(e) => {
                self.clients.remove(&proxy);
                Err(format!("connection: {e}"))
            }
        }
    }
}
