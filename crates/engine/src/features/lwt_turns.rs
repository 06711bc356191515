//! Conditional writes of one partition take turns, instead of preempting each other in Paxos.

pub(crate) mod graces;
pub mod queue;
