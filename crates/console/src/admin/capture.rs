//! A proxy's captures, as commands ask for them.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::server::Answer;
use crate::cells::print_error;

/// Says why there is no capture.
pub fn refused(answer: Answer) -> ExitCode {
    let (why, code) = match answer {
        Answer::Refused(why) => (why, 2),
        Answer::NotAllowed(why) => (why, 3),
        Answer::NotKnown(why) => (why, 1),
        Answer::Done(_) => ("this is no capture".to_owned(), 1),
    };
    print_error(&why);
    ExitCode::from(code)
}

/// The path for a capture. `share`: of the clients' connections, above 0 up to 1.
///
/// # Errors
/// The share or the time is out of its range.
pub fn asked_for(time: Duration, share: f64, bytes_max: u64, values: bool) -> Result<String> {
    let ppm = (share * 1e6).round();
    ensure!(
        (1.0..=1e6).contains(&ppm),
        "--share must be from 0.000001 to 1, the share of connections that are recorded"
    );
    let seconds = time.as_secs_f64().ceil();
    ensure!(
        (1.0..=86_400.0).contains(&seconds),
        "--for must be from 1s to 24h"
    );
    Ok(format!(
        "/api/capture?seconds={seconds}&share_ppm={ppm}&bytes_max={bytes_max}&values={values}"
    ))
}
