//! `helenus payload status`: which columns are encoded, and whether they are as they should be.

use anyhow::{Result, bail};
use clap::Args;
use comfy_table::{Table as TextTable, presets};
use futures::{StreamExt, TryStreamExt, stream};
use helenus_catalogue::{Encoding, Feature, Form, Written};
use helenus_rows::{Column, Row, Table, TableName};
use scylla::statement::Consistency;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

use super::dictionary::{Dictionaries, too_many};
use super::entry;
use super::moving::narrowed;
use super::{proxies, target};
use crate::catalogue::{self, told_lost};
use crate::nodes::access::Access;
use crate::nodes::asked::Asked;
use crate::nodes::cluster::Cluster;
use crate::nodes::progress::bar;
use crate::nodes::reading::{Reader, Throttle};
use crate::nodes::{ring, table};

/// Ranges that are counted at the same time.
const PARALLEL: usize = 4;

/// Show the encoded columns of a table, or of all tables.
///
/// Exit codes: 0 all are as they should be, 1 something is wrong.
#[derive(Args)]
pub struct StatusArgs {
    /// KEYSPACE.TABLE [default: all tables with encoded columns]
    table: Option<TableName>,
    /// Read all rows, and count those with a text and those with an encoded value
    #[arg(long)]
    count: bool,
    #[command(flatten)]
    access: Access,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// An encoded column with its problems, progress and counts.
struct Found {
    entry: Encoding,
    problems: Vec<String>,
    /// Facts that are worth knowing and no problem.
    notices: Vec<String>,
    /// Ranges moved and all ranges, while values are moved.
    progress: Option<(usize, u64)>,
    counted: Option<Counted>,
    dictionaries: Vec<u32>,
}

/// Values that the two columns have.
#[derive(Debug, Default)]
struct Counted {
    texts: AtomicU64,
    encoded: AtomicU64,
    bytes_texts: AtomicU64,
    bytes_encoded: AtomicU64,
}

pub async fn run(args: StatusArgs) -> Result<()> {
    let cluster = args.access.connect().await?;
    let names = match &args.table {
        Some(name) => vec![name.clone()],
        None => {
            let tables = catalogue::tables(&cluster, Feature::Encodings).await?;
            tables.iter().map(catalogue::name).collect()
        }
    };
    let mut lost = catalogue::lost(&cluster).await?;
    lost.retain(|flag| flag.feature == Feature::Encodings);
    let (mut problems, mut left) = (Vec::new(), Vec::new());
    let mut tables: Vec<(TableName, Vec<Found>)> = Vec::new();
    for name in names {
        let known = catalogue::read_with_losses(&cluster, &name).await?;
        if args.table.is_some() && known.encodings().is_empty() {
            table::load(&cluster, &name).await?;
        }
        let mut columns = Vec::new();
        for entry in known.encodings() {
            columns.push(found(&cluster, &name, entry, args.count).await?);
        }
        if columns.is_empty() && known.flag(Feature::Encodings).is_some() {
            left.push(format!(
                "{name} has an encoded column no more, and a command that took the last one back was interrupted: \
                 `helenus payload disable {name} COLUMN` goes on, whatever the column"
            ));
        }
        let key = catalogue::key(&name);
        problems.extend(lost.iter().filter(|flag| flag.table == key).map(told_lost));
        tables.push((name, columns));
    }
    let any = tables.iter().any(|(_, columns)| !columns.is_empty());
    // Problems of all of them.
    if any {
        problems.extend(of_proxies(&cluster).await);
    }
    let shown = tables.iter().map(|(name, columns)| as_json(name, columns));
    match args.json {
        true => println!(
            "{:#}",
            json!({
                "problems": problems,
                "interrupted": left,
                "tables": shown.collect::<Vec<_>>(),
            })
        ),
        false => {
            print_text(&tables, &problems);
            left.iter().for_each(|line| println!("{line}"));
        }
    }
    let columns = tables.iter().flat_map(|(_, columns)| columns);
    let wrong = columns.filter(|of| of.is_wrong()).count() + problems.len();
    if wrong > 0 {
        bail!("{wrong} of what is shown is not as it should be");
    }
    Ok(())
}

impl Found {
    fn of(entry: &Encoding) -> Found {
        Found {
            entry: entry.clone(),
            problems: Vec::new(),
            notices: Vec::new(),
            progress: None,
            counted: None,
            dictionaries: Vec::new(),
        }
    }

    fn is_wrong(&self) -> bool {
        !self.problems.is_empty()
    }

