//! Operations as request bodies.

use helenus_wire::{Opcode, Version, write};

use crate::generator::{Bound, Child, KEYSPACE, Options, What};

/// A prepared statement as one side knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub id: Vec<u8>,
    /// v5 only.
    pub metadata_id: Vec<u8>,
    /// Columns of its result.
    pub columns: u32,
}

/// A custom payload, in front of a body.
pub(crate) const PAYLOAD: &[u8] =
    b"\x00\x02\x00\x03key\x00\x00\x00\x05value\x00\x04none\xff\xff\xff\xff";

/// One side: its keyspace and the ids of its prepared statements.
pub(crate) struct Side {
    pub keyspace: String,
    pub version: Version,
    pub known: Vec<Known>,
}

impl Side {
    pub(crate) fn at(&self, back: usize) -> usize {
        self.known.len() - 1 - back
    }

    pub(crate) fn text(&self, text: &str) -> String {
        text.replace(KEYSPACE, &self.keyspace)
    }

    /// Opcode and body of an operation; `state` continues at a page.
    pub(crate) fn body(&self, what: &What, state: Option<&[u8]>) -> (Opcode, Vec<u8>) {
        let mut out = Vec::new();
        let opcode = match what {
            What::Query(text, options) => {
                write::long_string(&mut out, &self.text(text));
                self.options(&mut out, options, state, false);
                Opcode::Query
            }
            What::Prepare(template, keyspace) => {
                write::long_string(&mut out, &self.text(&template.text));
                if self.version == Version::V5 {
                    write::u32(&mut out, u32::from(*keyspace));
                    if *keyspace {
                        write::string(&mut out, &self.keyspace);
                    }
                }
                Opcode::Prepare
            }
            What::Execute(back, options) => {
                let known = &self.known[self.at(*back)];
                write::short_bytes(&mut out, &known.id);
                if self.version == Version::V5 {
                    write::short_bytes(&mut out, &known.metadata_id);
                }
                self.options(&mut out, options, state, false);
                Opcode::Execute
            }
            What::Batch(kind, children, options) => {
                out.push(*kind);
                write::u16(&mut out, children.len() as u16);
                for child in children {
                    let values = match child {
                        Child::Text(text, values) => {
                            out.push(0);
                            write::long_string(&mut out, &self.text(text));
                            values
                        }
                        Child::Prepared(back, values) => {
                            out.push(1);
                            write::short_bytes(&mut out, &self.known[self.at(*back)].id);
                            values
                        }
                    };
                    write::u16(&mut out, values.len() as u16);
                    values.iter().for_each(|value| bound(&mut out, value));
                }
                self.options(&mut out, options, None, true);
                Opcode::Batch
            }
        };
        (opcode, out)
    }

    fn options(&self, out: &mut Vec<u8>, options: &Options, state: Option<&[u8]>, batch: bool) {
        write::u16(out, options.consistency);
        let v5 = self.version == Version::V5;
        let has_values = !batch && !options.values.is_empty();
        let names = options.names.as_ref().filter(|_| has_values);
        let mut flags = 0u32;
        let bits = [
            has_values,
            !batch && options.skip_metadata,
            !batch && options.page_size.is_some(),
            state.is_some(),
            options.serial_consistency.is_some(),
            options.timestamp.is_some(),
            names.is_some(),
            v5 && options.keyspace,
            v5 && options.now_in_seconds.is_some(),
        ];
        for (bit, set) in bits.into_iter().enumerate() {
            flags |= u32::from(set) << bit;
        }
        match v5 {
            true => write::u32(out, flags),
            false => out.push(flags as u8),
        }
        if has_values {
            write::u16(out, options.values.len() as u16);
            for (i, value) in options.values.iter().enumerate() {
                if let Some(name) = names.and_then(|names| names.get(i)) {
                    write::string(out, name);
                }
                bound(out, value);
            }
        }
        if let (Some(size), false) = (options.page_size, batch) {
            write::i32(out, size);
        }
        if let Some(state) = state {
            write::bytes(out, Some(state));
        }
        if let Some(level) = options.serial_consistency {
            write::u16(out, level);
        }
        if let Some(timestamp) = options.timestamp {
            write::i64(out, timestamp);
        }
        if v5 && options.keyspace {
            write::string(out, &self.keyspace);
        }
        if let (true, Some(now)) = (v5, options.now_in_seconds) {
            write::i32(out, now);
        }
    }
}

fn bound(out: &mut Vec<u8>, value: &Bound) {
    match value {
        Bound::Bytes(bytes) => write::bytes(out, Some(bytes)),
        Bound::Length(len) => write::i32(out, *len),
    }
}
