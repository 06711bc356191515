//! A modelled client: one connection at a time, as a driver has it, with several requests in flight.

use std::collections::{BTreeMap, BTreeSet};

use helenus_wire::{
    Compression, Consistency, Decoder, Encoder, ErrorBody, Flow, Header, MAX_RESPONSE_BODY, Opcode,
    PreparedView, ResultKind, RowsView, Version, code, query_flags, result_kind, strip_prelude,
    write,
};

use super::cql;
use super::proxy::all_of;
use crate::dice::Dice;

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Startup,
    Login,
    Prepare(&'static str),
    Read(i64),
    Use,
    Write(i64, i64),
    Add(i64),
    /// Key, new value, and the one expected.
    Cas(i64, i64, i64),
    ReadCas(i64),
    /// Keys that have come on earlier pages.
    Scan(&'static str, BTreeSet<i64>),
    Count,
    Many(Vec<i64>),
    Who,
}

/// Name and type of each column.
type Columns = &'static [(&'static str, u16)];

/// A request in flight.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub purpose: Purpose,
    pub begun_us: u64,
    /// Its client does not wait for it any more.
    pub given_up: bool,
    /// The columns that its rows are to be described with; `None` if they are to be left out.
    pub columns: Option<Columns>,
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
    pub version: Version,
    pub connection: Option<usize>,
    /// Its session has a keyspace.
    pub in_keyspace: bool,
    pub ready: bool,
    pub in_flight: BTreeMap<i16, InFlight>,
    /// Texts that it has prepared over this connection, with the id of their metadata.
    pub prepared: BTreeMap<&'static str, Vec<u8>>,
    /// Requests that it will still begin.
    pub left: u32,
    /// Grows with everything that it writes.
    pub serial: i64,
    /// Keys that it is writing.
    pub writing: BTreeSet<i64>,
    encoder: Encoder,
    decoder: Decoder,
    next_stream: i16,
}

