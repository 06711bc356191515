//! Writes that leave together as one batch.

mod gate;
mod meeting;
mod refusals;
mod split;

pub(super) use self::gate::{Merge as Slot, Merging as State};
pub(super) use self::meeting::{
    on_end, on_error, on_leaves, on_settings, on_several_done, on_snapshot, waits,
};
pub(super) use self::refusals::Refusals;
pub(super) use self::split::part;

#[cfg(test)]
mod tests;
