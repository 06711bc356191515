//! The clients' driver: connections to proxies, each shared by many clients, with prepared statements.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_wire::{
    Consistency, Decoder, Encoder, Flow, Header, MAX_RESPONSE_BODY, Opcode, PageStart, RowsView,
    Version, page_key, query_flags, write,
};

use super::agenda::Page;
use super::clients::Wish;
use super::data::Data;
use super::queries::{Kind, PAGE_ROWS};
use super::rows::{VOID, read_rows};
use super::statement::{filter_text, point_text, scan_text, write_text};
use crate::proxy::all_of;

const VERSION: Version = Version::V4;

/// One connection.
pub(super) struct Driver {
    data: Arc<Data>,
    encoder: Encoder,
    decoder: Decoder,
    waiting: BTreeMap<i16, Waiting>,
    next_stream: i16,
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    Driver,
    /// A client, and the number of its page.
    Client(usize, u64),
}

/// A message that has come over a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// The answer to a request of the driver itself.
    Done,
    Page(usize, u64, Page),
}

impl Driver {
    pub(super) fn new(data: Arc<Data>) -> Self {
        Driver {
            data,
            encoder: Encoder::new(),
            decoder: Decoder::new(MAX_RESPONSE_BODY),
            waiting: BTreeMap::new(),
            next_stream: 0,
        }
    }

    pub(super) fn start(&mut self) {
        let mut body = Vec::new();
        write::string_map(
            &mut body,
            &[("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "model")],
        );
        self.push(Opcode::Startup, &body, Waiting::Driver);
    }

    pub(super) fn prepare(&mut self, text: &str) {
        let mut body = Vec::new();
        write::long_string(&mut body, text);
        self.push(Opcode::Prepare, &body, Waiting::Driver);
    }

    pub(super) fn execute(&mut self, wish: &Wish) {
        let (text, values) = match wish.query.kind {
            Kind::Point { row } => {
                let key = self.data.key(row).to_be_bytes().to_vec();
                (point_text(wish.query.table), vec![key])
            }
            Kind::Scan { above, limit } => {
                let values = vec![above.to_be_bytes().to_vec(), limit.to_be_bytes().to_vec()];
                (scan_text(wish.query.table), values)
            }
            Kind::Filter { value } => {
                let values = vec![value.to_be_bytes().to_vec()];
                (filter_text(wish.query.table), values)
            }
            Kind::Write { row } => {
                let key = self.data.key(row).to_be_bytes().to_vec();
                (write_text(wish.query.table), vec![key, vec![0; 8]])
            }
        };
        let mut body = Vec::new();
        write::short_bytes(&mut body, text.as_bytes());
        write::u16(&mut body, Consistency::LOCAL_QUORUM.0);
        let state = wish.behind.map_or(0, |_| query_flags::PAGING_STATE);
        body.push((query_flags::VALUES | query_flags::PAGE_SIZE | state) as u8);
        write::u16(&mut body, values.len() as u16);
        for value in &values {
            write::bytes(&mut body, Some(value));
        }
        write::i32(&mut body, PAGE_ROWS as i32);
        if let Some((row, remaining)) = wish.behind {
            let key = self.data.key(row).to_be_bytes();
            let state = PageStart::behind_partition(&key, remaining).write();
            write::bytes(&mut body, Some(&state));
        }
        let waiting = Waiting::Client(wish.client, wish.page);
        self.push(Opcode::Execute, &body, waiting);
    }

    fn push(&mut self, opcode: Opcode, body: &[u8], waiting: Waiting) {
        while self.waiting.contains_key(&self.next_stream) {
            self.next_stream = (self.next_stream + 1) & i16::MAX;
        }
        let header = Header {
            version: VERSION as u8,
            response: false,
            flags: 0,
            stream: self.next_stream,
            opcode: opcode as u8,
            body_len: 0,
        };
        self.encoder.push_slice(header, body);
        self.waiting.insert(self.next_stream, waiting);
    }

    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        all_of(&mut self.encoder)
    }

    /// # Panics
    /// If the proxy answers what was not asked, or with what cannot be read: both are errors of the
    /// proxy or of the simulation.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Got> {
        let mut got = Vec::new();
        let (waiting, data) = (&mut self.waiting, &self.data);
        let fed = self.decoder.feed(bytes, &mut Vec::new(), |header, body| {
            let Some(waiting) = waiting.remove(&header.stream) else {
                panic!("an answer on stream {} that nobody waits on", header.stream);
            };
            got.push(match waiting {
                Waiting::Driver if header.opcode == Opcode::Error as u8 => {
                    panic!("not prepared: {}", String::from_utf8_lossy(body))
                }
                Waiting::Driver => Got::Done,
                Waiting::Client(client, page) => Got::Page(client, page, read(data, &header, body)),
            });
            Flow::Continue
        });
        assert!(fed.is_ok(), "a proxy sends clients what is no envelope");
        got
    }
}

fn read(data: &Data, header: &Header, body: &[u8]) -> Page {
    if header.opcode != Opcode::Result as u8 {
        return Page::Failed;
    }
    if body == VOID.to_be_bytes() {
        return Page::Rows {
            rows: 0..0,
            next: None,
        };
    }
    let rows = match RowsView::parse(body) {
        Ok(view) => read_rows(data, &view).map(|rows| {
            let key = view.paging_state.and_then(page_key);
            let key = key.and_then(|key| Some(i64::from_be_bytes(key.try_into().ok()?)));
            let next = key.and_then(|key| Some(data.row_of(key)? + 1));
            Page::Rows { rows, next }
        }),
        Err(_) => None,
    };
    match rows {
        Some(page) => page,
        None => panic!("rows that are not those of the table"),
    }
}
