//! epoll as the proxy uses it: tokio on one thread, a task a socket, one read buffer for all, and a
//! flusher task queued behind all tasks that are ready.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use anyhow::{Result, bail};
use slab::Slab;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use super::BackEnd;
use crate::relay::{LINKS, READ_LEN, Relay};

pub struct Epoll;

struct Socket {
    tcp: TcpStream,
    waker: Option<Waker>,
}

struct State {
    relay: Relay,
    sockets: Slab<Socket>,
    read_buf: Vec<u8>,
    flusher: Option<Waker>,
    acceptor: Option<Waker>,
    link_broke: bool,
}

impl BackEnd for Epoll {
    fn run(&self, listener: TcpListener, links: Vec<std::net::TcpStream>) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        tokio::task::LocalSet::new().block_on(&runtime, serve(listener, links))
    }
}

async fn serve(listener: TcpListener, links: Vec<std::net::TcpStream>) -> Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let state = Rc::new(RefCell::new(State {
        relay: Relay::new(),
        sockets: Slab::new(),
        read_buf: vec![0; READ_LEN],
        flusher: None,
        acceptor: None,
        link_broke: false,
    }));
    for link in links {
        spawn(&state, TcpStream::from_std(link)?);
    }
    let flushing = state.clone();
    tokio::task::spawn_local(poll_fn::<(), _>(move |cx| {
        flushing.borrow_mut().flush_dirty(cx)
    }));
    loop {
        let accepted = poll_fn(|cx| {
            let mut state = state.borrow_mut();
            state.acceptor = Some(cx.waker().clone());
            if state.link_broke {
                return Poll::Ready(Ok(None));
            }
            listener.poll_accept(cx).map_ok(|(client, _)| Some(client))
        });
        let Some(client) = accepted.await? else {
            bail!("a link broke");
        };
        client.set_nodelay(true)?;
        state.borrow_mut().relay.open();
        spawn(&state, client);
    }
}

/// Starts the task of a socket, whose index is the same here and in the relay.
fn spawn(state: &Rc<RefCell<State>>, tcp: TcpStream) {
    let index = state
        .borrow_mut()
        .sockets
        .insert(Socket { tcp, waker: None });
    let state = state.clone();
    tokio::task::spawn_local(poll_fn(move |cx| state.borrow_mut().poll_socket(index, cx)));
}

impl State {
    fn poll_socket(&mut self, index: usize, cx: &mut Context<'_>) -> Poll<()> {
        let socket = &mut self.sockets[index];
        match &socket.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => socket.waker = Some(cx.waker().clone()),
        }
        if self.relay.is_blocked(index) && socket.tcp.poll_write_ready(cx).is_ready() {
            self.relay.on_writable(index);
            self.wake_flusher();
        }
        for _ in 0..4 {
            let mut buf = ReadBuf::new(&mut self.read_buf);
            let tcp = Pin::new(&mut self.sockets[index].tcp);
            let open = match tcp.poll_read(cx, &mut buf) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                    self.relay.handle_bytes(index, buf.filled()).is_ok()
                }
                Poll::Ready(_) => false,
            };
            if !open && index < LINKS {
                self.link_broke = true;
                if let Some(waker) = self.acceptor.take() {
                    waker.wake();
                }
                return Poll::Ready(());
            }
            if !open {
                self.sockets.remove(index);
                self.relay.close(index);
                return Poll::Ready(());
            }
            if self.relay.is_dirty() {
                self.wake_flusher();
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn wake_flusher(&mut self) {
        if let Some(waker) = self.flusher.take() {
            waker.wake();
        }
    }

    fn flush_dirty(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(index) = self.relay.poll_dirty() {
            self.flush(index);
        }
        self.flusher = Some(cx.waker().clone());
        Poll::Pending
    }

    fn flush(&mut self, index: usize) {
        let socket = &self.sockets[index];
        loop {
            let pending = self.relay.pending(index);
            if pending.is_empty() {
                return;
            }
            match socket.tcp.try_write(pending) {
                Ok(n) => self.relay.on_written(index, n),
                Err(e) => {
                    if e.kind() == ErrorKind::WouldBlock {
                        self.relay.on_blocked(index);
                    }
                    // Reading tells what else is wrong.
                    if let Some(waker) = &socket.waker {
                        waker.wake_by_ref();
                    }
                    return;
                }
            }
        }
    }
}
