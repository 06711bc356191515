//! One history: each operation through the proxy on the table with encoded columns, and directly on a plain one.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use helenus_payload::{Codec, DictionaryId, Encoder, Learned};
use helenus_tests::raw::Fault;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::session::{Answer, Child, Request, Session};
use crate::statements::{Form, Statement, TABLE, select, write};

/// With encoded columns, and without.
pub(crate) const KEYSPACES: [&str; 2] = ["ks", "pl"];
/// Name, column of encoded values, codec.
pub(crate) const COLUMNS: [(&str, &str, &str); 2] = [
    ("doc", "doc__encoded", "shape"),
    ("Note", "Note__encoded", "cbor"),
];

const REFUSED: [&str; 5] = [
    "SELECT count(doc) FROM {table}",
    "SELECT * FROM {table} WHERE \"Note\" = 'x' ALLOW FILTERING",
    "SELECT JSON count(doc) FROM {table}",
    "INSERT INTO {table} JSON '{\"k\": 1, \"c\": 1, \"doc__encoded\": null}'",
    "UPDATE {table} SET n = 1 WHERE k = 1 AND c = 1 IF doc = 'x'",
];

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub writes: usize,
    pub conditional: usize,
    pub batches: usize,
    pub selects: usize,
    pub rows: usize,
    pub invalid: usize,
    pub refused: usize,
    pub moved: usize,
    /// Values that were found encoded.
    pub encoded: usize,
}

pub(crate) struct History {
    sessions: [Session; 2],
    encoders: [Encoder; 2],
}

impl History {
    pub(crate) fn new(sessions: [Session; 2], learned: Learned) -> History {
        let learned = std::sync::Arc::new(learned);
        let of = || Some((DictionaryId(1), learned.clone()));
        let encoders = [
            Encoder::new(Codec::Shape, of()),
            Encoder::new(Codec::Cbor, None),
        ];
        History { sessions, encoders }
    }

    pub(crate) fn run(
        &mut self,
        rng: &mut ChaCha8Rng,
        operations: u64,
        state: &str,
        counts: &mut Counts,
    ) -> Result<()> {
        for _ in 0..operations {
            match rng.random_range(0..100) {
                0..30 => self.write(rng, counts)?,
                30..40 => self.batch(rng, counts)?,
                40..42 => self.refused(rng, counts)?,
                42..47 if state == "encoded" => {
                    let (k, c) = (rng.random_range(0..6), rng.random_range(0..20));
                    self.move_rows(&format!("WHERE k = {k} AND c = {c}"), counts)?;
                }
                _ => self.select(rng, counts)?,
            }
        }
        Ok(())
    }

    fn request(&self, rng: &mut ChaCha8Rng, of: &Statement) -> Request {
        Request {
            prepared: rng.random_bool(0.6),
            values: of.values.clone(),
            named: of.form == Form::Names && rng.random_bool(0.5),
            ..Request::default()
        }
    }

    fn write(&mut self, rng: &mut ChaCha8Rng, counts: &mut Counts) -> Result<()> {
        let statement = write(rng, true);
        let mut request = self.request(rng, &statement);
        if !statement.is_conditional {
            // Sometimes older than what was written before.
            request.timestamp = Some(now_us() - rng.random_range(0..20));
        }
        counts.writes += 1;
        counts.conditional += usize::from(statement.is_conditional);
        self.both(&statement.text, counts, |session, text| {
            session.ask(text, &request)
        })
    }

    fn batch(&mut self, rng: &mut ChaCha8Rng, counts: &mut Counts) -> Result<()> {
        // Of two values with one time, the greater counts: another one if they are encoded.
        let mut statements: Vec<Statement> = Vec::new();
        let count = rng.random_range(1..5);
        while statements.len() < count {
            let of = write(rng, false);
            let is_other = statements.iter().all(|other| other.key != of.key);
            if of.form != Form::Names && is_other {
                statements.push(of);
            }
        }
        let prepared: Vec<bool> = statements.iter().map(|_| rng.random_bool(0.5)).collect();
        let kind = rng.random_range(0..2);
        let timestamp = now_us();
        counts.batches += 1;
        if statements.iter().all(|of| of.form == Form::Literals) && rng.random_bool(0.7) {
            let texts: Vec<&str> = statements.iter().map(|of| of.text.as_str()).collect();
            let text = format!("BEGIN UNLOGGED BATCH {} APPLY BATCH", texts.join("; "));
            let request = Request {
                timestamp: Some(timestamp),
                ..Request::default()
            };
            return self.both(&text, counts, |session, text| session.ask(text, &request));
        }
        let all: Vec<String> = statements.iter().map(|of| of.text.clone()).collect();
        self.both(&all.join("\n"), counts, |session, texts| {
            let children: Vec<Child> = texts
                .split('\n')
                .zip(statements.iter().zip(&prepared))
                .map(|(text, (of, prepared))| Child {
                    text: text.to_owned(),
                    prepared: *prepared,
                    values: of.values.clone(),
                })
                .collect();
            session.batch(kind, &children, timestamp)
        })
    }

    fn select(&mut self, rng: &mut ChaCha8Rng, counts: &mut Counts) -> Result<()> {
        let statement = select(rng);
        let mut request = self.request(rng, &statement);
        request.skip_metadata = request.prepared && rng.random_bool(0.5);
        request.page_size = rng.random_bool(0.6).then(|| rng.random_range(1..9));
        counts.selects += 1;
        self.both(&statement.text, counts, |session, text| {
            session.ask(text, &request)
        })
        .with_context(|| format!("{request:?}"))
    }

