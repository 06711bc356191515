//! epoll in a plain loop: the same work without a runtime.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;

use anyhow::{Result, ensure};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use slab::Slab;

use super::BackEnd;
use crate::relay::{LINKS, READ_LEN, Relay};

const LISTENER: Token = Token(usize::MAX);

pub struct EpollBare;

struct Loop {
    relay: Relay,
    poll: Poll,
    sockets: Slab<TcpStream>,
    read_buf: Vec<u8>,
}

impl BackEnd for EpollBare {
    fn run(&self, listener: TcpListener, links: Vec<std::net::TcpStream>) -> Result<()> {
        let mut listener = mio::net::TcpListener::from_std(listener);
        let mut state = Loop {
            relay: Relay::new(),
            poll: Poll::new()?,
            sockets: Slab::new(),
            read_buf: vec![0; READ_LEN],
        };
        state
            .poll
            .registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        for link in links {
            state.insert(TcpStream::from_std(link))?;
        }
        let mut events = Events::with_capacity(1024);
        loop {
            if let Err(e) = state.poll.poll(&mut events, None) {
                ensure!(e.kind() == ErrorKind::Interrupted, e);
                continue;
            }
            for event in events.iter() {
                if event.token() == LISTENER {
                    state.accept(&listener)?;
                    continue;
                }
                let index = event.token().0;
                if event.is_writable() {
                    state.relay.on_writable(index);
                }
                if event.is_readable() {
                    state.read(index)?;
                }
            }
            while let Some(index) = state.relay.poll_dirty() {
                state.flush(index);
            }
        }
    }
}

impl Loop {
    fn insert(&mut self, mut tcp: TcpStream) -> Result<()> {
        let entry = self.sockets.vacant_entry();
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut tcp, Token(entry.key()), interest)?;
        entry.insert(tcp);
        Ok(())
    }

    fn accept(&mut self, listener: &mio::net::TcpListener) -> Result<()> {
        loop {
            match listener.accept() {
                Ok((client, _)) => {
                    client.set_nodelay(true)?;
                    self.relay.open();
                    self.insert(client)?;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Reads until the socket has given less than was asked for, as tokio does.
    fn read(&mut self, index: usize) -> Result<()> {
        loop {
            let Some(socket) = self.sockets.get_mut(index) else {
                return Ok(());
            };
            let open = match socket.read(&mut self.read_buf) {
                Ok(n) if n > 0 => {
                    let fed = self.relay.handle_bytes(index, &self.read_buf[..n]);
                    if fed.is_ok() && n < self.read_buf.len() {
                        return Ok(());
                    }
                    fed.is_ok()
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                _ => false,
            };
            if !open {
                ensure!(index >= LINKS, "a link broke");
                self.sockets.remove(index);
                self.relay.close(index);
                return Ok(());
            }
        }
    }

    fn flush(&mut self, index: usize) {
        loop {
            let pending = self.relay.pending(index);
            if pending.is_empty() {
                return;
            }
            match self.sockets[index].write(pending) {
                Ok(n) => self.relay.on_written(index, n),
                Err(e) => {
                    if e.kind() == ErrorKind::WouldBlock {
                        self.relay.on_blocked(index);
                    }
                    // Reading tells what else is wrong.
                    return;
                }
            }
        }
    }
}
