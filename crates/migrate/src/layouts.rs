//! Layouts of a table: made, compared with it, and dropped.

mod backfill;
mod compare;
pub mod create;
mod definition;
pub mod distrust;
mod entry;
mod fill;
mod following;
mod home;
pub mod names;
mod ranges;
pub mod rebuild;
pub mod remove;
pub mod removed;
pub mod replication;
mod rules;
pub mod status;
pub mod sweep;
mod tables;
#[cfg(test)]
mod testing;
pub mod truncate;
mod verdict;
pub mod verify;
mod work;
mod writer;

pub use create::CreateArgs;
pub use entry::create_progress;