    fn note_dictionaries(&mut self, name: &TableName, dictionaries: &Dictionaries) {
        self.dictionaries = dictionaries.known.keys().map(|id| id.0).collect();
        self.problems
            .extend(dictionaries.problems.values().cloned());
        // That no further one is made is wrong only for whoever wants one.
        let count = dictionaries.known.len() + dictionaries.problems.len();
        self.notices.extend(too_many(name, count));
        if let Err(why) = dictionaries.writer(&self.entry.codec, self.entry.dictionary) {
            self.problems
                .push(format!("new values are stored as they are: {why:#}"));
        }
    }
}

async fn of_proxies(cluster: &Cluster) -> Vec<String> {
    match proxies::check(cluster).await {
        Ok(()) => Vec::new(),
        Err(why) => vec![format!("{why:#}")],
    }
}

async fn found(
    cluster: &Cluster,
    name: &TableName,
    entry: &Encoding,
    count: bool,
) -> Result<Found> {
    let mut found = Found::of(entry);
    let Encoding { column, state, .. } = entry;
    if entry.written().is_none() {
        found.problems.push(format!(
            "its state {state:?} is unknown: it was made by another version of helenus"
        ));
    }
    let dictionaries = Dictionaries::load(cluster, name).await?;
    found.note_dictionaries(name, &dictionaries);
    if !table::exists(cluster, &name.keyspace, &name.table).await? {
        found.problems.push(format!(
            "there is no table {name} any more: `helenus payload disable {name} {column}` takes it out of the \
             catalogue. If the table was created anew, it has to be done first"
        ));
        return Ok(found);
    }
    let table = table::load(cluster, name).await?;
    found.problems.extend(misfits(&table, entry));
    let in_the_way = target::in_the_way(cluster, &table, column).await?;
    found.problems.extend(in_the_way);
    if matches!(entry.written(), Some(Written::Encoded | Written::Text)) {
        let (done, all) = entry::task(entry, name).done(cluster).await?;
        found.progress = all.map(|all| (done.len(), all));
    }
    let is_there = |name: &str| table.regulars.iter().any(|of| of.name == name);
    if count && is_there(column) && is_there(&entry.hidden) {
        let counted = counted(cluster, &table, entry).await?;
        let [texts, ..] = counted.get();
        found.problems.extend(unseen(name, entry, texts));
        found.counted = Some(counted);
    }
    Ok(found)
}

/// Texts that clients do not see, because in this state there are none but for those written past the proxies.
fn unseen(name: &TableName, entry: &Encoding, texts: u64) -> Option<String> {
    let Encoding { column, .. } = entry;
    let is_read = entry.written() != Some(Written::EncodedOnly);
    (texts > 0 && !is_read).then(|| {
        format!(
            "{texts} rows have a text that clients do not see, because it was written past the proxies. Read the \
             column directly at the nodes and keep these texts before anything else: `helenus payload disable {name} \
             {column}` shows such a text only where the row has no encoded value, and once the row is moved the later \
             of the two remains, by their timestamps"
        )
    })
}

/// Where the table's columns are not those of the catalogue.
fn misfits(table: &Table, entry: &Encoding) -> Vec<String> {
    let Encoding { column, hidden, .. } = entry;
    let find = |name: &str| {
        let is_it = |of: &&Column| of.name == name;
        table.regulars.iter().find(is_it)
    };
    let mut problems = Vec::new();
    match find(column).map(|of| &*of.cql_type) {
        Some("text" | "varchar") => {}
        Some(other) => problems.push(format!("column {column} is of type {other}, not text")),
        None => problems.push(format!(
            "{} has no column {column}, so that statements which name it are refused",
            table.name
        )),
    }
    match find(hidden).map(|of| &*of.cql_type) {
        Some("blob") => {}
        None if entry.written() == Some(Written::Announced) => {}
        Some(other) => problems.push(format!("column {hidden} is of type {other}, not blob")),
        None => problems.push(format!(
            "{} has no column {hidden} for encoded values, so that statements which name {column} are refused. If \
             the table was created anew, ALTER TABLE {} ADD {} blob; if the column was dropped, restore a backup",
            table.name,
            table.name.to_cql(),
            helenus_cql::Name::from_stored(hidden.as_str()).to_cql()
        )),
    }
    problems
}

/// Counts values by reading all rows, each from one replica.
async fn counted(cluster: &Cluster, table: &Table, entry: &Encoding) -> Result<Counted> {
    let mut narrow = narrowed(table, &entry.column);
    narrow
        .regulars
        .extend(narrowed(table, &entry.hidden).regulars);
    let reader = Reader::new(cluster, &narrow, &table.name, Consistency::LocalOne).await?;
    let ranges = helenus_rows::split(ring::suitable(cluster, &table.name).await);
    let throttle = Throttle::new(None);
    let counted = Counted::default();
    let bar = bar("counting", ranges.len() as u64);
    let counts = ranges.iter().map(|range| {
        let (reader, throttle, counted, bar) = (&reader, &throttle, &counted, &bar);
        async move {
            let take = async |rows: Vec<Row>, _: Asked| {
                rows.iter().for_each(|row| counted.add(row));
                Ok(())
            };
            reader.each_page(*range, throttle, take).await?;
            bar.inc(1);
            Ok::<(), anyhow::Error>(())
        }
    });
    let done: Result<()> = stream::iter(counts)
        .buffer_unordered(PARALLEL)
        .try_collect()
        .await;
    bar.finish_and_clear();
    done?;
    Ok(counted)
}

impl Counted {
    fn add(&self, row: &Row) {
        for cell in &row.cells {
            let (values, bytes) = match cell.column {
                0 => (&self.texts, &self.bytes_texts),
                _ => (&self.encoded, &self.bytes_encoded),
            };
            values.fetch_add(1, Ordering::Relaxed);
            bytes.fetch_add(cell.value.len() as u64, Ordering::Relaxed);
        }
    }

