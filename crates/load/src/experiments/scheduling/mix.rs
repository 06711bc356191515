//! Point reads and scans in proportion.

use anyhow::{Context, Result, ensure};
use rand::{Rng, RngExt};
use std::fmt;
use std::str::FromStr;

/// Weights of point reads and scans; only their ratio matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    pub points: u32,
    pub scans: u32,
}

impl Mix {
    pub const POINTS: Mix = Mix {
        points: 1,
        scans: 0,
    };
    pub const SCANS: Mix = Mix {
        points: 0,
        scans: 1,
    };

    pub(super) fn draws_scan(self, rng: &mut impl Rng) -> bool {
        let all = u64::from(self.points) + u64::from(self.scans);
        rng.random_range(0..all) >= u64::from(self.points)
    }

    /// Its form in the keys of ratios: 9010 for 9:1.
    pub(super) fn key(self) -> String {
        let all = f64::from(self.points) + f64::from(self.scans);
        let percent = |share: u32| (f64::from(share) / all * 100.0).round();
        format!("{:02}{:02}", percent(self.points), percent(self.scans))
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.points, self.scans)
    }
}

impl FromStr for Mix {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once(':');
        let (points, scans) = parts.context("write it as points:scans, for instance 9:1")?;
        let share = |part: &str| {
            part.trim()
                .parse::<u32>()
                .with_context(|| format!("{part:?} is not a whole number"))
        };
        let mix = Mix {
            points: share(points)?,
            scans: share(scans)?,
        };
        ensure!(
            mix.points > 0 && mix.scans > 0,
            "both shares must be above 0"
        );
        Ok(mix)
    }
}

/// Point reads and scans from many clients in a closed loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixed {
    pub mix: Mix,
    pub clients: usize,
    /// Total queries over all clients; the cell ends after them.
    pub queries: u64,
}
