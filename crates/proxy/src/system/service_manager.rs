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
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::MissedTickBehavior;

use crate::process::Process;

#[cfg(test)]
mod tests;

/// After a look that has found a worker without turns, and before it is believed.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// However impatient a watchdog is.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// A state that is told, each with a line for `systemctl status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State<'a> {
    /// Not ready yet.
    Starting(&'a str),
    /// Ready, for the first time or again after [`State::Reloading`].
    Ready(&'a str),
    Reloading,
    Stopping(&'a str),
    /// All threads work.
    Alive,
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

/// The signs of life for the manager's watchdog, lest it kill this process (`WatchdogSec` of systemd).
#[derive(Debug)]
pub(crate) struct Watchdog {
    manager: ServiceManager,
    interval: Duration,
}

impl Watchdog {
    /// `None` if nothing is to be heard.
    pub(crate) fn of_environment() -> Option<Watchdog> {
        let variable = |name| std::env::var(name).ok();
        let interval = interval(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"))?;
        Some(Watchdog {
            manager: ServiceManager::of_environment(),
            interval,
        })
    }

    /// Tells the manager for as long as each worker has turns. That this task has turns says the same of the main
    /// thread.
    pub(crate) async fn feed(self, shared: Arc<Process>) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut was_alive = true;
        loop {
            ticks.tick().await;
            let mut dead = shared.turns_of_workers.dead(Instant::now());
            if dead.is_some() {
                // A process that stood still as a whole has had no turns either: the workers have theirs now.
                tokio::time::sleep(SECOND_LOOK).await;
                dead = shared.turns_of_workers.dead(Instant::now());
            }
            match &dead {
                None => self.manager.tell(State::Alive),
                Some(dead) if was_alive => {
                    tracing::error!(
                        "the service manager's watchdog hears no more: {dead}; the service manager ends this proxy (WatchdogSec) unless that has turns again"
                    );
                }
                Some(_) => {}
            }
            was_alive = dead.is_none();
        }
    }
}

/// Half the watchdog's time, as sd_watchdog_enabled(3) recommends.
fn interval(time_us: Option<String>, pid: Option<String>) -> Option<Duration> {
    let is_another = pid.is_some_and(|pid| pid != std::process::id().to_string());
    let time_us: u64 = time_us?.parse().ok()?;
    (time_us > 0 && !is_another).then(|| Duration::from_micros(time_us / 2).max(INTERVAL_MIN))
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
        State::Alive => "WATCHDOG=1\n".to_owned(),
        State::Stopping(text) => format!("STOPPING=1\nSTATUS={}\n", line(text)),
    }
}

fn monotonic_us() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}