impl Client {
    pub(super) fn new(role: usize, version: Version, left: u32) -> Client {
        Client {
            role,
            version,
            connection: None,
            in_keyspace: false,
            ready: false,
            in_flight: BTreeMap::new(),
            prepared: BTreeMap::new(),
            left,
            serial: 0,
            writing: BTreeSet::new(),
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
        self.in_flight.clear();
        self.prepared.clear();
        self.writing.clear();
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

    fn free_stream(&mut self) -> i16 {
        loop {
            self.next_stream = (self.next_stream + 1) % 300;
            if !self.in_flight.contains_key(&self.next_stream) {
                return self.next_stream;
            }
        }
    }

    pub(super) fn send(
        &mut self,
        now_us: u64,
        opcode: Opcode,
        body: &[u8],
        purpose: Purpose,
    ) -> i16 {
        let stream = self.free_stream();
        let header = Header {
            version: self.version as u8,
            response: false,
            flags: 0,
            stream,
            opcode: opcode as u8,
            body_len: 0,
        };
        self.encoder.push_slice(header, body);
        let in_flight = InFlight {
            purpose,
            begun_us: now_us,
            given_up: false,
            columns: None,
        };
        self.in_flight.insert(stream, in_flight);
        stream
    }

    pub(super) fn start(&mut self, now_us: u64) {
        let mut body = Vec::new();
        write::string_map(
            &mut body,
            &[("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "model")],
        );
        self.send(now_us, Opcode::Startup, &body, Purpose::Startup);
    }

    pub(super) fn log_in(&mut self, now_us: u64) {
        let token = format!("\0{}\0secret", role_name(self.role));
        let mut body = Vec::new();
        write::bytes(&mut body, Some(token.as_bytes()));
        self.send(now_us, Opcode::AuthResponse, &body, Purpose::Login);
    }

    pub(super) fn prepare(&mut self, now_us: u64, text: &'static str) {
        let mut body = Vec::new();
        write::long_string(&mut body, text);
        if self.version == Version::V5 {
            write::u32(&mut body, 0);
        }
        self.send(now_us, Opcode::Prepare, &body, Purpose::Prepare(text));
    }

    /// Sends a statement: as EXECUTE if it is prepared, as QUERY otherwise.
    pub(super) fn statement(
        &mut self,
        now_us: u64,
        text: &'static str,
        values: &[Vec<u8>],
        page: (i32, Option<&[u8]>),
        purpose: Purpose,
        dice: &mut Dice,
    ) -> i16 {
        let known = self.prepared.get(text).filter(|_| dice.below(4) > 0);
        let mut body = Vec::new();
        let mut flags = query_flags::PAGE_SIZE | query_flags::TIMESTAMP;
        let opcode = match known {
            Some(metadata_id) => {
                write::short_bytes(&mut body, text.as_bytes());
                if self.version == Version::V5 {
                    write::short_bytes(&mut body, metadata_id);
                }
                if dice.below(2) == 0 {
                    flags |= query_flags::SKIP_METADATA;
                }
                Opcode::Execute
            }
            None => {
                write::long_string(&mut body, text);
                Opcode::Query
            }
        };
        write::u16(&mut body, Consistency::QUORUM.0);
        if !values.is_empty() {
            flags |= query_flags::VALUES;
        }
        if page.1.is_some() {
            flags |= query_flags::PAGING_STATE;
        }
        match self.version {
            Version::V5 => write::u32(&mut body, flags),
            _ => body.push(flags as u8),
        }
        if !values.is_empty() {
            write::u16(&mut body, values.len() as u16);
            for value in values {
                write::bytes(&mut body, Some(value));
            }
        }
        write::i32(&mut body, page.0);
        if let Some(state) = page.1 {
            write::bytes(&mut body, Some(state));
        }
        // Drivers send the time at which a request is made: a write that is sent again keeps it.
        write::i64(&mut body, now_us as i64);
        let stream = self.send(now_us, opcode, &body, purpose);
        if let Some(request) = self.in_flight.get_mut(&stream) {
            let skips = flags & query_flags::SKIP_METADATA != 0;
            request.columns = (!skips).then(|| cql::columns(text));
        }
        stream
    }

    /// Reads an answer to a request.
    pub(super) fn read(
        &mut self,
        request: &InFlight,
        header: &Header,
        body: &[u8],
    ) -> Result<Answer, String> {
        let purpose = &request.purpose;
        let malformed = |e: helenus_wire::Malformed| e.to_string();
        let (_, content) = strip_prelude(header.flags, body).map_err(malformed)?;
        Ok(match Opcode::from_number(header.opcode) {
            Some(Opcode::Ready | Opcode::AuthSuccess) => Answer::Ready,
            Some(Opcode::Authenticate) => Answer::Authenticate,
            Some(Opcode::Error) => {
                let error = ErrorBody::parse(content).map_err(malformed)?;
                Answer::Error(error.code, error.message.to_owned())
            }
            Some(Opcode::Result) => match (result_kind(content).map_err(malformed)?, purpose) {
                (ResultKind::Prepared, Purpose::Prepare(text)) => {
                    let view = PreparedView::parse(content, self.version).map_err(malformed)?;
                    if view.id != text.as_bytes() {
                        return Err(format!("PREPARE of {text} has the id of another"));
                    }
                    let metadata_id = view.result_metadata_id.unwrap_or_default();
                    self.prepared.insert(text, metadata_id.to_vec());
                    Answer::Prepared
                }
                (ResultKind::SetKeyspace, Purpose::Use) => {
                    self.in_keyspace = true;
                    Answer::Void
                }
                (ResultKind::Void, _) => Answer::Void,
                (ResultKind::Rows, _) => {
                    let view = RowsView::parse(content).map_err(malformed)?;
                    let names: Vec<&str> = view.columns.iter().map(|c| c.name).collect();
                    let wanted = request.columns.unwrap_or_default();
                    let wanted: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
                    // Those of a conditional write depend on its outcome.
                    if names != wanted && !matches!(purpose, Purpose::Cas(..)) {
                        return Err(format!("columns {names:?} in place of {wanted:?}"));
                    }
                    let rows = view.rows().map(|row| {
                        let cell = |cell: Option<&[u8]>| cell.map(<[u8]>::to_vec);
                        let cells = row.map_err(malformed)?.into_iter().map(cell);
                        cells.collect::<Option<Vec<_>>>().ok_or("a null".to_owned())
                    });
                    let state = view.paging_state.map(<[u8]>::to_vec);
                    Answer::Rows(rows.collect::<Result<_, _>>()?, state)
                }
                (kind, _) => return Err(format!("an answer of kind {kind:?}")),
            },
            other => return Err(format!("an answer with {other:?}")),
        })
    }
}

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
pub(super) const TEXTS: [&str; 10] = cql::ALL;
