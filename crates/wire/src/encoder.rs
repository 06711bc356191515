//! Encodes envelopes into bytes for a socket: those pushed between two flushes are packed into as
//! few frames as possible (v5), or placed back to back (v3, v4), and sent in one write.
//!
//! The bytes lie in blocks. One doubles until it has the room of a frame ([`BLOCK_ROOM`]); what does not fit then
//! begins the next one, and a message that is larger has a block of its own, of its size. So what is copied does not
//! grow with what waits, and what has been written is freed block by block: the room is at most twice what waits, and
//! twice a block or the message that is being written. [`Encoder::pending`] gives one block at a time.

use crate::blocks::Blocks;
use crate::compress::{Compression, compress_body, compressed_len_max};
use crate::envelope::{HEADER_LEN, Header, flags};
use crate::frame;
use crate::packed::Packed;

/// Room in a buffer when it gets its first bytes: for a small message at once instead of by doubling.
const ROOM_FIRST: usize = 256;
/// Header and trailer of a frame at most.
const AROUND_FRAME: usize = frame::HEADER_LEN_LZ4 + frame::TRAILER_LEN;
/// Bytes of a block, unless one message needs more: a whole frame. An empty one that is not larger is kept for the next
/// messages.
const BLOCK_ROOM: usize = frame::PAYLOAD_MAX + AROUND_FRAME;

/// Collects outgoing envelopes of one connection.
#[derive(Debug)]
pub struct Encoder {
    framed: bool,
    compression: Compression,
    /// Blocks before `out`, to which nothing is added.
    full: Blocks,
    /// The block that is being filled.
    out: Vec<u8>,
    /// Bytes already written to the socket, of the first block.
    written: usize,
    /// Start of the open frame's header in `out`.
    open: Option<usize>,
    /// Envelopes in the open frame, or since the last write without frames.
    open_envelopes: u32,
    frames: u64,
    packed: Packed,
}

impl Default for Encoder {
    fn default() -> Self {
        Encoder::new()
    }
}

impl Encoder {
    /// An encoder for a fresh connection: no frames, no compression.
    pub fn new() -> Self {
        Encoder {
            framed: false,
            compression: Compression::None,
            full: Blocks::default(),
            out: Vec::new(),
            written: 0,
            open: None,
            open_envelopes: 0,
            frames: 0,
            packed: Packed::default(),
        }
    }

    /// Sets what STARTUP agreed on, from the next envelope on.
    pub fn set_mode(&mut self, framed: bool, compression: Compression) {
        self.seal();
        self.framed = framed;
        self.compression = compression;
    }

    /// Bytes waiting to be written.
    pub fn pending_len(&self) -> usize {
        self.full.len() + self.out.len() - self.written
    }

    /// Bytes of memory that are held because something waits: the room of all blocks, which includes what of the first
    /// has been written. 0 if nothing waits, though one block may be kept for the next messages.
    pub fn held_len(&self) -> usize {
        match self.pending_len() {
            0 => 0,
            _ => self.full.room() + self.out.capacity(),
        }
    }

    /// Frames sealed so far (v5).
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Counts envelopes that were sent together: in a frame, or in one write without frames.
    pub fn packed(&mut self) -> &mut Packed {
        &mut self.packed
    }

    /// Appends an envelope whose body `write_body` appends to the vector, of at most so many bytes if its block is not
    /// to grow beyond its room. The header's `body_len` is filled in here.
    pub fn push(
        &mut self,
        header: Header,
        body_len_max: usize,
        write_body: impl FnOnce(&mut Vec<u8>),
    ) {
        self.make_room(HEADER_LEN + self.body_room(body_len_max) + AROUND_FRAME);
        if self.framed && self.open.is_none() {
            self.open = Some(self.out.len());
            self.out.resize(self.out.len() + self.frame_header_len(), 0);
        }
        let start = self.out.len();
        header.write(&mut self.out);
        write_body(&mut self.out);
        if !self.framed && self.compression != Compression::None {
            self.compress_last(start);
        }
        let body_len = (self.out.len() - start - HEADER_LEN) as u32;
        self.out[start + 5..start + 9].copy_from_slice(&body_len.to_be_bytes());
        self.open_envelopes += 1;
        if self.framed {
            self.fit_frame(start);
        }
    }

    /// Appends an envelope with this body.
    pub fn push_slice(&mut self, header: Header, body: &[u8]) {
        if self.framed && HEADER_LEN + body.len() > frame::PAYLOAD_MAX {
            let mut next = Some(0);
            while let Some(from) = next {
                next = self.push_part(header, body, from);
            }
            return;
        }
        self.push(header, body.len(), |out| out.extend_from_slice(body));
    }

