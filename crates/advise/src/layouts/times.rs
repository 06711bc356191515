//! How times are shown to people.

use helenus_console::figures::number;

/// Of a query, in microseconds.
pub(super) fn time(us: f64) -> String {
    match us {
        us if !us.is_finite() => "∞".to_owned(),
        us if us >= 1e6 => format!("{} s", number(us / 1e6)),
        us => format!("{} ms", number(us / 1e3)),
    }
}

/// In whole seconds, or a longer unit.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 2.0 * 86_400.0 => format!("{:.0} days", s / 86_400.0),
        s if s >= 2.0 * 3_600.0 => format!("{:.0} hours", s / 3_600.0),
        s if s >= 120.0 => format!("{:.0} minutes", s / 60.0),
        s => format!("{:.0} seconds", s.ceil()),
    }
}
