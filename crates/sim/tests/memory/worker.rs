//! A worker: an engine, every call of which is measured, and the sockets whose bytes it is handed.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use helenus_engine::output::{Agreement, Dialed, Output};
use helenus_engine::session::connection::Next;
use helenus_engine::shared::WorkerMessage;
use helenus_engine::{Engine, LinkKey, SessionKey};
use helenus_sim::dice::Dice;
use helenus_wire::Version;

use crate::client::{Answers, Client};
use crate::counting::{held, inside};
use crate::node::{Known, Link};
use crate::socket::Socket;

/// More than one turn may ask for.
const STEPS_MAX: usize = 100_000;

/// Memory that calls of engines leave held, and the bound on it.
pub(crate) struct Meter {
    /// No call may leave more.
    pub(crate) bound: usize,
    pub(crate) most: usize,
    pub(crate) calls: u64,
    /// Calls that have left more than this, and so come near to the bound.
    pub(crate) near: usize,
    pub(crate) calls_near: u64,
    /// The words to be said if the bound is broken.
    pub(crate) replay: String,
}

impl Meter {
    pub(crate) fn call<R>(&mut self, engine: &mut Engine, act: impl FnOnce(&mut Engine) -> R) -> R {
        let result = inside(|| act(engine));
        let held = held();
        self.calls += 1;
        self.calls_near += u64::from(held > self.near);
        self.most = self.most.max(held);
        assert!(
            held <= self.bound,
            "{held} bytes are held, {} of which are accounted for by this worker; {} are allowed. {}",
            engine.bytes_held(),
            self.bound,
            self.replay
        );
        result
    }
}

/// The surroundings of a worker in its turn.
pub(crate) struct Around<'a> {
    pub(crate) now: Instant,
    pub(crate) now_ms: u64,
    pub(crate) version: Version,
    pub(crate) meter: &'a mut Meter,
    pub(crate) dice: &'a mut Dice,
    pub(crate) known: &'a mut Known,
    pub(crate) answers: &'a mut Answers,
    /// Where engines write to: it never grows.
    pub(crate) buffer: &'a mut Vec<u8>,
}

pub(crate) struct Worker {
    pub(crate) engine: Engine,
    pub(crate) clients: Vec<Client>,
    pub(crate) links: Vec<Link>,
    pub(crate) messages: VecDeque<WorkerMessage>,
}

impl Worker {
    pub(crate) fn new(engine: Engine) -> Worker {
        Worker {
            engine,
            clients: Vec::new(),
            links: Vec::new(),
            messages: VecDeque::new(),
        }
    }

    pub(crate) fn keep_time(&mut self, around: &mut Around<'_>, wall: Duration) {
        if self.engine.deadline() <= around.now {
            let now = around.now;
            around
                .meter
                .call(&mut self.engine, |engine| engine.on_deadline(now, wall));
        }
    }

    /// Looks at all sockets that have been woken, does what the engine asks for and flushes; true if there was
    /// something to do. Messages for other workers go to `told`.
    pub(crate) fn turn(
        &mut self,
        around: &mut Around<'_>,
        told: &mut Vec<(usize, WorkerMessage)>,
    ) -> bool {
        let now = around.now;
        let mut is_busy = false;
        while let Some(message) = self.messages.pop_front() {
            is_busy = true;
            around
                .meter
                .call(&mut self.engine, |engine| engine.on_message(now, message));
        }
        for at in (0..self.clients.len()).rev() {
            if std::mem::take(&mut self.clients[at].socket.woken) {
                is_busy = true;
                self.serve_client(around, at);
            }
        }
        for at in (0..self.links.len()).rev() {
            if std::mem::take(&mut self.links[at].socket.woken) {
                is_busy = true;
                self.serve_link(around, at);
            }
        }
        while let Some(output) = around.meter.call(&mut self.engine, Engine::poll_output) {
            is_busy = true;
            self.carry_out(around, output, told);
        }
        self.flush(around);
        is_busy
    }

    fn carry_out(
        &mut self,
        around: &mut Around<'_>,
        output: Output,
        told: &mut Vec<(usize, WorkerMessage)>,
    ) {
        match output {
            Output::Client(key) => {
                if let Some(client) = self.clients.iter_mut().find(|client| client.key == key) {
                    client.socket.woken = true;
                }
            }
            Output::Link(key) => {
                if let Some(link) = self.links.iter_mut().find(|link| link.key == key) {
                    link.socket.woken = true;
                }
            }
            Output::Dial(key, address) => self.dial(around, key, address),
            Output::Agree(held) => {
                let now = around.now;
                around.meter.call(&mut self.engine, |engine| {
                    engine.on_agreed(now, &held, &Agreement::Reached);
                });
            }
            Output::Tell(worker, message) => told.push((worker, message)),
            // Nobody knows, and nobody asks.
            Output::Recall(_) | Output::Report(..) | Output::Feature(_) => {}
        }
    }

