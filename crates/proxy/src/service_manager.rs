//! Tells the service manager that started this process what it is doing (`sd_notify(3)`).
//!
//! systemd, and everything that speaks its protocol, names a socket in `NOTIFY_SOCKET` and receives one
//! datagram for each change. Without it nothing is sent. A message that cannot be delivered is logged
//! once and never holds up the proxy.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

#[cfg(test)]
mod tests;

/// What is told, each with a line for `systemctl status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State<'a> {
    /// Not ready yet.
    Starting(&'a str),
    /// Ready, for the first time or again after [`State::Reloading`].
    Ready(&'a str),
    Reloading,
    Stopping(&'a str),
}

#[derive(Debug)]
pub(crate) struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    failed: Cell<bool>,
}

impl ServiceManager {
    pub(crate) fn of_environment() -> ServiceManager {
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|name| {
            open(&name)
                .inspect_err(|e| {
                    tracing::warn!("NOTIFY_SOCKET={} cannot be used: {e}", name.display())
                })
                .ok()
        });
        ServiceManager {
            socket,
            failed: Cell::new(false),
        }
    }

    pub(crate) fn tell(&self, state: State) {
        let Some((socket, address)) = &self.socket else {
            return;
        };
        let message = message(state);
        if let Err(e) = socket.send_to_addr(message.as_bytes(), address)
            && !self.failed.replace(true)
        {
            tracing::warn!("the service manager (NOTIFY_SOCKET) cannot be told: {e}");
        }
    }
}

fn open(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes().split_first() {
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not stop the control thread.
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

fn message(state: State) -> String {
    // A line break would start another assignment.
    let line = |text: &str| text.replace(['\n', '\r'], " ");
    match state {
        State::Starting(text) => format!("STATUS={}\n", line(text)),
        State::Ready(text) => format!("READY=1\nSTATUS={}\n", line(text)),
        // The time lets systemd 253 and later (`Type=notify-reload`) match it with its signal.
        State::Reloading => format!(
            "RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reloading the settings\n",
            monotonic_us()
        ),
        State::Stopping(text) => format!("STOPPING=1\nSTATUS={}\n", line(text)),
    }
}

fn monotonic_us() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}
