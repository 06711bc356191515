//! Answers of made-up nodes: those of a real one, or something else if a byte of the fuzzer says so.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use helenus_wire::{
    BatchChild, BatchView, ErrorBody, ExecuteView, Malformed, Opcode, Options, PrepareView,
    QueryView, Version, code, flags, query_flags, write,
};

const BIGINT: u16 = 0x02;
const BLOB: u16 = 0x03;
const BOOLEAN: u16 = 0x04;
const INT: u16 = 0x09;

const GLOBAL_TABLE: u32 = 0x1;
const MORE_PAGES: u32 = 0x2;
const NO_METADATA: u32 = 0x4;
const METADATA_CHANGED: u32 = 0x8;

const ERRORS: [i32; 14] = [
    code::SERVER,
    code::UNAVAILABLE,
    code::OVERLOADED,
    code::IS_BOOTSTRAPPING,
    code::TRUNCATE,
    code::WRITE_TIMEOUT,
    code::READ_TIMEOUT,
    code::READ_FAILURE,
    code::WRITE_FAILURE,
    code::SYNTAX,
    code::UNAUTHORIZED,
    code::INVALID,
    code::CONFIG,
    code::UNPREPARED,
];

/// An answer: opcode, flags and body.
pub type Answer = (Opcode, u8, Vec<u8>);

/// All nodes together, which know what any of them has prepared.
#[derive(Default)]
pub struct Nodes {
    prepared: BTreeMap<Vec<u8>, String>,
}

/// A request as far as a node understands it.
#[derive(Default)]
struct Asked {
    text: String,
    /// Of what it executes.
    id: Vec<u8>,
    skips_metadata: bool,
    rows_max: usize,
}

/// Properties of the rows of an answer.
#[derive(Clone, Copy)]
struct Page {
    rows: usize,
    has_more: bool,
    /// Of a blob.
    cell_bytes: usize,
    /// The columns are not those that were prepared.
    is_changed: bool,
    /// The condition of a write holds.
    is_applied: bool,
}

impl Page {
    fn of(choice: u8) -> Page {
        let page = Page {
            rows: 3,
            has_more: false,
            cell_bytes: 4,
            is_changed: false,
            is_applied: true,
        };
        let has_more = true;
        match choice {
            1 => Page { rows: 0, ..page },
            2 => Page {
                rows: 1,
                has_more,
                ..page
            },
            3 => Page {
                rows: 50,
                has_more,
                ..page
            },
            4 => Page { rows: 50, ..page },
            5 => Page {
                cell_bytes: 40_000,
                ..page
            },
            6 => Page {
                is_changed: true,
                ..page
            },
            7 => Page {
                is_applied: false,
                ..page
            },
            _ => page,
        }
    }
}

impl Nodes {
    /// `choice`: 0 for what a real node would answer.
    ///
    /// # Errors
    /// If a node could not read the request, which the proxy must not have passed on.
    pub fn answer(
        &mut self,
        opcode: Opcode,
        content: &[u8],
        version: Version,
        choice: u8,
    ) -> Result<Answer, Malformed> {
        let asked = self.understand(opcode, content, version)?;
        let (opcode, body) = match choice & 0x1f {
            page @ 0..8 => self.proper(opcode, &asked, version, Page::of(page)),
            8 => (Opcode::Result, void()),
            9 => (Opcode::Result, set_keyspace("ks")),
            10 => (Opcode::Result, schema_change()),
            11 => {
                let other = prepared("SELECT k FROM ks.t", &[5; 16], version, false);
                (Opcode::Result, other)
            }
            kind => {
                let code = ERRORS[usize::from(kind) % ERRORS.len()];
                (Opcode::Error, error(code, &asked.id, version))
            }
        };
        let mut prelude = Vec::new();
        let mut header_flags = 0;
        if choice & 0x20 != 0 {
            header_flags |= flags::TRACING;
            prelude.extend_from_slice(&[6; 16]);
        }
        if choice & 0x40 != 0 && version >= Version::V4 {
            header_flags |= flags::WARNING;
            write::string_list(
                &mut prelude,
                &["Aggregation query used without partition key"],
            );
        }
        if choice & 0x80 != 0 && version >= Version::V4 {
            header_flags |= flags::CUSTOM_PAYLOAD;
            write::u16(&mut prelude, 1);
            write::string(&mut prelude, "key");
            write::bytes(&mut prelude, None);
        }
        prelude.extend_from_slice(&body);
        Ok((opcode, header_flags, prelude))
    }