    fn dial(&mut self, around: &mut Around<'_>, key: LinkKey, _address: SocketAddr) {
        let now = around.now;
        let is_wanted = around.meter.call(&mut self.engine, |engine| {
            engine.on_dialed(now, key, Ok(Dialed::default()))
        });
        if is_wanted {
            self.links.push(Link::new(key, around.version));
        }
    }

    fn serve_client(&mut self, around: &mut Around<'_>, at: usize) {
        let (now, key) = (around.now, self.clients[at].key);
        if self.engine.is_client_blocked(key) {
            self.write_client(around, key);
        }
        for _ in 0..STEPS_MAX {
            let next = around
                .meter
                .call(&mut self.engine, |engine| engine.next_for_client(now, key));
            match next {
                None => {
                    self.clients.remove(at);
                    return;
                }
                Some(Next::Wait) => return,
                Some(Next::ShutDown) => {
                    around.meter.call(&mut self.engine, |engine| {
                        engine.on_client_shut_down(now, key)
                    });
                }
                Some(Next::Linger | Next::Close) => {
                    around
                        .meter
                        .call(&mut self.engine, |engine| engine.close_session(now, key));
                    self.clients.remove(at);
                    return;
                }
                Some(Next::Read { leaving }) => {
                    let bytes = self.clients[at].socket.read();
                    if !bytes.is_empty() {
                        around.meter.call(&mut self.engine, |engine| {
                            engine.on_client_bytes(now, key, &bytes);
                        });
                        if self.engine.is_immediate() {
                            self.flush(around);
                        }
                    } else if leaving {
                        around
                            .meter
                            .call(&mut self.engine, |engine| engine.finish(now, key));
                    } else {
                        return;
                    }
                }
            }
        }
        panic!("a client is never done with");
    }

    fn serve_link(&mut self, around: &mut Around<'_>, at: usize) {
        let (now, key) = (around.now, self.links[at].key);
        if self.engine.is_link_blocked(key) {
            self.write_link(around, key);
        }
        loop {
            if !self.engine.is_link_open(key) {
                self.links.remove(at);
                return;
            }
            let bytes = self.links[at].socket.read();
            if bytes.is_empty() {
                return;
            }
            around.meter.call(&mut self.engine, |engine| {
                engine.on_link_bytes(now, key, &bytes)
            });
            if self.engine.is_immediate() {
                self.flush(around);
            }
        }
    }

    /// Writes what may leave now.
    fn flush(&mut self, around: &mut Around<'_>) {
        let now = around.now;
        if self.engine.has_window() {
            let (due, _) = around
                .meter
                .call(&mut self.engine, |engine| engine.links_due(now));
            for key in due {
                self.write_link(around, key);
            }
        } else {
            while let Some(key) = around
                .meter
                .call(&mut self.engine, Engine::next_link_to_write)
            {
                self.write_link(around, key);
            }
        }
        while let Some(key) = around
            .meter
            .call(&mut self.engine, Engine::next_client_to_write)
        {
            self.write_client(around, key);
            // The bytes that it waited for may have left.
            if self.engine.is_client_held(key)
                && let Some(client) = self.clients.iter_mut().find(|client| client.key == key)
            {
                client.socket.woken = true;
            }
        }
    }

    fn write_client(&mut self, around: &mut Around<'_>, key: SessionKey) {
        let Some(client) = self.clients.iter_mut().find(|client| client.key == key) else {
            return;
        };
        let (now, buffer) = (around.now, &mut *around.buffer);
        buffer.clear();
        around.meter.call(&mut self.engine, |engine| {
            if let Some(outbox) = engine.client_bytes(key) {
                let sent = client.socket.take(outbox, buffer);
                engine.on_client_sent(now, key, sent);
            }
        });
        client.read(around.buffer, around.answers);
    }

    fn write_link(&mut self, around: &mut Around<'_>, key: LinkKey) {
        let Some(link) = self.links.iter_mut().find(|link| link.key == key) else {
            return;
        };
        let (now, buffer) = (around.now, &mut *around.buffer);
        buffer.clear();
        around.meter.call(&mut self.engine, |engine| {
            if let Some(encoder) = engine.link_bytes(key) {
                let sent = link.socket.take(encoder, buffer);
                engine.on_link_sent(now, key, sent);
            }
        });
        link.read(around.buffer, around.known, around.now_ms, around.dice);
    }

    /// A buffer as its sockets lend it to the engine.
    pub(crate) fn buffer() -> Vec<u8> {
        Socket::buffer()
    }
}
