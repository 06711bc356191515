//! Counts the system calls that move a relay's bytes, exactly: this binary brings its own
//! `epoll_wait`, `recv` and `send`, which std, mio and tokio then call instead of libc's.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, c_void, epoll_event, size_t, ssize_t};
use serde::{Deserialize, Serialize};

static EPOLL_WAIT: AtomicU64 = AtomicU64::new(0);
static RECV: AtomicU64 = AtomicU64::new(0);
static SEND: AtomicU64 = AtomicU64::new(0);
static ENTER: AtomicU64 = AtomicU64::new(0);
static LINK_WRITES: AtomicU64 = AtomicU64::new(0);

/// System calls of this process so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    pub epoll_wait: u64,
    pub recv: u64,
    pub send: u64,
    pub io_uring_enter: u64,
    /// No system calls of their own under io_uring: how often bytes left for a node.
    pub link_writes: u64,
}

impl Calls {
    pub fn now() -> Calls {
        Calls {
            epoll_wait: EPOLL_WAIT.load(Ordering::Relaxed),
            recv: RECV.load(Ordering::Relaxed),
            send: SEND.load(Ordering::Relaxed),
            io_uring_enter: ENTER.load(Ordering::Relaxed),
            link_writes: LINK_WRITES.load(Ordering::Relaxed),
        }
    }

    /// All system calls.
    pub fn total(&self) -> u64 {
        self.epoll_wait + self.recv + self.send + self.io_uring_enter
    }

    pub fn since(&self, earlier: &Calls) -> Calls {
        Calls {
            epoll_wait: self.epoll_wait - earlier.epoll_wait,
            recv: self.recv - earlier.recv,
            send: self.send - earlier.send,
            io_uring_enter: self.io_uring_enter - earlier.io_uring_enter,
            link_writes: self.link_writes - earlier.link_writes,
        }
    }
}

/// Called when a link has taken bytes.
pub fn count_link_write() {
    LINK_WRITES.fetch_add(1, Ordering::Relaxed);
}

/// Called beside each `io_uring_enter`, which no library function stands for.
pub fn count_enter() {
    ENTER.fetch_add(1, Ordering::Relaxed);
}

/// # Safety
/// As for `epoll_wait(2)`.
// SAFETY: the signature is libc's, so taking the symbol's place changes nothing for its callers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(
    epfd: c_int,
    events: *mut epoll_event,
    events_max: c_int,
    timeout_ms: c_int,
) -> c_int {
    EPOLL_WAIT.fetch_add(1, Ordering::Relaxed);
    let no_mask: *const c_void = std::ptr::null();
    // SAFETY: the caller vouches for `events`; without a signal mask this is `epoll_wait`.
    unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait,
            epfd,
            events,
            events_max,
            timeout_ms,
            no_mask,
            size_of::<u64>(),
        ) as c_int
    }
}

/// # Safety
/// As for `recv(2)`.
// SAFETY: the signature is libc's, so taking the symbol's place changes nothing for its callers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    RECV.fetch_add(1, Ordering::Relaxed);
    let nowhere: *mut c_void = std::ptr::null_mut();
    // SAFETY: the caller vouches for `buf`; without an address this is `recv`.
    unsafe { libc::syscall(libc::SYS_recvfrom, fd, buf, len, flags, nowhere, nowhere) as ssize_t }
}

/// # Safety
/// As for `send(2)`.
// SAFETY: the signature is libc's, so taking the symbol's place changes nothing for its callers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    SEND.fetch_add(1, Ordering::Relaxed);
    let nowhere: *const c_void = std::ptr::null();
    // SAFETY: the caller vouches for `buf`; without an address this is `send`.
    unsafe { libc::syscall(libc::SYS_sendto, fd, buf, len, flags, nowhere, 0) as ssize_t }
}
