//! The nodes of the cluster, from `system.local`, `system.peers` and `system.peers_v2`.

use std::net::{IpAddr, SocketAddr};

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::{Locality, NodeTable};
use helenus_wire::Reader;

use crate::rows::Rows;
use helenus_engine::snapshot::{HostId, Mover, Node, Snapshot};

/// Nodes by their index, and the tokens of each.
pub(super) struct Members {
    pub nodes: Vec<Node>,
    pub tokens: Vec<Vec<String>>,
    /// Those that are new and not to be used yet.
    pub joining: Vec<Mover>,
    /// Those that are not listed any more, and are used all the same.
    pub leaving: Vec<Mover>,
}

/// What is known of the cluster before its tables are read.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    /// Keeps the nodes' indexes. Nodes that are not there have joined since.
    pub old: Option<&'a Snapshot>,
    /// Of these, those that are to be used; and of those that are not listed any more, those that are not.
    pub settled: &'a [Mover],
    /// Whether nodes of this data centre are asked anything at all.
    pub serves: &'a dyn Fn(&str) -> bool,
}

impl Known<'_> {
    /// Whether a node is to be used that is listed. It is if it was before, maybe under another address; one
    /// that is never asked cannot be waited for.
    fn is_used(&self, node: &Node) -> bool {
        let Some(old) = self.old.filter(|old| old.is_known()) else {
            return true;
        };
        let mut present = old.nodes.iter().filter(|old| !old.gone);
        present.any(|old| old.host_id == node.host_id)
            || self.is_settled(node)
            || !(self.serves)(&node.dc)
    }

    fn is_settled(&self, node: &Node) -> bool {
        self.settled.contains(&mover(node))
    }
}

fn mover(node: &Node) -> Mover {
    Mover {
        host_id: node.host_id,
        address: node.address,
    }
}

/// The tokens that a node had.
fn tokens_in(old: &Snapshot, node: NodeIndex) -> Vec<String> {
    let Some(ring) = &old.ring else {
        return Vec::new();
    };
    let own = (0..ring.len()).filter(|slot| ring.owner(*slot) == Some(node));
    own.filter_map(|slot| Some(ring.end_token(slot)?.to_text()))
        .collect()
}

impl Members {
    /// `own`: the row of `local`, of the node at `address`. Nodes that are not there any more are gone.
    pub(super) fn read(
        local: &Rows,
        own: &[Option<Vec<u8>>],
        address: SocketAddr,
        peers: &Rows,
        known: Known<'_>,
    ) -> Members {
        let old = known.old;
        let port = address.port();
        let own = member(local, own, Some(address), port);
        let others = peers.rows.iter().map(|row| member(peers, row, None, port));
        let mut nodes: Vec<Node> = old.map_or_else(Vec::new, |o| o.nodes.clone());
        let mut token_texts: Vec<Vec<String>> = vec![Vec::new(); nodes.len()];
        for node in &mut nodes {
            node.gone = true;
        }
        let mut joining = Vec::new();
        for (node, tokens) in std::iter::once(own).chain(others).flatten() {
            if node.address != address && !known.is_used(&node) {
                joining.push(mover(&node));
                continue;
            }
            let at = nodes
                .iter()
                .position(|n| n.host_id == node.host_id && n.address == node.address);
            match at {
                Some(at) => {
                    let Node {
                        processors,
                        timeouts,
                        batches,
                        ..
                    } = nodes[at];
                    nodes[at] = Node {
                        processors,
                        timeouts,
                        batches,
                        ..node
                    };
                    token_texts[at] = tokens;
                }
                None => {
                    nodes.push(node);
                    token_texts.push(tokens);
                }
            }
        }
        let leaving = keep_leaving(&mut nodes, &mut token_texts, known);
        Members {
            nodes,
            tokens: token_texts,
            joining,
            leaving,
        }
    }
}

