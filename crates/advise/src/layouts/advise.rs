//! `helenus layouts advise`: designs layouts from statements and a sample of the rows.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use helenus_layout::{
    Anneal, CostModel, Effort, Layout, Objective, Options, PERMUTED_MAX, Query, SampledModel,
    Statistics, Storage, Table, design, draw,
};
use helenus_migrate::layouts::names::letter;
use helenus_migrate::layouts::removed::Removed;

use super::arrange::{self, ArrangeArgs};
use super::coefficients::Costs;
use super::drift::{DriftArgs, Present};
use super::read_rows::Limits;
use super::report::{Report, StatementReport};
use super::sources::{self, SourceArgs, Sources};
use super::workload::{self, Workload};
use super::{coefficients, drift, json, show};

/// Layouts of a design, because each is one more copy of the table; and at most.
const REPLICAS: usize = 1;
const REPLICAS_MAX: usize = 5;
/// Bytes of a row on disk.
const ROW_BYTES: RangeInclusive<f64> = 1.0..=1e9;

#[derive(Args)]
pub struct AdviseArgs {
    #[command(flatten)]
    sources: SourceArgs,
    /// Layouts to choose [default: as many as are in use, with --learned; otherwise 1]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=5))]
    replicas: Option<u8>,
    #[command(flatten)]
    arrange: ArrangeArgs,
    /// Rows of the whole table, if the file has only some of them.
    #[arg(long, value_name = "N", requires = "rows")]
    rows_total: Option<u64>,
    /// Bytes of a row on disk; otherwise what its fields take in the file, or in a node's answer.
    #[arg(long, value_name = "BYTES")]
    row_bytes: Option<f64>,
    /// What reads cost on this cluster, as `helenus layouts calibrate` has measured it [default: on a typical
    /// node]
    #[arg(long, value_name = "FILE")]
    coefficients: Option<PathBuf>,
    /// Rows that are kept for counting; of the others in a file only sketches are kept. Of the nodes about
    /// so many are asked.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    sample_rows: u32,
    /// Queries drawn for each statement with markers.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    instances: u16,
    #[command(flatten)]
    drift: DriftArgs,
    /// How much more, in percent, a design may cost that suffers less from the loss of a layout.
    #[arg(long, default_value_t = 0.0)]
    loss_slack: f64,
    /// What is drawn depends on nothing else: the same seed repeats a design.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    _removed: Removed,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Prints the design.
///
/// # Errors
/// Files, proxies or nodes that cannot be read or asked, or nothing to design from.
pub async fn run(args: &AdviseArgs) -> Result<()> {
    let report = advise(args).await?;
    if args.json {
        println!("{:#}", json::json(&report));
    } else {
        print!("{}", show::text(&report));
    }
    Ok(())
}

pub(super) async fn advise(args: &AdviseArgs) -> Result<Report> {
    if !(0.0..=100.0).contains(&args.loss_slack) {
        bail!("--loss-slack is a percentage from 0 to 100");
    }
    if args
        .row_bytes
        .is_some_and(|bytes| !ROW_BYTES.contains(&bytes))
    {
        bail!("--row-bytes must be a number from 1 to 1e9");
    }
    args.drift.check()?;
    let costs = coefficients::load(args.coefficients.as_deref())?;
    let limits = Limits {
        rows_max: args.sample_rows as usize,
        rows_total: args.rows_total,
        seed: args.seed,
    };
    let sources = sources::gather(&args.sources, &limits).await?;
    let total = sources.rows.statistics.rows_total();
    if let (Some(rows_total), Some(file)) = (args.rows_total, &args.sources.rows)
        && (rows_total as f64) < total
    {
        bail!(
            "--rows-total says {rows_total} rows, but {} has {}",
            file.display(),
            sources.rows.read
        );
    }
    report(args, sources, costs)
}

fn report(args: &AdviseArgs, sources: Sources, costs: Costs) -> Result<Report> {
    let Sources {
        workload,
        name,
        replication,
        rows,
        sampled,
        learned,
        present,
    } = sources;
    let (table, lines) = (&workload.table, &workload.statements);
    let queries = queries(&workload, &rows.statistics, args);
    let storage = Storage {
        row_bytes: args.row_bytes.unwrap_or(rows.field_bytes).max(1.0),
        ..Storage::default()
    };
    let model = SampledModel::new(
        table,
        &rows.statistics,
        queries,
        storage,
        costs.coefficients,
    );
    let permuted = permuted(&workload);
    let all = permuted.len() == table.clustering();
    // The table itself stays.
    let kept = vec![Layout::own(table.clustering())];
    let options = Options {
        replicas: replicas(args, present.as_ref()),
        kept,
        objective: Objective::CostThenLoss {
            slack: args.loss_slack / 100.0,
        },
        effort: Effort::default(),
        anneal: Some(Anneal {
            seed: args.seed,
            ..Anneal::default()
        }),
        permuted: permuted.clone(),
    };
    let mut design =
        design(&model, table.clustering(), &options).context("there is nothing to design")?;
    let rows_total = match &sampled {
        Some(sampled) => sampled.rows_total(),
        None => rows.statistics.rows_total(),
    };
    let basis = drift::Basis {
        table,
        full_name: &workload.schema.full_name,
        model: &model,
        design: &design,
        storage,
        rows_total,
        costs: &costs,
    };
    let drift = present.map(|present| drift::judge(&args.drift, present, &basis));
    let drift = drift.transpose()?;
    let mut names: Vec<String> = (0..design.layouts.len()).map(letter).collect();
    let statements = (0..lines.len()).map(|number| StatementReport::new(&model, &design, number));
    let statements = statements.collect();
    if let Some(drift) = &drift {
        names = drift.names();
        for (layout, stays) in design.layouts.iter_mut().zip(&drift.stays) {
            if let Some(stays) = stays {
                *layout = stays.clone();
            }
        }
    }
    let in_use = drift.iter().flat_map(|drift| &drift.in_use);
    let taken: Vec<String> = in_use.map(|layout| layout.entry.name.clone()).collect();
    let basis = arrange::Basis {
        workload: &workload,
        model: &model,
        design: &design,
        names: &names,
        taken: &taken,
        permuted: &permuted,
        replication: replication.as_deref(),
    };
    let arranged = arrange::arrange(&args.arrange, &basis)?;
    Ok(Report {
        statements,
        names,
        permuted: (!all).then(|| names_of(table, &permuted)),
        queries: model.queries(),
        arranged,
        keyspace: name.map(|name| name.keyspace),
        access: access(args, replication.is_some()),
        rows_read: rows.read,
        rows_sampled: rows.statistics.sample().rows(),
        rows_total: rows.statistics.rows_total(),
        sampled,
        learned,
        drift,
        costs,
        design,
        workload,
    })
}

fn names_of(table: &Table, columns: &[usize]) -> Vec<String> {
    let names = columns.iter().map(|column| table.name(*column).to_owned());
    names.collect()
}

/// The options that say where the cluster is, as they were given.
fn access(args: &AdviseArgs, is_connected: bool) -> Vec<String> {
    let given = args.sources.access.given();
    match given.is_empty() && !is_connected {
        true => ["--contact", "HOST:PORT"].map(str::to_owned).to_vec(),
        false => given,
    }
}

/// As many layouts as there are can be compared with them.
fn replicas(args: &AdviseArgs, present: Option<&Present>) -> usize {
    let in_use = present.map(|present| present.entries.len());
    let in_use = in_use.filter(|count| *count > 0);
    match (args.replicas, in_use) {
        (Some(asked), _) => asked.into(),
        (None, Some(count)) => count.min(REPLICAS_MAX),
        (None, None) => REPLICAS,
    }
}

fn queries(workload: &Workload, statistics: &Statistics, args: &AdviseArgs) -> Vec<Query> {
    let lines = workload.statements.iter().enumerate();
    let of_line = |(number, line): (usize, &workload::Line)| {
        let seed = args.seed.wrapping_add(number as u64);
        let count = usize::from(args.instances);
        draw(&line.statement, number, statistics.sample(), count, seed)
    };
    lines.flat_map(of_line).collect()
}

/// The clustering columns that change places: all, or those with the greatest weight in the workload.
fn permuted(workload: &Workload) -> Vec<usize> {
    let weight = |column: usize| -> f64 {
        let restricted = workload.statements.iter().map(|line| &line.statement);
        let restricted =
            restricted.filter(|s| s.columns[column] != helenus_layout::StatementColumn::None);
        restricted.map(|statement| statement.weight).sum()
    };
    let mut columns: Vec<usize> = (0..workload.table.clustering()).collect();
    columns.sort_by(|a, b| weight(*b).total_cmp(&weight(*a)));
    columns.truncate(PERMUTED_MAX);
    columns.sort_unstable();
    columns
}
