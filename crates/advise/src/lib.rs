//! Which layouts (`helenus layouts advise`, `calibrate`) and which codecs (`helenus payload advise`) a table should have.
//! Nothing of the table is changed.

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod layouts;
pub mod payload;
