//! What a request may have to pass before it goes anywhere: shared reads, turns of conditional writes, limits.

pub mod coalesce;
pub(crate) mod graces;
pub(crate) mod holding;
pub mod lwt_queue;
pub(crate) mod merge;
pub(crate) mod rules;
pub mod scan_limit;
