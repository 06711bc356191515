//! How figures are shown to people.

/// Three significant digits, with thousands separators: `12,345`, `123`, `12.3`, `1.23`, `0.0123`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size >= 100.0 || value == 0.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 0.1 => 2,
        _ => 4,
    };
    let digits = format!("{size:.decimals$}");
    let whole = digits.find('.').unwrap_or(digits.len());
    let mut shown = String::from(if value < 0.0 { "−" } else { "" });
    for (at, digit) in digits.char_indices() {
        if at > 0 && at < whole && (whole - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_say_enough() {
        for (value, shown) in [
            (0.0, "0"),
            (0.01234, "0.0123"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1234.5, "1,234"),
            (-1_234_567.0, "−1,234,567"),
            (999_999.6, "1,000,000"),
        ] {
            assert_eq!(number(value), shown);
        }
    }
}
