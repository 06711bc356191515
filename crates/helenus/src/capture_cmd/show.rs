//! Contents of a capture.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use helenus_capture::{Reader, Reason, Recorded, Value, marks};
use helenus_console::cells::printable;
use helenus_console::figures::number;

/// Partition keys, and connections, that are told apart at most.
const NAMES_MAX: usize = 4_000_000;
/// Characters of a statement that are shown.
const STATEMENT_CHARS_MAX: usize = 90;

#[derive(Args)]
pub(super) struct ShowArgs {
    /// The capture
    file: PathBuf,
    /// Statements at most, the most frequent first
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

/// Requests of one kind.
#[derive(Default)]
struct Group {
    requests: u64,
    errors: u64,
    answered: u64,
    /// How many took about so long.
    took: BTreeMap<u32, u64>,
    answer_bytes: u64,
    value_bytes: u64,
}

impl Group {
    fn add(&mut self, recorded: &Recorded) {
        self.requests += 1;
        let values = recorded.parts.iter().flat_map(|(_, values)| values);
        let bytes = values.map(|value| match value {
            Value::Sized(bytes) => u64::from(*bytes),
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::Null | Value::Unset => 0,
        });
        self.value_bytes += bytes.sum::<u64>();
        if let Some(answer) = &recorded.answer {
            self.errors += u64::from(answer.error.is_some());
            self.answer_bytes = self.answer_bytes.saturating_add(answer.bytes);
            self.answered += 1;
            let us = answer.took_us.min(u32::MAX.into()) as u32;
            // To ten binary digits, so that there are few.
            let shift = (u32::BITS - us.leading_zeros()).saturating_sub(10);
            *self.took.entry(us >> shift << shift).or_default() += 1;
        }
    }

    /// Milliseconds within which a share of the requests was answered; empty if none was.
    fn took_ms(&self, share: f64) -> String {
        let place = (share * self.answered as f64) as u64;
        let mut passed = 0;
        let mut took = self.took.iter();
        let us = took.find(|(_, count)| {
            passed += **count;
            passed > place
        });
        us.map_or_else(String::new, |(us, _)| number(f64::from(*us) / 1e3))
    }

    fn cells(&self, seconds: f64) -> Vec<String> {
        vec![
            self.requests.to_string(),
            number(self.requests as f64 / seconds),
            self.errors.to_string(),
            self.took_ms(0.5),
            self.took_ms(0.99),
            number(self.value_bytes as f64 / self.requests.max(1) as f64),
            number(self.answer_bytes as f64 / self.answered.max(1) as f64),
        ]
    }
}

const FIGURES: [&str; 7] = [
    "requests",
    "per s",
    "errors",
    "p50 ms",
    "p99 ms",
    "bytes bound",
    "bytes answered",
];

/// All that is shown of a capture.
#[derive(Default)]
struct Summary {
    all: Group,
    classes: HashMap<u8, Group>,
    statements: HashMap<Option<usize>, Group>,
    /// Of the first [`NAMES_MAX`].
    keys: HashMap<u64, u64>,
    /// Requests of further keys.
    further_keys: u64,
    /// The first [`NAMES_MAX`].
    connections: HashSet<(u32, u64)>,
    unanswered: u64,
    pages: u64,
    last_us: u64,
}

impl Summary {
    fn add(&mut self, recorded: &Recorded) {
        let request = &recorded.request;
        self.all.add(recorded);
        self.classes.entry(request.class).or_default().add(recorded);
        let statement = recorded.parts.first().map(|(statement, _)| *statement);
        self.statements.entry(statement).or_default().add(recorded);
        if let Some(key) = request.key {
            let has_room = self.keys.len() < NAMES_MAX;
            match self.keys.get_mut(&key) {
                Some(count) => *count += 1,
                None if has_room => {
                    self.keys.insert(key, 1);
                }
                None => self.further_keys += 1,
            }
        }
        if self.connections.len() < NAMES_MAX {
            self.connections
                .insert((recorded.worker, request.connection));
        }
        self.unanswered += u64::from(recorded.answer.is_none());
        self.pages += u64::from(request.marks & marks::CONTINUES != 0);
        self.last_us = self.last_us.max(request.arrived_us);
    }

