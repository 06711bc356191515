//! io_uring: every socket has one multishot receive that stays armed, data comes in buffers that the
//! kernel takes from a ring, and one `io_uring_enter` a turn submits all sends and waits for more.

#![allow(unsafe_code)]

mod buffers;

use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};

use anyhow::{Context, Result, ensure};
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, Fixed};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};
use slab::Slab;

use super::BackEnd;
use crate::counts::count_enter;
use crate::relay::{LINKS, READ_LEN, Relay};
use buffers::Buffers;

const ENTRIES: u32 = 4096;
const CLIENTS: u16 = 0;
const NODES: u16 = 1;
/// Slots for what clients send; a length off the powers of two spreads them over the cache.
const SLOT_LEN: usize = 2048 + 64;
const SLOTS: u16 = 2048;

/// Variants of the ring.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// DEFER_TASKRUN, or else COOP_TASKRUN.
    pub defer: bool,
    /// Few buffers of the epoll back ends' size, filled bit by bit (Linux 6.12), instead of a slot
    /// a receive.
    pub incremental: bool,
    /// Look once more for what has come meanwhile before anything is sent: a second system call a
    /// turn, for larger turns.
    pub gather: bool,
}

/// What a completion is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Accept,
    Receive,
    Send,
    Writable,
}

#[derive(Clone, Copy)]
struct Done {
    op: Op,
    index: usize,
    generation: u32,
    result: i32,
    flags: u32,
}

struct Loop {
    // Dropped first: nothing of the below is freed while the kernel may still use it.
    ring: IoUring,
    relay: Relay,
    listener: TcpListener,
    sockets: Slab<TcpStream>,
    /// For clients and for links.
    buffers: [Buffers; 2],
    done: Vec<Done>,
    /// Sends of the turn: connection and length.
    sent: Vec<(usize, u32)>,
}

/// Whether this kernel lets us.
pub fn probe(setup: Setup) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    Loop::new(setup, listener).map(drop)
}

impl BackEnd for Setup {
    fn run(&self, listener: TcpListener, links: Vec<TcpStream>) -> Result<()> {
        let mut state = Loop::new(*self, listener)?;
        state.watch_listener()?;
        for link in links {
            state.insert(link)?;
        }
        loop {
            state.enter()?;
            state.settle_sends()?;
            state.handle_all()?;
            if self.gather {
                state.gather()?;
                state.handle_all()?;
            }
            state.flush()?;
        }
    }
}

impl Loop {
    fn new(setup: Setup, listener: TcpListener) -> Result<Loop> {
        let mut builder = IoUring::builder();
        builder
            .setup_cqsize(4 * ENTRIES)
            .setup_submit_all()
            .setup_single_issuer();
        if setup.defer {
            builder.setup_defer_taskrun();
        } else {
            builder.setup_coop_taskrun();
        }
        let ring = builder.build(ENTRIES).context("io_uring_setup")?;
        ring.submitter()
            .register_files_sparse(ENTRIES)
            .context("registering files")?;
        let buffers = if setup.incremental {
            [
                Buffers::register(&ring, CLIENTS, 8, READ_LEN, true)?,
                Buffers::register(&ring, NODES, 8, READ_LEN, true)?,
            ]
        } else {
            [
                Buffers::register(&ring, CLIENTS, SLOTS, SLOT_LEN, false)?,
                Buffers::register(&ring, NODES, 16, READ_LEN, false)?,
            ]
        };
        Ok(Loop {
            ring,
            relay: Relay::new(),
            listener,
            sockets: Slab::new(),
            buffers,
            done: Vec::new(),
            sent: Vec::new(),
        })
    }

    /// The one system call of a turn.
    fn enter(&mut self) -> Result<()> {
        count_enter();
        uninterrupted(self.ring.submit_and_wait(1))?;
        // What an interrupted call has left would be sent from memory that has changed.
        while !self.ring.submission().is_empty() {
            count_enter();
            uninterrupted(self.ring.submit())?;
        }
        self.take_done();
        Ok(())
    }

    /// Takes what has come, and neither submits nor waits.
    fn gather(&mut self) -> Result<()> {
        count_enter();
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: without submission and without an argument, the kernel is given no memory.
        let entered = unsafe { self.ring.submitter().enter::<()>(0, 0, flags, None) };
        uninterrupted(entered)?;
        self.take_done();
        Ok(())
    }

    fn take_done(&mut self) {
        self.done.clear();
        self.done
            .extend(self.ring.completion().map(|entry| Done::of(&entry)));
    }

    fn handle_all(&mut self) -> Result<()> {
        for at in 0..self.done.len() {
            self.handle(self.done[at])?;
        }
        Ok(())
    }

    /// A send that took all its bytes says nothing; all others have come back in this turn.
    fn settle_sends(&mut self) -> Result<()> {
        let failed = |d: &&Done| d.op == Op::Send;
        let any_failed = self.done.iter().any(|d| failed(&d));
        for at in 0..self.sent.len() {
            let (index, len) = self.sent[at];
            let failure = any_failed
                .then(|| self.done.iter().filter(failed).find(|d| d.index == index))
                .flatten();
            let Some(failure) = failure else {
                self.relay.on_written(index, len as usize);
                continue;
            };
            let result = failure.result;
            self.relay.on_written(index, result.max(0) as usize);
            // Receiving tells what else is wrong.
            if result >= 0 || result == -libc::EAGAIN {
                self.relay.on_blocked(index);
                let poll = opcode::PollAdd::new(Fixed(index as u32), libc::POLLOUT as u32);
                let data = self.user_data(Op::Writable, index);
                self.push(&poll.build().user_data(data))?;
            }
        }
        self.sent.clear();
        Ok(())
    }

