//! Values of proxies' answers as people read them, in cells of tables.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Clients say what they are, and name things: no terminal is to obey them.
pub(crate) fn printable(text: &str) -> String {
    let shown = text.chars();
    let shown = shown.map(|c| {
        if c.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    });
    shown.collect()
}

/// The same line by line.
pub(crate) fn printable_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

/// Empty for null.
pub(crate) fn string(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(crate) fn number(value: &Value) -> String {
    match value.as_f64() {
        None => String::new(),
        Some(value) if value >= 99.5 => format!("{value:.0}"),
        Some(value) => format!("{value:.1}"),
    }
}

pub(crate) fn percent(value: &Value) -> String {
    let share = value.as_f64();
    share.map_or_else(String::new, |share| format!("{:.1} %", 100.0 * share))
}

pub(crate) fn micros(value: &Value) -> String {
    match value.as_f64() {
        None => String::new(),
        Some(us) if us < 1e3 => format!("{us:.0} µs"),
        Some(us) if us < 1e6 => format!("{:.1} ms", us / 1e3),
        Some(us) => format!("{:.1} s", us / 1e6),
    }
}

pub(crate) fn bytes(value: &Value) -> String {
    match value.as_f64() {
        None => String::new(),
        Some(bytes) if bytes < 1024.0 => format!("{bytes:.0} B"),
        Some(bytes) if bytes < 1_048_576.0 => format!("{:.1} KiB", bytes / 1024.0),
        Some(bytes) if bytes < 1_073_741_824.0 => format!("{:.1} MiB", bytes / 1_048_576.0),
        Some(bytes) => format!("{:.1} GiB", bytes / 1_073_741_824.0),
    }
}

pub(crate) fn seconds(value: &Value) -> String {
    match value.as_f64() {
        None => String::new(),
        Some(s) if s < 60.0 => format!("{s:.1} s"),
        Some(s) if s < 3_600.0 => format!("{:.0} min", s / 60.0),
        Some(s) if s < 86_400.0 => format!("{:.1} h", s / 3_600.0),
        Some(s) => format!("{:.1} d", s / 86_400.0),
    }
}

/// How long ago something was, in milliseconds since 1970.
pub(crate) fn ago(value: &Value) -> String {
    let Some(at_ms) = value.as_u64() else {
        return String::new();
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let passed = now.saturating_sub(Duration::from_millis(at_ms));
    seconds(&Value::from(passed.as_secs_f64()))
}
