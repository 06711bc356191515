//! `helenus bench`: the experiments.

mod aggregation;
mod assignment;
mod common;
mod compare;
mod hot;
mod layouts;
mod overhead;
mod payload;
mod scale;
mod scheduling;
mod storage;
mod table;
mod variants;

use anyhow::Result;
use clap::{Args, Subcommand};
use helenus_console::terminal::run_to_end;
use std::process::ExitCode;

/// Run an experiment on a real local cluster and report ratios with their spread.
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand, Debug)]
enum Experiment {
    /// The cost of going through a proxy: latency, CPU time, throughput, memory
    Overhead(overhead::OverheadArgs),
    /// The gain from packing many clients' queries into few frames: throughput, tail latency, CPU time,
    /// many small clients, hot keys, compare-and-set
    Aggregation(aggregation::AggregationArgs),
    /// Point reads beside range scans: means and tails of both, few and many clients, a lone scan, a
    /// storm of scans
    Scheduling(scheduling::SchedulingArgs),
    /// Which replica answers a read: idle, with stressed nodes, with a node that stands still
    Assignment(assignment::AssignmentArgs),
    /// A table whose copies are sorted differently, against the best single order, SAI, views and tables
    /// copied by hand: latency of two queries, writes, disk, a paused node
    Layouts(layouts::LayoutsArgs),
    /// JSON documents as text, encoded by clients, and encoded by Helenus: disk, throughput, tail latency and CPU
    /// time of each codec
    Payload(payload::PayloadArgs),
    /// What further nodes bring: throughput with one node and with each further one, what clients
    /// notice while it joins, and how well a ramp finds the knee
    Scale(scale::ScaleArgs),
    /// Writes to a node whose disk is used as it is, or held back like a hard disk
    Storage(storage::StorageArgs),
    /// Two reports of the same experiment side by side: what differs by more than their rounds vary
    Compare(compare::CompareArgs),
    /// One key that gets most of the reads: throughput, and what readers of the other keys notice, against
    /// drivers that ask one replica, or all in turn
    Hot(hot::HotArgs),
}

/// Runs `helenus bench`.
///
/// # Errors
/// Options that do not fit, nodes that do not start, or a run that fails.
pub fn run(args: BenchArgs) -> Result<ExitCode> {
    let done = match args.experiment {
        Experiment::Compare(args) => return compare::compare(&args),
        Experiment::Overhead(args) => run_to_end(overhead::overhead(args)),
        Experiment::Aggregation(args) => run_to_end(aggregation::aggregation(args)),
        Experiment::Scheduling(args) => run_to_end(scheduling::scheduling(args)),
        Experiment::Assignment(args) => run_to_end(assignment::assignment(args)),
        Experiment::Layouts(args) => run_to_end(layouts::layouts(args)),
        Experiment::Payload(args) => run_to_end(payload::payload(args)),
        Experiment::Scale(args) => run_to_end(scale::scale(args)),
        Experiment::Storage(args) => run_to_end(storage::storage(args)),
        Experiment::Hot(args) => run_to_end(hot::hot(args)),
    };
    done.map(|()| ExitCode::SUCCESS)
}
