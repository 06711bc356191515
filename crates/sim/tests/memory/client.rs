//! Clients: they ask for much, in every way that takes memory, and read as fast as they like.

use std::collections::BTreeSet;

use helenus_engine::SessionKey;
use helenus_sim::dice::Dice;
use helenus_wire::{
    Compression, Decoder, Encoder, ErrorBody, Flow, Header, MAX_RESPONSE_BODY, Opcode, Version,
    query_flags, write,
};

use crate::node::{METADATA_ID, id_of, value};
use crate::socket::Socket;

/// The longest value of a column, and about the longest text.
pub(crate) const VALUE_MAX: usize = 1 << 20;

const READ: &str = "SELECT k, v FROM ks.t WHERE k = ?";
const WRITE: &str = "INSERT INTO ks.t (k, v) VALUES (?, ?)";
const SCAN: &str = "SELECT k, v FROM ks.t";
const CAS: &str = "UPDATE ks.t SET v = ? WHERE k = 1 IF v = ?";
const QUORUM: u16 = 4;

/// How it reads what is due to it.
#[derive(Clone, Copy)]
pub(crate) enum Pace {
    Quick,
    Slow,
    Never,
}

/// Its answers, by their kind.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) results: u64,
    /// Because of the bound on memory.
    pub(crate) refused: u64,
    pub(crate) other_errors: u64,
}

pub(crate) struct Client {
    pub(crate) key: SessionKey,
    pub(crate) socket: Socket,
    pace: Pace,
    version: Version,
    encoder: Encoder,
    decoder: Decoder,
    is_ready: bool,
    in_flight: BTreeSet<i16>,
    in_flight_max: usize,
    next_stream: i16,
    /// Until then it sends nothing, in the middle of a message most likely.
    silent_until_ms: u64,
}

impl Client {
    pub(crate) fn new(key: SessionKey, dice: &mut Dice) -> Client {
        let version = [Version::V4, Version::V5][dice.below(2) as usize];
        let mut client = Client {
            key,
            socket: Socket::with_window(dice),
            pace: [Pace::Quick, Pace::Quick, Pace::Slow, Pace::Never][dice.below(4) as usize],
            version,
            encoder: Encoder::new(),
            decoder: Decoder::new(MAX_RESPONSE_BODY),
            is_ready: false,
            in_flight: BTreeSet::new(),
            in_flight_max: [4, 64, 1_000][dice.below(3) as usize],
            next_stream: 0,
            silent_until_ms: 0,
        };
        let mut body = Vec::new();
        write::string_map(&mut body, &[("CQL_VERSION", "3.0.0")]);
        client.send(Opcode::Startup, &body);
        client
    }

    /// Time passes: it asks for more, and the network carries what there is.
    pub(crate) fn step(&mut self, now_ms: u64, dice: &mut Dice) {
        let is_silent = now_ms < self.silent_until_ms;
        if !is_silent && dice.below(2_000) == 0 {
            self.silent_until_ms = now_ms + dice.below(60_000);
        }
        let wants = self.is_ready && self.socket.unread() < VALUE_MAX;
        if wants && self.in_flight.len() < self.in_flight_max && dice.below(3) == 0 {
            // Most in bursts, so that much is held at a time.
            for _ in 0..=dice.below(40) {
                self.ask(dice);
                if self.socket.unread() > VALUE_MAX {
                    break;
                }
            }
        }
        self.carry(now_ms, dice);
    }

    /// The network carries what there is.
    pub(crate) fn carry(&mut self, now_ms: u64, dice: &mut Dice) {
        let reads = match self.pace {
            Pace::Quick => true,
            Pace::Slow => dice.below(20) == 0,
            Pace::Never => !self.is_ready,
        };
        self.socket.carry(now_ms >= self.silent_until_ms, reads);
    }

    fn ask(&mut self, dice: &mut Dice) {
        let key = dice.below(5) as i64;
        let key_bytes = key.to_be_bytes();
        match dice.below(14) {
            // The same, by many: followers of one read.
            0..4 => self.query("SELECT v FROM ks.t WHERE k = 1", &[], None),
            4 => self.execute(READ, &[&key_bytes]),
            5 => self.execute(WRITE, &[&key_bytes, value(dice)]),
            6 => {
                let value = value(dice);
                self.query("INSERT INTO ks.t (k, v) VALUES (2, ?)", &[value], None);
            }
            7 => {
                let digits = "0a".repeat(value(dice).len() / 2);
                let text = format!("INSERT INTO ks.t (k, v) VALUES ({key}, 0x{digits})");
                self.query(&text, &[], None);
            }
            8 => self.query(SCAN, &[], Some(1 + dice.below(2_000) as i32)),
            9 => self.query("SELECT count(*) FROM ks.t", &[], None),
            10 => {
                let keys: Vec<String> = (0..dice.below(60)).map(|key| key.to_string()).collect();
                let text = format!("SELECT k, v FROM ks.t WHERE k IN ({})", keys.join(", "));
                self.query(&text, &[], None);
            }
            11 => self.batch(dice),
            12 => {
                let columns = vec!["v"; 1 + dice.below(50_000) as usize].join(",");
                let text = format!("SELECT {columns} FROM ks.t WHERE k = {key}");
                match dice.below(2) {
                    0 => self.query(&text, &[], None),
                    _ => self.prepare(&text),
                }
            }
            _ => {
                let values = [value(dice), value(dice)];
                self.query(CAS, &values, None);
            }
        }
    }

