//! Everything that reads bytes from peers, as functions of any bytes. `fuzz/libfuzzer` searches for inputs that break them,
//! `tests/corpus.rs` replays those that are kept.

pub mod answers;
pub mod client;
pub mod cluster;
pub mod input;
pub mod node;
pub mod socket;
pub mod targets;
pub mod worker;
pub mod world;
