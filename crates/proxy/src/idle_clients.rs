//! Disconnects clients that ask nothing: by `limits.client_idle_max_s`, or because an operator wants it.

use std::sync::Arc;
use std::time::Duration;

use helenus_engine::worker_status::{Report, Wanted};

use crate::process::Process;

/// How often clients are looked at, so how much later than the limit they may leave.
const INTERVAL: Duration = Duration::from_secs(10);

/// Clients that were disconnected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disconnected {
    pub clients: usize,
    /// Workers that have not answered.
    pub silent_workers: usize,
}

/// Keeps to the setting until the proxy stops.
pub(crate) async fn watch(shared: Arc<Process>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        let max_s = shared.settings.load().limits.client_idle_max_s;
        if max_s == 0 {
            continue;
        }
        let Disconnected { clients, .. } = disconnect(&shared, Duration::from_secs(max_s)).await;
        if clients > 0 {
            tracing::info!(
                clients,
                max_s,
                "disconnected clients that have asked nothing (limits.client_idle_max_s)"
            );
        }
    }
}

/// Disconnects clients that wait for nothing, and have asked nothing for so long.
pub(crate) async fn disconnect(shared: &Process, idle: Duration) -> Disconnected {
    let answers = shared.ask_workers(Wanted::CloseIdle(idle)).await;
    let closed = answers.reports.iter().map(|report| match report {
        Report::IdleClosed(clients) => *clients,
        _ => 0,
    });
    Disconnected {
        clients: closed.sum(),
        silent_workers: answers.silent,
    }
}
