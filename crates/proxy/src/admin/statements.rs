//! The prepared statements that clients ask of a table, and how often.

use std::time::Instant;

use helenus_cql::Name;
use helenus_engine::statement::asked::AskedStatement;
use percent_encoding::percent_decode_str;
use serde::Serialize;

use crate::process::Process;

/// The most asked ones of a table, up to these bounds.
const STATEMENTS_MAX: usize = 1_000;
const TEXT_BYTES_MAX: usize = 1 << 20;

const USAGE: &str = "name the table: /api/statements?table=keyspace.table, quoted as in CQL\n";

/// One prepared SELECT.
#[derive(Debug, Serialize)]
pub(super) struct StatementView {
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

/// What is known of the table that a query string names.
///
/// # Errors
/// It names none.
pub(super) fn view(
    shared: &Process,
    query: Option<&str>,
    now: Instant,
) -> Result<Vec<StatementView>, &'static str> {
    let (keyspace, table) = table_of(query).ok_or(USAGE)?;
    Ok(bounded(shared.asked_of(&keyspace, &table, now), now))
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

/// To a thousandth.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
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
