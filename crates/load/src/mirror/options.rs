//! How a proxy's reads are mirrored.

use std::time::Duration;

use super::queue::Limits;

/// How a proxy's reads are mirrored.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Connections to each endpoint.
    pub connections: usize,
    /// Reads that wait for answers at most.
    pub in_flight_max: usize,
    /// Of what waits to be sent.
    pub limits: Limits,
    /// How often there is progress to be shown.
    pub progress: Duration,
}
