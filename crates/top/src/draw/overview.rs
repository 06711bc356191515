//! How the proxies fare: figures with their course, and each proxy.

use helenus_console::cells::{bytes, micros, number, printable, seconds};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Sparkline, Table};
use serde_json::json;

use super::super::app::App;
use super::super::proxy::Proxy;
use super::super::snapshot::Moment;
use super::theme::Theme;

const NAME_WIDTH: u16 = 12;
const VALUE_WIDTH: u16 = 11;
/// Bound of plotted values, which are multiplied by the height in eighths of a line.
const PLOTTED_MAX: f64 = 1e15;

/// A figure: its name, of what it is made, how it is written, and whether it is bad unless it is 0.
struct Figure {
    name: &'static str,
    of: fn(&Moment, &[u64]) -> Option<f64>,
    show: fn(f64) -> String,
    is_bad: bool,
}

const fn figure(
    name: &'static str,
    show: fn(f64) -> String,
    of: fn(&Moment, &[u64]) -> Option<f64>,
) -> Figure {
    Figure {
        name,
        of,
        show,
        is_bad: false,
    }
}

const FIGURES: &[Figure] = &[
    figure("reads/s", rate, |of, _| Some(of.reads_per_s)),
    figure("writes/s", rate, |of, _| Some(of.writes_per_s)),
    figure("point p50", time, |of, bounds| {
        of.point.quantile_us(0.5, bounds)
    }),
    figure("point p99", time, |of, bounds| {
        of.point.quantile_us(0.99, bounds)
    }),
    figure("scan p50", time, |of, bounds| {
        of.scan.quantile_us(0.5, bounds)
    }),
    figure("scan p99", time, |of, bounds| {
        of.scan.quantile_us(0.99, bounds)
    }),
    Figure {
        is_bad: true,
        ..figure("errors/s", rate, |of, _| of.errors_per_s)
    },
    figure("waiting", whole, |of, _| Some(of.waiting as f64)),
    figure("in flight", whole, |of, _| Some(of.in_flight as f64)),
    figure("clients", whole, |of, _| Some(of.clients as f64)),
    figure(
        "CPU, cores",
        |cores| format!("{cores:.2}"),
        |of, _| Some(of.cpu_cores),
    ),
    figure(
        "memory",
        |size| bytes(&json!(size)),
        |of, _| (of.resident_bytes > 0).then_some(of.resident_bytes as f64),
    ),
];

fn rate(value: f64) -> String {
    number(&json!(value))
}

