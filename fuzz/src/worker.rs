//! A worker: an engine, and the sockets whose bytes it is handed. It does what the proxy's own worker
//! does with tasks and timers, and looks at a socket only when it has been woken, as that does.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use helenus_engine::output::{HeldAnswer, LinkEnd, Output};
use helenus_engine::session::connection::Next;
use helenus_engine::shared::WorkerMessage;
use helenus_engine::{Engine, LinkKey, SessionKey};

use crate::client::{Client, End};
use crate::node::Link;

/// Steps of one connection within a turn, each of which takes bytes or ends something.
const STEPS_MAX: usize = 100_000;
/// Outputs of one turn at most: a few wishes for each request.
const OUTPUTS_MAX: usize = 10_000;

/// See the module.
pub struct Worker {
    pub engine: Engine,
    pub clients: Vec<Client>,
    pub links: Vec<Link>,
    pub messages: VecDeque<WorkerMessage>,
    /// Dials and held answers for which it waits.
    pub dials: Vec<(LinkKey, SocketAddr)>,
    pub held: Vec<(Instant, HeldAnswer)>,
}

impl Worker {
    pub fn new(engine: Engine) -> Worker {
        Worker {
            engine,
            clients: Vec::new(),
            links: Vec::new(),
            messages: VecDeque::new(),
            dials: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Looks at all sockets that have been woken, does what the engine asks for and flushes; true if
    /// there was something to do. Messages for other workers go to `tell`.
    pub fn turn(&mut self, now: Instant, mut tell: impl FnMut(usize, WorkerMessage)) -> bool {
        let mut is_busy = false;
        while let Some(message) = self.messages.pop_front() {
            is_busy = true;
            self.engine.on_message(now, message);
        }
        for at in (0..self.clients.len()).rev() {
            if std::mem::take(&mut self.clients[at].socket.woken) {
                is_busy = true;
                self.serve_client(now, at);
            }
        }
        for at in (0..self.links.len()).rev() {
            if std::mem::take(&mut self.links[at].socket.woken) {
                is_busy = true;
                self.serve_link(now, at);
            }
        }
        let mut outputs = 0;
        while let Some(output) = self.engine.poll_output() {
            outputs += 1;
            assert!(outputs < OUTPUTS_MAX, "the engine asks for more and more");
            match output {
                Output::Client(key) => {
                    if let Some(client) = self.client(key) {
                        client.socket.woken = true;
                    }
                }
                Output::Link(key) => {
                    if let Some(link) = self.link(key) {
                        link.socket.woken = true;
                    }
                }
                Output::Dial(key, address) => self.dials.push((key, address)),
                Output::Agree(held) => self.held.push((now + held.limit, held)),
                Output::Tell(worker, message) => tell(worker, message),
                // A statement that no node knows stays unknown.
                Output::Recall(_) => {}
                // Nobody asks.
                Output::Report(..) | Output::Feature(_) => {}
            }
        }
        self.flush(now);
        is_busy || outputs > 0 || self.clients.iter().any(|client| client.socket.woken)
    }

    /// Nothing is left to be done for a connection that nobody will be woken for.
    pub fn expect_rest(&mut self, now: Instant) {
        for client in &self.clients {
            match self.engine.next_for_client(now, client.key) {
                Some(Next::Wait | Next::Linger) => {}
                // It is looked at when it reads on.
                Some(Next::Read { .. }) if self.engine.is_client_blocked(client.key) => {}
                Some(Next::Read { leaving: false }) => {
                    assert!(!client.socket.has_some(), "a client is not listened to");
                }
                other => panic!("nobody hears that a client is to be dealt with: {other:?}"),
            }
        }
        for link in &self.links {
            assert!(
                self.engine.is_link_open(link.key),
                "nobody hears of its end"
            );
            assert!(!link.socket.has_some(), "a node is not listened to");
        }
    }

    fn serve_client(&mut self, now: Instant, at: usize) {
        let key = self.clients[at].key;
        if self.engine.is_client_blocked(key) {
            self.write_client(now, key);
        }
        for _ in 0..STEPS_MAX {
            let client = &mut self.clients[at];
            let Some(next) = self.engine.next_for_client(now, key) else {
                self.clients.remove(at);
                return;
            };
            match next {
                Next::Wait => return,
                Next::ShutDown => {
                    self.engine.on_client_shut_down(now, key);
                    continue;
                }
                // A client that sends nothing any more has not noticed yet.
                Next::Linger if client.socket.portion == 0 => return,
                Next::Linger | Next::Close => {
                    self.clients.remove(at);
                    self.engine.close_session(now, key);
                    return;
                }
                Next::Read { leaving } => {
                    let bytes = client.socket.read();
                    match client.end {
                        _ if !bytes.is_empty() => {
                            self.engine.on_client_bytes(now, key, &bytes);
                            if self.engine.is_immediate() {
                                self.flush(now);
                            }
                        }
                        Some(end) if client.socket.is_drained() => {
                            self.engine.on_client_end(now, key, end == End::Broken);
                        }
                        _ if leaving => self.engine.finish(now, key),
                        _ => return,
                    }
                }
            }
        }
        panic!("a client is never done with");
    }

    fn serve_link(&mut self, now: Instant, at: usize) {
        let key = self.links[at].key;
        if self.engine.is_link_blocked(key) {
            self.write_link(now, key);
        }
        for _ in 0..STEPS_MAX {
            if !self.engine.is_link_open(key) {
                self.links.remove(at);
                return;
            }
            let link = &mut self.links[at];
            let bytes = link.socket.read();
            if !bytes.is_empty() {
                self.engine.on_link_bytes(now, key, &bytes);
                if self.engine.is_immediate() {
                    self.flush(now);
                }
            } else if link.is_closed {
                let why = (LinkEnd::ByNode, "the node closed it");
                self.engine.on_link_closed(now, key, why, None);
            } else {
                return;
            }
        }
        panic!("a link is never done with");
    }

    /// Writes what may leave now.
    fn flush(&mut self, now: Instant) {
        if self.engine.has_window() {
            for key in self.engine.links_due(now).0 {
                self.write_link(now, key);
            }
        } else {
            while let Some(key) = self.engine.next_link_to_write() {
                self.write_link(now, key);
            }
        }
        while let Some(key) = self.engine.next_client_to_write() {
            self.write_client(now, key);
            // The bytes that it waited for may have left.
            if self.engine.is_client_held(key)
                && let Some(client) = self.client(key)
            {
                client.socket.woken = true;
            }
        }
    }

    fn write_client(&mut self, now: Instant, key: SessionKey) {
        let mut clients = self.clients.iter_mut();
        if let Some(client) = clients.find(|client| client.key == key)
            && let Some(outbox) = self.engine.client_bytes(key)
        {
            let sent = client.socket.send(outbox);
            self.engine.on_client_sent(now, key, sent);
            client.read();
        }
    }

    fn write_link(&mut self, now: Instant, key: LinkKey) {
        let mut links = self.links.iter_mut();
        if let Some(link) = links.find(|link| link.key == key)
            && let Some(encoder) = self.engine.link_bytes(key)
        {
            let sent = link.socket.send(encoder);
            self.engine.on_link_sent(now, key, sent);
            link.read();
        }
    }

    pub fn client(&mut self, key: SessionKey) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.key == key)
    }

    fn link(&mut self, key: LinkKey) -> Option<&mut Link> {
        self.links.iter_mut().find(|link| link.key == key)
    }
}
