//! The nodes of the cluster, from `system.local`, `system.peers` and `system.peers_v2`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use helenus_policy::ring::NodeIndex;
use helenus_policy::route::{Locality, NodeTable};
use helenus_wire::Reader;

use crate::control::rows::Rows;
use helenus_engine::snapshot::{HostId, Mover, Node, Snapshot};

/// Nodes by their index, and the tokens of each.
pub(super) struct Members {
    pub nodes: Vec<Node>,
    pub tokens: Vec<Vec<String>>,
    /// Those that are new and not to be used yet.
    pub joining: Vec<Mover>,
    /// How many owners of tokens these are beside those that are used: of several with the same tokens, one is.
    pub joining_owners: usize,
    /// Those that are not listed any more, and are used all the same.
    pub leaving: Vec<Mover>,
}

/// Knowledge of the cluster before its tables are read.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    /// Keeps the nodes' indexes. Nodes that are not there have joined since.
    pub old: Option<&'a Snapshot>,
    /// Of these, those that are to be used; and of those that are not listed any more, those that are not.
    pub settled: &'a [Mover],
    /// True of a data centre whose nodes are asked anything at all.
    pub serves: &'a dyn Fn(&str) -> bool,
}

/// The standing of a node that is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Used,
    /// Not yet.
    Joins,
    /// It was replaced, and the node that lists it has not forgotten it: another one has its tokens.
    Ghost,
    /// It has replaced the node that lists it, which has not noticed: what that one says does not count.
    ReplacesLister,
}

impl Known<'_> {
    /// `rivals`: others that are listed with the same tokens. One of them has replaced the other, so the one that
    /// has come later is there.
    fn standing(&self, node: &Node, rivals: &[&Node]) -> Standing {
        let begins = self.old.is_none_or(|old| !old.is_known());
        if !(self.serves)(&node.dc) || begins && rivals.is_empty() {
            // One that is never asked cannot be waited for.
            return Standing::Used;
        }
        let is_newer = |than: Option<usize>| rivals.iter().any(|rival| self.since(rival) > than);
        match self.since(node) {
            Some(since) if is_newer(Some(since)) => Standing::Ghost,
            Some(_) => Standing::Used,
            // One that had been there before this one came is not what has replaced it.
            None if self.had_left(node) && is_newer(self.position(node)) => Standing::Ghost,
            // Of two that are listed at first, the one that serves is used.
            None => Standing::Joins,
        }
    }

    /// [`Self::standing`] of a node with the tokens of its `lister`, which is used in any case.
    fn standing_beside(&self, lister: &Node, node: &Node) -> Standing {
        if !(self.serves)(&node.dc) {
            return Standing::Ghost;
        }
        if self.old.is_none_or(|old| !old.is_known()) {
            return Standing::Joins;
        }
        match (self.since(node), self.since(lister)) {
            (Some(usize::MAX), listers) if listers != Some(usize::MAX) => Standing::ReplacesLister,
            (Some(since), Some(listers)) if since > listers => Standing::ReplacesLister,
            (Some(_), None) if self.had_left(lister) => Standing::ReplacesLister,
            (Some(_), _) => Standing::Ghost,
            (None, _) if self.had_left(node) => {
                let is_older = |at: usize| Some(at) < self.position(node);
                match self.position(lister).is_some_and(is_older) {
                    true => Standing::Joins,
                    false => Standing::Ghost,
                }
            }
            // The one or the other has come later: whether this one serves will tell.
            (None, _) => Standing::Joins,
        }
    }

    /// Of a node that is used, maybe under another address: in which order these have come.
    fn since(&self, node: &Node) -> Option<usize> {
        let leaves = |old: &Snapshot| old.leaving.contains(&mover(node));
        if self.is_settled(node) && !self.old.is_some_and(leaves) {
            return Some(usize::MAX);
        }
        let old = self.old.filter(|old| old.is_known())?;
        let is_it = |old: &Node| !old.gone && old.host_id == node.host_id;
        old.nodes.iter().position(is_it)
    }

    fn had_left(&self, node: &Node) -> bool {
        let old = self.old.map_or(&[][..], |old| &old.nodes);
        old.iter().any(|old| old.gone && mover(old) == mover(node))
    }

    /// In which order nodes have come, those that have left included.
    fn position(&self, node: &Node) -> Option<usize> {
        let old = self.old?;
        old.nodes.iter().position(|old| mover(old) == mover(node))
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
    /// `own`: the row of `local`, of the node at `address`. Nodes that are not there any more are gone. `None`:
    /// that node has been replaced and has not noticed.
    pub(super) fn read(
        local: &Rows,
        own: &[Option<Vec<u8>>],
        address: SocketAddr,
        peers: &Rows,
        known: Known<'_>,
    ) -> Option<Members> {
        let old = known.old;
        let port = address.port();
        let own = member(local, own, Some(address), port);
        let others = peers.rows.iter().map(|row| member(peers, row, None, port));
        let mut nodes: Vec<Node> = old.map_or_else(Vec::new, |o| o.nodes.clone());
        let mut token_texts: Vec<Vec<String>> = vec![Vec::new(); nodes.len()];
        for node in &mut nodes {
            node.gone = true;
        }
        let listed: Vec<(Node, Vec<String>)> =
            std::iter::once(own).chain(others).flatten().collect();
        let Chosen {
            used,
            joining,
            joining_owners,
        } = choose(&listed, address, known)?;
        for (node, tokens) in used {
            let (node, tokens) = (node.clone(), tokens.clone());
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
        Some(Members {
            nodes,
            tokens: token_texts,
            joining,
            joining_owners,
            leaving,
        })
    }
}

/// The nodes that are listed, by their standing.
struct Chosen<'a> {
    used: Vec<&'a (Node, Vec<String>)>,
    joining: Vec<Mover>,
    joining_owners: usize,
}

/// Chooses from the nodes that the one at `address` lists; `None`: it has been replaced by one of them.
fn choose<'a>(
    listed: &'a [(Node, Vec<String>)],
    address: SocketAddr,
    known: Known<'_>,
) -> Option<Chosen<'a>> {
    let mut by_tokens: BTreeMap<Vec<&str>, Vec<&Node>> = BTreeMap::new();
    let sorted = |tokens: &'a [String]| {
        let mut tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        tokens.sort_unstable();
        tokens
    };
    for (node, tokens) in listed.iter().filter(|(_, tokens)| !tokens.is_empty()) {
        by_tokens.entry(sorted(tokens)).or_default().push(node);
    }
    let (mut used, mut joining) = (Vec::new(), Vec::new());
    let (mut owners_used, mut owners_joining) = (BTreeSet::new(), BTreeSet::new());
    for of @ (node, tokens) in listed {
        let tokens = sorted(tokens);
        let all = by_tokens.get(&tokens).into_iter().flatten().copied();
        let rivals: Vec<&Node> = all.filter(|other| other.host_id != node.host_id).collect();
        let lister = rivals.iter().find(|rival| rival.address == address);
        let standing = match lister {
            _ if node.address == address => Standing::Used,
            Some(lister) => known.standing_beside(lister, node),
            None => known.standing(node, &rivals),
        };
        match standing {
            Standing::Used => {
                used.push(of);
                owners_used.insert(tokens);
            }
            Standing::Joins => {
                joining.push(mover(node));
                owners_joining.insert(tokens);
            }
            Standing::Ghost => {}
            Standing::ReplacesLister => return None,
        }
    }
    Some(Chosen {
        used,
        joining,
        joining_owners: owners_joining.difference(&owners_used).count(),
    })
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
        pages: None,
        hints: None,
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
