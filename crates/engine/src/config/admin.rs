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
    /// Token that requests must carry (`Authorization: Bearer …`), except those for `/health`, `/ready`
    /// and the dashboard's page, which asks for it. Any address that is not loopback needs this one or
    /// `read_token`. It gives all rights: without it, nothing can be changed over `address`.
    pub token: Option<Secret>,
    /// File that holds this token, in place of `token`. Read again on SIGHUP and when it changes.
    pub token_file: Option<PathBuf>,
    /// Token that only reads: for metrics, the dashboard and `helenus ctl show`.
    pub read_token: Option<Secret>,
    /// File that holds this token, in place of `read_token`. Read again on SIGHUP and when it changes.
    pub read_token_file: Option<PathBuf>,
    /// Unix socket of the admin server, for programs on the same machine: only the user who runs Helenus, and
    /// root, may connect to it, and they need no token. Not set: `admin.sock` in the service's runtime
    /// directory, if systemd has made one (`/run/helenus/admin.sock` with the package's unit). Empty: none.
    pub socket: Option<PathBuf>,
    /// Names, besides `127.0.0.1`, `[::1]` and `localhost`, under which the admin server may be addressed
    /// (the Host header) while it has no token.
    pub hosts: Vec<String>,
    /// Tables with metrics of their own; further ones are counted as `other`.
    pub tables_max: usize,
    /// Whether Prometheus gets native histograms if it asks for them (`scrape_native_histograms`): finer
    /// ones, in Protobuf, beside those that it gets anyway.
    pub native_histograms: bool,
    /// Whether `/api/keys`, the dashboard and `helenus top` show the values of hot partition keys. They are
    /// your clients' data; without them, a partition is named by its token, with which it can be found in
    /// CQL (`WHERE token(…) = …`). Messages of errors that may quote values are shown only with it as well,
    /// and `helenus capture --values` needs it.
    pub show_keys: bool,
    /// From how many milliseconds on a request is shown among the slow ones (`/api/slow`), unless it is a scan;
    /// 0: never.
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
