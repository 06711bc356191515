//! Records that a proxy keeps of itself, and shows.

pub(crate) mod events;
pub(crate) mod history;
pub(crate) mod log_lines;
pub(crate) mod node_state;
pub(crate) mod rarely;
pub(crate) mod recorder;
pub(crate) mod traces;
