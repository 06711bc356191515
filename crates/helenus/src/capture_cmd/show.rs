//! What is in a capture.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use helenus_capture::{Reader, Reason, Recorded, Value, marks};

use crate::cells::printable;
use crate::figures::number;

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
    took_us: Vec<u32>,
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
            self.answer_bytes += answer.bytes;
            self.took_us
                .push(answer.took_us.min(u32::MAX.into()) as u32);
        }
    }

    fn cells(&mut self, seconds: f64) -> Vec<String> {
        self.took_us.sort_unstable();
        let answered = self.took_us.len().max(1) as f64;
        let at = |share: f64| {
            let place = (share * self.took_us.len() as f64) as usize;
            let us = self
                .took_us
                .get(place.min(self.took_us.len().saturating_sub(1)));
            us.map_or_else(String::new, |us| number(f64::from(*us) / 1e3))
        };
        vec![
            self.requests.to_string(),
            number(self.requests as f64 / seconds),
            self.errors.to_string(),
            at(0.5),
            at(0.99),
            number(self.value_bytes as f64 / self.requests.max(1) as f64),
            number(self.answer_bytes as f64 / answered),
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
    keys: HashMap<u64, u64>,
    connections: BTreeSet<(u32, u64)>,
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
            *self.keys.entry(key).or_default() += 1;
        }
        self.connections
            .insert((recorded.worker, request.connection));
        self.unanswered += u64::from(recorded.answer.is_none());
        self.pages += u64::from(request.marks & marks::CONTINUES != 0);
        self.last_us = self.last_us.max(request.arrived_us);
    }

    /// Shares of the most asked keys.
    fn key_shares(&self) -> String {
        let mut counts: Vec<u64> = self.keys.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let all: u64 = counts.iter().sum();
        let share = |of: usize| {
            let sum: u64 = counts.iter().take(of).sum();
            format!("{:.1} %", 100.0 * sum as f64 / all.max(1) as f64)
        };
        format!(
            "{} partition keys; of {all} requests with one, the most asked key has {}, the first 10 have {}, \
             100 {}, 1,000 {}",
            counts.len(),
            share(1),
            share(10),
            share(100),
            share(1_000)
        )
    }
}

/// Opens a capture.
pub(super) fn open(path: &Path) -> Result<Reader<std::io::BufReader<File>>> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
    Reader::open(std::io::BufReader::new(file)).with_context(|| shown.to_string())
}

pub(super) fn run(args: &ShowArgs) -> Result<()> {
    let mut reader = open(&args.file)?;
    let mut summary = Summary::default();
    while reader.next_chunk(|recorded| summary.add(&recorded))? {}
    let start = reader.start().clone();
    let mark = reader.mark();
    let seconds = (mark.at_us.max(summary.last_us) as f64 / 1e6).max(1e-6);
    let end = match reader.end().map(|end| end.reason) {
        Some(Reason::Time) => "it ended in time",
        Some(Reason::Size) => "it ended because the file had its size",
        None => "it was cut off: its reader or the proxy ended",
    };
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
    let mut classes: Vec<_> = summary.classes.iter_mut().collect();
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
    let mut statements: Vec<_> = summary.statements.iter_mut().collect();
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
    Ok(())
}

fn table<'a>(of: &str, rows: impl Iterator<Item = (String, &'a mut Group)>, seconds: f64) -> Table {
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
