//! The common part of the commands of `helenus`: a proxy's settings and its admin server, progress and an orderly
//! stop on a terminal, times and sizes as options name them, and how figures and what others say are shown.

pub mod admin;
pub mod cells;
pub mod figures;
pub mod open_files;
pub mod quantities;
pub mod settings;
pub mod terminal;
