//! The findings of a calibration.

use std::time::Duration;

use helenus_layout::{Calibration, Measurement};

use super::measure::Measured;
use super::queries::Probe;

pub(super) struct Found {
    pub calibration: Calibration,
    /// To write a row in a batch.
    pub write_row_us: f64,
    pub measured: Measured,
    /// The rows were seen in files.
    pub in_files: bool,
    pub cassandra: String,
    pub time: Duration,
}

impl Found {
    /// Each query with its median.
    pub(super) fn medians(&self) -> impl Iterator<Item = (&Probe, Measurement)> {
        let each = self.measured.probes.iter().zip(&self.measured.timed);
        each.filter_map(|(probe, timed)| {
            let time_us = timed.median_us()?;
            let work = timed.work;
            Some((probe, Measurement { work, time_us }))
        })
    }
}
