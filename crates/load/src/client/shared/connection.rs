//! One connection of protocol v5 with many requests in flight.

use crate::client::raw::{BROKEN, Reading, Stream, Writing};
use crate::client::tls::{Tls, explain};
use crate::measure::ErrorKind;
use anyhow::Result;
use helenus_client::{Answer, Compression, Incoming, Opcode};
use helenus_wire::{Encoder, Header};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

pub(crate) const VERSION: u8 = 5;
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
    waiting: HashMap<i16, oneshot::Sender<Answer>>,
    last_stream: i16,
    is_broken: bool,
    /// Why, if the other side has said it.
    why_broken: Option<String>,
}

impl Connection {
    pub(super) async fn open(address: &str, tls: Option<&Tls>) -> Result<Self> {
        let stream = Stream::connect(address, tls).await?;
        let is_encrypted = tls.is_some();
        let (reading, writing) = stream.into_split();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                encoder: Encoder::new(),
                waiting: HashMap::new(),
                last_stream: 0,
                is_broken: false,
                why_broken: None,
            }),
            to_write: Notify::new(),
        });
        let tasks = [
            tokio::spawn(read(reading, is_encrypted, shared.clone())).abort_handle(),
            tokio::spawn(write(writing, shared.clone())).abort_handle(),
        ];
        Ok(Self { shared, tasks })
    }

    pub(super) fn is_broken(&self) -> bool {
        self.shared.state().is_broken
    }

    pub(super) fn why_broken(&self) -> Option<String> {
        self.shared.state().why_broken.clone()
    }

    pub(super) async fn ask(&self, opcode: Opcode, body: &[u8]) -> Result<Answer, ErrorKind> {
        let (sender, answer) = oneshot::channel();
        {
            let mut state = self.shared.state();
            if state.is_broken {
                return Err(BROKEN);
            }
            let stream = state.free_stream().ok_or("no free stream")?;
            state.waiting.insert(stream, sender);
            let header = Header {
                version: VERSION,
                response: false,
                flags: 0,
                stream,
                opcode: opcode as u8,
                body_len: 0,
            };
            state.encoder.push_slice(header, body);
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

    fn deliver(&self, answer: Answer) {
        let waiting = self.state().waiting.remove(&answer.stream);
        if let Some(sender) = waiting {
            // Nobody may be waiting any more.
            let _ = sender.send(answer);
        }
    }

    fn end(&self, why: Option<String>) {
        let mut state = self.state();
        state.is_broken = true;
        // The first known cause is the one that ended it.
        state.why_broken = state.why_broken.take().or(why);
        state.waiting.clear();
    }
}

async fn read(mut half: Reading, is_encrypted: bool, shared: Arc<Shared>) {
    let mut incoming = Incoming::new(VERSION, Compression::None);
    let mut buffer = vec![0; READ_BYTES];
    let why = loop {
        let len = match half.read(&mut buffer).await {
            Ok(0) => break None,
            Ok(len) => len,
            // In TLS 1.3 it is here that a server says it wants a certificate.
            Err(e) if is_encrypted => break Some(format!("{:#}", explain(e))),
            Err(e) => break Some(e.to_string()),
        };
        let fed = incoming.feed(&buffer[..len], |answer| {
            if answer.accepts_startup() {
                let mut state = shared.state();
                state.encoder.set_mode(true, Compression::None);
            }
            shared.deliver(answer);
        });
        if fed.is_err() {
            break None;
        }
    };
    shared.end(why);
}

/// Whatever was asked while the previous bytes were written leaves together.
async fn write(mut half: Writing, shared: Arc<Shared>) {
    loop {
        let bytes = {
            let mut state = shared.state();
            state.encoder.take_pending()
        };
        if bytes.is_empty() {
            shared.to_write.notified().await;
            continue;
        }
        let mut written = half.write_all(&bytes).await;
        if written.is_ok() {
            written = half.flush().await;
        }
        if let Err(e) = written {
            return shared.end(Some(e.to_string()));
        }
    }
}
