//! Decodes bytes from a socket into whole envelopes. An idle connection needs constant memory.
//!
//! The caller reads into a buffer shared by all connections of its thread and feeds it here. Only
//! incomplete data is kept, so an idle connection has no buffer at all. No memory is reserved
//! because a peer announced it: memory grows with the bytes actually received.

use thiserror::Error;

use crate::compress::{Compression, decompress_body, stated_len};
use crate::envelope::{HEADER_LEN, Header, Version, flags};
use crate::frame;
use crate::packed::Packed;
use crate::reader::Malformed;

/// The decoder's next step after an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continue,
    /// Stop after this envelope, for instance because the framing changes here.
    Pause,
}

/// Why a byte stream cannot be decoded any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Determined by an envelope's first byte. The bytes after it cannot be parsed, because headers
    /// differ between versions.
    #[error("protocol version {0} is not supported")]
    Version(u8),
}

/// Cuts a byte stream into envelopes.
#[derive(Debug)]
pub struct Decoder {
    version_max: Version,
    framed: bool,
    compression: Compression,
    body_len_max: usize,
    skips_long: bool,
    /// Bytes that are still to come of a body that is skipped.
    to_skip: usize,
    /// Bytes of an incomplete message, as received.
    pending: Vec<u8>,
    /// Payloads of frames that are not self-contained, until the envelope is complete.
    partial: Vec<u8>,
    packed: Packed,
}

impl Decoder {
    /// A decoder for a fresh connection: no frames, no compression.
    pub fn new(body_len_max: usize) -> Self {
        Decoder {
            version_max: Version::V5,
            framed: false,
            compression: Compression::None,
            body_len_max,
            skips_long: false,
            to_skip: 0,
            pending: Vec::new(),
            partial: Vec::new(),
            packed: Packed::default(),
        }
    }

    /// Also rejects versions after this one. Inside frames the receiver checks the version.
    pub fn set_version_max(&mut self, version: Version) {
        self.version_max = version;
    }

    /// Sets what STARTUP agreed on, from the next byte on.
    pub fn set_mode(&mut self, framed: bool, compression: Compression) {
        self.framed = framed;
        self.compression = compression;
    }

    /// From the next envelope on, a body may have so many bytes.
    pub fn set_body_len_max(&mut self, body_len_max: usize) {
        self.body_len_max = body_len_max;
    }

    /// From the next envelope on, bodies that are longer are skipped: their headers are handed over with empty
    /// bodies ([`Header::is_skipped`]). Until then one that is too long is an error.
    pub fn skip_longer_than(&mut self, body_len_max: usize) {
        self.body_len_max = body_len_max;
        self.skips_long = true;
    }

    /// Skips the body of the envelope that has come in part: what is there of it is dropped. Its header, as of a
    /// body that is too long; `None` if that has not come yet, or no more bytes than this of it. Only without
    /// compression.
    pub fn skip_unfinished(&mut self, more_than: usize) -> Option<Header> {
        debug_assert_eq!(self.compression, Compression::None);
        let begun = match self.framed {
            true => &mut self.partial,
            false => &mut self.pending,
        };
        if begun.len() <= more_than {
            return None;
        }
        let header = Header::parse(begun).ok()?;
        self.to_skip = (HEADER_LEN + header.body_len as usize).checked_sub(begun.len())?;
        *begun = Vec::new();
        Some(header)
    }

    /// True if part of a body that is skipped has still to come. Another decoder cannot go on here.
    pub fn is_skipping(&self) -> bool {
        self.to_skip > 0
    }

    /// Bytes held for incomplete messages.
    pub fn buffered_len(&self) -> usize {
        self.pending.capacity() + self.partial.capacity()
    }

    /// The bytes of a message that is not complete: as they were received, and what was in frames before these.
    pub fn unfinished(&self) -> (&[u8], &[u8]) {
        (&self.pending, &self.partial)
    }

    /// Goes on where another decoder of the same connection was, of which this was unfinished. Its mode has
    /// to be set as well.
    pub fn resume(&mut self, pending: Vec<u8>, partial: Vec<u8>) {
        (self.pending, self.partial) = (pending, partial);
    }

    /// Counts envelopes that arrived together: in a frame, or in one read without frames.
    pub fn packed(&mut self) -> &mut Packed {
        &mut self.packed
    }

