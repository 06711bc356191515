//! Random histories through the proxy over tables with layouts, and directly over plain ones: the
//! answers must be the same.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use helenus_cql::facts;
use helenus_layout::plan::{Write, write};
use helenus_tests::raw::{Fault, Prepared};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::batch::{self, Child};
use crate::client::{Answer, Asked, Request, Session};
use crate::schema::TestTable;
use crate::statement::Statement;
use crate::{selects, writes};

/// Keyspaces of the same length, so that nothing else differs: with layouts, and without.
pub(crate) const KEYSPACES: [&str; 2] = ["ks", "zq"];

/// Where the layouts of half of the tables are.
pub(crate) const DERIVED: &str = "dl";

/// Proxies look as soon as a node tells of a change.
const SCHEMA_READ_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub operations: usize,
    pub writes: usize,
    pub batches: usize,
    pub refused: usize,
    pub selects: usize,
    pub invalid: usize,
    pub rows: usize,
}

/// How the values of a statement are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Literals,
    Markers,
    /// Markers with names.
    Names,
}

/// A statement that both sides have prepared.
struct Known {
    statement: Statement,
    form: Form,
    /// Of the proxy and of the node.
    prepared: [Prepared; 2],
    is_select: bool,
}

/// One table with one connection of each side.
pub(crate) struct History<'a> {
    /// To the proxy and to a node.
    pub sessions: [Session; 2],
    pub table: &'a TestTable,
    pub rng: ChaCha8Rng,
    pub consistency: u16,
    pub timestamp: i64,
    /// The table gets more columns on the way.
    pub is_altered: bool,
    pub counts: Counts,
}

