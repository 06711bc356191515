//! Where a page of the proxies' rows begins.
//!
//! A state names the last row before the page by its address, not by its number: so it means the same
//! when proxies have come or gone, and at another proxy. A client may send back anything. Bytes that
//! are no state of this table go to a node, which refuses them as it does all bytes that are none of its states.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::query::Table;

/// No state of Cassandra's begins like this: whether its first byte or its first two are the length of
/// a key, that key would be longer than the state.
const MARK: [u8; 2] = [0x7F, b'H'];

/// Behind one row and before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Address of the last row; `None` behind the only row of `system.local`.
    last: Option<SocketAddr>,
    /// How many rows the statement's limit still allows; at least one.
    pub remaining: u32,
}

impl Position {
    pub(super) fn behind(table: Table, last: SocketAddr, remaining: u32) -> Position {
        Position {
            last: Some(last).filter(|_| table != Table::Local),
            remaining,
        }
    }

    pub(super) fn is_before(&self, row: SocketAddr) -> bool {
        self.last.is_some_and(|last| last < row)
    }

    pub(super) fn to_bytes(self, table: Table) -> Vec<u8> {
        let mut out = MARK.to_vec();
        out.push(table as u8);
        out.extend_from_slice(&self.remaining.to_be_bytes());
        if let Some(last) = self.last {
            match last.ip() {
                IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
                IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
            }
            out.extend_from_slice(&last.port().to_be_bytes());
        }
        out
    }

    /// The position that a state of this table stands for.
    pub(super) fn parse(bytes: &[u8], table: Table) -> Option<Position> {
        let rest = bytes.strip_prefix(&MARK)?;
        let (of, rest) = rest.split_first()?;
        let (remaining, address) = rest.split_first_chunk()?;
        let remaining = u32::from_be_bytes(*remaining);
        if *of != table as u8 || remaining == 0 {
            return None;
        }
        let last = match table {
            Table::Local if address.is_empty() => None,
            Table::Local => return None,
            Table::Peers | Table::PeersV2 => Some(parse_address(address)?),
        };
        Some(Position { last, remaining })
    }
}

fn parse_address(bytes: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = bytes.split_last_chunk()?;
    let ip = match ip.len() {
        4 => IpAddr::from(Ipv4Addr::from(*ip.first_chunk()?)),
        16 => IpAddr::from(Ipv6Addr::from(*ip.first_chunk()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}
