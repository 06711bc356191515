//! A closed loop: each connection has so many requests under way, always.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use helenus_wire::{Decoder, Encoder, Flow, HEADER_LEN};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde::{Deserialize, Serialize};

use crate::relay::{framed, header};

const REQUEST_LEN: usize = 64;

/// Connections, and requests under way on each; as text `16x32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    pub connections: usize,
    pub in_flight: usize,
}

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
    /// When each stream's request left; none is under way where there is no time.
    asked: Vec<Option<Instant>>,
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
    pub fn connect(relay: SocketAddr, load: Load) -> Result<Client> {
        let poll = Poll::new()?;
        let mut conns = Vec::new();
        for index in 0..load.connections {
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
                asked: vec![None; load.in_flight],
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
        let mut waiting = 0;
        for conn in &mut self.conns {
            for stream in 0..conn.asked.len() {
                conn.ask(stream, start);
                waiting += 1;
            }
            conn.flush()?;
        }
        while waiting > 0 {
            let patience = Some(Duration::from_secs(5));
            match self.poll.poll(&mut self.events, patience) {
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            ensure!(!self.events.is_empty(), "{waiting} answers never came");
            for event in self.events.iter() {
                let conn = &mut self.conns[event.token().0];
                let n = match conn.tcp.read(&mut self.buf) {
                    Ok(0) => bail!("the relay closed a connection"),
                    Ok(n) => n,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => continue,
                    Err(e) => return Err(e.into()),
                };
                ensure!(n < self.buf.len(), "more has come than was asked for");
                let now = Instant::now();
                let more = now - start < wanted;
                let mut decoder = std::mem::replace(&mut conn.decoder, Decoder::new(0));
                let mut right = true;
                decoder.feed(&self.buf[..n], &mut self.scratch, |header, answer| {
                    let stream = header.stream as usize;
                    let asked = conn.asked.get_mut(stream).and_then(Option::take);
                    let Some(asked) = asked.filter(|_| answer == conn.body) else {
                        right = false;
                        return Flow::Continue;
                    };
                    latency_ns.saturating_record((now - asked).as_nanos() as u64);
                    if more {
                        conn.ask(stream, now);
                    } else {
                        waiting -= 1;
                    }
                    Flow::Continue
                })?;
                conn.decoder = decoder;
                ensure!(right, "an answer came that nobody had asked for");
                conn.flush()?;
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
    fn ask(&mut self, stream: usize, now: Instant) {
        self.encoder
            .push_slice(header(stream as i16, false), &self.body);
        self.asked[stream] = Some(now);
    }

    fn flush(&mut self) -> Result<()> {
        let pending = self.encoder.pending();
        // So little is under way that the socket always has room for it.
        self.tcp.write_all(pending)?;
        let n = pending.len();
        self.encoder.advance(n);
        Ok(())
    }
}

impl FromStr for Load {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Load, Self::Err> {
        let (connections, in_flight) = text.split_once('x').unwrap_or((text, "1"));
        let within = |text: &str, max: usize| {
            let number = text.parse().ok();
            number.filter(|n| (1..=max).contains(n))
        };
        Ok(Load {
            connections: within(connections, 4000).ok_or("1 to 4000 connections, please")?,
            in_flight: within(in_flight, 128).ok_or("1 to 128 in flight, please")?,
        })
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.connections, self.in_flight)
    }
}
