//! Times and sizes as options name them.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// A number with the unit us, ms, s, m or h; seconds by default.
pub fn parse_time(text: &str) -> Result<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits
        .parse()
        .with_context(|| format!("{text:?} is not a duration; try 10s"))?;
    let unit = match &text[digits.len()..] {
        "us" => 0.000_001,
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        other => bail!("unknown unit {other:?}: use us, ms, s, m or h"),
    };
    Duration::try_from_secs_f64(number * unit)
        .with_context(|| format!("{text:?} is not a duration"))
}

/// `64KiB`, `256MiB`, `2GiB`; without a unit, bytes.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits
        .parse()
        .with_context(|| format!("{text:?} is not a size; try 256MiB"))?;
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        other => bail!("unknown unit {other:?}: use B, KiB, MiB or GiB"),
    };
    ensure!(number.leading_zeros() >= shift, "{text:?} is too large");
    Ok(number << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        for (text, time) in [
            ("10s", 10_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("3", 3_000),
        ] {
            assert_eq!(parse_time(text).unwrap(), Duration::from_millis(time));
        }
        for (text, bytes) in [
            ("7", 7),
            ("64KiB", 65_536),
            ("256MiB", 256 << 20),
            ("2GiB", 2 << 30),
        ] {
            assert_eq!(parse_bytes(text).unwrap(), bytes);
        }
        for wrong in ["", "x", "-1", "1.5MiB", "3MB", "99999999999GiB"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
