//! Bytes from a socket to whole envelopes, in constant memory per connection that sends nothing.
//!
//! The caller reads into a buffer shared by all connections of its thread and feeds it here; only
//! what is incomplete is kept, so an idle connection owns no buffer at all. Nothing is reserved
//! because a peer announced it: memory grows with the bytes that have really come.

use crate::compress::{Compression, decompress_body};
use crate::envelope::{HEADER_LEN, Header, flags};
use crate::frame;
use crate::packed::Packed;
use crate::reader::Malformed;

/// What the receiver of an envelope wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continue,
    /// Stop behind this envelope, for instance because the framing changes here.
    Pause,
}

/// Cuts a byte stream into envelopes.
#[derive(Debug)]
pub struct Decoder {
    framed: bool,
    compression: Compression,
    body_len_max: usize,
    /// Incomplete bytes of the wire.
    pending: Vec<u8>,
    /// Payloads of frames that are not self-contained, until the envelope is whole.
    partial: Vec<u8>,
    packed: Packed,
}

impl Decoder {
    /// A decoder for a fresh connection: no frames, no compression.
    pub fn new(body_len_max: usize) -> Self {
        Decoder {
            framed: false,
            compression: Compression::None,
            body_len_max,
            pending: Vec::new(),
            partial: Vec::new(),
            packed: Packed::default(),
        }
    }

    /// Sets what STARTUP agreed on, from the next byte on.
    pub fn set_mode(&mut self, framed: bool, compression: Compression) {
        self.framed = framed;
        self.compression = compression;
    }

    /// Bytes held for incomplete messages.
    pub fn buffered_len(&self) -> usize {
        self.pending.capacity() + self.partial.capacity()
    }

    /// How many envelopes have come together: in a frame, or in one read without frames.
    pub fn packed(&mut self) -> &mut Packed {
        &mut self.packed
    }

    /// Hands every complete envelope (header and uncompressed body) to `on_envelope`.
    ///
    /// Returns how many bytes of `input` were used; fewer than all only after [`Flow::Pause`], and
    /// the rest must then be fed again. `scratch` is working space, shared like the read buffer.
    pub fn feed(
        &mut self,
        input: &[u8],
        scratch: &mut Vec<u8>,
        mut on_envelope: impl FnMut(Header, &[u8]) -> Flow,
    ) -> Result<usize, Malformed> {
        if self.pending.is_empty() {
            let (used, flow) = self.decode(input, scratch, &mut on_envelope)?;
            if flow == Flow::Pause {
                return Ok(used);
            }
            self.pending.extend_from_slice(&input[used..]);
            return Ok(input.len());
        }
        let mut pending = std::mem::take(&mut self.pending);
        let before = pending.len();
        pending.extend_from_slice(input);
        let (used, flow) = self.decode(&pending, scratch, &mut on_envelope)?;
        if flow == Flow::Pause {
            return Ok(used.saturating_sub(before));
        }
        pending.drain(..used);
        if pending.is_empty() {
            // Give the memory back: most connections are idle most of the time.
            pending = Vec::new();
        }
        self.pending = pending;
        Ok(input.len())
    }

    fn decode(
        &mut self,
        input: &[u8],
        scratch: &mut Vec<u8>,
        on_envelope: &mut impl FnMut(Header, &[u8]) -> Flow,
    ) -> Result<(usize, Flow), Malformed> {
        if self.framed {
            return Ok((
                self.decode_frames(input, scratch, on_envelope)?,
                Flow::Continue,
            ));
        }
        let mut used = 0;
        let mut together = 0;
        while let Some(envelope_len) = self.envelope_len(&input[used..])? {
            together += 1;
            let header = Header::parse(&input[used..])?;
            let body = &input[used + HEADER_LEN..used + envelope_len];
            used += envelope_len;
            let flow = if header.flags & flags::COMPRESSED != 0 && !body.is_empty() {
                decompress_body(self.compression, body, self.body_len_max, scratch)?;
                let header = Header {
                    flags: header.flags & !flags::COMPRESSED,
                    body_len: scratch.len() as u32,
                    ..header
                };
                on_envelope(header, scratch)
            } else {
                on_envelope(header, body)
            };
            if flow == Flow::Pause {
                return Ok((used, Flow::Pause));
            }
        }
        self.packed.record(together);
        Ok((used, Flow::Continue))
    }

    fn decode_frames(
        &mut self,
        input: &[u8],
        scratch: &mut Vec<u8>,
        on_envelope: &mut impl FnMut(Header, &[u8]) -> Flow,
    ) -> Result<usize, Malformed> {
        let lz4 = self.compression == Compression::Lz4;
        let mut used = 0;
        while let Some(found) = frame::parse(&input[used..], lz4, scratch)? {
            used += found.wire_len;
            if found.self_contained {
                if !self.partial.is_empty() {
                    return Err(Malformed("a self-contained frame inside a split envelope"));
                }
                let mut payload = found.payload;
                let mut together = 0;
                while let Some(len) = self.envelope_len(payload)? {
                    together += 1;
                    let header = Header::parse(payload)?;
                    let (envelope, rest) = payload.split_at(len);
                    on_envelope(header, &envelope[HEADER_LEN..]);
                    payload = rest;
                }
                if !payload.is_empty() {
                    return Err(Malformed("a self-contained frame ends inside an envelope"));
                }
                self.packed.record(together);
            } else {
                self.partial.extend_from_slice(found.payload);
                if let Some(len) = self.envelope_len(&self.partial)? {
                    if len != self.partial.len() {
                        return Err(Malformed(
                            "a split envelope is followed by another in its frame",
                        ));
                    }
                    let whole = std::mem::take(&mut self.partial);
                    self.packed.record(1);
                    on_envelope(Header::parse(&whole)?, &whole[HEADER_LEN..]);
                }
            }
        }
        Ok(used)
    }

    /// Length of the envelope at the start of `bytes`, if it is complete.
    fn envelope_len(&self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        if bytes.len() < HEADER_LEN {
            return Ok(None);
        }
        let body_len = Header::parse(bytes)?.body_len as usize;
        if body_len > self.body_len_max {
            return Err(Malformed("a message exceeds the maximum allowed length"));
        }
        let len = HEADER_LEN + body_len;
        Ok((bytes.len() >= len).then_some(len))
    }
}
