//! Nodes: they answer all that they are asked, with as much as the dice say.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use helenus_engine::LinkKey;
use helenus_sim::dice::Dice;
use helenus_wire::{
    Compression, Decoder, Encoder, ErrorBody, ExecuteView, Flow, Header, MAX_REQUEST_BODY,
    MAX_RESPONSE_BODY, Opcode, Options, PageStart, PrepareView, QueryView, Version, code,
    query_flags, write,
};

use crate::client::VALUE_MAX;
use crate::socket::Socket;

const BOOLEAN: u16 = 0x04;
const BIGINT: u16 = 0x02;
const BLOB: u16 = 0x03;
/// Bytes of a page that has many rows.
const PAGE_MAX: usize = 1 << 20;
/// Bytes of the values of a row that is longer than an answer may be.
const TOO_LONG: usize = MAX_RESPONSE_BODY + (1 << 20);
/// The number of statements that all nodes know; with more they forget all of them, as nodes do.
const KNOWN_MAX: usize = 100;

/// That of every result.
pub(crate) const METADATA_ID: [u8; 16] = [3; 16];

/// The cells of a row.
type Row = Vec<Cow<'static, [u8]>>;

/// Statements that nodes have prepared: texts, by their ids.
pub(crate) type Known = BTreeMap<[u8; 16], String>;

/// The node's end of a link.
pub(crate) struct Link {
    pub(crate) key: LinkKey,
    pub(crate) socket: Socket,
    version: Version,
    decoder: Decoder,
    encoder: Encoder,
    asked: VecDeque<Asked>,
}

/// A request that has not been answered.
struct Asked {
    stream: i16,
    what: What,
    due_ms: u64,
}

enum What {
    Startup,
    /// Which is not told: who cannot tell the cluster's name is taken for one of it.
    ClusterName,
    Options,
    Prepare(String),
    Unprepared(Vec<u8>),
    Statement {
        text: String,
        rows_max: usize,
        skips_metadata: bool,
    },
    Batch,
}

impl Link {
    pub(crate) fn new(key: LinkKey, version: Version) -> Link {
        Link {
            key,
            socket: Socket::default(),
            version,
            decoder: Decoder::new(MAX_REQUEST_BODY),
            encoder: Encoder::new(),
            asked: VecDeque::new(),
        }
    }

    /// Reads what the engine has sent.
    pub(crate) fn read(&mut self, bytes: &[u8], known: &mut Known, now_ms: u64, dice: &mut Dice) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (version, asked) = (self.version, &mut self.asked);
            let mut begins = false;
            let fed = self.decoder.feed(rest, &mut Vec::new(), |header, body| {
                let what = understand(header, body, version, known);
                begins = matches!(what, What::Startup);
                // Most are quick; some take longer than clients like, few for ever.
                let takes_ms = match dice.below(1_000) {
                    _ if begins => 0,
                    0 => 60_000,
                    1..50 => dice.below(3_000),
                    _ => dice.below(30),
                };
                asked.push_back(Asked {
                    stream: header.stream,
                    what,
                    due_ms: now_ms + takes_ms,
                });
                if begins { Flow::Pause } else { Flow::Continue }
            });
            rest = &rest[fed.expect("what a node can read")..];
            if begins {
                self.decoder
                    .set_mode(self.version == Version::V5, Compression::None);
            }
        }
    }

    /// Answers what is due, as long as little is on its way.
    pub(crate) fn answer(&mut self, now_ms: u64, dice: &mut Dice) {
        while self.socket.unread() < VALUE_MAX
            && let Some(at) = self.asked.iter().position(|asked| asked.due_ms <= now_ms)
            && let Some(asked) = self.asked.remove(at)
        {
            let (opcode, body) = self.answer_to(&asked.what, dice);
            let header = Header {
                version: self.version as u8,
                response: true,
                flags: 0,
                stream: asked.stream,
                opcode: opcode as u8,
                body_len: 0,
            };
            self.encoder.push_slice(header, &body);
            self.socket.write_all(&mut self.encoder);
            if matches!(asked.what, What::Startup) {
                self.encoder
                    .set_mode(self.version == Version::V5, Compression::None);
            }
        }
    }

    fn answer_to(&self, what: &What, dice: &mut Dice) -> (Opcode, Vec<u8>) {
        match what {
            What::Startup => (Opcode::Ready, Vec::new()),
            What::ClusterName => error(code::OVERLOADED, &[]),
            What::Options => (Opcode::Supported, vec![0, 0]),
            What::Prepare(text) => (Opcode::Result, prepared(text, self.version)),
            What::Unprepared(id) => {
                let mut fields = Vec::new();
                write::short_bytes(&mut fields, id);
                error(code::UNPREPARED, &fields)
            }
            What::Batch => (Opcode::Result, void()),
            What::Statement {
                text,
                rows_max,
                skips_metadata,
            } => {
                // The answer of a node that is overloaded itself.
                if dice.below(100) == 0 {
                    return error(code::OVERLOADED, &[]);
                }
                let skips = *skips_metadata;
                let body = match text {
                    _ if text.starts_with("SELECT") => answer_rows(text, *rows_max, skips, dice),
                    _ if text.contains(" IF ") => rows(
                        &[("[applied]", BOOLEAN)],
                        &[vec![Cow::Borrowed(&[1])]],
                        None,
                        skips,
                    ),
                    _ => void(),
                };
                (Opcode::Result, body)
            }
        }
    }
}

