//! How many rows of a page a node takes without a warning or an error: its guardrail `page_size`.
//!
//! A node judges the page size of a request that it pages, and no other: not of one that names none, nor of one
//! whose LIMIT is no larger. So a request beyond the limits goes to a node as it came, which warns or refuses as
//! it does; and no piece of another one goes beyond them.

/// The names under which nodes tell them, since 4.1.
pub const SETTINGS: [&str; 2] = ["page_size_warn_threshold", "page_size_fail_threshold"];

/// The size of a page up to which a node gives no warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimits {
    pub rows_max: usize,
}

impl PageLimits {
    /// From the names and values of a node's settings. If the limit is not among them, or cannot be read, there
    /// is none, as by default (-1).
    pub fn from_settings<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let limits = settings
            .into_iter()
            .filter(|(name, _)| SETTINGS.contains(name));
        let limits = limits.filter_map(|(_, value)| value.trim().parse().ok());
        let rows_max = limits.filter(|rows| *rows > 0).min();
        PageLimits {
            rows_max: rows_max.unwrap_or(usize::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_what_nodes_tell_counts() {
        let of = |settings: &[(&'static str, &'static str)]| {
            PageLimits::from_settings(settings.iter().copied()).rows_max
        };
        let [warn, fail] = SETTINGS;
        assert_eq!(of(&[]), usize::MAX);
        assert_eq!(of(&[(warn, "-1"), (fail, "-1")]), usize::MAX);
        assert_eq!(of(&[(warn, "null"), (fail, "")]), usize::MAX);
        assert_eq!(of(&[(warn, "-1"), (fail, "500")]), 500);
        assert_eq!(of(&[(warn, "100"), (fail, "500")]), 100);
        assert_eq!(of(&[("read_request_timeout", "5")]), usize::MAX);
    }
}