    /// Appends an envelope of a version with another header. Only without frames.
    pub fn push_foreign(&mut self, envelope: &[u8]) {
        debug_assert!(!self.framed, "a foreign envelope inside frames");
        self.make_room(envelope.len());
        self.out.extend_from_slice(envelope);
    }

    /// Appends the next part of an envelope that is too large to be copied at once. `from` counts
    /// over header and body. Returns where the next part starts; `None` after the last one.
    ///
    /// Nothing else may be pushed between the parts of one envelope. Without frames the body must
    /// be compressed already if the connection is ([`Encoder::compressed`]).
    pub fn push_part(&mut self, header: Header, body: &[u8], from: usize) -> Option<usize> {
        debug_assert!(
            self.framed || body.is_empty() || {
                let compressed = header.flags & flags::COMPRESSED != 0;
                compressed == (self.compression != Compression::None)
            }
        );
        if from == 0 {
            self.seal();
            self.packed.record(1);
        }
        let left = (HEADER_LEN + body.len()).saturating_sub(from);
        self.make_room(left.min(frame::PAYLOAD_MAX) + AROUND_FRAME);
        let start = self.out.len();
        if self.framed {
            self.out.resize(start + self.frame_header_len(), 0);
        }
        let mut room = frame::PAYLOAD_MAX;
        let mut head = Vec::with_capacity(HEADER_LEN);
        Header {
            body_len: body.len() as u32,
            ..header
        }
        .write(&mut head);
        for (part, begins) in [(head.as_slice(), 0), (body, HEADER_LEN)] {
            let rest = part.get(from.saturating_sub(begins)..).unwrap_or_default();
            let rest = &rest[..rest.len().min(room)];
            room -= rest.len();
            self.out.extend_from_slice(rest);
        }
        if self.framed {
            let whole = HEADER_LEN + body.len() <= frame::PAYLOAD_MAX;
            self.close_frame(start, whole);
        }
        let next = from + frame::PAYLOAD_MAX - room;
        (next < HEADER_LEN + body.len()).then_some(next)
    }

    /// The body as [`Encoder::push_part`] needs it on this connection; `None`: unchanged.
    pub fn compressed(&self, body: &[u8]) -> Option<Vec<u8>> {
        if self.framed || self.compression == Compression::None || body.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        compress_body(self.compression, body, &mut out);
        Some(out)
    }

    /// An empty encoder for the same connection.
    pub fn like(&self) -> Self {
        Encoder {
            framed: self.framed,
            compression: self.compression,
            ..Encoder::new()
        }
    }

    /// Puts bytes that an encoder of the same connection has left before all that comes. Only while nothing
    /// waits.
    pub fn resume(&mut self, pending: Vec<u8>) {
        debug_assert!(self.pending_len() == 0 && self.open.is_none());
        self.out = pending;
    }

    /// The bytes to write next: those of one block. Empty if there are none. Seals the open frame.
    pub fn pending(&mut self) -> &[u8] {
        self.seal();
        let first = self.full.first().unwrap_or(&self.out);
        &first[self.written..]
    }

    /// Notes that `n` of the bytes that [`Encoder::pending`] has given have been written.
    pub fn advance(&mut self, n: usize) {
        self.written += n;
        if let Some(first) = self.full.first() {
            debug_assert!(self.written <= first.len());
            if self.written == first.len() {
                self.full.free_first();
                self.written = 0;
            }
            return;
        }
        debug_assert!(self.written <= self.out.len());
        if self.written == self.out.len() {
            self.written = 0;
            self.out.clear();
            if self.out.capacity() > BLOCK_ROOM {
                self.out = Vec::new();
            }
        }
    }

    /// All bytes that wait, which count as written.
    pub fn take_pending(&mut self) -> Vec<u8> {
        let mut taken = Vec::with_capacity(self.pending_len());
        loop {
            let pending = self.pending();
            let len = pending.len();
            if len == 0 {
                return taken;
            }
            taken.extend_from_slice(pending);
            self.advance(len);
        }
    }

    /// Frees the buffer of a connection that has become idle.
    pub fn shrink(&mut self) {
        if self.pending_len() == 0 {
            self.out = Vec::new();
        }
    }

