//! Values of proxies' answers as people read them, in cells of tables.

use std::fmt::Display;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::Value;
use unicode_width::UnicodeWidthChar;

/// Clients say what they are, and name things: no terminal is to obey them, and no name is to change what stands
/// beside it. Characters that control something, take no place of their own or join their neighbours are shown as �.
pub fn printable(text: &str) -> String {
    let shown = text.chars();
    let shown = shown.map(|c| match stands_alone(c) {
        true => c,
        false => char::REPLACEMENT_CHARACTER,
    });
    shown.collect()
}

/// [`printable`], line by line.
pub fn printable_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

/// A table of `limit` rows at most, and how many of `rows` it does not have.
pub fn with_rest(table: &dyn Display, rows: usize, limit: usize) -> String {
    let rest = match rows.saturating_sub(limit) {
        _ if rows == 0 => "(none)\n".to_owned(),
        0 => String::new(),
        more => format!("{more} more: --limit\n"),
    };
    format!("{table}\n{rest}")
}

/// An error on stderr. It may quote what nodes, clients and files say.
pub fn print_error(error: &dyn Display) {
    let text = printable_lines(&format!("{error:#}"));
    // Where nobody reads it any more, there is nobody to be told.
    let _ = writeln!(std::io::stderr(), "helenus: {text}");
}

/// As JSON on one line, in which [`printable`] would change nothing.
pub fn json_line(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(escaped(&serde_json::to_string(value)?))
}

/// As JSON on several lines, in each of which [`printable`] would change nothing.
pub fn json_lines(value: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    let lines: Vec<String> = text.split('\n').map(escaped).collect();
    Ok(lines.join("\n"))
}

/// A line of JSON, with what [`printable`] would change written as numbers.
fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if stands_alone(c) {
            line.push(c);
        } else {
            // Only strings have these.
            let units = c.encode_utf16(&mut [0; 2]).to_vec();
            line.extend(units.into_iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    line
}

/// True if a terminal shows a character as a sign of its own, in cells of its own.
fn stands_alone(c: char) -> bool {
    let is_invisible = matches!(
        c,
        '\u{ad}' | '\u{115f}' | '\u{1160}' | '\u{2028}' | '\u{2029}' | '\u{3164}' | '\u{ffa0}'
    );
    // Two letters are a flag, and colours of skin change the sign before them: terminals differ in how wide that is.
    let joins = matches!(c, '\u{1f1e6}'..='\u{1f1ff}' | '\u{1f3fb}'..='\u{1f3ff}');
    let is_wide = c.width().is_some_and(|width| width > 0);
    is_wide && !is_invisible && !joins
}

/// Empty for null.
pub fn string(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub fn number(value: &Value) -> String {
    match value.as_f64() {
        None => String::new(),
        Some(value) if value >= 99.5 => format!("{value:.0}"),
        Some(value) => format!("{value:.1}"),
    }
}

pub fn percent(value: &Value) -> String {
    let share = value.as_f64();
    share.map_or_else(String::new, |share| format!("{:.1} %", 100.0 * share))
}

pub fn micros(value: &Value) -> String {
    match value.as_f64() {
        None => String::new(),
        Some(us) if us < 1e3 => format!("{us:.0} µs"),
        Some(us) if us < 1e6 => format!("{:.1} ms", us / 1e3),
        Some(us) => format!("{:.1} s", us / 1e6),
    }
}

pub fn bytes(value: &Value) -> String {
    match value.as_f64() {
        None => String::new(),
        Some(bytes) if bytes < 1024.0 => format!("{bytes:.0} B"),
        Some(bytes) if bytes < 1_048_576.0 => format!("{:.1} KiB", bytes / 1024.0),
        Some(bytes) if bytes < 1_073_741_824.0 => format!("{:.1} MiB", bytes / 1_048_576.0),
        Some(bytes) => format!("{:.1} GiB", bytes / 1_073_741_824.0),
    }
}

pub fn seconds(value: &Value) -> String {
    match value.as_f64() {
        None => String::new(),
        Some(s) if s < 60.0 => format!("{s:.1} s"),
        Some(s) if s < 3_600.0 => format!("{:.0} min", s / 60.0),
        Some(s) if s < 86_400.0 => format!("{:.1} h", s / 3_600.0),
        Some(s) => format!("{:.1} d", s / 86_400.0),
    }
}

/// How long ago something was, in milliseconds since 1970.
pub fn ago(value: &Value) -> String {
    let Some(at_ms) = value.as_u64() else {
        return String::new();
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let passed = now.saturating_sub(Duration::from_millis(at_ms));
    seconds(&Value::from(passed.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Controls of both kinds, marks of direction, joiners, combining marks, fillers, tags, flags.
    const OBEYED: &[char] = &[
        '\u{0}',
        '\u{7}',
        '\u{8}',
        '\t',
        '\r',
        '\u{1b}',
        '\u{7f}',
        '\u{90}',
        '\u{9b}',
        '\u{9d}',
        '\u{ad}',
        '\u{301}',
        '\u{61c}',
        '\u{115f}',
        '\u{1160}',
        '\u{180e}',
        '\u{200b}',
        '\u{200d}',
        '\u{200e}',
        '\u{200f}',
        '\u{2028}',
        '\u{2029}',
        '\u{202a}',
        '\u{202e}',
        '\u{2060}',
        '\u{2066}',
        '\u{2069}',
        '\u{3164}',
        '\u{fe0f}',
        '\u{feff}',
        '\u{ffa0}',
        '\u{1f1e6}',
        '\u{1f3ff}',
        '\u{e0041}',
        '\u{e0100}',
    ];

    #[test]
    fn nothing_of_a_name_is_obeyed_or_changes_its_neighbours() {
        for c in OBEYED {
            assert_eq!(printable(&format!("a{c}b")), "a\u{fffd}b", "{c:?}");
            assert_eq!(
                printable_lines(&format!("a\n{c}b")),
                "a\n\u{fffd}b",
                "{c:?}"
            );
        }
        let names = "orders_1 “Größe” данные 漢字 😀 ║ €";
        assert_eq!(printable(names), names);
    }

    #[test]
    fn json_says_the_same_and_is_obeyed_as_little() {
        let all: String = OBEYED.iter().collect();
        let value = json!({"name": format!("ü{all}\n"), "list": [1, null]});
        let line = json_line(&value).expect("JSON");
        assert_eq!(printable(&line), line);
        assert!(line.contains("ü") && line.contains("\\u202e"), "{line}");
        let again: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(again, value);
    }
}