    /// Passes every complete envelope (header and uncompressed body) to `on_envelope`.
    ///
    /// Returns how many bytes of `input` were consumed: fewer than all only after [`Flow::Pause`],
    /// in which case the rest must be fed again. `scratch` is working space, shared like the read
    /// buffer.
    pub fn feed(
        &mut self,
        input: &[u8],
        scratch: &mut Vec<u8>,
        mut on_envelope: impl FnMut(Header, &[u8]) -> Flow,
    ) -> Result<usize, DecodeError> {
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
            // Free the memory: most connections are idle most of the time.
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
    ) -> Result<(usize, Flow), DecodeError> {
        if self.framed {
            return Ok((
                self.decode_frames(input, scratch, on_envelope)?,
                Flow::Continue,
            ));
        }
        let mut used = 0;
        let mut together = 0;
        while let Some(first) = input.get(used) {
            if self.to_skip > 0 {
                let skipped = self.to_skip.min(input.len() - used);
                self.to_skip -= skipped;
                used += skipped;
                continue;
            }
            // Checked before the header is complete: that of version 2 is shorter and never would
            // be.
            self.check_version(*first)?;
            let Some(cut) = self.cut(&input[used..])? else {
                break;
            };
            together += 1;
            let flow = match cut {
                Cut::TooLong(header) => {
                    used += HEADER_LEN;
                    self.to_skip = header.body_len as usize;
                    on_envelope(header, &[])
                }
                Cut::Whole(header, envelope_len) => {
                    let body = &input[used + HEADER_LEN..used + envelope_len];
                    used += envelope_len;
                    self.hand_over(header, body, scratch, on_envelope)?
                }
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
                if !self.partial.is_empty() || self.to_skip > 0 {
                    return Err(Malformed("a self-contained frame inside a split envelope"));
                }
                let mut payload = found.payload;
                let mut together = 0;
                while let Some(cut) = self.cut(payload)? {
                    let (header, len) = match cut {
                        Cut::Whole(header, len) => (header, len),
                        Cut::TooLong(header) => (header, HEADER_LEN + header.body_len as usize),
                    };
                    let Some((envelope, rest)) = payload.split_at_checked(len) else {
                        break;
                    };
                    together += 1;
                    match cut {
                        Cut::Whole(..) => on_envelope(header, &envelope[HEADER_LEN..]),
                        Cut::TooLong(_) => on_envelope(header, &[]),
                    };
                    payload = rest;
                }
                if !payload.is_empty() {
                    return Err(Malformed("a self-contained frame ends inside an envelope"));
                }
                self.packed.record(together);
            } else if self.to_skip > 0 {
                let left = self.to_skip.checked_sub(found.payload.len());
                self.to_skip = left.ok_or(Malformed(SPLIT_AND_MORE))?;
            } else {
                self.partial.extend_from_slice(found.payload);
                let Some(cut) = self.cut(&self.partial)? else {
                    continue;
                };
                let begun = std::mem::take(&mut self.partial);
                self.packed.record(1);
                match cut {
                    Cut::Whole(header, len) if len == begun.len() => {
                        on_envelope(header, &begun[HEADER_LEN..]);
                    }
                    Cut::Whole(..) => return Err(Malformed(SPLIT_AND_MORE)),
                    Cut::TooLong(header) => {
                        let whole = HEADER_LEN + header.body_len as usize;
                        let left = whole.checked_sub(begun.len());
                        self.to_skip = left.ok_or(Malformed(SPLIT_AND_MORE))?;
                        on_envelope(header, &[]);
                    }
                }
            }
        }
        Ok(used)
    }

    fn check_version(&self, first: u8) -> Result<(), DecodeError> {
        let number = first & 0x7F;
        match Version::from_number(number).filter(|v| *v <= self.version_max) {
            Some(_) => Ok(()),
            None => Err(DecodeError::Version(number)),
        }
    }

    /// Hands over an envelope that is not in a frame.
    fn hand_over(
        &self,
        header: Header,
        body: &[u8],
        scratch: &mut Vec<u8>,
        on_envelope: &mut impl FnMut(Header, &[u8]) -> Flow,
    ) -> Result<Flow, DecodeError> {
        // Of a request, which a node reads as it is where no compression was agreed on.
        let is_compressed = self.compression != Compression::None
            && header.flags & flags::COMPRESSED != 0
            && !body.is_empty();
        let header = Header {
            flags: header.flags & !flags::COMPRESSED,
            ..header
        };
        if !is_compressed {
            return Ok(on_envelope(header, body));
        }
        let stated = stated_len(self.compression, body);
        if self.skips_long
            && let Some(body_len) = stated.filter(|len| *len as usize > self.body_len_max)
        {
            return Ok(on_envelope(Header { body_len, ..header }, &[]));
        }
        decompress_body(self.compression, body, self.body_len_max, scratch)?;
        let body_len = scratch.len() as u32;
        Ok(on_envelope(Header { body_len, ..header }, scratch))
    }

    /// Refuses an answer that says that its body is compressed where no compression of bodies was agreed on: it cannot be
    /// read. Nodes read such requests as they are.
    fn check_compressed(&self, header: Header) -> Result<(), Malformed> {
        let is_agreed = !self.framed && self.compression != Compression::None;
        match header.response && header.flags & flags::COMPRESSED != 0 && !is_agreed {
            true => Err(Malformed(NOT_AGREED)),
            false => Ok(()),
        }
    }

