//! Flights and weather of New York City's airports: the data set, its tables, and two workloads.

pub mod dataset;
pub mod queries;
pub mod reports;
pub mod tables;
pub mod three_keys;
