//! For how long a node keeps hints: what it is to write to another one that is down.
//!
//! After that it still takes writes at ANY, keeps them nowhere, and says that they are done.

use std::time::Duration;

use helenus_catalogue::node_settings::duration;

/// The names under which nodes tell it. Before 4.1 the unit stands in the name.
pub const SETTINGS: [&str; 3] = [
    "max_hint_window",
    "max_hint_window_in_ms",
    "hinted_handoff_enabled",
];

/// The time for which a node may be down until others keep nothing more for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintWindow(pub Duration);

impl Default for HintWindow {
    fn default() -> Self {
        HintWindow(Duration::from_secs(3 * 3_600))
    }
}

impl HintWindow {
    /// From the names and values of a node's settings: Cassandra's default if they do not tell.
    pub fn from_settings<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let windows = settings.into_iter().filter_map(|(name, value)| match name {
            "max_hint_window" => duration(value),
            "max_hint_window_in_ms" => value.trim().parse().ok().map(Duration::from_millis),
            "hinted_handoff_enabled" if value.trim() == "false" => Some(Duration::ZERO),
            _ => None,
        });
        windows.min().map(HintWindow).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_tell_how_long_they_keep_hints() {
        let of = |settings: &[(&'static str, &'static str)]| {
            let HintWindow(window) = HintWindow::from_settings(settings.iter().copied());
            window.as_secs()
        };
        let [window, in_ms, enabled] = SETTINGS;
        assert_eq!(of(&[]), 10_800);
        assert_eq!(of(&[(window, "soon"), (enabled, "true")]), 10_800);
        assert_eq!(of(&[(window, "1h"), (enabled, "true")]), 3_600);
        assert_eq!(of(&[(in_ms, "60000")]), 60);
        assert_eq!(of(&[(window, "1h"), (enabled, "false")]), 0);
    }
}
