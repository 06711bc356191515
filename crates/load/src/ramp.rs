//! The capacity of an endpoint: the load up to which throughput grows, errors do not begin and a
//! latency target holds, what limits it there, and how much of it is free.
//!
//! - [`search`]: which load to measure next, and when the knee is known
//! - [`steps`]: the measured loads
//! - [`usl`]: a capacity curve through the steps
//! - [`evidence`], [`cgroup`], [`pools`]: what was in use; [`saturation`]: which of it was the limit
//! - [`headroom`]: when to add a node
//! - [`warmup`], [`measure`]: one window, once nodes are warm
//! - [`capacity`], [`sentences`], [`plots`], [`page`]: the result

pub mod capacity;
mod cgroup;
pub mod evidence;
pub mod headroom;
pub mod measure;
pub mod page;
mod plots;
pub mod pools;
pub mod saturation;
pub mod search;
mod sentences;
pub mod steps;
pub mod usl;
pub mod warmup;