    /// Shares of the most asked keys.
    fn key_shares(&self) -> String {
        let mut counts: Vec<u64> = self.keys.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let all = counts.iter().sum::<u64>() + self.further_keys;
        let more = if self.further_keys > 0 {
            "more than "
        } else {
            ""
        };
        let share = |of: usize| {
            let sum: u64 = counts.iter().take(of).sum();
            format!("{:.1} %", 100.0 * sum as f64 / all.max(1) as f64)
        };
        format!(
            "{more}{} partition keys; of {all} requests with one, the most asked key has {}, the first 10 have {}, \
             100 {}, 1,000 {}",
            counts.len(),
            share(1),
            share(10),
            share(100),
            share(1_000)
        )
    }
}

/// Opens a capture; of values, only their sizes are read.
pub(super) fn open(path: &Path) -> Result<Reader<BufReader<File>>> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
    let reader = Reader::open(BufReader::new(file)).with_context(|| shown.to_string())?;
    Ok(reader.without_values())
}

/// How it ended.
pub(super) fn end(reader: &Reader<BufReader<File>>) -> &'static str {
    match reader.end().map(|end| end.reason) {
        Some(Reason::Time) => "it ended in time",
        Some(Reason::Size) => "it ended because the file had its size (--bytes-max)",
        Some(Reason::ValuesHidden) => {
            "it ended because it had values, and admin.show_keys of the proxy was switched off"
        }
        None if reader.is_cut_off() => "the file is cut off",
        None => "it was ended early: its reader was stopped, or the proxy",
    }
}

pub(super) fn run(args: &ShowArgs) -> Result<()> {
    let mut reader = open(&args.file)?;
    let mut summary = Summary::default();
    let damage = loop {
        match reader.next_chunk(|recorded| summary.add(&recorded)) {
            Ok(true) => {}
            Ok(false) => break None,
            Err(e) => break Some(e),
        }
    };
    let start = reader.start().clone();
    let mark = reader.mark();
    // Its last blocks come within a second after its time.
    let lasted_us = mark.at_us.min(start.wanted_us).max(summary.last_us);
    let seconds = (lasted_us as f64 / 1e6).max(1e-6);
    let end = end(&reader);
    println!(
        "captured by Helenus {} for {:?} of {:?}, {} of the connections, {}; {end}",
        printable(&start.proxy),
        Duration::from_millis((seconds * 1e3) as u64),
        Duration::from_micros(start.wanted_us),
        format_args!("{} %", f64::from(start.share_ppm) / 1e4),
        if start.has_values {
            "with values"
        } else {
            "without values"
        },
    );
    println!(
        "{} requests on {} connections, {} further pages, {} without an answer; missing: {}",
        summary.all.requests,
        summary.connections.len(),
        summary.pages,
        summary.unanswered,
        mark.lost
    );
    println!("{}", summary.key_shares());
    let mut classes: Vec<_> = summary.classes.iter().collect();
    classes.sort_by_key(|(class, _)| **class);
    let name = |class: u8| {
        start
            .classes
            .get(usize::from(class))
            .map_or("?", String::as_str)
    };
    let rows = classes
        .into_iter()
        .map(|(class, group)| (printable(name(*class)), group));
    println!("{}", table("class", rows, seconds));
    let mut statements: Vec<_> = summary.statements.iter().collect();
    statements.sort_by_key(|(of, group)| (std::cmp::Reverse(group.requests), **of));
    let text = |of: &Option<usize>| {
        let of = of.and_then(|of| reader.statements().get(of));
        let text = of.map_or("(not known to the proxy)", |of| of.text.as_str());
        let keyspace = of.and_then(|of| of.keyspace.as_deref());
        let text = match keyspace {
            Some(keyspace) => format!("{text} [{keyspace}]"),
            None => text.to_owned(),
        };
        let shown: String = printable(&text).chars().take(STATEMENT_CHARS_MAX).collect();
        shown
    };
    let all = statements.len();
    let rows = statements.into_iter().take(args.limit);
    let rows = rows.map(|(of, group)| (text(of), group));
    println!("{}", table("statement", rows, seconds));
    if all > args.limit {
        println!("{} more statements: --limit", all - args.limit);
    }
    match damage {
        None => Ok(()),
        Some(e) => Err(e).context("only what comes before the damage is shown"),
    }
}

fn table<'a>(of: &str, rows: impl Iterator<Item = (String, &'a Group)>, seconds: f64) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(std::iter::once(of).chain(FIGURES));
    for (name, group) in rows {
        table.add_row(std::iter::once(name).chain(group.cells(seconds)));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
