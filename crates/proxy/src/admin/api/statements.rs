//! Costs of statements; and the prepared statements that clients ask of a table, and how often.

use std::collections::BTreeMap;
use std::time::Instant;

use helenus_cql::Name;
use helenus_engine::features::records::{Report, StatementRecord, Wanted};
use helenus_engine::statement::prepared::asked::AskedStatement;
use percent_encoding::percent_decode_str;
use serde::Serialize;

use super::shown::{rounded, text};
use crate::admin::http::parameters;
use crate::process::Process;

/// Statements shown by what they cost, if nothing is said, and at most.
const COSTS: u64 = 100;
const COSTS_MAX: u64 = 512;

/// The most asked ones of a table, up to these bounds.
const STATEMENTS_MAX: usize = 1_000;
const TEXT_BYTES_MAX: usize = 1 << 20;

const USAGE: &str = "name the table: /api/statements?table=keyspace.table, quoted as in CQL";

/// One prepared SELECT.
#[derive(Debug, Serialize)]
pub(in crate::admin) struct StatementView {
    text: Box<str>,
    /// In force when it was prepared, if the text does not name it.
    keyspace: Option<Box<str>>,
    /// How often clients have asked for it, counted in a sample of the answers. Counts are halved with
    /// every day.
    asked: f64,
    /// Mean time that a client waits for all pages of an answer.
    mean_us: Option<f64>,
    /// Time since it was first counted.
    counted_s: f64,
}

/// Statements by what they cost, over all workers.
#[derive(Debug, Serialize)]
pub(in crate::admin) struct CostsView {
    silent_workers: usize,
    /// Those that took clients the most time come first.
    statements: Vec<CostView>,
}

/// Costs of one statement with one keyspace and role: means of the last minutes. Counted in a sample of the
/// answers, but for errors.
#[derive(Debug, Serialize)]
struct CostView {
    /// With `?` in place of values.
    statement: Option<String>,
    /// In force where the statement does not name it.
    keyspace: Option<String>,
    /// Null where it cannot be told, or without authentication.
    role: Option<String>,
    calls_per_s: f64,
    rows_per_s: f64,
    bytes_per_s: f64,
    errors_per_s: f64,
    /// Of the time that all clients have waited, 0 to 1.
    time_share: f64,
    /// As clients see it, in microseconds.
    mean_us: Option<f64>,
    p99_us: Option<f64>,
    /// At nodes, all node requests of a call together.
    at_nodes_mean_us: Option<f64>,
    at_nodes_p99_us: Option<f64>,
}

/// The answer of `/api/statements`.
///
/// # Errors
/// A sentence about the parameter that is wrong.
pub(in crate::admin) async fn view(
    shared: &Process,
    query: Option<&str>,
) -> Result<CostsView, String> {
    parameters::only(query, &["limit"])?;
    let max = parameters::number(query, "limit", COSTS, 1..=COSTS_MAX)? as usize;
    let wanted = Wanted::Statements {
        max: COSTS_MAX as usize,
    };
    let (reports, silent) = shared.ask_for_records(wanted).await;
    let mut records: BTreeMap<(u64, u32), StatementRecord> = BTreeMap::new();
    for report in reports {
        let Report::Statements(of_worker) = report else {
            continue;
        };
        for record in of_worker {
            match records.get_mut(&record.key) {
                Some(known) => known.add(&record),
                None => {
                    records.insert(record.key, record);
                }
            }
        }
    }
    Ok(CostsView {
        silent_workers: silent,
        statements: costs_of(records.into_values().collect(), max),
    })
}

fn costs_of(mut records: Vec<StatementRecord>, max: usize) -> Vec<CostView> {
    let time = |of: &StatementRecord| of.whole.sum_us();
    records.sort_by(|a, b| time(b).total_cmp(&time(a)).then(a.key.cmp(&b.key)));
    let all_us: f64 = records.iter().map(time).sum();
    let view = |of: StatementRecord| CostView {
        calls_per_s: rounded(of.per_second(of.calls.into())),
        rows_per_s: rounded(of.per_second(of.rows)),
        bytes_per_s: rounded(of.per_second(of.bytes)),
        errors_per_s: rounded(of.per_second(of.errors.into())),
        time_share: rounded(if all_us > 0.0 {
            time(&of) / all_us
        } else {
            0.0
        }),
        mean_us: of.whole.mean_us().map(f64::round),
        p99_us: of.whole.quantile_us(0.99).map(f64::round),
        at_nodes_mean_us: of.at_nodes.mean_us().map(f64::round),
        at_nodes_p99_us: of.at_nodes.quantile_us(0.99).map(f64::round),
        statement: text(of.asked.statement),
        keyspace: text(of.asked.keyspace),
        role: text(of.asked.role),
    };
    records.into_iter().take(max).map(view).collect()
}

/// The known statements of the table that a query string names; values in statements are shown to those who may see
/// them.
///
/// # Errors
/// It names none.
pub(in crate::admin) fn of_table(
    shared: &Process,
    query: Option<&str>,
    shows_values: bool,
    now: Instant,
) -> Result<Vec<StatementView>, String> {
    let (keyspace, table) = table_of(query).ok_or(USAGE)?;
    let mut asked = shared.asked_of(&keyspace, &table, now);
    if !shows_values {
        asked.iter_mut().for_each(hide_values);
    }
    Ok(bounded(asked, now))
}

fn hide_values(asked: &mut AskedStatement) {
    let (text, facts) = (&*asked.text, helenus_cql::facts(&asked.text));
    asked.text = helenus_cql::without_values(text, &facts).into();
}

fn bounded(asked: Vec<AskedStatement>, now: Instant) -> Vec<StatementView> {
    let mut bytes = 0;
    let few = asked.into_iter().take(STATEMENTS_MAX);
    let short = few.take_while(|statement| {
        bytes += statement.text.len();
        bytes <= TEXT_BYTES_MAX
    });
    let view = |statement: AskedStatement| {
        let AskedStatement {
            text,
            keyspace,
            count,
        } = statement;
        StatementView {
            text,
            keyspace,
            asked: rounded(count.asked),
            mean_us: count.mean_us().map(f64::round),
            counted_s: rounded(now.saturating_duration_since(count.since).as_secs_f64()),
        }
    };
    short.map(view).collect()
}

/// Keyspace and table of `table=keyspace.table`.
fn table_of(query: Option<&str>) -> Option<(Name, Name)> {
    let mut parameters = query?.split('&');
    let named = parameters.find_map(|parameter| parameter.strip_prefix("table="))?;
    let named = percent_decode_str(named).decode_utf8().ok()?;
    helenus_cql::qualified_name(&named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_named_as_in_cql() {
        let of = |query: &str| table_of(Some(query)).map(|(ks, t)| (ks.to_string(), t.to_string()));
        let is = |ks: &str, table: &str| Some((ks.to_owned(), table.to_owned()));
        assert_eq!(of("table=Shop.Orders"), is("shop", "orders"));
        assert_eq!(of("a=b&table=shop.orders&c"), is("shop", "orders"));
        assert_eq!(of("table=shop.%22Or.ders%22"), is("shop", "Or.ders"));
        assert_eq!(of("table=%22S.x%22.%C3%A4"), is("S.x", "ä"));
        for none in [
            "",
            "table",
            "table=",
            "table=orders",
            "table=.x",
            "table=%ff.x",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
        assert_eq!(table_of(None), None);
    }
}
