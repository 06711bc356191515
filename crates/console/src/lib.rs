//! What the commands of `helenus` have in common: a proxy's settings, progress and an orderly stop on a terminal, and
//! how figures and what others say are shown.

pub mod cells;
pub mod figures;
pub mod settings;
pub mod terminal;
