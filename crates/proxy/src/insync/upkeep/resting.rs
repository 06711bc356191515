//! How long a comparison rests after each page of a copy: as long as the node took for it while clients of this proxy use
//! the node, so that they have half of its time, and a quarter of that otherwise, for clients of other proxies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use helenus_engine::shared::Common;
use helenus_engine::snapshot::HostId;

/// Between two pages.
const REST_MAX: Duration = Duration::from_secs(1);
/// This part of the time that a page took, while no client of this proxy uses the node.
const QUIET: u32 = 4;

/// A node that is read.
pub(super) struct Resting {
    common: Arc<Common>,
    /// Its place among the nodes; none for the table itself, which any of them may have to answer for.
    at: Option<usize>,
    /// Requests of clients that it was sent, when that was last looked at.
    requests: u64,
}

/// Whether requests of clients went to a node while a page was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clients {
    Some,
    None,
}

impl Resting {
    /// `owner`: the node of a copy.
    pub(super) fn of(common: &Arc<Common>, owner: Option<HostId>) -> Resting {
        let snapshot = common.snapshot.load();
        let at = owner.and_then(|owner| {
            let mut nodes = snapshot.nodes.iter();
            nodes.position(|node| node.host_id == owner && !node.gone)
        });
        let mut resting = Resting {
            common: common.clone(),
            at,
            requests: 0,
        };
        resting.look();
        resting
    }

    /// After a page for which the node took so long.
    pub(super) fn after(&mut self, took: Duration) -> Duration {
        rest(took, self.look())
    }

    fn look(&mut self) -> Clients {
        let Some(at) = self.at else {
            return Clients::Some;
        };
        let nodes = self.common.stats.nodes();
        let requests = nodes
            .get(at)
            .map_or(0, |node| node.counters.requests.load(Ordering::Relaxed));
        match std::mem::replace(&mut self.requests, requests) == requests {
            true => Clients::None,
            false => Clients::Some,
        }
    }
}

fn rest(took: Duration, clients: Clients) -> Duration {
    let rest = match clients {
        Clients::Some => took,
        Clients::None => took / QUIET,
    };
    rest.min(REST_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_this_proxy_have_half_of_a_node() {
        let ms = Duration::from_millis;
        assert_eq!(rest(ms(80), Clients::Some), ms(80));
        assert_eq!(rest(ms(80), Clients::None), ms(20));
        assert_eq!(rest(ms(5_000), Clients::Some), REST_MAX);
    }
}
