//! The storage that nodes keep their data on: what it is, and what it can do.
//!
//! The figures are measured in a few seconds, in a folder on the same file system, and kept with
//! their date for later runs: once per machine, device and file system. Whoever asks does so before
//! anything else is measured, because the probe writes and syncs.
//!
//! - [`device`]: which device and file system a folder is on
//! - [`probe`]: the measurement; [`figures`]: what comes of it
//! - [`cache`]: figures of earlier runs

mod cache;
mod device;
mod figures;
mod probe;

pub use cache::{AGE_DAYS_MAX, Cache};
pub use device::Device;
pub use figures::Figures;

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The storage of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Storage {
    #[serde(flatten)]
    pub device: Device,
    /// None if they were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
}

/// When the figures are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Never: those of an earlier run, if they are not too old.
    Never,
    /// Unless an earlier run has done so in the last [`AGE_DAYS_MAX`] days.
    IfOld,
    /// In any case.
    Anew,
}

impl Storage {
    /// Of an existing folder. Failures are told in the result: a report without figures of the
    /// storage is better than none. Takes up to five seconds; blocks.
    pub fn of(folder: &Path, cache: Option<&Cache>, measure: Measure) -> Self {
        let device = Device::of(folder);
        let now_s = now_s();
        let key = device.key();
        let known = match (measure, cache) {
            (Measure::Anew, _) | (_, None) => None,
            (_, Some(cache)) => cache.get(&key, now_s),
        };
        let measured = match (known, measure) {
            (Some(figures), _) => Ok(figures),
            (None, Measure::Never) => Err("not measured yet".to_owned()),
            (None, _) => probe::measure(folder, now_s).map_err(|error| format!("{error:#}")),
        };
        if let (Ok(figures), Some(cache)) = (&measured, cache)
            && figures.measured_unix_s == now_s
            && let Err(error) = cache.put(&key, *figures, now_s)
        {
            eprintln!("The figures of the storage are not kept for later runs: {error:#}.");
        }
        let (figures, not_measured) = match measured {
            Ok(figures) => (Some(figures), None),
            Err(why) => (None, Some(why)),
        };
        Self {
            device,
            figures,
            not_measured,
        }
    }

    /// One line each: a name and a value.
    pub fn describe(&self) -> Vec<(String, String)> {
        let mut lines = vec![("storage".to_owned(), self.device.describe())];
        if let Some(figures) = &self.figures {
            lines.extend(figures.describe());
        }
        if let Some(why) = &self.not_measured {
            lines.push(("storage figures".into(), format!("none: {why}")));
        }
        lines
    }
}

fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
