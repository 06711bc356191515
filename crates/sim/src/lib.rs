//! Virtual time: whole engines before modelled clients, nodes and network.
//!
//! A real cluster takes minutes for an answer, and never gives the same one twice; here it takes
//! seconds, and the same seed gives the same result to the last digit.
//!
//! - [`chaos`]: everything around the proxies fails, and invariants are checked
//! - [`scheduling`]: how long point reads and scans take in which order of service
//! - [`queueing`]: replica choice alone, by policies without engines; its experiments are [`assignment`], which
//!   replica requests go to, and [`capacity`], what many nodes carry, from a ramp over few
//! - [`events`], [`dice`], [`times`]: virtual time, repeatable randomness, and how long requests took
//! - `keys`: what is asked for; `proxy`: what every simulated proxy consists of
//! - `threads`, `sharing`: how work waits for its turn or progresses beside other work

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod assignment;
pub mod capacity;
// Its events are being taken apart.
#[allow(clippy::too_many_lines)]
pub mod chaos;
pub mod dice;
pub mod events;
mod keys;
mod proxy;
pub mod queueing;
pub mod scheduling;
mod sharing;
mod threads;
pub mod times;
