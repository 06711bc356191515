//! One row with all that is known of it.

use helenus_console::cells::{bytes, micros, number, percent, printable, seconds, string};
use serde_json::Value;
use unicode_width::UnicodeWidthChar;

use super::columns::of;
use super::tab::Tab;

/// Of bars, for the whole.
const BAR_WIDTH: usize = 24;
/// Of the names beside the texts.
const NAMES_WIDTH_MAX: usize = 28;

/// Of the question whether a client is to be disconnected, with its frame; on smaller screens it is not asked.
pub(super) const QUESTION_SIZE: (u16, u16) = (72, 7);
pub(super) const QUESTION_SIZE_MIN: (u16, u16) = (54, 5);

/// Columns and lines within the frame, on a screen of some size.
pub(super) fn popup_size(width: u16, height: u16) -> (usize, usize) {
    let inner = |all: u16| usize::from(all.saturating_sub(4).max(1));
    (inner(width), inner(height))
}

/// The details of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Details {
    pub title: String,
    pub lines: Vec<Line>,
    /// Lines of the screen that are above what is seen.
    pub scroll: usize,
}

/// A line of it, which may need several of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub name: String,
    pub text: String,
}

impl Details {
    /// `proxy`: its name where there are several.
    pub(super) fn new(tab: Tab, row: &Value, proxy: Option<&str>, now_ms: u64) -> Details {
        let mut lines = Vec::new();
        if let Some(name) = proxy {
            lines.push(line("proxy", name));
        }
        if let Some(text) = row["statement"].as_str() {
            // As it was written, but for what would control the terminal.
            let text: Vec<String> = text.lines().map(printable).collect();
            lines.push(Line {
                name: "statement".to_owned(),
                text: text.join("\n"),
            });
        }
        if tab == Tab::Slow {
            lines.extend(where_time_went(row));
        }
        let shown: &[&str] = match tab {
            Tab::Slow => &["statement", "queued_us", "at_nodes_us", "elsewhere_us"],
            _ => &["statement"],
        };
        add_fields(&mut lines, "", row, shown, now_ms);
        Details {
            title: title(tab, row),
            lines,
            scroll: 0,
        }
    }

    /// Names and texts, line by line of a screen of some columns.
    pub(super) fn on_screen(&self, width: usize) -> Vec<(String, String)> {
        let names = self.lines.iter().map(|line| line.name.len());
        let names_width = names.max().unwrap_or(0).min(NAMES_WIDTH_MAX).min(width / 3);
        let text_width = width.saturating_sub(names_width + 2);
        let mut shown = Vec::new();
        for line in &self.lines {
            let mut name: String = line.name.chars().take(names_width).collect();
            for text in line
                .text
                .split('\n')
                .flat_map(|text| wrapped(text, text_width))
            {
                shown.push((format!("{name:<names_width$}  "), text));
                name.clear();
            }
        }
        shown
    }
}

/// A text in lines, between words where that is possible. At least one.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut lines = vec![String::new()];
    let mut taken = 0;
    for word in text.split_inclusive(' ') {
        let word_width: usize = word.trim_end().chars().map(width_of).sum();
        if taken > 0 && taken + word_width > width && word_width <= width {
            lines.push(String::new());
            taken = 0;
        }
        for char in word.chars() {
            let more = width_of(char);
            if taken + more > width {
                lines.push(String::new());
                taken = 0;
                if char == ' ' {
                    continue;
                }
            }
            taken += more;
            if let Some(line) = lines.last_mut() {
                line.push(char);
            }
        }
    }
    lines
}

fn width_of(char: char) -> usize {
    char.width().unwrap_or(0)
}

fn line(name: &str, text: &str) -> Line {
    Line {
        name: printable(name),
        text: printable(text),
    }
}

fn title(tab: Tab, row: &Value) -> String {
    let text = match tab {
        Tab::Nodes => format!("Node {}", of(row, "address")),
        Tab::Clients => format!("Client {}", of(row, "id")),
        Tab::Statements => "Statement".to_owned(),
        Tab::Slow => format!("Slow request, {}", micros(&row["took_us"])),
        Tab::Errors => format!("Error {}", of(row, "error")),
        Tab::Keys => format!("Partition of {}.{}", of(row, "keyspace"), of(row, "table")),
        Tab::Queues => format!("Queue of {}, class {}", of(row, "node"), of(row, "class")),
        Tab::Pools => format!("Links to {}", of(row, "node")),
        Tab::Layouts => format!("Layout {}", of(row, "physical")),
        Tab::Overview | Tab::Events => tab.title().to_owned(),
    };
    printable(&text)
}

fn where_time_went(row: &Value) -> Vec<Line> {
    let took = row["took_us"].as_f64().unwrap_or(0.0);
    let parts = [
        ("queued", "queued_us", "in queues of nodes"),
        ("at nodes", "at_nodes_us", "from sending to answer"),
        ("elsewhere", "elsewhere_us", "turns, links, joined reads"),
    ];
    let lines = parts.into_iter().filter_map(|(name, field, what)| {
        let us = row[field].as_f64()?;
        // Node requests that ran at the same time are added up.
        let share = if took > 0.0 {
            (us / took).min(1.0)
        } else {
            0.0
        };
        let bar = "█".repeat((share * BAR_WIDTH as f64).round() as usize);
        let text = format!("{:>9}  {bar:<BAR_WIDTH$}  {what}", micros(&row[field]));
        Some(line(name, text.trim_end()))
    });
    lines.collect()
}

