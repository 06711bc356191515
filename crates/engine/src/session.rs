//! Client connections: handshake, login, their bytes in and out.
//!
//! All of them are in [`clients::Clients`]. Work for other stations that a client's bytes bring is
//! returned ([`step::Step`]).

pub(crate) mod answers;
mod bounds;
pub(crate) mod clients;
pub mod connection;
pub mod drain;
mod envelope;
mod events;
pub mod handover;
pub mod large;
mod life;
mod listing;
pub mod login;
pub mod names;
pub(crate) mod node_answer;
pub mod outbox;
mod reading;
mod recent_events;
pub(crate) mod step;
mod versions;
mod writing;
