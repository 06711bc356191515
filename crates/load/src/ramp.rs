//! The capacity of an endpoint: the load up to which throughput grows, errors do not begin and a
//! latency target holds, what limits it there, and how much of it is free.
//!
//! - [`search`]: which load to measure next, and when the knee is known
//! - [`steps`]: the measured loads
//! - [`usl`]: a capacity curve through the steps
//! - [`evidence`], [`saturation`]: what was busy, and which of it was the limit
//! - [`headroom`]: when to add a node
//! - [`capacity`], [`plots`]: the result

// pub mod capacity;
// pub mod evidence;
// pub mod headroom;
// pub mod plots;
// pub mod saturation;
pub mod search;
pub mod steps;
// pub mod usl;
