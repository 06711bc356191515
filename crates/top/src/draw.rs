//! Draws the state of the live view.

mod overview;
mod popup;
mod table;
#[cfg(test)]
mod tests;
mod theme;

use helenus_console::cells::{printable, seconds};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

pub(super) use self::theme::Theme;
use super::app::{App, Mode};
use super::tab::Tab;

/// Draws everything.
pub(super) fn draw(app: &App, theme: Theme, frame: &mut Frame<'_>) {
    let [title, tabs, status, body, hints] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_title(app, theme, frame, title);
    let line = tab_line(app, theme, tabs.width.into());
    frame.render_widget(Paragraph::new(line), tabs);
    frame.render_widget(Paragraph::new(status_line(app, theme)), status);
    match app.tab {
        Tab::Overview => overview::draw(app, theme, frame, body),
        _ => table::draw(app, theme, frame, body),
    }
    frame.render_widget(Paragraph::new(hint_line(app, theme)), hints);
    popup::draw(app, theme, frame);
}

fn draw_title(app: &App, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let pace = seconds_of(app.every_ms);
    let right = match app.is_paused {
        true => Span::styled("PAUSED ", theme.bad()),
        false => Span::styled(format!("every {pace} "), theme.faint()),
    };
    let mut left = vec![Span::styled(" helenus top", theme.head())];
    let snapshots = app
        .chosen_proxies()
        .into_iter()
        .filter_map(|proxy| proxy.snapshot.as_ref());
    let mut clusters: Vec<String> = snapshots.map(|of| printable(&of.cluster)).collect();
    clusters.sort();
    clusters.dedup();
    if !clusters.is_empty() {
        left.push(Span::raw(format!("  {}", clusters.join(", "))));
    }
    let all = app.proxies.len();
    let which = match app.shown {
        None => format!("  all {all} proxies together [ ]"),
        Some(at) if all > 1 => format!("  proxy {} of {all}: {} [ ]", at + 1, app.proxies[at].name),
        Some(at) => format!("  {}", app.proxies[at].name),
    };
    left.push(Span::styled(which, theme.faint()));
    let width = right.width() as u16;
    let [at_left, at_right] =
        Layout::horizontal([Constraint::Min(0), Constraint::Length(width)]).areas(area);
    frame.render_widget(Paragraph::new(Line::from(left)), at_left);
    frame.render_widget(Paragraph::new(Line::from(right)), at_right);
}

fn seconds_of(ms: u64) -> String {
    format!("{} s", ms as f64 / 1e3)
}

/// The tabs with their keys; on narrow terminals closer together, and then those around the chosen one.
fn tab_line(app: &App, theme: Theme, width: usize) -> Line<'static> {
    let tabs = app.tabs();
    let chosen = tabs.iter().position(|tab| *tab == app.tab).unwrap_or(0);
    let key = |at: usize| match at {
        0..=8 => (at + 1).to_string(),
        9 => "0".to_owned(),
        _ => String::new(),
    };
    let wide = |gap: usize, between: usize| {
        let widths = tabs.iter().enumerate();
        let widths = widths.map(|(at, tab)| key(at).len() + gap + tab.title().len() + between);
        widths.sum::<usize>() + 1 - between
    };
    let (gap, between) = match (wide(1, 2) <= width, wide(1, 1) <= width) {
        (true, _) => (1, 2),
        (false, true) => (1, 1),
        (false, false) => (0, 1),
    };
    let label = |at: usize| (key(at), format!("{}{}", " ".repeat(gap), tabs[at].title()));
    // Tabs before the chosen one are left out until it fits.
    let end_of = |from: usize| {
        let widths = (from..=chosen).map(|at| {
            let (key, name) = label(at);
            key.len() + name.len() + between
        });
        widths.sum::<usize>() + 1
    };
    let from = (0..=chosen)
        .find(|from| end_of(*from) <= width)
        .unwrap_or(chosen);
    let before = match (from, gap) {
        (1.., _) => "…",
        (0, 1..) => " ",
        (0, 0) => "",
    };
    let mut spans = vec![Span::raw(before)];
    for at in from..tabs.len() {
        let (key, name) = label(at);
        if at == chosen {
            spans.push(Span::styled(format!("{key}{name}"), theme.selected()));
        } else {
            spans.push(Span::styled(key, theme.head()));
            spans.push(Span::raw(name));
        }
        spans.push(Span::raw(" ".repeat(between)));
    }
    Line::from(spans)
}

