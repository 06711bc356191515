//! Encoded columns of a table: made, and taken back.

pub mod beforehand;
pub mod column;
pub mod dictionary;
pub mod disable;
pub mod documents;
pub mod enable;
mod entry;
mod journey;
mod moving;
mod pace;
mod proxies;
pub mod sample;
pub mod status;
mod target;
#[cfg(test)]
mod testing;
mod values;
