//! A design as text.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_console::figures::number;
use helenus_layout::{Certificate, Design, Layout};

use super::coefficients::Source;
use super::report::{Report, StatementReport};
use super::times::{duration, time};

mod arrangements;
mod drift;

/// Longer statements are cut in the table.
const STATEMENT_CHARS: usize = 72;

pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string never fails.
    let _ = write_text(&mut out, report);
    out
}

fn write_text(out: &mut String, report: &Report) -> std::fmt::Result {
    let (design, schema) = (&report.design, &report.workload.schema);
    writeln!(
        out,
        "{}: {} rows of {} were counted; {} queries drawn for {} statements; {} layouts differ for them",
        schema.full_name,
        number(report.rows_sampled as f64),
        number(report.rows_total),
        report.queries,
        report.statements.len(),
        design.candidates,
    )?;
    write_sources(out, report)?;
    if let Some(permuted) = &report.permuted {
        writeln!(
            out,
            "only these change places, being restricted most: {}",
            permuted.join(", ")
        )?;
    }
    writeln!(out)?;
    let own = Layout::own(report.workload.table.clustering());
    writeln!(out, "now  {}", key(report, &own))?;
    for (at, layout) in design.layouts.iter().enumerate() {
        writeln!(out, "{:4} {}", report.name(at), key(report, layout))?;
    }
    writeln!(out, "\n{}\n", statements(report))?;
    let ratio = |cost: f64| {
        format!(
            "{} ({} × this design)",
            time(cost),
            number(cost / design.cost_us)
        )
    };
    writeln!(out, "predicted mean time of a query:")?;
    writeln!(out, "  now                 {}", ratio(design.own_cost_us))?;
    writeln!(
        out,
        "  best single layout  {}: {}",
        ratio(design.single.1),
        key(report, &design.single.0)
    )?;
    writeln!(out, "  this design         {}", time(design.cost_us))?;
    if let Some(annealed) = &design.annealed {
        let above = (annealed.cost_us / design.cost_us - 1.0).max(0.0) * 100.0;
        let cost = time(annealed.cost_us);
        writeln!(
            out,
            "  annealing (HRCA)    {cost}, {above:.2} % above this design"
        )?;
    }
    writeln!(out, "\ncertificate: {}", certificate(report))?;
    writeln!(out, "\nwhile one layout is lost:")?;
    for (at, cost) in design.cost_without_us.iter().enumerate() {
        writeln!(out, "  without {}  {}", report.name(at), ratio(*cost))?;
    }
    arrangements::write_text(out, report)?;
    if let Some(drift) = &report.drift {
        drift::write_text(out, report, drift)?;
    }
    match report.costs.source {
        Source::Typical => writeln!(
            out,
            "\nTimes are predicted with coefficients of a typical node with its data in memory, not measured \
             on yours (helenus layouts calibrate); rows are what they rest on."
        ),
        Source::Calibrated => writeln!(
            out,
            "\nTimes are predicted with the coefficients of --coefficients; rows are what they rest on."
        ),
    }
}

/// Where rows and statements come from, if not from files.
fn write_sources(out: &mut String, report: &Report) -> std::fmt::Result {
    if let Some(sampled) = &report.sampled {
        let (read, all) = (sampled.ranges_read, sampled.ranges);
        if read < all {
            writeln!(
                out,
                "rows from the nodes: all of {} of {} ranges of the ring ({:.2} %), so about {} in the table; \
                 what is predicted for reads of all partitions is for these only",
                number(read as f64),
                number(all as f64),
                sampled.share() * 100.0,
                number(sampled.rows_total().round()),
            )?;
        } else {
            writeln!(out, "rows from the nodes: all of the table")?;
        }
        if sampled.is_cut {
            writeln!(
                out,
                "partitions were too large to be read as a whole: only their first rows were counted, so take \
                 the prediction with care, or raise --sample-rows"
            )?;
        }
    }
    if let Some(learned) = &report.learned {
        writeln!(
            out,
            "statements from the proxies: about {} queries in {}, older ones counting less",
            number(learned.asked.round()),
            duration(learned.counted_s)
        )?;
        for out_of in &learned.left_out {
            writeln!(
                out,
                "left out, asked about {} times: {}\n  {}",
                number(out_of.asked.round()),
                out_of.text,
                out_of.why
            )?;
        }
    }
    Ok(())
}