/// Keeps nodes that are not listed any more until all others say so as well, and returns them. Others may
/// still read from them, while they themselves know that they have left.
fn keep_leaving(nodes: &mut [Node], tokens: &mut [Vec<String>], known: Known<'_>) -> Vec<Mover> {
    let Some(old) = known.old else {
        return Vec::new();
    };
    let listed: Vec<HostId> = nodes
        .iter()
        .filter(|node| !node.gone)
        .map(|node| node.host_id)
        .collect();
    let mut leaving = Vec::new();
    for (at, was) in old.nodes.iter().enumerate() {
        // One that is listed under another address has moved there.
        let is_over = was.gone || listed.contains(&was.host_id) || known.is_settled(was);
        if is_over || !nodes[at].gone || !(known.serves)(&was.dc) {
            continue;
        }
        nodes[at].gone = false;
        tokens[at] = tokens_in(old, NodeIndex(at as u16));
        leaving.push(mover(was));
    }
    leaving
}

/// A node and its tokens from a row of `local`, `peers` or `peers_v2`; `None` if the row is not
/// complete (a node that is only joining).
fn member(
    rows: &Rows,
    row: &[Option<Vec<u8>>],
    own: Option<SocketAddr>,
    default_port: u16,
) -> Option<(Node, Vec<String>)> {
    let address = match own {
        Some(address) => address,
        None => address_of(rows, row, default_port)?,
    };
    let tokens = rows.cell(row, "tokens").map(string_set).unwrap_or_default();
    if tokens.is_empty() && own.is_none() {
        return None;
    }
    let node = Node {
        address,
        host_id: rows.cell(row, "host_id")?.try_into().ok()?,
        dc: rows.text(row, "data_center")?,
        rack: rows.text(row, "rack")?,
        release_version: rows.text(row, "release_version").unwrap_or_default(),
        processors: None,
        timeouts: None,
        batches: None,
        gone: false,
    };
    Some((node, tokens))
}

/// The client address of a node, from its row in `peers` or `peers_v2`.
pub(super) fn address_of(
    rows: &Rows,
    row: &[Option<Vec<u8>>],
    default_port: u16,
) -> Option<SocketAddr> {
    let ip = |name: &str| ip_cell(rows, row, name);
    let told = ip("native_address").or_else(|| ip("rpc_address"));
    let ip = match told {
        Some(told) if !told.is_unspecified() => told,
        _ => ip("peer")?,
    };
    let port = rows.cell(row, "native_port").and_then(|cell| {
        let port = i32::from_be_bytes(cell.try_into().ok()?);
        u16::try_from(port).ok()
    });
    Some(SocketAddr::new(ip, port.unwrap_or(default_port)))
}

/// The node used for node-local tables: that of the control connection, unless it is in a different
/// data centre from those that serve clients.
pub(super) fn pinned(nodes: &[Node], places: &NodeTable, control: SocketAddr) -> NodeIndex {
    let all = (0..=u16::MAX).map(NodeIndex).zip(nodes);
    let present = || all.clone().filter(|(_, node)| !node.gone);
    let local = |at: &NodeIndex| places.locality(*at) != Some(Locality::Remote);
    let of_control = present().find(|(_, node)| node.address == control);
    let of_control = of_control.map(|(at, _)| at);
    of_control
        .filter(local)
        .or_else(|| present().map(|(at, _)| at).find(local))
        .or(of_control)
        .unwrap_or(NodeIndex(0))
}

fn ip_cell(rows: &Rows, row: &[Option<Vec<u8>>], name: &str) -> Option<IpAddr> {
    let cell = rows.cell(row, name)?;
    match cell.len() {
        4 => <[u8; 4]>::try_from(cell).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(cell).ok().map(IpAddr::from),
        _ => None,
    }
}

/// A cell of type `set<text>`.
fn string_set(cell: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(cell);
    let n = reader.i32().unwrap_or(0);
    (0..n)
        .map_while(|_| reader.bytes().ok().flatten())
        .filter_map(|b| String::from_utf8(b.to_vec()).ok())
        .collect()
}

#[cfg(test)]
mod tests;