/// A text as nodes keep it: of a write, its beginning.
fn kept(text: &str) -> String {
    match text.starts_with("SELECT") {
        true => text.to_owned(),
        false => text.chars().take(100).collect(),
    }
}

fn understand(header: Header, body: &[u8], version: Version, known: &mut Known) -> What {
    let statement = |text: &str, options: &Options<'_>| What::Statement {
        text: kept(text),
        rows_max: options.page_size.map_or(5_000, |size| size.max(1) as usize),
        skips_metadata: options.flags & query_flags::SKIP_METADATA != 0,
    };
    match Opcode::from_number(header.opcode).expect("an opcode") {
        Opcode::Startup => What::Startup,
        Opcode::Options => What::Options,
        Opcode::Query => {
            let view = QueryView::parse(body, version).expect("a QUERY");
            match view.text.contains("cluster_name") {
                true => What::ClusterName,
                false => statement(view.text, &view.options),
            }
        }
        Opcode::Prepare => {
            let text = PrepareView::parse(body, version).expect("a PREPARE").text;
            if known.len() > KNOWN_MAX {
                known.clear();
            }
            known.insert(id_of(text), kept(text));
            What::Prepare(text.to_owned())
        }
        Opcode::Execute => {
            let view = ExecuteView::parse(body, version).expect("an EXECUTE");
            let id = <[u8; 16]>::try_from(view.id).expect("an id of a node");
            match known.get(&id) {
                Some(text) => statement(text, &view.options),
                None => What::Unprepared(view.id.to_vec()),
            }
        }
        Opcode::Batch => What::Batch,
        other => panic!("the proxy sends {other:?}"),
    }
}

/// The id that nodes give a text.
pub(crate) fn id_of(text: &str) -> [u8; 16] {
    // FNV-1a.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (u128::from(hash) << 64 | u128::from(hash.swap_bytes())).to_be_bytes()
}

/// Name and type of each column that a SELECT wants.
fn columns(text: &str) -> Vec<(&str, u16)> {
    let list = text.strip_prefix("SELECT ").unwrap_or_default();
    let list = list.split(" FROM ").next().unwrap_or_default();
    let column = |name| match name {
        "v" => (name, BLOB),
        _ => (name, BIGINT),
    };
    list.split(',').map(|name| column(name.trim())).collect()
}

/// Most values are short, few as long as they may be.
pub(crate) fn value(dice: &mut Dice) -> &'static [u8] {
    static LONGEST: [u8; VALUE_MAX] = [b'v'; VALUE_MAX];
    let len = match dice.below(20) {
        0 => VALUE_MAX as u64,
        1..4 => 64 << 10,
        _ => 1_000,
    };
    &LONGEST[..dice.below(len) as usize]
}

