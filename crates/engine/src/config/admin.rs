//! The section `admin`.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Secret;

/// Metrics, health and the dashboard.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// Address and port of the admin server; `off`: none, but on `socket`.
    #[serde(with = "address")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<SocketAddr>"))]
    pub address: Option<SocketAddr>,
    /// Token with all rights: without it nothing can be changed over `address`. An address that is not loopback needs
    /// it or `read_token`.
    pub token: Option<Secret>,
    /// File with this token, in place of `token`.
    pub token_file: Option<PathBuf>,
    /// Token that only reads: for metrics, the dashboard and `helenus ctl show`.
    pub read_token: Option<Secret>,
    /// File with this token, in place of `read_token`.
    pub read_token_file: Option<PathBuf>,
    /// Unix socket of the admin server, without a token, for the user who runs Helenus and root. Not set:
    /// `admin.sock` in the runtime directory of systemd, if any. Empty: none.
    pub socket: Option<PathBuf>,
    /// Further names (Host header) under which the admin server may be addressed while it has no token.
    pub hosts: Vec<String>,
    /// Tables with metrics of their own; further ones count as `other`.
    pub tables_max: usize,
    /// Whether Prometheus gets [native histograms](operations.md#monitoring) as well, if it asks for them.
    pub native_histograms: bool,
    /// Whether values of hot partition keys, and error messages that may quote values, are shown: your clients' data.
    /// `helenus capture --values` needs it. Otherwise partitions are named by token.
    pub show_keys: bool,
    /// From how many milliseconds on a request other than a scan is shown as slow; 0: never.
    pub slow_ms: u64,
    /// As `slow_ms`, for pages of scans, schema changes and statements that Helenus does not understand.
    pub slow_scan_ms: u64,
}

/// `admin.address` as it is written.
///
/// # Errors
/// It is neither an address with a port nor `off`.
pub fn admin_address(text: &str) -> Result<Option<SocketAddr>, String> {
    match text {
        OFF => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            format!("{text:?} is neither an address and a port, as 127.0.0.1:9180, nor {OFF}")
        }),
    }
}

const OFF: &str = "off";

mod address {
    use std::borrow::Cow;
    use std::net::SocketAddr;

    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(
        address: &Option<SocketAddr>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match address {
            Some(address) => serializer.collect_str(address),
            None => serializer.serialize_str(super::OFF),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SocketAddr>, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        super::admin_address(&text).map_err(de::Error::custom)
    }
}

impl Default for Admin {
    fn default() -> Self {
        Admin {
            address: Some(SocketAddr::from(([127, 0, 0, 1], 9180))),
            token: None,
            token_file: None,
            read_token: None,
            read_token_file: None,
            socket: None,
            hosts: Vec::new(),
            tables_max: 100,
            native_histograms: false,
            show_keys: false,
            slow_ms: 100,
            slow_scan_ms: 2_000,
        }
    }
}
