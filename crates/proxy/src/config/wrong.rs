//! Errors in settings, reported without quoting lines, which may contain secrets.

use thiserror::Error;

/// A TOML error, or an unknown setting.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, {key}: {message}")]
pub struct WrongSettings {
    /// From 1.
    pub line: usize,
    /// Including its section, as far as known; or the section alone.
    pub key: String,
    pub message: String,
}

impl WrongSettings {
    pub(super) fn new(text: &str, error: &toml::de::Error) -> WrongSettings {
        let begin = error.span().map_or(0, |span| span.start);
        let before = text.get(..begin).unwrap_or(text);
        let line = before.matches('\n').count();
        let mut section = "";
        let mut key = "";
        for text in text.lines().take(line + 1).map(str::trim) {
            key = "";
            if let Some(header) = text.strip_prefix('[') {
                let header = header.trim_start_matches('[');
                section = header.split(']').next().unwrap_or(header);
            } else if let Some((name, _)) = text.split_once('=') {
                key = name.trim();
            }
        }
        WrongSettings {
            line: line + 1,
            key: match (section, key) {
                ("", key) => key.to_owned(),
                (section, "") => section.to_owned(),
                (section, key) => format!("{section}.{key}"),
            },
            message: in_plain_words(error.message().trim_end()),
        }
    }
}

/// Names of Rust's types say nothing to an operator.
fn in_plain_words(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return message.to_owned();
    };
    let expected = match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" | "bool" => "true or false",
        other => other,
    };
    format!("{found}, expected {expected}")
}
