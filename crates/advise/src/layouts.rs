//! Designs of layouts from statements and a sample of rows, and what the work of reads costs on a cluster.

mod admin;
pub mod advise;
mod arrange;
pub mod calibrate;
pub mod coefficients;
mod drift;
mod json;
mod learned;
mod read_rows;
mod report;
mod sample_nodes;
mod schema;
mod show;
mod sources;
mod times;
mod values;
mod workload;

#[cfg(test)]
mod tests;
