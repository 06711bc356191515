//! Decides whether clients should be sent to this proxy.

use std::sync::atomic::Ordering;

use crate::shared::Shared;

/// The error is the reason, for the operator to read.
pub fn check(shared: &Shared) -> Result<(), &'static str> {
    let nodes = shared.stats.nodes();
    decide(
        shared.draining.load(Ordering::Acquire),
        shared.snapshot.load().authenticate.is_some(),
        nodes.iter().map(|n| n.links_up.load(Ordering::Relaxed)),
    )
}

/// A cluster that asks for authentication has links only once a client has logged in, so their
/// absence says nothing there.
fn decide(
    draining: bool,
    authenticates: bool,
    links_up: impl IntoIterator<Item = u64>,
) -> Result<(), &'static str> {
    if draining {
        return Err("stopping: clients should go to another proxy");
    }
    if !authenticates && links_up.into_iter().all(|n| n == 0) {
        return Err("no node has a link up: is Cassandra running and reachable from here?");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::decide;

    #[test]
    fn ready_means_one_link_or_authentication_and_not_draining() {
        assert!(decide(false, false, [0, 2]).is_ok());
        assert!(decide(false, true, [0, 0]).is_ok());
        assert!(decide(false, true, []).is_ok());
        for (draining, authenticates, links, word) in [
            (false, false, vec![0, 0], "no node"),
            (false, false, vec![], "no node"),
            (true, false, vec![2], "stopping"),
            (true, true, vec![0], "stopping"),
        ] {
            let reason = decide(draining, authenticates, links).expect_err("not ready");
            assert!(reason.contains(word), "{reason}");
        }
    }
}
