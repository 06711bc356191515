//! `helenus check`.

use std::process::ExitCode;

use clap::Args;
use helenus_proxy::CheckedReport;

use crate::serve_cmd::Settings;

/// Exit codes: 0 no problems, 1 problems found, 2 the settings cannot be read.
#[derive(Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    settings: Settings,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print the settings in force as TOML, and do nothing else.
    #[arg(long)]
    print_config: bool,
}

pub(crate) fn run(args: CheckArgs) -> ExitCode {
    let report = args.settings.load().and_then(|config| {
        if args.print_config {
            print!("{}", toml::to_string(&config)?);
            return Ok(None);
        }
        helenus_proxy::check(&config).map(Some)
    });
    let report = match report {
        Ok(Some(report)) => report,
        Ok(None) => return ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("helenus: {e:#}");
            return ExitCode::from(2);
        }
    };
    if args.json {
        match serde_json::to_string_pretty(&report) {
            Ok(text) => println!("{text}"),
            Err(e) => eprintln!("helenus: {e}"),
        }
    } else {
        if let Some(name) = &report.cluster_name {
            println!(
                "cluster {name:?}, protocol v{}",
                report.protocol.unwrap_or(0)
            );
        }
        for node in &report.nodes {
            let state = if node.reachable {
                "reachable"
            } else {
                "NOT REACHABLE"
            };
            let processors = match node.processors {
                Some(number) => format!("{number} processors, "),
                None => String::new(),
            };
            println!(
                "  {}  {}  {}/{}  {processors}{state}",
                node.address, node.release_version, node.dc, node.rack
            );
            if let Some(report) = &node.report {
                println!("    {}", resources(report));
            }
        }
        if let Some(layouts) = &report.layouts {
            println!(
                "  layouts: {} ready, {} only written",
                layouts.ready, layouts.writing
            );
        }
        if let Some(columns) = &report.encoded_columns {
            let counts = columns
                .iter()
                .map(|(state, count)| format!("{count} {state}"));
            println!(
                "  columns in the catalogue of encoded ones, by state: {}",
                counts.collect::<Vec<_>>().join(", ")
            );
        }
        for problem in &report.problems {
            println!("problem: {problem}");
        }
        for advice in &report.advice {
            println!("advice: {advice}");
        }
        if report.problems.is_empty() {
            println!("nothing wrong");
        }
    }
    if report.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What a node's agent reports, on one line.
fn resources(report: &CheckedReport) -> String {
    let share = |share: Option<f32>| match share {
        Some(share) => format!("{:.0} %", 100.0 * share),
        None => "unknown".to_owned(),
    };
    let of = &report.resources;
    format!(
        "reports {} ms ago: CPU {} of {} cores, heap {}, disk {}, {} reads waiting, {} compactions",
        report.age_ms,
        share(of.cpu),
        of.cores,
        share(report.memory),
        share(of.disk),
        of.read_pending,
        of.compactions_pending,
    )
}