    fn get(&self) -> [u64; 4] {
        let all = [
            &self.texts,
            &self.encoded,
            &self.bytes_texts,
            &self.bytes_encoded,
        ];
        all.map(|of| of.load(Ordering::Relaxed))
    }
}

/// The next step, unless a command is at work.
fn advice(name: &TableName, entry: &Encoding) -> Option<String> {
    let Encoding { column, codec, .. } = entry;
    match entry.written()? {
        Written::EncodedOnly if entry.is_to(Form::Encoded) => None,
        _ if entry.is_to(Form::Encoded) => Some(format!(
            "is being encoded; if no command is at work on it, `helenus payload enable {name} {column} --codec \
             {codec}` goes on"
        )),
        _ => Some(format!(
            "is being taken back; if no command is at work on it, `helenus payload disable {name} {column}` goes on"
        )),
    }
}

fn as_json(name: &TableName, columns: &[Found]) -> Value {
    let columns = columns.iter().map(|found| {
        let counted = found.counted.as_ref().map(Counted::get);
        json!({
            "name": found.entry.column,
            "state": found.entry.state,
            "goal": found.entry.goal,
            "codec": found.entry.codec,
            "dictionary": found.entry.dictionary,
            "dictionaries": found.dictionaries,
            "hidden": found.entry.hidden,
            "created_ms": found.entry.created,
            "ranges_moved": found.progress.map(|(done, _)| done),
            "ranges": found.progress.map(|(_, all)| all),
            "texts": counted.map(|[texts, ..]| texts),
            "encoded": counted.map(|[_, encoded, ..]| encoded),
            "bytes_texts": counted.map(|[_, _, texts, _]| texts),
            "bytes_encoded": counted.map(|[.., encoded]| encoded),
            "next": advice(name, &found.entry),
            "problems": found.problems,
            "notices": found.notices,
        })
    });
    json!({ "table": name.to_string(), "columns": columns.collect::<Vec<_>>() })
}

fn print_text(tables: &[(TableName, Vec<Found>)], problems: &[String]) {
    if tables.is_empty() {
        println!("there are no encoded columns");
    }
    for (name, columns) in tables {
        println!("{name}: {} encoded columns", columns.len());
        if columns.is_empty() {
            continue;
        }
        let mut lines = TextTable::new();
        lines.load_style(presets::NOTHING);
        for found in columns {
            let entry = &found.entry;
            let writer = match entry.dictionary {
                Some(id) => format!("{}, dictionary {id}", entry.codec),
                None => entry.codec.clone(),
            };
            let moved = match found.progress {
                Some((done, all)) => format!("{done} of {all} ranges moved"),
                None => String::new(),
            };
            let counted = match found.counted.as_ref().map(Counted::get) {
                Some([texts, encoded, in_texts, in_encoded]) => format!(
                    "{texts} texts ({in_texts} bytes), {encoded} encoded ({in_encoded} bytes)"
                ),
                None => String::new(),
            };
            lines.add_row([
                entry.column.clone(),
                entry.state.clone(),
                writer,
                entry.hidden.clone(),
                moved,
                counted,
            ]);
        }
        println!("{lines}");
        for found in columns {
            let column = &found.entry.column;
            if let Some(next) = advice(name, &found.entry) {
                println!("  {column} {next}");
            }
            for problem in &found.problems {
                println!("  problem with {column}: {problem}");
            }
            for notice in &found.notices {
                println!("  note on {column}: {notice}");
            }
        }
    }
    for problem in problems {
        println!("problem: {problem}");
    }
}

#[cfg(test)]
mod tests;
