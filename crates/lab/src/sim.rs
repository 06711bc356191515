//! `helenus sim`: experiments in virtual time, around the proxy's own code.

mod assignment;
mod calibrate;
mod capacity;
mod chaos;
mod compare;
mod paper;
mod parallel;
mod scheduling;
mod tables;

use clap::{Args, Subcommand};

/// Whole proxies between simulated clients and nodes: the same seed gives the same result.
#[derive(Args)]
pub struct SimArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Point reads and scans of many clients: direct, through Helenus, and in the paper's orders.
    Scheduling(scheduling::SchedulingArgs),
    /// Which replica requests go to: the policies before a hundred nodes, some of which are slow, frozen,
    /// or say what is not true.
    Assignment(assignment::AssignmentArgs),
    /// What many nodes would carry, from a ramp over few: throughput and latency by load, and the knee.
    Capacity(capacity::CapacityArgs),
    /// Measure on real nodes what things cost in the simulated ones of `sim scheduling`.
    Calibrate(calibrate::CalibrateArgs),
    /// Whole proxies between modelled clients, nodes and a network that fail in many ways, with checks of
    /// the invariants.
    Chaos(chaos::ChaosArgs),
}

/// Runs `helenus sim`.
///
/// # Errors
/// Options that do not fit, files that cannot be read, or a history that breaks what must hold.
pub fn run(args: SimArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Scheduling(args) => scheduling::scheduling(&args),
        Action::Assignment(args) => assignment::assignment(&args),
        Action::Capacity(args) => capacity::capacity(&args),
        Action::Calibrate(args) => calibrate::calibrate(args),
        Action::Chaos(args) => chaos::chaos(&args),
    }
}
