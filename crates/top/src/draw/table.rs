//! The table of a tab.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table, TableState};

use super::super::app::{App, Row};
use super::super::columns::{GAP, fitted};
use super::super::tab::{Feed, Tab};
use super::theme::Theme;

/// Of the column that says of which proxy a row is.
const PROXY_WIDTH_MAX: usize = 21;

pub(super) fn draw(app: &App, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let columns = app.tab.columns();
    let cells: Vec<Vec<String>> = app
        .rows
        .iter()
        .map(|row| {
            columns
                .iter()
                .map(|column| column.show(&row.value, app.now_ms))
                .collect()
        })
        .collect();
    let natural: Vec<usize> = (0..columns.len())
        .map(|at| {
            let cells = cells.iter().map(|row| Span::raw(&*row[at]).width());
            cells.chain([columns[at].title.len()]).max().unwrap_or(0)
        })
        .collect();
    let names = app.proxies.iter().map(|proxy| proxy.name.len());
    let names = names.max().unwrap_or(0).min(PROXY_WIDTH_MAX);
    let of_proxies = if app.names_proxies() { names + GAP } else { 0 };
    // One column at each side is left free.
    let width = usize::from(area.width).saturating_sub(2 + of_proxies);
    let shown = fitted(columns, &natural, width);

    let mut widths = Vec::new();
    let mut head = Vec::new();
    if of_proxies > 0 {
        widths.push(Constraint::Length(names as u16));
        head.push(cell("proxy".to_owned(), false, Style::new()));
    }
    for (at, width) in &shown {
        widths.push(Constraint::Length(*width as u16));
        let column = &columns[*at];
        let style = match app.list().sort == *at {
            true => theme.selected(),
            false => Style::new(),
        };
        head.push(cell(column.title.to_owned(), column.is_number(), style));
    }
    let rows = app.rows.iter().zip(&cells).map(|(row, cells)| {
        let mut line = Vec::new();
        if of_proxies > 0 {
            line.push(cell(app.name_of(row).to_owned(), false, Style::new()));
        }
        let style = style_of(app.tab, row, theme);
        line.extend(
            shown
                .iter()
                .map(|(at, _)| cell(cells[*at].clone(), columns[*at].is_number(), style)),
        );
        TableRow::new(line)
    });
    let table = Table::new(rows, widths)
        .header(TableRow::new(head).style(theme.head()))
        .column_spacing(GAP as u16)
        .row_highlight_style(theme.selected());
    let area = Rect {
        x: area.x + 1.min(area.width),
        width: area.width.saturating_sub(2),
        ..area
    };
    let list = app.list();
    let selected = (!app.rows.is_empty()).then_some(list.selected);
    let mut state = TableState::new()
        .with_offset(list.offset)
        .with_selected(selected);
    frame.render_stateful_widget(table, area, &mut state);
    if app.rows.is_empty() {
        draw_nothing(app, theme, frame, area);
    }
}

fn cell(text: String, is_number: bool, style: Style) -> Cell<'static> {
    let alignment = match is_number {
        true => Alignment::Right,
        false => Alignment::Left,
    };
    Cell::from(Text::from(Line::styled(text, style)).alignment(alignment))
}

/// The style of a row: bad states stand out.
fn style_of(tab: Tab, row: &Row, theme: Theme) -> Style {
    let is = |name: &str, value: &str| row.value[name].as_str() == Some(value);
    match tab {
        Tab::Nodes if is("state", "down") => theme.bad(),
        Tab::Nodes if is("state", "gone") => theme.faint(),
        Tab::Events if is("severity", "bad") => theme.bad(),
        Tab::Events if is("severity", "good") => theme.good(),
        _ => Style::new(),
    }
}

/// Why there are no rows.
fn draw_nothing(app: &App, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let is_known = app
        .chosen_proxies()
        .iter()
        .any(|proxy| match app.tab.feed() {
            Some(feed) => proxy.fed(feed).is_some(),
            None => proxy.snapshot.is_some(),
        });
    let text = match (is_known, app.is_paused) {
        (true, _) if !app.list().filter.is_empty() => "nothing has this text: Esc shows all",
        (true, _) => "nothing",
        (false, true) => "not asked for before it was paused: p goes on",
        (false, false) => "waiting for the answer",
    };
    let area = Rect {
        y: area.y + 1.min(area.height),
        height: area.height.saturating_sub(1).min(1),
        ..area
    };
    frame.render_widget(Paragraph::new(Span::styled(text, theme.faint())), area);
}

/// Figures of the answers that are in none of their rows.
pub(super) fn more(app: &App) -> Option<String> {
    let feed = app.tab.feed()?;
    let chosen = app.chosen_proxies();
    let sum = |name: &str| {
        let answers = chosen
            .iter()
            .filter_map(|proxy| proxy.fed(feed)?[name].as_u64());
        answers.sum::<u64>()
    };
    let mut parts = Vec::new();
    match feed {
        Feed::Clients => parts.push(format!("{} connected", sum("all"))),
        Feed::Slow => {
            let first = chosen.iter().find_map(|proxy| proxy.fed(feed))?;
            let (ms, scan_ms) = (&first["slow_ms"], &first["slow_scan_ms"]);
            parts.push(format!("from {ms} ms on, scans from {scan_ms} ms"));
            if sum("left_out") > 0 {
                parts.push(format!("{} not described", sum("left_out")));
            }
        }
        Feed::Errors => parts.extend(counts(app)),
        _ => {}
    }
    match sum("silent_workers") {
        0 => {}
        1 => parts.push("1 worker has not answered".to_owned()),
        silent => parts.push(format!("{silent} workers have not answered")),
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Errors by code since the proxies were started, the most frequent first.
fn counts(app: &App) -> Option<String> {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    let chosen = app.chosen_proxies();
    for (error, count) in chosen.iter().flat_map(|proxy| proxy.errors_by_code()) {
        match counts.iter_mut().find(|(known, _)| *known == error) {
            Some((_, sum)) => *sum += count,
            None => counts.push((error, count)),
        }
    }
    counts.sort_by_key(|(error, count)| (std::cmp::Reverse(*count), *error));
    let texts = counts
        .iter()
        .map(|(error, count)| format!("{error} {count}"));
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| format!("since the start: {}", texts.join(", ")))
}
