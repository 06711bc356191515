//! Options of `helenus load` that say how clients connect and what they ask for.

use super::parse::parse_time;
use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use helenus_load::client::Compression;
use helenus_load::endpoint::{
    Consistency, Endpoint, Location, parse_consistency, parse_serial_consistency,
};
use helenus_load::tls::{Tls, Trust};
use std::path::PathBuf;
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
    /// Encrypt connections, to servers whose certificate an authority in this PEM file has signed
    /// (needs --client raw)
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Certificate to show to the server, with its chain, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Name in the server's certificate [default: the host of the contact point]
    #[arg(
        long,
        value_name = "NAME",
        requires = "tls_ca",
        conflicts_with = "tls_insecure"
    )]
    tls_server_name: Option<String>,
    /// Encrypt connections without checking who the server is (needs --client raw)
    #[arg(long, conflicts_with = "tls_ca")]
    tls_insecure: bool,
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
        endpoint.tls = self.tls()?;
        Ok(())
    }

    fn tls(&self) -> Result<Option<Tls>> {
        let identity = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        let trust = match &self.tls_ca {
            Some(file) => Trust::Authority {
                file,
                server_name: self.tls_server_name.as_deref(),
            },
            None if self.tls_insecure => Trust::Anybody,
            None => {
                ensure!(
                    identity.is_none(),
                    "--tls-cert needs to know whom to trust: give --tls-ca, or --tls-insecure for no check"
                );
                return Ok(None);
            }
        };
        Tls::new(trust, identity).map(Some)
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.tls_ca.is_some() || self.tls_insecure
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
        let tls = match (self.is_encrypted(), self.tls_insecure, &self.tls_cert) {
            (false, ..) => "off",
            (_, true, _) => "server not checked",
            (_, _, Some(_)) => "mutual",
            (_, _, None) => "server checked",
        };
        settings.push(("TLS", tls.into()));
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
