//! Client connections: handshake, login, their bytes in and out.
//!
//! All of them are in [`clients::Clients`]. What a client's bytes ask of others is returned
//! ([`step::Step`]).

pub(crate) mod answers;
pub mod authenticator;
mod bounds;
pub(crate) mod clients;
pub mod credentials;
mod envelope;
mod events;
mod handshake;
pub mod identity;
pub mod large;
mod leavers;
mod life;
mod listing;
pub(crate) mod login;
pub(crate) mod login_attempt;
pub mod login_queue;
pub mod names;
pub mod outbox;
pub mod passed;
mod passing;
mod reading;
mod recent_events;
pub mod refusal;
pub mod session;
pub(crate) mod step;
mod versions;
mod writing;