/// The first problem, or a description of the rows.
fn status_line(app: &App, theme: Theme) -> Line<'static> {
    let mut spans = vec![Span::raw(" ")];
    let chosen = app.chosen_proxies();
    let failed: Vec<_> = chosen
        .iter()
        .filter_map(|proxy| Some((proxy, proxy.failure_of(app.tab)?)))
        .collect();
    if let Some((proxy, why)) = failed.first() {
        let since = proxy.failure.as_ref().map(|(_, since_ms)| {
            let passed = app.now_ms.saturating_sub(*since_ms) / 1_000;
            format!(" for {}", seconds(&passed.into()))
        });
        let others = match failed.len() {
            1 => String::new(),
            all => format!(" (and {} more)", all - 1),
        };
        let since = since.unwrap_or_default();
        let (name, what) = (&proxy.name, proxy.failing());
        let text = format!("{name}: {what}{since}{others}: {why}");
        spans.push(Span::styled(printable(&text), theme.bad()));
        return Line::from(spans);
    }
    if app.tab == Tab::Overview {
        let not_ready = chosen
            .iter()
            .filter_map(|proxy| Some((proxy, proxy.snapshot.as_ref()?)));
        let mut not_ready = not_ready.filter(|(_, snapshot)| !snapshot.ready);
        if let Some((proxy, snapshot)) = not_ready.next() {
            let reason = snapshot.ready_reason.as_deref().unwrap_or_default();
            let text = format!("{} is not ready: {reason}", proxy.name);
            spans.push(Span::styled(printable(&text), theme.bad()));
        }
        return Line::from(spans);
    }
    let list = app.list();
    let (shown, all) = (app.rows.len(), app.rows_of_all());
    let mut text = match shown == all {
        true => format!("{shown} {}", if shown == 1 { "row" } else { "rows" }),
        false => format!("{shown} of {all} rows"),
    };
    if let Some(column) = app.tab.columns().get(list.sort) {
        let direction = if list.is_reversed { ", reversed" } else { "" };
        text.push_str(&format!("  by {}{direction}", column.title));
    }
    if !list.filter.is_empty() {
        text.push_str(&format!("  with “{}”", list.filter));
    }
    spans.push(Span::styled(printable(&text), theme.faint()));
    if let Some(more) = table::more(app) {
        spans.push(Span::raw(format!("  {}", printable(&more))));
    }
    Line::from(spans)
}

fn hint_line(app: &App, theme: Theme) -> Line<'static> {
    if let Mode::Filter(_) = &app.mode {
        return Line::from(vec![
            Span::styled(" /", theme.head()),
            Span::raw(printable(&app.list().filter)),
            Span::styled(" ", theme.selected()),
            Span::styled("  Enter keeps it, Esc drops it", theme.faint()),
        ]);
    }
    if let Some((is_good, text)) = &app.note {
        let style = if *is_good { theme.good() } else { theme.bad() };
        return Line::from(Span::styled(format!(" {}", printable(text)), style));
    }
    let mut hints = vec![
        ("?", "help"),
        ("q", "quit"),
        ("Tab", "next"),
        ("p", "pause"),
    ];
    if app.tab != Tab::Overview {
        hints.extend([
            ("/", "filter"),
            ("s", "sort"),
            ("r", "reverse"),
            ("Enter", "details"),
        ]);
    }
    if app.tab == Tab::Clients {
        hints.push(("K", "disconnect"));
    }
    if app.proxies.len() > 1 {
        hints.push(("[ ]", "proxy"));
    }
    let spans = hints.into_iter().flat_map(|(key, what)| {
        [
            Span::styled(format!(" {key}"), theme.head()),
            Span::raw(format!(" {what} ")),
        ]
    });
    Line::from_iter(spans)
}
