//! The partitions that are asked for most: each worker counts its own, and publishes them.

mod counting;
mod keys;
mod published;

pub(super) use self::counting::{on_shared, on_tick, spreads};
pub(super) use self::keys::HotKeys as State;
pub use self::published::{HotPartitions, Hottest, KEY_BYTES_MAX, Key, Label, PUBLISHED_MAX};

#[cfg(test)]
mod tests;
