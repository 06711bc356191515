//! An endpoint that answers from a script.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use helenus_wire::{
    Compression, Decoder, Encoder, ExecuteView, Flow, Header, Opcode, QueryView, ValueRef, Version,
    code, query_flags, write,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::client::shared::tests::push;

/// An EXECUTE or a QUERY that it got.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub value: Vec<u8>,
    pub state: Option<Vec<u8>>,
    pub skips_metadata: bool,
}

#[derive(Default)]
struct Script {
    seen: Mutex<Vec<Seen>>,
    /// Texts that were prepared.
    prepared: Mutex<Vec<String>>,
    is_silent: AtomicBool,
    has_other_ids: AtomicBool,
    accepted: AtomicUsize,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// Each read has one row: its value, with `suffix` behind it. Reads of values that begin with `more` have further
/// pages. It does not prepare what is about a table `missing`.
pub(super) struct Server {
    pub address: String,
    suffix: &'static [u8],
    script: Arc<Script>,
}

impl Server {
    pub(super) async fn start(suffix: &'static [u8]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = Server {
            address: listener.local_addr().expect("bound").to_string(),
            suffix,
            script: Arc::default(),
        };
        server.serve(listener);
        server
    }

    fn serve(&self, listener: TcpListener) {
        let (script, suffix) = (self.script.clone(), self.suffix);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                script.accepted.fetch_add(1, Ordering::Relaxed);
                let task = tokio::spawn(answer(stream, script.clone(), suffix));
                script
                    .tasks
                    .lock()
                    .expect("tasks")
                    .push(task.abort_handle());
            }
        });
        let mut tasks = self.script.tasks.lock().expect("tasks");
        tasks.push(accepting.abort_handle());
    }

    /// It is no more, and nor are its connections.
    pub(super) fn kill(&self) {
        let mut tasks = self.script.tasks.lock().expect("tasks");
        tasks.drain(..).for_each(|task| task.abort());
    }

    pub(super) async fn restart(&self) {
        let listener = loop {
            match TcpListener::bind(&self.address).await {
                Ok(listener) => break listener,
                // The one before is not closed yet.
                Err(_) => tokio::task::yield_now().await,
            }
        };
        self.serve(listener);
    }

    pub(super) fn be_silent(&self) {
        self.script.is_silent.store(true, Ordering::Relaxed);
    }

    /// From now on statements have other ids, and are not known by those that they had.
    pub(super) fn change_ids(&self) {
        self.script.has_other_ids.store(true, Ordering::Relaxed);
    }

    /// Connections so far.
    pub(super) fn accepted(&self) -> usize {
        self.script.accepted.load(Ordering::Relaxed)
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.script.seen.lock().expect("seen").clone()
    }

    pub(super) fn prepared(&self) -> Vec<String> {
        self.script.prepared.lock().expect("prepared").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn answer(mut stream: TcpStream, script: Arc<Script>, suffix: &[u8]) {
    let (mut decoder, mut encoder) = (Decoder::new(1 << 20), Encoder::new());
    let (mut buffer, mut scratch) = (vec![0; 4096], Vec::new());
    while let Ok(len @ 1..) = stream.read(&mut buffer).await {
        let mut requests = Vec::new();
        let fed = decoder.feed(&buffer[..len], &mut scratch, |header, body| {
            requests.push((header, body.to_vec()));
            Flow::Continue
        });
        fed.expect("requests");
        for (header, body) in requests {
            let id = match script.has_other_ids.load(Ordering::Relaxed) {
                true => 9,
                false => 7,
            };
            match Opcode::from_number(header.opcode) {
                Some(Opcode::Startup) => {
                    push(&mut encoder, header, Opcode::Ready, &[]);
                    stream.write_all(encoder.pending()).await.expect("written");
                    encoder = Encoder::new();
                    encoder.set_mode(true, Compression::None);
                    decoder.set_mode(true, Compression::None);
                }
                Some(Opcode::Prepare) => {
                    let length = u32::from_be_bytes(body[..4].try_into().expect("a length"));
                    let text = String::from_utf8_lossy(&body[4..4 + length as usize]).into_owned();
                    let (opcode, answer) = match text.contains("missing") {
                        true => (Opcode::Error, invalid(&text)),
                        false => (Opcode::Result, prepared(id)),
                    };
                    script.prepared.lock().expect("prepared").push(text);
                    push(&mut encoder, header, opcode, &answer);
                }
                Some(Opcode::Execute) if id_of(&body) != [id] => {
                    push(&mut encoder, header, Opcode::Error, &unprepared(&body));
                }
                _ => {
                    let seen = seen(header, &body);
                    let page = page(&seen, suffix);
                    script.seen.lock().expect("seen").push(seen);
                    if !script.is_silent.load(Ordering::Relaxed) {
                        push(&mut encoder, header, Opcode::Result, &page);
                    }
                }
            }
        }
        let bytes = encoder.take_pending();
        stream.write_all(&bytes).await.expect("written");
    }
}

fn seen(header: Header, body: &[u8]) -> Seen {
    let options = match header.opcode == Opcode::Query as u8 {
        true => QueryView::parse(body, Version::V5).expect("QUERY").options,
        false => {
            let execute = ExecuteView::parse(body, Version::V5);
            execute.expect("EXECUTE").options
        }
    };
    let Some(ValueRef::Set(value)) = options.values.get(0) else {
        panic!("no value");
    };
    Seen {
        value: value.to_vec(),
        state: options.paging_state.map(<[u8]>::to_vec),
        skips_metadata: options.flags & query_flags::SKIP_METADATA != 0,
    }
}

fn invalid(text: &str) -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, code::INVALID);
    let why = format!("table missing does not exist: {text}");
    write::string(&mut body, &why);
    body
}

fn id_of(execute: &[u8]) -> &[u8] {
    ExecuteView::parse(execute, Version::V5)
        .expect("EXECUTE")
        .id
}

fn unprepared(execute: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, code::UNPREPARED);
    write::string(&mut body, "not prepared");
    write::short_bytes(&mut body, id_of(execute));
    body
}

/// With one marker, the key.
fn prepared(id: u8) -> Vec<u8> {
    let mut body = Vec::new();
    write::i32(&mut body, 4);
    write::short_bytes(&mut body, &[id]);
    write::short_bytes(&mut body, &[8]);
    for number in [1, 1, 1] {
        write::i32(&mut body, number);
    }
    write::u16(&mut body, 0);
    for name in ["ks", "t", "k"] {
        write::string(&mut body, name);
    }
    write::u16(&mut body, 0x03);
    for number in [4, 0] {
        write::i32(&mut body, number);
    }
    body
}

/// Without a description of its columns.
fn page(of: &Seen, suffix: &[u8]) -> Vec<u8> {
    let has_more = of.value.starts_with(b"more") && of.state.is_none();
    let mut body = Vec::new();
    write::i32(&mut body, 2);
    write::u32(&mut body, if has_more { 4 | 2 } else { 4 });
    write::i32(&mut body, 1);
    if has_more {
        write::bytes(&mut body, Some(&further_state(&of.value)));
    }
    write::i32(&mut body, 1);
    write::bytes(&mut body, Some(&[&of.value[..], suffix].concat()));
    body
}

/// Where the second page of a value begins.
pub(super) fn further_state(value: &[u8]) -> Vec<u8> {
    [b"after ", value].concat()
}

/// Bytes of an answer with such a value.
pub(super) fn page_bytes(value: &[u8]) -> u64 {
    (5 * 4 + value.len()) as u64
}