    fn understand(
        &self,
        opcode: Opcode,
        content: &[u8],
        version: Version,
    ) -> Result<Asked, Malformed> {
        let of = |text: String, id: &[u8], options: &Options<'_>| Asked {
            text,
            id: id.to_vec(),
            skips_metadata: options.flags & query_flags::SKIP_METADATA != 0,
            rows_max: options.page_size.map_or(usize::MAX, |size| size as usize),
        };
        Ok(match opcode {
            Opcode::Query => {
                let view = QueryView::parse(content, version)?;
                of(view.text.to_owned(), &[], &view.options)
            }
            Opcode::Execute => {
                let view = ExecuteView::parse(content, version)?;
                let text = self.prepared.get(view.id).cloned().unwrap_or_default();
                of(text, view.id, &view.options)
            }
            Opcode::Prepare => Asked {
                text: PrepareView::parse(content, version)?.text.to_owned(),
                ..Asked::default()
            },
            Opcode::Batch => {
                let view = BatchView::parse(content, version)?;
                let id = view.children.iter().find_map(|child| match child {
                    BatchChild::Prepared(id, _) => Some(*id),
                    BatchChild::Text(..) => None,
                });
                of(String::new(), id.unwrap_or_default(), &view.options)
            }
            _ => Asked::default(),
        })
    }

    fn proper(
        &mut self,
        opcode: Opcode,
        asked: &Asked,
        version: Version,
        page: Page,
    ) -> (Opcode, Vec<u8>) {
        if !asked.id.is_empty() && !self.prepared.contains_key(&asked.id) {
            return (Opcode::Error, error(code::UNPREPARED, &asked.id, version));
        }
        let text = &asked.text;
        let first = text.split_whitespace().next().unwrap_or_default();
        let body = match (opcode, first.to_ascii_uppercase().as_str()) {
            (Opcode::Options, _) => {
                let mut body = Vec::new();
                write::u16(&mut body, 0);
                return (Opcode::Supported, body);
            }
            (Opcode::Prepare, _) => {
                let id = id_of(text);
                self.prepared.insert(id.to_vec(), text.clone());
                prepared(text, &id, version, page.is_changed)
            }
            (Opcode::Batch, _) => void(),
            (_, "SELECT") => rows(&columns(text), asked, version, page),
            (_, "USE") => {
                let name = text.split_whitespace().nth(1).unwrap_or_default();
                set_keyspace(name.trim_matches('"'))
            }
            (_, "CREATE" | "ALTER" | "DROP") => schema_change(),
            _ if text.contains(" IF ") => rows(&[("[applied]", BOOLEAN)], asked, version, page),
            _ => void(),
        };
        (Opcode::Result, body)
    }
}

/// The id that nodes give a text.
fn id_of(text: &str) -> [u8; 16] {
    // FNV-1a.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (u128::from(hash) << 64 | u128::from(hash.swap_bytes())).to_be_bytes()
}

/// Name and type of each column that a SELECT wants.
fn columns(text: &str) -> Vec<(&str, u16)> {
    let list = text.get("SELECT".len()..).unwrap_or_default();
    let list = list.split(" FROM ").next().unwrap_or_default();
    let mut columns = Vec::new();
    for name in list.split(',').map(str::trim) {
        match name {
            "*" => columns.extend([("k", INT), ("v", BLOB)]),
            _ if name.starts_with("count(") => columns.push((name, BIGINT)),
            "v" => columns.push((name, BLOB)),
            _ => columns.push((name, INT)),
        }
    }
    columns
}

/// True if there is only one row of it, whatever was read.
fn is_single(column: &str) -> bool {
    let single = ["count(", "min(", "max(", "sum(", "[applied]"];
    single.iter().any(|begin| column.starts_with(begin))
}

