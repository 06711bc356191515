//! Clients that know what they have written: each has rows of its own, so that every answer can be judged.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use helenus_tests::raw::Fault;
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

use crate::session::{Answer, Request, Session, Value};
use crate::statements::document;

/// Rows of one client.
pub(crate) const ROWS: i32 = 30;
/// Attempts of one request: proxies and nodes may be busy.
const ATTEMPTS: usize = 200;

/// The row of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub doc: Option<String>,
    pub n: Option<i32>,
}

/// One client with a session on each of two proxies.
pub(crate) struct Client {
    sessions: [Session; 2],
    rng: ChaCha8Rng,
    table: &'static str,
    /// The partition that nobody else writes.
    pub partition: i32,
    pub rows: BTreeMap<i32, Row>,
    last_us: i64,
    pub writes: usize,
    pub reads: usize,
    /// Writes that were sent twice.
    pub repeated: usize,
}

impl Client {
    pub(crate) fn new(
        proxies: [SocketAddr; 2],
        table: &'static str,
        partition: i32,
        seed: u64,
    ) -> Result<Client> {
        // Of each version one.
        let sessions = [Session::open(proxies[0], 5)?, Session::open(proxies[1], 4)?];
        Ok(Client {
            sessions,
            rng: ChaCha8Rng::seed_from_u64(seed + partition as u64),
            table,
            partition,
            rows: BTreeMap::new(),
            last_us: 0,
            writes: 0,
            reads: 0,
            repeated: 0,
        })
    }

    /// Works until it is told to end. Fails at the first answer that is wrong.
    pub(crate) fn run(&mut self, ends: &AtomicBool) -> Result<()> {
        while !ends.load(Ordering::Relaxed) {
            match self.rng.random_bool(0.4) {
                true => self.write()?,
                false => self.read()?,
            }
            // Leaves some of the machine to the commands, and to tests beside this one.
            thread::sleep(Duration::from_millis(2));
        }
        for c in 0..ROWS {
            self.check_row(c)?;
        }
        Ok(())
    }

    fn side(&mut self) -> usize {
        self.rng.random_range(0..2)
    }

    fn write(&mut self) -> Result<()> {
        let c = self.rng.random_range(0..ROWS);
        let doc = match self.rng.random_range(0..8) {
            0 => Value::Null,
            1 => Value::Unset,
            _ => Value::Text(document(&mut self.rng)),
        };
        let n = self.rng.random_range(0..1_000);
        let key = [Value::Int(self.partition), Value::Int(c)];
        let table = self.table;
        let mut row = self.rows.get(&c).cloned().unwrap_or_default();
        let (text, values) = match self.rng.random_range(0..10) {
            0 => {
                row = Row::default();
                (
                    format!("DELETE FROM {table} WHERE k = ? AND c = ?"),
                    key.to_vec(),
                )
            }
            1 => {
                row.doc = None;
                (
                    format!("DELETE doc FROM {table} WHERE k = ? AND c = ?"),
                    key.to_vec(),
                )
            }
            2 => {
                put(&mut row, &doc);
                let text =
                    format!("UPDATE {table} USING TTL 80000 SET doc = ? WHERE k = ? AND c = ?");
                (text, [&[doc][..], &key].concat())
            }
            _ => {
                put(&mut row, &doc);
                row.n = Some(n);
                let text = format!("INSERT INTO {table} (k, c, doc, n) VALUES (?, ?, ?, ?)");
                (text, [&key[..], &[doc, Value::Int(n)]].concat())
            }
        };
        self.last_us = now_us().max(self.last_us + 1);
        let request = Request {
            prepared: self.rng.random_bool(0.7),
            values,
            timestamp: Some(self.last_us),
            ..Request::default()
        };
        let side = self.side();
        self.ask(side, &text, &request)?;
        if self.rng.random_bool(0.3) {
            // As drivers do that have not heard of the first in time: through another proxy, with its time.
            self.ask(1 - side, &text, &request)?;
            self.repeated += 1;
        }
        self.writes += 1;
        self.rows.insert(c, row);
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let c = self.rng.random_range(0..ROWS);
        self.check_row(c)?;
        self.reads += 1;
        Ok(())
    }

    fn check_row(&mut self, c: i32) -> Result<()> {
        let selected = *["doc, n", "*", "n, doc AS n2, k"]
            .choose(&mut self.rng)
            .expect("selections");
        let text = format!(
            "SELECT {selected} FROM {} WHERE k = ? AND c = ?",
            self.table
        );
        let request = Request {
            prepared: true,
            values: vec![Value::Int(self.partition), Value::Int(c)],
            ..Request::default()
        };
        let side = self.side();
        let answer = self.ask(side, &text, &request)?;
        let names: Vec<&str> = answer.columns.iter().map(|of| of.name.as_str()).collect();
        let expected: &[&str] = match selected {
            "*" => &["k", "c", "doc", "n"],
            "doc, n" => &["doc", "n"],
            _ => &["n", "n2", "k"],
        };
        ensure!(names == expected, "{text}: columns {names:?}");
        let at = |name: &str| names.iter().position(|of| *of == name);
        let doc = at("doc").or(at("n2")).context("a column")?;
        let n = at("n").context("a column")?;
        let found = match &answer.rows[..] {
            [] => Row::default(),
            [row] => Row {
                doc: row[doc].clone().map(String::from_utf8).transpose()?,
                n: row[n].as_deref().map(int).transpose()?,
            },
            rows => bail!("{text}: {} rows", rows.len()),
        };
        let known = self.rows.get(&c).cloned().unwrap_or_default();
        ensure!(
            found == known,
            "{text}, k = {}, c = {c}, through proxy {side}: {found:?}, not {known:?}",
            self.partition
        );
        Ok(())
    }

    /// Asks until it is answered: what a busy proxy or node refuses is asked again, as it was.
    fn ask(&mut self, side: usize, text: &str, request: &Request) -> Result<Answer> {
        let mut last: Option<Fault> = None;
        for _ in 0..ATTEMPTS {
            match self.sessions[side].ask(text, request)? {
                Ok(answer) => return Ok(answer),
                // Overloaded, write and read time-outs.
                Err(fault) if [0x1001, 0x1100, 0x1200].contains(&fault.code) => {
                    last = Some(fault);
                }
                Err(fault) => bail!("{text}: {fault:?}"),
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        bail!("{text} fails for ever: {last:?}")
    }
}

fn put(row: &mut Row, doc: &Value) {
    match doc {
        Value::Text(text) => row.doc = Some(text.clone()),
        Value::Null => row.doc = None,
        _ => {}
    }
}

pub(crate) fn int(bytes: &[u8]) -> Result<i32> {
    Ok(i32::from_be_bytes(bytes.try_into()?))
}

pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

/// A seed to replay, or one that is printed.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("HELENUS_SEED").ok();
    let given = given.map(|text| text.parse().expect("HELENUS_SEED is a number"));
    let seed = given.unwrap_or_else(|| rand::rng().next_u32().into());
    println!("seed {seed} (HELENUS_SEED)");
    seed
}
