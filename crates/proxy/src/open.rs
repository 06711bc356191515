//! Opens connections to nodes for a worker's engine.

use std::net::SocketAddr;

use helenus_wire::Version;

use crate::conn::{Conn, ConnError, Dialer};
use crate::rows::Rows;
use helenus_engine::client::credentials::Credentials;
use helenus_engine::node::link::{LinkKind, OpenError};
use helenus_engine::output::Opening;

/// Opens a connection as requested, within the time limit for a node.
pub(crate) async fn open(dialer: &Dialer, opening: &Opening) -> Result<Conn, OpenError> {
    let limit = dialer.connect_timeout * 3;
    let token = opening.identity.credentials().map(Credentials::token);
    let Opening {
        address,
        version,
        kind,
        cluster,
        ..
    } = opening;
    let opened = greet(dialer, *address, *version, token.as_deref(), kind, cluster);
    let opened = tokio::time::timeout(limit, opened).await;
    opened
        .unwrap_or(Err(ConnError::Timeout(limit)))
        .map_err(OpenError::from)
}

impl From<ConnError> for OpenError {
    fn from(error: ConnError) -> OpenError {
        match error {
            ConnError::BadCredentials(_) => OpenError::BadCredentials(error.to_string()),
            ConnError::Node { code, message } => OpenError::Node { code, message },
            error if error.is_of_credentials() => OpenError::OfCredentials(error.to_string()),
            error => OpenError::Other(error.to_string()),
        }
    }
}

async fn greet(
    dialer: &Dialer,
    address: SocketAddr,
    version: Version,
    token: Option<&[u8]>,
    kind: &LinkKind,
    cluster: &str,
) -> Result<Conn, ConnError> {
    let mut conn = dialer.dial(address, version).await?;
    conn.open(&link_options(), token).await?;
    // The role of such a link would be unknown: it may have been determined by a certificate.
    if token.is_some() && !conn.asked {
        return Err(ConnError::NotAsked);
    }
    if *kind != LinkKind::Check {
        check_cluster(&mut conn, cluster).await?;
    }
    if let LinkKind::Keyspace(keyspace) = kind {
        let quoted = format!("USE \"{}\"", keyspace.replace('"', "\"\""));
        conn.query(&quoted).await?;
    }
    Ok(conn)
}

/// Requests must not reach another cluster, which would execute them.
async fn check_cluster(conn: &mut Conn, own: &str) -> Result<(), ConnError> {
    let answer = match conn.query("SELECT cluster_name FROM system.local").await {
        // A node that cannot answer now is most likely still the same node.
        Err(ConnError::Node { .. }) => return Ok(()),
        answer => answer?,
    };
    let rows = Rows::parse(answer.content()?)?;
    let row = rows.rows.first();
    match row.and_then(|row| rows.text(row, "cluster_name")) {
        Some(found) if found != own => Err(ConnError::OtherCluster {
            found,
            own: own.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// STARTUP options of links. They are fixed at opening, while the clients whose requests a link
/// carries change. THROW_ON_OVERLOAD: an error for one request instead of silence for all.
pub(crate) fn link_options() -> [(&'static str, &'static str); 4] {
    [
        ("CQL_VERSION", "3.0.0"),
        ("DRIVER_NAME", "Helenus"),
        ("DRIVER_VERSION", env!("CARGO_PKG_VERSION")),
        ("THROW_ON_OVERLOAD", "1"),
    ]
}
