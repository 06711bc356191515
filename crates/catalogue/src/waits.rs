//! Shorter waits, for tests: most of the time of a test of commands is waiting for [`LEASE`].
//!
//! All processes that share a catalogue must agree on it, so only programs with debug assertions know it; all others
//! refuse to start ([`check`]).

use std::sync::OnceLock;
use std::time::Duration;

use crate::{LEASE, REFRESH};

/// The environment variable: what [`lease`] and [`refresh`] are of [`LEASE`] and [`REFRESH`], in percent, 20 to 100.
pub const VARIABLE: &str = "HELENUS_WAITS_PERCENT";

const PERCENT: std::ops::RangeInclusive<u32> = 20..=100;

/// How long what was read is good for, from when the read was sent.
pub fn lease() -> Duration {
    scaled(LEASE)
}

/// How often proxies read flags and catalogue.
pub fn refresh() -> Duration {
    scaled(REFRESH)
}

/// So much of a time that belongs to the lease.
pub fn scaled(time: Duration) -> Duration {
    static PERCENT: OnceLock<u32> = OnceLock::new();
    if !cfg!(debug_assertions) {
        return time;
    }
    let read = || read(std::env::var(VARIABLE).ok().as_deref()).unwrap_or(100);
    time * *PERCENT.get_or_init(read) / 100
}

/// Checks that this program may run with the environment that it has.
///
/// # Errors
/// The variable is set, and this program was not built for debugging, or its value is wrong.
pub fn check() -> Result<(), String> {
    let value = std::env::var(VARIABLE).ok();
    if value.is_some() && !cfg!(debug_assertions) {
        return Err(format!(
            "{VARIABLE} is set, which is for tests: proxies and commands that differ in it would lose writes; unset it"
        ));
    }
    read(value.as_deref()).map(drop)
}

fn read(value: Option<&str>) -> Result<u32, String> {
    let Some(value) = value else { return Ok(100) };
    let percent = value.parse().ok().filter(|of| PERCENT.contains(of));
    percent.ok_or_else(|| {
        let (least, most) = (PERCENT.start(), PERCENT.end());
        format!("{VARIABLE} must be a number from {least} to {most}, not {value:?}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shares_of_the_whole_are_taken() {
        assert_eq!(read(None), Ok(100));
        assert_eq!(read(Some("20")), Ok(20));
        for wrong in ["", "0", "19", "101", "-40", "40 %", "0.4"] {
            assert!(read(Some(wrong)).is_err(), "{wrong:?}");
        }
    }
}
