//! Options for encrypted connections to endpoints.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use helenus_load::client::tls::{Tls, Trust};

#[derive(Args, Debug)]
pub(crate) struct TlsArgs {
    /// Encrypt connections, to servers whose certificate an authority in this PEM file has signed
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Certificate to show to the server, with its chain, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Name in the server's certificate [default: the host of the contact point; of other nodes, which a driver finds,
    /// their address]
    #[arg(
        long,
        value_name = "NAME",
        requires = "tls_ca",
        conflicts_with = "tls_insecure"
    )]
    tls_server_name: Option<String>,
    /// Encrypt connections without checking who the server is
    #[arg(long, conflicts_with = "tls_ca")]
    tls_insecure: bool,
}

impl TlsArgs {
    /// None if connections are not encrypted.
    ///
    /// # Errors
    /// A file cannot be read, or nobody is trusted.
    pub(crate) fn tls(&self) -> Result<Option<Tls>> {
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

    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls_ca.is_some() || self.tls_insecure
    }

    /// In one word or two, for reports.
    pub(crate) fn described(&self) -> &'static str {
        match (self.is_encrypted(), self.tls_insecure, &self.tls_cert) {
            (false, ..) => "off",
            (_, true, _) => "server not checked",
            (_, _, Some(_)) => "mutual",
            (_, _, None) => "server checked",
        }
    }
}
