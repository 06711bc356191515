//! Reads the options of `helenus load` that are more than a number.

use anyhow::{Context, Result, bail, ensure};
pub(super) use helenus_console::quantities::parse_time;
use helenus_load::process::Watched;
use helenus_load::workload::kv::Mix;
use helenus_load::workload::ycsb::Core;

/// A named endpoint, and its process if watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arm {
    pub name: String,
    pub contact_points: Vec<String>,
    pub pid: Option<u32>,
}

pub(crate) fn parse_arm(text: &str) -> Result<Arm> {
    let (name, rest) = text.split_once('=').context("write it as name=host:port")?;
    ensure!(!name.is_empty(), "the arm needs a name");
    let (addresses, pid) = match rest.rsplit_once('@') {
        Some((addresses, pid)) => {
            let pid = pid.parse();
            (
                addresses,
                Some(pid.with_context(|| format!("{rest:?} does not end with a process id"))?),
            )
        }
        None => (rest, None),
    };
    let contact_points: Vec<String> = addresses.split(',').map(str::to_owned).collect();
    for address in &contact_points {
        let port = address
            .rsplit_once(':')
            .map(|(_, port)| port.parse::<u16>());
        ensure!(
            matches!(port, Some(Ok(_))),
            "{address:?} is not of the form host:port"
        );
    }
    Ok(Arm {
        name: name.to_owned(),
        contact_points,
        pid,
    })
}

pub(super) fn parse_mix(text: &str) -> Result<Mix> {
    let mut mix = Mix {
        read: 0.0,
        write: 0.0,
        range: 0.0,
    };
    for part in text.split(',') {
        let (name, share) = part
            .split_once('=')
            .context("write it as read=0.5,write=0.5")?;
        let share: f64 = share
            .parse()
            .with_context(|| format!("{share:?} is no number"))?;
        ensure!(
            share.is_finite() && share >= 0.0,
            "shares must not be negative"
        );
        match name {
            "read" => mix.read = share,
            "write" => mix.write = share,
            "range" => mix.range = share,
            _ => bail!("{name:?} is unknown: read, write and range can be mixed"),
        }
    }
    ensure!(
        mix.read + mix.write + mix.range > 0.0,
        "at least one share must be above 0"
    );
    Ok(mix)
}

pub(super) fn parse_share(text: &str) -> Result<f64> {
    let share: f64 = text
        .parse()
        .with_context(|| format!("{text:?} is no number"))?;
    ensure!(
        (0.0..=1.0).contains(&share),
        "a share must be between 0 and 1"
    );
    Ok(share)
}

pub(super) fn parse_ycsb(text: &str) -> Result<Core> {
    Core::parse(text).with_context(|| format!("{text:?} is not one of the core workloads a to f"))
}

pub(crate) fn parse_watched(text: &str) -> Result<Watched> {
    let (name, pid) = text.split_once('=').context("write it as name=pid")?;
    Ok(Watched::new(
        name,
        pid.parse()
            .with_context(|| format!("{pid:?} is no process id"))?,
    ))
}

/// Queries per second: a finite number above 0.
pub(super) fn parse_rate(text: &str) -> Result<f64> {
    let rate: f64 = text
        .parse()
        .with_context(|| format!("{text:?} is no number"))?;
    ensure!(
        rate.is_finite() && rate > 0.0,
        "a rate must be above 0 and finite"
    );
    Ok(rate)
}
