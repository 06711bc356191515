//! Checks whether the other proxies of this cluster work, for clients that registered for it.
//!
//! To a client the proxies are the cluster's nodes, for which it gets STATUS_CHANGE: DOWN makes it
//! switch before it runs into time-outs, UP makes it return before its own next attempt.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use helenus_wire::{Opcode, Version, write};
use rustc_hash::FxHashMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::process::Process;
use helenus_engine::shared::{EventKind, WorkerMessage};

/// Consecutive failures after which a proxy counts as down: a single one may be transient.
const FAILURES_MAX: u32 = 2;
/// How often the setting is checked while it is off.
const PAUSE_WHILE_OFF: Duration = Duration::from_secs(1);

/// Checks until this proxy stops.
pub(crate) async fn watch(common: Arc<Process>) {
    let mut failures: FxHashMap<SocketAddr, u32> = FxHashMap::default();
    loop {
        let config = common.settings.load_full();
        let proxies = &config.listen.proxies;
        failures.retain(|address, _| proxies.contains(address));
        let pause = Duration::from_millis(config.listen.proxies_check_ms);
        if pause.is_zero() || proxies.is_empty() {
            failures.clear();
            common.proxies_down.store(Arc::default());
            tokio::time::sleep(PAUSE_WHILE_OFF).await;
            continue;
        }
        let speak = config.listen.tls.is_none();
        let mut checks = JoinSet::new();
        for address in proxies.iter().copied() {
            checks.spawn(async move {
                let check = tokio::time::timeout(pause, works(address, speak));
                (address, matches!(check.await, Ok(Ok(()))))
            });
        }
        tokio::time::sleep(pause).await;
        // Each has ended, or is about to.
        while let Some(result) = checks.join_next().await {
            let Ok((address, works)) = result else {
                continue;
            };
            if let Some(change) = judge(failures.entry(address).or_default(), works) {
                tell(&common, address, change);
            }
        }
        let is_down = |(_, failures): &(&SocketAddr, &u32)| **failures >= FAILURES_MAX;
        let down = failures.iter().filter(is_down).map(|(address, _)| *address);
        common.proxies_down.store(Arc::new(down.collect()));
    }
}

/// A change of state, if there is one.
fn judge(failures: &mut u32, works: bool) -> Option<&'static str> {
    if works {
        let was_down = *failures >= FAILURES_MAX;
        *failures = 0;
        return was_down.then_some("UP");
    }
    *failures = failures.saturating_add(1);
    (*failures == FAILURES_MAX).then_some("DOWN")
}

fn tell(common: &Process, address: SocketAddr, change: &str) {
    if common.draining.load(Ordering::Relaxed) {
        return;
    }
    tracing::info!(proxy = %address, "another proxy is {change}");
    tell_clients(common, address, change);
}

/// Tells registered clients that a proxy is up or down.
pub(crate) fn tell_clients(common: &Process, address: SocketAddr, change: &str) {
    let mut body = Vec::new();
    write::string(&mut body, "STATUS_CHANGE");
    write::string(&mut body, change);
    write::inet(&mut body, address);
    common.tell_workers(&WorkerMessage::Event {
        kind: EventKind::Status,
        body: body.into(),
    });
}

/// Opens a connection and, unless that would need TLS and a certificate, sends OPTIONS: a hung
/// process still accepts connections.
async fn works(address: SocketAddr, speak: bool) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    if speak {
        let version = Version::V4 as u8;
        stream
            .write_all(&[version, 0, 0, 1, Opcode::Options as u8, 0, 0, 0, 0])
            .await?;
        let mut header = [0; 9];
        stream.read_exact(&mut header).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn one_failure_is_chance_and_two_are_told_once() {
        let mut failures = 0;
        let told: Vec<_> = [true, false, true, false, false, false, true, true, false]
            .into_iter()
            .map(|works| judge(&mut failures, works))
            .collect();
        let (none, down, up) = (None, Some("DOWN"), Some("UP"));
        assert_eq!(told, [none, none, none, none, down, none, up, none, none]);
    }
}
