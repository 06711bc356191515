//! One connection of protocol v5 with many requests in flight.

use crate::client::raw::{BROKEN, Envelope};
use crate::measure::ErrorKind;
use anyhow::Result;
use helenus_wire::{
    Compression, Decoder, Encoder, Flow, Header, MAX_RESPONSE_BODY, Opcode, Version,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

const READ_BYTES: usize = 256 * 1024;

/// Two tasks read and write the socket; they end with this value.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    tasks: [AbortHandle; 2],
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    to_write: Notify,
}

#[derive(Debug)]
struct State {
    encoder: Encoder,
    /// By stream id, also of requests that nobody waits for any more: their streams are in use until
    /// they are answered.
    waiting: HashMap<i16, oneshot::Sender<Envelope>>,
    last_stream: i16,
    is_broken: bool,
}

impl Connection {
    pub(super) async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (reading, writing) = stream.into_split();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                encoder: Encoder::new(),
                waiting: HashMap::new(),
                last_stream: 0,
                is_broken: false,
            }),
            to_write: Notify::new(),
        });
        let tasks = [
            tokio::spawn(read(reading, shared.clone())).abort_handle(),
            tokio::spawn(write(writing, shared.clone())).abort_handle(),
        ];
        Ok(Self { shared, tasks })
    }

    pub(super) fn is_broken(&self) -> bool {
        self.shared.state().is_broken
    }

    pub(super) async fn ask(
        &self,
        opcode: Opcode,
        write_body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Envelope, ErrorKind> {
        let (sender, answer) = oneshot::channel();
        {
            let mut state = self.shared.state();
            if state.is_broken {
                return Err(BROKEN);
            }
            let stream = state.free_stream().ok_or("no free stream")?;
            state.waiting.insert(stream, sender);
            let header = Header {
                version: Version::V5 as u8,
                response: false,
                flags: 0,
                stream,
                opcode: opcode as u8,
                body_len: 0,
            };
            state.encoder.push(header, write_body);
        }
        self.shared.to_write.notify_one();
        answer.await.map_err(|_| BROKEN)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl State {
    /// Never 0: a node answers with it when it drops a request whose stream it no longer knows.
    fn free_stream(&mut self) -> Option<i16> {
        for _ in 0..i16::MAX {
            self.last_stream = self.last_stream % i16::MAX + 1;
            if !self.waiting.contains_key(&self.last_stream) {
                return Some(self.last_stream);
            }
        }
        None
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, header: Header, body: &[u8]) {
        let Some(sender) = self.state().waiting.remove(&header.stream) else {
            return;
        };
        let envelope = Envelope {
            opcode: header.opcode,
            flags: header.flags,
            body: body.to_vec(),
        };
        // Nobody may be waiting any more.
        let _ = sender.send(envelope);
    }

    fn end(&self) {
        let mut state = self.state();
        state.is_broken = true;
        state.waiting.clear();
    }
}

async fn read(mut half: OwnedReadHalf, shared: Arc<Shared>) {
    let mut decoder = Decoder::new(MAX_RESPONSE_BODY);
    let (mut buffer, mut scratch) = (vec![0; READ_BYTES], Vec::new());
    let mut is_framed = false;
    'reading: while let Ok(len @ 1..) = half.read(&mut buffer).await {
        let mut input = &buffer[..len];
        while !input.is_empty() {
            let mut is_answered = false;
            let fed = decoder.feed(input, &mut scratch, |header, body| {
                is_answered = true;
                if !is_framed {
                    // Frames begin with the answer to STARTUP, in both directions.
                    let mut state = shared.state();
                    state.encoder.set_mode(true, Compression::None);
                }
                shared.deliver(header, body);
                match is_framed {
                    true => Flow::Continue,
                    false => Flow::Pause,
                }
            });
            let Ok(used) = fed else {
                break 'reading;
            };
            if is_answered && !is_framed {
                is_framed = true;
                decoder.set_mode(true, Compression::None);
            }
            input = &input[used..];
        }
    }
    shared.end();
}

/// Whatever was asked while the previous bytes were written leaves together.
async fn write(mut half: OwnedWriteHalf, shared: Arc<Shared>) {
    loop {
        let bytes = {
            let mut state = shared.state();
            let bytes = state.encoder.pending().to_vec();
            state.encoder.advance(bytes.len());
            bytes
        };
        if bytes.is_empty() {
            shared.to_write.notified().await;
        } else if half.write_all(&bytes).await.is_err() {
            shared.end();
            return;
        }
    }
}