    /// Room for a body of so many bytes, also while it is compressed.
    #[inline]
    fn body_room(&self, body_len: usize) -> usize {
        match self.framed || self.compression == Compression::None {
            true => body_len,
            false => compressed_len_max(self.compression, body_len),
        }
    }

    /// Makes room for so many bytes behind each other, in the next block if there is none in this one.
    #[inline]
    fn make_room(&mut self, bytes: usize) {
        if self.out.capacity() - self.out.len() >= bytes {
            return;
        }
        match self.out.capacity() {
            0 => self.out.reserve_exact(bytes.max(ROOM_FIRST)),
            _ => self.grow(bytes),
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        if self.out.len() + bytes > BLOCK_ROOM && !self.out.is_empty() {
            self.seal();
            let mut full = std::mem::take(&mut self.out);
            // Little may be in it: messages that have become far shorter, or one before a large one.
            if full.capacity() > 2 * full.len() {
                full.shrink_to_fit();
            }
            self.full.push(full);
        }
        let needed = self.out.len() + bytes;
        let doubled = (2 * self.out.capacity()).clamp(ROOM_FIRST, BLOCK_ROOM);
        self.out.reserve_exact(needed.max(doubled) - self.out.len());
    }

    fn frame_header_len(&self) -> usize {
        if self.compression == Compression::Lz4 {
            frame::HEADER_LEN_LZ4
        } else {
            frame::HEADER_LEN
        }
    }

    fn compress_last(&mut self, start: usize) {
        let body_at = start + HEADER_LEN;
        if self.out.len() == body_at {
            return;
        }
        let body = self.out.split_off(body_at);
        self.out[start + 1] |= flags::COMPRESSED;
        compress_body(self.compression, &body, &mut self.out);
        // It may have become far shorter.
        if self.out.capacity() > BLOCK_ROOM.max(2 * self.out.len()) {
            self.out.shrink_to_fit();
        }
    }

    /// Called after an envelope was appended at `start` to the open frame: cuts where it exceeds
    /// the frame's size.
    fn fit_frame(&mut self, start: usize) {
        let Some(open) = self.open else { return };
        let payload_at = open + self.frame_header_len();
        if self.out.len() - payload_at <= frame::PAYLOAD_MAX {
            return;
        }
        let tail = self.out.split_off(start);
        self.open_envelopes -= 1;
        if self.out.len() == payload_at {
            self.out.truncate(open);
            self.open = None;
        } else {
            self.seal();
        }
        if tail.len() <= frame::PAYLOAD_MAX {
            self.make_room(tail.len() + AROUND_FRAME);
            self.open = Some(self.out.len());
            self.open_envelopes = 1;
            self.out.resize(self.out.len() + self.frame_header_len(), 0);
            self.out.extend_from_slice(&tail);
            return;
        }
        self.open_envelopes = 0;
        self.packed.record(1);
        for part in tail.chunks(frame::PAYLOAD_MAX) {
            self.make_room(part.len() + AROUND_FRAME);
            let at = self.out.len();
            self.out.resize(at + self.frame_header_len(), 0);
            self.out.extend_from_slice(part);
            self.close_frame(at, false);
        }
    }

    fn seal(&mut self) {
        self.packed.record(std::mem::take(&mut self.open_envelopes));
        if let Some(open) = self.open.take() {
            self.close_frame(open, true);
        }
    }

    /// Fills in the header and appends the trailer of the frame that starts at `at`.
    fn close_frame(&mut self, at: usize, self_contained: bool) {
        self.frames += 1;
        let payload_at = at + self.frame_header_len();
        if self.compression == Compression::Lz4 {
            let plain_len = self.out.len() - payload_at;
            let mut packed = vec![0; lz4_flex::block::get_maximum_output_size(plain_len)];
            let packed_len = lz4_flex::block::compress_into(&self.out[payload_at..], &mut packed)
                .unwrap_or(plain_len);
            let (stored_len, stated_len) = if packed_len < plain_len {
                self.out.truncate(payload_at);
                self.out.extend_from_slice(&packed[..packed_len]);
                (packed_len, plain_len)
            } else {
                (plain_len, 0)
            };
            let header = frame::header_lz4(stored_len, stated_len, self_contained);
            self.out[at..payload_at].copy_from_slice(&header);
        } else {
            let header = frame::header(self.out.len() - payload_at, self_contained);
            self.out[at..payload_at].copy_from_slice(&header);
        }
        let crc = frame::crc32(&self.out[payload_at..]);
        self.out.extend_from_slice(&crc.to_le_bytes());
    }
}
