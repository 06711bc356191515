//! A node that has joined is taught the statements that its clients use, before it serves.

mod lessons;
mod teach;

pub(super) use self::lessons::{Lessons as State, Teachers as Shared, Work};
pub(super) use self::teach::{on_joined, on_link_up, on_prepare_ended, on_tick, on_work};

#[cfg(test)]
mod tests;
