//! Charts of a report's cells, as data; an arm has the same colour in all of them.

use crate::measure::Phase;
use crate::report::Report;
use crate::report::figures::Figure;
use crate::report::spread::Spread;
use crate::report::svg::{BarChart, Group, Line, LineChart};

#[derive(Clone, Debug)]
pub(crate) struct Chart {
    title: String,
    /// Label of the vertical axis.
    axis: String,
    /// Label of the horizontal axis, if there is a line for each arm. Else there is a group of bars for each
    /// cell.
    across: Option<&'static str>,
    /// Horizontal positions: label and cell.
    cells: Vec<(String, String)>,
    of: Figure,
    /// The arms that are drawn, if these are not all.
    arms: Option<Vec<String>>,
}

impl Chart {
    /// Of medians over the rounds. `heads` are the title and the labels of the vertical and horizontal axes.
    pub(crate) fn lines(
        heads: (&str, &str, &'static str),
        cells: Vec<(String, String)>,
        of: Figure,
    ) -> Self {
        let (title, axis, across) = heads;
        Self {
            title: title.into(),
            axis: axis.into(),
            across: Some(across),
            cells,
            of,
            arms: None,
        }
    }

    pub(crate) fn bars(title: &str, axis: &str, cells: &[String], of: Figure) -> Self {
        let cells = cells.iter().map(|cell| (cell.clone(), cell.clone()));
        Self {
            across: None,
            ..Self::lines((title, axis, ""), cells.collect(), of)
        }
    }

    pub(crate) fn of_arms(self, arms: &[&str]) -> Self {
        let arms = arms.iter().map(|&arm| arm.to_owned());
        Self {
            arms: Some(arms.collect()),
            ..self
        }
    }

    /// `arms` are all that there are. None if nothing was measured.
    pub(crate) fn svg(&self, report: &Report, arms: &[&str]) -> Option<String> {
        let own = self.arms.iter().flatten();
        let own: Vec<&str> = own.map(String::as_str).collect();
        let arms = if self.arms.is_some() { &own[..] } else { arms };
        match self.across {
            Some(across) => self.drawn_lines(report, arms, across),
            None => self.drawn_bars(report, arms),
        }
    }

    fn drawn_lines(&self, report: &Report, arms: &[&str], across: &str) -> Option<String> {
        let line = |(colour, arm): (usize, &&str)| {
            let value = |cell: &str| median(report.phases(arm, cell), self.of);
            let positions = self.cells.iter().enumerate();
            let points = positions.filter_map(|(at, (_, cell))| Some((at as f64, value(cell)?)));
            Line {
                name: (*arm).to_owned(),
                colour,
                points: points.collect(),
            }
        };
        let series = arms.iter().enumerate().map(line);
        let series: Vec<Line> = series.filter(|line| !line.points.is_empty()).collect();
        let chart = LineChart {
            title: self.title.clone(),
            axis: self.axis.clone(),
            across: across.into(),
            names: self.cells.iter().map(|(name, _)| name.clone()).collect(),
            series,
        };
        (!chart.series.is_empty()).then(|| chart.svg())
    }

    /// Arms without a value are left out.
    fn drawn_bars(&self, report: &Report, arms: &[&str]) -> Option<String> {
        let value = |arm: &str, cell: &str| spread(report.phases(arm, cell), self.of);
        let measured = |arm: &str| self.cells.iter().any(|(_, of)| value(arm, of).is_some());
        let present = arms.iter().copied().enumerate();
        let (colours, names): (Vec<usize>, Vec<&str>) =
            present.filter(|(_, arm)| measured(arm)).unzip();
        if names.is_empty() {
            return None;
        }
        let group = |(name, cell): &(String, String)| Group {
            name: name.clone(),
            values: names.iter().map(|arm| value(arm, cell)).collect(),
        };
        let chart = BarChart {
            title: self.title.clone(),
            axis: self.axis.clone(),
            series: names.iter().map(|name| (*name).to_owned()).collect(),
            colours,
            groups: self.cells.iter().map(group).collect(),
        };
        Some(chart.svg())
    }
}

/// Over the rounds that have the figure.
pub(crate) fn spread(phases: &[Phase], of: Figure) -> Option<Spread> {
    let values: Vec<f64> = phases.iter().filter_map(|phase| of.of(phase)).collect();
    Spread::of(&values)
}

pub(crate) fn median(phases: &[Phase], of: Figure) -> Option<f64> {
    Some(spread(phases, of)?.median)
}
