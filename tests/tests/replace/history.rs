//! Clients that write and read through two proxies, and know what each row may be.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use helenus_tests::raw::{Client, Fault, ONE, QUORUM};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What a client may hear while nobody can write: OVERLOADED, UNAVAILABLE, WRITE_TIMEOUT, READ_TIMEOUT.
const WAIT: [i32; 4] = [0x1001, 0x1000, 0x1100, 0x1200];
/// Of each client.
const PARTITIONS: i32 = 30;
const ROWS: i32 = 5;
/// The levels of the clients' writes.
const LEVELS: [u16; 3] = [QUORUM, QUORUM, ONE];

/// What a row may be: none, or one of these values. One, unless writes were not acknowledged.
type Possible = BTreeSet<Option<i32>>;

/// Key, and what it may be.
pub(crate) type History = BTreeMap<(i32, i32), Possible>;

/// They go on in threads of their own.
pub(crate) struct Writing {
    is_over: Arc<AtomicBool>,
    are_copies_in_use: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    threads: Vec<JoinHandle<(History, Outage)>>,
}

/// How long a client got nothing but errors.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    since: Option<Instant>,
    pub(crate) longest: Duration,
    pub(crate) errors: u64,
    /// The first error of the longest one.
    pub(crate) why: String,
    first: String,
}

impl Outage {
    fn on_answer(&mut self, fault: Option<&Fault>, asked: Instant) {
        let Some(fault) = fault else {
            self.close();
            return;
        };
        assert!(
            WAIT.contains(&fault.code),
            "{:#x}: {}",
            fault.code,
            fault.message
        );
        self.errors += 1;
        if self.since.is_none() {
            self.since = Some(asked);
            self.first = format!("{:#x}: {}", fault.code, fault.message);
        }
    }
}

impl Outage {
    /// It is over, or nothing more is asked.
    fn close(&mut self) {
        if let Some(since) = self.since.take()
            && since.elapsed() > self.longest
        {
            self.longest = since.elapsed();
            self.why = std::mem::take(&mut self.first);
        }
    }

    /// The longest of them, and all errors.
    fn of_all(outages: impl IntoIterator<Item = Outage>) -> Outage {
        let mut all = Outage::default();
        for mut outage in outages {
            outage.close();
            all.errors += outage.errors;
            if outage.longest > all.longest {
                (all.longest, all.why) = (outage.longest, outage.why);
            }
        }
        all
    }
}

impl Writing {
    pub(crate) fn begin(proxies: [SocketAddr; 2], table: &'static str, seed: u64) -> Writing {
        Writing::go_on(proxies, table, (seed, History::new()))
    }

    /// After what there was before.
    pub(crate) fn go_on(
        proxies: [SocketAddr; 2],
        table: &'static str,
        (seed, mut history): (u64, History),
    ) -> Writing {
        let values = history.values().flatten().flatten();
        let value = values.max().copied().unwrap_or_default();
        let is_over = Arc::new(AtomicBool::new(false));
        let are_copies_in_use = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let threads = (0..).zip(LEVELS).map(|(number, level)| {
            let first = number * PARTITIONS;
            let later = history.split_off(&(first + PARTITIONS, 0));
            let mut writer = Writer {
                clients: proxies.map(|proxy| Client::ready(proxy, 5).expect("a client")),
                table,
                random: ChaCha8Rng::seed_from_u64(seed + u64::from(number.unsigned_abs())),
                history: std::mem::replace(&mut history, later),
                writes: Default::default(),
                reads: Default::default(),
                value,
                first,
                level,
                are_copies_in_use: are_copies_in_use.clone(),
            };
            let (over, count) = (is_over.clone(), acknowledged.clone());
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    if writer.step() {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    // Proxies and nodes need the machine, too.
                    thread::sleep(Duration::from_millis(8));
                }
                let outages = writer.writes.into_iter().chain(writer.reads);
                (writer.history, Outage::of_all(outages))
            })
        });
        let threads = threads.collect();
        Writing {
            is_over,
            are_copies_in_use,
            acknowledged,
            threads,
        }
    }

    /// Writes that were acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Copies alone are in sync from now on, or no longer: they have all that was acknowledged, also for reads at ONE.
    pub(crate) fn copies_are_in_use(&self, are: bool) {
        self.are_copies_in_use.store(are, Ordering::SeqCst);
    }

    /// Also the longest time in which a client got nothing but errors of one of the proxies.
    pub(crate) fn end(self) -> (History, Duration) {
        self.is_over.store(true, Ordering::Relaxed);
        let (mut history, mut longest) = (History::new(), Duration::ZERO);
        for (number, thread) in self.threads.into_iter().enumerate() {
            let (of, outage) = thread.join().expect("it found nothing wrong");
            println!(
                "client {number}: {} errors; {:?} with nothing else at the longest: {}",
                outage.errors, outage.longest, outage.why
            );
            history.extend(of);
            longest = longest.max(outage.longest);
        }
        (history, longest)
    }
}

struct Writer {
    clients: [Client<TcpStream>; 2],
    table: &'static str,
    random: ChaCha8Rng,
    history: History,
    /// Of each proxy.
    writes: [Outage; 2],
    reads: [Outage; 2],
    value: i32,
    /// Its first partition.
    first: i32,
    level: u16,
    are_copies_in_use: Arc<AtomicBool>,
}

impl Writer {
    /// Writes a row by one of the proxies and reads one by one of them; whether the write was acknowledged.
    fn step(&mut self) -> bool {
        let key = (
            self.first + self.random.random_range(0..PARTITIONS),
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
        let (proxy, asked) = (self.random.random_range(0..2), Instant::now());
        let answer = self.clients[proxy].try_query(&cql, self.level);
        let answer = answer.expect("an answer");
        let possible = self.history.entry(key).or_insert_with(|| [None].into());
        let is_acknowledged = answer.is_ok();
        match &answer {
            Ok(_) => *possible = [new].into(),
            Err(_) => {
                possible.insert(new);
            }
        }
        let possible = possible.clone();
        self.writes[proxy].on_answer(answer.as_ref().err(), asked);
        let select = format!("SELECT v FROM {table} WHERE k = {k} AND a = {a} AND b = 2");
        let (proxy, asked) = (self.random.random_range(0..2), Instant::now());
        let were_in_use = self.are_copies_in_use.load(Ordering::SeqCst);
        let answer = self.clients[proxy].try_query(&select, self.level);
        let are_in_use = were_in_use && self.are_copies_in_use.load(Ordering::SeqCst);
        let answer = answer.expect("an answer");
        self.reads[proxy].on_answer(answer.as_ref().err(), asked);
        if let Ok(answer) = answer {
            let rows = answer.rows().expect("rows");
            let found = rows.first().map(|row| crate::int(&row[0]));
            // What was written at ONE is not what is read at ONE, as long as Cassandra keeps the table.
            assert!(
                (self.level == ONE && !are_in_use) || possible.contains(&found),
                "{key:?} is {found:?}, which is none of {possible:?}"
            );
        }
        is_acknowledged
    }
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
