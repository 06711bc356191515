//! `helenus payload enable`: encodes a column while it is in use.
//!
//! What the codec needs is learned from a sample and stored; the column is announced to the proxies and gets its
//! column of encoded values; state by state the proxies begin to write there; the values there were are moved.
//! The same command goes on with what was interrupted.

use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use helenus_catalogue::{Encoding, Feature, Form, Written};
use helenus_cql::{Name, fold_identifier};
use helenus_payload::{Codec, DictionaryId, Encoder, Learned};
use helenus_proxy::CATALOGUE_AGE_MAX;
use helenus_rows::{Table, TableName};
use serde_json::json;

use super::column::{self, Source};
use super::dictionary::{self, Dictionaries};
use super::entry::{self, PROGRESS, announced, check_unchanged};
use super::journey::{Journey, take_over};
use super::moving::Moved;
use super::pace::Pace;
use super::sample::Sample;
use super::{documents, proxies, target};
use crate::catalogue::settle::Settle;
use crate::catalogue::{self, Known, Needs, flags};
use crate::common::Common;
use crate::nodes::access::Access;
use crate::nodes::cluster::Cluster;
use crate::nodes::table;

/// Store a column of JSON documents as compact bytes, while clients use it. They go on reading and writing texts.
///
/// An interrupted run is taken up by the same command. On a column that is encoded already, another codec or
/// --relearn changes what new values are written with.
#[derive(Args)]
pub struct EnableArgs {
    /// KEYSPACE.TABLE
    table: TableName,
    /// Column of type text, as cqlsh shows its name
    column: String,
    /// What values are stored with; `helenus payload advise` compares them
    #[arg(long, value_parser = PossibleValuesParser::new(codecs()))]
    codec: String,
    /// Documents to learn from, at most
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(20..=1_000_000))]
    sample: u32,
    /// Learn from this file, with one document per line, in place of the column
    #[arg(long, value_name = "FILE")]
    documents: Option<PathBuf>,
    /// Learn anew for a column that is encoded already
    #[arg(long)]
    relearn: bool,
    /// Check, learn and tell what would be done, without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// The role of the proxies (cluster.username), which is then allowed to read the catalogue; may be
    /// repeated [default: --user]
    #[arg(long, value_name = "ROLE")]
    proxy_role: Vec<String>,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    common: Common,
}

fn codecs() -> Vec<&'static str> {
    let codecs = Codec::ALL.into_iter().filter(|of| *of != Codec::Raw);
    codecs.map(Codec::name).collect()
}

/// The task, by the entry of the column.
enum Plan {
    /// Nothing has been done yet.
    Begin,
    /// It was interrupted, or is being taken back.
    GoOn(Encoding),
    /// New values are to be written in another way.
    Rewrite(Encoding),
    /// It is encoded as asked.
    Done(Encoding),
}

/// A documents' sample, and what new values become by what was learned from it.
struct Preview {
    learned: Option<Learned>,
    documents: usize,
    bytes_before: u64,
    bytes_after: u64,
}

pub async fn run(args: EnableArgs) -> Result<()> {
    let begin = Instant::now();
    let cluster = args.access.connect().await?;
    cluster.check_partitioner().await?;
    args.pace.check_nodes(&cluster).await?;
    let column = fold_identifier(&args.column);
    let table = table::load(&cluster, &args.table).await?;
    let known = catalogue::read(&cluster, &args.table).await?;
    target::check(&cluster, &table, &column, &known).await?;
    if !args.common.no_proxies {
        proxies::check(&cluster).await?;
    }
    let codec = codec_of(&args.codec)?;
    let plan = plan(known.encoding(&column), codec, args.relearn)?;
    if let Plan::Done(entry) = plan {
        report(&args, &entry, None, begin.elapsed());
        return Ok(());
    }
    let preview = match &plan {
        Plan::GoOn(_) | Plan::Done(_) => None,
        Plan::Begin | Plan::Rewrite(_) => {
            let preview = preview(&args, &cluster, &column, codec, &known).await?;
            Some(preview)
        }
    };
    let others = args.common.others(matches!(plan, Plan::GoOn(_)));
    let settle = Settle::of(&cluster, others).await;
    if !is_wanted(&args, &column, &plan, preview.as_ref())? {
        return Ok(());
    }
    let needs = Needs::Encodings { progress: PROGRESS };
    catalogue::create(&cluster, &args.table, &args.proxy_role, needs).await?;
    let learned = preview.and_then(|preview| preview.learned);
    let dictionary = match &learned {
        Some(learned) => {
            Some(dictionary::store(&cluster, &args.table, &column, codec, learned).await?)
        }
        None => None,
    };
    let entry = match plan {
        Plan::Begin => announce(&cluster, &table, &column, codec, dictionary).await?,
        Plan::GoOn(entry) => go_on(&cluster, &table, &entry).await?,
        Plan::Rewrite(entry) => {
            let entry = rewrite(&args, &cluster, entry, codec, dictionary, settle).await?;
            report(&args, &entry, None, begin.elapsed());
            return Ok(());
        }
        Plan::Done(entry) => entry,
    };
    let mut journey = Journey {
        cluster: &cluster,
        table: &table,
        entry,
        settle,
        has_proxies: !args.common.no_proxies,
        pace: &args.pace,
    };
    let moved = journey.encode().await?;
    report(&args, &journey.entry, Some(&moved), begin.elapsed());
    Ok(())
}