impl History<'_> {
    pub(crate) fn run(&mut self, operations: usize) -> Result<()> {
        for (session, keyspace) in self.sessions.iter_mut().zip(KEYSPACES) {
            session.run(&format!("USE {keyspace}"))?;
        }
        let mut known: Vec<Known> = Vec::new();
        for operation in 0..operations {
            self.counts.operations += 1;
            if self.is_altered && operation == operations / 3 {
                // A node forgets what it has prepared.
                known.clear();
                self.alter()?;
            }
            match self.rng.random_range(0..1000) {
                0..200 if known.len() < 24 => {
                    let is_select = self.rng.random_bool(0.7);
                    known.extend(self.prepare(is_select)?);
                }
                0..600 if !known.is_empty() => {
                    let at = self.rng.random_range(0..known.len());
                    self.execute(&mut known[at])?;
                }
                600..700 => self.batch(&known)?,
                700..900 => self.write()?,
                // Of derived ones it is carried out, in the end.
                900..902 if !self.table.logical.is_derived() => {
                    let text = format!("TRUNCATE {}", writes::name_of(self.table));
                    let request = self.of_write(&[], Form::Literals);
                    let answer = self.sessions[0].ask(Asked::Text(&text), &request)?;
                    self.refused(&text, answer)?;
                }
                _ => self.select_any()?,
            }
        }
        match self.table.logical.is_derived() {
            true => self.truncate(),
            false => Ok(()),
        }
    }

    fn select_any(&mut self) -> Result<()> {
        let statement = selects::select(&mut self.rng, self.table);
        let (text, values, form) = self.rendered(&statement);
        self.select(&text, None, &values, form)
    }

    /// Both sides are emptied, and have what is written afterwards.
    fn truncate(&mut self) -> Result<()> {
        let text = format!("TRUNCATE {}", writes::name_of(self.table));
        let request = self.of_write(&[], Form::Literals);
        let ask = |side: usize, session: &mut Session| {
            session.ask(Asked::Text(&of_side(&text, side)), &request)
        };
        self.both(&text, ask)?;
        for _ in 0..20 {
            self.select_any()?;
            self.write()?;
        }
        Ok(())
    }

    /// Both sides add columns. A proxy may answer a text that selects all columns with those that it knows, until it
    /// has read the schema again.
    fn alter(&mut self) -> Result<()> {
        for (session, keyspace) in self.sessions.iter_mut().zip(KEYSPACES) {
            session.run(&self.table.alter(keyspace))?;
        }
        self.table.is_altered.set(true);
        std::thread::sleep(SCHEMA_READ_WITHIN);
        Ok(())
    }

    /// The statement, maybe without its keyspace, which the connection knows.
    fn rendered(&mut self, statement: &Statement) -> (String, Vec<Vec<u8>>, Form) {
        let forms = [Form::Literals, Form::Markers, Form::Names];
        let form = *forms.choose(&mut self.rng).expect("some");
        let (text, values) = written(statement, form);
        match self.rng.random_bool(0.2) {
            true => (
                text.replace(&format!(" {}.t", KEYSPACES[0]), " t"),
                values,
                form,
            ),
            false => (text, values, form),
        }
    }

    /// A statement that will be executed with other values again and again.
    fn prepare(&mut self, is_select: bool) -> Result<Option<Known>> {
        let statement = match is_select {
            true => selects::select(&mut self.rng, self.table),
            false => writes::write(&mut self.rng, self.table),
        };
        let (text, _, form) = self.rendered(&statement);
        if !is_select && (self.is_refused(&text) || self.is_unlike(&text)) {
            // It may be refused when it is prepared or when it is executed.
            return Ok(None);
        }
        let mut sides = Vec::new();
        for (side, session) in self.sessions.iter_mut().enumerate() {
            sides.push(session.client.try_prepare(&of_side(&text, side))?);
        }
        let [through, direct] = sides.try_into().expect("two sides");
        match (through, direct) {
            (Ok(through), Ok(direct)) => Ok(Some(Known {
                statement,
                form,
                prepared: [through, direct],
                is_select,
            })),
            (through, direct) => {
                let of = |side: std::result::Result<Prepared, Fault>| side.map(|p| p.columns);
                same(&text, of(through), of(direct))?;
                self.counts.invalid += 1;
                Ok(None)
            }
        }
    }

    fn execute(&mut self, known: &mut Known) -> Result<()> {
        if known.form != Form::Literals {
            known.statement.redraw(&mut self.rng, writes::KEY_VALUES);
        }
        let (text, values) = written(&known.statement, known.form);
        if known.is_select {
            return self.select(&text, Some(&known.prepared), &values, known.form);
        }
        self.counts.writes += 1;
        let request = self.of_write(&values, known.form);
        let prepared = &known.prepared;
        let ask = |side: usize, session: &mut Session| {
            session.ask(Asked::Prepared(prepared[side].ids()), &request)
        };
        self.both(&text, ask)
    }

    fn select(
        &mut self,
        text: &str,
        prepared: Option<&[Prepared; 2]>,
        values: &[Vec<u8>],
        form: Form,
    ) -> Result<()> {
        self.counts.selects += 1;
        let page_size = self
            .rng
            .random_bool(0.7)
            .then(|| self.rng.random_range(1..9));
        let request = Request {
            values,
            named: form == Form::Names && self.rng.random_bool(0.5),
            skip_metadata: prepared.is_some() && self.rng.random_bool(0.5),
            page_size,
            consistency: self.consistency,
            timestamp: None,
        };
        let ask = |side: usize, session: &mut Session| match prepared {
            Some(prepared) => session.ask(Asked::Prepared(prepared[side].ids()), &request),
            None => session.ask(Asked::Text(&of_side(text, side)), &request),
        };
        self.both(text, ask).with_context(|| format!("{request:?}"))
    }

    /// A write as text, or prepared for this once.
    fn write(&mut self) -> Result<()> {
        let statement = writes::write(&mut self.rng, self.table);
        let (text, values, form) = self.rendered(&statement);
        let prepared = self.rng.random_bool(0.3);
        let request = self.of_write(&values, form);
        if self.is_unlike(&text) {
            return Ok(());
        }
        if self.is_refused(&text) {
            let answer = self.sessions[0].carry_out(&text, prepared, &request)?;
            return self.refused(&text, answer);
        }
        self.counts.writes += 1;
        let ask = |side: usize, session: &mut Session| {
            session.carry_out(&of_side(&text, side), prepared, &request)
        };
        self.both(&text, ask)
    }

    /// Texts and prepared statements, or one text.
    fn batch(&mut self, known: &[Known]) -> Result<()> {
        let known: Vec<&Known> = known.iter().filter(|known| !known.is_select).collect();
        let mut statements = Vec::new();
        for _ in 0..self.rng.random_range(1..5) {
            let of_known = known
                .choose(&mut self.rng)
                .filter(|_| self.rng.random_bool(0.5));
            statements.push(match of_known {
                Some(known) => {
                    let mut statement = known.statement.clone();
                    if known.form != Form::Literals {
                        statement.redraw(&mut self.rng, writes::KEY_VALUES);
                    }
                    (statement, Some(*known))
                }
                None => (writes::write(&mut self.rng, self.table), None),
            });
        }
        // As one text: what one of them is compared for, all of them are.
        let all: Vec<String> = statements.iter().map(|(s, _)| s.with_literals()).collect();
        let is_compared = all.iter().any(|text| self.is_compared(text));
        let leaves_open = |text: &String| is_compared && leaves_partition_open(text);
        if all
            .iter()
            .any(|text| self.is_unlike(text) || leaves_open(text))
        {
            return Ok(());
        }
        let refused = statements
            .iter()
            .any(|(statement, _)| self.is_refused(&statement.with_literals()));
        let kind = self.rng.random_range(0..2u8);
        let request = self.of_write(&[], Form::Literals);
        let as_text = self.rng.random_bool(0.3);
        let texts: Vec<String> = statements.iter().map(|(s, _)| s.with_literals()).collect();
        let word = if kind == 1 { " UNLOGGED" } else { "" };
        let text = format!("BEGIN{word} BATCH {} APPLY BATCH", texts.join("; "));
        let ask = |side: usize, session: &mut Session| {
            if as_text {
                return session.ask(Asked::Text(&of_side(&text, side)), &request);
            }
            let children = statements.iter().map(|(statement, known)| match known {
                Some(known) => {
                    let (_, values) = written(statement, known.form);
                    Child::Prepared(&known.prepared[side], values)
                }
                None => {
                    let (text, values) = statement.with_markers();
                    Child::Text(of_side(&text, side), values)
                }
            });
            let children: Vec<Child<'_>> = children.collect();
            batch::ask(session, kind, &children, &request)
        };
        if refused {
            let answer = ask(0, &mut self.sessions[0])?;
            return self.refused(&text, answer);
        }
        self.counts.batches += 1;
        self.both(&text, ask)
    }

    /// Sometimes older than what was written before.
    fn of_write<'v>(&mut self, values: &'v [Vec<u8>], form: Form) -> Request<'v> {
        self.timestamp += 10;
        Request {
            values,
            named: form == Form::Names && self.rng.random_bool(0.5),
            consistency: self.consistency,
            timestamp: Some(self.timestamp - self.rng.random_range(0..40)),
            ..Request::default()
        }
    }

    /// True if the two sides differ in what they are told: each calls functions by itself, and the proxy refuses what
    /// it has to compare in partitions that it does not know.
    fn is_unlike(&self, text: &str) -> bool {
        self.table.logical.is_derived()
            && (text.contains("now()") || self.is_compared(text) && leaves_partition_open(text))
    }

    fn is_compared(&self, text: &str) -> bool {
        let plan = write(&self.table.logical, text, &facts(text));
        matches!(plan, Write::Compared)
    }

    fn is_refused(&self, text: &str) -> bool {
        let plan = write(&self.table.logical, text, &facts(text));
        matches!(plan, Write::Refused(_))
    }

    fn refused(&mut self, text: &str, answer: std::result::Result<Answer, Fault>) -> Result<()> {
        self.counts.refused += 1;
        match answer {
            Err(fault) if fault.code == 0x2200 && fault.message.contains("layouts") => Ok(()),
            other => bail!("{text} is not refused: {other:?}"),
        }
    }

    fn both(
        &mut self,
        text: &str,
        ask: impl Fn(usize, &mut Session) -> Result<std::result::Result<Answer, Fault>>,
    ) -> Result<()> {
        let [through, direct] = &mut self.sessions;
        let through = ask(0, through).with_context(|| text.to_owned())?;
        let direct = ask(1, direct).with_context(|| text.to_owned())?;
        match &direct {
            Ok(answer) => self.counts.rows += answer.rows.len(),
            Err(_) => self.counts.invalid += 1,
        }
        same(text, through, direct.map(as_through))
    }
}