fn rows(columns: &[(&str, u16)], asked: &Asked, version: Version, page: Page) -> Vec<u8> {
    let (rows, has_more) = match columns.iter().any(|(name, _)| is_single(name)) {
        true => (1, false),
        false => (page.rows.min(asked.rows_max), page.has_more),
    };
    let changed = page.is_changed && version == Version::V5;
    let skips = asked.skips_metadata && !changed;
    let mut body = Vec::new();
    write::i32(&mut body, 2);
    let metadata = if skips { NO_METADATA } else { GLOBAL_TABLE };
    let more = if has_more { MORE_PAGES } else { 0 };
    let change = if changed { METADATA_CHANGED } else { 0 };
    write::u32(&mut body, metadata | more | change);
    write::u32(&mut body, columns.len() as u32);
    if has_more {
        // Behind the last row: its key, nothing of a clustering, and how many rows are left.
        let key = (rows as u32).to_be_bytes();
        let state = [&[4], &key[..], &[0, 100, 100]].concat();
        write::bytes(&mut body, Some(&state));
    }
    if changed {
        write::short_bytes(&mut body, &[4; 16]);
    }
    if !skips {
        specs(columns, &mut body);
    }
    write::u32(&mut body, rows as u32);
    for row in 1..=rows as u32 {
        for (_, column_type) in columns {
            match *column_type {
                INT => write::bytes(&mut body, Some(&row.to_be_bytes())),
                BIGINT => write::bytes(&mut body, Some(&u64::from(row).to_be_bytes())),
                BOOLEAN => write::bytes(&mut body, Some(&[u8::from(page.is_applied)])),
                _ => write::bytes(&mut body, Some(&vec![7; page.cell_bytes])),
            }
        }
    }
    body
}

/// Keyspace and table, then the columns.
fn specs(columns: &[(&str, u16)], out: &mut Vec<u8>) {
    write::string(out, "ks");
    write::string(out, "t");
    for (name, column_type) in columns {
        write::string(out, name);
        write::u16(out, *column_type);
    }
}

/// A prepared statement whose first marker is the partition key, if that seems to be compared.
fn prepared(text: &str, id: &[u8], version: Version, changed: bool) -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 4);
    write::short_bytes(&mut body, id);
    if version == Version::V5 {
        write::short_bytes(&mut body, &[if changed { 4 } else { 3 }; 16]);
    }
    let markers = vec![("k", INT); text.matches('?').count()];
    write::u32(&mut body, GLOBAL_TABLE);
    write::u32(&mut body, markers.len() as u32);
    if version >= Version::V4 {
        let mut names = ["k = ?", "k IN ", "(k, "].iter();
        let has_key = !markers.is_empty() && names.any(|name| text.contains(name));
        write::u32(&mut body, u32::from(has_key));
        body.resize(body.len() + 2 * usize::from(has_key), 0);
    }
    specs(&markers, &mut body);
    let result = match text.starts_with("SELECT") {
        true => columns(text),
        false => Vec::new(),
    };
    write::u32(&mut body, GLOBAL_TABLE);
    write::u32(&mut body, result.len() as u32);
    specs(&result, &mut body);
    body
}

fn void() -> Vec<u8> {
    1_i32.to_be_bytes().to_vec()
}

fn set_keyspace(name: &str) -> Vec<u8> {
    let mut body = 3_i32.to_be_bytes().to_vec();
    write::string(&mut body, name);
    body
}

fn schema_change() -> Vec<u8> {
    let mut body = 5_i32.to_be_bytes().to_vec();
    for text in ["CREATED", "TABLE", "ks", "t"] {
        write::string(&mut body, text);
    }
    body
}

fn error(code: i32, id: &[u8], version: Version) -> Vec<u8> {
    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut fields = Vec::new();
    // Consistency level, how many answers came and how many were needed.
    let numbers = [0, 4, 0, 0, 0, 1, 0, 0, 0, 2];
    match code {
        code::UNPREPARED => write::short_bytes(&mut fields, id),
        code::UNAVAILABLE => fields.extend(numbers),
        code::READ_TIMEOUT => {
            fields.extend(numbers);
            fields.push(0);
        }
        code::WRITE_TIMEOUT => {
            fields.extend(numbers);
            write::string(&mut fields, "CAS");
            if version == Version::V5 {
                write::u16(&mut fields, 3);
            }
        }
        code::READ_FAILURE | code::WRITE_FAILURE => {
            fields.extend(numbers);
            write::u32(&mut fields, 1);
            if version == Version::V5 {
                write::inet_addr(&mut fields, HOST);
                write::u16(&mut fields, 1);
            }
            match code {
                code::READ_FAILURE => fields.push(1),
                _ => write::string(&mut fields, "SIMPLE"),
            }
        }
        _ => {}
    }
    let mut body = Vec::new();
    let (message, fields) = ("by chance", &fields[..]);
    ErrorBody {
        code,
        message,
        fields,
    }
    .write(&mut body);
    body
}
