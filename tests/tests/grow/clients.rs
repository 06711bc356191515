//! Clients that know every write that was acknowledged to them.

use std::collections::BTreeMap;
use std::io::Result;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use helenus_tests::raw::{Client, ONE, Prepared};

pub(crate) const KEYSPACE: &str = "grow";
pub(crate) const TABLE: &str = "t";
/// Of each client.
const KEYS: i64 = 500;
/// A client that has seen so many stops.
const FAILED_MAX: usize = 20;

/// After each write and read.
const PAUSE: Duration = Duration::from_millis(20);

/// A client's requests and their outcome.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    /// Values that it has been told are written.
    pub(crate) written: BTreeMap<i64, i64>,
    /// Requests that went wrong.
    pub(crate) failed: Vec<String>,
}

pub(crate) struct Clients {
    pub(crate) requests: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Outcome>>,
}

impl Clients {
    pub(crate) fn start(address: SocketAddr, number: usize) -> Clients {
        let (requests, stop): (Arc<AtomicU64>, Arc<AtomicBool>) = Default::default();
        let threads = (0..number).map(|at| {
            let (requests, stop) = (requests.clone(), stop.clone());
            thread::spawn(move || {
                let mut outcome = Outcome::default();
                if let Err(e) = work(address, at as i64, &requests, &stop, &mut outcome) {
                    outcome.failed.push(format!("client {at}: {e}"));
                }
                outcome
            })
        });
        let threads = threads.collect();
        Clients {
            requests,
            stop,
            threads,
        }
    }

    pub(crate) fn stop(self) -> Vec<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.threads.into_iter().map(JoinHandle::join);
        ended.map(|outcome| outcome.expect("no panic")).collect()
    }
}

/// One client: writes a key of its own, then reads another one of its own.
fn work(
    address: SocketAddr,
    at: i64,
    requests: &AtomicU64,
    stop: &AtomicBool,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut client = Client::ready(address, 5)?;
    let insert = client.prepare(&format!(
        "INSERT INTO {KEYSPACE}.{TABLE} (k, v) VALUES (?, ?)"
    ))?;
    let select = client.prepare(&format!("SELECT v FROM {KEYSPACE}.{TABLE} WHERE k = ?"))?;
    let mut turn = 0_i64;
    while !stop.load(Ordering::Relaxed) && outcome.failed.len() < FAILED_MAX {
        let key = |turn: i64| at * KEYS + turn % KEYS;
        turn += 1;
        write(&mut client, &insert, key(turn), turn, outcome)?;
        read(&mut client, &select, key(turn * 7), outcome)?;
        outcome.requests += 2;
        requests.fetch_add(2, Ordering::Relaxed);
        // Leaves some of the machine to the nodes that come and go.
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn write(
    client: &mut Client<TcpStream>,
    insert: &Prepared,
    key: i64,
    value: i64,
    outcome: &mut Outcome,
) -> Result<()> {
    let values = [&key.to_be_bytes()[..], &value.to_be_bytes()];
    match client.execute(insert, &values, ONE)? {
        Ok(_) => _ = outcome.written.insert(key, value),
        Err(fault) => outcome.failed.push(format!("write of {key}: {fault:?}")),
    }
    Ok(())
}

fn read(
    client: &mut Client<TcpStream>,
    select: &Prepared,
    key: i64,
    outcome: &mut Outcome,
) -> Result<()> {
    match client.execute(select, &[&key.to_be_bytes()], ONE)? {
        Ok(answer) => {
            let rows = answer.rows()?;
            let cell = rows.first().and_then(|row| row.first().cloned().flatten());
            let found = cell.and_then(|cell| Some(i64::from_be_bytes(cell.try_into().ok()?)));
            let wanted = outcome.written.get(&key).copied();
            if found != wanted {
                let seconds = since_1970().as_secs_f64();
                outcome.failed.push(format!(
                    "key {key} is {found:?} and was written {wanted:?} (at {seconds:.3})"
                ));
            }
        }
        Err(fault) => outcome.failed.push(format!("read of {key}: {fault:?}")),
    }
    Ok(())
}

/// To compare with logs.
fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
