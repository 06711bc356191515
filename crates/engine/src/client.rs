//! Client connections: handshake, login, their bytes in and out.

pub mod authenticator;
pub mod credentials;
pub mod handshake;
pub mod identity;
pub mod large;
pub mod login;
pub mod names;
pub mod outbox;
pub mod session;
