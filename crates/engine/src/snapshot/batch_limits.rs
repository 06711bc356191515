//! How large a batch may be before a node warns of it.

/// The names under which nodes tell them. Before 4.1 the first has `_in_kb` behind it.
pub const SETTINGS: [&str; 2] = [
    "batch_size_warn_threshold",
    "unlogged_batch_across_partitions_warn_threshold",
];

/// The size of a batch up to which a node gives no warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    pub bytes_max: usize,
    pub partitions_max: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        BatchLimits {
            bytes_max: 5 * 1024,
            partitions_max: 10,
        }
    }
}

impl BatchLimits {
    /// From the names and values of a node's settings. A limit that is not among them, or cannot be read,
    /// has its default.
    pub fn from_settings<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut limits = BatchLimits::default();
        for (name, value) in settings {
            match name {
                "batch_size_warn_threshold" => {
                    limits.bytes_max = bytes(value).unwrap_or(limits.bytes_max);
                }
                "batch_size_warn_threshold_in_kb" => {
                    let bytes = value.trim().parse().ok().map(kib);
                    limits.bytes_max = bytes.unwrap_or(limits.bytes_max);
                }
                "unlogged_batch_across_partitions_warn_threshold" => {
                    let partitions = value.trim().parse().ok();
                    limits.partitions_max = partitions.unwrap_or(limits.partitions_max);
                }
                _ => {}
            }
        }
        limits
    }

    /// Limits that keep to both.
    pub fn and(self, other: BatchLimits) -> BatchLimits {
        BatchLimits {
            bytes_max: self.bytes_max.min(other.bytes_max),
            partitions_max: self.partitions_max.min(other.partitions_max),
        }
    }
}

/// As Cassandra writes it since 4.1: a number and a unit.
fn bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let number: usize = text[..at].parse().ok()?;
    let unit = match text[at..].trim() {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    Some(number.saturating_mul(unit))
}

fn kib(number: usize) -> usize {
    number.saturating_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_all_versions_tell_their_limits() {
        let of = |settings: &[(&'static str, &'static str)]| {
            let limits = BatchLimits::from_settings(settings.iter().copied());
            (limits.bytes_max, limits.partitions_max)
        };
        assert_eq!(of(&[]), (5_120, 10));
        assert_eq!(of(&[("batch_size_warn_threshold", "64KiB")]), (65_536, 10));
        assert_eq!(of(&[("batch_size_warn_threshold_in_kb", "7")]), (7_168, 10));
        let partitions = "unlogged_batch_across_partitions_warn_threshold";
        assert_eq!(of(&[(partitions, "3")]), (5_120, 3));
        assert_eq!(of(&[("batch_size_warn_threshold", "null")]), (5_120, 10));
    }
}
