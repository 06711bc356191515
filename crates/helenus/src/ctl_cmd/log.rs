//! Output of `helenus ctl log`.

use chrono::{DateTime, SecondsFormat};
use helenus_console::cells::{printable, string};
use serde_json::Value;

pub(super) fn text(value: &Value) -> String {
    let mut out = String::new();
    for line in value["lines"].as_array().into_iter().flatten() {
        let (level, target, text) = (&line["level"], &line["target"], &line["text"]);
        out.push_str(&format!(
            "{} {:5} {}: {}\n",
            time(&line["at_unix_ms"]),
            printable(&string(level)),
            printable(&string(target)),
            printable(&string(text))
        ));
    }
    let filter = printable(&string(&value["filter"]));
    match value["until_unix_ms"].is_null() {
        true => out.push_str(&format!("log.filter is in force: {filter}\n")),
        false => out.push_str(&format!(
            "{filter} is in force until {}; end it with: helenus ctl log --reset\n",
            time(&value["until_unix_ms"])
        )),
    }
    out
}

/// UTC, to the millisecond.
fn time(unix_ms: &Value) -> String {
    let ms = unix_ms.as_i64();
    let time = ms.and_then(DateTime::from_timestamp_millis);
    time.map_or_else(String::new, |time| {
        time.to_rfc3339_opts(SecondsFormat::Millis, true)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_shown_with_what_is_logged() {
        let mut value = json!({
            "filter": "info", "until_unix_ms": null,
            "lines": [{
                "at_unix_ms": 1_700_000_000_123_u64, "level": "WARN\u{1b}", "target": "helenus\u{1b}_proxy", "text": "a\u{1b}b",
            }],
        });
        let shown = text(&value);
        assert!(
            shown.starts_with("2023-11-14T22:13:20.123Z WARN\u{fffd} helenus\u{fffd}_proxy: a"),
            "{shown}"
        );
        assert!(!shown.contains('\u{1b}'), "{shown}");
        assert!(
            shown.ends_with("\nlog.filter is in force: info\n"),
            "{shown}"
        );
        value["until_unix_ms"] = json!(1_700_000_000_000_u64);
        value["lines"] = json!(null);
        let expected = "info is in force until 2023-11-14T22:13:20.000Z; end it with: helenus ctl log --reset\n";
        assert_eq!(text(&value), expected);
    }
}
