//! `helenus payload advise`: what a column of JSON documents would take in each codec.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use helenus_cql::fold_identifier;
#[cfg(feature = "lab")]
use helenus_load::workload::profiles::Profiles;
use helenus_migrate::catalogue;
use helenus_migrate::nodes::access::Access;
use helenus_migrate::payload::column::{self, Source};
use helenus_migrate::payload::dictionary::{DOCUMENTS_MIN, Dictionaries};
use helenus_migrate::payload::documents;
use helenus_migrate::payload::sample::Sample;
use helenus_rows::TableName;

use super::{measure, show};

/// Where documents come from.
#[cfg(feature = "lab")]
const SOURCES: [&str; 3] = ["table", "documents", "profiles"];
#[cfg(not(feature = "lab"))]
const SOURCES: [&str; 2] = ["table", "documents"];

/// Measure what a column of JSON documents would take in each codec, on disk and in CPU time. Nothing is
/// changed.
#[derive(Args)]
#[command(group(ArgGroup::new("source").required(true).args(SOURCES)))]
pub struct AdviseArgs {
    /// KEYSPACE.TABLE
    #[arg(requires = "column")]
    table: Option<TableName>,
    /// Column of type text, as cqlsh shows its name
    #[arg(requires = "table")]
    column: Option<String>,
    /// File with one JSON document per line, in place of a column
    #[arg(long, value_name = "FILE")]
    documents: Option<PathBuf>,
    /// Generate so many user profiles in place of a column, to compare codecs
    #[cfg(feature = "lab")]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(20..=1_000_000))]
    profiles: Option<u32>,
    /// Documents to read at most; half of them are learned from, the other half is measured.
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(20..=1_000_000))]
    sample: u32,
    /// The same seed draws the same sample of a file, and generates the same profiles.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    access: Access,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Prints what each codec would take.
///
/// # Errors
/// Documents that cannot be read, or too few to learn from.
pub async fn run(args: AdviseArgs) -> Result<()> {
    let sample = gather(&args).await?;
    let found = sample.documents.len();
    if found < DOCUMENTS_MIN {
        bail!(
            "{} has {found} documents, which is too few to learn from: at least {DOCUMENTS_MIN} are needed, \
             and a few thousand say enough",
            sample.name
        );
    }
    let measured = tokio::task::spawn_blocking(move || measure::measure(&sample));
    let report = measured.await.context("measuring stopped")?;
    if args.json {
        println!("{:#}", show::json(&report));
    } else {
        print!("{}", show::text(&report));
    }
    Ok(())
}

async fn gather(args: &AdviseArgs) -> Result<Sample> {
    let count = args.sample as usize;
    if let Some(path) = &args.documents {
        return documents::read(path, count, args.seed);
    }
    #[cfg(feature = "lab")]
    if let Some(profiles) = args.profiles {
        let mut generated = Profiles::new(args.seed);
        return Ok(Sample {
            name: format!("generated profiles (seed {})", args.seed),
            column: None,
            documents: (0..profiles).map(|_| generated.draw()).collect(),
            is_cut: false,
        });
    }
    let table = args
        .table
        .as_ref()
        .context("name the table as KEYSPACE.TABLE")?;
    let column = args.column.as_ref().context("name the column")?;
    let cluster = args.access.connect().await?;
    let column = fold_identifier(column);
    let known = catalogue::read(&cluster, table).await?;
    let encoded = match known.encoding(&column) {
        None => None,
        Some(entry) => {
            let known = Dictionaries::load(&cluster, table).await?.known;
            Some((entry.hidden.clone(), known))
        }
    };
    let source = Source {
        table,
        column: &column,
        encoded,
    };
    column::read(&cluster, &source, count).await
}