fn codec_of(name: &str) -> Result<Codec> {
    let found = Codec::ALL.into_iter().find(|codec| codec.name() == name);
    found.with_context(|| format!("there is no codec {name}"))
}

fn plan(entry: Option<&Encoding>, codec: Codec, relearn: bool) -> Result<Plan> {
    let Some(entry) = entry else {
        return Ok(Plan::Begin);
    };
    let is_same = entry.codec == codec.name();
    let is_encoded = entry.written() == Some(Written::EncodedOnly);
    match is_encoded && entry.is_to(Form::Encoded) {
        true if is_same && !relearn => Ok(Plan::Done(entry.clone())),
        true if relearn && !codec.is_learned() => {
            bail!("{codec} learns nothing: --relearn is for zstd and shape")
        }
        true => Ok(Plan::Rewrite(entry.clone())),
        false if is_same && !relearn => Ok(Plan::GoOn(entry.clone())),
        false => bail!(
            "column {} is on its way, with codec {}: finish that first (the same command with --codec {} and \
             without --relearn), or take it back (helenus payload disable)",
            entry.column,
            entry.codec,
            entry.codec
        ),
    }
}

/// Learns from a sample, and tries what was learned on it.
async fn preview(
    args: &EnableArgs,
    cluster: &Cluster,
    column: &Name,
    codec: Codec,
    known: &Known,
) -> Result<Preview> {
    let sample = match &args.documents {
        Some(path) => documents::read(path, args.sample as usize, 1)?,
        None => {
            let encoded = match known.encoding(column) {
                None => None,
                Some(entry) => {
                    let known = Dictionaries::load(cluster, &args.table).await?.known;
                    Some((entry.hidden.clone(), known))
                }
            };
            let source = Source {
                table: &args.table,
                column,
                encoded,
            };
            column::read(cluster, &source, args.sample as usize).await?
        }
    };
    let measured = tokio::task::spawn_blocking(move || tried(codec, &sample));
    measured.await.context("learning stopped")?
}

fn tried(codec: Codec, sample: &Sample) -> Result<Preview> {
    let learned = match codec.is_learned() {
        true => Some(dictionary::of_sample(codec, sample)?),
        false => None,
    };
    // As it is read again by the proxies.
    let copy = learned
        .as_ref()
        .map(|learned| Learned::from_bytes(&learned.to_bytes()));
    let copy = copy
        .transpose()
        .context("what was learned cannot be read")?;
    let copy = copy.map(|learned| (DictionaryId(1), std::sync::Arc::new(learned)));
    let mut encoder = Encoder::new(codec, copy);
    let mut preview = Preview {
        learned,
        documents: sample.documents.len(),
        bytes_before: 0,
        bytes_after: 0,
    };
    let mut value = Vec::new();
    for document in &sample.documents {
        // Why a value is stored as it is does not matter here.
        let _ = encoder.encode(document, &mut value);
        preview.bytes_before += document.len() as u64;
        preview.bytes_after += value.len() as u64;
    }
    Ok(preview)
}

/// Tells what would be done, and asks whether it should.
fn is_wanted(
    args: &EnableArgs,
    column: &Name,
    plan: &Plan,
    preview: Option<&Preview>,
) -> Result<bool> {
    let what = match plan {
        Plan::Begin => "would be encoded",
        Plan::GoOn(_) => "is on its way, which would be gone on with",
        Plan::Rewrite(_) => "is encoded; new values would be written in another way",
        Plan::Done(_) => return Ok(true),
    };
    let mean = |bytes: u64, of: &Preview| bytes as f64 / of.documents.max(1) as f64;
    let sizes = preview.filter(|preview| preview.documents > 0).map(|of| {
        format!(
            "; {} documents of a sample take {:.0} bytes each in place of {:.0}, before compression",
            of.documents,
            mean(of.bytes_after, of),
            mean(of.bytes_before, of)
        )
    });
    let told = format!(
        "column {column} of {} {what}, with codec {}{}",
        args.table,
        args.codec,
        sizes.unwrap_or_default()
    );
    if args.dry_run {
        let report = json!({
            "table": args.table.to_string(),
            "column": column.as_str(),
            "codec": args.codec,
            "would": what,
            "sample_documents": preview.map(|of| of.documents),
            "sample_bytes_before": preview.map(|of| of.bytes_before),
            "sample_bytes_after": preview.map(|of| of.bytes_after),
        });
        let text = format!("{told}. Nothing has been changed.");
        args.common.print(&report, &text);
        return Ok(false);
    }
    if args.yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        bail!("{told}: give --yes to have that done, or --dry-run");
    }
    eprint!(
        "{told}.\nEvery proxy must have payload.enabled, and nobody may use the table past them. Go on? [y/N] "
    );
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Tells the proxies of a new encoded column.
async fn announce(
    cluster: &Cluster,
    table: &Table,
    column: &Name,
    codec: Codec,
    dictionary: Option<i32>,
) -> Result<Encoding> {
    let hidden = target::free_name(cluster, table, column).await?;
    let entry = Encoding {
        codec: codec.name().to_owned(),
        dictionary,
        ..announced(column, &hidden)
    };
    let known = catalogue::read(cluster, &table.name).await?;
    target::check_no_layouts(&known, &table.name)?;
    if known.encoding(column).is_some() {
        bail!(
            "column {column} of {} is being encoded by somebody else: look with `helenus payload status {}`",
            table.name,
            table.name
        );
    }
    entry::put(cluster, &table.name, &known, &entry).await?;
    flags::raise(cluster, &table.name, Feature::Encodings).await?;
    Ok(entry)
}