/// Its fields, those within others as `outer.inner`; without what was shown before, and without histograms.
fn add_fields(lines: &mut Vec<Line>, path: &str, row: &Value, without: &[&str], now_ms: u64) {
    let Some(fields) = row.as_object() else {
        return;
    };
    for (name, value) in fields {
        let is_shown = path.is_empty() && without.contains(&&**name);
        let is_histogram = matches!(name.as_str(), "latency" | "packed_out" | "packed_in");
        if is_shown || is_histogram || value.is_null() {
            continue;
        }
        let name = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        match value {
            Value::Object(_) => add_fields(lines, &name, value, without, now_ms),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(string).collect();
                lines.push(line(&name, &items.join(", ")));
            }
            value => lines.push(line(&name, &shown(&name, value, now_ms))),
        }
    }
}

/// A value, by what its name says that it is.
fn shown(name: &str, value: &Value, now_ms: u64) -> String {
    let is = |what: &[&str]| what.iter().any(|what| name.ends_with(what));
    if name.ends_with("_unix_ms") {
        let at_ms = value.as_u64().unwrap_or(now_ms);
        let passed = now_ms.saturating_sub(at_ms) as f64 / 1e3;
        return format!("{} ago", seconds(&Value::from(passed)));
    }
    if !value.is_number() {
        return string(value);
    }
    if is(&["us_per_s"]) {
        return format!("{} per second", micros(value));
    }
    if is(&["bytes_per_s"]) {
        return format!("{} per second", bytes(value));
    }
    if is(&["_per_s"]) {
        return format!("{} per second", number(value));
    }
    if is(&["_us", "us_p50", "us_p99"]) {
        return micros(value);
    }
    if is(&["age_s", "idle_s", "left_s"]) {
        return seconds(value);
    }
    if is(&["share"]) {
        return percent(value);
    }
    if is(&["bytes", "bytes_in", "bytes_out"]) {
        return bytes(value);
    }
    string(value)
}

/// A row in one line, for questions about it.
pub(super) fn client_in_words(row: &Value) -> String {
    let mut text = format!("{} at {}", of(row, "id"), of(row, "address"));
    for name in ["role", "application"] {
        let value = of(row, name);
        if !value.is_empty() {
            // In quotes: it is the client's own word, which may look like another's name.
            text = format!("{text}, {name} “{}”", value.replace(['“', '”'], "\""));
        }
    }
    printable(&text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn slow_requests_show_where_their_time_went() {
        let row = json!({
            "at_unix_ms": 1_000, "statement": "SELECT v\nFROM t\u{7}", "keyspace": "shop", "class": "point",
            "took_us": 200_000, "queued_us": 50_000, "at_nodes_us": 150_000, "elsewhere_us": null,
            "nodes": ["10.0.0.1:9042", "10.0.0.2:9042"], "bytes": 2_048, "hedged": true
        });
        let details = Details::new(Tab::Slow, &row, Some("a:1"), 61_000);
        assert_eq!(details.title, "Slow request, 200.0 ms");
        let texts: Vec<String> = details
            .lines
            .iter()
            .map(|line| format!("{}={}", line.name, line.text))
            .collect();
        assert_eq!(texts[0], "proxy=a:1");
        assert_eq!(texts[1], "statement=SELECT v\nFROM t\u{fffd}");
        let bar = format!("queued=  50.0 ms  {:<24}  in queues", "█".repeat(6));
        assert!(texts[2].starts_with(&bar), "{:?}", texts[2]);
        for text in [
            "at_unix_ms=1 min ago",
            "bytes=2.0 KiB",
            "hedged=true",
            "nodes=10.0.0.1:9042, 10.0.0.2:9042",
            "took_us=200.0 ms",
        ] {
            assert!(texts.iter().any(|line| line == text), "{text} in {texts:?}");
        }
        assert!(
            !texts.iter().any(|line| line.starts_with("elsewhere")),
            "{texts:?}"
        );
    }

    #[test]
    fn texts_are_wrapped_between_words_if_there_are_any() {
        assert_eq!(wrapped("SELECT v FROM t", 8), ["SELECT v", "FROM t"]);
        assert_eq!(wrapped("SELECT v FROM t", 9), ["SELECT v ", "FROM t"]);
        assert_eq!(wrapped("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped("漢字漢字", 5), ["漢字", "漢字"]);
        let row = json!({"statement": "SELECT a, b, c, d, e FROM t\nWHERE k = ?", "role": "app"});
        let details = Details::new(Tab::Statements, &row, None, 0);
        let expected = [
            ("statement  ", "SELECT a, b, c, d, e FROM "),
            ("           ", "t"),
            ("           ", "WHERE k = ?"),
            ("role       ", "app"),
        ];
        let shown = details.on_screen(37);
        let shown: Vec<(&str, &str)> = shown.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn fields_within_others_are_named_with_them() {
        let row = json!({
            "address": "a", "counters": {"errors": 3}, "latency": {"buckets": [[1, 2]]}, "work_us_per_s": 1_500.0
        });
        let details = Details::new(Tab::Nodes, &row, None, 0);
        let texts: Vec<&str> = details.lines.iter().map(|line| &*line.text).collect();
        assert_eq!(texts, ["a", "3", "1.5 ms per second"]);
        assert_eq!(details.lines[1].name, "counters.errors");
    }

    #[test]
    fn clients_are_named_so_that_nobody_disconnects_the_wrong_one() {
        let row = json!({"id": "0-1", "address": "10.0.0.1:5", "role": null, "application": "sh\u{1b}op"});
        let words = client_in_words(&row);
        assert_eq!(words, "0-1 at 10.0.0.1:5, application “sh\u{fffd}op”");
        let row = json!({"id": "0-1", "address": "a", "application": "x”, role “admin"});
        let words = client_in_words(&row);
        assert_eq!(words, "0-1 at a, application “x\", role \"admin”");
    }
}
