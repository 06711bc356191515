use std::net::SocketAddr;

use helenus_wire::{QueryView, RowsView, Version, query_flags, strip_prelude, write};

use super::paging::Position;
use super::query::Table;
use super::*;
use crate::snapshot::{Snapshot, SystemColumn, SystemTable};
use crate::statement::prepared::Statement;

const INT: u16 = 9;
const TEXT: u16 = 13;
const INET: u16 = 16;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([127, 9, 9, last], 9042))
}

/// Proxy 1 sees 2, 3 and 4, in no order.
fn proxies() -> Proxies {
    Proxies {
        own: address(1),
        others: vec![address(3), address(4), address(2)],
    }
}

fn snapshot() -> Snapshot {
    let table = |columns: &[(&str, u16)]| SystemTable {
        columns: columns
            .iter()
            .map(|(name, id)| SystemColumn {
                name: (*name).to_owned(),
                type_raw: id.to_be_bytes().to_vec(),
            })
            .collect(),
        row: vec![Some(b"local".to_vec()), None, Some(b"r1".to_vec())],
    };
    let peers_v2 = [("peer", INET), ("peer_port", INT), ("rack", TEXT)];
    Snapshot::builder()
        .version(Version::V5)
        .local(table(&[
            ("key", TEXT),
            ("rpc_address", INET),
            ("rack", TEXT),
        ]))
        .peers(table(&[("peer", INET), ("rack", TEXT)]))
        .peers_v2(table(&peers_v2))
        .build()
}

/// How a text is asked; everything else is as a driver does it.
#[derive(Clone, Copy, Default)]
struct How<'a> {
    values: &'a [&'a [u8]],
    names: &'a [&'a str],
    size: Option<i32>,
    state: Option<&'a [u8]>,
    consistency: Option<u16>,
    skip: bool,
}

impl How<'_> {
    fn body(&self, text: &str) -> Vec<u8> {
        let set = |on: bool, bit: u32| if on { bit } else { 0 };
        let mut body = Vec::new();
        write::long_string(&mut body, text);
        write::u16(&mut body, self.consistency.unwrap_or(1));
        write::u32(
            &mut body,
            set(!self.values.is_empty(), query_flags::VALUES)
                | set(!self.names.is_empty(), query_flags::NAMES)
                | set(self.size.is_some(), query_flags::PAGE_SIZE)
                | set(self.state.is_some(), query_flags::PAGING_STATE)
                | set(self.skip, query_flags::SKIP_METADATA),
        );
        if !self.values.is_empty() {
            write::u16(&mut body, self.values.len() as u16);
        }
        for (at, value) in self.values.iter().enumerate() {
            if let Some(name) = self.names.get(at) {
                write::string(&mut body, name);
            }
            write::bytes(&mut body, Some(value));
        }
        if let Some(size) = self.size {
            write::i32(&mut body, size);
        }
        if self.state.is_some() {
            write::bytes(&mut body, self.state);
        }
        body
    }
}

/// The first cell of each row, and the paging state; `None` if a node has to answer.
type Page = Option<(Vec<Vec<u8>>, Option<Vec<u8>>)>;

fn answer_at(proxies: &Proxies, text: &str, how: How<'_>) -> Option<SystemAnswer> {
    let statement = Statement::new(text);
    let body = how.body(text);
    let view = QueryView::parse(&body, Version::V5).expect("a body");
    let asked = Asked {
        facts: &statement.facts,
        options: &view.options,
        prepared: None,
    };
    answer(statement.system?, asked, &snapshot(), proxies)
}

fn ask_at(proxies: &Proxies, text: &str, how: How<'_>) -> Page {
    let answer = answer_at(proxies, text, how)?;
    let (_, content) = strip_prelude(answer.header_flags, &answer.body).expect("a prelude");
    let view = RowsView::parse(content).expect("rows");
    let rows = view.rows().map(|row| {
        let first = row.expect("a row")[0];
        first.expect("a value").to_vec()
    });
    Some((rows.collect(), view.paging_state.map(<[u8]>::to_vec)))
}

fn ask(text: &str, how: How<'_>) -> Page {
    ask_at(&proxies(), text, how)
}