fn answer_rows(text: &str, rows_max: usize, skips: bool, dice: &mut Dice) -> Vec<u8> {
    let columns = columns(text);
    if columns[0].0 == "count(*)" {
        return rows(&columns, &[vec![Cow::Borrowed(&[0; 8])]], None, skips);
    }
    let is_point = text.contains("k = ");
    let (mut all, mut bytes) = (Vec::new(), 0);
    let rows_max = if is_point { 1 } else { rows_max.min(200) };
    let mut left = [4 * PAGE_MAX, TOO_LONG][usize::from(dice.below(16) == 0)];
    for key in 0..dice.below(rows_max as u64 + 1) {
        let mut cell = |(name, _): &(&str, u16)| match *name {
            "v" => {
                let value = value(dice);
                let value = &value[..value.len().min(left)];
                left -= value.len();
                Cow::Borrowed(value)
            }
            _ => Cow::Owned(key.to_be_bytes().to_vec()),
        };
        let row: Row = columns.iter().map(&mut cell).collect();
        bytes += row.iter().map(|cell| cell.len()).sum::<usize>();
        all.push(row);
        if bytes > PAGE_MAX {
            break;
        }
    }
    let more = !is_point && !all.is_empty() && dice.below(2) == 0;
    let last = all.len() as u64;
    let state =
        more.then(|| PageStart::behind_partition(&last.to_be_bytes(), u32::MAX >> 1).write());
    rows(&columns, &all, state.as_deref(), skips)
}

fn specs(body: &mut Vec<u8>, columns: &[(&str, u16)]) {
    write::string(body, "ks");
    write::string(body, "t");
    for (name, column_type) in columns {
        write::string(body, name);
        write::u16(body, *column_type);
    }
}

fn rows(columns: &[(&str, u16)], rows: &[Row], state: Option<&[u8]>, skips: bool) -> Vec<u8> {
    let bytes: usize = rows.iter().flatten().map(|cell| 4 + cell.len()).sum();
    let mut body = Vec::with_capacity(256 + columns.len() * 8 + bytes);
    write::i32(&mut body, 2);
    let metadata = if skips { 4 } else { 1 };
    write::u32(&mut body, metadata | if state.is_some() { 2 } else { 0 });
    write::u32(&mut body, columns.len() as u32);
    if state.is_some() {
        write::bytes(&mut body, state);
    }
    if !skips {
        specs(&mut body, columns);
    }
    write::u32(&mut body, rows.len() as u32);
    for cell in rows.iter().flatten() {
        write::bytes(&mut body, Some(cell));
    }
    body
}

/// A prepared statement whose first marker is the partition key, if it is compared.
fn prepared(text: &str, version: Version) -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 4);
    write::short_bytes(&mut body, &id_of(text));
    if version == Version::V5 {
        write::short_bytes(&mut body, &METADATA_ID);
    }
    let markers = vec![("k", BIGINT); text.matches('?').count()];
    write::u32(&mut body, 1);
    write::u32(&mut body, markers.len() as u32);
    let has_key = text.contains("k = ?") || text.contains("(k, v) VALUES (?");
    write::u32(&mut body, u32::from(has_key));
    if has_key {
        write::u16(&mut body, 0);
    }
    specs(&mut body, &markers);
    let result = match text.starts_with("SELECT") {
        true => columns(text),
        false => Vec::new(),
    };
    write::u32(&mut body, if result.is_empty() { 4 } else { 1 });
    write::u32(&mut body, result.len() as u32);
    if !result.is_empty() {
        specs(&mut body, &result);
    }
    body
}

fn void() -> Vec<u8> {
    1_i32.to_be_bytes().to_vec()
}

fn error(code: i32, fields: &[u8]) -> (Opcode, Vec<u8>) {
    let mut body = Vec::new();
    let error = ErrorBody {
        code,
        message: "by chance",
        fields,
    };
    error.write(&mut body);
    (Opcode::Error, body)
}
