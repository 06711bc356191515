//! Bar charts as inline SVG: groups with one bar per series, whiskers from minimum to maximum.

use crate::report::spread::Spread;
use std::fmt::Write;

mod lines;

pub use lines::{Line, LineChart};

#[derive(Clone, Debug)]
pub struct BarChart {
    pub title: String,
    /// Label of the vertical axis, with its unit.
    pub axis: String,
    pub series: Vec<String>,
    /// Colour indices of the series; if empty, in their own order.
    pub colours: Vec<usize>,
    pub groups: Vec<Group>,
}

#[derive(Clone, Debug)]
pub struct Group {
    pub name: String,
    /// One value per series, in the chart's order; None leaves a gap.
    pub values: Vec<Option<Spread>>,
}

/// Distinguishable with the common kinds of colour blindness too (Okabe and Ito, with a grey and a brown).
const COLOURS: [&str; 10] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#f0e442",
    "#000000", "#7a4b00",
];
const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 58.0;
const BOTTOM: f64 = 42.0;

pub fn colour(series: usize) -> &'static str {
    COLOURS[series % COLOURS.len()]
}

impl BarChart {
    pub fn svg(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(String::as_str).collect();
        let head = heading_height(&names);
        let height = HEIGHT - TOP + head;
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.title)
        );
        let most = self
            .groups
            .iter()
            .flat_map(|group| group.values.iter().flatten());
        let top = nice_ceiling(most.map(|spread| spread.max).fold(0.0, f64::max));
        let bottom = height - BOTTOM;
        let y = |value: f64| bottom - (bottom - head) * (value / top).clamp(0.0, 1.0);
        let place = |series: usize| self.colours.get(series).copied().unwrap_or(series);
        let colours: Vec<usize> = (0..names.len()).map(place).collect();
        draw_heading(&mut out, &self.title, &self.axis, &names, &colours, height);
        draw_axis(&mut out, top, head, height);
        let group_width = (WIDTH - LEFT - RIGHT) / self.groups.len().max(1) as f64;
        let bar = group_width * 0.8 / self.series.len().max(1) as f64;
        for (position, group) in self.groups.iter().enumerate() {
            let from = LEFT + group_width * position as f64;
            add(
                &mut out,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    from + group_width / 2.0,
                    bottom + 20.0,
                    escape(&group.name)
                ),
            );
            for (series, spread) in group.values.iter().enumerate() {
                let Some(spread) = spread else { continue };
                let x = from + group_width * 0.1 + bar * series as f64;
                let (height, middle) = (y(0.0) - y(spread.median), x + bar / 2.0);
                let name = self.series.get(series).map_or("", String::as_str);
                add(
                    &mut out,
                    format_args!(
                        "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{}\">\
                     <title>{}, {}: {} ({} to {})</title></rect>\
                     <line x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" class=\"whisker\"/>",
                        y(spread.median),
                        bar * 0.92,
                        colour(place(series)),
                        escape(&group.name),
                        escape(name),
                        number(spread.median),
                        number(spread.min),
                        number(spread.max),
                        y(spread.min),
                        y(spread.max)
                    ),
                );
            }
        }
        out + "</svg>\n"
    }
}

/// Horizontal lines with their values.
fn draw_axis(out: &mut String, top: f64, head: f64, height: f64) {
    let bottom = height - BOTTOM;
    for step in 0..=4 {
        let share = f64::from(step) / 4.0;
        let (right, line) = (WIDTH - RIGHT, bottom - (bottom - head) * share);
        add(
            out,
            format_args!(
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{line:.1}\" y2=\"{line:.1}\" class=\"grid\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                line + 4.0,
                number(top * share)
            ),
        );
    }
}

/// Positions of the legend's entries, which fill lines from left to right.
fn legend(names: &[&str]) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (LEFT, 28.0);
    let mut places = Vec::new();
    for name in names {
        let width = 40.0 + 7.2 * name.chars().count() as f64;
        if x > LEFT && x + width > WIDTH {
            (x, y) = (LEFT, y + 18.0);
        }
        places.push((x, y));
        x += width;
    }
    places
}

/// Height of title and legend; [`TOP`] if the legend has one line.
fn heading_height(names: &[&str]) -> f64 {
    legend(names).last().map_or(TOP, |&(_, y)| TOP + y - 28.0)
}

fn draw_heading(
    out: &mut String,
    title: &str,
    axis: &str,
    names: &[&str],
    colours: &[usize],
    height: f64,
) {
    add(
        out,
        format_args!(
            "<text x=\"{LEFT}\" y=\"16\" class=\"title\">{}</text>\
             <text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escape(title),
            (height + TOP - BOTTOM) / 2.0,
            escape(axis)
        ),
    );
    for ((name, place), (x, y)) in names.iter().zip(colours).zip(legend(names)) {
        add(
            out,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" fill=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                colour(*place),
                x + 17.0,
                y + 10.0,
                escape(name)
            ),
        );
    }
}

/// The smallest of 1, 2, 4, 5, 8 × a power of ten that is at least `value`.
fn nice_ceiling(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0];
    steps
        .into_iter()
        .map(|step| step * power)
        .find(|&top| top >= value)
        .unwrap_or(10.0 * power)
}

/// Three significant digits, with thousands separators.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1000.0 {
        let digits = format!("{size:.0}");
        let mut out = String::from(if value < 0.0 { "−" } else { "" });
        for (position, digit) in digits.chars().enumerate() {
            if position > 0 && (digits.len() - position) % 3 == 0 {
                out.push(',');
            }
            out.push(digit);
        }
        out
    } else if size >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn add(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text)
        .expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_ends_on_a_round_number_not_below_the_highest_value() {
        for (value, top) in [
            (0.0, 1.0),
            (0.7, 0.8),
            (1.0, 1.0),
            (431.0, 500.0),
            (9001.0, 10_000.0),
        ] {
            assert!((nice_ceiling(value) - top).abs() < top * 1e-9, "{value}");
        }
    }

    #[test]
    fn numbers_are_readable() {
        let texts = [0.0, 0.034, 1.234, 56.78, 123.4, 1234.0, 12_345_678.0].map(number);
        assert_eq!(
            texts,
            ["0", "0.0340", "1.23", "56.8", "123", "1,234", "12,345,678"]
        );
        assert_eq!(number(-4321.0), "−4,321");
    }

    #[test]
    fn one_bar_a_value_and_gaps_stay_gaps() {
        let spread = Spread {
            median: 2.0,
            min: 1.0,
            max: 3.0,
        };
        let chart = BarChart {
            title: "a < b".into(),
            axis: "µs".into(),
            series: vec!["x".into(), "y".into()],
            colours: Vec::new(),
            groups: vec![
                Group {
                    name: "1".into(),
                    values: vec![Some(spread), Some(spread)],
                },
                Group {
                    name: "2".into(),
                    values: vec![None, Some(spread)],
                },
            ],
        };
        let svg = chart.svg();
        assert_eq!(svg.matches("<title>").count(), 3);
        assert!(svg.contains("a &lt; b") && !svg.contains("a < b"));
    }
}
