//! Counts the instructions of the functions that every query passes, and of its whole path, under
//! valgrind, and compares them with the limits in `limits.txt`. Unlike times, such counts are the same
//! on a busy machine.
//!
//! `cargo run --release -p helenus-benches` checks; with `--set` it writes the limits anew.

mod documents;
mod path;
mod work;
mod worker;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

/// Runs of a function; the count is the difference between these two, so that start-up drops out.
const FEW: usize = 500;
const MANY: usize = 1_500;
/// Counts above the limit by more than this fail; another compiler or C library moves them a little.
const SLACK: f64 = 1.1;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => check(),
        ["--set"] => set(),
        ["--run", name, times] => run(name, times),
        _ => Err(anyhow::anyhow!("usage: helenus-benches [--set]")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Everything that is counted.
fn all() -> impl Iterator<Item = &'static (&'static str, work::Work)> {
    work::ALL.iter().chain(documents::ALL).chain(path::ALL)
}

fn run(name: &str, times: &str) -> Result<()> {
    let times = times.parse().context("not a number of times")?;
    let Some((_, work)) = all().find(|(n, _)| *n == name) else {
        bail!("nothing is called {name}");
    };
    work(times);
    Ok(())
}

fn limits_file() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/limits.txt"))
}

fn check() -> Result<()> {
    let text = std::fs::read_to_string(limits_file()).context("limits.txt is missing: --set")?;
    let limits: BTreeMap<&str, u64> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(count, name)| Some((name.trim(), count.parse().ok()?)))
        .collect();
    let mut worse = 0;
    for (name, _) in all() {
        let count = count(name)?;
        let limit = limits.get(name).copied();
        let note = match limit {
            None => "no limit yet: --set",
            Some(limit) if count as f64 > limit as f64 * SLACK => "MORE than its limit",
            Some(limit) if (count as f64) < limit as f64 / SLACK => "less: lower it with --set",
            Some(_) => "",
        };
        worse += usize::from(note.starts_with('M') || limit.is_none());
        println!("{count:6} {name} (limit {}) {note}", limit.unwrap_or(0));
    }
    if worse > 0 {
        bail!("{worse} functions execute more instructions than benches/limits.txt allows");
    }
    Ok(())
}

fn set() -> Result<()> {
    let mut text = String::new();
    for (name, _) in all() {
        let _ = writeln!(text, "{} {name}", count(name)?);
    }
    print!("{text}");
    std::fs::write(limits_file(), text).context("cannot write limits.txt")
}

/// Instructions of one call.
fn count(name: &str) -> Result<u64> {
    let few = instructions(name, FEW)?;
    let many = instructions(name, MANY)?;
    ensure!(many > few, "nothing of {name} was counted");
    Ok((many - few) / (MANY - FEW) as u64)
}

/// Instructions of a process that calls the function this often.
fn instructions(name: &str, times: usize) -> Result<u64> {
    let own = std::env::current_exe().context("where is this program?")?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    if path::ALL.iter().any(|(path, _)| *path == name) {
        // Not the peers of the engine.
        valgrind.arg(format!("--toggle-collect=*{}*", worker::COUNTED));
    }
    let output = valgrind
        .arg(own)
        .args(["--run", name, &times.to_string()])
        .output()
        .context("valgrind cannot be started; on Debian: apt-get install valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{name} failed: {said}");
    }
    let count = said
        .lines()
        .find_map(|line| line.split_once("Collected : "))
        .and_then(|(_, count)| count.trim().parse().ok());
    count.with_context(|| format!("valgrind did not tell a count: {said}"))
}