    fn query(&mut self, text: &str, values: &[&[u8]], page_size: Option<i32>) {
        let mut body = Vec::new();
        write::long_string(&mut body, text);
        self.options(&mut body, values, page_size);
        self.send(Opcode::Query, &body);
    }

    fn execute(&mut self, text: &str, values: &[&[u8]]) {
        let mut body = Vec::new();
        write::short_bytes(&mut body, &id_of(text));
        if self.version == Version::V5 {
            write::short_bytes(&mut body, &METADATA_ID);
        }
        self.options(&mut body, values, None);
        self.send(Opcode::Execute, &body);
    }

    fn options(&self, body: &mut Vec<u8>, values: &[&[u8]], page_size: Option<i32>) {
        write::u16(body, QUORUM);
        let mut flags = query_flags::TIMESTAMP;
        if !values.is_empty() {
            flags |= query_flags::VALUES;
        }
        if page_size.is_some() {
            flags |= query_flags::PAGE_SIZE;
        }
        match self.version {
            Version::V5 => write::u32(body, flags),
            _ => body.push(flags as u8),
        }
        if !values.is_empty() {
            write::u16(body, values.len() as u16);
            values
                .iter()
                .for_each(|value| write::bytes(body, Some(value)));
        }
        if let Some(size) = page_size {
            write::i32(body, size);
        }
        write::i64(body, 1);
    }

    fn prepare(&mut self, text: &str) {
        let mut body = Vec::new();
        write::long_string(&mut body, text);
        if self.version == Version::V5 {
            write::u32(&mut body, 0);
        }
        self.send(Opcode::Prepare, &body);
    }

    /// Up to 40 writes, each a text with its values.
    fn batch(&mut self, dice: &mut Dice) {
        let mut body = vec![1];
        let count = 1 + dice.below(40) as u16;
        write::u16(&mut body, count);
        for _ in 0..count {
            body.push(0);
            write::long_string(&mut body, WRITE);
            write::u16(&mut body, 2);
            write::bytes(&mut body, Some(&dice.below(5).to_be_bytes()));
            let cell = value(dice);
            write::bytes(&mut body, Some(&cell[..cell.len().min(VALUE_MAX / 40)]));
        }
        write::u16(&mut body, QUORUM);
        match self.version {
            Version::V5 => write::u32(&mut body, 0),
            _ => body.push(0),
        }
        self.send(Opcode::Batch, &body);
    }

    fn send(&mut self, opcode: Opcode, body: &[u8]) {
        // Stream 0 is for what is said of a message that has come in part.
        while self.next_stream == 0 || self.in_flight.contains(&self.next_stream) {
            self.next_stream = (self.next_stream + 1) % 4_000;
        }
        self.in_flight.insert(self.next_stream);
        let header = Header {
            version: self.version as u8,
            response: false,
            flags: 0,
            stream: self.next_stream,
            opcode: opcode as u8,
            body_len: 0,
        };
        self.encoder.push_slice(header, body);
        self.socket.write_all(&mut self.encoder);
    }

    /// Reads what the engine has sent.
    pub(crate) fn read(&mut self, bytes: &[u8], answers: &mut Answers) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let in_flight = &mut self.in_flight;
            let mut is_ready = false;
            let fed = self.decoder.feed(rest, &mut Vec::new(), |header, body| {
                let is_awaited = in_flight.remove(&header.stream);
                // Of a message that has come in part nothing is known, and its connection ends.
                let is_of_part = header.stream == 0 && header.opcode == Opcode::Error as u8;
                assert!(is_awaited || is_of_part, "{header:?} answers nothing");
                match Opcode::from_number(header.opcode) {
                    Some(Opcode::Ready) => {
                        is_ready = true;
                        return Flow::Pause;
                    }
                    Some(Opcode::Error) => match ErrorBody::parse(body) {
                        Ok(error) if error.message.contains("limits.memory_max") => {
                            answers.refused += 1;
                        }
                        _ => answers.other_errors += 1,
                    },
                    _ => answers.results += 1,
                }
                Flow::Continue
            });
            rest = &rest[fed.expect("what a client can read")..];
            if is_ready {
                self.is_ready = true;
                let framed = self.version == Version::V5;
                self.decoder.set_mode(framed, Compression::None);
                self.encoder.set_mode(framed, Compression::None);
                self.prepare(READ);
                self.prepare(WRITE);
            }
        }
    }
}
