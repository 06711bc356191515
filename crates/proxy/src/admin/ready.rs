//! Decides whether clients should be sent to this proxy.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::process::Process;
use crate::worker::turns::LastTurn;

/// Why clients should not be sent here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotReady {
    Stopping,
    /// The result of the last attempt, if there was one.
    NoContact(Option<Arc<String>>),
    /// No node is reachable any more.
    Lost(Arc<String>),
    NoLink,
    /// This worker answers nobody.
    Stuck(LastTurn),
}

/// For operators; `{:#}` also includes names of nodes.
impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotReady::Stopping => f.write_str("stopping: clients should go to another proxy"),
            NotReady::NoContact(failure) => {
                f.write_str("none of cluster.contact_points can be used yet")?;
                match failure {
                    Some(failure) if f.alternate() => write!(f, " ({failure})"),
                    _ => Ok(()),
                }
            }
            NotReady::Lost(failure) => {
                f.write_str("no node can be used any more: is Cassandra running and reachable?")?;
                match f.alternate() {
                    true => write!(f, " ({failure})"),
                    false => Ok(()),
                }
            }
            NotReady::NoLink => {
                f.write_str("no node has a link up: is Cassandra running and reachable from here?")
            }
            NotReady::Stuck(last_turn) => last_turn.fmt(f),
        }
    }
}

pub(super) fn check(shared: &Process) -> Result<(), NotReady> {
    let nodes = shared.stats.nodes();
    let snapshot = shared.snapshot.load();
    decide(
        shared.draining.load(Ordering::Acquire),
        snapshot.is_known(),
        shared.turns_of_workers.oldest(Instant::now()),
        || shared.contact_failure.load_full(),
        snapshot.protocol().asks_for_login(),
        nodes.iter().map(|n| n.links_up.load(Ordering::Relaxed)),
    )
}

/// With authentication there are links only once a client has logged in: their absence means
/// nothing, unless the control connection cannot be opened either.
fn decide(
    draining: bool,
    known: bool,
    oldest_turn: Option<LastTurn>,
    failure: impl FnOnce() -> Option<Arc<String>>,
    authenticates: bool,
    links_up: impl IntoIterator<Item = u64>,
) -> Result<(), NotReady> {
    if draining {
        return Err(NotReady::Stopping);
    }
    if !known {
        return Err(NotReady::NoContact(failure()));
    }
    if let Some(stuck) = oldest_turn.filter(LastTurn::is_stuck) {
        return Err(NotReady::Stuck(stuck));
    }
    if links_up.into_iter().any(|n| n > 0) {
        return Ok(());
    }
    match authenticates {
        true => failure().map_or(Ok(()), |failure| Err(NotReady::Lost(failure))),
        false => Err(NotReady::NoLink),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ready_means_one_link_or_authentication_and_not_draining() {
        let never = || panic!("not asked");
        assert_eq!(decide(false, true, None, never, false, [0, 2]), Ok(()));
        assert_eq!(decide(false, true, None, never, true, [0, 2]), Ok(()));
        assert_eq!(decide(false, true, None, || None, true, [0, 0]), Ok(()));
        let failure = Arc::new("10.0.0.1:9042: refused".to_owned());
        let failed = || Some(failure.clone());
        let lost = Err(NotReady::Lost(failure.clone()));
        assert_eq!(decide(false, true, None, failed, true, [0, 0]), lost);
        assert_eq!(decide(false, true, None, failed, true, [0, 1]), Ok(()));
        for (draining, known, authenticates, links, expected) in [
            (false, true, false, vec![0, 0], NotReady::NoLink),
            (false, true, false, vec![], NotReady::NoLink),
            (true, true, false, vec![2], NotReady::Stopping),
            (true, true, true, vec![0], NotReady::Stopping),
            (true, false, false, vec![], NotReady::Stopping),
            (false, false, false, vec![], NotReady::NoContact(None)),
            (false, false, true, vec![2], NotReady::NoContact(None)),
        ] {
            let outcome = decide(draining, known, None, || None, authenticates, links);
            assert_eq!(outcome, Err(expected));
        }
    }

    #[test]
    fn a_proxy_with_a_worker_that_answers_nobody_is_not_ready() {
        let turn = |seconds| LastTurn {
            worker: 1,
            ago: Duration::from_secs(seconds),
        };
        let with = |turn| decide(false, true, Some(turn), || None, false, [2]);
        assert_eq!(with(turn(1)), Ok(()));
        let stuck = with(turn(7)).expect_err("it is stuck");
        assert!(
            stuck
                .to_string()
                .starts_with("worker 1 has answered nobody for 7 s")
        );
    }

    #[test]
    fn nodes_are_named_only_on_request() {
        let failure = Arc::new("10.0.0.1:9042: refused".to_owned());
        for reason in [
            NotReady::NoContact(Some(failure.clone())),
            NotReady::Lost(failure),
        ] {
            assert!(!reason.to_string().contains("10.0.0.1"));
            assert!(format!("{reason:#}").ends_with("(10.0.0.1:9042: refused)"));
        }
    }
}
