//! `helenus bench compare`: two reports side by side.

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use helenus_load::report::Report;
use helenus_load::report::compare::{Comparison, Row, Side, Verdict};
use helenus_load::report::svg::number;
use std::path::PathBuf;
use std::process::ExitCode;

/// The second report is worse than allowed.
const WORSE: u8 = 3;

#[derive(Args, Debug)]
pub(super) struct CompareArgs {
    /// The earlier report, as written by --json of an experiment, of `helenus load` or of
    /// `helenus load ramp`
    #[arg(value_name = "A.json")]
    a: PathBuf,
    /// The later report
    #[arg(value_name = "B.json")]
    b: PathBuf,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
    /// Exit with 3 if something is significantly worse in the second report, by more than so many
    /// percent, or if more queries fail
    #[arg(long, value_name = "PCT", value_parser = parse_percent)]
    fail_if_worse: Option<f64>,
}

pub(super) fn compare(args: &CompareArgs) -> Result<ExitCode> {
    let (a, b) = (Report::read_json(&args.a)?, Report::read_json(&args.b)?);
    let comparison = Comparison::of(&a, &b)?;
    let worse = args.fail_if_worse.map(|percent| comparison.worse(percent));
    match args.json {
        true => print_json(&comparison, worse.as_deref())?,
        false => print(&comparison),
    }
    let (Some(worse), Some(percent)) = (worse, args.fail_if_worse) else {
        return Ok(ExitCode::SUCCESS);
    };
    if !worse.is_empty() {
        eprintln!("Worse by more than {percent} %, or failing more often:");
        for line in worse {
            eprintln!("  {line}");
        }
        return Ok(ExitCode::from(WORSE));
    }
    // Otherwise a regression would pass unseen.
    ensure!(
        comparison.tests > 0,
        "there are too few rounds to tell whether anything is worse: measure at least 3 in both runs \
         (--rounds 3)"
    );
    Ok(ExitCode::SUCCESS)
}

fn print_json(comparison: &Comparison, worse: Option<&[String]>) -> Result<()> {
    let mut value = serde_json::to_value(comparison)?;
    let object = value.as_object_mut().context("it is an object")?;
    if let Some(worse) = worse {
        object.insert("worse".into(), worse.into());
    }
    println!("{value:#}");
    Ok(())
}

fn print(comparison: &Comparison) {
    for line in &comparison.warnings {
        println!("Warning: {line}");
    }
    for (cells, which) in [
        (&comparison.only_in_a, "first"),
        (&comparison.only_in_b, "second"),
    ] {
        if let Some(cell) = cells.first() {
            let count = cells.len();
            println!("Only in the {which} report: {count} cells, such as {cell}.");
        }
    }
    if !comparison.ratios.is_empty() {
        println!("{}", ratios(comparison));
    }
    println!("{}", cells(&comparison.rows));
    for errors in &comparison.errors {
        println!("{}", errors.describe());
    }
    println!("{}", summary(comparison));
}

fn ratios(comparison: &Comparison) -> Table {
    let mut table = table(&["result", "A", "B", "B / A", ""]);
    for row in &comparison.ratios {
        let ratio = row.b.median / row.a.median;
        table.add_row([
            row.key.clone(),
            format!(
                "{} ({}–{})",
                number(row.a.median),
                number(row.a.min),
                number(row.a.max)
            ),
            format!(
                "{} ({}–{})",
                number(row.b.median),
                number(row.b.min),
                number(row.b.max)
            ),
            finite(ratio, number),
            match row.overlap {
                true => "rounds overlap".into(),
                false => "rounds apart".into(),
            },
        ]);
    }
    align(table, 1..4)
}

fn cells(rows: &[Row]) -> Table {
    let heads = [
        "cell",
        "arm",
        "",
        "A",
        "B",
        "difference",
        "95 % interval",
        "p",
        "",
    ];
    let mut table = table(&heads);
    for row in rows {
        let percent = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
        let interval = row.ratio_low.zip(row.ratio_high);
        table.add_row([
            row.cell.clone(),
            row.arm.clone(),
            row.quantity.clone(),
            mean(&row.a),
            mean(&row.b),
            row.ratio.map_or("–".into(), |ratio| percent(ratio) + " %"),
            interval.map_or("–".into(), |(low, high)| {
                format!("{} to {} %", percent(low), percent(high))
            }),
            row.p_corrected.map_or("–".into(), |p| format!("{p:.3}")),
            verdict(row.verdict).into(),
        ]);
    }
    align(table, 3..8)
}

