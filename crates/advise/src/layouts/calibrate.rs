//! `helenus layouts calibrate`: measures what the work of reads costs on a cluster.
//!
//! A command of its own, because it writes to the cluster, and `advise` never does. Its file serves for all
//! tables of the cluster, and for others on the same machines.

mod found;
mod measure;
mod queries;
mod scratch;
mod show;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use helenus_console::cells::print_error;
use helenus_console::terminal::{Stop, spinner};
use helenus_layout::calibrate;
use helenus_migrate::nodes::access::Access;
use helenus_migrate::nodes::cluster::Cluster;

use self::found::Found;
use self::scratch::Scratch;

/// All of it, but for the keyspace that is created and dropped.
const ALL_MAX: Duration = Duration::from_secs(60);

/// Measure what the work of reads costs on a cluster, in a keyspace that is created for it and dropped
/// afterwards: about 40 queries in turn, one at a time, for less than a minute.
#[derive(Args)]
pub struct CalibrateArgs {
    #[command(flatten)]
    access: Access,
    /// How long queries are timed, beside the filling of the table.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u8).range(5..=40))]
    seconds: u8,
    /// File for the coefficients, which `advise --coefficients` reads.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print what is in the file.
    #[arg(long)]
    json: bool,
}

/// Measures, and prints or writes the coefficients.
///
/// # Errors
/// A file that cannot be written, or a cluster that does not do what is asked.
pub async fn run(args: CalibrateArgs) -> Result<()> {
    let mut stop = Stop::new()?;
    if let Some(path) = &args.out {
        // Not only after a minute.
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| !folder.is_dir()) || path.is_dir() {
            bail!(
                "cannot write {}: name a file in a folder that exists",
                path.display()
            );
        }
    }
    let cluster = stop.unless(args.access.connect()).await?;
    for other in scratch::others(&cluster).await? {
        eprintln!(
            "keyspace {other} is of another calibration: if none is running, it was killed, and DROP KEYSPACE \
             {other} puts that in order"
        );
    }
    let bar = spinner("calibrating");
    let mut say = |line: &str| bar.set_message(line.to_owned());
    let time = Duration::from_secs(args.seconds.into());
    let found = on_cluster(&cluster, &mut stop, time, &mut say).await;
    bar.finish_and_clear();
    let found = found?;
    let json = format!("{:#}\n", show::json(&found));
    if let Some(path) = &args.out {
        let shown = path.display();
        std::fs::write(path, &json).with_context(|| format!("cannot write {shown}"))?;
    }
    match args.json {
        true => print!("{json}"),
        false => print!("{}", show::text(&found, args.out.as_deref())),
    }
    Ok(())
}

/// Creates the keyspace, times the queries, and drops it, whatever comes in between.
async fn on_cluster(
    cluster: &Cluster,
    stop: &mut Stop,
    time: Duration,
    say: &mut dyn FnMut(&str),
) -> Result<Found> {
    // Definitions are not given up halfway: what a node is still carrying out could come after the DROP.
    let scratch = Scratch::create(cluster).await?;
    let found = in_scratch(cluster, &scratch, stop, time, say).await;
    say("dropping the keyspace");
    let dropped = scratch.drop(cluster).await;
    match dropped {
        Ok(()) => found,
        Err(left) if found.is_ok() => Err(left),
        Err(left) => {
            print_error(&left);
            found
        }
    }
}

async fn in_scratch(
    cluster: &Cluster,
    scratch: &Scratch,
    stop: &mut Stop,
    time: Duration,
    say: &mut dyn FnMut(&str),
) -> Result<Found> {
    let begin = Instant::now();
    let work = async {
        say("writing rows");
        let write_row_us = scratch.fill(cluster).await?;
        say("waiting until the rows are in files");
        let in_files = scratch.flushed(cluster).await;
        say("timing queries");
        let latest = begin + ALL_MAX - Duration::from_secs(5);
        let until = (Instant::now() + time).min(latest);
        let measured = measure::measure(cluster, &scratch.table(), until, latest).await?;
        Ok((write_row_us, in_files, measured))
    };
    let limited = async {
        let done = tokio::time::timeout(ALL_MAX, work).await;
        done.unwrap_or_else(|_| {
            bail!("not done in {ALL_MAX:?}: the nodes are slow or busy, try again when there is less load")
        })
    };
    let (write_row_us, in_files, measured) = stop.unless(limited).await?;
    let calibration =
        calibrate(&measured.timed).context("the queries do not tell what costs what")?;
    Ok(Found {
        calibration,
        write_row_us,
        measured,
        in_files,
        cassandra: scratch::version(cluster).await?,
        time: begin.elapsed(),
    })
}
