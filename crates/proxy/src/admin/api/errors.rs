//! Errors that clients were answered with: how many by code, and the latest, as JSON and as metrics.

use helenus_engine::features::records::{ErrorRecord, Report, Wanted};
use helenus_engine::snapshot::Snapshot;
use helenus_engine::stats::ErrorCounts;
use helenus_wire::code;
use serde::Serialize;

use super::shown::{AskedView, node_name, unix_ms};
use crate::admin::http::parameters;
use crate::admin::metrics::page::Page;
use crate::process::Process;

const ROWS: u64 = 100;
const ROWS_MAX: u64 = 1_000;

#[derive(Debug, Serialize)]
pub(in crate::admin) struct ErrorsView {
    /// Since the proxy was started.
    by_code: Vec<CountView>,
    silent_workers: usize,
    /// Of the latest; of a flood not all. The last first.
    recent: Vec<ErrorView>,
}

#[derive(Debug, Serialize)]
struct CountView {
    error: &'static str,
    /// As the protocol has it; null for all that it does not know.
    code: Option<i32>,
    count: u64,
    /// The last one that was described.
    last: Option<ErrorView>,
}

#[derive(Clone, Debug, Serialize)]
struct ErrorView {
    at_unix_ms: u64,
    error: &'static str,
    #[serde(flatten)]
    asked: AskedView,
    /// Null if it may quote values and `admin.show_keys` is off.
    message: Option<Box<str>>,
    /// The node that took longest, if any was asked.
    node: Option<String>,
}

/// The answer of `/api/errors`.
///
/// # Errors
/// A sentence about the parameter that is wrong.
pub(in crate::admin) async fn view(
    shared: &Process,
    query: Option<&str>,
) -> Result<ErrorsView, String> {
    parameters::only(query, &["limit"])?;
    let max = parameters::number(query, "limit", ROWS, 1..=ROWS_MAX)? as usize;
    let (reports, silent) = shared.ask_for_records(Wanted::Errors { max }).await;
    let (mut recent, mut last) = (Vec::new(), Vec::new());
    for report in reports {
        if let Report::Errors(of_worker, last_of_worker) = report {
            recent.extend(of_worker);
            last.extend(last_of_worker);
        }
    }
    recent.sort_by_key(|error| std::cmp::Reverse(error.at));
    recent.truncate(max);
    last.sort_by_key(|error| std::cmp::Reverse(error.at));
    let snapshot = shared.snapshot.load();
    let by_code = shared
        .stats
        .errors
        .list()
        .into_iter()
        .map(|(number, count)| {
            let is_known = number >= 0;
            let is_it = |error: &&ErrorRecord| match is_known {
                true => error.code == number,
                false => !code::ALL.contains(&error.code),
            };
            CountView {
                error: code::name(number),
                code: is_known.then_some(number),
                count,
                last: last
                    .iter()
                    .find(is_it)
                    .map(|error| error_view(error, &snapshot)),
            }
        });
    Ok(ErrorsView {
        by_code: by_code.collect(),
        silent_workers: silent,
        recent: recent
            .iter()
            .map(|error| error_view(error, &snapshot))
            .collect(),
    })
}

fn error_view(error: &ErrorRecord, snapshot: &Snapshot) -> ErrorView {
    ErrorView {
        at_unix_ms: unix_ms(error.at),
        error: code::name(error.code),
        asked: error.asked.clone().into(),
        message: error.message.clone(),
        node: error.node.map(|node| node_name(snapshot, node)),
    }
}

/// One series for each code that has come.
pub(in crate::admin) fn render(page: &mut Page, counts: &ErrorCounts) {
    let name = "helenus_errors_total";
    let help = "Errors that clients were answered with, of nodes and of the proxy, by code.";
    page.family(name, "counter", &["code", "error"], help);
    for (number, count) in counts.list() {
        let shown = match number {
            0.. => format!("0x{number:04x}"),
            _ => "other".to_owned(),
        };
        let labels = [("code", shown.as_str()), ("error", code::name(number))];
        page.sample(name, &labels, count);
    }
}
