//! The control connection itself: opening it at the first node that answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_wire::{Opcode, Reader, Version, code, write};
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::agree::{self, Linked};
use crate::config::Config;
use crate::conn::{Conn, ConnError, Dialer};
use crate::control::rows::{Rows, query};
use crate::process::Process;
use helenus_engine::upstream::connect::greeting::startup_options;

/// Head start of an address before the next one is tried as well.
const HEAD_START: Duration = Duration::from_millis(500);

/// The open control connection and what was learned over it.
pub(crate) struct Control {
    pub(super) conn: Conn,
    pub(super) address: SocketAddr,
    pub(super) authenticate: Option<Vec<u8>>,
    pub(super) supported: Vec<u8>,
}

/// Why there is no control connection.
#[derive(Debug, Error)]
pub(crate) enum NoControl {
    #[error(
        "no name in cluster.contact_points can be resolved: check the names and this machine's name service"
    )]
    NoAddress,
    #[error("{address}: {error}")]
    Failed {
        address: SocketAddr,
        error: ConnError,
    },
}

impl NoControl {
    /// Errors that only a change of settings can fix come first; then errors reported by a node,
    /// which say more than an unreachable one.
    fn or(self, address: SocketAddr, error: ConnError) -> NoControl {
        match self {
            NoControl::Failed { ref error, .. } if error.is_final() => self,
            NoControl::Failed {
                error: ConnError::Node { .. },
                ..
            } if !error.is_final() => self,
            _ => NoControl::Failed { address, error },
        }
    }
}

impl Control {
    /// Connects to the first of these addresses that responds. Each has a head start before the
    /// next one is tried in parallel, because addresses of nodes that are gone often drop packets
    /// silently. If any node had an error that only a change of settings can fix, that error is
    /// returned.
    pub(crate) async fn connect(
        config: &Arc<Config>,
        dialer: &Dialer,
        addresses: &[SocketAddr],
    ) -> Result<Control, NoControl> {
        let limit = dialer.connect_timeout * 3;
        let mut addresses = addresses.iter().copied();
        let mut attempts = JoinSet::new();
        let mut failure = NoControl::NoAddress;
        let mut next_at = Instant::now();
        loop {
            tokio::select! {
                Some(ended) = attempts.join_next() => {
                    let Ok((address, outcome)) = ended else { continue };
                    match outcome {
                        Ok(control) => return Ok(control),
                        Err(e) => {
                            tracing::warn!(node = %address, "no control connection: {e}");
                            failure = failure.or(address, e);
                        }
                    }
                    next_at = Instant::now();
                }
                () = tokio::time::sleep_until(next_at), if addresses.len() > 0 => {
                    next_at += HEAD_START;
                    if let Some(address) = addresses.next() {
                        let (config, dialer) = (config.clone(), dialer.clone());
                        attempts.spawn(async move {
                            let opening = open(&config, &dialer, address);
                            let opened = tokio::time::timeout(limit, opening).await;
                            (address, opened.unwrap_or(Err(ConnError::Timeout(limit))))
                        });
                    }
                }
                else => return Err(failure),
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The version of the schema that a node has which is up and does not agree with this one. `linked`: as for
    /// [`agree::other_version`].
    pub(super) async fn other_schema_version(
        &mut self,
        shared: &Process,
        linked: &mut Linked,
    ) -> Result<Option<[u8; 16]>, ConnError> {
        let local = self.table(agree::LOCAL).await?;
        let own = local.rows.first();
        let version = own.and_then(|own| local.cell(own, "schema_version"));
        let peers = match self.table(agree::PEERS).await {
            Err(ConnError::Node { .. }) => self.table(agree::PEERS_BEFORE_4_0).await?,
            peers => peers?,
        };
        Ok(version.and_then(|version| agree::other_version(shared, linked, &peers, version)))
    }

    pub(super) async fn table(&mut self, cql: &str) -> Result<Rows, ConnError> {
        query(&mut self.conn, cql).await
    }
}

async fn open(config: &Config, dialer: &Dialer, address: SocketAddr) -> Result<Control, ConnError> {
    let mut last = None;
    let newest = config.links.protocol_max;
    for version in [Version::V5, Version::V4]
        .into_iter()
        .filter(|v| *v as u8 <= newest)
    {
        match open_version(config, dialer, address, version).await {
            Err(ConnError::Node {
                code: code::PROTOCOL,
                message,
            }) => {
                tracing::debug!(node = %address, "no v{}: {message}", version as u8);
                last = Some(ConnError::Node {
                    code: code::PROTOCOL,
                    message,
                });
            }
            other => return other,
        }
    }
    Err(last.unwrap_or(ConnError::Closed))
}

async fn open_version(
    config: &Config,
    dialer: &Dialer,
    address: SocketAddr,
    version: Version,
) -> Result<Control, ConnError> {
    let mut conn = dialer.dial(address, version).await?;
    let supported = conn.call(Opcode::Options, &[]).await?.body;
    let answer = conn.startup(&startup_options(&config.payload)).await?;
    let mut authenticate = None;
    if answer.opcode() == Some(Opcode::Authenticate) {
        authenticate = Some(answer.body.clone());
        let Some(token) = config.control_token() else {
            let name = Reader::new(&answer.body).string().unwrap_or("?").to_owned();
            return Err(ConnError::NoCredentials(name));
        };
        conn.log_in(&token).await?;
    }
    let mut body = Vec::new();
    write::string_list(
        &mut body,
        &["TOPOLOGY_CHANGE", "STATUS_CHANGE", "SCHEMA_CHANGE"],
    );
    conn.call(Opcode::Register, &body).await?;
    Ok(Control {
        conn,
        address,
        authenticate,
        supported,
    })
}
