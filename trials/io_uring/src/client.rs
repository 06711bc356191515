//! A closed loop: each connection has one request under way, always.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use helenus_wire::{Decoder, Encoder, Flow, HEADER_LEN};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde::{Deserialize, Serialize};

use crate::relay::{framed, header};

const REQUEST_LEN: usize = 64;

/// What one slice of time brought.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Slice {
    pub queries: u64,
    pub elapsed_us: u64,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
}

struct Conn {
    tcp: TcpStream,
    decoder: Decoder,
    encoder: Encoder,
    body: [u8; REQUEST_LEN - HEADER_LEN],
    stream: i16,
    asked: Instant,
}

/// Connections to one relay.
pub struct Client {
    poll: Poll,
    events: Events,
    conns: Vec<Conn>,
    buf: Vec<u8>,
    scratch: Vec<u8>,
}

impl Client {
    pub fn connect(relay: SocketAddr, connections: usize) -> Result<Client> {
        let poll = Poll::new()?;
        let mut conns = Vec::new();
        for index in 0..connections {
            let tcp = std::net::TcpStream::connect(relay).context("no relay there")?;
            tcp.set_nodelay(true)?;
            tcp.set_nonblocking(true)?;
            let mut tcp = TcpStream::from_std(tcp);
            poll.registry()
                .register(&mut tcp, Token(index), Interest::READABLE)?;
            let (decoder, encoder) = framed();
            let mut body = [0x5A; REQUEST_LEN - HEADER_LEN];
            body[..8].copy_from_slice(&(index as u64).to_be_bytes());
            conns.push(Conn {
                tcp,
                decoder,
                encoder,
                body,
                stream: 0,
                asked: Instant::now(),
            });
        }
        Ok(Client {
            poll,
            events: Events::with_capacity(1024),
            conns,
            buf: vec![0; 16 * 1024],
            scratch: Vec::new(),
        })
    }

    /// Asks for `wanted`, and waits for the last answers.
    pub fn run(&mut self, wanted: Duration) -> Result<Slice> {
        let mut latency_ns = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
        let start = Instant::now();
        for conn in &mut self.conns {
            conn.ask()?;
        }
        let mut waiting = self.conns.len();
        while waiting > 0 {
            self.poll
                .poll(&mut self.events, Some(Duration::from_secs(5)))?;
            ensure!(!self.events.is_empty(), "{waiting} answers never came");
            for event in self.events.iter() {
                let conn = &mut self.conns[event.token().0];
                let n = match conn.tcp.read(&mut self.buf) {
                    Ok(0) => bail!("the relay closed a connection"),
                    Ok(n) => n,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => continue,
                    Err(e) => return Err(e.into()),
                };
                let mut answers = 0;
                let (body, stream) = (&conn.body, conn.stream);
                conn.decoder
                    .feed(&self.buf[..n], &mut self.scratch, |header, answer| {
                        // Anything but the own answer makes the count differ from one.
                        answers += if header.stream == stream && answer == body {
                            1
                        } else {
                            1000
                        };
                        Flow::Continue
                    })?;
                if answers == 0 {
                    continue;
                }
                ensure!(answers == 1, "an answer came that nobody asked for");
                let now = Instant::now();
                latency_ns.saturating_record((now - conn.asked).as_nanos() as u64);
                if now - start < wanted {
                    conn.ask()?;
                } else {
                    waiting -= 1;
                }
            }
        }
        Ok(Slice {
            queries: latency_ns.len(),
            elapsed_us: start.elapsed().as_micros() as u64,
            latency_us_p50: latency_ns.value_at_quantile(0.5) as f64 / 1e3,
            latency_us_p99: latency_ns.value_at_quantile(0.99) as f64 / 1e3,
        })
    }
}

impl Conn {
    fn ask(&mut self) -> Result<()> {
        self.stream = self.stream.wrapping_add(1) & 0x7FFF;
        self.encoder
            .push_slice(header(self.stream, false), &self.body);
        self.asked = Instant::now();
        let pending = self.encoder.pending();
        // A connection with one small request under way always has room for it.
        self.tcp.write_all(pending)?;
        let n = pending.len();
        self.encoder.advance(n);
        Ok(())
    }
}