/// The key as CREATE TABLE writes it.
fn key(report: &Report, layout: &Layout) -> String {
    let schema = &report.workload.schema;
    let partition: Vec<_> = schema.partition.iter().map(|name| name.to_cql()).collect();
    let clustering: Vec<_> = layout
        .columns()
        .filter_map(|c| schema.clustering.get(c))
        .map(|name| name.to_cql())
        .collect();
    let mut text = format!(
        "PRIMARY KEY (({}), {})",
        partition.join(", "),
        clustering.join(", ")
    );
    if !schema.descending.is_empty() {
        let direction = |column: usize| {
            let name = schema.clustering.get(column)?;
            let down = schema.descending.contains(name);
            Some(format!(
                "{} {}",
                name.to_cql(),
                if down { "DESC" } else { "ASC" }
            ))
        };
        let order: Vec<String> = layout.columns().filter_map(direction).collect();
        let _ = write!(text, " CLUSTERING ORDER BY ({})", order.join(", "));
    }
    text
}

fn statements(report: &Report) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "statement",
        "share",
        "rows now",
        "then",
        "time now",
        "then",
        "reads",
    ]);
    for (line, statement) in report.workload.statements.iter().zip(&report.statements) {
        let asked = match &line.data_center {
            Some(name) => format!("{name}: {}", line.text),
            None => line.text.clone(),
        };
        let mut text: String = asked.chars().take(STATEMENT_CHARS).collect();
        if asked.chars().count() > STATEMENT_CHARS {
            text.push('…');
        }
        table.add_row([
            text,
            percent(statement.share),
            number(statement.rows_now.round()),
            number(statement.rows_then.round()),
            time(statement.time_now_us),
            time(statement.time_then_us),
            reads(report, statement),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The layouts that a statement's queries read, and which share of them if they differ.
fn reads(report: &Report, statement: &StatementReport) -> String {
    let read = statement
        .reads
        .iter()
        .enumerate()
        .filter(|(_, share)| **share > 0.0);
    let own = statement.reads.len() - 1;
    let name = |at: usize| {
        if at == own {
            "the table".to_owned()
        } else {
            report.name(at).to_owned()
        }
    };
    let named: Vec<String> = match read.clone().count() {
        1 => read.map(|(at, _)| name(at)).collect(),
        _ => read
            .map(|(at, share)| format!("{} {}", name(at), percent(*share)))
            .collect(),
    };
    named.join(", ")
}

fn certificate(report: &Report) -> String {
    let design = &report.design;
    let count = design.layouts.len();
    let above = above_cheapest(design);
    match design.certificate {
        Certificate::Optimal => {
            let (least, cheapest) = match above {
                Some(percent) => (
                    format!("at most {percent:.2} % above the cheapest: "),
                    format!(" than {}", time(design.least_cost_us)),
                ),
                None => ("optimal: ".to_owned(), String::new()),
            };
            let loss = match design.loss_proven {
                true => ", and none within the slack suffers less from the loss of a layout",
                false => "",
            };
            format!("{least}no other {count} layouts cost less{cheapest} for these queries{loss}")
        }
        Certificate::AtLeast { lower_bound } => format!(
            "not proven: no {count} layouts cost less than {}, {:.2} % below this design",
            time(lower_bound),
            (1.0 - lower_bound / design.cost_us) * 100.0
        ),
    }
}

/// How much more than the cheapest a design costs that suffers less from a loss, in percent, rounded
/// up. None if nothing is seen of it.
pub(super) fn above_cheapest(design: &Design) -> Option<f64> {
    let percent = (design.cost_us / design.least_cost_us - 1.0) * 100.0;
    // Costs as good as the same may differ by a billionth.
    (percent > 1e-6).then(|| (percent * 100.0).ceil() / 100.0)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