fn time(us: f64) -> String {
    micros(&json!(us))
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

pub(super) fn draw(app: &App, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let [figures, nodes, _, proxies] = Layout::vertical([
        Constraint::Length(FIGURES.len() as u16),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
    ])
    .areas(area);
    draw_figures(app, theme, frame, figures);
    frame.render_widget(Paragraph::new(node_line(app, theme)), nodes);
    draw_proxies(app, theme, frame, proxies);
}

fn draw_figures(app: &App, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let bounds_us = app.bounds_us();
    let now = app.moment();
    let course_width = area.width.saturating_sub(NAME_WIDTH + VALUE_WIDTH + 4);
    let course = app.moments(course_width.into());
    for (line, figure) in area.rows().zip(FIGURES) {
        let [_, name, value, _, plot, _] = Layout::horizontal([
            Constraint::Length(1),
            Constraint::Length(NAME_WIDTH),
            Constraint::Length(VALUE_WIDTH),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(line);
        let known = now.as_ref().and_then(|now| (figure.of)(now, bounds_us));
        let style = match known {
            Some(value) if figure.is_bad && value > 0.0 => theme.bad(),
            _ => Style::new(),
        };
        let text = known.map_or_else(|| "–".to_owned(), figure.show);
        frame.render_widget(
            Paragraph::new(Span::styled(figure.name, theme.head())),
            name,
        );
        let text = Line::styled(text, style).right_aligned();
        frame.render_widget(Paragraph::new(text), value);
        let values = course.iter().map(|of| (figure.of)(of.as_ref()?, bounds_us));
        // Whole numbers, of which the largest is the height: small rates must not become 0.
        let mut values: Vec<Option<u64>> = values
            .map(|value| value.map(|value| (value * 1e3).min(PLOTTED_MAX) as u64))
            .collect();
        // The latest is at the right.
        let free = usize::from(plot.width).saturating_sub(values.len());
        values.splice(0..0, std::iter::repeat_n(None, free));
        let plotted = Sparkline::default()
            .data(values)
            .style(theme.good())
            .absent_value_symbol(" ");
        frame.render_widget(plotted, plot);
    }
}

/// Nodes by state, as the chosen proxies see them: down if one of them says so.
fn node_line(app: &App, theme: Theme) -> Line<'static> {
    let mut down: Vec<&str> = Vec::new();
    let mut all: Vec<&str> = Vec::new();
    for snapshot in app
        .chosen_proxies()
        .into_iter()
        .filter_map(|of| of.snapshot.as_ref())
    {
        for node in &snapshot.nodes {
            match &*node.state {
                "gone" => continue,
                "down" => down.push(&node.address),
                _ => {}
            }
            all.push(&node.address);
        }
    }
    for list in [&mut down, &mut all] {
        list.sort_unstable();
        list.dedup();
    }
    let name_width = usize::from(NAME_WIDTH);
    let up = format!("{} of {}", all.len() - down.len(), all.len());
    let (up, style) = match (all.is_empty(), down.is_empty()) {
        (true, _) => ("–".to_owned(), Style::new()),
        (false, true) => (up, Style::new()),
        (false, false) => (up, theme.bad()),
    };
    let value_width = usize::from(VALUE_WIDTH);
    let mut spans = vec![
        Span::styled(format!(" {:<name_width$}", "nodes up"), theme.head()),
        Span::styled(format!("{up:>value_width$}"), style),
    ];
    if !down.is_empty() {
        let text = format!(" down: {}", down.join(", "));
        spans.push(Span::styled(printable(&text), theme.bad()));
    }
    Line::from(spans)
}

fn draw_proxies(app: &App, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let names = app.proxies.iter().map(|proxy| proxy.name.len());
    let names = names.max().unwrap_or(0).clamp(5, 40) as u16;
    let head = [
        "proxy", "state", "up for", "version", "clients", "reads/s", "writes/s", "p99",
    ];
    let rows = app.proxies.iter().enumerate().map(|(at, proxy)| {
        let row = Row::new(proxy_cells(proxy, app)).style(match proxy.failure {
            Some(_) => theme.bad(),
            None => Style::new(),
        });
        match app.shown == Some(at) && app.proxies.len() > 1 {
            true => row.style(theme.selected()),
            false => row,
        }
    });
    let widths = [
        Constraint::Length(names),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
    ];
    let table = Table::new(rows, widths).header(Row::new(head).style(theme.head()));
    let area = Rect {
        x: area.x + 1.min(area.width),
        width: area.width.saturating_sub(2),
        ..area
    };
    frame.render_widget(table, area);
}

fn proxy_cells(proxy: &Proxy, app: &App) -> Vec<String> {
    let snapshot = proxy.snapshot.as_ref();
    let state = match (&proxy.failure, snapshot) {
        (Some(_), _) => proxy.failing(),
        (None, None) => "asked",
        (None, Some(snapshot)) if snapshot.ready => "ready",
        (None, Some(_)) => "not ready",
    };
    let of = |value: Option<String>| value.unwrap_or_default();
    let moment = proxy.moment.as_ref();
    let up_for = snapshot.map(|of| {
        let passed = of.now_unix_ms.saturating_sub(of.started_unix_ms);
        seconds(&json!(passed as f64 / 1e3))
    });
    vec![
        proxy.name.clone(),
        state.to_owned(),
        of(up_for),
        of(snapshot.map(|of| printable(&of.version))),
        of(snapshot.map(|of| of.clients.to_string())),
        of(moment.map(|of| rate(of.reads_per_s))),
        of(moment.map(|of| rate(of.writes_per_s))),
        of(moment
            .and_then(|of| of.point.quantile_us(0.99, app.bounds_us()))
            .map(time)),
    ]
}
