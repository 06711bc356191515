//! Connections to nodes: pools of roles, their links, the answers that come.
//!
//! [`links::Links`] owns all of it. What it cannot know, node requests and clients, it returns to the
//! engine:
//! `connecting.rs`, `events.rs`, `send.rs`, `response.rs`, `rescue.rs`, `reprepare.rs` and
//! `prepare_range.rs` hold the engine's half of it.

pub(crate) mod agreement;
mod busy;
pub(crate) mod checks;
mod connect;
mod connecting;
mod connection;
mod dropped;
mod encode;
mod ending_dropped;
mod events;
mod failure_detector;
pub mod greeting;
mod health;
pub(crate) mod kind;
pub(crate) mod lessons;
mod link;
pub(crate) mod links;
mod listing;
mod open_writes;
mod opening;
pub(crate) mod pace;
mod places;
mod pool;
mod prepare_range;
mod reach;
pub(crate) mod reprepare;
mod repreparing;
mod rescue;
mod residue;
pub(crate) mod response;
mod roles;
mod send;
mod slot;
mod special;
mod stream_zero;
mod teaching;
mod traffic;
mod upkeep;
mod window;
