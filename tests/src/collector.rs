//! A collector of traces that answers what a test tells it, and keeps what it gets.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};

use crate::protobuf::Message;

/// A POST, as it came.
#[derive(Clone, Debug)]
pub struct Post {
    /// Request line and headers.
    pub head: String,
    pub body: Vec<u8>,
}

/// A collector's answer to a POST.
#[derive(Clone, Debug)]
pub enum Said {
    Status(u16),
    /// Nothing, ever.
    Nothing,
    /// These bytes, whatever they are.
    Bytes(Vec<u8>),
}

/// One that lives as long as the process.
pub struct Collector {
    pub address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    posts: Vec<Post>,
    /// The answers to the next POSTs; afterwards 200.
    answers: Vec<Said>,
}

/// A span, by the names of `opentelemetry/proto/trace/v1/trace.proto`.
#[derive(Clone, Debug, Default)]
pub struct Span {
    pub trace_id: Vec<u8>,
    pub span_id: Vec<u8>,
    pub parent_span_id: Vec<u8>,
    pub name: String,
    pub kind: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    pub attributes: BTreeMap<String, String>,
    pub is_error: bool,
}

impl Collector {
    /// # Errors
    /// There is no port.
    pub fn start() -> Result<Collector> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Mutex::new(Shared::default()));
        let of_thread = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = of_thread.clone();
                // Whoever hangs up ends its own thread.
                thread::spawn(move || serve(&shared, stream));
            }
        });
        Ok(Collector { address, shared })
    }

    /// The setting that names it.
    pub fn setting(&self) -> String {
        format!("tracing.endpoint=http://{}", self.address)
    }

    /// Sets the answers to the next POSTs.
    pub fn answer(&self, answers: Vec<Said>) {
        lock(&self.shared).answers = answers;
    }

    pub fn posts(&self) -> Vec<Post> {
        lock(&self.shared).posts.clone()
    }

    /// All spans that have come, and the attributes of the resource of the last.
    ///
    /// # Errors
    /// A message that came is not what it should be.
    pub fn spans(&self) -> Result<(Vec<Span>, BTreeMap<String, String>)> {
        let (mut spans, mut resource) = (Vec::new(), BTreeMap::new());
        for post in self.posts() {
            for of_resource in Message::parse(&post.body)?.messages(1)? {
                for found in of_resource.messages(1)? {
                    resource = attributes(&found, 1)?;
                }
                for scope in of_resource.messages(2)? {
                    for span in scope.messages(2)? {
                        spans.push(span_of(&span)?);
                    }
                }
            }
        }
        Ok((spans, resource))
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(shared: &Mutex<Shared>, stream: TcpStream) -> Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let answer = {
        let mut shared = lock(shared);
        shared.posts.push(Post { head, body });
        match shared.answers.is_empty() {
            true => Said::Status(200),
            false => shared.answers.remove(0),
        }
    };
    let mut stream = reader.into_inner();
    match answer {
        Said::Status(status) => {
            let answer = format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes())?;
        }
        Said::Bytes(bytes) => stream.write_all(&bytes)?,
        // Until the other side gives up.
        Said::Nothing => drop(stream.read(&mut [0])),
    }
    Ok(())
}

fn attributes(of: &Message, field: u64) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for entry in of.messages(field)? {
        let value = entry.messages(2)?.pop().context("a value")?;
        let shown = match (value.text(1), value.number(2), value.number(3)) {
            (Some(text), ..) => text.to_owned(),
            (_, Some(bool), _) => (bool == 1).to_string(),
            (_, _, Some(number)) => (number as i64).to_string(),
            // Protobuf leaves out zeros, but not within a choice.
            _ => anyhow::bail!("a value of another type"),
        };
        found.insert(entry.text(1).context("a key")?.to_owned(), shown);
    }
    Ok(found)
}

fn span_of(of: &Message) -> Result<Span> {
    let bytes = |field| of.bytes(field).unwrap_or_default().to_vec();
    let status = of.messages(15)?.pop();
    Ok(Span {
        trace_id: bytes(1),
        span_id: bytes(2),
        parent_span_id: bytes(4),
        name: of.text(5).unwrap_or_default().to_owned(),
        kind: of.number(6).unwrap_or_default(),
        start_ns: of.number(7).context("a start")?,
        end_ns: of.number(8).context("an end")?,
        attributes: attributes(of, 9)?,
        is_error: status.is_some_and(|status| status.number(3) == Some(2)),
    })
}