fn written(statement: &Statement, form: Form) -> (String, Vec<Vec<u8>>) {
    match form {
        Form::Literals => (statement.with_literals(), Vec::new()),
        Form::Markers => statement.with_markers(),
        Form::Names => statement.with_names(),
    }
}

/// The statement of this side.
fn of_side(text: &str, side: usize) -> String {
    let table = |side: usize| format!(" {}.t", KEYSPACES[side]);
    text.replace(&table(0), &table(side))
}

fn as_through(mut answer: Answer) -> Answer {
    for column in &mut answer.columns {
        KEYSPACES[0].clone_into(&mut column.table[0]);
    }
    answer
}

fn same<T: std::fmt::Debug + PartialEq>(
    text: &str,
    through: std::result::Result<T, Fault>,
    direct: std::result::Result<T, Fault>,
) -> Result<()> {
    let direct = direct.map_err(|fault| Fault {
        message: fault.message.replace(KEYSPACES[1], KEYSPACES[0]),
        ..fault
    });
    ensure!(
        through == direct,
        "{text}: {through:?} through the proxy, {direct:?} directly"
    );
    Ok(())
}

/// True if a text may not tell the proxy which partition it is about.
fn leaves_partition_open(text: &str) -> bool {
    [" IN ", " JSON ", ":m"].iter().any(|of| text.contains(of))
}
