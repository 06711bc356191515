//! Connections to nodes: pools of roles, their links, the answers that come.

pub mod checks;
pub mod failure_detector;
pub mod link;
pub mod pool;
pub mod prepare_range;
pub mod reprepare;
pub mod response;
pub mod send;
pub mod window;
