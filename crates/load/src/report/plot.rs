//! Charts of a report's cells; an arm has the same colour in all of them.

use crate::measure::Phase;
use crate::report::Report;
use crate::report::spread::Spread;
use crate::report::svg::{BarChart, Group, Line, LineChart};

pub(crate) type Quantity<'a> = &'a dyn Fn(&Phase) -> Option<f64>;

/// One line per arm, of medians over the rounds. `cells` are the horizontal positions: label and
/// cell name. `heads` are the title and the labels of the vertical and horizontal axes. None if
/// nothing was measured.
pub(crate) fn lines(
    report: &Report,
    arms: &[&str],
    heads: (&str, &str, &str),
    cells: &[(String, String)],
    of: Quantity,
) -> Option<String> {
    let line = |(colour, arm): (usize, &&str)| {
        let value = |cell: &str| median(report.phases(arm, cell), of);
        let positions = cells.iter().enumerate();
        let points = positions.filter_map(|(at, (_, cell))| Some((at as f64, value(cell)?)));
        Line {
            name: (*arm).to_owned(),
            colour,
            points: points.collect(),
        }
    };
    let series = arms.iter().enumerate().map(line);
    let series: Vec<Line> = series.filter(|line| !line.points.is_empty()).collect();
    let (title, axis, across) = heads;
    let chart = LineChart {
        title: title.into(),
        axis: axis.into(),
        across: across.into(),
        names: cells.iter().map(|(name, _)| name.clone()).collect(),
        series,
    };
    (!chart.series.is_empty()).then(|| chart.svg())
}

/// One group of bars per cell, with one bar per arm. `heads` are the title and the axis label. Arms
/// without a value are left out. None if nothing was measured.
pub(crate) fn bars(
    report: &Report,
    arms: &[&str],
    heads: (&str, &str),
    cells: &[String],
    of: Quantity,
) -> Option<String> {
    let spread = |arm: &str, cell: &str| {
        let phases = report.phases(arm, cell).iter();
        Spread::of(&phases.filter_map(of).collect::<Vec<f64>>())
    };
    let measured = |arm: &str| cells.iter().any(|cell| spread(arm, cell).is_some());
    let present = arms.iter().copied().enumerate();
    let (colours, names): (Vec<usize>, Vec<&str>) =
        present.filter(|(_, arm)| measured(arm)).unzip();
    if names.is_empty() {
        return None;
    }
    let group = |cell: &String| Group {
        name: cell.clone(),
        values: names.iter().map(|arm| spread(arm, cell)).collect(),
    };
    let chart = BarChart {
        title: heads.0.into(),
        axis: heads.1.into(),
        series: names.iter().map(|name| (*name).to_owned()).collect(),
        colours,
        groups: cells.iter().map(group).collect(),
    };
    Some(chart.svg())
}

pub(crate) fn median(phases: &[Phase], of: Quantity) -> Option<f64> {
    let values: Vec<f64> = phases.iter().filter_map(of).collect();
    Some(Spread::of(&values)?.median)
}
