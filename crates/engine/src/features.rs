//! Features: each carries requests further than the core alone would, or tells people of them, and lives in one folder.

pub mod capture;
pub mod coalesce;
pub mod encodings;
pub mod explain;
pub(crate) mod handover;
pub(crate) mod hedge;
pub mod hot;
pub mod layouts;
pub mod lwt_turns;
pub(crate) mod merge;
pub mod pause;
pub(crate) mod prewarm;
pub mod records;
pub mod rules;
pub(crate) mod trace;