fn mean(side: &Side) -> String {
    side.mean.map_or_else(|| "–".to_owned(), number)
}

fn finite(value: f64, shown: impl Fn(f64) -> String) -> String {
    match value.is_finite() {
        true => shown(value),
        false => "–".into(),
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Unclear => "",
        Verdict::TooFewRounds => "too few rounds to tell",
        Verdict::NoValue => "nothing succeeded in a round",
    }
}

fn summary(comparison: &Comparison) -> String {
    let rows = comparison.rows.len();
    let count = |verdict| comparison.count(verdict);
    let few = count(Verdict::TooFewRounds);
    let mut text = format!("{rows} quantities compared");
    if few > 0 {
        text += &format!("; {few} have too few rounds to tell (3 in both runs are needed)");
    }
    if comparison.tests > 0 {
        text += &format!(
            ". {} tests, p values corrected for that number (Holm): {} better, {} worse, {} not told apart",
            comparison.tests,
            count(Verdict::Better),
            count(Verdict::Worse),
            count(Verdict::Unclear)
        );
    }
    text + ". Rounds show how much a run varies within itself; two runs of the same program may differ by more."
}

fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(heads);
    table
}

fn align(mut table: Table, columns: std::ops::Range<usize>) -> Table {
    for column in table
        .column_iter_mut()
        .skip(columns.start)
        .take(columns.len())
    {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn parse_percent(text: &str) -> Result<f64> {
    let percent: f64 = text.trim_end_matches('%').trim().parse()?;
    if !(0.0..=1000.0).contains(&percent) {
        bail!("from 0 to 1000 percent");
    }
    Ok(percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_load::measure::Recorder;
    use helenus_load::report::machine::Machine;
    use std::time::Duration;

    /// A report with these queries per second in its rounds, in a file.
    fn file(folder: &tempfile::TempDir, name: &str, rounds: &[u64]) -> PathBuf {
        let mut report = Report::new(
            "load",
            "helenus load".into(),
            Machine::default(),
            rounds.len(),
        );
        for &queries in rounds {
            let mut recorder = Recorder::new(1);
            for _ in 0..queries {
                recorder.record(0, Duration::from_micros(100), Ok(()));
            }
            let phase = recorder.into_phase(&["read"], Duration::from_secs(1), None);
            report.add("helenus", "64 clients", phase);
        }
        let path = folder.path().join(name);
        report.write_json(&path).unwrap();
        path
    }

    fn code(a: PathBuf, b: PathBuf, fail_if_worse: Option<f64>) -> Result<String> {
        let args = CompareArgs {
            a,
            b,
            json: true,
            fail_if_worse,
        };
        Ok(format!("{:?}", compare(&args)?))
    }

    #[test]
    fn the_exit_code_says_whether_it_is_worse() {
        let folder = tempfile::tempdir().unwrap();
        let a = || file(&folder, "a", &[1000, 1010, 990]);
        let b = || file(&folder, "b", &[800, 810, 790]);
        let [good, bad] =
            [ExitCode::SUCCESS, ExitCode::from(WORSE)].map(|code| format!("{code:?}"));
        assert_eq!(code(a(), b(), Some(10.0)).unwrap(), bad);
        assert_eq!(code(a(), b(), Some(30.0)).unwrap(), good);
        assert_eq!(code(b(), a(), Some(0.0)).unwrap(), good);
        assert_eq!(code(a(), b(), None).unwrap(), good);
        let short = || file(&folder, "short", &[1, 2]);
        assert_eq!(code(a(), short(), None).unwrap(), good);
        let error = code(a(), short(), Some(5.0)).unwrap_err();
        assert!(error.to_string().contains("too few rounds"), "{error}");
        assert!(code(a(), folder.path().join("none"), None).is_err());
    }

    #[test]
    fn the_tables_tell_what_was_found_and_how_many_were_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let a = Report::read_json(&file(&folder, "a", &[1000, 1010, 990])).unwrap();
        let b = Report::read_json(&file(&folder, "b", &[800, 810, 790])).unwrap();
        let comparison = Comparison::of(&a, &b).unwrap();
        let text = cells(&comparison.rows).to_string();
        assert!(text.contains("-20.0 %") && text.contains("worse"), "{text}");
        let text = summary(&comparison);
        assert!(
            text.contains("3 tests") && text.contains("1 worse"),
            "{text}"
        );
    }

    #[test]
    fn percentages_have_bounds() {
        assert_eq!(parse_percent("5 %").unwrap(), 5.0);
        for wrong in ["-1", "NaN", "x", "2000"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
    }
}
