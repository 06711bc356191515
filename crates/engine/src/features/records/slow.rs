//! Requests that took longer than most, with where their time went.

use std::time::Duration;

use helenus_policy::ring::NodeIndex;
use helenus_policy::schedule::Class;
use helenus_wire::Consistency;

use crate::features::records::described::Described;

/// A request that took long.
#[derive(Clone, Debug)]
pub struct SlowRequest {
    /// When it ended, since the beginning of 1970.
    pub at: Duration,
    pub asked: Described,
    pub class: Class,
    pub consistency: Consistency,
    /// How it was carried out.
    pub execution: &'static str,
    /// From its client's request to the answer, in microseconds.
    pub took_us: u64,
    /// In queues of nodes, over all of its node requests.
    pub queued_us: u32,
    /// At nodes, over all of its node requests; of that, the longest, and where.
    pub at_nodes_us: u32,
    pub slowest_us: u32,
    pub slowest: Option<NodeIndex>,
    /// Nodes that had a part in it; of large clusters only the first by number.
    pub nodes: Vec<NodeIndex>,
    pub node_requests: u16,
    /// Nodes tried, over all node requests.
    pub attempts: u16,
    pub is_hedged: bool,
    /// It had joined another's read.
    pub is_shared: bool,
    /// Of the answer, with its headers.
    pub bytes: usize,
    /// The code of its error.
    pub error: Option<i32>,
}

impl SlowRequest {
    /// Bytes that it takes.
    pub(super) fn byte_len(&self) -> usize {
        let nodes = self.nodes.len() * size_of::<NodeIndex>();
        size_of::<SlowRequest>() + nodes + self.asked.byte_len()
    }
}
