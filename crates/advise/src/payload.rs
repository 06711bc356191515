//! What a column of JSON documents takes in each codec.

pub mod advise;
pub mod measure;
pub mod report;
mod show;
