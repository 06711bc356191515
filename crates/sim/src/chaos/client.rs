//! A modelled client: one connection at a time, as a driver has it, with several requests in flight.

mod requests;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use helenus_wire::{
    Compression, Consistency, Decoder, Encoder, Flow, Header, MAX_RESPONSE_BODY, Opcode, Version,
    code,
};

pub(super) use self::rows::WRONG_COLUMNS;
use super::cql;
use super::lists::Change;
use super::proxy::all_of;
use super::wide::{Row, Scan};

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Startup,
    Login,
    Prepare(&'static str),
    Read(i64),
    Use,
    Alter,
    Write(i64, i64),
    Add(i64),
    /// Key, new value, and the one expected.
    Cas(i64, i64, i64),
    ReadCas(i64),
    List(Change),
    ReadList(i64),
    /// Keys that have come on earlier pages.
    Scan(&'static str, BTreeSet<i64>),
    Count,
    Many(Vec<i64>),
    Who,
    Batch(Batch),
    /// A page of rows of the table with clustering columns.
    Rows(Box<Scan>),
    RowWrite(RowWrite),
}

/// What a BATCH writes: keys with their values, and what is added to counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub writes: Vec<(i64, i64)>,
    pub adds: Vec<i64>,
}

/// A write of rows of the table with clustering columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowWrite {
    pub partitions: Vec<i64>,
    pub timestamp: i64,
    pub copied: Copied,
    /// It is written if the row has this value.
    pub condition: Option<(Row, i64)>,
}

/// Whether a write can be copied to layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    Yes,
    No,
    /// Layouts are compared with the table afterwards.
    Compared,
    /// It changes the table itself, or drops it.
    Definition,
}

/// What a client knows of a statement that it has prepared.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    metadata_id: Vec<u8>,
    columns: Vec<String>,
}

/// A request in flight.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub purpose: Purpose,
    pub begun_us: u64,
    /// Its client does not wait for it any more.
    pub given_up: bool,
    /// The statement that it executes.
    pub text: Option<&'static str>,
    /// The columns that its client takes the rows to have, if these come without.
    pub skipped: Option<Vec<String>>,
    /// How many rows it asks for at most.
    pub rows_max: usize,
    /// The schema that all nodes knew when it began.
    pub schema: usize,
    /// How many others its client had in flight when it began.
    pub behind: usize,
}

impl InFlight {
    /// Whether several who ask for it may share what is read.
    pub(super) fn is_page(&self) -> bool {
        matches!(self.purpose, Purpose::Scan(..) | Purpose::Rows(_))
    }
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Ready,
    Authenticate,
    Prepared,
    Void,
    /// Cells of each row, and the paging state.
    Rows(Vec<Vec<Vec<u8>>>, Option<Vec<u8>>),
    Error(i32, String),
}

pub(super) struct Client {
    pub role: usize,
    /// That of its requests: not the same of all clients, so that one at another's level shows.
    pub level: Consistency,
    pub version: Version,
    pub connection: Option<usize>,
    /// Its session has a keyspace.
    pub in_keyspace: bool,
    pub ready: bool,
    /// It has not given a wrong password.
    pub may_enter: bool,
    pub in_flight: BTreeMap<i16, InFlight>,
    /// When it has asked for pages over connections that it has left.
    pub left_pages: Vec<u64>,
    /// Texts that it has prepared over this connection, with the id of their metadata.
    pub prepared: BTreeMap<&'static str, Known>,
    /// Requests that it will still begin.
    pub left: u32,
    /// Of one that comes after trouble: requests that it will still begin, none of which may fail.
    pub asks_left: Option<usize>,
    /// Grows with everything that it writes.
    pub serial: i64,
    /// Keys that it is writing.
    pub writing: BTreeSet<i64>,
    /// Partitions that it is writing rows of.
    pub writing_rows: BTreeSet<i64>,
    /// A scan that it goes on with later, and the paging state.
    pub paused: Option<(Scan, Vec<u8>)>,
    /// Streams that it uses.
    pub streams_max: i16,
    encoder: Encoder,
    decoder: Decoder,
    next_stream: i16,
}

impl Client {
    pub(super) fn new(role: usize, version: Version, left: u32) -> Client {
        Client {
            role,
            level: match left % 2 {
                0 => Consistency::QUORUM,
                _ => Consistency::LOCAL_QUORUM,
            },
            version,
            connection: None,
            in_keyspace: false,
            ready: false,
            may_enter: true,
            in_flight: BTreeMap::new(),
            left_pages: Vec::new(),
            prepared: BTreeMap::new(),
            left,
            asks_left: None,
            serial: 0,
            writing: BTreeSet::new(),
            writing_rows: BTreeSet::new(),
            paused: None,
            streams_max: 300,
            encoder: Encoder::new(),
            decoder: Decoder::new(MAX_RESPONSE_BODY),
            next_stream: 0,
        }
    }

    /// Begins a new connection. What was in flight over the last one has had no answer.
    pub(super) fn connect(&mut self, connection: usize) {
        self.connection = Some(connection);
        self.in_keyspace = false;
        self.ready = false;
        let left = std::mem::take(&mut self.in_flight);
        let pages = left.values().filter(|of| of.is_page());
        self.left_pages.extend(pages.map(|of| of.begun_us));
        self.prepared.clear();
        self.writing.clear();
        self.writing_rows.clear();
        self.encoder = Encoder::new();
        self.decoder = Decoder::new(MAX_RESPONSE_BODY);
    }

    /// What it has to send.
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        all_of(&mut self.encoder)
    }

    /// Envelopes that have come: header and body.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<(Header, Vec<u8>)>, String> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let mut mode = None;
            let used = self
                .decoder
                .feed(&bytes[at..], &mut Vec::new(), |header, body| {
                    found.push((header, body.to_vec()));
                    let opcode = Opcode::from_number(header.opcode);
                    if matches!(opcode, Some(Opcode::Ready | Opcode::Authenticate)) {
                        // What follows the answer to STARTUP is framed.
                        mode = Some(header.version == Version::V5 as u8);
                        return Flow::Pause;
                    }
                    Flow::Continue
                });
            at += used.map_err(|e| e.to_string())?;
            if mode == Some(true) {
                self.decoder.set_mode(true, Compression::None);
                self.encoder.set_mode(true, Compression::None);
            }
        }
        Ok(found)
    }

    /// A value that nobody else writes.
    pub(super) fn unique(&mut self, number: usize) -> i64 {
        self.serial += 1;
        (number as i64 + 1) * 1_000_000_000_000 + self.serial
    }

    /// How many columns it takes a statement's result to have.
    pub(super) fn columns_known(&self, text: &str) -> Option<usize> {
        self.prepared.get(text).map(|known| known.columns.len())
    }
}

pub(super) const PASSWORD: &str = "secret";

pub(super) fn role_name(role: usize) -> String {
    format!("role{role}")
}

/// Whether an error leaves it open whether the statement was executed.
pub(super) fn is_ambiguous(error: i32) -> bool {
    !matches!(
        error,
        code::OVERLOADED | code::UNAVAILABLE | code::IS_BOOTSTRAPPING | code::INVALID
    )
}

/// The texts that it may send.
pub(super) const TEXTS: [&str; 15] = cql::ALL;
