//! Sizes of a column of JSON documents in each codec.

pub mod advise;
pub mod measure;
pub mod report;
mod show;