/// Rows on each page until the last.
fn pages(text: &str, size: i32) -> Vec<usize> {
    let mut state: Option<Vec<u8>> = None;
    let mut found = Vec::new();
    loop {
        let how = How {
            size: Some(size),
            state: state.as_deref(),
            ..How::default()
        };
        let (rows, next) = ask(text, how).expect("an answer");
        found.push(rows.len());
        state = next;
        if state.is_none() {
            return found;
        }
    }
}

#[test]
fn pages_are_as_long_and_end_as_those_of_a_node() {
    for table in ["peers", "peers_v2"] {
        let select = |rest: &str| format!("SELECT peer FROM system.{table}{rest}");
        // A full page may be the last, which only the next one tells.
        for (rest, size, wanted) in [
            ("", 1, vec![1, 1, 1, 0]),
            ("", 2, vec![2, 1]),
            ("", 3, vec![3, 0]),
            ("", 4, vec![3]),
            ("", -1, vec![3]),
            (" LIMIT 1", 1, vec![1]),
            (" LIMIT 2", 1, vec![1, 1]),
            (" LIMIT 3", 2, vec![2, 1]),
            (" LIMIT 3", 3, vec![3]),
            (" LIMIT 4", 3, vec![3, 0]),
            (" LIMIT 9", 1, vec![1, 1, 1, 0]),
        ] {
            assert_eq!(
                pages(&select(rest), size),
                wanted,
                "{table}{rest} by {size}"
            );
        }
    }
    assert_eq!(pages("SELECT key FROM system.local", 1), [1, 0]);
    assert_eq!(pages("SELECT key FROM system.local", 2), [1]);
    let by_key = "SELECT key FROM system.local WHERE key = 'local'";
    assert_eq!(pages(by_key, 1), [1]);
    let by_peer = "SELECT peer FROM system.peers WHERE peer = '127.9.9.3'";
    assert_eq!(pages(by_peer, 1), [1]);
    let by_peer = "SELECT peer FROM system.peers_v2 WHERE peer = '127.9.9.3' AND peer_port = 7000";
    assert_eq!(pages(by_peer, 1), [1, 0]);
}

#[test]
fn a_page_goes_on_where_the_last_ended_whichever_proxies_there_are_by_then() {
    let first = How {
        size: Some(2),
        ..How::default()
    };
    for table in ["peers", "peers_v2"] {
        let text = format!("SELECT peer FROM system.{table}");
        let (rows, state) = ask(&text, first).expect("an answer");
        assert_eq!(rows, [[127, 9, 9, 2], [127, 9, 9, 3]]);
        let state = state.expect("more");
        assert!(state.len() <= 13, "{} bytes", state.len());
        let next = How {
            state: Some(&state),
            ..first
        };
        // At proxy 3, after 2 has gone and 5 has come.
        let later = Proxies {
            own: address(3),
            others: vec![address(5), address(1), address(4)],
        };
        let (rows, state) = ask_at(&later, &text, next).expect("an answer");
        assert_eq!(rows, [[127, 9, 9, 4], [127, 9, 9, 5]]);
        assert!(state.is_some());
    }
}

#[test]
fn states_that_are_none_go_to_a_node() {
    let text = "SELECT peer FROM system.peers";
    fn how(state: &[u8]) -> How<'_> {
        How {
            size: Some(1),
            state: Some(state),
            ..How::default()
        }
    }
    let good = Position::behind(Table::Peers, address(2), 7).to_bytes(Table::Peers);
    assert!(ask(text, how(&good)).is_some());
    for len in 0..good.len() {
        assert_eq!(ask(text, how(&good[..len])), None, "{len} bytes of it");
        let longer = [&good[..], &good[..=len]].concat();
        // Longer by the rest of an IPv6 address it is one.
        assert_eq!(
            ask(text, how(&longer)).is_some(),
            len + 1 == 12,
            "{len} more"
        );
    }
    let mut none_left = good.clone();
    none_left[3..7].fill(0);
    assert_eq!(ask(text, how(&none_left)), None);
    let mut forged = good.clone();
    forged[3..7].fill(0xFF);
    let (rows, state) = ask(text, how(&forged)).expect("an answer");
    assert_eq!(rows, [[127, 9, 9, 3]]);
    let left = Position::parse(&state.expect("more"), Table::Peers).expect("a state");
    assert_eq!(
        left.remaining,
        i32::MAX as u32 - 1,
        "the statement's own limit"
    );
    // Of another table, and one of Cassandra's.
    let other = Position::behind(Table::PeersV2, address(2), 7).to_bytes(Table::PeersV2);
    let cassandras = b"\x04\x7f\0\0\x03\0\xf0\x7f\xff\xff\xfe\0";
    for state in [&other[..], cassandras, b""] {
        assert_eq!(ask(text, how(state)), None, "{state:?}");
        assert_eq!(ask("SELECT count(*) FROM system.peers", how(state)), None);
    }
    let local = Position::behind(Table::Local, address(2), 7).to_bytes(Table::Local);
    let rows = ask("SELECT key FROM system.local", how(&local));
    assert_eq!(rows, Some((vec![], None)));
}

