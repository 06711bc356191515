//! This proxy and its siblings, as JSON.

use serde::Serialize;

use crate::admin::ready;
use crate::process::Process;

#[derive(Debug, Serialize)]
pub(in crate::admin) struct ProxyView {
    /// As drivers see it.
    address: String,
    /// The one that has been asked.
    is_self: bool,
    /// `ready`, `not ready`; of others `up`, `down`, or `unknown` where they are not checked
    /// (`listen.proxies_check_ms`).
    state: &'static str,
    /// Why it is not ready, of the one that has been asked.
    reason: Option<String>,
    /// Null of others: ask them.
    clients: Option<usize>,
    version: Option<&'static str>,
}

/// The answer of `/api/proxies`.
pub(in crate::admin) fn view(shared: &Process) -> Vec<ProxyView> {
    let settings = shared.settings.load();
    let ready = ready::check(shared);
    let own = ProxyView {
        address: settings.advertised().to_string(),
        is_self: true,
        state: match ready {
            Ok(()) => "ready",
            Err(_) => "not ready",
        },
        reason: ready.err().map(|reason| format!("{reason:#}")),
        clients: Some(shared.clients.load(std::sync::atomic::Ordering::Relaxed)),
        version: Some(env!("CARGO_PKG_VERSION")),
    };
    let is_checked = settings.listen.proxies_check_ms > 0;
    let down = shared.proxies_down.load();
    let others = settings.other_proxies().iter().map(|address| ProxyView {
        address: address.to_string(),
        is_self: false,
        state: match (is_checked, down.contains(address)) {
            (false, _) => "unknown",
            (true, true) => "down",
            (true, false) => "up",
        },
        reason: None,
        clients: None,
        version: None,
    });
    std::iter::once(own).chain(others).collect()
}