/// Goes on with what was interrupted, or turns back what is being taken back.
async fn go_on(cluster: &Cluster, table: &Table, entry: &Encoding) -> Result<Encoding> {
    let known = catalogue::read(cluster, &table.name).await?;
    check_unchanged(&known, &table.name, entry)?;
    let mut from = entry.clone();
    let dropped = target::dropped(cluster, &table.name).await?;
    let is_gone = !table.regulars.iter().any(|of| of.name == entry.hidden);
    if entry.written() == Some(Written::Announced) && is_gone && dropped.contains(&entry.hidden) {
        from.hidden = target::free_name(cluster, table, &entry.column).await?;
    }
    take_over(cluster, table, &known, &from, Form::Encoded).await
}

/// Has new values written in another way, once every proxy can read them.
async fn rewrite(
    args: &EnableArgs,
    cluster: &Cluster,
    entry: Encoding,
    codec: Codec,
    dictionary: Option<i32>,
    settle: Settle,
) -> Result<Encoding> {
    if dictionary.is_some() && !args.common.no_proxies {
        // Proxies look for dictionaries every so often.
        settle
            .wait_longer(CATALOGUE_AGE_MAX, "proxies read what was learned")
            .await;
    }
    flags::raise(cluster, &args.table, Feature::Encodings).await?;
    let known = catalogue::read(cluster, &args.table).await?;
    check_unchanged(&known, &args.table, &entry)?;
    let changed = Encoding {
        codec: codec.name().to_owned(),
        dictionary,
        ..entry
    };
    entry::put(cluster, &args.table, &known, &changed).await?;
    Ok(changed)
}

fn report(args: &EnableArgs, entry: &Encoding, moved: Option<&Moved>, time: Duration) {
    let count = |of: fn(&Moved) -> &std::sync::atomic::AtomicU64| {
        moved.map(|moved| of(moved).load(Ordering::Relaxed))
    };
    let values = count(|moved| &moved.values);
    let raw = count(|moved| &moved.raw);
    let before = count(|moved| &moved.bytes_before);
    let after = count(|moved| &moved.bytes_after);
    let seconds = time.as_secs_f64();
    let done = match (values, before, after) {
        (Some(values), Some(before), Some(after)) => format!(
            "{values} values moved in {seconds:.1} s, {before} bytes to {after}; {} stored as they are",
            raw.unwrap_or(0)
        ),
        _ => match entry.dictionary {
            Some(id) => format!("new values with dictionary {id}"),
            None => "as new values are".to_owned(),
        },
    };
    let (column, codec) = (&entry.column, &entry.codec);
    let text = format!("{} {column}: encoded with {codec}, {done}", args.table);
    let report = json!({
        "table": args.table.to_string(),
        "column": column,
        "hidden": entry.hidden,
        "state": entry.state,
        "codec": codec,
        "dictionary": entry.dictionary,
        "values_moved": values,
        "values_raw": raw,
        "bytes_before": before,
        "bytes_after": after,
        "seconds": seconds,
    });
    args.common.print(&report, &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_again_is_gone_on_with_or_done() {
        let mut entry = announced("profile", "profile__encoded");
        entry.codec = "shape".to_owned();
        let plan = |entry: &Encoding, codec, relearn| {
            plan(Some(entry), codec, relearn).map(|plan| match plan {
                Plan::Begin => "begin",
                Plan::GoOn(_) => "go on",
                Plan::Rewrite(_) => "rewrite",
                Plan::Done(_) => "done",
            })
        };
        assert_eq!(plan(&entry, Codec::Shape, false).ok(), Some("go on"));
        assert!(plan(&entry, Codec::Cbor, false).is_err());
        assert!(plan(&entry, Codec::Shape, true).is_err());
        entry.state = Written::EncodedOnly.name().to_owned();
        assert_eq!(plan(&entry, Codec::Shape, false).ok(), Some("done"));
        assert_eq!(plan(&entry, Codec::Shape, true).ok(), Some("rewrite"));
        assert_eq!(plan(&entry, Codec::Cbor, false).ok(), Some("rewrite"));
        assert!(plan(&entry, Codec::Cbor, true).is_err());
        let back = entry::begun_anew(&entry, Form::Text);
        assert_eq!(plan(&back, Codec::Shape, false).ok(), Some("go on"));
        assert!(!codecs().contains(&"raw"));
    }
}