#[test]
fn what_cassandra_would_refuse_goes_to_a_node() {
    let plain = How::default();
    let texts = [
        "SELECT key FROM system.local LIMIT 0",
        "SELECT key FROM system.local LIMIT -1",
        "SELECT key FROM system.local LIMIT 99999999999",
        "SELECT count(*) FROM system.local LIMIT 0",
        "SELECT key FROM system.local WHERE key = 'local' AND key = 'local'",
        "SELECT key FROM system.local WHERE key = 1",
        "SELECT key FROM system.local WHERE rack = 'r1'",
        "SELECT nothing FROM system.local",
        "SELECT peer FROM system.peers WHERE peer = '127.9.9.2' AND peer = '127.9.9.3'",
        "SELECT peer FROM system.peers WHERE peer = 'x'",
        "SELECT peer FROM system.peers_v2 WHERE peer_port = 7000",
        "SELECT key FROM system.local WHERE key = ?",
        "SELECT JSON key FROM system.local",
        "SELECT key FROM system.local WHERE key IN ('local')",
        "SELECT now() FROM system.local",
    ];
    for text in texts {
        assert_eq!(ask(text, plain), None, "{text}");
    }
    let by_key = "SELECT key FROM system.local WHERE key = ?";
    let limited = "SELECT key FROM system.local LIMIT ?";
    let bound: [(&str, &[&[u8]]); 9] = [
        ("SELECT key FROM system.local", &[b"local"]),
        (by_key, &[b"local", b"more"]),
        (by_key, &[b""]),
        (by_key, &[b"\xFF\xFE"]),
        (limited, &[&[0; 4]]),
        (limited, &[&[0xFF; 4]]),
        (limited, &[&[0, 1]]),
        ("SELECT peer FROM system.peers WHERE peer = ?", &[b"abc"]),
        (
            "SELECT peer FROM system.peers_v2 WHERE peer = ? AND peer_port = ?",
            &[&[127, 9, 9, 2], &[0; 3]],
        ),
    ];
    for (text, values) in bound {
        assert_eq!(
            ask(text, How { values, ..plain }),
            None,
            "{text} {values:?}"
        );
    }
    for consistency in [0, 2, 3, 11, 99] {
        let how = How {
            consistency: Some(consistency),
            ..plain
        };
        assert_eq!(ask("SELECT key FROM system.local", how), None);
    }
    let no_page = How {
        size: Some(0),
        ..plain
    };
    assert_eq!(ask("SELECT peer FROM system.peers", no_page), None);
}

#[test]
fn markers_are_bound_by_position_and_by_name() {
    let found = Some((vec![b"local".to_vec()], None));
    let none = Some((vec![], None));
    let by_name = |text: &str, names: &[&str], values: &[&[u8]]| {
        let how = How {
            names,
            values,
            ..How::default()
        };
        ask(text, how)
    };
    for text in ["key = ?", "key = :k", "key = :k LIMIT 3"] {
        let text = format!("SELECT key FROM system.local WHERE {text}");
        assert_eq!(by_name(&text, &[], &[b"local"]), found, "{text}");
        assert_eq!(by_name(&text, &[], &[b"other"]), none, "{text}");
    }
    let named = "SELECT key FROM system.local WHERE key = :k LIMIT :l";
    let one: &[u8] = &[0, 0, 0, 1];
    assert_eq!(by_name(named, &["l", "k"], &[one, b"local"]), found);
    assert_eq!(
        by_name(named, &["x", "k", "l"], &[b"", b"local", one]),
        found
    );
    assert_eq!(by_name(named, &["k"], &[b"local"]), None, "no limit");
    let unnamed = "SELECT key FROM system.local WHERE key = ? LIMIT ?";
    assert_eq!(
        by_name(unnamed, &["[limit]", "key"], &[one, b"local"]),
        found
    );
}

