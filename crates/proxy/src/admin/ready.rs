//! Decides whether clients should be sent to this proxy.

use std::sync::atomic::Ordering;

use crate::shared::Common;

/// The error is the reason, for the operator to read.
pub fn check(shared: &Common) -> Result<(), String> {
    let nodes = shared.stats.nodes();
    let snapshot = shared.snapshot.load();
    let failure = shared.contact_failure.load_full();
    decide(
        shared.draining.load(Ordering::Acquire),
        snapshot.is_known(),
        failure.as_ref().map(|text| text.as_str()),
        snapshot.authenticate.is_some(),
        nodes.iter().map(|n| n.links_up.load(Ordering::Relaxed)),
    )
}

/// A cluster that asks for authentication has links only once a client has logged in, so their
/// absence says nothing there.
fn decide(
    draining: bool,
    known: bool,
    failure: Option<&str>,
    authenticates: bool,
    links_up: impl IntoIterator<Item = u64>,
) -> Result<(), String> {
    if draining {
        return Err("stopping: clients should go to another proxy".to_owned());
    }
    if !known {
        let why = failure.map_or(String::new(), |text| format!(" ({text})"));
        return Err(format!(
            "none of cluster.contact_points has answered yet{why}"
        ));
    }
    if !authenticates && links_up.into_iter().all(|n| n == 0) {
        return Err(
            "no node has a link up: is Cassandra running and reachable from here?".to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::decide;

    #[test]
    fn ready_means_one_link_or_authentication_and_not_draining() {
        assert!(decide(false, true, None, false, [0, 2]).is_ok());
        assert!(decide(false, true, None, true, [0, 0]).is_ok());
        assert!(decide(false, true, Some("long past"), true, []).is_ok());
        for (draining, known, authenticates, links, word) in [
            (false, true, false, vec![0, 0], "no node"),
            (false, true, false, vec![], "no node"),
            (true, true, false, vec![2], "stopping"),
            (true, true, true, vec![0], "stopping"),
            (true, false, false, vec![], "stopping"),
            (false, false, false, vec![], "contact_points"),
            (false, false, true, vec![2], "contact_points"),
        ] {
            let reason = decide(draining, known, Some("why"), authenticates, links);
            let reason = reason.expect_err("not ready");
            assert!(reason.contains(word), "{reason}");
            assert_eq!(reason.contains("(why)"), word == "contact_points");
        }
    }
}
