//! A modelled client: one connection at a time, as a driver has it, with several requests in flight.

use std::collections::{BTreeMap, BTreeSet};

use helenus_wire::{
    ColumnSpec, Compression, Consistency, Decoder, Encoder, ErrorBody, Flow, Header,
    MAX_RESPONSE_BODY, Opcode, PreparedView, ResultKind, RowsView, Version, code, query_flags,
    result_kind, strip_prelude, write,
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
    Alter,
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
    Batch(Batch),
}

/// What a BATCH writes: keys with their values, and what is added to counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub writes: Vec<(i64, i64)>,
    pub adds: Vec<i64>,
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
    /// The schema that all nodes knew when it began.
    pub schema: usize,
    /// How many others its client had in flight when it began.
    pub behind: usize,
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
    /// It has not given a wrong password.
    pub may_enter: bool,
    pub in_flight: BTreeMap<i16, InFlight>,
    /// Texts that it has prepared over this connection, with the id of their metadata.
    pub prepared: BTreeMap<&'static str, Known>,
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
            may_enter: true,
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

    /// A value that nobody else writes.
    pub(super) fn unique(&mut self, number: usize) -> i64 {
        self.serial += 1;
        (number as i64 + 1) * 1_000_000_000_000 + self.serial
    }

    /// How many columns it takes a statement's result to have.
    pub(super) fn columns_known(&self, text: &str) -> Option<usize> {
        self.prepared.get(text).map(|known| known.columns.len())
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
            text: None,
            skipped: None,
            schema: 0,
            behind: self.in_flight.len(),
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

    pub(super) fn log_in(&mut self, now_us: u64, rightly: bool) {
        let password = if rightly { PASSWORD } else { "wrong" };
        self.may_enter = rightly;
        let token = format!("\0{}\0{password}", role_name(self.role));
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
        let mut skipped = None;
        let mut body = Vec::new();
        let mut flags = query_flags::PAGE_SIZE | query_flags::TIMESTAMP;
        let opcode = match known {
            Some(known) => {
                write::short_bytes(&mut body, text.as_bytes());
                if self.version == Version::V5 {
                    write::short_bytes(&mut body, &known.metadata_id);
                }
                if dice.below(2) == 0 {
                    flags |= query_flags::SKIP_METADATA;
                    skipped = Some(known.columns.clone());
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
            request.text = Some(text);
            request.skipped = skipped;
        }
        stream
    }

    /// Sends statements as one BATCH, each by its id or its text.
    pub(super) fn batch(
        &mut self,
        now_us: u64,
        kind: u8,
        children: &[(&'static str, Vec<Vec<u8>>)],
        batch: Batch,
        dice: &mut Dice,
    ) -> i16 {
        let mut body = vec![kind];
        write::u16(&mut body, children.len() as u16);
        for (text, values) in children {
            match self.prepared.contains_key(text) && dice.below(3) > 0 {
                true => {
                    body.push(1);
                    write::short_bytes(&mut body, text.as_bytes());
                }
                false => {
                    body.push(0);
                    write::long_string(&mut body, text);
                }
            }
            write::u16(&mut body, values.len() as u16);
            for value in values {
                write::bytes(&mut body, Some(value));
            }
        }
        write::u16(&mut body, Consistency::QUORUM.0);
        match self.version {
            Version::V5 => write::u32(&mut body, query_flags::TIMESTAMP),
            _ => body.push(query_flags::TIMESTAMP as u8),
        }
        write::i64(&mut body, now_us as i64);
        self.send(now_us, Opcode::Batch, &body, Purpose::Batch(batch))
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
                    let known = Known {
                        metadata_id: view.result_metadata_id.unwrap_or_default().to_vec(),
                        columns: names_of(&view.result_columns),
                    };
                    self.prepared.insert(text, known);
                    Answer::Prepared
                }
                (ResultKind::SchemaChange, Purpose::Alter) => Answer::Void,
                (ResultKind::SetKeyspace, Purpose::Use) => {
                    self.in_keyspace = true;
                    Answer::Void
                }
                (ResultKind::Void, _) => Answer::Void,
                (ResultKind::Rows, _) => {
                    let view = RowsView::parse(content).map_err(malformed)?;
                    let columns = self.columns_of(request, &view)?;
                    let rows = view.rows().map(|row| {
                        let cell = |cell: Option<&[u8]>| cell.map(<[u8]>::to_vec);
                        let cells = row.map_err(malformed)?.into_iter().map(cell);
                        let cells = cells.collect::<Option<Vec<_>>>().ok_or("a null")?;
                        without_added(request, &columns, cells)
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

impl Client {
    /// The columns that a client takes rows to have: those that come with them, or else those that it
    /// knows the statement by.
    fn columns_of(
        &mut self,
        request: &InFlight,
        view: &RowsView<'_>,
    ) -> Result<Vec<String>, String> {
        let names = names_of(&view.columns);
        let Some(text) = request.text else {
            return Ok(names);
        };
        if let Some(known) = &request.skipped {
            let new_id = view.new_metadata_id;
            if names.is_empty() {
                return match known.len() == view.column_count {
                    true => Ok(known.clone()),
                    false => Err(format!(
                        "{WRONG_COLUMNS}{} cells a row for {known:?}",
                        view.column_count
                    )),
                };
            }
            // Columns that were not asked for come where they are others than before.
            let may = cql::is_of_all(text) && (self.version < Version::V5 || new_id.is_some());
            if !may && !matches!(request.purpose, Purpose::Cas(..)) {
                return Err(format!("columns {names:?} that were not asked for"));
            }
        }
        if let Some(id) = view.new_metadata_id {
            let known = Known {
                metadata_id: id.to_vec(),
                columns: names.clone(),
            };
            self.prepared.insert(text, known);
        }
        let of_schema = |schema: usize| {
            let columns = cql::columns(text, schema);
            columns.iter().map(|(name, _)| *name).eq(names.iter())
        };
        // Those of a conditional write depend on its outcome.
        let conditional = matches!(request.purpose, Purpose::Cas(..));
        match conditional || (request.schema..=cql::SCHEMA_MAX).any(of_schema) {
            true => Ok(names),
            false => Err(format!(
                "columns {names:?} under schema {} or later",
                request.schema
            )),
        }
    }
}

/// How the error begins where a client takes cells for those of another column.
pub(super) const WRONG_COLUMNS: &str = "wrong columns: ";

fn names_of(columns: &[ColumnSpec<'_>]) -> Vec<String> {
    columns
        .iter()
        .map(|column| column.name.to_owned())
        .collect()
}

/// The cells of a row of all columns that it has had from the beginning, if the others are right.
fn without_added(
    request: &InFlight,
    columns: &[String],
    cells: Vec<Vec<u8>>,
) -> Result<Vec<Vec<u8>>, String> {
    if !request.text.is_some_and(cql::is_of_all) {
        return Ok(cells);
    }
    let int = |cell: &[u8]| i64::from_be_bytes(cell.try_into().unwrap_or([0xEE; 8]));
    let key = cells.first().map_or(-1, |cell| int(cell));
    let mut kept = Vec::new();
    for (name, cell) in columns.iter().zip(cells) {
        match cql::added_value(key, name) {
            Some(value) if value == int(&cell) => {}
            Some(_) => return Err(format!("{WRONG_COLUMNS}{name} is {}", int(&cell))),
            // Nobody writes what is negative.
            None if int(&cell) < 0 => {
                return Err(format!("{WRONG_COLUMNS}{name} is {}", int(&cell)));
            }
            None if name == "k" && matches!(request.purpose, Purpose::Read(_)) => {}
            None => kept.push(cell),
        }
    }
    Ok(kept)
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
pub(super) const TEXTS: [&str; 13] = cql::ALL;
