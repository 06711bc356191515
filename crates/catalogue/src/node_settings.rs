//! Values of nodes' settings, as `system_views.settings` has them.

use std::time::Duration;

/// As Cassandra writes it since 4.1: a number and a unit.
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(at);
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "ns" => Duration::from_nanos(number),
        "us" | "µs" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.saturating_mul(60)),
        "h" => Duration::from_secs(number.saturating_mul(3_600)),
        "d" => Duration::from_secs(number.saturating_mul(86_400)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_nodes_write_them() {
        for (text, ms) in [
            ("12s", 12_000),
            ("2000ms", 2_000),
            ("1m", 60_000),
            ("3h", 10_800_000),
            ("1d", 86_400_000),
            ("7000us", 7),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "500", "5parsecs", "-1s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
