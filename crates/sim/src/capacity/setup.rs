//! Size and load of a run.

use super::curve::Curve;
use helenus_policy::choice::Policy;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// Each of so many clients asks again as soon as it is answered.
    Clients(usize),
    /// So many per second, at random, however many are under way.
    Rate(f64),
}

#[derive(Clone, Debug)]
pub struct Setup {
    pub seed: u64,
    pub curve: Curve,
    pub policy: Policy,
    pub nodes: u16,
    /// None knows what the others do.
    pub proxies: usize,
    pub replicas: u16,
    pub keys: usize,
    /// Exponent of the keys' popularity; 0 for all alike.
    pub zipf: f64,
    /// Share of requests that go to all replicas.
    pub write_share: f64,
    /// Between a proxy and a node, one way, besides what the ramp has measured.
    pub hop_us: u64,
    pub timeout_us: u64,
    pub demand: Demand,
    /// That are counted; a fifth as many come before.
    pub requests: usize,
}

impl Setup {
    /// Ten proxies, a hundred nodes, reads only.
    pub fn new(curve: Curve, demand: Demand) -> Setup {
        Setup {
            seed: 1,
            curve,
            policy: Policy::default(),
            nodes: 100,
            proxies: 10,
            replicas: 3,
            keys: 1_000_000,
            zipf: 0.0,
            write_share: 0.0,
            hop_us: 100,
            timeout_us: 2_000_000,
            demand,
            requests: 200_000,
        }
    }

    /// Node requests per request.
    pub fn copies(&self) -> f64 {
        let replicas = f64::from(self.replicas);
        1.0 + self.write_share * (replicas - 1.0)
    }

    /// The nodes' greatest throughput, if all were used alike.
    pub fn bound(&self) -> f64 {
        f64::from(self.nodes) * self.curve.peak() / self.copies()
    }

    /// A window in which a node at its peak gets about four requests.
    pub(super) fn window_us(&self) -> u64 {
        ((4e6 / self.curve.peak()) as u64).max(1)
    }

    pub(super) fn warmup(&self) -> usize {
        let clients = match self.demand {
            Demand::Clients(clients) => clients,
            Demand::Rate(_) => 0,
        };
        // Until all clients have asked twice, they are in step.
        (self.requests / 5).max(2 * clients)
    }
}
