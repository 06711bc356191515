//! The facts about a request that a choice is told.

/// Replicas of a request that are ordered.
pub const CANDIDATES_MAX: usize = 8;

/// A request that needs a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    pub now_us: u64,
    /// Predicted work, in microseconds of an otherwise idle node.
    pub work_us: u32,
    /// A counter that the caller increments with each request.
    pub rotation: u64,
    /// A hash of the partition's key: replica `affinity mod n` has it in its caches. `None` if it does
    /// not matter where it runs.
    pub affinity: Option<u32>,
    /// Which of the nodes are in the local rack, a bit for each in the order they come in; 0 if no rack
    /// is preferred.
    pub near: u32,
}
