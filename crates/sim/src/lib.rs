//! Virtual time: whole engines before modelled clients, nodes and network.
//!
//! What a real cluster answers in minutes, and never twice alike, is answered here in
//! seconds and always alike: the same seed gives the same result to the last digit.
//!
//! - [`chaos`]: everything around the proxies fails, and invariants are checked
//! - [`scheduling`]: how long point reads and scans take in which order of service
//! - [`assignment`]: which replica requests go to, by policies alone
//! - [`events`], [`dice`]: virtual time and repeatable randomness; `proxy`: what every simulated proxy
//!   consists of

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod assignment;
// Its events are being taken apart.
#[allow(clippy::too_many_lines)]
pub mod chaos;
pub mod dice;
pub mod events;
mod proxy;
pub mod scheduling;
