//! Columns of tables: what they show of a row, and what rows are sorted by.

use std::cmp::Ordering;

use helenus_console::cells::{printable, seconds, string};
use serde_json::Value;

/// A column.
pub(super) struct Column {
    pub title: &'static str,
    /// Columns with the lowest ranks are shown first, as far as the terminal is wide enough.
    pub rank: u8,
    kind: Kind,
}

enum Kind {
    /// A text of a row.
    Text(fn(&Value) -> String),
    /// A number, by its place in the row, and how it is written.
    Number(&'static str, fn(&Value) -> String),
    /// A time in milliseconds since 1970, shown as how long ago it was.
    Ago(&'static str),
    /// A text as wide as there is room.
    Rest(fn(&Value) -> String),
}

impl Column {
    pub(super) const fn text(rank: u8, title: &'static str, show: fn(&Value) -> String) -> Column {
        let kind = Kind::Text(show);
        Column { title, rank, kind }
    }

    pub(super) const fn number(
        rank: u8,
        title: &'static str,
        pointer: &'static str,
        show: fn(&Value) -> String,
    ) -> Column {
        let kind = Kind::Number(pointer, show);
        Column { title, rank, kind }
    }

    pub(super) const fn ago(rank: u8, title: &'static str, pointer: &'static str) -> Column {
        let kind = Kind::Ago(pointer);
        Column { title, rank, kind }
    }

    pub(super) const fn rest(title: &'static str, show: fn(&Value) -> String) -> Column {
        let kind = Kind::Rest(show);
        Column {
            title,
            rank: 0,
            kind,
        }
    }

    /// The cell of a row, at a time in milliseconds since 1970.
    pub(super) fn show(&self, row: &Value, now_ms: u64) -> String {
        let text = match self.kind {
            Kind::Text(show) | Kind::Rest(show) => show(row),
            Kind::Number(pointer, show) => row.pointer(pointer).map_or_else(String::new, show),
            Kind::Ago(pointer) => {
                let at_ms = row.pointer(pointer).and_then(Value::as_u64);
                at_ms.map_or_else(String::new, |at_ms| {
                    seconds(&Value::from(now_ms.saturating_sub(at_ms) as f64 / 1e3))
                })
            }
        };
        printable(&text)
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self.kind, Kind::Number(..) | Kind::Ago(_))
    }

    /// True if the column takes the room that is left.
    pub(super) fn is_rest(&self) -> bool {
        matches!(self.kind, Kind::Rest(_))
    }

    /// The order of two rows that people want first: of numbers the largest, of times the latest.
    pub(super) fn order(&self, one: &Value, other: &Value) -> Ordering {
        match self.kind {
            Kind::Text(show) | Kind::Rest(show) => show(one).cmp(&show(other)),
            Kind::Number(pointer, _) | Kind::Ago(pointer) => {
                let of = |row: &Value| row.pointer(pointer).and_then(Value::as_f64);
                // Unknown values come last.
                let of = |row| of(row).unwrap_or(f64::NEG_INFINITY);
                of(other).total_cmp(&of(one))
            }
        }
    }
}

/// How wide columns may be.
const TEXT_WIDTH_MAX: usize = 32;
/// The least that is left for the column that takes the rest.
const REST_WIDTH_MIN: usize = 28;
/// Between two columns.
pub(super) const GAP: usize = 2;

/// Which columns are shown in a terminal of a width, each with its own; `natural`: how wide all would be.
pub(super) fn fitted(columns: &[Column], natural: &[usize], width: usize) -> Vec<(usize, usize)> {
    let wish = |at: usize| match columns[at].is_rest() {
        true => REST_WIDTH_MIN.min(natural[at].max(1)),
        false => natural[at].min(TEXT_WIDTH_MAX),
    };
    let mut by_rank: Vec<usize> = (0..columns.len()).collect();
    by_rank.sort_by_key(|at| columns[*at].rank);
    let mut taken = 0;
    let mut shown: Vec<usize> = Vec::new();
    for at in by_rank {
        let more = wish(at) + if shown.is_empty() { 0 } else { GAP };
        if taken + more <= width {
            taken += more;
            shown.push(at);
        }
    }
    shown.sort_unstable();
    let left = width - taken;
    let widths = shown.into_iter().map(|at| match columns[at].is_rest() {
        true => (at, wish(at) + left),
        false => (at, wish(at)),
    });
    widths.collect()
}

/// The place of a text within a row, or nothing.
pub(super) fn of(row: &Value, name: &str) -> String {
    string(&row[name])
}

/// A statement on one line, with the keyspace in force.
pub(super) fn statement(row: &Value) -> String {
    let text = match row["statement"].as_str() {
        Some(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        None => of(row, "opcode"),
    };
    match row["keyspace"].as_str() {
        Some(keyspace) => format!("[{keyspace}] {text}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use helenus_console::cells::micros;

    const COLUMNS: &[Column] = &[
        Column::text(1, "name", |row| of(row, "name")),
        Column::number(0, "took", "/deep/took_us", micros),
        Column::text(2, "node", |row| of(row, "node")),
        Column::rest("statement", statement),
    ];

    #[test]
    fn narrow_terminals_show_what_matters_most() {
        let natural = [10, 8, 20, 300];
        let shown = |width| fitted(COLUMNS, &natural, width);
        assert_eq!(shown(80), [(0, 10), (1, 8), (2, 20), (3, 36)]);
        assert_eq!(shown(50), [(0, 10), (1, 8), (3, 28)]);
        assert_eq!(shown(40), [(1, 8), (3, 30)]);
        assert_eq!(shown(10), [(1, 8)]);
        assert_eq!(shown(0), []);
    }

    #[test]
    fn rows_are_ordered_as_people_want_them() {
        let rows = [
            json!({"deep": {"took_us": 5}}),
            json!({}),
            json!({"deep": {"took_us": 9.5}}),
        ];
        let mut order = vec![0, 1, 2];
        order.sort_by(|a, b| COLUMNS[1].order(&rows[*a], &rows[*b]));
        assert_eq!(order, [2, 0, 1]);
    }

    #[test]
    fn statements_are_shown_on_one_line_and_control_nothing() {
        let row = json!({"statement": "SELECT\n  \u{1b}[2Jv", "keyspace": "shop"});
        assert_eq!(COLUMNS[3].show(&row, 0), "[shop] SELECT \u{fffd}[2Jv");
        let ago = Column::ago(0, "ago", "/at");
        assert_eq!(ago.show(&json!({"at": 1_000}), 3_500), "2.5 s");
        assert_eq!(ago.show(&json!({"at": null}), 3_500), "");
    }
}
