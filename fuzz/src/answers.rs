//! Answers of the node that never was.

use std::net::IpAddr;

use helenus_wire::{ErrorBody, Opcode, Reader, code, write};

const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

const BLOB: u16 = 0x03;
const INT: u16 = 0x09;
const TEXT: u16 = 0x0d;
const UUID: u16 = 0x0c;
const INET: u16 = 0x10;

/// Rows of one table, all columns of simple types but `set<text>` and `map<text, text>`.
fn rows(keyspace: &str, table: &str, columns: &[(&str, u16)], cells: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    write::i32(&mut out, 2);
    write::u32(&mut out, 1);
    write::u32(&mut out, columns.len() as u32);
    write::string(&mut out, keyspace);
    write::string(&mut out, table);
    for (name, id) in columns {
        write::string(&mut out, name);
        write::u16(&mut out, *id);
        match id {
            0x21 => [TEXT, TEXT].iter().for_each(|id| write::u16(&mut out, *id)),
            0x22 => write::u16(&mut out, TEXT),
            _ => {}
        }
    }
    write::i32(&mut out, (cells.len() / columns.len()) as i32);
    for cell in cells {
        write::bytes(&mut out, Some(cell));
    }
    out
}

fn texts(list: &[&str], count: usize) -> Vec<u8> {
    let mut out = (count as i32).to_be_bytes().to_vec();
    for text in list {
        write::bytes(&mut out, Some(text.as_bytes()));
    }
    out
}

