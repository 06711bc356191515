//! Measured speeds of a storage.

use crate::report::svg::number;
use chrono::DateTime;
use serde::{Deserialize, Serialize};

/// One thing at a time, from one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
// A figure that some version has not measured must not keep its reports from being read.
#[serde(default)]
pub struct Figures {
    pub measured_unix_s: u64,
    /// A few hundred bytes at a file's end, made durable by fdatasync: what a commit log does.
    pub append_sync_us_p50: f64,
    pub append_sync_us_p99: f64,
    pub append_syncs_per_second: f64,
    /// In blocks of 1 MiB, made durable at the end.
    pub write_mib_per_second: f64,
    pub read_mib_per_second: f64,
    /// 4 KiB, from anywhere in a file of [`Figures::file_mib`].
    pub random_read_us_p50: f64,
    pub random_read_us_p99: f64,
    pub random_reads_per_second: f64,
    pub file_mib: u64,
    /// The page cache was bypassed. If not, it is in all figures but those of appends.
    pub is_direct: bool,
}

impl Figures {
    /// As `2026-07-30`.
    pub fn date(&self) -> String {
        let seconds = i64::try_from(self.measured_unix_s).unwrap_or(i64::MAX);
        let date = DateTime::from_timestamp(seconds, 0);
        date.map_or_else(
            || "an unknown day".into(),
            |date| date.date_naive().to_string(),
        )
    }

    /// One line each: a name and a value.
    pub(super) fn describe(&self) -> Vec<(String, String)> {
        let cached = match self.is_direct {
            true => "",
            false => ", through the page cache",
        };
        let lines = [
            (
                "append and fdatasync",
                format!(
                    "p50 {} µs, p99 {} µs, {}/s, one at a time",
                    number(self.append_sync_us_p50),
                    number(self.append_sync_us_p99),
                    number(self.append_syncs_per_second)
                ),
            ),
            (
                "sequential",
                format!(
                    "write {} MiB/s, read {} MiB/s{cached}",
                    number(self.write_mib_per_second),
                    number(self.read_mib_per_second)
                ),
            ),
            (
                "random reads of 4 KiB",
                format!(
                    "p50 {} µs, p99 {} µs, {}/s, one at a time in {} MiB{cached}",
                    number(self.random_read_us_p50),
                    number(self.random_read_us_p99),
                    number(self.random_reads_per_second),
                    self.file_mib
                ),
            ),
            ("storage measured on", self.date()),
        ];
        let named = lines.into_iter();
        named
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}
