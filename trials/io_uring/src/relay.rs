//! What the proxy does with bytes, without the sockets: envelopes of many clients are cut out,
//! given a stream id of a link, packed into its next frame; answers find back by that id.
//!
//! Every back end drives this same code. As in the proxy, bytes collect in encoders while a turn
//! runs, and each dirty connection is written once when it ends.

use helenus_wire::{
    Compression, DecodeError, Decoder, Encoder, Flow, Header, MAX_REQUEST_BODY, Version,
};
use slab::Slab;

use crate::counts::count_link_write;

/// Links, one a node; they have the first indices.
pub const LINKS: usize = 3;
/// The size of the one buffer into which the proxy reads, and of the largest piece that a back end
/// hands over.
pub const READ_LEN: usize = 128 * 1024;

/// Where an answer goes.
#[derive(Clone, Copy)]
struct Asked {
    client: usize,
    generation: u32,
    stream: i16,
}

struct Conn {
    generation: u32,
    decoder: Decoder,
    encoder: Encoder,
    dirty: bool,
    write_blocked: bool,
    /// Of a link: who waits for which stream. Index 0 is never used.
    streams: Vec<Option<Asked>>,
    free: Vec<u16>,
}

/// All connections of a relay.
pub struct Relay {
    conns: Slab<Conn>,
    dirty_links: Vec<usize>,
    dirty_clients: Vec<usize>,
    scratch: Vec<u8>,
    generation: u32,
    turn: usize,
}

impl Relay {
    /// A relay with its links, which have indices 0 to `LINKS - 1`.
    pub fn new() -> Relay {
        let mut relay = Relay {
            conns: Slab::new(),
            dirty_links: Vec::new(),
            dirty_clients: Vec::new(),
            scratch: Vec::new(),
            generation: 0,
            turn: 0,
        };
        for _ in 0..LINKS {
            relay.open();
        }
        relay
    }

    /// Takes in a client, as if it had just agreed on v5.
    pub fn open(&mut self) -> usize {
        self.generation = self.generation.wrapping_add(1);
        let (decoder, encoder) = framed();
        self.conns.insert(Conn {
            generation: self.generation,
            decoder,
            encoder,
            dirty: false,
            write_blocked: false,
            streams: vec![None],
            free: Vec::new(),
        })
    }

    pub fn close(&mut self, client: usize) {
        debug_assert!(client >= LINKS);
        self.conns.try_remove(client);
        self.dirty_clients.retain(|index| *index != client);
    }

    /// Tells a connection from later ones at the same index.
    pub fn generation(&self, index: usize) -> Option<u32> {
        self.conns.get(index).map(|c| c.generation)
    }

    /// What a connection has sent.
    pub fn handle_bytes(&mut self, index: usize, input: &[u8]) -> Result<(), DecodeError> {
        let Some(conn) = self.conns.get_mut(index) else {
            return Ok(());
        };
        let mut decoder = std::mem::replace(&mut conn.decoder, Decoder::new(0));
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = decoder.feed(input, &mut scratch, |header, body| {
            if index < LINKS {
                self.on_answer(index, header, body);
            } else {
                self.on_request(index, header, body);
            }
            Flow::Continue
        });
        self.scratch = scratch;
        self.conns[index].decoder = decoder;
        result.map(drop)
    }

    fn on_request(&mut self, client: usize, header: Header, body: &[u8]) {
        let asked = Some(Asked {
            client,
            generation: self.conns[client].generation,
            stream: header.stream,
        });
        self.turn = (self.turn + 1) % LINKS;
        let index = self.turn;
        let link = &mut self.conns[index];
        let stream = match link.free.pop() {
            Some(stream) => {
                link.streams[usize::from(stream)] = asked;
                stream
            }
            None => {
                link.streams.push(asked);
                (link.streams.len() - 1) as u16
            }
        };
        let header = Header {
            stream: stream as i16,
            ..header
        };
        link.encoder.push_slice(header, body);
        self.mark(index);
    }

    fn on_answer(&mut self, link: usize, header: Header, body: &[u8]) {
        let link = &mut self.conns[link];
        let stream = header.stream as u16;
        let slot = link.streams.get_mut(usize::from(stream));
        let Some(asked) = slot.and_then(Option::take) else {
            return;
        };
        link.free.push(stream);
        let Some(client) = self.conns.get_mut(asked.client) else {
            return;
        };
        if client.generation == asked.generation {
            let stream = asked.stream;
            client.encoder.push_slice(Header { stream, ..header }, body);
            self.mark(asked.client);
        }
    }

    fn mark(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        if !conn.dirty && !conn.write_blocked {
            conn.dirty = true;
            if index < LINKS {
                self.dirty_links.push(index);
            } else {
                self.dirty_clients.push(index);
            }
        }
    }

    pub fn is_dirty(&self) -> bool {
        !(self.dirty_links.is_empty() && self.dirty_clients.is_empty())
    }

    /// The next connection to write; links come first, as in the proxy.
    pub fn poll_dirty(&mut self) -> Option<usize> {
        let index = self
            .dirty_links
            .pop()
            .or_else(|| self.dirty_clients.pop())?;
        self.conns[index].dirty = false;
        Some(index)
    }

    /// The bytes to write next to a connection.
    pub fn pending(&mut self, index: usize) -> &[u8] {
        self.conns[index].encoder.pending()
    }

    /// A connection has taken `n` of the pending bytes.
    pub fn on_written(&mut self, index: usize, n: usize) {
        let encoder = &mut self.conns[index].encoder;
        encoder.advance(n);
        if index < LINKS {
            count_link_write();
        } else if encoder.pending_len() == 0 {
            encoder.shrink();
        }
    }

    /// A connection takes no more bytes until [`Relay::on_writable`].
    pub fn on_blocked(&mut self, index: usize) {
        self.conns[index].write_blocked = true;
    }

    pub fn is_blocked(&self, index: usize) -> bool {
        self.conns.get(index).is_some_and(|c| c.write_blocked)
    }

    /// Queues what a blocked connection still has to write.
    pub fn on_writable(&mut self, index: usize) {
        if let Some(conn) = self.conns.get_mut(index)
            && std::mem::take(&mut conn.write_blocked)
        {
            self.mark(index);
        }
    }
}

/// Both directions of a v5 connection.
pub fn framed() -> (Decoder, Encoder) {
    let mut decoder = Decoder::new(MAX_REQUEST_BODY);
    let mut encoder = Encoder::new();
    decoder.set_mode(true, Compression::None);
    encoder.set_mode(true, Compression::None);
    (decoder, encoder)
}

/// The header of an envelope of this trial.
pub fn header(stream: i16, response: bool) -> Header {
    use helenus_wire::Opcode;
    let opcode = if response {
        Opcode::Result
    } else {
        Opcode::Execute
    };
    Header {
        version: Version::V5 as u8,
        response,
        flags: 0,
        stream,
        opcode: opcode as u8,
        body_len: 0,
    }
}
