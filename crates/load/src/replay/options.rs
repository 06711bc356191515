//! How a capture is played.

/// How a capture is played.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Times the recorded rate.
    pub speed: f64,
    /// Each connection has as many requests in flight as in the capture, whenever these were sent.
    pub is_closed: bool,
    pub rounds: usize,
    /// Also what changes data.
    pub writes: bool,
    /// Rows are written for the capture's keys first.
    pub fill: bool,
}
