//! A connection to the node of a copy.

use std::net::SocketAddr;
use std::time::Duration;

use helenus_engine::node::greeting::startup_options;
use helenus_engine::snapshot::HostId;
use helenus_rows::Bytes;
use helenus_wire::{Consistency, Opcode, RowsView, Version, query_flags, write};
use tokio::time::timeout;

use super::trouble::Trouble;
use crate::boot_time::now_us;
use crate::conn::{Conn, ConnError, Message};
use crate::control;
use crate::process::Process;
use crate::rows::{ANSWER_MAX, Rows};
use crate::uuid;

/// For a connection, with its login.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const SELECT_START: &str = "SELECT host_id, gossip_generation FROM system.local";
const SELECT_SYNC: &str = "SELECT value FROM system_views.settings WHERE name = 'commitlog_sync'";
const UNLOGGED: u8 = 1;

/// A statement and its values.
pub(super) type Bound = (String, Vec<Bytes>);

pub(super) struct Node {
    pub address: SocketAddr,
    conn: Conn,
    /// Which start of the node this is; 0 for any.
    boot: u32,
    /// At which rows are read and written.
    level: Consistency,
}

/// Some rows of a result, and where it goes on.
pub(super) struct Page {
    pub rows: Vec<Vec<Bytes>>,
    pub next: Option<Vec<u8>>,
}

impl Node {
    /// Fails if another node has taken the address.
    pub(super) async fn connect(common: &Process, owner: HostId) -> Result<Node, Trouble> {
        let snapshot = common.snapshot.load_full();
        let mut nodes = snapshot.nodes.iter();
        let node = nodes.find(|node| node.host_id == owner && !node.gone);
        let address = node
            .ok_or_else(|| Trouble::NoNode(uuid::text(owner)))?
            .address;
        common.unreachable.check(owner, now_us())?;
        let opened = open(common, address).await;
        let (conn, told) = opened.map_err(|why| {
            common.unreachable.on_failed(owner, now_us());
            Trouble::Node(address, why)
        })?;
        common.unreachable.on_connected(owner);
        let row = told.rows.first();
        let is_owner = row.and_then(|row| told.uuid(row, "host_id")) == Some(owner);
        if !is_owner {
            return Err(Trouble::NoNode(uuid::text(owner)));
        }
        let boot = row.and_then(|row| told.int(row, "gossip_generation"));
        let boot = boot.and_then(|boot| u32::try_from(boot).ok());
        Ok(Node {
            address,
            conn,
            boot: boot.ok_or_else(|| {
                Trouble::Unfit(format!(
                    "node {address} does not say which start it is (gossip_generation of system.local)"
                ))
            })?,
            // It is the only replica.
            level: Consistency::ONE,
        })
    }

    /// The first one that answers, those that are put off last, for the table itself, which has replicas of its own: all
    /// of them are asked. What some of them have may not have been acknowledged, or only by one of them, and a hint would bring it later.
    pub(super) async fn any(common: &Process) -> Result<Node, Trouble> {
        let (snapshot, config) = (common.snapshot.load_full(), common.settings.load_full());
        // No node is the lost one.
        let none = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut trouble = Trouble::Catalogue(ConnError::Closed);
        let nodes = control::in_order(&snapshot, &config, none);
        let nodes = nodes.into_iter().filter_map(|address| {
            let mut nodes = snapshot.nodes.iter();
            let node = nodes.find(|node| node.address == address && !node.gone)?;
            Some((node.host_id, address))
        });
        let unreachable = &common.unreachable;
        for (host, address) in unreachable.put_off_last(nodes.collect(), now_us()) {
            match open(common, address).await {
                Ok((conn, _)) => {
                    unreachable.on_connected(host);
                    return Ok(Node {
                        address,
                        conn,
                        boot: 0,
                        level: Consistency::ALL,
                    });
                }
                Err(why) => {
                    let now_us = now_us();
                    // One that was put off is tried here for want of others.
                    if unreachable.check(host, now_us).is_ok() {
                        unreachable.on_failed(host, now_us);
                    }
                    trouble = Trouble::Node(address, why);
                }
            }
        }
        Err(trouble)
    }

    /// A connection ends with its node: all that was answered on it was answered by this start.
    pub(super) fn boot(&self) -> u32 {
        self.boot
    }

    /// Whether the node answers writes only when they are on its disk. Not if it does not say so.
    pub(super) async fn syncs_commit_log(&mut self) -> bool {
        let told = self.rows(SELECT_SYNC).await;
        let value = told.ok().and_then(|told| {
            let row = told.rows.first()?;
            told.text(row, "value")
        });
        matches!(value.as_deref(), Some("batch" | "group"))
    }

