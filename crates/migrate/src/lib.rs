//! Changes of tables while clients use them: `helenus layouts` makes, compares and drops layouts, `helenus payload`
//! encodes columns and takes them back. Both read and write rows at the nodes, change the catalogue, and wait until
//! every proxy knows.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod catalogue;
mod common;
pub mod layouts;
pub mod nodes;
pub mod payload;
