//! Captures: what clients ask, recorded and sent as it comes.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;

use super::http::answer::{Done, bad, stream};
use super::http::parameters;
use crate::capture::stream::{self, Limits};
use crate::process::Process;
use crate::records::events::Kind;

const SECONDS_MAX: u64 = 24 * 3600;
const PPM: u64 = 1_000_000;
const BYTES: u64 = 256 << 20;
const BYTES_MIN: u64 = 64 * 1024;
/// A reader that keeps nothing may want more than any file.
const BYTES_MAX: u64 = 1 << 40;

pub(super) fn begin(shared: &Arc<Process>, query: Option<&str>) -> Done {
    let limits = limits(query).map_err(bad)?;
    if limits.has_values && !shared.settings.load().admin.show_keys {
        let why = "values are recorded only where admin.show_keys is on: set it and reload, or capture without \
                   values";
        return Err(bad(why.to_owned()));
    }
    let begun = stream::begin(shared, limits);
    let begun = begun.map_err(|why| (StatusCode::CONFLICT, why))?;
    let seconds = limits.time.as_secs();
    let values = if limits.has_values {
        ", with values"
    } else {
        ""
    };
    tracing::warn!(
        seconds,
        share_ppm = limits.share_ppm,
        values = limits.has_values,
        "an operator records what clients ask"
    );
    let text = format!("an operator records what clients ask for {seconds} s at most{values}");
    shared.events.note(Kind::Captured, text);
    Ok(stream("application/octet-stream", begun))
}

fn limits(query: Option<&str>) -> Result<Limits, String> {
    parameters::only(query, &["seconds", "share_ppm", "bytes_max", "values"])?;
    let number = |name, default, bounds| parameters::number(query, name, default, bounds);
    let values = parameters::text(query, "values")?;
    Ok(Limits {
        time: Duration::from_secs(number("seconds", 600, 1..=SECONDS_MAX)?),
        share_ppm: number("share_ppm", PPM, 1..=PPM)? as u32,
        bytes_max: number("bytes_max", BYTES, BYTES_MIN..=BYTES_MAX)?,
        has_values: match values.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err("values must be true or false".to_owned()),
        },
    })
}