    fn handle(&mut self, done: Done) -> Result<()> {
        match done.op {
            Op::Send => Ok(()),
            Op::Accept => {
                self.accept()?;
                if !cqueue::more(done.flags) {
                    self.watch_listener()?;
                }
                Ok(())
            }
            Op::Writable => {
                if self.is_same(done) {
                    self.relay.on_writable(done.index);
                }
                Ok(())
            }
            Op::Receive => self.on_received(done),
        }
    }

    fn on_received(&mut self, done: Done) -> Result<()> {
        let index = done.index;
        debug_assert!(self.is_same(done), "a receive outlived its socket");
        if let Some(buffer) = cqueue::buffer_select(done.flags) {
            let buffers = &mut self.buffers[usize::from(index < LINKS)];
            let bytes = buffers.bytes(buffer, done.result.max(0) as usize);
            if self.relay.handle_bytes(index, bytes).is_err() {
                // The receive then ends by itself.
                self.sockets[index].shutdown(std::net::Shutdown::Both)?;
            }
            buffers.give_back(buffer, done.result.max(0) as usize, done.flags);
        }
        if cqueue::more(done.flags) {
            return Ok(());
        }
        // Ended: for want of buffers, or of room for completions, or by the peer.
        if done.result > 0 || done.result == -libc::ENOBUFS {
            return self.receive(index);
        }
        ensure!(index >= LINKS, "a link broke");
        self.ring
            .submitter()
            .register_files_update(index as u32, &[-1])?;
        self.sockets.remove(index);
        self.relay.close(index);
        Ok(())
    }

    /// Submits a send for each dirty connection with the next turn's system call.
    fn flush(&mut self) -> Result<()> {
        while let Some(index) = self.relay.poll_dirty() {
            let pending = self.relay.pending(index);
            if pending.is_empty() {
                continue;
            }
            let len = pending.len() as u32;
            // MSG_DONTWAIT: tried once, while it is submitted, and never later from memory that has
            // changed. MSG_WAITALL: taking less counts as failure, so that it is told.
            let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
            let send = opcode::Send::new(Fixed(index as u32), pending.as_ptr(), len)
                .flags(flags)
                .build()
                .flags(Flags::SKIP_SUCCESS);
            let data = self.user_data(Op::Send, index);
            self.push(&send.user_data(data))?;
            self.sent.push((index, len));
        }
        Ok(())
    }

    fn accept(&mut self) -> Result<()> {
        loop {
            match self.listener.accept() {
                Ok((client, _)) => {
                    client.set_nodelay(true)?;
                    client.set_nonblocking(true)?;
                    self.relay.open();
                    self.insert(client)?;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Takes a socket over; its index is the same here, in the relay and among registered files.
    fn insert(&mut self, tcp: TcpStream) -> Result<()> {
        let fd = tcp.as_raw_fd();
        let index = self.sockets.insert(tcp);
        ensure!(index < ENTRIES as usize, "too many clients for this trial");
        self.ring
            .submitter()
            .register_files_update(index as u32, &[fd])?;
        self.receive(index)
    }

    fn receive(&mut self, index: usize) -> Result<()> {
        let group = if index < LINKS { NODES } else { CLIENTS };
        let receive = opcode::RecvMulti::new(Fixed(index as u32), group).build();
        let data = self.user_data(Op::Receive, index);
        self.push(&receive.user_data(data))
    }

    fn watch_listener(&mut self) -> Result<()> {
        let fd: RawFd = self.listener.as_raw_fd();
        let poll = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32).multi(true);
        let data = (Op::Accept as u64) << 56;
        self.push(&poll.build().user_data(data))
    }

    fn push(&mut self, entry: &Entry) -> Result<()> {
        loop {
            // SAFETY: receives and polls point to no memory of ours. A send points into the encoder
            // of its connection, which nobody touches before the next `enter`: that follows at the
            // end of the turn, has the kernel read the bytes (MSG_DONTWAIT, so never afterwards),
            // and only then are bytes of this or other connections handled.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            count_enter();
            uninterrupted(self.ring.submit())?;
        }
    }

    fn user_data(&self, op: Op, index: usize) -> u64 {
        let generation = self.relay.generation(index).unwrap_or_default() & 0xFF_FFFF;
        (op as u64) << 56 | u64::from(generation) << 32 | index as u64
    }

    /// Whether a completion is about the connection that has its index now.
    fn is_same(&self, done: Done) -> bool {
        let now = self.relay.generation(done.index);
        now.is_some_and(|generation| generation & 0xFF_FFFF == done.generation)
    }
}

fn uninterrupted(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() != ErrorKind::Interrupted => Err(e),
        _ => Ok(()),
    }
}

impl Done {
    fn of(entry: &cqueue::Entry) -> Done {
        let data = entry.user_data();
        let op = match data >> 56 {
            x if x == Op::Accept as u64 => Op::Accept,
            x if x == Op::Receive as u64 => Op::Receive,
            x if x == Op::Send as u64 => Op::Send,
            _ => Op::Writable,
        };
        Done {
            op,
            index: (data & 0xFFFF_FFFF) as usize,
            generation: (data >> 32 & 0xFF_FFFF) as u32,
            result: entry.result(),
            flags: entry.flags(),
        }
    }
}