    fn refused(&mut self, rng: &mut ChaCha8Rng, counts: &mut Counts) -> Result<()> {
        let text = REFUSED.choose(rng).expect("statements");
        let text = text.replace(TABLE, "ks.t");
        let request = Request {
            prepared: rng.random_bool(0.5),
            ..Request::default()
        };
        counts.refused += 1;
        match self.sessions[0].ask(&text, &request)? {
            Err(fault) if fault.code == 0x2200 && fault.message.contains("ks.t") => Ok(()),
            other => bail!("{text} is not refused: {other:?}"),
        }
    }

    /// Encodes the texts of rows, as `helenus payload enable` does.
    fn move_rows(&mut self, of: &str, counts: &mut Counts) -> Result<()> {
        let node = &mut self.sessions[1];
        for ((column, hidden, _), encoder) in COLUMNS.into_iter().zip(&mut self.encoders) {
            let text = format!(
                "SELECT k, c, \"{column}\", writetime(\"{column}\"), ttl(\"{column}\") FROM ks.t {of}"
            );
            for row in node.client.query(&text)? {
                let [Some(k), Some(c), Some(value), Some(written), ttl] = &row[..] else {
                    continue;
                };
                let value = std::str::from_utf8(value)?;
                let mut stored = Vec::new();
                let _ = encoder.encode(value, &mut stored);
                let (k, c) = (int(k)?, int(c)?);
                // The other column may have been deleted with the value's own time.
                let written = i64::from_be_bytes(written.as_slice().try_into()?) + 1;
                let ttl = match ttl {
                    Some(ttl) => format!(" AND TTL {}", int(ttl)?),
                    None => String::new(),
                };
                node.client.query(&format!(
                    "UPDATE ks.t USING TIMESTAMP {written}{ttl} SET \"{hidden}\" = {}, \"{column}\" = null \
                     WHERE k = {k} AND c = {c}",
                    crate::hex(&stored)
                ))?;
                counts.moved += 1;
            }
        }
        Ok(())
    }

    /// [`Self::move_rows`] for all rows; then no text is left.
    pub(crate) fn move_all(&mut self, counts: &mut Counts) -> Result<()> {
        self.move_rows("", counts)?;
        let rows = self.sessions[1]
            .client
            .query("SELECT doc, \"Note\", doc__encoded, \"Note__encoded\" FROM ks.t")?;
        for row in rows {
            ensure!(row[0].is_none() && row[1].is_none(), "a text is left");
            counts.encoded += row[2..].iter().flatten().count();
        }
        Ok(())
    }

    /// Checks the table's definition as clients see it.
    pub(crate) fn told_of_the_schema(&mut self) -> Result<()> {
        let columns = "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'ks'";
        let rows = self.sessions[0].client.query(columns)?;
        let names: Vec<String> = rows
            .iter()
            .map(|row| String::from_utf8_lossy(row[0].as_deref().unwrap_or_default()).into_owned())
            .collect();
        ensure!(names == ["Note", "c", "doc", "k", "m", "n"], "{names:?}");
        for text in [
            "DESCRIBE TABLE ks.t",
            "DESCRIBE KEYSPACE ks",
            "DESCRIBE SCHEMA",
        ] {
            let through = self.sessions[0].client.query(text)?;
            let all = through.into_iter().flatten().flatten().collect::<Vec<_>>();
            let all = String::from_utf8_lossy(&all.concat()).into_owned();
            ensure!(all.contains("doc text"), "{text}: {all}");
            ensure!(!all.contains("__encoded"), "{text}: {all}");
        }
        Ok(())
    }

    fn both(
        &mut self,
        text: &str,
        counts: &mut Counts,
        ask: impl Fn(&mut Session, &str) -> Result<std::result::Result<Answer, Fault>>,
    ) -> Result<()> {
        let [through, direct] = &mut self.sessions;
        let of = |side: usize| text.replace(TABLE, &format!("{}.t", KEYSPACES[side]));
        let through = ask(through, &of(0)).with_context(|| of(0))?;
        let direct = ask(direct, &of(1)).with_context(|| of(1))?;
        match (through, direct) {
            (Ok(through), Ok(mut direct)) => {
                for column in &mut direct.columns {
                    KEYSPACES[0].clone_into(&mut column.table[0]);
                }
                counts.rows += direct.rows.len();
                ensure!(
                    through.rows == direct.rows,
                    "{text}: {:?} through the proxy, {:?} directly",
                    show(&through),
                    show(&direct)
                );
                let has_columns = !direct.columns.is_empty();
                ensure!(
                    !has_columns || through.columns == direct.columns,
                    "{text}: columns {:?} through the proxy, {:?} directly",
                    through.columns,
                    direct.columns
                );
                Ok(())
            }
            (Err(through), Err(direct)) => {
                counts.invalid += 1;
                let message = direct.message.replace(KEYSPACES[1], KEYSPACES[0]);
                ensure!(
                    through.code == direct.code && through.message == message,
                    "{text}: {through:?} through the proxy, {direct:?} directly"
                );
                Ok(())
            }
            (through, direct) => {
                bail!("{text}: {through:?} through the proxy, {direct:?} directly")
            }
        }
    }
}

fn show(answer: &Answer) -> Vec<Vec<Option<String>>> {
    let cell = |cell: &Option<Vec<u8>>| {
        let bytes = cell.as_deref()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    let rows = answer.rows.iter();
    rows.map(|row| row.iter().map(cell).collect()).collect()
}

fn int(bytes: &[u8]) -> Result<i32> {
    Ok(i32::from_be_bytes(bytes.try_into()?))
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}