    /// Of the copy that the node has, or of the table itself.
    pub(super) async fn page(
        &mut self,
        (text, values): (&str, &[Bytes]),
        rows: i32,
        from: Option<&[u8]>,
    ) -> Result<Page, Trouble> {
        let body = query((self.conn.version, self.level), (text, values), rows, from);
        let answer = self.call(Opcode::Query, &body).await?;
        let read = || -> Result<Page, ConnError> {
            let view = RowsView::parse(answer.content()?)?;
            let owned = |cells: Vec<Option<&[u8]>>| {
                let cells = cells.into_iter().map(|cell| cell.map(<[u8]>::to_vec));
                cells.collect()
            };
            let rows = view.rows().map(|row| row.map(owned));
            Ok(Page {
                rows: rows.collect::<Result<_, _>>()?,
                next: view.paging_state.map(<[u8]>::to_vec),
            })
        };
        read().map_err(|why| Trouble::Node(self.address, why))
    }

    /// All rows of a short result, by name.
    pub(super) async fn rows(&mut self, text: &str) -> Result<Rows, Trouble> {
        let how = (self.conn.version, Consistency::ONE);
        let body = query(how, (text, &[]), i32::MAX, None);
        let answer = self.call(Opcode::Query, &body).await?;
        let rows = answer.content().and_then(Rows::parse);
        rows.map_err(|why| Trouble::Node(self.address, why))
    }

    /// Writes of one partition, as one mutation.
    pub(super) async fn write(&mut self, writes: &[Bound]) -> Result<(), Trouble> {
        if writes.is_empty() {
            return Ok(());
        }
        let body = batch((self.conn.version, self.level), writes);
        let answer = self.call(Opcode::Batch, &body).await?;
        let done = answer.content().map(|_| ());
        done.map_err(|why| Trouble::Node(self.address, why))
    }

    async fn call(&mut self, opcode: Opcode, body: &[u8]) -> Result<Message, Trouble> {
        let answer = timeout(ANSWER_MAX, self.conn.call(opcode, body)).await;
        let answer = answer.unwrap_or(Err(ConnError::Timeout(ANSWER_MAX)));
        answer.map_err(|why| Trouble::Node(self.address, why))
    }
}

async fn open(common: &Process, address: SocketAddr) -> Result<(Conn, Rows), ConnError> {
    let config = common.settings.load_full();
    let dialer = (**common.dialer.load()).clone();
    let version = common.snapshot.load().version;
    let opening = async {
        let mut conn = dialer.dial(address, version).await?;
        let token = config.control_token();
        conn.open(&startup_options(&config.payload), token.as_deref())
            .await?;
        let told = conn.query(SELECT_START).await?;
        let told = Rows::parse(told.content()?)?;
        Ok((conn, told))
    };
    let opened = timeout(CONNECT_MAX, opening).await;
    opened.unwrap_or(Err(ConnError::Timeout(CONNECT_MAX)))
}

fn query(
    (version, level): (Version, Consistency),
    (text, values): (&str, &[Bytes]),
    rows: i32,
    from: Option<&[u8]>,
) -> Vec<u8> {
    let mut body = Vec::with_capacity(text.len() + 64);
    write::long_string(&mut body, text);
    write::u16(&mut body, level.0);
    let state = from.map_or(0, |_| query_flags::PAGING_STATE);
    let set = query_flags::VALUES | query_flags::PAGE_SIZE | state;
    flags(&mut body, version, set);
    bound(&mut body, values);
    write::i32(&mut body, rows);
    if from.is_some() {
        write::bytes(&mut body, from);
    }
    body
}

fn batch((version, level): (Version, Consistency), writes: &[Bound]) -> Vec<u8> {
    let mut body = vec![UNLOGGED];
    write::u16(&mut body, u16::try_from(writes.len()).unwrap_or(u16::MAX));
    for (text, values) in writes.iter().take(usize::from(u16::MAX)) {
        body.push(0);
        write::long_string(&mut body, text);
        bound(&mut body, values);
    }
    write::u16(&mut body, level.0);
    flags(&mut body, version, 0);
    body
}

fn flags(body: &mut Vec<u8>, version: Version, flags: u32) {
    match version {
        Version::V5 => write::u32(body, flags),
        _ => body.push(flags as u8),
    }
}

fn bound(body: &mut Vec<u8>, values: &[Bytes]) {
    write::u16(body, values.len() as u16);
    for value in values {
        write::bytes(body, value.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use helenus_wire::{BatchView, QueryView};

    use super::*;

    #[test]
    fn requests_are_read_as_they_were_meant() {
        let values = [Some(vec![1, 2]), None];
        for version in [Version::V4, Version::V5] {
            let how = (version, Consistency::ALL);
            let body = query(how, ("SELECT 1", &values), 50, Some(b"state"));
            let view = QueryView::parse(&body, version).expect("a query");
            assert_eq!(view.text, "SELECT 1");
            let options = view.options;
            let page = (options.page_size, options.paging_state);
            assert_eq!(page, (Some(50), Some(&b"state"[..])), "{version:?}");
            assert_eq!(options.consistency, Consistency::ALL);
            let writes = vec![("INSERT".to_owned(), values.to_vec()); 3];
            let body = batch(how, &writes);
            let view = BatchView::parse(&body, version).expect("a batch");
            assert_eq!(view.children.len(), 3);
            assert_eq!(view.options.consistency, Consistency::ALL);
        }
    }
}
