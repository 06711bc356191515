//! Options of `helenus load` that say how clients connect and what they ask for.

use super::parse::parse_time;
use crate::tls_args::TlsArgs;
use anyhow::Result;
use clap::{Args, ValueEnum};
use helenus_load::client::Compression;
use helenus_load::client::endpoint::{
    Consistency, Endpoint, Location, parse_consistency, parse_serial_consistency,
};
use std::time::Duration;

#[derive(Args, Debug)]
pub(super) struct ConnectionArgs {
    /// Consistency level
    #[arg(long, default_value = "LOCAL_QUORUM")]
    pub(super) consistency: String,
    /// Consistency level of the Paxos round of conditional writes, SERIAL or LOCAL_SERIAL
    #[arg(long, default_value = "LOCAL_SERIAL", value_name = "CONSISTENCY")]
    serial_consistency: String,
    /// Data centre whose nodes the driver sends to, and no others
    #[arg(long, value_name = "NAME")]
    pub(super) local_dc: Option<String>,
    /// Rack in the local data centre whose nodes the driver prefers
    #[arg(long, value_name = "NAME", requires = "local_dc")]
    local_rack: Option<String>,
    /// How long clients wait for an answer
    #[arg(long, default_value = "30s", value_parser = parse_time, value_name = "TIME")]
    pub(super) request_timeout: Duration,
    /// Compression of bodies, in both directions
    #[arg(long, value_enum, default_value_t = CompressionArg::None)]
    compression: CompressionArg,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum CompressionArg {
    None,
    Lz4,
    Snappy,
}

impl ConnectionArgs {
    pub(super) fn apply(&self, endpoint: &mut Endpoint) -> Result<()> {
        endpoint.consistency = parse_consistency(&self.consistency)?;
        endpoint.serial_consistency = Some(parse_serial_consistency(&self.serial_consistency)?);
        endpoint.local = self.local_dc.as_ref().map(|dc| Location {
            dc: dc.clone(),
            rack: self.local_rack.clone(),
        });
        endpoint.request_timeout = self.request_timeout;
        endpoint.compression = match self.compression {
            CompressionArg::None => Compression::None,
            CompressionArg::Lz4 => Compression::Lz4,
            CompressionArg::Snappy => Compression::Snappy,
        };
        endpoint.tls = self.tls.tls()?;
        Ok(())
    }

    /// Names and values for the report.
    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![
            ("consistency", self.consistency.to_uppercase()),
            ("serial consistency", self.serial_consistency.to_uppercase()),
            ("request time-out", format!("{:?}", self.request_timeout)),
            (
                "compression",
                format!("{:?}", self.compression).to_lowercase(),
            ),
        ];
        if let Some(dc) = &self.local_dc {
            let rack = self.local_rack.as_ref();
            let rack = rack.map_or(String::new(), |rack| format!(", rack {rack}"));
            settings.push(("local data centre", format!("{dc}{rack}")));
        }
        settings.push(("TLS", self.tls.described().into()));
        settings
    }
}

/// For filling tables, which writes whatever the load will do.
pub(super) fn for_writing(endpoint: &Endpoint) -> Endpoint {
    let consistency = match endpoint.consistency {
        Consistency::Serial => Consistency::Quorum,
        Consistency::LocalSerial => Consistency::LocalQuorum,
        other => other,
    };
    Endpoint {
        consistency,
        ..endpoint.clone()
    }
}
