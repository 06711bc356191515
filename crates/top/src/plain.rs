//! The view for scripts: tables and JSON, without a terminal.

use std::time::Duration;

use anyhow::{Result, bail};
use comfy_table::{CellAlignment, Table as TextTable, presets};
use futures::future::join_all;
use helenus_console::cells::{json_line, printable, string, with_rest};
use serde_json::{Value, json};

use super::app::{App, Input};
use super::asking::{self, Servers, now_ms};
use super::columns::Column;
use super::tab::Tab;

/// How it is printed.
pub(super) struct Plain {
    /// Rows at most.
    pub limit: usize,
    pub once: bool,
    pub json: bool,
}

/// Prints what is seen, once or over and over.
///
/// # Errors
/// No proxy answers, or, if it is done once, not all of them.
pub(super) async fn run(mut app: App, servers: Servers, plain: &Plain) -> Result<()> {
    // Rates need two looks.
    look(&mut app, &servers).await;
    loop {
        let failures = app
            .proxies
            .iter()
            .filter(|proxy| proxy.failure.is_some())
            .count();
        if failures == app.proxies.len() || plain.once && failures > 0 {
            let mut failed = app.proxies.iter().filter_map(|proxy| {
                let (why, _) = proxy.failure.as_ref()?;
                Some((&proxy.name, why))
            });
            if let Some((name, why)) = failed.next() {
                bail!("cannot ask {name}: {}", printable(why));
            }
        }
        tokio::time::sleep(Duration::from_millis(app.every_ms)).await;
        look(&mut app, &servers).await;
        match plain.json {
            true => println!("{}", json_line(&json_of(&app, plain.limit))?),
            false => print!("{}", text_of(&app, plain.limit)),
        }
        if plain.once {
            return Ok(());
        }
    }
}

async fn look(app: &mut App, servers: &Servers) {
    let asks = app.due(now_ms().max(app.next_ms().unwrap_or(0)));
    let answers = asks.into_iter().map(async |ask| {
        let answer = asking::answer(servers, &ask).await;
        (ask, answer)
    });
    for (ask, answer) in join_all(answers).await {
        app.update(Input::Answered(ask, answer), now_ms());
    }
    debug_assert!(app.is_answered(), "a question was forgotten");
}

fn json_of(app: &App, limit: usize) -> Value {
    let bounds_us = app.bounds_us();
    let proxies = app.proxies.iter().map(|proxy| {
        let snapshot = proxy.snapshot.as_ref();
        let is_answering = proxy.failure.is_none();
        json!({
            "proxy": proxy.name,
            "error": proxy.failure.as_ref().map(|(text, _)| text),
            "ready": snapshot.filter(|_| is_answering).map(|of| of.ready),
            "version": snapshot.map(|of| &of.version),
            "cluster": snapshot.map(|of| &of.cluster),
            "now": proxy.moment.as_ref().map(|of| of.json(bounds_us)),
        })
    });
    let rows = app.rows.iter().take(limit).map(|row| {
        let mut value = row.value.clone();
        if app.names_proxies() && value.is_object() {
            value["proxy"] = json!(app.name_of(row));
        }
        value
    });
    json!({
        "at_unix_ms": app.now_ms,
        "now": app.moment().map(|of| of.json(bounds_us)),
        "proxies": proxies.collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(),
    })
}

fn text_of(app: &App, limit: usize) -> String {
    let mut out = String::new();
    for proxy in &app.proxies {
        if let Some(why) = proxy.failure_of(app.tab) {
            let what = proxy.failing();
            out.push_str(&printable(&format!("{}: {what}: {why}", proxy.name)));
            out.push('\n');
        }
    }
    if app.tab == Tab::Overview {
        out.push_str(&overview(app));
    }
    let columns = match app.tab {
        Tab::Overview => Tab::Nodes.columns(),
        tab => tab.columns(),
    };
    let named = app.proxies.len() > 1 && app.tab != Tab::Keys;
    let mut rows: Vec<(&str, &Value)> = Vec::new();
    if app.tab == Tab::Overview {
        for proxy in &app.proxies {
            rows.extend(proxy.rows(Tab::Nodes).iter().map(|row| (&*proxy.name, row)));
        }
    } else {
        rows.extend(app.rows.iter().map(|row| (app.name_of(row), &row.value)));
    }
    out.push_str(&table(columns, &rows, named, limit, app.now_ms));
    out
}

fn overview(app: &App) -> String {
    let mut out = String::new();
    let moments = app
        .proxies
        .iter()
        .map(|proxy| (&*proxy.name, proxy.moment.as_ref()));
    for (name, moment) in moments {
        out.push_str(name);
        out.push('\n');
        let shown = moment.map(|of| of.json(app.bounds_us()));
        for (name, value) in shown.iter().flat_map(|of| of.as_object()).flatten() {
            out.push_str(&format!("  {name:<15} {}\n", string(value)));
        }
    }
    out.push('\n');
    out
}

fn table(
    columns: &[Column],
    rows: &[(&str, &Value)],
    named: bool,
    limit: usize,
    now_ms: u64,
) -> String {
    let mut table = TextTable::new();
    table.load_style(presets::NOTHING);
    let first = named.then_some("proxy");
    table.set_header(
        first
            .into_iter()
            .chain(columns.iter().map(|column| column.title)),
    );
    for (name, row) in rows.iter().take(limit) {
        let first = named.then(|| (*name).to_owned());
        let cells = columns.iter().map(|column| column.show(row, now_ms));
        table.add_row(first.into_iter().chain(cells));
    }
    for (at, column) in columns.iter().enumerate() {
        if let Some(shown) = table.column_mut(at + usize::from(named))
            && column.is_number()
        {
            shown.set_cell_alignment(CellAlignment::Right);
        }
    }
    with_rest(&table, rows.len(), limit)
}
