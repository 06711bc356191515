//! Why copies cannot be compared, or brought back, now.

use std::net::SocketAddr;

use helenus_engine::snapshot::HostId;
use helenus_rows::Misread;

use crate::conn::ConnError;
use crate::uuid;

/// Whether what is compared still matters. Asked again for each page, and before each write.
pub(super) type Check<'a> = &'a (dyn Fn() -> Result<(), Trouble> + Sync);

#[derive(Debug, thiserror::Error)]
pub(in crate::insync) enum Trouble {
    #[error("node {0}: {1}")]
    Node(SocketAddr, ConnError),
    #[error("node {} did not answer, and is not tried again yet", named(.0))]
    Unreachable(HostId),
    #[error("the catalogue: {0}")]
    Catalogue(ConnError),
    #[error("no node of the ring has the host id {0}")]
    NoNode(String),
    #[error("{0}")]
    Misread(#[from] Misread),
    /// A sentence that says what to do.
    #[error("{0}")]
    Unfit(String),
    /// There is no list of copies for what the nodes own. Proxies make it.
    #[error("helenus.copies has no row of {0}.{1} for what nodes own of the ring by now")]
    NoList(String, String),
    /// It begins again, by lists and a ring that are known then.
    #[error("lists, leases, nodes or the ring have changed meanwhile")]
    Changed,
}

fn named(node: &HostId) -> String {
    uuid::text(*node)
}