/// What a QUERY is answered with: the tables that a proxy reads, or anything.
pub fn query(body: &[u8], v5: bool) -> (Opcode, Vec<u8>) {
    let text = Reader::new(body).long_string().unwrap_or_default();
    let ip = match HOST {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let result = if text.contains("system_schema.keyspaces") {
        let replication = texts(&["class", "SimpleStrategy", "replication_factor", "1"], 2);
        let columns = [("keyspace_name", TEXT), ("replication", 0x21)];
        rows(
            "system_schema",
            "keyspaces",
            &columns,
            &[b"ks".to_vec(), replication],
        )
    } else if text.contains("system_schema.columns") {
        let columns = [
            ("keyspace_name", TEXT),
            ("table_name", TEXT),
            ("column_name", TEXT),
            ("kind", TEXT),
            ("position", INT),
            ("type", TEXT),
        ];
        let row = ["ks", "t", "k", "partition_key"].map(|text| text.as_bytes().to_vec());
        let mut row = row.to_vec();
        row.push(vec![0; 4]);
        row.push(b"int".to_vec());
        rows("system_schema", "columns", &columns, &row)
    } else if text.contains("system_schema.functions") {
        let columns = [("keyspace_name", TEXT), ("function_name", TEXT)];
        rows("system_schema", "functions", &columns, &[])
    } else if text.contains("system_schema.aggregates") {
        let columns = [("keyspace_name", TEXT), ("aggregate_name", TEXT)];
        rows("system_schema", "aggregates", &columns, &[])
    } else if text.contains("system.local") {
        let columns = [
            ("key", TEXT),
            ("rpc_address", INET),
            ("host_id", UUID),
            ("schema_version", UUID),
            ("data_center", TEXT),
            ("rack", TEXT),
            ("partitioner", TEXT),
            ("release_version", TEXT),
            ("cluster_name", TEXT),
            ("tokens", 0x22),
        ];
        let cells = [
            b"local".to_vec(),
            ip,
            vec![7; 16],
            vec![9; 16],
            b"dc1".to_vec(),
            b"r1".to_vec(),
            b"org.apache.cassandra.dht.Murmur3Partitioner".to_vec(),
            b"5.0.6".to_vec(),
            b"fuzz".to_vec(),
            texts(&["-4611686018427387904", "0", "4611686018427387904"], 3),
        ];
        rows("system", "local", &columns, &cells)
    } else if text.contains("system.peers") {
        let columns = [("peer", INET), ("schema_version", UUID)];
        rows("system", "peers", &columns, &[])
    } else if let Some(name) = text.strip_prefix("USE ") {
        let mut out = Vec::new();
        write::i32(&mut out, 3);
        write::string(&mut out, name.trim_matches('"'));
        out
    } else {
        return by_chance(body, v5);
    };
    (Opcode::Result, result)
}

/// A prepared statement `(k int, v blob)`, whose id is made of its text.
pub fn prepared(body: &[u8], v5: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let id = hash(
        Reader::new(body)
            .long_string()
            .unwrap_or_default()
            .as_bytes(),
    );
    write::i32(&mut out, 4);
    write::short_bytes(&mut out, &[id.to_be_bytes(), id.to_le_bytes()].concat());
    if v5 {
        write::short_bytes(&mut out, &[3; 16]);
    }
    write::u32(&mut out, 1);
    write::u32(&mut out, 2);
    write::i32(&mut out, 1);
    write::u16(&mut out, 0);
    for text in ["ks", "t", "k"] {
        write::string(&mut out, text);
    }
    write::u16(&mut out, INT);
    write::string(&mut out, "v");
    write::u16(&mut out, BLOB);
    // No result metadata: it modifies.
    write::u32(&mut out, 4);
    write::u32(&mut out, 0);
    out
}

/// An answer to any other request; the same to the same bytes.
pub fn by_chance(body: &[u8], v5: bool) -> (Opcode, Vec<u8>) {
    let number = hash(body);
    let mut out = Vec::new();
    match number % 16 {
        0..4 => write::i32(&mut out, 1),
        4..8 => {
            let cells = [
                vec![0, 0, 0, 1],
                vec![number as u8; (number % 999) as usize],
            ];
            out = rows("ks", "t", &[("k", INT), ("v", BLOB)], &cells);
        }
        8 => {
            // More pages, a new metadata id, no metadata.
            write::i32(&mut out, 2);
            write::u32(&mut out, if v5 { 2 | 4 | 8 } else { 2 | 4 });
            write::u32(&mut out, 1);
            write::bytes(&mut out, Some(b"state"));
            if v5 {
                write::short_bytes(&mut out, &[4; 16]);
            }
            write::i32(&mut out, 1);
            write::bytes(&mut out, None);
        }
        9 => {
            write::i32(&mut out, 5);
            for text in ["CREATED", "TABLE", "ks", "t"] {
                write::string(&mut out, text);
            }
        }
        10 => return (Opcode::Error, error(code::UNPREPARED, &prepared_id(body))),
        11 => return (Opcode::Error, error(code::READ_FAILURE, &failure(v5, &[1]))),
        12 => {
            return (
                Opcode::Error,
                error(code::WRITE_FAILURE, &failure(v5, b"\0\x06SIMPLE")),
            );
        }
        13 => {
            let mut fields = vec![0, 8, 0, 0, 0, 1, 0, 0, 0, 2];
            write::string(&mut fields, "CAS");
            if v5 {
                write::u16(&mut fields, 3);
            }
            return (Opcode::Error, error(code::WRITE_TIMEOUT, &fields));
        }
        14 => return (Opcode::Error, error(code::OVERLOADED, &[])),
        _ => return (Opcode::Error, error(code::INVALID, &[])),
    }
    (Opcode::Result, out)
}

fn prepared_id(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::short_bytes(
        &mut out,
        Reader::new(body).short_bytes().unwrap_or(&[0; 16]),
    );
    out
}

fn failure(v5: bool, end: &[u8]) -> Vec<u8> {
    let mut fields = vec![0, 4, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1];
    if v5 {
        write::inet_addr(&mut fields, HOST);
        write::u16(&mut fields, 1);
    }
    fields.extend_from_slice(end);
    fields
}

fn error(code: i32, fields: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let message = "by chance";
    ErrorBody {
        code,
        message,
        fields,
    }
    .write(&mut out);
    out
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