#[test]
fn without_a_keyspace_it_depends_on_the_one_in_force() {
    let applies = |text: &str, keyspace| {
        let query = Statement::new(text).system;
        query.is_some_and(|query| query.applies(keyspace))
    };
    for keyspace in [None, Some("u"), Some("System"), Some("system")] {
        assert!(applies("SELECT * FROM system.local", keyspace));
        assert!(!applies("SELECT * FROM u.local", keyspace));
        assert!(!applies("SELECT * FROM \"System\".local", keyspace));
        let unqualified = applies("SELECT * FROM local", keyspace);
        assert_eq!(unqualified, keyspace == Some("system"));
    }
}

#[test]
fn other_tables_of_one_node_are_known_by_the_keyspace_in_force_too() {
    let local = |text: &str, keyspace| Statement::new(text).is_node_local(keyspace);
    for keyspace in [None, Some("u"), Some("system_schema")] {
        assert!(local("SELECT * FROM system_views.clients", keyspace));
        assert!(local("DESCRIBE TABLES", keyspace));
        assert!(!local("SELECT * FROM u.tables", keyspace));
        let unqualified = local("SELECT * FROM tables", keyspace);
        assert_eq!(unqualified, keyspace == Some("system_schema"));
    }
}

#[test]
fn columns_are_left_out_on_request() {
    for skip in [false, true] {
        let how = How {
            skip,
            ..How::default()
        };
        let answer = answer_at(&proxies(), "SELECT peer FROM system.peers", how);
        let body = answer.expect("an answer").body;
        let view = RowsView::parse(&body).expect("rows");
        assert_eq!(view.columns.is_empty(), skip);
        assert_eq!((view.column_count, view.row_count), (1, 3));
    }
}

#[test]
fn counting_all_rows_comes_with_cassandras_warning() {
    for (rest, count, flags) in [
        ("", 3_i64, helenus_wire::flags::WARNING),
        (" WHERE peer = '127.9.9.3'", 1, 0),
    ] {
        let text = format!("SELECT count(*) FROM system.peers{rest}");
        let (rows, _) = ask(&text, How::default()).expect("an answer");
        assert_eq!(rows, [count.to_be_bytes()]);
        let answer = answer_at(&proxies(), &text, How::default());
        assert_eq!(answer.expect("an answer").header_flags, flags, "{text}");
    }
}

#[test]
fn drivers_see_that_nodes_disagree_on_the_schema() {
    let table = SystemTable {
        columns: vec![SystemColumn {
            name: "schema_version".to_owned(),
            type_raw: 12_u16.to_be_bytes().to_vec(),
        }],
        row: Vec::new(),
    };
    let snapshot = snapshot().edit().schema_version([1; 16]).build();
    let versions = |snapshot: &Snapshot, kind| {
        let rows = super::rows::rows(kind, &table, snapshot, &proxies());
        let cells = rows.into_iter().map(|row| row.cells[0].clone());
        let mut cells: Vec<Vec<u8>> = cells.map(|cell| cell.expect("a version")).collect();
        cells.dedup();
        cells
    };
    let peers = [Table::Peers, Table::PeersV2];
    for kind in peers {
        assert_eq!(versions(&snapshot, kind), [[1; 16]]);
    }
    let snapshot = snapshot.edit().other_schema_version(Some([2; 16]));
    let snapshot = snapshot.build();
    assert_eq!(versions(&snapshot, Table::Local), [[1; 16]]);
    for kind in peers {
        assert_eq!(versions(&snapshot, kind), [[2; 16]]);
    }
}
