//! What a client sends.

use helenus_wire::{Header, Opcode, Version, query_flags, write};

use super::{Client, InFlight, PASSWORD, Purpose, role_name};
use crate::dice::Dice;

impl Client {
    fn free_stream(&mut self) -> i16 {
        loop {
            self.next_stream = (self.next_stream + 1) % self.streams_max;
            if !self.in_flight.contains_key(&self.next_stream) {
                return self.next_stream;
            }
        }
    }

    pub(in crate::chaos) fn send(
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
            rows_max: usize::MAX,
            schema: 0,
            behind: self.in_flight.len(),
        };
        self.in_flight.insert(stream, in_flight);
        stream
    }

    pub(in crate::chaos) fn start(&mut self, now_us: u64) {
        let mut body = Vec::new();
        write::string_map(
            &mut body,
            &[("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "model")],
        );
        self.send(now_us, Opcode::Startup, &body, Purpose::Startup);
    }

    pub(in crate::chaos) fn log_in(&mut self, now_us: u64, rightly: bool) {
        let password = if rightly { PASSWORD } else { "wrong" };
        self.may_enter = rightly;
        let token = format!("\0{}\0{password}", role_name(self.role));
        let mut body = Vec::new();
        write::bytes(&mut body, Some(token.as_bytes()));
        self.send(now_us, Opcode::AuthResponse, &body, Purpose::Login);
    }

    pub(in crate::chaos) fn prepare(&mut self, now_us: u64, text: &'static str) {
        let mut body = Vec::new();
        write::long_string(&mut body, text);
        if self.version == Version::V5 {
            write::u32(&mut body, 0);
        }
        self.send(now_us, Opcode::Prepare, &body, Purpose::Prepare(text));
    }

    /// Sends a statement: as EXECUTE if it is prepared, as QUERY otherwise.
    pub(in crate::chaos) fn statement(
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
        write::u16(&mut body, self.level.0);
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
            request.rows_max = page.0 as usize;
        }
        stream
    }

    /// Sends statements as one BATCH, each by its id or its text.
    pub(in crate::chaos) fn batch(
        &mut self,
        now_us: u64,
        kind: u8,
        children: &[(&'static str, Vec<Vec<u8>>)],
        purpose: Purpose,
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
        write::u16(&mut body, self.level.0);
        match self.version {
            Version::V5 => write::u32(&mut body, query_flags::TIMESTAMP),
            _ => body.push(query_flags::TIMESTAMP as u8),
        }
        write::i64(&mut body, now_us as i64);
        self.send(now_us, Opcode::Batch, &body, purpose)
    }
}
