//! `helenus sim chaos`: whole proxies, and faults all around them.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use helenus_sim::chaos::{Bounds, Broken, Cause, Covered, run_within, shortest};

/// Lines of the shortest history that are shown.
const LINES: usize = 60;

#[derive(Args)]
pub(super) struct ChaosArgs {
    /// Number of runs, each from its own seed.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Parallel runs [default: one per core].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// No more clients than this in a run.
    #[arg(long, default_value_t = Bounds::default().clients_max)]
    clients: usize,
    /// Nothing is begun and nothing goes wrong from then on, in microseconds of a run.
    #[arg(long, default_value_t = Bounds::default().until_us)]
    until_us: u64,
    /// What is not to go wrong, by names with commas between them.
    #[arg(long, value_delimiter = ',')]
    without: Vec<Cause>,
    /// Write the whole history of the failed run, or of the last one, to this file.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

pub(super) fn chaos(args: &ChaosArgs) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(cores, usize::from);
    let begin = Instant::now();
    let end = args.seed.saturating_add(args.seeds);
    let bounds = Bounds {
        clients_max: args.clients.max(1),
        until_us: args.until_us,
        without: args.without.iter().copied().collect(),
    };
    let (next, stop) = (AtomicU64::new(args.seed), AtomicBool::new(false));
    let covered = Mutex::new(Covered::default());
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    match run_within(seed, &bounds, begin, false).0 {
                        Ok(of_run) => covered.lock().expect("no panic holds it").add(of_run),
                        Err(_) => {
                            stop.store(true, Ordering::Relaxed);
                            let mut failed = failed.lock().expect("no panic holds it");
                            let least = failed.map_or(seed, |other: u64| other.min(seed));
                            *failed = Some(least);
                        }
                    }
                }
            });
        }
    });
    let ran = next.load(Ordering::Relaxed).min(end) - args.seed;
    let seconds = begin.elapsed().as_secs_f64();
    let covered = covered.into_inner().expect("no panic holds it");
    for (what, times) in &covered.counts {
        println!("{times:>10} {what}");
    }
    println!("\n{}", covered.tables());
    println!(
        "{ran} seeds from {} in {seconds:.1} s: {:.0} a second",
        args.seed,
        ran as f64 / seconds
    );
    let failed = failed.into_inner().expect("no panic holds it");
    if args.log.is_none() && failed.is_none() {
        return Ok(());
    }
    let seed = failed.unwrap_or(end - 1);
    let (result, log) = run_within(seed, &bounds, begin, true);
    if let Some(path) = &args.log {
        std::fs::write(path, &log).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let Err(violation) = result else {
        return Ok(());
    };
    let broken = Broken {
        seed,
        bounds,
        violation,
    };
    println!("seed {seed}, {}", broken.violation);
    println!("repeat it with: {}\n", broken.command());
    // Each panic on the way to the shortest history would be told.
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let least = shortest(broken, begin);
    let log = least.log(begin);
    std::panic::set_hook(tell);
    let lines: Vec<&str> = log.lines().collect();
    for line in &lines[lines.len().saturating_sub(LINES)..] {
        println!("{line}");
    }
    bail!(
        "seed {}, {}\nthe shortest history found; repeat it with: {}",
        least.seed,
        least.violation,
        least.command()
    );
}
