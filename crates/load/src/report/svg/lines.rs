//! A line chart as inline SVG.

use super::{
    BOTTOM, COLOURS, HEIGHT, LEFT, RIGHT, TOP, WIDTH, add, colour, draw_axis, draw_heading, escape,
    heading_height, nice_ceiling, number,
};

#[derive(Clone, Debug)]
pub struct LineChart {
    pub title: String,
    /// Label of the vertical axis, with its unit.
    pub axis: String,
    /// Label of the horizontal axis.
    pub across: String,
    /// Labels of the horizontal positions 0, 1, …; if empty, the axis shows numbers.
    pub names: Vec<String>,
    pub series: Vec<Line>,
}

#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    /// Colour index, so that an arm has the same colour in every chart.
    pub colour: usize,
    /// Horizontal position and value, from left to right.
    pub points: Vec<(f64, f64)>,
}

impl LineChart {
    pub fn svg(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(|line| &*line.name).collect();
        let head = heading_height(&names);
        let height = HEIGHT - TOP + head;
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.title)
        );
        let points = || self.series.iter().flat_map(|line| &line.points);
        let finite = |value: &f64| value.is_finite();
        let top = nice_ceiling(
            points()
                .map(|point| point.1)
                .filter(finite)
                .fold(0.0, f64::max),
        );
        let last = match self.names.len() {
            0 => points()
                .map(|point| point.0)
                .filter(finite)
                .fold(0.0, f64::max),
            names => (names - 1) as f64,
        };
        let colours: Vec<usize> = self.series.iter().map(|line| line.colour).collect();
        draw_heading(&mut out, &self.title, &self.axis, &names, &colours, height);
        draw_axis(&mut out, top, head, height);
        let x = |at: f64| LEFT + 20.0 + (WIDTH - LEFT - RIGHT - 40.0) * at / last.max(1e-9);
        let bottom = height - BOTTOM;
        let y = |value: f64| bottom - (bottom - head) * (value / top).clamp(0.0, 1.0);
        let ticks: Vec<(f64, String)> = if self.names.is_empty() {
            (0..=4)
                .map(|step| last * f64::from(step) / 4.0)
                .map(|at| (at, number(at)))
                .collect()
        } else {
            let named = self.names.iter().enumerate();
            named.map(|(at, name)| (at as f64, name.clone())).collect()
        };
        for (at, name) in ticks {
            add(
                &mut out,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    x(at),
                    bottom + 16.0,
                    escape(&name)
                ),
            );
        }
        add(
            &mut out,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                (LEFT + WIDTH - RIGHT) / 2.0,
                bottom + 34.0,
                escape(&self.across)
            ),
        );
        for line in &self.series {
            let dash = ["", "6 3", "2 3"][line.colour / COLOURS.len() % 3];
            let points = line.points.iter().filter(|point| point.1.is_finite());
            let points: Vec<String> = points
                .clone()
                .map(|&(at, value)| format!("{:.1},{:.1}", x(at), y(value)))
                .collect();
            add(
                &mut out,
                format_args!(
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" \
                     stroke-dasharray=\"{dash}\"><title>{}</title></polyline>",
                    points.join(" "),
                    colour(line.colour),
                    escape(&line.name)
                ),
            );
            // Dots carry the numbers, unless they are dense enough to hide the line.
            for &(at, value) in line.points.iter().filter(|_| line.points.len() <= 40) {
                if !value.is_finite() {
                    continue;
                }
                add(
                    &mut out,
                    format_args!(
                        "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{}\"><title>{}: {}</title></circle>",
                        x(at),
                        y(value),
                        colour(line.colour),
                        escape(&line.name),
                        number(value)
                    ),
                );
            }
        }
        out + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_is_a_line_and_gaps_are_left_out() {
        let line = |name: &str, points: &[(f64, f64)]| Line {
            name: name.into(),
            colour: 0,
            points: points.to_vec(),
        };
        let chart = LineChart {
            title: "a & b".into(),
            axis: "queries/s".into(),
            across: "clients".into(),
            names: vec!["1".into(), "16".into(), "64".into()],
            series: vec![
                line("x", &[(0.0, 5.0), (1.0, f64::NAN), (2.0, 7.0)]),
                line("<y>", &[(0.0, 1.0)]),
            ],
        };
        let svg = chart.svg();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("a &amp; b") && svg.contains("&lt;y&gt;") && !svg.contains("NaN"));
        assert!(svg.contains(">16</text>"));
    }

    #[test]
    fn nothing_measured_is_an_empty_chart_not_a_broken_one() {
        let chart = LineChart {
            title: "t".into(),
            axis: "a".into(),
            across: "s".into(),
            names: Vec::new(),
            series: Vec::new(),
        };
        assert!(!chart.svg().contains("NaN"));
    }
}