    /// The envelope at the start of `bytes`, if that is complete or too long.
    fn cut(&self, bytes: &[u8]) -> Result<Option<Cut>, Malformed> {
        if bytes.len() < HEADER_LEN {
            return Ok(None);
        }
        let header = Header::parse(bytes)?;
        self.check_compressed(header)?;
        let body_len = header.body_len as usize;
        if body_len > self.body_len_max {
            return match self.skips_long {
                true => Ok(Some(Cut::TooLong(header))),
                false => Err(Malformed("a message exceeds the maximum allowed length")),
            };
        }
        let len = HEADER_LEN + body_len;
        Ok((bytes.len() >= len).then_some(Cut::Whole(header, len)))
    }
}

const NOT_AGREED: &str = "a compressed answer where no compression was agreed on";
const SPLIT_AND_MORE: &str = "a split envelope is followed by another in its frame";

/// The beginning of some bytes.
#[derive(Clone, Copy)]
enum Cut {
    /// An envelope of this length.
    Whole(Header, usize),
    /// The header of one whose body is skipped.
    TooLong(Header),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::Encoder;

    /// The result of feeding these bytes to a decoder that has seen one envelope of version 4.
    fn said(decoder: &mut Decoder, bytes: &[u8]) -> Result<usize, DecodeError> {
        let options = [4, 0, 0, 1, 5, 0, 0, 0, 0];
        let mut seen = 0;
        let fed = decoder.feed(&[&options, bytes].concat(), &mut Vec::new(), |_, _| {
            seen += 1;
            Flow::Continue
        });
        assert_eq!(seen, 1);
        fed
    }

    #[test]
    fn a_version_that_is_not_spoken_is_known_by_its_first_byte() {
        for first in [0, 1, 2, 6, 0x16, b'G', 0x7F, 0x81, 0xFF] {
            let error = DecodeError::Version(first & 0x7F);
            assert_eq!(said(&mut Decoder::new(100), &[first]), Err(error));
        }
        for first in [3, 4, 5, 0x84] {
            assert_eq!(said(&mut Decoder::new(100), &[first]), Ok(10));
        }
    }

    #[test]
    fn a_body_of_the_maximum_length_is_taken_and_one_byte_more_is_not() {
        let announced = |len: u8| [4, 0, 0, 2, 5, 0, 0, 0, len];
        let mut decoder = Decoder::new(100);
        assert!(said(&mut decoder, &announced(100)).is_ok());
        assert!(said(&mut Decoder::new(100), &announced(101)).is_err());
    }

    #[test]
    fn a_compressed_answer_needs_an_agreement_and_a_request_is_read_as_it_is() {
        let envelope = |first, flags| [first, flags, 0, 2, 8, 0, 0, 0, 0];
        let fed = |compression, first, flags| {
            let mut decoder = Decoder::new(100);
            decoder.set_mode(false, compression);
            let bytes = envelope(first, flags);
            decoder.feed(&bytes, &mut Vec::new(), |_, _| Flow::Continue)
        };
        let refused = Err(DecodeError::Malformed(Malformed(NOT_AGREED)));
        assert_eq!(fed(Compression::None, 0x84, flags::COMPRESSED), refused);
        assert_eq!(fed(Compression::None, 0x84, flags::WARNING), Ok(9));
        assert_eq!(fed(Compression::Lz4, 0x84, flags::COMPRESSED), Ok(9));
        assert_eq!(fed(Compression::None, 4, flags::COMPRESSED), Ok(9));
        // Its header tells, before its body has come.
        let mut begun = envelope(0x84, flags::COMPRESSED);
        begun[8] = 100;
        assert_eq!(said(&mut Decoder::new(100), &begun), refused);
        // In frames, these are what is compressed.
        for compression in [Compression::None, Compression::Lz4] {
            for (first, expected) in [(0x85, refused.map(drop)), (5, Ok(()))] {
                let header = Header {
                    flags: flags::COMPRESSED,
                    ..Header::parse(&envelope(first, 0)).unwrap()
                };
                let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(100));
                encoder.set_mode(true, compression);
                decoder.set_mode(true, compression);
                encoder.push_slice(header, b"");
                let bytes = encoder.take_pending();
                let fed = decoder.feed(&bytes, &mut Vec::new(), |_, _| Flow::Continue);
                assert_eq!(fed.map(drop), expected);
            }
        }
    }

    #[test]
    fn a_version_later_than_the_latest_is_not_spoken() {
        let mut decoder = Decoder::new(100);
        decoder.set_version_max(Version::V4);
        assert_eq!(said(&mut decoder, &[5]), Err(DecodeError::Version(5)));
    }
}
