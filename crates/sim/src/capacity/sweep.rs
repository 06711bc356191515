//! Many loads, the knee among them, and how well one node repeats the ramp.

use super::setup;
use crate::queueing::{Curve, Demand, Extent, Outcome, Point, Setup, run};

/// A knee has at least this share of the greatest throughput, as in a ramp.
const KNEE_SHARE: f64 = 0.97;
/// Of clients, for a steady mean.
const REQUESTS_PER_CLIENT: usize = 12;

/// The ramp's loads, as clients over so many nodes.
pub fn loads(curve: &Curve, nodes: u16) -> Vec<usize> {
    let nodes = f64::from(nodes);
    let points = curve.points().iter();
    let mut loads: Vec<usize> = points
        .map(|point| ((point.clients * nodes).round() as usize).max(1))
        .collect();
    loads.dedup();
    loads
}

/// A copy of the setup with so many clients, for long enough.
pub fn with_clients(setup: &Setup, clients: usize) -> Setup {
    Setup {
        demand: Demand::Clients(clients),
        extent: match &setup.extent {
            Extent::Requests(requests) => {
                Extent::Requests((*requests).max(REQUESTS_PER_CLIENT * clients))
            }
            time => time.clone(),
        },
        ..setup.clone()
    }
}

/// Offered rates from a tenth to somewhat more than the nodes could carry.
pub fn rates(setup: &Setup) -> Vec<f64> {
    let shares = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.1];
    shares.map(|share| share * setup.bound()).to_vec()
}

/// The least of these loads that has almost the greatest throughput. The outcomes are in ascending order
/// of loads.
pub fn knee(outcomes: &[(usize, Outcome)]) -> Option<&(usize, Outcome)> {
    let rates = outcomes.iter().map(|(_, outcome)| outcome.throughput());
    let peak = rates.fold(0.0, f64::max);
    outcomes.iter().find(|(_, outcome)| {
        outcome.throughput() > 0.0 && outcome.throughput() >= KNEE_SHARE * peak
    })
}

/// One load of the ramp, and what the model makes of it.
#[derive(Clone, Copy, Debug)]
pub struct Repeated {
    pub measured: Point,
    pub ops_per_second: f64,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
}

/// Greatest relative errors over the loads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    pub ops_per_second: f64,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
}

/// One node with the ramp's clients at each of its loads. Loads of less than a client are left out.
pub fn repeat(curve: &Curve, seed: u64) -> Vec<Repeated> {
    let single = Setup {
        seed,
        nodes: 1,
        proxies: 1,
        replicas: 1,
        keys: 1,
        hop_us: 0,
        extent: Extent::Requests(30_000),
        timeout_us: u64::from(u32::MAX),
        ..setup(curve.clone(), Demand::Clients(1))
    };
    let points = curve.points().iter();
    let whole = points.filter(|point| point.clients.round() >= 1.0);
    let repeated = whole.map(|point| {
        let outcome = run(&with_clients(&single, point.clients.round() as usize));
        Repeated {
            measured: *point,
            ops_per_second: outcome.throughput(),
            latency_us_p50: outcome.times.quantile_us(0.5) as f64,
            latency_us_p99: outcome.times.quantile_us(0.99) as f64,
        }
    });
    repeated.collect()
}

impl Errors {
    pub fn of(repeated: &[Repeated]) -> Errors {
        let most = |of: fn(&Repeated) -> (f64, f64)| {
            let errors = repeated.iter().map(|each| {
                let (modelled, measured) = of(each);
                (modelled / measured - 1.0).abs()
            });
            errors.filter(|error| error.is_finite()).fold(0.0, f64::max)
        };
        Errors {
            ops_per_second: most(|each| (each.ops_per_second, each.measured.ops_per_second)),
            latency_us_p50: most(|each| (each.latency_us_p50, each.measured.latency_us_p50)),
            latency_us_p99: most(|each| (each.latency_us_p99, each.measured.latency_us_p99)),
        }
    }
}
