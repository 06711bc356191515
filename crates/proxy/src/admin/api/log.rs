//! The last lines of the log, and what is logged, as JSON.

use std::time::{Duration, Instant, SystemTime};

use hyper::StatusCode;
use serde::Serialize;
use tokio::sync::oneshot;

use super::shown::since_1970_ms;
use crate::admin::http::answer::{Answer, json, plain};
use crate::admin::http::parameters;
use crate::admin::metrics::page::Page;
use crate::process::{self, ChangedFilter, LogChange, LogFilter, Process};
use crate::records::log_lines::LogLine;

const LINES: u64 = 100;
const LINES_MAX: u64 = 5_000;
/// How long another filter is in force if nothing is said, and at most, in seconds.
const SECONDS: u64 = 600;
const SECONDS_MAX: u64 = 3_600;
const FILTER_BYTES_MAX: usize = 1_000;
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The answer to those who may not see lines.
pub(in crate::admin) const NOT_SHOWN: &str = "lines of the log may quote values of clients: this needs admin.token, \
    the admin socket, or admin.show_keys\n";

#[derive(Debug, Serialize)]
pub(in crate::admin) struct LogView {
    #[serde(flatten)]
    filter: FilterView,
    /// The latest last.
    lines: Vec<LineView>,
}

#[derive(Debug, Serialize)]
struct FilterView {
    /// In force.
    filter: String,
    /// When `log.filter` is in force again, if this is another.
    until_unix_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct LineView {
    at_unix_ms: u64,
    level: &'static str,
    target: &'static str,
    text: String,
}

impl From<LogLine> for LineView {
    fn from(line: LogLine) -> LineView {
        LineView {
            at_unix_ms: since_1970_ms(line.at),
            level: line.level,
            target: line.target,
            text: line.text,
        }
    }
}

fn filter_view(shared: &Process) -> FilterView {
    let changed = shared.log_filter.load_full();
    let left = |of: &ChangedFilter| of.until.saturating_duration_since(Instant::now());
    let until = changed.as_deref().map(|of| SystemTime::now() + left(of));
    FilterView {
        filter: match changed {
            Some(changed) => changed.filter.clone(),
            None => shared.settings.load().log.filter.clone(),
        },
        until_unix_ms: until.map(since_1970_ms),
    }
}

/// Metrics of the log.
pub(in crate::admin) fn render(page: &mut Page, shared: &Process) {
    page.counter(
        "helenus_log_lines_dropped_total",
        "Lines of the log that were not written, because standard error (a pipe, a terminal, a journal) took none for a while and 8,192 waited.",
        shared.log.dropped(),
    );
}

/// The answer of `/api/log`.
///
/// # Errors
/// A sentence about the parameter that is wrong.
pub(in crate::admin) fn view(shared: &Process, query: Option<&str>) -> Result<LogView, String> {
    parameters::only(query, &["limit"])?;
    let max = parameters::number(query, "limit", LINES, 1..=LINES_MAX)? as usize;
    let lines = shared.log.latest(max);
    Ok(LogView {
        filter: filter_view(shared),
        lines: lines.into_iter().map(LineView::from).collect(),
    })
}

/// The filter of the log for a while.
fn wanted(query: Option<&str>) -> Result<LogFilter, String> {
    parameters::only(query, &["filter", "seconds"])?;
    let filter = parameters::text(query, "filter")?.unwrap_or_default();
    if filter.is_empty() || filter.len() > FILTER_BYTES_MAX {
        let example = "helenus_engine::session=debug";
        return Err(format!("name a filter, such as debug or {example}"));
    }
    if let Some(wrong) = filter.split(',').find(|part| !is_part(part)) {
        return Err(format!(
            "{wrong:?} is not a filter: write a level (error, warn, info or debug), or PART=LEVEL, as \
             helenus_engine::session=debug; several of them are separated by commas"
        ));
    }
    let seconds = parameters::number(query, "seconds", SECONDS, 1..=SECONDS_MAX)?;
    Ok(LogFilter {
        filter,
        time: Duration::from_secs(seconds),
    })
}

/// A level, or one for a part of the program. A word that is no level would be taken for a part that there is not.
fn is_part(text: &str) -> bool {
    let is_level = |text: &str| LEVELS.iter().any(|level| text.eq_ignore_ascii_case(level));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
    match text.split_once('=') {
        Some((part, level)) => !part.is_empty() && part.bytes().all(is_name) && is_level(level),
        // Nothing at all is nobody's wish, and would hide who wished it.
        None => is_level(text) && !text.eq_ignore_ascii_case("off"),
    }
}

pub(in crate::admin) async fn change(shared: &Process, query: Option<&str>) -> Answer {
    match wanted(query) {
        Ok(wanted) => carry_out(shared, Some(wanted)).await,
        Err(why) => plain(StatusCode::BAD_REQUEST, format!("{why}\n")),
    }
}

pub(in crate::admin) async fn reset(shared: &Process, query: Option<&str>) -> Answer {
    match parameters::only(query, &[]) {
        Ok(()) => carry_out(shared, None).await,
        Err(why) => plain(StatusCode::BAD_REQUEST, format!("{why}\n")),
    }
}

async fn carry_out(shared: &Process, wanted: Option<LogFilter>) -> Answer {
    let (done, changed) = oneshot::channel();
    let asked = process::Action::Log(LogChange { wanted, done });
    if shared.senders.actions.try_send(asked).is_err() {
        let text = "others have asked for something: try again\n";
        return plain(StatusCode::SERVICE_UNAVAILABLE, text);
    }
    match changed.await {
        Ok(Ok(())) => json(&filter_view(shared)),
        Ok(Err(why)) => plain(StatusCode::BAD_REQUEST, format!("{why}\n")),
        Err(_) => plain(StatusCode::CONFLICT, "the proxy is stopping\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_in_force_for_a_bounded_time() {
        let of = wanted(Some("filter=helenus_proxy%3Ddebug&seconds=60")).expect("a filter");
        assert_eq!(
            (of.filter.as_str(), of.time.as_secs()),
            ("helenus_proxy=debug", 60)
        );
        assert_eq!(
            wanted(Some("filter=debug")).map(|of| of.time.as_secs()),
            Ok(SECONDS)
        );
        let long = format!("filter={}", "x".repeat(FILTER_BYTES_MAX + 1));
        for wrong in [
            "",
            "filter=",
            "filter=debug&seconds=0",
            "filter=debug&seconds=3601",
            "level=debug",
            "filter=debugg",
            "filter=OFF",
            "filter=helenus_engine%3Dloud",
            "filter=helenus_engine",
            "filter=debug,",
            "filter=%3Ddebug",
            "filter=%5Bspan%7Ba%3D(x%2B)%2B%7D%5D%3Ddebug",
            "filter=a%1b%5B2J%3Ddebug",
            &long,
        ] {
            assert!(wanted(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
